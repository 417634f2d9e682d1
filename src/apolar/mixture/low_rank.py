"""Arithmetic on covariances L L^t + P, of loadings L and a diagonal P, without matrices of all columns.

They are stored as one array, (..., n_features, 1 + n_factors): the variances P of the noise, then L.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apolar._core.arrays import Array

__all__ = ["FactorStats", "factor_precisions", "join", "move", "rescale", "split"]


def split(covariances: Array) -> tuple[Array, Array]:
    """Return the variances of the noise, and the loadings, (..., n_features, n_factors)."""
    return covariances[..., 0], covariances[..., 1:]


def join(noise: Array, loadings: Array) -> Array:
    """Return covariances of these variances of the noise and loadings."""
    return np.concatenate([np.broadcast_to(noise, loadings.shape[:-1])[..., None], loadings], axis=-1)


def rescale(covariances: Array, units: Array) -> Array:
    """Return the covariances of columns multiplied by units, one or one for each column."""
    noise, loadings = split(covariances)
    return join(noise * units**2, loadings * np.reshape(units, (-1, 1)))


def factor_precisions(covariances: Array) -> Array:
    """Return M = I + L^t P^-1 L: the inverse of the covariance of the factors of a row."""
    noise, loadings = split(covariances)
    return np.swapaxes(loadings, -1, -2) @ (loadings / noise[..., None]) + np.eye(loadings.shape[-1])


def move(covariances: Array, vectors: Array, *, is_transposed: bool = False) -> Array:
    """Return T v, with T T^t the covariance, or T^t v, for vectors of shape (..., n, n_features).

    T = P^1/2 (I + U G U^t) with the leading directions U of the loadings in units of the noise.
    """
    noise, loadings = split(covariances)
    roots = np.sqrt(noise)[..., None, :]
    scaled = np.swapaxes(loadings, -1, -2) / roots
    values, axes = np.linalg.eigh(scaled @ np.swapaxes(scaled, -1, -2))
    across = np.swapaxes(axes, -1, -2) @ scaled
    factors = 1 / (np.sqrt(1 + np.maximum(values, 0.0)) + 1)
    vectors = vectors * roots if is_transposed else vectors
    moved = vectors + (vectors @ np.swapaxes(across, -1, -2) * factors[..., None, :]) @ across
    return np.asarray(moved if is_transposed else moved * roots)


class FactorStats(NamedTuple):
    """Views of the parts of natural parameters, or of sums of statistics, of rows with their factors.

    Attributes
    ----------
    rows : ndarray, shape (..., n)
        Of (1, x, quadratics of x).
    cross : ndarray, shape (..., n_factors, n_features)
        Of the products of factors and columns.
    factors : ndarray, shape (..., n_factors)
    squares : ndarray, shape (..., n_factors, n_factors)
        Of the products of two factors.
    """

    rows: Array
    cross: Array
    factors: Array
    squares: Array

    @classmethod
    def of(cls, array: Array, n_rows: int, n_features: int) -> FactorStats:
        """Return the parts of an array, (..., n_stats), the first `n_rows` of which are of rows alone."""
        m, lead, n_others = n_features, array.shape[:-1], array.shape[-1] - n_rows
        q = round((np.sqrt((m + 1) ** 2 + 4 * n_others) - m - 1) / 2)
        ends = n_rows, n_rows + q * m, n_rows + q * (m + 1)
        rows, cross, factors, squares = np.split(array, ends, axis=-1)
        return cls(rows, cross.reshape(*lead, q, m), factors, squares.reshape(*lead, q, q))

    @property
    def array(self) -> Array:
        """The parts as one array."""
        lead = self.rows.shape[:-1]
        return np.concatenate([np.reshape(part, (*lead, -1)) for part in self], axis=-1)
