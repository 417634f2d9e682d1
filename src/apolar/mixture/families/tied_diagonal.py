"""Diagonal covariances, the same for all components (mclust's EEI)."""

from apolar.mixture.families.base import Family
from apolar.mixture.families.diagonal import Diagonal
from apolar.mixture.families.shared import SharedCovariance
from apolar.mixture.families.tied_spherical import TiedSpherical


class TiedDiagonal(SharedCovariance, Diagonal):
    """Components whose columns are independent, of the same variances in all."""

    name = "tied_diag"
    code = "EEI"
    words = "stretched along the columns, all in the same way"

    @property
    def untied(self) -> Family:
        return Diagonal()

    @property
    def as_spherical(self) -> Family:
        return TiedSpherical()
