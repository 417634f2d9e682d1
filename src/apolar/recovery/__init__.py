"""Recovery of a mixture from its moments: algorithm 1 of the paper, and the equivariant form."""

from apolar.mixture import MomentMixture
from apolar.recovery.algorithm1 import Moments, recover, spherical_moments
from apolar.recovery.from_moments import (
    MomentCandidate,
    MomentSelection,
    mixture_from_moments,
    select_from_moments,
)

__all__ = [
    "MomentCandidate",
    "MomentMixture",
    "MomentSelection",
    "Moments",
    "mixture_from_moments",
    "recover",
    "select_from_moments",
    "spherical_moments",
]
