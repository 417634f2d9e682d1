"""Sums of powers of rows, and their change of centre."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core import compiled
from apolar._core.arrays import Array, IndexArray
from apolar._core.namespaces import (
    is_device_array,
    namespace,
    to_device_of,
    to_numpy,
    total,
)
from apolar.data import Rows, Scratch, on_checked, thread_scratch
from apolar.moments.powers import higher_sums, third_sums
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import monomial_variables

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


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Weighted sums of z, z z^t, |z|^2 z and, compact and in the frame, of z z z and higher powers.

    Here z = x - centre.

    Sums about different centres can be added: the result is about the centre of the first.

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
    third : ndarray, shape (n_monomials(n_frame, 3),)
    square_times : ndarray, shape (n_features,)
    higher : tuple of ndarray, of shapes (n_monomials(n_frame, 4),), (n_monomials(n_frame, 5),), ...
        Sums of powers of order four and above, as far as they are kept.
    """

    centre: Array
    frame: Array | None
    n_rows: int
    weight: float
    first: Array
    second: Array
    third: Array
    square_times: Array
    higher: tuple[Array, ...] = ()

    @classmethod
    def zeros(cls, n_features: int, frame: Array | None, order: int = 3) -> MomentSums:
        """Return the sums over no rows."""
        zero, n_frame = np.zeros(n_features), n_features if frame is None else frame.shape[1]
        third, *higher = (np.zeros(n_monomials(n_frame, degree)) for degree in range(3, order + 1))
        second = np.zeros((n_features, n_features))
        return cls(zero, frame, 0, 0.0, zero, second, third, zero, tuple(higher))

    def __add__(self, other: MomentSums) -> MomentSums:
        """Return the sums over the rows of both, about the centre of the first."""
        if other.centre is not self.centre:
            other = other.about(self.centre)
        return MomentSums(
            self.centre,
            self.frame,
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.first + other.first,
            self.second + other.second,
            self.third + other.third,
            self.square_times + other.square_times,
            tuple(mine + theirs for mine, theirs in zip(self.higher, other.higher, strict=True)),
        )

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite."""
        sums = (self.weight, self.first, self.second, self.third, self.square_times)
        return all(bool(np.all(np.isfinite(value))) for value in sums + self.higher)

    @property
    def mean(self) -> Array:
        """The mean of the rows."""
        return self.centre + self.first / self.weight

    def about(self, centre: Array) -> MomentSums:
        """Return the sums about another centre."""
        # The new sums are those of z + d.
        d = self.centre - centre
        if not np.any(d):
            return replace(self, centre=centre)
        second = (
            self.second + np.outer(self.first, d) + np.outer(d, self.first) + self.weight * np.outer(d, d)
        )
        trace = np.trace(self.second)
        square_times = (
            self.square_times
            + 2 * self.second @ d
            + (d @ d) * self.first
            + (trace + 2 * d @ self.first + self.weight * (d @ d)) * d
        )
        a, s1, s2 = d, self.first, self.second
        if self.frame is not None:
            a, s1, s2 = self.frame.T @ d, self.frame.T @ s1, self.frame.T @ s2 @ self.frame
        third, *higher = _shift_sums(a, self.weight, s1, s2, (self.third, *self.higher))
        return replace(
            self,
            centre=centre,
            first=self.first + self.weight * d,
            second=second,
            third=third,
            square_times=square_times,
            higher=tuple(higher),
        )


def _shift_sums(
    shift: Array, weight: float, first: Array, second: Array, powers: tuple[Array, ...]
) -> list[Array]:
    """Return the compact sums of powers of z + shift, of order three and above, from those of z."""
    dim = len(shift)
    # By the binomial theorem, for products of symmetric tensors.
    sums = [
        SymmetricTensor(1, dim, first),
        SymmetricTensor(2, dim, second[np.triu_indices(dim)]),
        *(SymmetricTensor(order, dim, power) for order, power in enumerate(powers, 3)),
    ]
    shifts = [SymmetricTensor(1, dim, shift)]
    while len(shifts) < len(sums):
        shifts.append(shifts[-1] * shifts[0])
    shifted = []
    for order in range(3, len(sums) + 1):
        total = sums[order - 1] + weight * shifts[order - 1]
        for kept in range(1, order):
            total = total + math.comb(order, kept) * (shifts[order - kept - 1] * sums[kept - 1])
        shifted.append(total.coefficients)
    return shifted


def sum_moments(rows: Rows, statistic: MomentStatistic, centre: Array | None, n_threads: int) -> MomentSums:
    """Return the `MomentSums` of rows about a centre; by default the mean of their first chunk.

    Chunks of distributed rows are summed about their own means: a partition is not computed twice.
    """
    if centre is None and not rows.is_distributed:
        centre = rows.first(on_checked(_block_mean))

    def sums(block: Any, weights: Any) -> tuple[MomentSums]:
        return statistic(block, weights, _block_mean(block, weights) if centre is None else centre)

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

    def __call__(self, rows: Any, weights: Any, centre: Array) -> tuple[MomentSums]:
        """Return the weighted sums over a block, about a centre."""
        scratch = thread_scratch()
        # Sums that are not finite are refused at the end.
        with np.errstate(over="ignore", invalid="ignore"):
            dense = rows.toarray() if sparse.issparse(rows) else rows
            if has_kernel(dense, self.n_features):
                lower = self._by_kernel(dense, weights, centre)
                if self.order == 3:
                    return (lower,)
                z = scratch.compute("subtract", "centred", dense, centre)
                return (replace(lower, higher=self._higher(z, weights, scratch)),)
            z = scratch.compute("subtract", "centred", dense, to_device_of(centre, dense))
            weighted = z if weights is None else weights[:, None] * z
            y = _contiguous_transpose(z) if self.frame is None else to_device_of(self.frame.T, z) @ z.T
            n_rows = z.shape[0]
            weight, first, second, third, square_times = on_host(
                (
                    n_rows if weights is None else total(weights),
                    column_sums(weighted),
                    weighted.T @ z,
                    third_sums(y, y if weights is None else y * weights, scratch),
                    row_squares(z) @ weighted,
                )
            )
            higher = self._higher(z, weights, scratch)
        sums = first, second, third, square_times
        return (MomentSums(centre, self.frame, n_rows, float(weight), *sums, higher),)

    def _higher(self, z: Any, weights: Any, scratch: Scratch) -> tuple[Array, ...]:
        """Return the compact sums of order four and above of centred rows."""
        if self.order == 3:
            return ()
        y = _contiguous_transpose(z) if self.frame is None else to_device_of(self.frame.T, z) @ z.T
        return tuple(on_host(higher_sums(y, weights, self.order, scratch)))

    def _by_kernel(self, rows: Array, weights: Array | None, centre: Array) -> MomentSums:
        weight, first, second = second_sums(rows, weights, centre)
        square_times, third = third_sums_about(rows, weights, centre, self.frame)
        return MomentSums(centre, self.frame, len(rows), weight, first, second, third, square_times)


def has_kernel(block: Any, n_columns: int) -> bool:
    """Return whether the compiled extension sums the powers of a block of rows."""
    return compiled.kernels is not None and n_columns <= KERNEL_COLUMNS and compiled.can_read(block)


def second_sums(
    rows: Array, weights: Array | None, centre: Array, n_threads: int = 1
) -> tuple[float, Array, Array]:
    """Return the weighted sums of 1, z and z z^t, with z = x - centre, by the compiled extension."""
    n_columns = len(centre)
    (stats,) = compiled.stats_under(rows, weights, _about(centre), None, compiled.FULL, n_threads)
    second = np.empty((n_columns, n_columns))
    upper = np.triu_indices(n_columns)
    second[upper] = second.T[upper] = stats[1 + n_columns :]
    return float(stats[0]), stats[1 : 1 + n_columns], second


def third_sums_about(
    rows: Array, weights: Array | None, centre: Array, frame: Array | None, n_threads: int = 1
) -> tuple[Array, Array]:
    """Return the weighted sums of |z|^2 z and of y y y (compact), by the compiled extension.

    Here z = x - centre, and y are its coordinates in the frame, or z itself.
    """
    directions = None if frame is None else np.ascontiguousarray(frame)
    square_times, third = compiled.third_sums(rows, weights, _about(centre, directions), n_threads)
    return square_times, third[_triple_positions(len(centre) if frame is None else frame.shape[1])]


def _about(centre: Array, directions: Array | None = None) -> compiled.RowMap:
    return compiled.RowMap(np.ascontiguousarray(centre, np.float64), np.ones(len(centre)), directions)


@functools.cache
def _triple_positions(dim: int) -> IndexArray:
    """Return the position of each monomial of degree 3 among the triples i <= j <= k, in their order."""
    triples = np.array(list(itertools.combinations_with_replacement(range(dim), 3)))
    places = dim ** np.array([2, 1, 0])
    variables = monomial_variables(dim, 3)
    return np.searchsorted(triples @ places, variables @ places)


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


def column_sums(block: Any) -> Any:
    """Return the sums of the columns; a product with ones is faster than a sum if the columns are few."""
    if is_device_array(block):
        return namespace(block).sum(block, axis=0)
    return np.asarray(np.ones(block.shape[0]) @ block).ravel()


def _block_mean(block: Any, weights: Any) -> Array:
    """Return the weighted mean of a block, on the host."""
    if weights is None:
        return on_host([column_sums(block)])[0] / block.shape[0]
    first, weight = on_host([weights @ block, total(weights)])
    return np.asarray(first).ravel() / float(weight)


def on_host(values: Iterable[Any]) -> list[Any]:
    """Return values on the host: arrays of other libraries as NumPy arrays."""
    return [to_numpy(value) if is_device_array(value) else value for value in values]
