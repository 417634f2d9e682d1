"""The compiled M-step of families that share covariances, or parts of them."""

from __future__ import annotations

from apolar._core.arrays import Array
from apolar.mixture.families import sharing
from apolar.mixture.families.base import Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import PriorTerms
from apolar.mixture.stats import SufficientStats


class SharedSteps(Family):
    """A family whose M-step the kernels know by its code."""

    @property
    def compiled_code(self) -> str | None:
        # A family that derives from one of these may estimate its covariances in another way.
        return self.code if "code" in vars(type(self)) else None

    def compiled_m_step(
        self, stats: SufficientStats, terms: PriorTerms | None, near: WhitenedParameters | None
    ) -> tuple[Array, Array] | None:
        return sharing.m_step(self, stats, terms, near)
