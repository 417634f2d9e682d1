"""Full covariances, the same for all components (mclust's EEE)."""

from apolar.mixture.families.base import Family
from apolar.mixture.families.full import Full
from apolar.mixture.families.shared import SharedCovariance
from apolar.mixture.families.tied_diagonal import TiedDiagonal
from apolar.mixture.families.tied_spherical import TiedSpherical


class Tied(SharedCovariance, Full):
    """Components of one covariance."""

    name = "tied"
    code = "EEE"
    words = "stretched in any direction, all in the same way"

    @property
    def untied(self) -> Family:
        return Full()

    @property
    def without_correlations(self) -> Family:
        return TiedDiagonal()

    @property
    def as_spherical(self) -> Family:
        return TiedSpherical()
