"""Spherical mixtures by the equivariant form: central moments, whitened, rotated, and weighted by errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.compiled import joint_rotation
from apolar.mixture import MixtureStatus, MomentMixture
from apolar.mixture.parameters import MixtureParameters, canonical_order
from apolar.moments import CentralMoments, SignalMoments
from apolar.moments.signal import noise_edge, spread_in_third
from apolar.recovery.moment_fit import ObservedMoments, powers_up_to
from apolar.tensor.monomials import exponents

# Eigenvalues of the second moments below this, relative to the largest, are rounding errors.
MIN_SIGNAL = 1e-6
# The number of moments grows with the third power of the number of signal directions, their covariance matrix
# with the sixth: above this number, the fit would take longer than EM.
MAX_SIGNAL = 8
# The sum of weighted squares per moment is about one, or less, if the data come from a spherical mixture.
# Above this value they do not, and the covariance of their moments is wrong.
MAX_MISFIT = 3.0
# Variances below this fraction of their mean are dominated by sampling errors.
MIN_VARIANCE_RATIO = 1e-2
# The largest norm of a mean, relative to the root mean square of the data.
MAX_MEAN_NORM = 5.0
# The largest part of the correlations that a mixture may leave unexplained. It is below 0.1 for spherical
# components, 0.2 for groups of measurements in standard units, and far above one in mixed units.
MAX_UNEXPLAINED = 0.3


def discrete_distribution(second: Array, third: Array, min_eigenvalue: float = 0.0) -> tuple[Array, Array]:
    """Return r = p + 1 weights and atoms of mean zero in p dimensions, from their second and third moments.

    The homogenised tensor sum_i w_i (1, a_i)^3 has the slice diag(1, M); whitened by it, its terms are
    orthonormal, and a joint rotation of the slices gives them.

    Parameters
    ----------
    second : ndarray, shape (p, p)
        M = sum_i w_i a_i a_i^t.
    third : ndarray, shape (p, p, p)
    min_eigenvalue : float, default=0
        Smaller eigenvalues of M are raised to this.

    Returns
    -------
    weights : ndarray, shape (p + 1,)
    atoms : ndarray, shape (p + 1, p)
    """
    n = len(second)
    values, vectors = np.linalg.eigh(second)
    values = np.maximum(values, max(min_eigenvalue, 1e-9 * values.max(initial=0.0)))
    inverse = vectors / np.sqrt(values)
    tensor = np.zeros((n + 1, n + 1, n + 1))
    tensor[0] = tensor[:, 0] = tensor[:, :, 0] = np.eye(n + 1)
    tensor[1:, 1:, 1:] = np.einsum("abc,ax,by,cz->xyz", third, inverse, inverse, inverse, optimize=True)
    terms = joint_rotation(tensor).T
    terms = terms * np.where(terms[:, :1] < 0, -1.0, 1.0)
    roots = np.maximum(terms[:, 0], 1e-4)
    atoms = (terms[:, 1:] / roots[:, None]) @ (vectors * np.sqrt(values)).T
    return roots**2 / np.sum(roots**2), atoms


def equivariant_mixture(signal: SignalMoments) -> MomentMixture:
    """Return the mixture that has as many of the moments as it has parameters."""
    n_signal = len(signal.second)
    third = np.zeros((0, 0, 0)) if signal.third is None else signal.third.to_dense()
    least = MIN_SIGNAL * max(signal.second.max(initial=0.0), signal.mean_variance)
    weights, offsets = discrete_distribution(np.diag(signal.second), third, least)
    # sum_i w_i s_i (1, nu_i), the mean variance and the noise times the signal, is linear in the variances.
    noise = np.concatenate([[signal.mean_variance], signal.noise_times])
    variances = np.linalg.solve(np.column_stack([np.ones(n_signal + 1), offsets]).T * weights, noise)
    # The noise directions, and the signal direction of least variance: a signal has to be above their edge.
    n_tested, weakest = len(signal.mean) - n_signal + 1, float(signal.spectrum[n_signal - 1])
    level = (signal.mean_variance * (n_tested - 1) + weakest) / n_tested
    is_weak = n_signal > 0 and weakest <= noise_edge(level, n_tested, signal.n_rows)
    status = MixtureStatus.WEAK_SIGNAL if is_weak else MixtureStatus.VALID
    return _valid_mixture(signal, weights, offsets, variances, status, [])


def weighted_mixture(signal: SignalMoments, start: MomentMixture) -> MomentMixture:
    """Return the mixture that fits all moments best, near an initial mixture.

    The equivariant form solves for as many moments as there are unknowns. Here all moments are fitted by
    generalised least squares [hansen1982], with the covariance that they have for this number of rows under
    the initial mixture. Only the moments are needed, not the rows.

    Parameters
    ----------
    signal : SignalMoments
    start : MomentMixture
        The initial mixture, of one component more than there are signal directions.

    Returns
    -------
    mixture : MomentMixture
        `start` itself if there is no signal direction, if there are too many, if no spherical mixture near it
        fits the moments, and if its own moments overflow.
    """
    n_signal = len(signal.second)
    if not 1 <= n_signal <= MAX_SIGNAL:
        return start
    n_noise = len(signal.mean) - n_signal
    variance = n_noise * signal.mean_variance + signal.spectrum[:n_signal].sum()
    unit = float(np.sqrt(variance / len(signal.mean)))
    # The mean square of the noise directions takes the place of the square of one more coordinate z: observed
    # are the moments of the signal coordinates y up to order three, in which the covariance is diagonal, the
    # mean of z^2, and that of z^2 y.
    assert signal.third is not None  # there is a signal direction
    n_all = n_signal + 1
    second = np.append(signal.second + signal.mean_variance, signal.mean_variance)
    third = spread_in_third(n_all) @ np.append(signal.noise_times, 0.0)
    third[exponents(n_all, 3)[:, -1] == 0] += signal.third.coefficients
    products = np.diag(second)[np.triu_indices(n_all)]
    values = np.concatenate([np.ones(1), np.zeros(n_all), products / unit**2, third / unit**3])
    powers = powers_up_to(n_all, 3)
    kept = np.flatnonzero((powers[:, -1] % 2 == 0) & (powers.sum(axis=1) > 0))
    observed = ObservedMoments(values[kept], n_all, 3, signal.n_rows, kept, n_noise)
    offsets = np.pad((start.means - signal.mean) @ signal.basis / unit, ((0, 0), (0, 1)))
    spread = start.variances[:, None, None] / unit**2 * np.eye(n_all)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            # What is left after these steps is below the sampling error.
            fit = observed.fit("spherical", MixtureParameters(start.weights, offsets, spread), max_iter=6)
    except (np.linalg.LinAlgError, ValueError):
        return start
    if not 2 * fit.cost <= MAX_MISFIT * len(observed.values):
        return start
    found = fit.mixture
    means, variances = found.means[:, :n_signal] * unit, found.covariances[:, 0, 0] * unit**2
    return _valid_mixture(signal, found.weights, means, variances, start.status, list(start.projected))


# --- projection to valid mixtures ------------------------------------------------------------


def _valid_mixture(
    signal: SignalMoments,
    weights: Array,
    offsets: Array,
    variances: Array,
    status: MixtureStatus,
    corrections: list[str],
) -> MomentMixture:
    """Return the valid mixture next to some parameters in signal coordinates."""
    size = float(np.sqrt(signal.second.clip(min=0).sum() + signal.mean_variance))
    weights = valid_weights(weights, signal.n_rows, corrections)
    means = signal.mean + valid_means(offsets, size, corrections) @ signal.basis.T
    variances = valid_variances(variances, signal.mean_variance, corrections)
    return projected_mixture(
        weights, means, variances, status=status, corrections=corrections, spectrum=signal.spectrum
    )


def valid_weights(weights: Array, n_rows: float, corrections: list[str]) -> Array:
    """Return the weights, raised to the weight of one row where they are below it."""
    least = min(1 / n_rows, 0.5 / len(weights))
    return _replace_values(weights, weights < least, least, "weights were less than one row", corrections)


def valid_means(means: Array, size: float, corrections: list[str]) -> Array:
    """Return the means, shortened where they are too long; `size` is the root mean square of the data."""
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    is_far = norms > MAX_MEAN_NORM * size
    shortened = means * (MAX_MEAN_NORM * size / np.where(is_far, norms, 1))
    return _replace_values(means, is_far, shortened, "means were out of reach", corrections)


def valid_variances(variances: Array, mean_variance: float, corrections: list[str]) -> Array:
    """Return the variances, with those that are negative or close to zero replaced by their mean.

    The nearest valid variance, close to zero, would be a bad start for EM, which does not leave it.
    """
    is_low = variances < MIN_VARIANCE_RATIO * mean_variance
    what = f"variances were below {MIN_VARIANCE_RATIO:g} of their mean"
    return _replace_values(variances, is_low, mean_variance, what, corrections)


def _replace_values(
    values: Array, is_wrong: Array, others: Array | float, what: str, corrections: list[str]
) -> Array:
    if np.any(is_wrong):
        corrections.append(f"{np.count_nonzero(is_wrong)} of the {what}")
    return np.where(is_wrong, others, values)


def projected_mixture(
    weights: Array,
    means: Array,
    covariances: Array,
    covariance_type: str = "spherical",
    *,
    status: MixtureStatus = MixtureStatus.VALID,
    corrections: list[str],
    **known: Any,
) -> MomentMixture:
    """Return the mixture, largest weight first; corrections change the status VALID to PROJECTED."""
    if status is MixtureStatus.VALID and corrections:
        status = MixtureStatus.PROJECTED
    order = canonical_order(weights, means)
    if covariance_type != "tied":
        covariances = covariances[order]
    distinct, weights = tuple(dict.fromkeys(corrections)), weights[order] / weights.sum()
    return MomentMixture(weights, means[order], covariances, covariance_type, status, distinct, **known)


@np.errstate(over="ignore")  # a column of very small variance
def has_covariance(mixture: MomentMixture, moments: CentralMoments) -> bool:
    """Return whether a spherical mixture has about the covariance of the data, in units of the columns.

    A column of small variance counts as much as one of large variance: the components are often too wide for
    it.
    """
    offsets = mixture.means - mixture.weights @ mixture.means
    between = (mixture.weights[:, None] * offsets).T @ offsets
    own = between + float(mixture.weights @ mixture.variances) * np.eye(len(between))
    varies = np.flatnonzero(moments.deviations > 0)
    both = np.ix_(varies, varies)
    units = np.outer(moments.deviations[varies], moments.deviations[varies])
    correlations, explained = moments.covariance[both] / units, own[both] / units
    size = float(np.linalg.norm(correlations))
    # Correlations have sampling errors of this size, which a mixture of few components does not explain.
    sampling = len(moments.mean) / np.sqrt(moments.n_rows)
    return bool(np.linalg.norm(correlations - explained) <= MAX_UNEXPLAINED * size + sampling)
