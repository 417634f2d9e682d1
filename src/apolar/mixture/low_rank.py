"""Arithmetic on covariances L L^t + P, of loadings L and a diagonal P, without matrices of all columns.

They are stored as one array, (..., n_features, 1 + n_factors): the variances P of the noise, then L.

In their local coordinates, see `apolar.em.coordinates`, a tangent vector holds changes of the loadings, in
deviations of the columns, then those of the logarithms of the deviations of the noise. The information is
that of rows with their factors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.mixture.parameters import SufficientStats, WhitenedParameters

if TYPE_CHECKING:
    from apolar.mixture.factors import FactorFamily
    from apolar.mixture.prior import Prior

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


# --- local coordinates ---------------------------------------------------------------------------


def root_of(family: FactorFamily, covariances: Array) -> Array:  # noqa: ARG001
    """Return the centre of the coordinates: the covariances there."""
    return covariances


def move_means(family: FactorFamily, root: Array, steps: Array) -> Array:  # noqa: ARG001
    """Return steps of the means in their own units, from those in deviations."""
    return move(root, steps[:, None])[:, 0]


def _changes(family: FactorFamily, root: Array, tangents: Array) -> tuple[Array, Array]:
    """Return the changes of the loadings, and of the logarithms of deviations of the noise, as stored."""
    n, m = root.shape[:2]
    n_loadings = root[..., 1:].size
    loadings = tangents[:n_loadings].reshape(root[..., 1:].shape)
    of_noise = tangents[n_loadings:].reshape(family.noise.covariance_shape(n, m))
    return np.sqrt(family.diagonals(root))[..., None] * loadings, family.noise_of_columns(of_noise, m)


def information(family: FactorFamily, counts: Array, n_features: int, root: Array) -> Array:
    """Return the information about each coordinate, shape (n_coordinates,)."""
    counts = np.maximum(counts, 1.0)
    of_loadings = counts[:, None] * family.diagonals(root) / root[..., 0]
    rows = family.noise.pooled(2 * family.noise.divisor(counts, n_features), axis=0)
    of_noise = np.broadcast_to(
        family.noise.each(rows), family.noise.covariance_shape(len(counts), n_features)
    )
    each = np.broadcast_to(of_loadings[..., None], root[..., 1:].shape)
    return np.concatenate([each.ravel(), of_noise.ravel()])


def positions(family: FactorFamily, n_components: int, n_features: int) -> IndexArray:
    """Return the positions of the coordinates of each component, shape (n_components, n)."""
    shape = n_components, n_features, family.covariance_shape(n_components, n_features)[-1] - 1
    of_loadings = np.arange(np.prod(shape)).reshape(n_components, -1)
    of_noise = of_loadings.size + np.arange(
        np.prod(family.noise.covariance_shape(n_components, n_features), dtype=int)
    )
    of_noise = of_noise.reshape(1 if family.noise.shares_covariance else n_components, -1)
    each = np.broadcast_to(of_noise, (n_components, of_noise.shape[1]))
    return np.concatenate([of_loadings, each], axis=1)


def retract(family: FactorFamily, root: Array, tangents: Array) -> Array:
    """Return the covariances at a tangent vector."""
    (noise, loadings), (of_loadings, of_noise) = split(root), _changes(family, root, tangents)
    return join(noise * np.exp(2 * of_noise), loadings + of_loadings)


def gradients(
    family: FactorFamily,
    root: Array,
    tangents: Array,  # noqa: ARG001
    parameters: WhitenedParameters,
    stats: SufficientStats,
    prior: Prior | None,
) -> tuple[Array, Array]:
    """Return the gradients of the objective by the coordinates of means, and by those of covariances.

    They are the expected ones of rows with their factors.
    """
    means, m = parameters.means, parameters.n_features
    noise, loadings = split(parameters.covariances)
    kind = family.row_family
    parts = FactorStats.of(stats.array, kind.n_stats(m), m)
    expected = (loadings @ parts.factors[..., None])[..., 0]
    pull = (stats.first - stats.counts[:, None] * means - expected) / noise
    # Products of factors with offsets from the means, shape (n_components, n_features, n_factors).
    cross = np.swapaxes(parts.cross, -1, -2) - means[..., None] * parts.factors[:, None]
    of_squares = loadings @ parts.squares
    by_loadings = (cross - of_squares) / noise[..., None] * np.sqrt(family.diagonals(root))[..., None]
    about = SufficientStats(parts.rows, m)
    offsets = stats.first / np.maximum(stats.counts, 1e-300)[:, None] - means
    scatter = kind.scatter(about) + kind.between(offsets, stats.counts)
    left = (loadings * (of_squares - 2 * cross)).sum(axis=-1)
    scatter = scatter + (left if family.unit_axes else left.sum(axis=-1))
    terms = family.prior_terms(prior, len(means), m)
    of_noise = family.noise_as_stored(noise)
    summed = family.noise.pooled(scatter, 0) + terms.scatter
    divisor = family.noise.pooled(kind.divisor(stats.counts, m), 0) + terms.divisor
    by_noise = summed / of_noise - family.noise.each(divisor)
    by_mean = move(root, pull[:, None], is_transposed=True)[:, 0]
    return by_mean, np.concatenate([by_loadings.ravel(), by_noise.ravel()])
