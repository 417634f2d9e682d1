"""Spherical covariances of one variance for all components (mclust's EII)."""

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.shared import SharedCovariance
from apolar.mixture.families.spherical import Spherical


class TiedSpherical(SharedCovariance, Spherical):
    """Components of covariance v I, the same v for all."""

    name = "tied_spherical"
    code = "EII"
    words = "round, all of one size"

    @property
    def untied(self) -> Family:
        return Spherical()

    def rescaled(self, covariances: Array, units: Array) -> tuple[str, Array]:
        return "tied_diag", covariances[..., None] * units**2
