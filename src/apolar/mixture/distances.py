"""How far rows are from the components of a mixture."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from apolar._core.arrays import Array
from apolar.mixture.families.full import Full

__all__ = ["min_distances"]


def min_distances(means: Array, covariances: Array, X: Array) -> tuple[Array, Array]:
    """Return the squared Mahalanobis distance of each row from the component that is nearest by it.

    Parameters
    ----------
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray, shape (n_components, n_features), or with one more axis
        Variances of the columns, or matrices.
    X : ndarray, shape (n_samples, n_features)
        NaN where a value is missing: distances are among the values that are observed.

    Returns
    -------
    distances : ndarray, shape (n_samples,)
        Infinite if they overflow; zero where nothing is observed.
    n_observed : ndarray of int, shape (n_samples,)
    """
    observed = ~np.isnan(X)
    distances = np.full(len(X), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        if covariances.ndim == 2:
            for mean, variances in zip(means, covariances, strict=True):
                squares = ((X - mean) / np.sqrt(variances)) ** 2
                distances = np.minimum(distances, np.where(observed, squares, 0.0).sum(axis=1))
        else:
            roots = Full().root(covariances)
            patterns, which = np.unique(observed, axis=0, return_inverse=True)
            for number, pattern in enumerate(patterns):
                rows = np.flatnonzero(which.reshape(-1) == number)
                part = X[rows][:, pattern]
                for mean, root in zip(means, roots, strict=True):
                    squares = _squares(part - mean[pattern], root[pattern])
                    distances[rows] = np.fmin(distances[rows], squares)
    return distances, observed.sum(axis=1)


def _squares(offsets: Array, root: Array) -> Array:
    """Return squared Mahalanobis norms for covariances L L^t; the columns may have any units."""
    if not offsets.shape[1]:
        return np.zeros(len(offsets))
    units = np.sqrt((root**2).sum(axis=1))
    upper = np.linalg.qr((root / units[:, None]).T, mode="r")
    scaled = (offsets / units).T
    return (solve_triangular(upper, scaled, trans="T", check_finite=False) ** 2).sum(axis=0)
