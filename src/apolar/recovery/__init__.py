"""Recovery of a mixture from its moments: algorithm 1 of the paper, and the equivariant form."""

from apolar.recovery.algorithm1 import recover
from apolar.recovery.mixtures import mixture_from_moments

__all__ = ["mixture_from_moments", "recover"]
