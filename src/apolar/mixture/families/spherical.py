"""Spherical covariances: one variance a component (mclust's VII)."""

from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace
from apolar.mixture.families.base import LEAST_VARIANCE, LEAST_WEIGHT, LOG_2PI, Family
from apolar.mixture.families.diagonal import Diagonal
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior


class Spherical(Family):
    """Components of covariance v_k I."""

    name = "spherical"
    code = "VII"
    tied = False
    frame_kind = "scalar"
    words = "round, each with its own size"

    @property
    def untied(self) -> Family:
        return Spherical()

    def n_quadratics(self, n_features: int) -> int:
        return 1

    def n_columns(self, n_stats: int) -> int:
        return n_stats - 2

    def write_quadratics(self, x: Any, out: Any) -> None:
        if isinstance(x, np.ndarray):
            np.einsum("ij,ij->j", x, x, out=out[0])
        else:
            out[0, :] = namespace(x).sum(x * x, axis=0)

    def natural(self, parameters: WhitenedParameters) -> Array:
        variances = self._each(parameters)
        weights, means = parameters.weights, parameters.means
        n_features = means.shape[-1]
        out = np.empty((*weights.shape, n_features + 2))
        out[..., 0] = (
            np.log(np.maximum(weights, LEAST_WEIGHT))
            - 0.5 * n_features * (LOG_2PI + np.log(variances))
            - 0.5 * np.einsum("...i,...i->...", means, means) / variances
        )
        out[..., 1:-1] = means / variances[..., None]
        out[..., -1] = -0.5 / variances
        return out

    def _each(self, parameters: WhitenedParameters) -> Array:
        """Return one variance a component."""
        return parameters.covariances

    def scatter(self, stats: Array) -> Array:
        weight, first, second = self.split(stats)
        squares = np.einsum("...i,...i->...", first, first) / np.maximum(weight, LEAST_WEIGHT)
        return np.maximum(second[..., 0] - squares, 0.0)

    def between(self, offsets: Array, factors: Array) -> Array:
        return factors * np.einsum("...i,...i->...", offsets, offsets)

    def divisor(self, weight: Array, n_features: int) -> Array:
        return weight * n_features

    def prior_terms(
        self, prior: Prior, n_components: int, n_features: int
    ) -> tuple[float, Array, float, float]:
        shrinkage, dof, scale = prior.scaled(n_components, n_features)
        return shrinkage, np.asarray(scale), dof + 2, float(n_features)

    def floored(self, covariances: Array) -> Array:
        return np.maximum(covariances, LEAST_VARIANCE)

    def log_det(self, covariances: Array, n_features: int) -> Array:
        return n_features * np.log(covariances)

    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        return scatter / covariances

    def moments(self, parameters: WhitenedParameters) -> Array:
        weights, means = parameters.weights, parameters.means
        n_features = means.shape[-1]
        out = np.empty((*weights.shape, n_features + 2))
        out[..., 0] = weights
        out[..., 1:-1] = weights[..., None] * means
        squares = np.einsum("...i,...i->...", means, means)
        out[..., -1] = weights * (n_features * self._each(parameters) + squares)
        return out

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return n_components

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        return variances * metric

    def rescaled(self, covariances: Array, units: Array) -> tuple[Family, Array]:
        return Diagonal(), covariances[..., None] * units**2

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        return covariances[:, None, None] * np.eye(n_features)

    def root(self, covariances: Array) -> Array:
        return np.sqrt(covariances)

    def mean_retraction(self, root: Array, offsets: Array) -> Array:
        return root[..., None] * offsets

    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        return (root / covariances)[..., None] * vectors

    def information(self, n_features: int) -> Array:
        return np.full(1, 2.0 * n_features)

    def covariance_retraction(self, root: Array, coordinates: Array) -> Array:
        return root**2 * np.exp(2 * coordinates[..., 0])

    def covariance_gradient(self, root: Array, coordinates: Array, scatter: Array, divisor: Array) -> Array:
        return (scatter / self.covariance_retraction(root, coordinates) - divisor)[..., None]
