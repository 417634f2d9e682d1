"""Diagonal covariances: a variance a column and component (mclust's VVI)."""

from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import write
from apolar.mixture.families.base import LEAST_VARIANCE, LEAST_WEIGHT, LOG_2PI, Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior


class Diagonal(Family):
    """Components whose columns are independent."""

    name = "diag"
    code = "VVI"
    tied = False
    frame_kind = "columns"
    words = "stretched along the columns, each in its own way"

    @property
    def untied(self) -> Family:
        return Diagonal()

    def n_quadratics(self, n_features: int) -> int:
        return n_features

    def n_columns(self, n_stats: int) -> int:
        return (n_stats - 1) // 2

    def write_quadratics(self, x: Any, out: Any) -> None:
        write("multiply", x, x, out=out)

    def natural(self, parameters: WhitenedParameters) -> Array:
        weights, means = parameters.weights, parameters.means
        precisions = 1 / self._each(parameters)
        constants = (
            np.log(np.maximum(weights, LEAST_WEIGHT))
            - 0.5 * means.shape[-1] * LOG_2PI
            + 0.5 * np.sum(np.log(precisions) - means**2 * precisions, axis=-1)
        )
        parts = np.broadcast_arrays(means * precisions, -0.5 * precisions)
        return np.concatenate([constants[..., None], *parts], axis=-1)

    def _each(self, parameters: WhitenedParameters) -> Array:
        """Return the variances of each component."""
        return parameters.covariances

    def scatter(self, stats: Array) -> Array:
        weight, first, second = self.split(stats)
        return np.maximum(second - first**2 / np.maximum(weight, LEAST_WEIGHT)[..., None], 0.0)

    def between(self, offsets: Array, factors: Array) -> Array:
        return factors[..., None] * offsets**2

    def divisor(self, weight: Array, n_features: int) -> Array:
        return weight

    def prior_terms(
        self, prior: Prior, n_components: int, n_features: int
    ) -> tuple[float, Array, float, float]:
        # The prior of a single column, on each of them.
        shrinkage, dof, scale = prior.scaled(n_components, 1)
        return shrinkage, np.full(n_features, scale), dof + 2, 1.0

    def floored(self, covariances: Array) -> Array:
        return np.maximum(covariances, LEAST_VARIANCE)

    def log_det(self, covariances: Array, n_features: int) -> Array:
        return np.log(covariances).sum(axis=-1)

    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        return (scatter / covariances).sum(axis=-1)

    def moments(self, parameters: WhitenedParameters) -> Array:
        weights, means = parameters.weights[..., None], parameters.means
        second = weights * (self._each(parameters) + means**2)
        return np.concatenate([weights, weights * means, second], axis=-1)

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return n_components * n_features

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        return variances[:, None] * metric

    def rescaled(self, covariances: Array, units: Array) -> tuple[Family, Array]:
        return self, covariances * units**2

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        return covariances[:, :, None] * np.eye(n_features)

    def root(self, covariances: Array) -> Array:
        return np.sqrt(covariances)

    def mean_retraction(self, root: Array, offsets: Array) -> Array:
        return root * offsets

    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        return root / covariances * vectors

    def information(self, n_features: int) -> Array:
        return np.full(n_features, 2.0)

    def covariance_retraction(self, root: Array, coordinates: Array) -> Array:
        return root**2 * np.exp(2 * coordinates)

    def covariance_gradient(self, root: Array, coordinates: Array, scatter: Array, divisor: Array) -> Array:
        return scatter / self.covariance_retraction(root, coordinates) - divisor[..., None]
