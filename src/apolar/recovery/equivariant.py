"""The equivariant form: central moments, decomposed by whitening and joint diagonalisation."""

import numpy as np

from apolar.decomposition.pencil import joint_rotation
from apolar.mixture import MixtureStatus, SphericalMixture
from apolar.moments import SignalMoments
from apolar.recovery.validity import mixture, valid_means, valid_variances, valid_weights
from apolar.tensor.monomials import dense_positions

# Signal variances are at least this fraction of the largest: smaller ones are rounding errors.
MIN_SIGNAL = 1e-6


def equivariant_mixture(signal: SignalMoments) -> SphericalMixture:
    """Return the mixture of the homogenised tensor sum_i w_i (1, nu_i)^3.

    Its slice G = sum_i w_i (1, nu_i)(1, nu_i)^t is known and positive definite. After whitening by G^(-1/2),
    the terms sqrt(w_i) G^(-1/2) (1, nu_i) are orthonormal, and a joint rotation of the slices gives them.
    """
    corrections: list[str] = []
    rank = len(signal.second) + 1
    known_slice = np.concatenate([[1.0], signal.second])
    min_second = MIN_SIGNAL * max(signal.second.max(initial=0.0), signal.mean_variance)
    known_slice[1:] = np.maximum(signal.second, min_second)
    roots = np.sqrt(known_slice)
    tensor = np.zeros((rank, rank, rank))
    tensor[0] = tensor[:, 0] = tensor[:, :, 0] = np.diag(known_slice)
    if signal.third is not None:
        tensor[1:, 1:, 1:] = signal.third.coefficients[dense_positions(rank - 1, 3)]
    whitened = tensor / (roots[:, None, None] * roots[:, None] * roots)
    terms = joint_rotation(whitened).T
    terms = terms * np.where(terms[:, :1] < 0, -1.0, 1.0)
    # Row i is sqrt(w_i) G^(-1/2) (1, nu_i): its first entry is sqrt(w_i).
    root_weights = np.sqrt(valid_weights(terms[:, 0] ** 2, signal.n_rows, corrections))
    weights = root_weights**2 / np.sum(root_weights**2)
    size = float(np.sqrt(signal.second.clip(min=0).sum() + signal.mean_variance))
    offsets = valid_means(terms[:, 1:] * roots[1:] / root_weights[:, None], size, corrections)
    noise = np.concatenate([[signal.mean_variance], signal.noise_times]) / roots
    variances = terms @ noise / root_weights
    variances = valid_variances(variances, signal.mean_variance, corrections)
    means = signal.mean + offsets @ signal.basis.T
    status = MixtureStatus.WEAK_SIGNAL if _is_weak(signal) else MixtureStatus.VALID
    return mixture(weights, means, variances, status, corrections, signal.spectrum)


def _is_weak(signal: SignalMoments) -> bool:
    """Return whether the smallest signal eigenvalue is below the upper edge of the noise eigenvalues."""
    if not len(signal.second):
        return False
    # The noise directions, and the signal direction of least variance.
    n_tested = len(signal.mean) - len(signal.second) + 1
    weakest = float(signal.spectrum[len(signal.second) - 1])
    level = (signal.mean_variance * (n_tested - 1) + weakest) / n_tested
    return weakest <= level * (1 + np.sqrt(n_tested / signal.n_rows)) ** 2
