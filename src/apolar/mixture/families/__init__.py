"""Covariance families, by scikit-learn's names and by mclust's codes."""

from apolar.mixture.families.base import Family, Invariance
from apolar.mixture.families.diagonal import Diagonal
from apolar.mixture.families.eev import EEV
from apolar.mixture.families.eve import EVE
from apolar.mixture.families.evi import EVI
from apolar.mixture.families.evv import EVV
from apolar.mixture.families.full import Full
from apolar.mixture.families.spherical import Spherical
from apolar.mixture.families.tied import Tied
from apolar.mixture.families.tied_diagonal import TiedDiagonal
from apolar.mixture.families.tied_spherical import TiedSpherical
from apolar.mixture.families.vee import VEE
from apolar.mixture.families.vei import VEI
from apolar.mixture.families.vev import VEV
from apolar.mixture.families.vve import VVE

__all__ = ["FAMILIES", "UNIVARIATE", "Family", "Invariance", "family"]

# The table of families: a new family is a file in this package and an entry here.
_ALL: tuple[Family, ...] = (
    Full(), Tied(), Diagonal(), TiedDiagonal(), Spherical(), TiedSpherical(),
    VEI(), EVI(), VEE(), EVE(), VVE(), EEV(), VEV(), EVV(),
)  # fmt: skip

FAMILIES: dict[str, Family] = {entry.name: entry for entry in _ALL} | {entry.code: entry for entry in _ALL}

UNIVARIATE: dict[str, Family] = {"E": TiedSpherical(), "V": Spherical()}
"""mclust's codes for data of one column: one variance, or one per component."""
FAMILIES |= UNIVARIATE


def family(covariance_type: str) -> Family:
    """Return a family by its name or by its code."""
    try:
        return FAMILIES[covariance_type]
    except (KeyError, TypeError):
        names = (f"{entry.name!r} ({entry.code})" for entry in _ALL if entry.name != entry.code)
        listed = ", ".join([*names, *(repr(entry.name) for entry in _ALL if entry.name == entry.code)])
        raise ValueError(f"covariance_type must be one of {listed}; got {covariance_type!r}.") from None
