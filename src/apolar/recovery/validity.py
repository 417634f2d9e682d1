"""What the moments give, made a mixture: weights of at least a row, means in reach, positive variances."""

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture import MixtureStatus, SphericalMixture
from apolar.mixture.spherical_mixture import by_weight

# Variances below this much of their mean are noise. The least weight is one row.
LEAST_VARIANCE = 1e-2
# The longest mean of a projected mixture, relative to the root mean square of the data.
LONGEST_MEAN = 5.0


def valid_weights(weights: Array, n_rows: int, notes: list[str]) -> Array:
    """Return the weights, each that of one row or more."""
    least = min(1 / n_rows, 0.5 / len(weights))
    low = weights < least
    if np.any(low):
        notes.append(f"{np.count_nonzero(low)} of the weights were less than one row")
    return np.maximum(weights, least)


def within_reach(means: Array, size: float, notes: list[str]) -> Array:
    """Return the means, those that are longer than any data shortened."""
    lengths = np.linalg.norm(means, axis=1)
    longest = LONGEST_MEAN * size
    far = lengths > longest
    if np.any(far):
        notes.append(f"{np.count_nonzero(far)} of the means were out of reach")
    return means * np.where(far, longest / np.where(far, lengths, 1), 1)[:, None]


def valid_variances(variances: Array, mean_variance: float, notes: list[str]) -> Array:
    """Return the variances; in place of those that are negative, or nearly, their mean.

    Little is then known of it. The nearest valid one, close to zero, would be the worst choice: EM does not
    leave it.
    """
    low = variances < LEAST_VARIANCE * mean_variance
    if np.any(low):
        notes.append(f"{np.count_nonzero(low)} of the variances were below {LEAST_VARIANCE:g} of their mean")
    return np.where(low, mean_variance, variances)


def mixture(
    weights: Array,
    means: Array,
    variances: Array,
    status: MixtureStatus,
    notes: list[str],
    spectrum: Array,
) -> SphericalMixture:
    """Return the mixture, largest weight first; one that is valid becomes projected if there are notes."""
    if status is MixtureStatus.VALID and notes:
        status = MixtureStatus.PROJECTED
    told = tuple(dict.fromkeys(notes))
    return SphericalMixture(*by_weight(weights, means, variances), status, told, spectrum)
