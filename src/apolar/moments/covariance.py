"""Mean and covariance of rows, or the variances of their columns, also where values are missing."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array, leading_eigenvectors
from apolar._core.namespaces import DeviceCopies
from apolar.data import Rows, on_checked
from apolar.exceptions import ColumnError
from apolar.moments.sums import PowerSums, block_mean, centre_rows, weighted_sums

# A column whose deviation is below this fraction of its mean is constant up to rounding.
COLUMN_ROUNDING = 1e-14
# Covariances of rows with missing values are computed for at most this many columns; of more, only variances.
MAX_INCOMPLETE_COLUMNS = 1024
# The least eigenvalue of their correlations. Each is from other rows, so that together they may not be
# positive definite.
MIN_CORRELATION = 1e-3


def is_constant(mean: Array, variances: Array) -> Array:
    """Return which columns are constant, up to rounding, by their means and variances."""
    return np.sqrt(np.maximum(variances, 0.0)) <= COLUMN_ROUNDING * np.abs(mean)


@dataclass(frozen=True, eq=False)
class RowMoments:
    """The first two moments of rows.

    Attributes
    ----------
    weight : float
        The sum of the weights of the rows.
    n_rows : int
    mean, variances : ndarray, shape (n_features,)
        The variances are not finite where squares overflow.
    covariance : ndarray, shape (n_features, n_features), or None
        None if it was not asked for. Where values are missing it is always there, and positive definite, if
        the variances are positive; diagonal if there are very many columns.
    counts : ndarray, shape (n_features,), or None
        The weight of the rows in which each column is observed; None if no value is missing.
    """

    weight: float
    n_rows: int
    mean: Array
    variances: Array
    covariance: Array | None = None
    counts: Array | None = None

    def divided(self, units: Array) -> RowMoments:
        """Return the moments of the rows with each column divided by its unit."""
        covariance = None if self.covariance is None else self.covariance / units / units[:, None]
        variances = self.variances / units / units
        return replace(self, mean=self.mean / units, variances=variances, covariance=covariance)


@np.errstate(over="ignore", invalid="ignore")
def row_moments(
    rows: Rows, n_threads: int = 1, *, has_covariance: bool = False, allows_missing: bool = False
) -> RowMoments:
    """Return the first two moments of rows; infinite or NaN where squares overflow.

    Parameters
    ----------
    rows : Rows
    n_threads : int, default=1
    has_covariance : bool, default=False
        Whether to compute the covariance, and not only the variances.
    allows_missing : bool, default=False
        Whether values may be missing. A column without any value is refused. In sparse rows no value can be
        missing.
    """
    # Sums about zero lose digits where columns are far from it. Wide sparse rows minus a mean would be dense.
    centre = np.zeros(rows.n_features)
    if not rows.is_wide:
        first_mean = rows.first(on_checked(block_mean, allows_missing=allows_missing))
        centre = np.where(np.isfinite(first_mean), first_mean, 0.0)
    sums = PowerSums(DeviceCopies(centre), "full" if has_covariance else "diag")
    weight, n_rows, first, second = sums.of_rows(rows, n_threads, allows_missing=allows_missing)
    offset = first / weight
    # Sums that overflow both ways are NaN, too.
    if allows_missing and not rows.is_sparse and np.any(np.isnan(offset)):
        return _observed_moments(rows.on_host(), n_threads)
    covariance = second / weight - np.outer(offset, offset) if has_covariance else None
    variances = second / weight - offset**2 if covariance is None else np.diag(covariance)
    return RowMoments(float(weight), int(n_rows), centre + offset, variances, covariance)


# --- rows with missing values -------------------------------------------------------------------------


def _observed_moments(rows: Rows, n_threads: int) -> RowMoments:
    """Return the moments of the values that are there; refuse a column without any."""
    is_full = rows.n_features <= MAX_INCOMPLETE_COLUMNS

    def first_mean(block: Array, _: Any) -> Array:
        seen = ~np.isnan(block)
        return np.asarray(np.where(seen, block, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))

    centre = rows.first(on_checked(first_mean, allows_missing=True))

    def products(block: Array, weights: Any) -> tuple[Any, ...]:
        """Return sums over the rows in which a column, or both columns of a pair, are observed."""
        w, seen = np.ones(len(block)) if weights is None else weights, ~np.isnan(block)
        x, ones = np.where(seen, block - centre, 0.0), seen.astype(np.float64)
        if not is_full:
            return w.sum(), len(block), w @ ones, w @ x, w @ x**2
        weighted = w[:, None] * x
        return w.sum(), len(block), (w[:, None] * ones).T @ ones, weighted.T @ ones, weighted.T @ x

    sums = rows.reduce(on_checked(products, allows_missing=True), n_threads)
    weight, n_rows, pairs, first, second = sums
    n_pairs = np.maximum(pairs, np.finfo(float).tiny)
    # The means of the first column of each pair, where both are observed; zero where they never are.
    means = first / n_pairs
    covariance = second / n_pairs - means * means.T
    counts, offset, variances = pairs, means, covariance
    if is_full:
        counts, offset, variances = np.diag(pairs), np.diag(means), np.diag(covariance)
    if np.any(counts == 0):
        error = ColumnError(
            int(np.argmin(counts)), "of X has no observed value: leave it out, or give it some."
        )
        raise error if rows.names is None else error.with_name(rows.names)
    positive = _nearest_positive(covariance, variances) if is_full else np.diag(variances)
    return RowMoments(float(weight), int(n_rows), centre + offset, variances, positive, counts)


def _nearest_positive(covariance: Array, variances: Array) -> Array:
    """Return the nearest covariance whose correlations are positive definite, of the same variances."""
    deviations = np.sqrt(np.where(variances > 0, variances, 1.0))
    correlation = np.clip(covariance / deviations / deviations[:, None], -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    if np.all(np.isfinite(correlation)):
        values, vectors = np.linalg.eigh(correlation)
        if values[0] < MIN_CORRELATION:
            correlation = (vectors * np.maximum(values, MIN_CORRELATION)) @ vectors.T
            sizes = np.sqrt(np.diag(correlation))
            correlation = correlation / sizes / sizes[:, None]
    scales = np.sqrt(np.maximum(variances, 0.0))
    return np.asarray(correlation * scales * scales[:, None])


# --- leading eigenvectors without the covariance --------------------------------------------------------


def leading_directions(
    rows: Rows,
    mean: Array,
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
    centre = DeviceCopies(mean)

    def product(basis: Array) -> Array:
        directions, offsets = DeviceCopies(basis), mean @ basis

        def sums(block: Any, weights: Any) -> tuple[Any]:
            x, offset = centre_rows(block, centre)
            y = x @ directions.to_device_of(x)
            y = y if offset is None else y - offsets
            weighted = y if weights is None else weights[:, None] * y
            products = x.T @ weighted
            return (products if offset is None else products - np.outer(offset, weighted_sums(weighted)),)

        working = functools.partial(Rows.chunk_rows, n_working=basis.shape[1])
        return np.asarray(rows.reduce(on_checked(sums), chunk_rows=working)[0] / weight)

    return leading_eigenvectors(product, rows.n_features, n_signal, rng)
