"""Spherical covariances: one variance per component (mclust's VII)."""

from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import MIN_WEIGHT, SCATTER_ROUNDING
from apolar._core.namespaces import namespace
from apolar.mixture import compiled_steps
from apolar.mixture.families.base import LOG_2PI, Family, Invariance
from apolar.mixture.families.storage import scalar_log_marginal
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior, PriorTerms
from apolar.mixture.stats import SufficientStats


class Spherical(Family):
    """Components of covariance v_k I."""

    name = "spherical"
    code = "VII"
    words = "round, each with its own size"
    invariance = Invariance.SCALING
    n_axes = 0

    @property
    def untied(self) -> Family:
        return self

    @property
    def without_correlations(self) -> Family:
        return self

    @property
    def as_spherical(self) -> Family:
        return self

    def n_quadratics(self, n_features: int) -> int:
        return 1

    def write_quadratics(self, x: Any, out: Any) -> None:
        if isinstance(x, np.ndarray):
            np.einsum("ij,ij->j", x, x, out=out[0])
        else:
            out[0, :] = namespace(x).sum(x * x, axis=0)

    def natural(self, parameters: WhitenedParameters) -> Array:
        known = compiled_steps.natural(self, parameters)
        if known is not None:
            return known
        variances = self.per_component(parameters.covariances)
        weights, means = parameters.weights, parameters.means
        n_features = means.shape[-1]
        out = np.empty((*weights.shape, n_features + 2))
        out[..., 0] = (
            np.log(np.maximum(weights, MIN_WEIGHT))
            - 0.5 * n_features * (LOG_2PI + np.log(variances))
            - 0.5 * np.einsum("...i,...i->...", means, means) / variances
        )
        out[..., 1:-1] = means / variances[..., None]
        out[..., -1] = -0.5 / variances
        return out

    def scatter(self, stats: SufficientStats) -> Array:
        first = stats.first
        squares = np.einsum("...i,...i->...", first, first) / np.maximum(stats.counts, MIN_WEIGHT)
        return np.maximum(stats.second[..., 0] - squares, 0.0) + SCATTER_ROUNDING * stats.second[..., 0]

    def identity(self, n_features: int) -> Array:
        return np.ones(())

    def between(self, offsets: Array, factors: Array) -> Array:
        return factors * np.einsum("...i,...i->...", offsets, offsets)

    def divisor(self, weight: Array, n_features: int) -> Array:
        return weight * n_features

    def prior_terms(self, prior: Prior, n_components: int, n_features: int) -> PriorTerms:
        shrinkage, dof, scale = prior.scaled(n_components, n_features)
        return PriorTerms(shrinkage, np.asarray(scale), dof + 2, float(n_features))

    def log_det(self, covariances: Array, n_features: int) -> Array:
        return n_features * np.log(covariances)

    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        return scatter / covariances

    def log_marginal(self, counts: Array, spectrum: Array, strength: Array, n_features: int) -> Array:
        known = compiled_steps.log_marginals(self, counts, spectrum, strength, n_features)
        if known is not None:
            return known
        n_values = n_features * np.maximum(counts - 1, 0.0)
        return scalar_log_marginal(n_values, spectrum[..., 0], n_features * strength)

    def marginal(self, covariances: Array, columns: list[int]) -> Array:
        return covariances

    def moments(self, parameters: WhitenedParameters) -> SufficientStats:
        weights, means = parameters.weights, parameters.means
        n_features = means.shape[-1]
        out = np.empty((*weights.shape, n_features + 2))
        out[..., 0] = weights
        out[..., 1:-1] = weights[..., None] * means
        squares = np.einsum("...i,...i->...", means, means)
        out[..., -1] = weights * (n_features * self.per_component(parameters.covariances) + squares)
        return SufficientStats(out, n_features)

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return n_components

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        return variances * metric

    def rescaled(self, covariances: Array, units: Array) -> tuple[str, Array]:
        return "diag", covariances[..., None] * units**2

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        return covariances[:, None, None] * np.eye(n_features)

    def root(self, covariances: Array) -> Array:
        return np.sqrt(covariances)

    def mean_retraction(self, root: Array, tangents: Array) -> Array:
        return root[..., None] * tangents

    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        return (root / covariances)[..., None] * vectors

    def row_information(self, n_features: int) -> Array:
        return np.full(1, 2.0 * n_features)

    def covariance_retraction(self, root: Array, tangents: Array) -> Array:
        return root**2 * np.exp(2 * tangents[..., 0])

    def covariance_gradient(self, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
        return (scatter / self.covariance_retraction(root, tangents) - divisor)[..., None]
