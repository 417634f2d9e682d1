"""Mixtures of any family in few columns, also of more components than columns, from moments of order four on.

Over-seeding from moments alone: the moments are written as a non-negative combination of those of many narrow
Gaussians, in the metric of the sampling errors of a single one. The few that are used are merged, as their
moments are, until as many are left as components were asked for; from there all moments are fitted, weighted
by their sampling errors.
"""

from __future__ import annotations

import contextlib

import numpy as np
from scipy.optimize import nnls

from apolar._core.arrays import Array
from apolar.recovery.gaussian_moments import Mixture, component_moments, normal_points, sampling_covariance
from apolar.recovery.moment_fit import MomentFit, fit_moments, whitener

__all__ = ["dictionary_start", "fits_from_starts", "random_start"]

# Places of the Gaussians of the dictionary, how far out they reach, and their variances in units of the
# smallest eigenvalue of the covariance.
N_PLACES = 1024
REACH = 1.3
VARIANCES = (0.1, 0.25, 0.5, 0.8)
# The smallest eigenvalue of the covariance that is taken for one, in units of the largest.
MIN_EIGENVALUE = 1e-4
# How closely the weights of the combination have to add up to one, beside sampling errors.
SUM_WEIGHT = 100.0
# Weights below this are rounding errors of the combination.
MIN_WEIGHT = 1e-6
# Components with a smaller weight, or a smaller variance in units of the column's, are degenerate.
MIN_COMPONENT, MIN_VARIANCE = 1e-3, 1e-4


def dictionary_start(observed: Array, covariance: Array, n_components: int, order: int) -> Mixture | None:
    """Return a mixture with about the moments observed; None if too few Gaussians are needed for them.

    Parameters
    ----------
    observed : ndarray, shape (n_monomials,)
        Central moments up to an order, of columns with variances of about one.
    covariance : ndarray, shape (n_features, n_features)
    n_components : int
    order : int
    """
    n_features = len(covariance)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, MIN_EIGENVALUE * values[-1])
    smallest = float(values[0])
    places = REACH * (normal_points(n_features, N_PLACES) * np.sqrt(values)) @ vectors.T
    covariance = (vectors * values) @ vectors.T
    means = np.concatenate([places] * len(VARIANCES))
    variances = np.repeat(smallest * np.array(VARIANCES), N_PLACES)[:, None] * np.ones(n_features)
    moments = component_moments(Mixture(np.ones(len(means)), means, variances), order)[:, 1:-1].T
    single = Mixture(np.ones(1), np.zeros((1, n_features)), covariance[None])
    kept = np.arange(1, len(observed))
    metric = whitener(sampling_covariance(single, order, kept), 1.0)
    system = np.vstack([metric @ moments, np.full(len(means), SUM_WEIGHT)])
    try:
        weights, _ = nnls(system, np.append(metric @ observed[kept], SUM_WEIGHT))
    except RuntimeError:  # it did not end
        return None
    used = weights > MIN_WEIGHT
    if np.count_nonzero(used) < n_components:
        return None
    matrices = variances[used][:, :, None] * np.eye(n_features)
    return _merge_pairs(Mixture(weights[used] / weights[used].sum(), means[used], matrices), n_components)


def _merge_pairs(mixture: Mixture, n_components: int) -> Mixture:
    """Return the mixture with pairs of components merged, each time the pair that is nearest by divergence.

    The divergence is bounded by the increase of sum_k w_k log |Sigma_k| / 2 [runnalls2007].
    """
    weights, means, covariances = mixture.weights, mixture.means, mixture.covariances
    while len(weights) > n_components:
        i, j = np.triu_indices(len(weights), 1)
        both = weights[i] + weights[j]
        offsets = means[i] - means[j]
        shares = (weights[i] / both)[:, None]
        spread = (weights[i] * weights[j] / both**2)[:, None, None] * offsets[:, :, None] * offsets[:, None]
        joined = shares[:, :, None] * covariances[i] + (1 - shares[:, :, None]) * covariances[j] + spread
        logs = weights * np.linalg.slogdet(covariances)[1]
        least = int(np.argmin(both * np.linalg.slogdet(joined)[1] - logs[i] - logs[j]))
        mean = shares[least] * means[i[least]] + (1 - shares[least]) * means[j[least]]
        rest = np.delete(np.arange(len(weights)), [i[least], j[least]])
        weights = np.append(weights[rest], both[least])
        means = np.vstack([means[rest], mean])
        covariances = np.concatenate([covariances[rest], joined[least][None]])
    return Mixture(weights, means, covariances)


def random_start(covariance: Array, n_components: int, rng: np.random.Generator) -> Mixture:
    """Return equal components at random places of the covariance."""
    n_features = len(covariance)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, MIN_EIGENVALUE * values[-1])
    means = 0.9 * (rng.standard_normal((n_components, n_features)) * np.sqrt(values)) @ vectors.T
    matrices = np.repeat(0.4 * covariance[None], n_components, axis=0)
    return Mixture(np.full(n_components, 1 / n_components), means, matrices)


def fits_from_starts(
    family: str, starts: list[Mixture], observed: Array, order: int, n_rows: float
) -> list[MomentFit]:
    """Return the fits from some starts that are no degenerate mixtures, the best first."""
    max_iter = 60 if np.isfinite(n_rows) else 200
    fits = []
    for start in starts:
        with contextlib.suppress(np.linalg.LinAlgError):
            bounded = _within_bounds(start)
            fit = fit_moments(family, bounded, observed[1:], order, n_rows, n_rounds=2, max_iter=max_iter)
            if np.isfinite(fit.squares) and not _is_degenerate(fit.mixture):
                fits.append(fit)
    return sorted(fits, key=lambda fit: fit.deviance)


def _within_bounds(start: Mixture) -> Mixture:
    """Return a start with weights and eigenvalues that are not too small."""
    weights = np.maximum(start.weights, 0.1 / len(start.weights))
    values, vectors = np.linalg.eigh(start.matrices)
    matrices = (vectors * np.clip(values, 0.02, 2.0)[:, None]) @ vectors.swapaxes(1, 2)
    return Mixture(weights / weights.sum(), start.means, matrices)


def _is_degenerate(mixture: Mixture) -> bool:
    smallest = np.linalg.eigvalsh(mixture.matrices)[:, 0].min()
    return bool(mixture.weights.min() < MIN_COMPONENT or smallest < MIN_VARIANCE)
