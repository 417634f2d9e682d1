"""A lower bound on the logarithm of the evidence: how probable the rows are under all parameters together.

It is that of variational inference [corduneanu2001], with the responsibilities of EM.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from scipy.special import gammaln

from apolar._core.arrays import Array
from apolar.mixture.families import Family
from apolar.mixture.noise import noise_weights
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.shrinkage import common_covariance, evidence_of_strengths, has_volumes
from apolar.mixture.storage import LOG_2PI

__all__ = ["comparison_score", "log_evidence"]


@overload
def comparison_score(evidence: float, log_likelihood: float) -> float: ...
@overload
def comparison_score(evidence: Array, log_likelihood: Array) -> Array: ...
def comparison_score(evidence: Any, log_likelihood: Any) -> Any:
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
    if family.shares_parameters or n_components == 1:
        n_common = family.n_covariance_parameters(n_components, n_features)
        of_covariances = _shared_log_likelihood(family, stats, total)
    else:
        n_common = family.untied.n_covariance_parameters(1, n_features)
        if of_covariances is None:
            target = common_covariance(family, stats, Prior())
            of_covariances = evidence_of_strengths(family, stats, target)[0]
        n_common += n_components - 1 if has_volumes(family, n_features) else 0
    penalty = 0.5 * n_common * log_rows
    return np.asarray(entropy + of_weights + of_means + of_covariances - penalty)


def _shared_log_likelihood(family: Family, stats: SufficientStats, total: Array) -> Array:
    """Return the log-likelihood of the deviations from the means, at covariances that share parameters."""
    n_features = stats.n_features
    if family.shares_part:
        return _partly_shared(family, stats)
    scatter = family.scatter(stats).sum(axis=stats.counts.ndim - 1)
    freedom = np.maximum(total - np.minimum(stats.counts, 1.0).sum(axis=-1), 1.0)
    divisor = np.asarray(family.divisor(freedom, n_features))[(..., *(None,) * family.n_axes)]
    covariance = family.floored(scatter / divisor)
    return -0.5 * freedom * (n_features * (LOG_2PI + 1) + family.log_det(covariance, n_features))


def _partly_shared(family: Family, stats: SufficientStats) -> Array:
    """Return the same for components that share a part of their covariances.

    The conjugate prior keeps the covariance of a component of few rows from vanishing.
    """
    n_features, n_components = stats.n_features, stats.counts.shape[-1]
    terms = Prior().terms(family, n_components, n_features)
    freedom = np.maximum(stats.counts - 1, 0.0)
    scatter, divisor = family.scatter(stats), family.divisor(freedom, n_features)
    covariances = family.floored(
        family.covariances_maximising(scatter + terms.scatter, divisor + terms.divisor)
    )
    each = freedom * (n_features * LOG_2PI + family.log_det(covariances, n_features))
    return np.asarray(-0.5 * (each + family.trace_ratio(scatter, covariances)).sum(axis=-1))
