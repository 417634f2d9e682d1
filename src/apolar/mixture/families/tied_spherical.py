"""Spherical covariances of one variance for all components (mclust's EII)."""

from apolar.mixture.families.base import Family
from apolar.mixture.families.shared import SharedCovariance
from apolar.mixture.families.spherical import Spherical


class TiedSpherical(SharedCovariance, Spherical):
    """Components of covariance v I, the same v for all."""

    name = "tied_spherical"
    code = "EII"

    @property
    def untied(self) -> Family:
        return Spherical()
