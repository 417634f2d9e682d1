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
    to_numpy,
    total,
    write,
)
from apolar.data import Rows, Scratch, on_checked, thread_scratch
from apolar.data.chunks import take_rows
from apolar.moments import device_sums
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


def sum_moments(
    rows: Rows, frame: Array | None, order: int, centre: Array | None, n_threads: int
) -> MomentSums:
    """Return the `MomentSums` of rows about a centre; by default the mean of their first chunk.

    Chunks of distributed rows are summed about their own means: a partition is not computed twice.
    """
    if centre is None and not rows.is_distributed:
        centre = rows.first(on_checked(_block_mean))
    directions = None if frame is None else DeviceCopies(frame.T)

    def sums(block: Any, weights: Any) -> tuple[MomentSums]:
        dense = block.toarray() if sparse.issparse(block) else block
        about = _block_mean(dense, weights) if centre is None else centre
        shifted = Centre(DeviceCopies(about), DeviceCopies(np.zeros_like(about)))
        lower = second_sums(dense, weights, shift=shifted.shift, is_full=True)
        higher, powers = power_moments(dense, weights, centre=shifted, directions=directions, order=order)
        weight, n_rows, first, second, square_times, *powers = on_host((*(lower or ()), higher, *powers))
        known = first, second, square_times, tuple(powers)
        return (MomentSums(about, frame, int(n_rows), float(weight), *known),)

    n_frame = rows.n_features if frame is None else frame.shape[1]
    n_working = sum(n_monomials(n_frame, degree) for degree in range(2, (order + 3) // 2))
    chunk_rows = functools.partial(Rows.chunk_rows, n_working=n_working)
    return rows.reduce(on_checked(sums), n_threads, chunk_rows)[0]


def _block_mean(block: Any, weights: Any) -> Array:
    """Return the weighted mean of a block, on the host."""
    first, weight = on_host([weighted_sums(block, weights), total_weight(block, weights)])
    return np.asarray(first / float(weight))


# --- sums over a block: by the compiled extension, on a GPU, or by any library ----------------------------


@dataclass(frozen=True, eq=False)
class Centre:
    """The origin of powers of rows: z = x - offset, with x the rows minus the shift.

    Attributes
    ----------
    shift : DeviceCopies, shape (n_features,), or None
        Subtracted before the arithmetic, where the mean is so far from zero that sums about zero lose digits.
    offset : DeviceCopies, shape (n_features,)
    """

    shift: DeviceCopies | None
    offset: DeviceCopies

    @property
    def values(self) -> Array:
        """The origin, shape (n_features,)."""
        return self.offset.values if self.shift is None else self.shift.values + self.offset.values


def shift_rows(block: Any, shift: DeviceCopies | None) -> Any:
    """Return the rows minus the shift, dense; without a shift, the rows themselves."""
    if shift is None:
        return block
    dense = block.toarray() if sparse.issparse(block) else block
    return thread_scratch().compute("subtract", "shifted", dense, shift.to_device_of(dense))


def has_kernel(block: Any, n_columns: int) -> bool:
    """Return whether the compiled extension sums the powers of a block of rows."""
    return compiled.kernels is not None and n_columns <= KERNEL_COLUMNS and compiled.can_read(block)


@np.errstate(over="ignore", invalid="ignore")
def second_sums(
    block: Any, weights: Any, n_threads: int = 1, *, shift: DeviceCopies | None, is_full: bool
) -> tuple[Any, ...] | None:
    """Return the weighted sums of 1, the number of rows, and sums of x, and of x x^t or of the squares of x.

    Here x are the rows minus the shift, if there is one. None for a `StoredBlock` that has to be checked.
    """
    centre = None if shift is None else shift.values
    if isinstance(block, device_sums.StoredBlock):
        return device_sums.second_sums(block, weights, centre, is_full=is_full)
    n_rows, n_columns = block.shape
    if not has_kernel(block, n_columns if is_full else 0):
        x = shift_rows(block, shift)
        second = _products(x, weights) if is_full else weighted_sums(_squares(x), weights)
        return total_weight(x, weights), n_rows, weighted_sums(x, weights), second
    kind = compiled.FULL if is_full else compiled.DIAGONAL
    row_map = compiled.RowMap(np.zeros(n_columns) if centre is None else centre, np.ones(n_columns))
    (stats,) = compiled.stats_under(block, weights, row_map, None, kind, n_threads)
    second = stats[1 + n_columns :]
    if is_full:
        products, upper = np.empty((n_columns, n_columns)), np.triu_indices(n_columns)
        products[upper] = products.T[upper] = second
        second = products
    n_weighted = n_rows if weights is None else int(np.count_nonzero(weights))
    return float(stats[0]), n_weighted, stats[1 : 1 + n_columns], second


@np.errstate(over="ignore", invalid="ignore")
def power_moments(
    block: Any,
    weights: Any,
    n_threads: int = 1,
    *,
    centre: Centre,
    directions: DeviceCopies | None,
    order: int = 3,
) -> tuple[Any, list[Any]]:
    """Return the weighted sums of |z|^2 z, and of y y y and higher powers (compact), up to an order.

    Here z are the rows minus the centre, and y their coordinates in some directions, shape
    (n_directions, n_features), or z itself.
    """
    square_times, powers = None, []
    if has_kernel(block, block.shape[1]):
        matrix = None if directions is None else np.ascontiguousarray(directions.values.T)
        row_map = compiled.RowMap(centre.values, np.ones(block.shape[1]), matrix)
        square_times, third = compiled.third_sums(block, weights, row_map, n_threads)
        powers.append(third)
    if len(powers) == order - 2:
        return square_times, powers
    # One row per coordinate: operations along long rows are fast.
    x, scratch = shift_rows(block, centre.shift), thread_scratch()
    if directions is None:
        y = np.ascontiguousarray(x.T) if isinstance(x, np.ndarray) else x.T
    elif sparse.issparse(x):
        y = directions.values @ x.T
    else:
        y = scratch.compute("matmul", "projected", directions.to_device_of(x), x.T)
    squares = row_squares(x) if square_times is None else None
    if centre.shift is None:
        offset = centre.offset.to_device_of(x)
        assert directions is not None  # rows that are not shifted are summed in some directions
        y -= (directions.to_device_of(x) @ offset)[:, None]
        squares = squares if squares is None else squares - 2 * (x @ offset) + offset @ offset
    powers += power_sums(y, weights, range(3 + len(powers), order + 1), scratch)
    if squares is not None:
        squares = squares if weights is None else squares * weights
        square_times = weighted_sums(x, squares) - total(squares) * centre.offset.to_device_of(x)
    return square_times, powers


def _products(x: Any, weights: Any) -> Any:
    """Return the weighted sum of x x^t."""
    weighted = x
    if weights is not None:
        weighted = x.multiply(weights[:, None]).tocsr() if sparse.issparse(x) else weights[:, None] * x
    products = weighted.T @ x
    return products.toarray() if sparse.issparse(products) else products


def _squares(block: Any) -> Any:
    if sparse.issparse(block):
        return block.multiply(block)
    return thread_scratch().compute("multiply", "squares", block, block)


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


def on_host(values: Iterable[Any]) -> list[Any]:
    """Return values on the host: arrays of other libraries as NumPy arrays."""
    return [to_numpy(value) if is_device_array(value) else value for value in values]


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
