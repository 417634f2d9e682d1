"""What the moments give, made a valid mixture: positive weights and variances, means in reach of the data."""

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture import MixtureStatus, SphericalMixture
from apolar.mixture.spherical_mixture import by_weight

# Variances below this much of their mean are noise. The least weight is one row.
LEAST_VARIANCE = 1e-2
# The longest mean of a projected mixture, relative to the root mean square of the data.
LONGEST_MEAN = 5.0


def valid_weights(weights: Array, n_rows: int, corrections: list[str]) -> Array:
    """Return the weights, each that of one row or more."""
    least = min(1 / n_rows, 0.5 / len(weights))
    low = weights < least
    if np.any(low):
        corrections.append(f"{np.count_nonzero(low)} of the weights were less than one row")
    return np.maximum(weights, least)


def within_reach(means: Array, size: float, corrections: list[str]) -> Array:
    """Return the means, with those shortened that are longer than the data can be."""
    lengths = np.linalg.norm(means, axis=1)
    longest = LONGEST_MEAN * size
    far = lengths > longest
    if np.any(far):
        corrections.append(f"{np.count_nonzero(far)} of the means were out of reach")
    return means * np.where(far, longest / np.where(far, lengths, 1), 1)[:, None]


def valid_variances(variances: Array, mean_variance: float, corrections: list[str]) -> Array:
    """Return the variances; in place of those that are negative, or nearly, their mean.

    Little is known of such a variance. The nearest valid one, close to zero, would be the worst choice: EM
    does not leave it.
    """
    low = variances < LEAST_VARIANCE * mean_variance
    if np.any(low):
        corrections.append(
            f"{np.count_nonzero(low)} of the variances were below {LEAST_VARIANCE:g} of their mean"
        )
    return np.where(low, mean_variance, variances)


def mixture(
    weights: Array,
    means: Array,
    variances: Array,
    status: MixtureStatus,
    corrections: list[str],
    spectrum: Array,
) -> SphericalMixture:
    """Return the mixture, largest weight first; with corrections it is PROJECTED where it would be VALID."""
    if status is MixtureStatus.VALID and corrections:
        status = MixtureStatus.PROJECTED
    distinct = tuple(dict.fromkeys(corrections))
    return SphericalMixture(*by_weight(weights, means, variances), status, distinct, spectrum)
