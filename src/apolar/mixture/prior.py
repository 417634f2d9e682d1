"""Priors that keep components from collapsing on a few rows, conjugate or adapted to the rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import positive_number
from apolar._core.settings import SETTINGS
from apolar.mixture.evidence import common_covariance, evidence_of_strengths
from apolar.mixture.families import Family, PriorTerms, conjugate_terms
from apolar.mixture.parameters import SufficientStats

__all__ = ["PRIORS", "AdaptivePrior", "Prior", "PriorTerms", "Shrinkage", "shrinkage_terms"]


@dataclass(frozen=True)
class Prior:
    """A weak conjugate prior on means and covariances, in the manner of [fraley2007].

    It is relative to the data: covariances are shrunk towards a fraction of the
    covariance of all rows. It has the weight of a few rows, so that it hardly
    changes large components, and keeps the covariance of a component of one or
    two rows from vanishing.

    Attributes
    ----------
    shrinkage : float, default=0.0
        The number of rows, at the mean of all rows, that are added to each
        component; 0.01 in mclust. Any number above zero widens a component by
        the square of its distance from the mean of all rows.
    dof : float or None, default=None
        Degrees of freedom of the inverse Wishart (or inverse gamma) prior.
        None: n_features + 2 for spherical covariances, as in mclust, 3 per
        column for diagonal ones; for full ones the prior counts as one row.
    scale : float or None, default=None
        The prior scale as a fraction of the variance of all rows. None:
        n_components^(-2 / n_features), and n_components^(-2) for diagonal
        covariances: the variance of one of as many equal parts of the data; a
        hundredth of that for full covariances, where more would widen thin
        clusters.
    noise : ndarray or None, default=None
        The covariance, in whitened coordinates and as one of the family that
        is fitted, of rounding errors of the rows. The rows of the prior then
        have them too: without, the covariance of a component of few rows could
        be smaller than that of the errors.
    """

    shrinkage: float = 0.0
    dof: float | None = None
    scale: float | None = None
    noise: Array | None = field(default=None, kw_only=True, repr=False, compare=False)

    compares_by_evidence: ClassVar[bool] = False
    """Whether optima are compared by evidence, and not by likelihood."""

    def __post_init__(self) -> None:
        if self.shrinkage != 0:
            positive_number(self.shrinkage, "shrinkage")
        for name in ("dof", "scale"):
            value = getattr(self, name)
            if value is not None:
                positive_number(value, name)
        if self.noise is not None and not isinstance(self.noise, np.ndarray):
            raise TypeError(f"noise must be an array; got {type(self.noise).__name__}.")

    def terms(self, family: Family, n_components: int, n_features: int) -> PriorTerms:
        """Return what the prior adds to the M-step of a family; a prior of another form has its own."""
        return conjugate_terms(family, n_components, n_features, self.shrinkage, self.dof, self.scale)

    def adapted_to(
        self,
        family: Family,  # noqa: ARG002
        stats: SufficientStats,  # noqa: ARG002
        *,
        by_evidence: bool = False,  # noqa: ARG002
    ) -> Prior:
        """Return the prior for components of these sufficient statistics; here it is the same for all."""
        return self

    def shrinks(self, family: Family, n_components: int) -> bool:
        """Return whether `adapted_to` gives a `Shrinkage`: if there are several covariances."""
        return self.compares_by_evidence and not family.shared and n_components > 1

    def of_strength(self, strength: float) -> Prior:  # noqa: ARG002
        """Return the prior of a strength that is known; this one has none."""
        return self


@dataclass(frozen=True)
class AdaptivePrior(Prior):
    """A prior whose strength and target are estimated from the rows: the default of the estimator.

    The covariances of the components are taken to be drawn around a common one, up to their volume, from an
    inverse Wishart distribution, as in [greene1989] for classes that are known. Its degrees of freedom, the
    strength, are those of the largest evidence, as in [haff1980]. So components of few rows, or of similar
    shape, are estimated with the help of the others, and components of many rows each by itself: the strength
    does not grow with the number of rows. Components that share their covariance have the conjugate prior.

    Attributes
    ----------
    strength : float or None, default=None
        The strength where it is not estimated. None: that of the search for starts.
    """

    strength: float | None = None

    compares_by_evidence = True

    def adapted_to(self, family: Family, stats: SufficientStats, *, by_evidence: bool = False) -> Prior:
        """Return the prior for components of these sufficient statistics.

        Parameters
        ----------
        family : Family
        stats : SufficientStats
            Of one mixture or of a batch.
        by_evidence : bool, default=False
            Whether to estimate the strength.

        Returns
        -------
        prior : Prior
        """
        n_components, n_features = stats.first.shape[-2:]
        if not self.shrinks(family, n_components):
            return self.of_strength(0.0)
        conjugate = self.terms(family, n_components, n_features)
        target = common_covariance(family, stats, conjugate)
        evidence = None
        if by_evidence:
            evidence, best = evidence_of_strengths(family, stats, target)
            # The target is estimated from the same components: as a variance by the deviations from an
            # estimated mean, the scale of their distribution has one degree of freedom less.
            strength = np.maximum(best * (n_components - 1) / n_components, SETTINGS.min_strength)
        else:
            per_column = family.untied.n_covariance_parameters(1, n_features) / n_features
            searched = SETTINGS.min_strength + SETTINGS.search_strength * per_column
            one = searched if self.strength is None else max(self.strength, SETTINGS.min_strength)
            strength = np.full((*stats.counts.shape[:-1], 1), one)
        # With other degrees of freedom, or scale, the target is not the one by which mixtures are compared.
        is_usual = self.dof is None and self.scale is None
        added = shrinkage_terms(family, target, strength, n_features)._replace(shrinkage=conjugate.shrinkage)
        return Shrinkage(added=added, strength=strength, evidence=evidence if is_usual else None)

    def of_strength(self, strength: float) -> Prior:
        """Return the prior of a strength that is known; of strength zero it is the conjugate one."""
        if strength > 0:
            return replace(self, strength=strength)
        return Prior(self.shrinkage, self.dof, self.scale, noise=self.noise)


@dataclass(frozen=True, eq=False)
class Shrinkage(Prior):
    """A prior under which each component has some more rows, of a given covariance about its mean.

    Up to one row that makes up for the estimated mean, its logarithm is minus `strength` times the sum of the
    Kullback-Leibler divergences of the components from their targets. These have the noise of the rows.

    Attributes
    ----------
    added : PriorTerms
        What the prior adds to the M-step.
    strength : ndarray, shape (..., 1)
        How many rows they are: one number for all components of a mixture.
    evidence : ndarray or None
        The evidence of the scatters that the strength was estimated from, per mixture, where it is what
        `apolar.mixture.evidence` computes of them.
    """

    added: PriorTerms = field(kw_only=True)
    strength: Array = field(kw_only=True)
    evidence: Array | None = field(default=None, kw_only=True)

    def terms(self, family: Family, n_components: int, n_features: int) -> PriorTerms:  # noqa: ARG002
        """Return what the prior adds to the M-step."""
        return self.added


def shrinkage_terms(family: Family, target: Array, strength: Array, n_features: int) -> PriorTerms:
    """Return what `strength` rows per component add to the M-step, of target covariances."""
    unit = float(family.divisor(np.ones(()), n_features))
    floor = SETTINGS.prior_floor * family.identity(n_features)
    constants = 0.5 * strength * (family.log_det(target, n_features) + n_features)
    scatter = unit * (family.each(strength) * target + floor)
    return PriorTerms(0.0, scatter, unit * (strength - 1), 0.0, constants.sum(axis=-1))


PRIORS: dict[str, type[Prior]] = {"Prior": Prior}
"""The priors that a file can name. A new one is a subclass with `terms` of its own, and a line here."""
