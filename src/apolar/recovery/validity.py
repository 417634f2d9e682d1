"""Projection of a solution to a valid mixture: positive weights and variances, means of bounded norm."""

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture import MixtureStatus, SphericalMixture
from apolar.mixture.recovered import by_weight
from apolar.moments import CentralMoments

# Variances below this fraction of their mean are dominated by sampling errors.
MIN_VARIANCE_RATIO = 1e-2
# The largest norm of a mean, relative to the root mean square of the data.
MAX_MEAN_NORM = 5.0
# The largest part of the correlations that a mixture may leave unexplained. It is below 0.1 for spherical
# components, 0.2 for groups of measurements in standard units, and far above one in mixed units.
MAX_MISFIT = 0.3


def valid_weights(weights: Array, n_rows: float, corrections: list[str]) -> Array:
    """Return the weights, raised to the weight of one row where they are below it."""
    min_weight = min(1 / n_rows, 0.5 / len(weights))
    is_low = weights < min_weight
    if np.any(is_low):
        corrections.append(f"{np.count_nonzero(is_low)} of the weights were less than one row")
    return np.maximum(weights, min_weight)


def valid_means(means: Array, size: float, corrections: list[str]) -> Array:
    """Return the means, shortened where they are too long; `size` is the root mean square of the data."""
    norms = np.linalg.norm(means, axis=1)
    max_norm = MAX_MEAN_NORM * size
    is_far = norms > max_norm
    if np.any(is_far):
        corrections.append(f"{np.count_nonzero(is_far)} of the means were out of reach")
    return means * np.where(is_far, max_norm / np.where(is_far, norms, 1), 1)[:, None]


def valid_variances(variances: Array, mean_variance: float, corrections: list[str]) -> Array:
    """Return the variances, with those that are negative or close to zero replaced by their mean.

    The nearest valid variance, close to zero, would be a bad start for EM, which does not leave it.
    """
    is_low = variances < MIN_VARIANCE_RATIO * mean_variance
    if np.any(is_low):
        corrections.append(
            f"{np.count_nonzero(is_low)} of the variances were below {MIN_VARIANCE_RATIO:g} of their mean"
        )
    return np.where(is_low, mean_variance, variances)


@np.errstate(over="ignore")  # a column of very small variance
def covariance_misfit(mixture: SphericalMixture, covariance: Array) -> float:
    """Return how much the covariance of a mixture differs from that of the data, in units of the columns.

    Zero if they are equal, one if the difference is as large as the correlations. A column of small variance
    counts as much as one of large variance: the components are often too wide for it.

    Parameters
    ----------
    mixture : SphericalMixture
    covariance : ndarray, shape (n_features, n_features)
        Of the data.
    """
    offsets = mixture.means - mixture.weights @ mixture.means
    between = (mixture.weights[:, None] * offsets).T @ offsets
    within = float(mixture.weights @ mixture.variances) * np.eye(len(covariance))
    deviations = np.sqrt(np.diag(covariance))
    varies = deviations > 0
    units = np.where(varies, deviations, 1.0)
    correlations = covariance / units / units[:, None]
    difference = correlations - (between + within) / units / units[:, None]
    both = np.ix_(varies, varies)
    return float(np.linalg.norm(difference[both]) / np.linalg.norm(correlations[both]))


def checked_fit(mixture: SphericalMixture, moments: CentralMoments) -> SphericalMixture:
    """Return the mixture, with the status POOR_FIT in place of VALID if the data have another covariance."""
    variances = np.diag(moments.covariance)
    if mixture.status is not MixtureStatus.VALID or not np.any(variances > 0):
        return mixture
    correlations = np.sqrt(np.maximum(np.outer(variances, variances), np.finfo(float).tiny))
    size = float(np.linalg.norm(moments.covariance / correlations))
    # Correlations of so many rows have errors of this size, and a mixture of few components none of them.
    sampling = len(variances) / np.sqrt(moments.n_rows) / size
    if covariance_misfit(mixture, moments.covariance) <= MAX_MISFIT + sampling:
        return mixture
    return replace(mixture, status=MixtureStatus.POOR_FIT)


def mixture(
    weights: Array,
    means: Array,
    variances: Array,
    status: MixtureStatus,
    corrections: list[str],
    spectrum: Array,
) -> SphericalMixture:
    """Return the mixture, largest weight first; corrections change the status VALID to PROJECTED."""
    if status is MixtureStatus.VALID and corrections:
        status = MixtureStatus.PROJECTED
    distinct = tuple(dict.fromkeys(corrections))
    return SphericalMixture(*by_weight(weights, means, variances), status, distinct, spectrum)
