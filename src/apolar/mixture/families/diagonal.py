"""Diagonal covariances: a variance per column and component (mclust's VVI)."""

from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import MIN_WEIGHT, SCATTER_ROUNDING
from apolar._core.namespaces import write
from apolar.mixture import compiled_steps
from apolar.mixture.families.base import LOG_2PI, Family, Invariance
from apolar.mixture.families.spherical import Spherical
from apolar.mixture.families.storage import scalar_log_marginal
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior, PriorTerms
from apolar.mixture.stats import SufficientStats


class Diagonal(Family):
    """Components whose columns are independent."""

    name = "diag"
    code = "VVI"
    words = "stretched along the columns, each in its own way"
    invariance = Invariance.COLUMN_SCALING
    n_axes = 1

    @property
    def untied(self) -> Family:
        return self

    @property
    def without_correlations(self) -> Family:
        return self

    @property
    def as_spherical(self) -> Family:
        return Spherical()

    def n_quadratics(self, n_features: int) -> int:
        return n_features

    def write_quadratics(self, x: Any, out: Any) -> None:
        write("multiply", x, x, out=out)

    def natural(self, parameters: WhitenedParameters) -> Array:
        known = compiled_steps.natural(self, parameters)
        if known is not None:
            return known
        weights, means = parameters.weights, parameters.means
        precisions = 1 / self.per_component(parameters.covariances)
        constants = (
            np.log(np.maximum(weights, MIN_WEIGHT))
            - 0.5 * means.shape[-1] * LOG_2PI
            + 0.5 * np.sum(np.log(precisions) - means**2 * precisions, axis=-1)
        )
        parts = np.broadcast_arrays(means * precisions, -0.5 * precisions)
        return np.concatenate([constants[..., None], *parts], axis=-1)

    def scatter(self, stats: SufficientStats) -> Array:
        counts = np.maximum(stats.counts, MIN_WEIGHT)
        differences = np.maximum(stats.second - stats.first**2 / counts[..., None], 0.0)
        return differences + SCATTER_ROUNDING * stats.second

    def identity(self, n_features: int) -> Array:
        return np.ones(n_features)

    def between(self, offsets: Array, factors: Array) -> Array:
        return factors[..., None] * offsets**2

    def divisor(self, weight: Array, n_features: int) -> Array:
        return weight

    def prior_terms(self, prior: Prior, n_components: int, n_features: int) -> PriorTerms:
        # Each column has the prior of data of one column.
        shrinkage, dof, scale = prior.scaled(n_components, 1)
        return PriorTerms(shrinkage, np.full(n_features, scale), dof + 2, 1.0)

    def log_det(self, covariances: Array, n_features: int) -> Array:
        return np.log(covariances).sum(axis=-1)

    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        return (scatter / covariances).sum(axis=-1)

    def log_marginal(self, counts: Array, spectrum: Array, strength: Array, n_features: int) -> Array:
        known = compiled_steps.log_marginals(self, counts, spectrum, strength, n_features)
        if known is not None:
            return known
        n_values = np.maximum(counts - 1, 0.0)[..., None]
        return scalar_log_marginal(n_values, spectrum, np.asarray(strength)[..., None]).sum(axis=-1)

    def marginal(self, covariances: Array, columns: list[int]) -> Array:
        return covariances[..., columns]

    def moments(self, parameters: WhitenedParameters) -> SufficientStats:
        weights, means = parameters.weights[..., None], parameters.means
        second = weights * (self.per_component(parameters.covariances) + means**2)
        return SufficientStats(
            np.concatenate([weights, weights * means, second], axis=-1), parameters.n_features
        )

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return n_components * n_features

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        return variances[:, None] * metric

    def rescaled(self, covariances: Array, units: Array) -> tuple[str, Array]:
        return self.name, covariances * units**2

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        return covariances[:, :, None] * np.eye(n_features)

    def root(self, covariances: Array) -> Array:
        return np.sqrt(covariances)

    def mean_retraction(self, root: Array, tangents: Array) -> Array:
        return root * tangents

    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        return root / covariances * vectors

    def row_information(self, n_features: int) -> Array:
        return np.full(n_features, 2.0)

    def covariance_retraction(self, root: Array, tangents: Array) -> Array:
        return root**2 * np.exp(2 * tangents)

    def covariance_gradient(self, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
        return scatter / self.covariance_retraction(root, tangents) - divisor[..., None]
