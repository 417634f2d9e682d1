"""Mean and covariance of rows, or the variances of their columns, in one pass."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from apolar._core import compiled
from apolar._core.arrays import Array
from apolar._core.namespaces import DeviceCopies, total
from apolar._core.range_finder import leading_eigenvectors
from apolar.data import Chunk, Rows, on_checked, thread_scratch
from apolar.data.rows import DENSE_COLUMNS
from apolar.data.weights import check_weights
from apolar.moments.kernels import triton
from apolar.moments.sums import KERNEL_COLUMNS, column_sums, has_kernel, on_host, second_sums

# Sums about zero lose digits in proportion to the squared ratio of mean to standard deviation: above this
# ratio, the mean is subtracted first.
MAX_SQUARED_RATIO = 1e4
# A column whose deviation is below this fraction of its mean is constant up to rounding.
ROUNDING = 1e-14


def is_constant(mean: Array, variances: Array) -> Array:
    """Return which columns are constant, up to rounding, by their means and variances."""
    return np.sqrt(np.maximum(variances, 0.0)) <= ROUNDING * np.abs(mean)


class RowCovariance(NamedTuple):
    """The first two moments of rows.

    Attributes
    ----------
    weight : float
        The sum of the weights of the rows.
    n_rows : int
    mean : ndarray, shape (n_features,)
    covariance : ndarray, shape (n_features, n_features)
        Not finite where squares overflow.
    """

    weight: float
    n_rows: int
    mean: Array
    covariance: Array

    def divided(self, units: Array) -> RowCovariance:
        """Return the moments of the rows with each column divided by its unit."""
        covariance = self.covariance / units / units[:, None]
        return RowCovariance(self.weight, self.n_rows, self.mean / units, covariance)


class ColumnMoments(NamedTuple):
    """The first two moments of each column.

    Attributes
    ----------
    weight : float
        The sum of the weights of the rows.
    n_rows : int
    mean, variances : ndarray, shape (n_features,)
        The variances are not finite where squares overflow.
    """

    weight: float
    n_rows: int
    mean: Array
    variances: Array


@np.errstate(over="ignore", invalid="ignore")
def row_covariance(rows: Rows, n_threads: int = 1, *, allows_missing: bool = False) -> RowCovariance:
    """Return total weight, number of rows, mean and covariance; infinite or NaN where squares overflow.

    With `allows_missing`, the mean of a column is NaN if values of it are missing.
    """
    shift = _shift(rows, allows_missing)
    statistic = SecondMoments(shift, n_threads)
    weight, n_rows, first, second = _sum_rows(rows, statistic, rows.n_features, allows_missing)
    offset = first / weight
    mean = offset if shift is None else shift.values + offset
    return RowCovariance(float(weight), int(n_rows), mean, second / weight - np.outer(offset, offset))


@np.errstate(over="ignore", invalid="ignore")
def column_moments(rows: Rows, n_threads: int = 1, *, allows_missing: bool = False) -> ColumnMoments:
    """Return total weight, number of rows, mean and variances; infinite or NaN where squares overflow.

    With `allows_missing`, the mean of a column is NaN if values of it are missing.
    """
    shift = _shift(rows, allows_missing)
    weight, n_rows, first, squares = _sum_rows(rows, ColumnSquares(shift, n_threads), 0, allows_missing)
    offset = first / weight
    mean = offset if shift is None else shift.values + offset
    return ColumnMoments(float(weight), int(n_rows), mean, squares / weight - offset**2)


def _sum_rows(
    rows: Rows, statistic: SecondMoments | ColumnSquares, n_columns: int, allows_missing: bool
) -> list[Any]:
    """Return a statistic of the rows: if it has a kernel and they are one array, by one call for all."""
    if rows.is_one_array and n_columns <= KERNEL_COLUMNS:
        sums = rows.reduce(lambda chunk: statistic(*as_stored(chunk)), chunk_rows=rows.n_rows)
        # The first sums are not finite if a value is not: then it is looked for.
        if bool(np.all(np.isfinite(sums[2]))):
            return sums
    of_chunk = replace(statistic, n_threads=1)
    return triton.reduce_rows(rows, of_chunk, statistic.n_threads, allows_missing=allows_missing)


def as_stored(chunk: Chunk) -> tuple[Any, Any]:
    """Return the values of a chunk, not checked, and its checked weights."""
    return chunk.values, check_weights(chunk.weights, chunk.values, chunk.first_row)


def _n_weighted(block: Array, weights: Array | None) -> int:
    return len(block) if weights is None else int(np.count_nonzero(weights))


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """The sums of weights, of ones, of x and of x x^t, with x the rows minus the shift, if there is one.

    A block is summed by `n_threads` threads, if it has a kernel.
    """

    shift: DeviceCopies | None
    n_threads: int = 1

    def __call__(self, block: Any, weights: Any) -> tuple[Any, ...] | None:
        """Return the weighted sums over a block."""
        if isinstance(block, triton.StoredBlock):
            return _stored_sums(self, block, weights, is_full=True)
        with np.errstate(over="ignore", invalid="ignore"):
            if has_kernel(block, block.shape[1]):
                centre = _centre(block, self.shift)
                weight, first, second = second_sums(block, weights, centre, self.n_threads)
                return weight, _n_weighted(block, weights), first, second
            x = shift_rows(block, self.shift)
            weighted = _weigh_rows(x, weights)
            product = weighted.T @ x
            weight = block.shape[0] if weights is None else total(weights)
            second = product.toarray() if sparse.issparse(product) else product
            return weight, block.shape[0], column_sums(weighted), second


@dataclass(frozen=True, eq=False)
class ColumnSquares:
    """The sums of weights, of ones, of x and of its squares, with x the rows minus the shift, if any.

    A block is summed by `n_threads` threads, if it has a kernel.
    """

    shift: DeviceCopies | None
    n_threads: int = 1

    def __call__(self, block: Any, weights: Any) -> tuple[Any, ...] | None:
        """Return the weighted sums over a block."""
        if isinstance(block, triton.StoredBlock):
            return _stored_sums(self, block, weights, is_full=False)
        with np.errstate(over="ignore", invalid="ignore"):
            if has_kernel(block, 0):
                row_map = compiled.RowMap(_centre(block, self.shift), np.ones(block.shape[1]))
                (stats,) = compiled.stats_under(
                    block, weights, row_map, None, compiled.DIAGONAL, self.n_threads
                )
                weight, first, squares = np.split(stats, [1, 1 + block.shape[1]])
                return float(weight[0]), _n_weighted(block, weights), first, squares
            x = shift_rows(block, self.shift)
            squares = _squares(x)
            if weights is None:
                return block.shape[0], block.shape[0], column_sums(x), column_sums(squares)
            return (
                total(weights),
                block.shape[0],
                _weighted_sums(weights, x),
                _weighted_sums(weights, squares),
            )


def _centre(block: Array, shift: DeviceCopies | None) -> Array:
    return np.zeros(block.shape[1]) if shift is None else shift.values


def shift_and_offset(rows: Rows, mean: Array, variance: float) -> tuple[Array | None, Array]:
    """Return a shift to subtract from the rows before the arithmetic, or None, and the mean after the shift.

    Sparse rows of many columns are not shifted: they would become dense.

    Parameters
    ----------
    rows : Rows
    mean : ndarray, shape (n_features,)
    variance : float
        The sum of the variances of the columns.

    Returns
    -------
    shift : ndarray, shape (n_features,), or None
    offset : ndarray, shape (n_features,)
        The mean minus the shift.
    """
    is_wide = rows.is_sparse and rows.n_features > DENSE_COLUMNS
    if is_wide or not float(mean @ mean) > MAX_SQUARED_RATIO * variance:
        return None, mean
    return mean, np.zeros_like(mean)


def shift_rows(block: Any, shift: DeviceCopies | None) -> Any:
    """Return the rows minus the shift, dense; without a shift, the rows themselves."""
    if shift is None:
        return block
    dense = block.toarray() if sparse.issparse(block) else block
    return thread_scratch().compute("subtract", "shifted", dense, shift.to_device_of(dense))


def _shift(rows: Rows, allows_missing: bool) -> DeviceCopies | None:
    """Return the mean of the first block if a column is so far from zero that sums about zero lose digits."""
    if rows.is_sparse and rows.n_features > DENSE_COLUMNS:
        return None
    weight, _, first, squares = rows.first(on_checked(_sums_on_host, allows_missing=allows_missing))
    mean = first / weight
    variances = np.maximum(squares / weight - mean**2, 0.0)
    return DeviceCopies(mean) if np.any(mean**2 > MAX_SQUARED_RATIO * variances) else None


def _sums_on_host(block: Any, weights: Any) -> list[Any]:
    return on_host(ColumnSquares(None)(block, weights) or ())


def _squares(block: Any) -> Any:
    if sparse.issparse(block):
        return block.multiply(block)
    return thread_scratch().compute("multiply", "squares", block, block)


def _weigh_rows(block: Any, weights: Any) -> Any:
    if weights is None:
        return block
    if sparse.issparse(block):
        return block.multiply(weights[:, None]).tocsr()
    return weights[:, None] * block


def _weighted_sums(weights: Any, block: Any) -> Any:
    """Return the weighted sums of the columns."""
    return np.asarray(weights @ block).ravel() if sparse.issparse(block) else weights @ block


def _stored_sums(
    statistic: SecondMoments | ColumnSquares, block: triton.StoredBlock, weights: Any, *, is_full: bool
) -> tuple[Any, ...] | None:
    """Return a statistic of rows as they are stored on a GPU, by a kernel; None if it is not finite."""
    shift = None if statistic.shift is None else statistic.shift.values
    sums = triton.second_sums(block, weights, shift, is_full=is_full)
    return None if sums is None else (*block.count(weights), *sums)


def leading_directions(
    rows: Rows,
    mean: Array,
    variance: float,
    weight: float,
    n_signal: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Return leading eigenvalues and eigenvectors of the covariance without forming it.

    Parameters
    ----------
    rows : Rows
        Rereadable.
    mean : ndarray, shape (n_features,)
    variance : float
        The sum of the variances of the columns.
    weight : float
        The total weight of the rows.
    n_signal : int
        The number of eigenvectors; fewer where the covariance has a lower rank.
    rng : numpy.random.Generator

    Returns
    -------
    eigenvalues : ndarray
        Largest first; `n_signal` of them, and some less accurate ones.
    eigenvectors : ndarray, shape (n_features, n_signal)
    """
    shift, offset = shift_and_offset(rows, mean, variance)
    device_shift = None if shift is None else DeviceCopies(shift)

    def product(basis: Array) -> Array:
        sums_of = CovarianceProduct(device_shift, DeviceCopies(basis), DeviceCopies(offset @ basis))
        working = functools.partial(Rows.chunk_rows, n_working=basis.shape[1])
        sums, of_coordinates = rows.reduce(on_checked(sums_of), chunk_rows=working)
        return np.asarray((sums - np.outer(offset, of_coordinates)) / weight)

    return leading_eigenvectors(product, rows.n_features, n_signal, rng)


@dataclass(frozen=True, eq=False)
class CovarianceProduct:
    """The sums of x (z . b) and of z . b for some directions b, which give the covariance times b.

    Here x are the rows minus the shift, and z = x - offset.

    Attributes
    ----------
    shift : DeviceCopies or None
    basis : DeviceCopies, shape (n_features, n_directions)
    centre : DeviceCopies, shape (n_directions,)
        The coordinates of the offset in these directions.
    """

    shift: DeviceCopies | None
    basis: DeviceCopies
    centre: DeviceCopies

    def __call__(self, block: Any, weights: Any) -> tuple[Any, Any]:
        """Return the weighted sums over a block."""
        x = shift_rows(block, self.shift)
        y = x @ self.basis.to_device_of(x) - self.centre.to_device_of(x)
        weighted = y if weights is None else weights[:, None] * y
        return x.T @ weighted, column_sums(weighted)
