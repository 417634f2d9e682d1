"""Sums of powers of rows, and their change of centre."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core import compiled
from apolar._core.arrays import Array, frozen
from apolar._core.namespaces import (
    DeviceCopies,
    is_device_array,
    namespace,
    to_device_of,
    to_numpy,
    total,
    write,
)
from apolar.data import Rows, Scratch, on_checked, thread_scratch
from apolar.data.row_arrays import take_rows
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import product_positions

# The most columns for which the compiled extension is faster than BLAS.
KERNEL_COLUMNS = 128
# The largest variance of rows whose fourth powers do not overflow; the smallest is its reciprocal.
MAX_VARIANCE = 1e140


class ScaleError(ValueError):
    """The third or fourth powers of the rows overflow or underflow."""


def check_scale(variance: float) -> None:
    """Raise ScaleError if powers of the rows overflow or underflow; zero variance is refused elsewhere."""
    if variance == 0 or 1 / MAX_VARIANCE < variance < MAX_VARIANCE:
        return
    raise ScaleError(
        f"The columns have a total variance of {variance:.3g}: third and fourth powers of the rows overflow "
        "or underflow. Divide all columns by one number, their scale, first."
    )


# --- sums that are kept -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Weighted sums of z, z z^t, |z|^2 z and, compact and in the frame, of z z z and higher powers.

    Here z = x - centre.

    Sums about different centres can be added: the result is about the centre of the first that has rows.

    Attributes
    ----------
    centre : ndarray, shape (n_features,)
    frame : ndarray, shape (n_features, n_frame), or None
        The directions of the third moments; None if these are in all coordinates.
    n_rows : int
    weight : float
        The sum of the weights.
    first : ndarray, shape (n_features,)
    second : ndarray, shape (n_features, n_features)
    square_times : ndarray, shape (n_features,)
    powers : tuple of ndarray, of shapes (n_monomials(n_frame, 3),), (n_monomials(n_frame, 4),), ...
        Sums of powers of order three and above, as far as they are kept.
    """

    centre: Array
    frame: Array | None
    n_rows: int
    weight: float
    first: Array
    second: Array
    square_times: Array
    powers: tuple[Array, ...]

    @classmethod
    def zeros(cls, n_features: int, frame: Array | None, order: int = 3) -> MomentSums:
        """Return the sums over no rows."""
        zero, n_frame = np.zeros(n_features), n_features if frame is None else frame.shape[1]
        powers = tuple(np.zeros(n_monomials(n_frame, degree)) for degree in range(3, order + 1))
        return cls(zero, frame, 0, 0.0, zero, np.zeros((n_features, n_features)), zero, powers)

    def __add__(self, other: MomentSums) -> MomentSums:
        """Return the sums over the rows of both."""
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        if other.centre is not self.centre:
            other = other.about(self.centre)
        return MomentSums(
            self.centre,
            self.frame,
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.first + other.first,
            self.second + other.second,
            self.square_times + other.square_times,
            tuple(mine + theirs for mine, theirs in zip(self.powers, other.powers, strict=True)),
        )

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite."""
        sums: tuple[Any, ...] = (self.first, self.second, self.square_times, *self.powers)
        return all(bool(np.all(np.isfinite(value))) for value in (self.weight, *sums))

    def about(self, centre: Array) -> MomentSums:
        """Return the sums about another centre."""
        # The new sums are those of z + d.
        d = self.centre - centre
        first = self.first + self.weight * d
        second = self.second + np.outer(first, d) + np.outer(d, self.first)
        square_times = self.square_times + 2 * self.second @ d + (d @ d) * self.first + np.trace(second) * d
        a, s1, s2 = d, self.first, self.second
        if self.frame is not None:
            a, s1, s2 = self.frame.T @ d, self.frame.T @ s1, self.frame.T @ s2 @ self.frame
        powers = _shift_powers(a, self.weight, s1, s2, self.powers)
        return MomentSums(centre, self.frame, self.n_rows, self.weight, first, second, square_times, powers)


def _shift_powers(
    shift: Array, weight: float, first: Array, second: Array, powers: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Return the compact sums of powers of z + shift, of order three and above, from those of z."""
    dim, order = len(shift), 2 + len(powers)
    # All sums together are those of powers of (1, z), and (1, z + shift) is a linear map of (1, z).
    compact = np.concatenate([[weight], first, second[np.triu_indices(dim)], *powers])
    matrix = np.eye(dim + 1)
    matrix[0, 1:] = shift
    shifted = SymmetricTensor(order, dim + 1, compact).change_variables(matrix).coefficients
    return tuple(np.split(shifted, [n_monomials(dim + 1, degree) for degree in range(2, order)])[1:])


def sum_moments(rows: Rows, statistic: MomentStatistic, centre: Array | None, n_threads: int) -> MomentSums:
    """Return the `MomentSums` of rows about a centre; by default the mean of their first chunk.

    Chunks of distributed rows are summed about their own means: a partition is not computed twice.
    """
    if centre is None and not rows.is_distributed:
        centre = rows.first(on_checked(_block_mean))

    def sums(block: Any, weights: Any) -> tuple[MomentSums]:
        return (statistic(block, weights, _block_mean(block, weights) if centre is None else centre),)

    chunk_rows = functools.partial(Rows.chunk_rows, n_working=statistic.n_working)
    return rows.reduce(on_checked(sums), n_threads, chunk_rows)[0]


@dataclass(frozen=True, eq=False)
class MomentStatistic:
    """The `MomentSums` of blocks of checked rows.

    Attributes
    ----------
    n_features : int
    frame : ndarray, shape (n_features, n_frame), or None
    order : int, default=3
        The highest power.
    """

    n_features: int
    frame: Array | None
    order: int = 3

    @property
    def n_working(self) -> int:
        """The number of values of working memory per row."""
        n_frame = self.n_features if self.frame is None else self.frame.shape[1]
        return sum(n_monomials(n_frame, degree) for degree in range(2, (self.order + 3) // 2))

    def __call__(self, rows: Any, weights: Any, centre: Array) -> MomentSums:
        """Return the weighted sums over a block, about a centre."""
        scratch = thread_scratch()
        # Sums that are not finite are refused at the end.
        with np.errstate(over="ignore", invalid="ignore"):
            dense = rows.toarray() if sparse.issparse(rows) else rows
            is_compiled = has_kernel(dense, self.n_features)
            z: Any = None
            powers: list[Array] = []
            if is_compiled:
                weight, first, second = second_sums(dense, weights, centre)
                square_times, third = third_sums_about(dense, weights, centre, self.frame)
                powers.append(third)
            if not is_compiled or self.order > 3:
                z = scratch.compute("subtract", "centred", dense, to_device_of(centre, dense))
                y = _contiguous_transpose(z) if self.frame is None else to_device_of(self.frame.T, z) @ z.T
                powers += on_host(power_sums(y, weights, range(3 + len(powers), self.order + 1), scratch))
            if not is_compiled:
                weighted = z if weights is None else weights[:, None] * z
                weight, first, second, square_times = on_host(
                    (
                        total_weight(z, weights),
                        weighted_sums(weighted),
                        weighted.T @ z,
                        row_squares(z) @ weighted,
                    )
                )
        sums = first, second, square_times, tuple(powers)
        return MomentSums(centre, self.frame, dense.shape[0], float(weight), *sums)


# --- powers as products of matrices -------------------------------------------------------------------


def power_sums(y: Any, weights: Any, degrees: Sequence[int], scratch: Scratch) -> list[Any]:
    """Return the compact sums of powers of rows, sum_n w y_i y_j y_k of order three and so on.

    Parameters
    ----------
    y : array, shape (dim, n)
        One row per coordinate.
    weights : array, shape (n,), or None
    degrees : sequence of int
        Ascending, from three on.
    scratch : Scratch

    Returns
    -------
    sums : list of array, of shapes (n_monomials(dim, degree),)
    """
    products = [y]
    while degrees and len(products) < (degrees[-1] + 1) // 2:
        products.append(_next_products(y, products[-1], len(products) + 1, scratch))
    sums = []
    for degree in degrees:
        # Each sum is an entry of the Hankel matrix of two degrees, some of them several times.
        left, right = products[(degree + 1) // 2 - 1], products[degree // 2 - 1]
        hankel = left @ (right if weights is None else right * weights).T
        positions = _product_positions(y.shape[0], (degree + 1) // 2, degree // 2).to_device_of(y)
        sums.append(take_rows(namespace(y).reshape(hankel, (-1,)), positions))
    return sums


def _next_products(y: Any, products: Any, degree: int, scratch: Scratch) -> Any:
    """Return products of coordinates, shape (n_monomials(dim, degree), n), from those of one degree less.

    Monomials that begin with a variable are it times those of one degree less without an earlier variable,
    and these come last.
    """
    dim, n = y.shape
    out = scratch.empty_like(f"products of {degree}", y, n_monomials(dim, degree), n)
    start = 0
    for first in range(dim):
        size = n_monomials(dim - first, degree - 1)
        write("multiply", products[-size:, :], y[first : first + 1, :], out=out[start : start + size, :])
        start += size
    return out


@functools.cache
def _product_positions(dim: int, row_degree: int, column_degree: int) -> DeviceCopies:
    """Return a position of each monomial in the flattened Hankel matrix of two degrees."""
    positions = np.zeros(n_monomials(dim, row_degree + column_degree), dtype=np.int64)
    monomials = product_positions(dim, row_degree, column_degree)
    positions[monomials.ravel()] = np.arange(monomials.size)
    return DeviceCopies(frozen(positions))


# --- by the compiled extension ------------------------------------------------------------------------


def has_kernel(block: Any, n_columns: int) -> bool:
    """Return whether the compiled extension sums the powers of a block of rows."""
    return compiled.kernels is not None and n_columns <= KERNEL_COLUMNS and compiled.can_read(block)


def second_sums(
    rows: Array, weights: Array | None, centre: Array, n_threads: int = 1, *, is_full: bool = True
) -> tuple[float, Array, Array]:
    """Return the weighted sums of 1, z, and z z^t or the squares of z, with z = x - centre."""
    n_columns, kind = len(centre), compiled.FULL if is_full else compiled.DIAGONAL
    (stats,) = compiled.stats_under(rows, weights, compiled.RowMap.of(centre), None, kind, n_threads)
    second = stats[1 + n_columns :]
    if is_full:
        products, upper = np.empty((n_columns, n_columns)), np.triu_indices(n_columns)
        products[upper] = products.T[upper] = second
        second = products
    return float(stats[0]), stats[1 : 1 + n_columns], second


def third_sums_about(
    rows: Array, weights: Array | None, centre: Array, frame: Array | None, n_threads: int = 1
) -> tuple[Array, Array]:
    """Return the weighted sums of |z|^2 z and of y y y (compact).

    Here z = x - centre, and y are its coordinates in the frame, or z itself.
    """
    return compiled.third_sums(
        rows, weights, compiled.RowMap.of(centre, 1.0 if frame is None else frame), n_threads
    )


# --- blocks of any library ----------------------------------------------------------------------------


def _contiguous_transpose(array: Any) -> Any:
    """Return the transpose of a matrix, for NumPy in C order."""
    return np.ascontiguousarray(array.T) if isinstance(array, np.ndarray) else array.T


def row_squares(block: Any) -> Any:
    """Return the squared norm of each row."""
    if sparse.issparse(block):
        return np.asarray(block.multiply(block).sum(axis=1)).ravel()
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->i", block, block)
    # This needs no temporary array of squares.
    return namespace(block).linalg.vector_norm(block, axis=1) ** 2


def total_weight(block: Any, weights: Any) -> Any:
    """Return the sum of the weights of a block, which are one if there are none."""
    return block.shape[0] if weights is None else total(weights)


def weighted_sums(block: Any, weights: Any = None) -> Any:
    """Return the weighted sums of the columns."""
    if is_device_array(block):
        return namespace(block).sum(block, axis=0) if weights is None else weights @ block
    # A product with ones is faster than a sum if the columns are few.
    return np.asarray((np.ones(block.shape[0]) if weights is None else weights) @ block).ravel()


def _block_mean(block: Any, weights: Any) -> Array:
    """Return the weighted mean of a block, on the host."""
    first, weight = on_host([weighted_sums(block, weights), total_weight(block, weights)])
    return np.asarray(first / float(weight))


def on_host(values: Iterable[Any]) -> list[Any]:
    """Return values on the host: arrays of other libraries as NumPy arrays."""
    return [to_numpy(value) if is_device_array(value) else value for value in values]
