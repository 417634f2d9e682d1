"""Full covariances, the same for all components (mclust's EEE)."""

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.full import Full


class Tied(Full):
    """Components of one covariance."""

    name = "tied"
    code = "EEE"
    tied = True
    words = "stretched in any direction, all in the same way"

    @property
    def untied(self) -> Family:
        return Full()

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return n_features * (n_features + 1) // 2

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        return weights @ variances / weights.sum() * metric

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        return np.broadcast_to(covariances, (n_components, n_features, n_features))
