"""Priors that adapt to the rows: covariances shrunk towards a common one, and rows with rounding errors."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.mixture import compiled_steps
from apolar.mixture.parameters import SufficientStats
from apolar.mixture.prior import Prior, PriorTerms

if TYPE_CHECKING:
    from apolar.mixture.families import Family

__all__ = [
    "AdaptivePrior",
    "RoundedPrior",
    "Shrinkage",
    "common_covariance",
    "evidence_of_strengths",
    "has_volumes",
]

# The strengths that are compared.
STRENGTHS = np.geomspace(SETTINGS.min_strength, 2000.0, 32)
LOG_STRENGTHS = np.log(STRENGTHS).tolist()
LOG_STEP = LOG_STRENGTHS[1] - LOG_STRENGTHS[0]
# The least number of rows of a component in divisors.
MIN_COUNT = 1e-10


@dataclass(frozen=True, eq=False)
class Shrinkage(Prior):
    """A prior under which each component has some more rows, of a given covariance about its mean.

    Up to one row that makes up for the estimated mean, its logarithm is minus `strength` times the sum of the
    Kullback-Leibler divergences of the components from their targets.

    Attributes
    ----------
    target : ndarray
        The covariance of those rows, per component, in whitened coordinates.
    strength : ndarray, shape (..., 1)
        How many rows they are: one number for all components of a mixture.
    evidence : ndarray or None
        The evidence of the scatters that the strength was estimated from, per mixture, where it is what
        `apolar.mixture.evidence` computes of them.
    """

    target: Array = field(kw_only=True)
    strength: Array = field(kw_only=True)
    evidence: Array | None = field(default=None, kw_only=True)

    def terms(self, family: Family, n_components: int, n_features: int) -> PriorTerms:
        """Return what the prior adds to the M-step."""
        if self._terms_of.get(family) is None:
            self._terms_of[family] = self._terms(family, n_components, n_features)
        return self._terms_of[family]

    @functools.cached_property
    def _terms_of(self) -> dict[Family, PriorTerms]:
        """The terms under a family, which EM asks for in each step; the target has one number of columns."""
        return {}

    def _terms(self, family: Family, n_components: int, n_features: int) -> PriorTerms:
        base = super().terms(family, n_components, n_features)
        rows = self.strength
        one = (None,) * family.n_axes
        unit = float(family.divisor(np.ones(()), n_features))
        constants = 0.5 * rows * (family.log_det(self.target, n_features) + n_features)
        return base._replace(
            scatter=unit
            * (rows[(..., *one)] * self.target + SETTINGS.prior_floor * family.identity(n_features)),
            divisor=unit * (rows - 1),
            mean_divisor=0.0,
            constant=constants.sum(axis=-1),
        )


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

    def adapted_to(
        self,
        family: Family,
        stats: SufficientStats,
        *,
        by_evidence: bool = False,
    ) -> Prior:
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
            return self.conjugate
        target = common_covariance(family, stats, self)
        shape, evidence = (*stats.counts.shape[:-1], 1), None
        if by_evidence:
            height, best = evidence_of_strengths(family, stats, target)
            # Otherwise the target is not the one by which mixtures are compared.
            evidence = height if self.dof is None and self.scale is None else None
            # The target is estimated from the same components: as a variance by the deviations from an
            # estimated mean, the scale of their distribution has one degree of freedom less.
            strengths = np.maximum(best * (n_components - 1) / n_components, SETTINGS.min_strength)
        elif self.strength is not None:
            strengths = np.full(shape, max(self.strength, SETTINGS.min_strength))
        else:
            per_column = family.untied.n_covariance_parameters(1, n_features) / n_features
            strengths = np.full(shape, SETTINGS.min_strength + SETTINGS.search_strength * per_column)
        own = self.shrinkage, self.dof, self.scale
        return Shrinkage(*own, target=target, strength=strengths, evidence=evidence)

    def shrinks(self, family: Family, n_components: int) -> bool:
        """Return whether covariances are shrunk: if there are several."""
        return not family.shares_parameters and n_components > 1

    def of_strength(self, strength: float) -> Prior:
        """Return the prior of a strength that is known; of strength zero it is the conjugate one."""
        return replace(self, strength=strength) if strength > 0 else self.conjugate

    @property
    def conjugate(self) -> Prior:
        """The conjugate prior, for components that share a covariance, or where evidence is misleading."""
        return Prior(self.shrinkage, self.dof, self.scale)


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


def common_covariance(family: Family, stats: SufficientStats, prior: Prior) -> Array:
    """Return the common covariance of the components, with a volume for each of them.

    Parameters
    ----------
    family : Family
    stats : SufficientStats
        Of one mixture or of a batch.
    prior : Prior
        The conjugate prior, which keeps the common covariance from being singular.

    Returns
    -------
    covariances : ndarray
        One per component, all of the same shape and orientation. Covariances without a shape have the same
        volume too.
    """
    n_features = stats.n_features
    n_components = stats.counts.shape[-1]
    base = Prior.terms(prior, family, n_components, n_features)
    added = base.scatter / base.divisor
    known = compiled_steps.common_covariance(
        family,
        stats,
        added,
        min_count=MIN_COUNT,
        volume_rows=SETTINGS.volume_rows,
        rounds=SETTINGS.volume_rounds if has_volumes(family, n_features) else 0,
    )
    if known is not None:
        return known
    axis = stats.counts.ndim - 1
    one = (None,) * family.n_axes
    counts = np.maximum(stats.counts, MIN_COUNT)
    scatter = family.scatter(stats)
    total = np.asarray(family.divisor(counts.sum(axis=-1) + 1.0, n_features))
    volumes = np.ones_like(counts)

    def pooled(volumes: Array) -> Array:
        # Floored, as rounding in the scatter of distant rows can exceed what the prior adds.
        return family.floored(((scatter / volumes[(..., *one)]).sum(axis=axis) + added) / total[(..., *one)])

    common = pooled(volumes)
    if has_volumes(family, n_features):
        for _ in range(SETTINGS.volume_rounds):
            # By rounding, the scatter of one row can be below zero.
            ratios = np.maximum(family.trace_ratio(scatter, np.expand_dims(common, axis)) / n_features, 0.0)
            volumes = (ratios + SETTINGS.volume_rows) / (counts + SETTINGS.volume_rows)
            logs = np.log(volumes)
            mean = (counts * logs).sum(axis=-1, keepdims=True) / counts.sum(axis=-1, keepdims=True)
            volumes = np.exp(logs - mean)
            common = pooled(volumes)
    # The harmonic mean, as of the scale of an inverse Wishart distribution: it is narrow wherever some of the
    # components are, so that those are not widened. Components of few rows are shrunk before.
    n_prior = family.untied.n_covariance_parameters(1, n_features) / n_features + 1
    rows = np.asarray(family.divisor(counts + n_prior, n_features))
    unit = float(family.divisor(np.ones(()), n_features))
    shrunk = scatter / volumes[(..., *one)] + unit * n_prior * np.expand_dims(common, axis)
    precisions = family.precisions(family.floored(shrunk / rows[(..., *one)]))
    # The inverse of a scatter is too large on average, the more so the fewer rows there are for each column.
    weights = counts / counts.sum(axis=-1, keepdims=True)
    n_values = family.divisor(counts, n_features)
    n_joint = n_features if family.n_axes == 2 else 1
    weights = weights * n_values / (n_values + n_joint + 1)
    common = family.precisions((weights[(..., *one)] * precisions).sum(axis=axis))
    return volumes[(..., *one)] * np.expand_dims(common, axis)


def has_volumes(family: Family, n_features: int) -> bool:
    """Return whether the targets of the components have volumes of their own: if covariances have a shape."""
    return family.n_axes > 0 and n_features > 1


def evidence_of_strengths(family: Family, stats: SufficientStats, target: Array) -> tuple[Array, Array]:
    """Return the largest evidence of the scatters over the strengths, and the strength, shape (..., 1)."""
    counts = np.maximum(stats.counts, MIN_COUNT)
    spectrum, log_dets = family.relative_spectrum(stats, target)
    strengths = STRENGTHS.reshape(-1, *(1,) * counts.ndim)
    each = family.log_marginal(counts, spectrum, strengths, stats.n_features)
    effective = np.maximum(counts - 1, 0.0)
    values = (each - 0.5 * effective * log_dets).sum(axis=-1)
    return _peak(values)


def _peak(values: Array) -> tuple[Array, Array]:
    """Return the maximum over the strengths, the first axis, and where it is: between three of them.

    A parabola through the largest value and its neighbours makes the strength a continuous function of the
    statistics, so that fits that differ by rounding have strengths that do so too.
    """
    heights, strengths = [], []
    for of_mixture in values.reshape(len(values), -1).T:
        best = int(of_mixture.argmax())
        inner = min(max(best, 1), len(STRENGTHS) - 2)
        before, at, after = of_mixture[inner - 1 : inner + 2].tolist()
        slope, bend = 0.5 * (before - after), before - 2 * at + after
        shift = min(max(slope / bend, -1.0), 1.0) if bend < 0 else 0.0
        is_inner = best == inner
        heights.append(at - 0.5 * slope * shift if is_inner else float(of_mixture[best]))
        strengths.append(math.exp(LOG_STRENGTHS[inner] + LOG_STEP * (shift if is_inner else best - inner)))
    shape = values.shape[1:]
    return np.array(heights).reshape(shape), np.array(strengths).reshape(*shape, 1)
