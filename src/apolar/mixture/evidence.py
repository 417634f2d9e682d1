"""A lower bound on the logarithm of the evidence: how probable the rows are under all parameters together.

It is that of variational inference [corduneanu2001], with the responsibilities of EM. Covariances are taken
to be drawn around a common one, up to their volume.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from scipy.special import gammaln

from apolar._core import compiled
from apolar._core.arrays import Array
from apolar._core.constants import MIN_PART
from apolar._core.settings import SETTINGS
from apolar.mixture.families import Family, PriorTerms, conjugate_terms
from apolar.mixture.noise import noise_weights
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.storage import LOG_2PI

__all__ = ["common_covariance", "comparison_score", "evidence_of_strengths", "log_evidence"]

Number = TypeVar("Number", float, Array)
# The strengths that are compared.
STRENGTHS = np.geomspace(SETTINGS.min_strength, 2000.0, 32)


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
    spectrum = family.relative_variances(family.scatter(stats), target)
    strengths = STRENGTHS.reshape(-1, *(1,) * counts.ndim)
    each = family.log_marginal(counts, spectrum, strengths, stats.n_features)
    effective = np.maximum(counts - 1, 0.0)
    values = (each - 0.5 * effective * family.log_det(target, stats.n_features)).sum(axis=-1)
    return _peak(values)


def _peak(values: Array) -> tuple[Array, Array]:
    """Return the maximum over the strengths, the first axis, and where it is: between three of them.

    A parabola through the largest value and its neighbours makes the strength a continuous function of the
    statistics, so that fits that differ by rounding have strengths that do so too.
    """
    best = values.argmax(axis=0)
    inner = np.clip(best, 1, len(STRENGTHS) - 2)
    before, at, after = (np.take_along_axis(values, inner[None] + i, axis=0)[0] for i in (-1, 0, 1))
    slope, bend = 0.5 * (before - after), before - 2 * at + after
    # At an end of the range there is no parabola.
    is_peak = (bend < 0) & (best == inner)
    shift = np.where(is_peak, np.clip(slope / np.where(is_peak, bend, -1.0), -1.0, 1.0), best - inner)
    heights = np.where(is_peak, at - 0.5 * slope * shift, values.max(axis=0))
    step = np.log(STRENGTHS[1] / STRENGTHS[0])
    return heights, STRENGTHS[inner][..., None] * np.exp(step * shift[..., None])
