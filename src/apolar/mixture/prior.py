"""Priors that keep components from collapsing on a few rows, and the evidence of mixtures under them.

The evidence is a lower bound on how probable the rows are under all parameters together: that of variational
inference [corduneanu2001], with the responsibilities of EM. Covariances are drawn around a common one.
"""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import gammaln

from apolar._core.arrays import Array
from apolar._core.checks import positive_number
from apolar._core.constants import MIN_PART
from apolar._core.settings import SETTINGS
from apolar.mixture.families import Family, PriorTerms, conjugate_terms
from apolar.mixture.parameters import Parameters, SufficientStats, WhitenedParameters, noise_weights
from apolar.mixture.storage import LOG_2PI

__all__ = [
    "PRIORS",
    "AdaptivePrior",
    "AddedRows",
    "Prior",
    "PriorTerms",
    "Shrinkage",
    "Strengths",
    "common_covariance",
    "evidence_of_strengths",
    "has_volumes",
    "log_evidence",
    "used_strengths",
]

# The largest fraction of a covariance that its diagonal replaces.
MAX_DIAGONAL = 0.999
# The strengths at which the evidence is computed.
STRENGTHS = np.geomspace(SETTINGS.min_strength, 2000.0, 32)


class Strengths(NamedTuple):
    """How strongly covariances are shrunk.

    Attributes
    ----------
    common : float
        The rows that the common covariance counts as in each component; 0 leaves each as the rows give it.
    diagonal : float
        The fraction of the common covariance, between 0 and 1, that is replaced by its diagonal in the units
        of the data.
    weights : float
        The rows that are added to the weight of each component; many make the weights equal.
    volumes : float
        The rows of the common volume, besides one, that are added to the volume of each component.
    """

    common: Any = 0.0
    diagonal: Any = 0.0
    weights: Any = 0.0
    volumes: Any = 0.0

    def where(self, used: Strengths) -> Strengths:
        """Return the strengths with zero instead of those that are not used."""
        return Strengths(*(each if is_used else 0 * each for each, is_used in zip(self, used, strict=True)))


class AddedRows(NamedTuple):
    """How many rows a prior adds to each component.

    Attributes
    ----------
    rows : float or ndarray, shape (n_mixtures,)
        To the scatter of its covariance.
    common : float or ndarray, shape (n_mixtures,)
        How many of these follow the rows of all components.
    weights : float or ndarray, shape (n_mixtures,)
        To its weight.
    diagonal : float or ndarray, shape (n_mixtures,)
        The fraction of the common covariance that its diagonal replaces.
    """

    rows: Any = 0.0
    common: Any = 0.0
    weights: Any = 0.0
    diagonal: Any = 0.0


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
        covariances: the variance of one of n_components equal parts of the data; a
        hundredth of that for full covariances, where more would widen thin
        clusters.
    """

    shrinkage: float = 0.0
    dof: float | None = None
    scale: float | None = None

    log_constant: ClassVar[float | Array] = 0.0
    """What is added to the logarithm of the prior of a mixture, whatever its parameters are."""
    errors: ClassVar[Array | None] = None
    """The covariance of errors of the rows, as one of the family that is fitted; None without."""

    def __post_init__(self) -> None:
        if self.shrinkage != 0:
            positive_number(self.shrinkage, "shrinkage")
        for name in ("dof", "scale"):
            if getattr(self, name) is not None:
                positive_number(getattr(self, name), name)

    def with_errors(self, errors: Array | None) -> Self:
        """Return the prior whose rows have errors of this covariance, in whitened coordinates.

        Without, the covariance of a component of few rows could be smaller than that of the errors.
        """
        if errors is self.errors:
            return self
        prior = copy.copy(self)
        object.__setattr__(prior, "errors", errors)
        return prior

    def terms(self, family: Family, n_components: int, n_features: int) -> PriorTerms:
        """Return what the prior adds to the M-step of a family; a prior of another form has its own."""
        return conjugate_terms(family, n_components, n_features, self.shrinkage, self.dof, self.scale)

    def adapted_to(self, family: Family, stats: SufficientStats) -> Prior:  # noqa: ARG002
        """Return the prior for components of these sufficient statistics; here it is the same for all."""
        return self

    def shrinks(self, family: Family, n_components: int, n_features: int) -> bool:  # noqa: ARG002
        """Return whether `adapted_to` gives a `Shrinkage`."""
        return False

    def of_strengths(self, strengths: Strengths | None) -> Prior:  # noqa: ARG002
        """Return the prior of these strengths, unless it has its own; this one has none."""
        return self

    @property
    def conjugate(self) -> Prior:
        """The conjugate prior, which does not adapt."""
        return self

    def added_rows(self, family: Family, mixtures: Parameters) -> AddedRows:
        """Return how many rows the prior adds to each component."""
        if family.has_factors:  # to the noise alone
            return AddedRows()
        terms = self.terms(family, mixtures.n_components, mixtures.n_features)
        unit = float(family.divisor(np.ones(()), mixtures.n_features))
        return AddedRows((float(np.max(terms.divisor)) + terms.mean_divisor) / unit)


@dataclass(frozen=True)
class AdaptivePrior(Prior):
    """A prior whose strengths and target are estimated from the rows: the default of the estimator.

    The covariances of the components are taken to be drawn around a common one, up to their volume, from an
    inverse Wishart distribution, as in [greene1989] for classes that are known; the common one is between
    that of the rows and its diagonal, as in [friedman1989]. The strengths are those under which rows that are
    left out are likeliest: see `apolar.em.left_out`. So components of few rows, or of similar shape, are
    estimated with the help of the others, and components of many rows each by itself. Components that share a
    part of their covariance have the conjugate prior.

    Attributes
    ----------
    strengths : Strengths or None, default=None
        Where they are not chosen. None: those of the search for starts.
    """

    strengths: Strengths | None = None

    def shrinks(self, family: Family, n_components: int, n_features: int) -> bool:
        """Return whether `adapted_to` gives a `Shrinkage`: if there is something to shrink towards."""
        return any(used_strengths(family, n_components, n_features))

    def adapted_to(self, family: Family, stats: SufficientStats) -> Prior:
        """Return the prior for components of these sufficient statistics.

        Parameters
        ----------
        family : Family
        stats : SufficientStats
            Of one mixture or of a batch.

        Returns
        -------
        prior : Prior
        """
        n_components, n_features = stats.first.shape[-2:]
        common = family.common_part(stats)
        if common is not None:
            rows = np.full(1 if common[0].untied == common[0] else (), SETTINGS.noise_rows)
            known = {"family": common[0], "target": common[1], "rows": rows, "n_features": n_features}
            return Shrinkage(self.shrinkage, **known, strengths=None)
        used = used_strengths(family, n_components, n_features)
        if not any(used):
            return self.conjugate
        conjugate, strengths = self.terms(family, n_components, n_features), self.strengths
        if strengths is None:
            per_column = family.untied.n_covariance_parameters(1, n_features) / n_features
            strengths = Strengths(SETTINGS.search_strength * per_column)
        strengths = strengths.where(used)
        if family.shares_covariance or n_components == 1:
            # Rows of the diagonal of the one covariance.
            total = stats.counts.sum(axis=-1)
            target = family.scatter(stats).sum(axis=stats.counts.ndim - 1) / family.each(total)
            target = family.diagonal_part(family.floored(target))
            fraction = np.minimum(strengths.diagonal, MAX_DIAGONAL)
            rows = fraction / (1 - fraction) * total
            if not family.shares_covariance:
                target, rows = target[..., None, :, :], rows[..., None]
        else:
            target = common_covariance(family, stats, conjugate, strengths.volumes)
            if np.any(strengths.diagonal):
                fraction = family.each(np.asarray(strengths.diagonal)[..., None])
                target = target + fraction * (family.diagonal_part(target) - target)
            rows = np.broadcast_to(np.asarray(strengths.common)[..., None], (*stats.counts.shape[:-1], 1))
        return Shrinkage(
            self.shrinkage,
            family=family,
            target=target,
            rows=rows,
            n_features=n_features,
            strengths=strengths,
        )

    def of_strengths(self, strengths: Strengths | None) -> AdaptivePrior:
        """Return the prior of these strengths, unless it has its own."""
        if strengths is None or self.strengths is not None:
            return self
        return replace(self, strengths=strengths).with_errors(self.errors)

    @property
    def conjugate(self) -> Prior:
        """The conjugate prior, which does not adapt."""
        return Prior(self.shrinkage, self.dof, self.scale).with_errors(self.errors)

    def added_rows(self, family: Family, mixtures: Parameters) -> AddedRows:
        """Return how many rows the prior adds to each component."""
        n_components = mixtures.n_components
        used = used_strengths(family, n_components, mixtures.n_features)
        if self.strengths is None or not any(used):
            return self.conjugate.added_rows(family, mixtures)
        common, diagonal, weights, _ = self.strengths.where(used)
        if family.shares_covariance or n_components == 1:
            # The one covariance is the common one.
            common, diagonal = 0.0, np.minimum(diagonal, MAX_DIAGONAL)
        return AddedRows(common, common, weights, diagonal)


@dataclass(frozen=True, eq=False)
class Shrinkage(Prior):
    """A prior under which each component has some more rows, of a given covariance about its mean.

    Its logarithm is minus their number times the sum of the Kullback-Leibler divergences of the components
    from their targets.

    Attributes
    ----------
    family : Family
    target : ndarray
        A covariance for each of those of the mixture, or for each mixture of a batch.
    rows : ndarray
        How many rows are added to each.
    strengths : Strengths or None
        None if rows left out do not choose them.
    """

    family: Family = field(kw_only=True)
    target: Array = field(kw_only=True)
    rows: Array = field(kw_only=True)
    n_features: int = field(kw_only=True)
    strengths: Strengths | None = field(kw_only=True)

    @functools.cached_property
    def log_constant(self) -> Array:  # type: ignore[override]
        """What makes the prior a density, up to what depends on the strengths alone."""
        each = 0.5 * self.rows * (self.family.log_det(self.target, self.n_features) + self.n_features)
        return each if self.family.shares_covariance else each.sum(axis=-1)

    def terms(self, family: Family, n_components: int, n_features: int) -> PriorTerms:  # noqa: ARG002
        """Return what the prior adds to the M-step of its family."""
        return self._terms

    @functools.cached_property
    def _terms(self) -> PriorTerms:
        unit = float(self.family.divisor(np.ones(()), self.n_features))
        floor = SETTINGS.prior_floor * self.family.identity(self.n_features)
        scatter = unit * (self.family.each(self.rows) * self.target + floor)
        of_weights = 0.0 if self.strengths is None else self.strengths.weights
        return PriorTerms(self.shrinkage, scatter, unit * self.rows, 0.0, of_weights)


def used_strengths(family: Family, n_components: int, n_features: int) -> Strengths:
    """Return which strengths the covariances of a family are shrunk by, as booleans."""
    if family.has_factors:
        return Strengths(*[False] * len(Strengths()))
    has_common = not family.shared and n_components > 1
    has_one = family.shares_covariance or n_components == 1
    has_diagonal = family.n_axes == 2 and n_features > 1 and (has_common or has_one)
    has_weights = n_components > 1 and (has_common or has_diagonal)
    return Strengths(has_common, has_diagonal, has_weights, has_common and has_volumes(family, n_features))


PRIORS: dict[str, type[Prior]] = {"Prior": Prior}
"""The priors that a file can name. A new one is a subclass with `terms` of its own, and a line here."""


# --- the evidence -------------------------------------------------------------------------------


def log_evidence(
    family: Family,
    parameters: WhitenedParameters,
    stats: SufficientStats,
    log_likelihood: Array,
    n_rows: float | None = None,
) -> Array:
    """Return a lower bound on the log-evidence of each mixture of a batch, given its responsibilities.

    Weights, means and covariances are integrated out: weights under the prior of Jeffreys, means under one of
    the mean and covariance of all rows, or wider, covariances under that of a common one, which
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
        target = common_covariance(family, stats, conjugate_terms(family, n_components, n_features))
        of_covariances = evidence_of_strengths(family, stats, target)
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


def common_covariance(
    family: Family, stats: SufficientStats, terms: PriorTerms, more: Array | float = 0.0
) -> Array:
    """Return the pooled covariance of the components, with a volume for each of them.

    Parameters
    ----------
    family : Family
    stats : SufficientStats
        Of one mixture or of a batch.
    terms : PriorTerms
        Of the conjugate prior, a small part of which keeps the covariance from being singular.
    more : float or ndarray, shape (n_mixtures,), default=0.0
        The rows of the common volume that are added to each volume, besides one.

    Returns
    -------
    covariances : ndarray
        One per component, all of the same shape and orientation. Covariances without a shape have the same
        volume too.
    """
    n_features, each, axis = stats.n_features, family.each, stats.counts.ndim - 1
    counts, scatter = np.maximum(stats.counts, MIN_PART), family.scatter(stats)
    total = each(family.divisor(counts.sum(axis=-1), n_features))
    least = terms.scatter / terms.divisor
    common = family.floored((scatter.sum(axis=axis) + least) / total)
    volumes = np.ones_like(counts)
    if has_volumes(family, n_features):
        # By rounding, the scatter of one row can be below zero. One row of the common volume is added.
        ratios = family.trace_ratio(scatter, np.expand_dims(common, axis)) / n_features
        rows = 1 + np.asarray(more)[..., None]
        volumes = (np.maximum(ratios, 0.0) + rows) / (counts + rows)
    return each(volumes) * np.expand_dims(common, axis)


def has_volumes(family: Family, n_features: int) -> bool:
    """Return whether the targets of the components have volumes of their own: if covariances have a shape."""
    return family.n_axes > 0 and n_features > 1


def evidence_of_strengths(family: Family, stats: SufficientStats, target: Array) -> Array:
    """Return the largest evidence of the scatters over the strengths."""
    counts = np.maximum(stats.counts, MIN_PART)
    spectrum = family.relative_variances(family.scatter(stats), target)
    strengths = STRENGTHS.reshape(-1, *(1,) * counts.ndim)
    each = family.log_marginal(counts, spectrum, strengths, stats.n_features)
    effective = np.maximum(counts - 1, 0.0)
    values = (each - 0.5 * effective * family.log_det(target, stats.n_features)).sum(axis=-1)
    return np.asarray(values.max(axis=0))
