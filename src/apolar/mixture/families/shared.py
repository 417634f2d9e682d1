"""Families in which all components have the same covariance."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.mixture.families.base import Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.stats import SufficientStats


class SharedCovariance(Family):
    """One covariance for all components, stored without an axis of components.

    To be named as a base class before the one that stores a covariance: `class Tied(SharedCovariance, Full)`.
    """

    shares_covariance = True

    def covariance_shape(self, n_components: int, n_features: int) -> tuple[int, ...]:
        return (n_features,) * self.n_axes

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return self.untied.n_covariance_parameters(1, n_features)

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        mean_variance = weights @ variances / weights.sum()
        return self.untied.from_spherical(np.array([mean_variance]), metric, np.ones(1))[0]

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        copies = np.broadcast_to(covariances, (n_components, *covariances.shape))
        return self.untied.matrices(copies, n_components, n_features)

    def per_component(self, covariances: Array) -> Array:
        return np.expand_dims(covariances, -1 - self.n_axes)

    def repeated(self, covariance: Array, n_components: int) -> Array:
        return covariance

    def taken(self, values: Array, components: IndexArray) -> Array:
        return values

    def appended(self, covariances: Array, covariance: Array) -> Array:
        return covariances

    def replaced(self, covariances: Array, component: int, covariance: Array) -> Array:
        return covariances

    def halved(self, covariances: Array, component: int, offset: Array) -> Array:
        return covariances

    def average(self, covariances: Array, weights: Array) -> Array:
        return covariances

    def pooled(self, values: Array, axis: int) -> Array:
        return values.sum(axis=axis)

    def without_sharing(self, parameters: WhitenedParameters) -> WhitenedParameters:
        covariances = self.per_component(parameters.covariances)
        shape = (*parameters.weights.shape, *covariances.shape[covariances.ndim - self.n_axes :])
        return WhitenedParameters(parameters.weights, parameters.means, np.broadcast_to(covariances, shape))

    def covariance_coordinates(self, n_components: int, n_features: int) -> IndexArray:
        n_shared = self.n_covariance_parameters(n_components, n_features)
        return np.broadcast_to(np.arange(n_shared), (n_components, n_shared))

    def merged(self, stats: SufficientStats, covariances: Array) -> WhitenedParameters:
        counts = stats.counts
        return WhitenedParameters(counts / counts.sum(), stats.first / counts[:, None], covariances)
