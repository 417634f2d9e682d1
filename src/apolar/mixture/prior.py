"""Priors that keep components from collapsing on a few rows, and the evidence of mixtures under them.

The evidence is a lower bound on how probable the rows are under all parameters together: that of variational
inference [corduneanu2001], with the responsibilities of EM. Covariances are drawn around a common one.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeVar

import numpy as np
from scipy.special import gammaln

from apolar._core import compiled
from apolar._core.arrays import Array
from apolar._core.checks import positive_number
from apolar._core.constants import MIN_PART
from apolar._core.settings import SETTINGS
from apolar.mixture.families import Family, PriorTerms, conjugate_terms
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, noise_weights
from apolar.mixture.storage import LOG_2PI

__all__ = [
    "PRIORS",
    "AdaptivePrior",
    "Prior",
    "PriorTerms",
    "Shrinkage",
    "common_covariance",
    "comparison_score",
    "evidence_of_strengths",
    "log_evidence",
    "shrinkage_terms",
]

Number = TypeVar("Number", float, Array)
# The strengths that are compared.
STRENGTHS = np.geomspace(SETTINGS.min_strength, 2000.0, 32)
LOG_STRENGTHS = np.log(STRENGTHS).tolist()


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
    """

    shrinkage: float = 0.0
    dof: float | None = None
    scale: float | None = None

    compares_by_evidence: ClassVar[bool] = False
    """Whether optima are compared by evidence, and not by likelihood."""
    noise: ClassVar[Array | None] = None
    """The covariance of errors of the rows, as one of the family that is fitted; None without."""

    def __post_init__(self) -> None:
        if self.shrinkage != 0:
            positive_number(self.shrinkage, "shrinkage")
        for name in ("dof", "scale"):
            if getattr(self, name) is not None:
                positive_number(getattr(self, name), name)

    def with_noise(self, noise: Array | None) -> Self:
        """Return the prior whose rows have errors of this covariance, in whitened coordinates.

        Without, the covariance of a component of few rows could be smaller than that of the errors.
        """
        prior = copy.copy(self)
        object.__setattr__(prior, "noise", noise)
        return prior

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
        prior = (
            replace(self, strength=strength) if strength > 0 else Prior(self.shrinkage, self.dof, self.scale)
        )
        return prior.with_noise(self.noise)


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
        `log_evidence` computes of them.
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


# --- the evidence -------------------------------------------------------------------------------


def comparison_score(evidence: Number, log_likelihood: Number) -> Number:
    """Return what optima of as many components are compared by: the mean of log-evidence and log-likelihood.

    The evidence decides how many parameters there should be: under a prior of the information of one row,
    each costs half the logarithm of the rows that determine it. Of optima of as many parameters one is
    returned in any case, and such a prior is too vague: small clusters of covariances of their own would be
    given up for two halves of a large one. A prior trained by the square root of the rows, as in the
    fractional Bayes factors of [ohagan1995], charges half of that, and so does the mean.
    """
    return 0.5 * (evidence + log_likelihood)


def log_evidence(
    family: Family,
    parameters: WhitenedParameters,
    stats: SufficientStats,
    log_likelihood: Array,
    of_covariances: Array | None = None,
    n_rows: float | None = None,
) -> Array:
    """Return a lower bound on the log-evidence of each mixture of a batch, given its responsibilities.

    Weights, means and covariances are integrated out: weights under the prior of Jeffreys, means under one of
    the mean and covariance of all rows, or wider, covariances under that of `AdaptivePrior`, whose common
    covariance costs half the logarithm of the number of rows per parameter, as in BIC. A covariance that all
    components share, and that of a single component, is itself the common one. So a component that fits few
    rows closely does not pay: the likelihood that it gains is less than the prior probability of finding it.

    Parameters
    ----------
    family : Family
    parameters : WhitenedParameters
        A batch.
    stats : SufficientStats
        From the E-step at the parameters.
    log_likelihood : ndarray, shape (n_mixtures,)
    of_covariances : ndarray, shape (n_mixtures,), optional
        The evidence of the scatters, if it is known: see `Shrinkage`.
    n_rows : float, optional
        With a noise component, the weight of all rows. That of the noise is integrated out with the others.

    Returns
    -------
    evidence : ndarray, shape (n_mixtures,)
        In whitened coordinates, as the log-likelihood.
    """
    entropy = log_likelihood - np.einsum("...kj,...kj->...", family.natural(parameters), stats.array)
    counts, n_features = stats.counts, stats.n_features
    n_components, total = counts.shape[-1], counts.sum(axis=-1)
    # Under the prior of Jeffreys, which prefers neither equal weights nor unequal ones.
    of_all, n_all, n_weights = counts, total if n_rows is None else n_rows, n_components
    if n_rows is not None:
        n_noise = np.maximum(n_all - total, 0.0)
        # Of the noise only the weight is a parameter: the density of its rows stays as it is.
        entropy = entropy - n_noise * np.log(noise_weights(parameters.weights))
        of_all, n_weights = np.concatenate([counts, n_noise[..., None]], axis=-1), n_components + 1
    of_weights = gammaln(n_weights / 2) - n_weights * gammaln(0.5)
    of_weights = of_weights + gammaln(of_all + 0.5).sum(axis=-1) - gammaln(n_all + n_weights / 2)
    means = stats.first / np.maximum(counts, 1.0)[..., None]
    squares = np.einsum("...ki,...ki->...", means, means)
    n_coordinates = n_components * n_features
    # The spread of the means is at least that of all rows, and larger if some of them are far away. Each mean
    # costs what that of all rows would: if it cost less for a component of few rows, a mixture with one that
    # hardly matters would be preferred to one in which all do.
    spread = np.maximum(squares / n_coordinates, 1.0)
    log_rows = np.log(np.maximum(total, 1.0))
    of_means = -0.5 * (n_coordinates * (LOG_2PI + log_rows + np.log(spread)) + squares / spread)
    if family.shared or n_components == 1:
        n_common = family.n_covariance_parameters(n_components, n_features)
        of_covariances = _shared_log_likelihood(family, stats, total)
    else:
        n_common = family.untied.n_covariance_parameters(1, n_features)
        if of_covariances is None:
            target = common_covariance(family, stats, conjugate_terms(family, n_components, n_features))
            of_covariances = evidence_of_strengths(family, stats, target)[0]
        n_common += n_components - 1 if has_volumes(family, n_features) else 0
    penalty = 0.5 * n_common * log_rows
    return np.asarray(entropy + of_weights + of_means + of_covariances - penalty)


def _shared_log_likelihood(family: Family, stats: SufficientStats, total: Array) -> Array:
    """Return the log-likelihood of the deviations from the means, at covariances that share parameters.

    Where components share a part, the conjugate prior keeps that of a component of few rows from vanishing.
    """
    n_features, n_components = stats.n_features, stats.counts.shape[-1]
    scatter = family.scatter(stats)
    if family.shares_part:
        terms = conjugate_terms(family, n_components, n_features)
        freedom = np.maximum(stats.counts - 1, 0.0)
        covariances = family.nearest(scatter + terms.scatter, freedom + terms.divisor)
        each = freedom * (n_features * LOG_2PI + family.log_det(covariances, n_features))
        return np.asarray(-0.5 * (each + family.trace_ratio(scatter, covariances)).sum(axis=-1))
    freedom = np.maximum(total - np.minimum(stats.counts, 1.0).sum(axis=-1), 1.0)
    pooled = scatter.sum(axis=stats.counts.ndim - 1)
    covariance = family.floored(pooled / family.each(family.divisor(freedom, n_features)))
    return -0.5 * freedom * (n_features * (LOG_2PI + 1) + family.log_det(covariance, n_features))


# --- covariances around a common one ------------------------------------------------------------


def common_covariance(family: Family, stats: SufficientStats, terms: PriorTerms) -> Array:
    """Return the common covariance of the components, with a volume for each of them.

    Parameters
    ----------
    family : Family
    stats : SufficientStats
        Of one mixture or of a batch.
    terms : PriorTerms
        Of the conjugate prior, which keeps the common covariance from being singular.

    Returns
    -------
    covariances : ndarray
        One per component, all of the same shape and orientation. Covariances without a shape have the same
        volume too.
    """
    n_features, shape, each = stats.n_features, stats.counts.shape, family.each
    added = terms.scatter / terms.divisor
    rounds = SETTINGS.volume_rounds if has_volumes(family, n_features) else 0
    if compiled.has_steps(family.n_axes, n_features):
        shapes = ((*shape, *(n_features,) * family.n_axes),)
        numbers = n_features, family.n_axes, shape[-1], family.min_variance, MIN_PART, SETTINGS.volume_rows
        known = compiled.take_step("common_covariance", (stats.array, added), shapes, *numbers, rounds)
        if known is not None:
            return known[0]
    axis = len(shape) - 1
    counts = np.maximum(stats.counts, MIN_PART)
    scatter = family.scatter(stats)
    total = each(family.divisor(counts.sum(axis=-1) + 1.0, n_features))
    volumes = np.ones_like(counts)

    def pooled(volumes: Array) -> Array:
        # Floored, as rounding in the scatter of distant rows can exceed what the prior adds.
        return family.floored(((scatter / each(volumes)).sum(axis=axis) + added) / total)

    common = pooled(volumes)
    for _ in range(rounds):
        # By rounding, the scatter of one row can be below zero.
        ratios = np.maximum(family.trace_ratio(scatter, np.expand_dims(common, axis)) / n_features, 0.0)
        logs = np.log((ratios + SETTINGS.volume_rows) / (counts + SETTINGS.volume_rows))
        mean = (counts * logs).sum(axis=-1, keepdims=True) / counts.sum(axis=-1, keepdims=True)
        volumes = np.exp(logs - mean)
        common = pooled(volumes)
    # The harmonic mean, as of the scale of an inverse Wishart distribution: it is narrow wherever some of the
    # components are, so that those are not widened. Components of few rows are shrunk before.
    n_prior = family.untied.n_covariance_parameters(1, n_features) / n_features + 1
    rows = family.divisor(counts + n_prior, n_features)
    unit = float(family.divisor(np.ones(()), n_features))
    shrunk = scatter / each(volumes) + unit * n_prior * np.expand_dims(common, axis)
    precisions = family.precisions(family.floored(shrunk / each(rows)))
    # The inverse of a scatter is too large on average, the more so the fewer rows there are for each column.
    weights = counts / counts.sum(axis=-1, keepdims=True)
    n_values = family.divisor(counts, n_features)
    n_joint = n_features if family.n_axes == 2 else 1
    weights = weights * n_values / (n_values + n_joint + 1)
    common = family.precisions((each(weights) * precisions).sum(axis=axis))
    return each(volumes) * np.expand_dims(common, axis)


def has_volumes(family: Family, n_features: int) -> bool:
    """Return whether the targets of the components have volumes of their own: if covariances have a shape."""
    return family.n_axes > 0 and n_features > 1


def evidence_of_strengths(family: Family, stats: SufficientStats, target: Array) -> tuple[Array, Array]:
    """Return the largest evidence of the scatters over the strengths, and the strength, shape (..., 1)."""
    counts = np.maximum(stats.counts, MIN_PART)
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
    heights, logs, step = [], [], LOG_STRENGTHS[1] - LOG_STRENGTHS[0]
    for of_mixture in values.reshape(len(values), -1).T:
        best = int(of_mixture.argmax())
        inner = min(max(best, 1), len(STRENGTHS) - 2)
        before, at, after = of_mixture[inner - 1 : inner + 2].tolist()
        slope, bend = 0.5 * (before - after), before - 2 * at + after
        # At an end of the range there is no parabola.
        shift, height = float(best - inner), float(of_mixture[best])
        if bend < 0 and best == inner:
            shift = min(max(slope / bend, -1.0), 1.0)
            height = at - 0.5 * slope * shift
        heights.append(height)
        logs.append(LOG_STRENGTHS[inner] + step * shift)
    shape = values.shape[1:]
    return np.reshape(heights, shape), np.exp(np.reshape(logs, (*shape, 1)))
