"""Projection of a solution to a valid mixture: positive weights and variances, means of bounded norm."""

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture import MixtureStatus, SphericalMixture
from apolar.mixture.spherical_mixture import by_weight

# Variances below this fraction of their mean are dominated by sampling errors.
MIN_VARIANCE_RATIO = 1e-2
# The largest norm of a mean, relative to the root mean square of the data.
MAX_MEAN_NORM = 5.0


def valid_weights(weights: Array, n_rows: int, corrections: list[str]) -> Array:
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
