"""Spherical covariances of one variance for all components (mclust's EII)."""

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.spherical import Spherical
from apolar.mixture.families.tied_diagonal import TiedDiagonal
from apolar.mixture.parameters import WhitenedParameters


class TiedSpherical(Spherical):
    """Components of covariance v I, the same v for all."""

    name = "tied_spherical"
    code = "EII"
    tied = True
    words = "round, all of one size"

    @property
    def untied(self) -> Family:
        return Spherical()

    def _each(self, parameters: WhitenedParameters) -> Array:
        return parameters.covariances[..., None]

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return 1

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        return weights @ variances / weights.sum() * metric

    def rescaled(self, covariances: Array, units: Array) -> tuple[Family, Array]:
        return TiedDiagonal(), covariances[..., None] * units**2

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        return super().matrices(covariances.repeat(n_components), n_components, n_features)
