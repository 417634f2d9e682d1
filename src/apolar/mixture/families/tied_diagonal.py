"""Diagonal covariances, the same for all components (mclust's EEI)."""

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.diagonal import Diagonal
from apolar.mixture.parameters import WhitenedParameters


class TiedDiagonal(Diagonal):
    """Components whose columns are independent, of the same variances in all."""

    name = "tied_diag"
    code = "EEI"
    tied = True
    words = "stretched along the columns, all in the same way"

    @property
    def untied(self) -> Family:
        return Diagonal()

    def _each(self, parameters: WhitenedParameters) -> Array:
        return parameters.covariances[..., None, :]

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return n_features

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        return weights @ variances / weights.sum() * metric

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        each = np.broadcast_to(covariances, (n_components, n_features))
        return super().matrices(each, n_components, n_features)
