"""Mean and covariance of rows with missing values, from the values that are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.data import Rows, on_checked
from apolar.exceptions import ColumnError
from apolar.moments.covariance import ColumnMoments, column_moments

__all__ = ["AvailableMoments", "available_moments", "observed_column_moments", "observed_sums"]

# Covariances are computed for at most this many columns; of more, only variances.
MAX_COLUMNS = 1024
# The least eigenvalue of the correlations. Each is from other rows, so that together they may not be positive
# definite.
MIN_EIGENVALUE = 1e-3


@dataclass(frozen=True, eq=False)
class AvailableMoments:
    """The first two moments of the columns of rows with missing values.

    Attributes
    ----------
    weight : float
        The sum of the weights of the rows.
    n_rows : int
    counts : ndarray, shape (n_features,)
        The weight of the rows in which each column is observed.
    mean, variances : ndarray, shape (n_features,)
    covariance : ndarray, shape (n_features, n_features)
        Positive definite, if the variances are positive. Diagonal if there are very many columns.
    """

    weight: float
    n_rows: int
    counts: Array
    mean: Array
    variances: Array
    covariance: Array

    @property
    def of_columns(self) -> ColumnMoments:
        """The moments of the columns."""
        return ColumnMoments(self.weight, self.n_rows, self.mean, self.variances)


@np.errstate(over="ignore", invalid="ignore")
def available_moments(rows: Rows, n_threads: int = 1) -> AvailableMoments:
    """Return the moments of rows with missing values, by two passes; refuse a column without any value."""
    n_features = rows.n_features
    weight, n_rows, counts, first = rows.reduce(on_checked(observed_sums, allows_missing=True), n_threads)
    if np.any(counts == 0):
        error = ColumnError(
            int(np.argmin(counts)), "of X has no observed value: leave it out, or give it some."
        )
        raise error if rows.names is None else error.with_name(rows.names)
    mean = first / counts
    if n_features > MAX_COLUMNS:
        _, squares = rows.reduce(on_checked(PairSums(mean, is_full=False), allows_missing=True), n_threads)
        variances = squares / counts
        return AvailableMoments(float(weight), int(n_rows), counts, mean, variances, np.diag(variances))
    pairs, sums, products = rows.reduce(on_checked(PairSums(mean), allows_missing=True), n_threads)
    variances = np.diag(products) / counts
    both = np.maximum(pairs, 1e-300)
    covariance = products / both - (sums / both) * (sums / both).T
    covariance = np.where(pairs > 0, covariance, 0.0)
    return AvailableMoments(
        float(weight), int(n_rows), counts, mean, variances, _positive(covariance, variances)
    )


def observed_column_moments(rows: Rows, n_threads: int = 1) -> ColumnMoments:
    """Return the moments of the columns, of which values may be missing."""
    moments = column_moments(rows, n_threads, allows_missing=True)
    if not rows.is_sparse and np.any(np.isnan(moments.mean)):
        return available_moments(rows.on_host(), n_threads).of_columns
    return moments


def _positive(covariance: Array, variances: Array) -> Array:
    """Return the nearest covariance whose correlations are positive definite, of the same variances."""
    deviations = np.sqrt(np.where(variances > 0, variances, 1.0))
    correlation = np.clip(covariance / deviations / deviations[:, None], -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    if np.all(np.isfinite(correlation)):
        values, vectors = np.linalg.eigh(correlation)
        if values[0] < MIN_EIGENVALUE:
            correlation = (vectors * np.maximum(values, MIN_EIGENVALUE)) @ vectors.T
            sizes = np.sqrt(np.diag(correlation))
            correlation = correlation / sizes / sizes[:, None]
    scales = np.sqrt(np.maximum(variances, 0.0))
    return np.asarray(correlation * scales * scales[:, None])


def observed_sums(block: Array, weights: Any) -> tuple[Any, ...]:
    """Return sums of weights and of ones, and per column of the weights and the values that are there."""
    w = np.ones(len(block)) if weights is None else weights
    missing = np.isnan(block)
    return float(w.sum()), len(block), w @ ~missing, w @ np.where(missing, 0.0, block)


@dataclass(frozen=True, eq=False)
class PairSums:
    """The sums over the rows in which two columns are observed: of weights, of the first, and of products.

    Attributes
    ----------
    mean : ndarray, shape (n_features,)
        Subtracted from the values.
    is_full : bool
        Whether pairs are summed; if not, the weights and squares of each column.
    """

    mean: Array
    is_full: bool = True

    def __call__(self, block: Array, weights: Any) -> tuple[Any, ...]:
        """Return the weighted sums over a block."""
        missing = np.isnan(block)
        x, seen = np.where(missing, 0.0, block - self.mean), (~missing).astype(np.float64)
        w = np.ones((len(block), 1)) if weights is None else weights[:, None]
        if not self.is_full:
            return (w * seen).sum(axis=0), (w * x * x).sum(axis=0)
        return (w * seen).T @ seen, (w * x).T @ seen, (w * x).T @ x
