"""Arithmetic on covariances L L^t + P, of loadings L and a diagonal P, without matrices of all columns.

They are stored as one array, (..., n_features, 1 + n_factors): the variances P of the noise, then L.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.checks import fits_in_memory
from apolar.mixture.storage import Covariances

__all__ = ["FactorStats", "LowRank", "factor_precisions", "join", "move", "rescale", "split"]

# The floor of the variances of the noise in whitened coordinates: a column may be a function of the factors.
MIN_NOISE_VARIANCE = 1e-8


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


class LowRank(Covariances):
    """Covariances that are L L^t + P."""

    @property
    def min_variance(self) -> float:
        """The floor of the variances of the noise in whitened coordinates."""
        return MIN_NOISE_VARIANCE

    def diagonals(self, covariances: Array) -> Array:
        """Return the variances of the columns."""
        noise, loadings = split(covariances)
        return np.asarray(noise + np.einsum("...ij,...ij->...i", loadings, loadings))

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        """Return the covariances of one mixture as matrices, if they fit into memory."""
        what = f"covariance matrices of {n_features} columns for {n_components} components"
        fits_in_memory(2 * n_components * n_features**2, what, "use marginal(columns) for some columns")
        noise, loadings = split(covariances)
        matrices = loadings @ np.swapaxes(loadings, -1, -2)
        diagonal = np.arange(n_features)
        matrices[..., diagonal, diagonal] += noise
        return np.asarray(matrices)

    def marginal(self, covariances: Array, columns: list[int]) -> Array:
        """Return the covariances of some of the columns."""
        return covariances[..., columns, :]

    def log_det(self, covariances: Array, n_features: int) -> Array:  # noqa: ARG002
        """Return the logarithms of the determinants."""
        noise, _ = split(covariances)
        return np.asarray(np.log(noise).sum(axis=-1) + np.linalg.slogdet(factor_precisions(covariances))[1])

    def precisions(self, covariances: Array) -> Array:
        """Return the inverses in the same form: 1 / P, then W, of diag(1 / P) - W W^t."""
        noise, loadings = split(covariances)
        roots = np.linalg.inv(np.linalg.cholesky(factor_precisions(covariances)))
        return join(1 / noise, (loadings / noise[..., None]) @ np.swapaxes(roots, -1, -2))

    def drawn(self, covariances: Array, of_rows: IndexArray, standard: Array) -> Array:
        """Return rows of standard normal numbers with the covariances of the components they are of."""
        rows = np.empty_like(standard)
        for k, covariance in enumerate(covariances):
            rows[of_rows == k] = move(covariance, standard[of_rows == k])
        return rows

    def smallest_variance(self, covariances: Array) -> float:
        """Return the smallest variance of the noise: in no direction is that of a component less."""
        return float(covariances[..., 0].min())

    def floored(self, covariances: Array) -> Array:
        """Return the covariances with variances of the noise raised to the floor."""
        noise, loadings = split(covariances)
        return join(np.maximum(noise, self.min_variance), loadings)

    def check_covariances(self, covariances: Array, name: str) -> None:
        """Refuse variances of the noise that are not positive."""
        if not np.all(covariances[..., 0] > 0):
            raise ValueError(f"{name} must begin with the variances of the noise, which are positive.")

    def from_precisions(self, precisions: Array, name: str) -> Array:  # noqa: ARG002
        """Refuse precisions."""
        raise ValueError(
            f"The parameter '{name}' is not for covariances of factors: give means_init, or responsibilities "
            "as init_params."
        )


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
