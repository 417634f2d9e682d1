"""The prior for rows that are known only up to noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.parameters import SufficientStats
from apolar.mixture.prior import Prior, PriorTerms
from apolar.mixture.shrinkage import Shrinkage

if TYPE_CHECKING:
    from apolar.mixture.families import Family


@dataclass(frozen=True, eq=False)
class RoundedPrior(Prior):
    """A prior whose rows have the noise that the rows of the data have.

    The prior counts as a few rows. If these had no noise, the covariance of a component of few rows could be
    smaller than that of the noise: this prior adds the same to each covariance as the noise of the rows does.

    Attributes
    ----------
    base : Prior
        The prior of rows without noise.
    noise : ndarray or None
        The covariance of the noise in whitened coordinates, as one covariance of the family that is fitted.
    """

    base: Prior = field(default_factory=Prior)
    noise: Array | None = None

    @property
    def compares_by_evidence(self) -> bool:  # type: ignore[override]
        """Whether optima are compared by evidence, as under the prior of rows without noise."""
        return self.base.compares_by_evidence

    def shrinks(self, family: Family, n_components: int) -> bool:
        """Return whether the prior of rows without noise shrinks covariances."""
        return self.base.shrinks(family, n_components)

    def of_strength(self, strength: float) -> Prior:
        """Return the prior of a strength that is known."""
        return replace(self, base=self.base.of_strength(strength))

    @property
    def conjugate(self) -> Prior:
        """The prior to use where evidence is misleading."""
        return replace(self, base=self.base.conjugate)

    def adapted_to(
        self,
        family: Family,
        stats: SufficientStats,
        *,
        by_evidence: bool = False,
    ) -> Prior:
        """Return the prior for components of these statistics, which include the noise of their rows."""
        adapted = self.base.adapted_to(family, stats, by_evidence=by_evidence)
        # The targets of a shrinkage are estimated from the rows, and have their noise.
        return adapted if isinstance(adapted, Shrinkage) else replace(self, base=adapted)

    def terms(self, family: Family, n_components: int, n_features: int) -> PriorTerms:
        """Return what the prior adds to the M-step; in families of another form, without the noise."""
        terms = self.base.terms(family, n_components, n_features)
        if self.noise is None or self.noise.ndim != family.n_axes:
            return terms
        of_means = family.pooled(np.full(n_components, terms.mean_divisor), axis=0)
        divisor = terms.divisor + float(np.max(of_means))
        return terms._replace(scatter=terms.scatter + divisor * self.noise)
