"""From moments and their decomposition to the mixture: algorithm 1, and the equivariant form."""

from apolar.recovery.algorithm1 import recover
from apolar.recovery.mixtures import mixture_from_moments

__all__ = ["mixture_from_moments", "recover"]
