"""Covariance families, by scikit-learn's names and by mclust's codes."""

from apolar.mixture.families.base import Family, Invariance
from apolar.mixture.families.diagonal import Diagonal
from apolar.mixture.families.full import Full
from apolar.mixture.families.spherical import Spherical
from apolar.mixture.families.tied import Tied
from apolar.mixture.families.tied_diagonal import TiedDiagonal
from apolar.mixture.families.tied_spherical import TiedSpherical

__all__ = ["FAMILIES", "Family", "Invariance", "family"]

# The table of families: a new family is a file in this package and an entry here.
_ALL: tuple[Family, ...] = (Full(), Tied(), Diagonal(), TiedDiagonal(), Spherical(), TiedSpherical())

FAMILIES: dict[str, Family] = {entry.name: entry for entry in _ALL} | {entry.code: entry for entry in _ALL}


def family(covariance_type: str) -> Family:
    """Return a family by its name or by its code."""
    try:
        return FAMILIES[covariance_type]
    except (KeyError, TypeError):
        listed = ", ".join(f"{entry.name!r} ({entry.code})" for entry in _ALL)
        raise ValueError(f"covariance_type must be one of {listed}; got {covariance_type!r}.") from None
