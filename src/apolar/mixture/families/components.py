"""The covariances of all components of a mixture, as an array."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.mixture.families.storage import CovarianceStorage


class ComponentCovariances(CovarianceStorage):
    """An array of covariances, one for each component.

    Where components share their covariance, `SharedCovariance` has one for all of them.
    """

    def covariance_shape(self, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of the covariances of a mixture."""
        return (n_components, *(n_features,) * self.n_axes)

    def per_component(self, covariances: Array) -> Array:
        """Return the covariances with an axis of components, of length one if they share a covariance."""
        return covariances

    def projected(self, covariances: Array, weights: Array) -> Array:
        """Return the covariances of the family that are nearest to those of one mixture, by divergence.

        The covariances have the shape of the family, but may not share what its components share.
        """
        return covariances

    def repeated(self, covariance: Array, n_components: int) -> Array:
        """Return the covariances of a mixture whose components all have that covariance."""
        return np.repeat(covariance[None], n_components, axis=0)

    def taken(self, values: Array, components: IndexArray) -> Array:
        """Return the values of some components of one mixture, from values per covariance."""
        return values[components]

    def appended(self, covariances: Array, covariance: Array) -> Array:
        """Return the covariances of one mixture with a component of that covariance appended."""
        return np.concatenate([covariances, covariance[None]])

    def replaced(self, covariances: Array, component: int, covariance: Array) -> Array:
        """Return the covariances of one mixture with that of one component replaced."""
        covariances = covariances.copy()
        covariances[component] = covariance
        return covariances

    def halved(self, covariances: Array, component: int, offset: Array) -> Array:
        """Return the covariances of one mixture after a component is split into two equal halves.

        The halves are at plus and minus the offset from its mean; one replaces it, the other is appended.
        """
        half = self.half_covariance(covariances[component], offset)
        return self.appended(self.replaced(covariances, component, half), half)

    def average(self, covariances: Array, weights: Array) -> Array:
        """Return the mean covariance of one mixture, under weights of sum one."""
        return np.tensordot(weights, covariances, axes=1)

    def pooled(self, values: Array, axis: int) -> Array:
        """Return values per covariance: the sums, along an axis, over the components that share it."""
        return values
