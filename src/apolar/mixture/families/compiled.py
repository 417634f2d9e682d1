"""Steps of EM for full covariances of few columns, by the compiled kernels.

Between two passes over the rows, a step of EM factorises, inverts and multiplies matrices of a few columns.
For these a call of NumPy takes far longer than the arithmetic, and on small tables that is most of a fit.
Each of these functions is one call in place of ten or more. They return None where there is no compiled
kernel, where matrices are large, for which LAPACK is faster, and where a matrix is not safely positive
definite: the caller then uses NumPy.
"""

from __future__ import annotations

import math

import numpy as np

from apolar._core.arrays import Array
from apolar._core.compiled import extension
from apolar.mixture.prior import PriorTerms

kernels = extension()

# Above this many columns LAPACK is as fast.
MOST_COLUMNS = 32


def _applies(n_features: int) -> bool:
    return kernels is not None and n_features <= MOST_COLUMNS


def _contiguous(array: Array) -> Array:
    return np.ascontiguousarray(array, dtype=np.float64)


def exceed(covariances: Array, least: float) -> bool:
    """Return whether all squared pivots are known to exceed a variance; False where there is no kernel."""
    n_features = covariances.shape[-1]
    return _applies(n_features) and kernels.exceed(_contiguous(covariances), n_features, least)


def inverses(covariances: Array) -> tuple[Array, Array] | None:
    """Return the inverses of covariances, and the logarithms of their determinants."""
    n_features = covariances.shape[-1]
    if not _applies(n_features):
        return None
    out, log_dets = np.empty(covariances.shape), np.empty(covariances.shape[:-2])
    return (out, log_dets) if kernels.inverses(_contiguous(covariances), out, log_dets, n_features) else None


def natural(weights: Array, means: Array, covariances: Array) -> Array | None:
    """Return natural parameters; covariances have an axis of components, of length one if they share one."""
    n_features = means.shape[-1]
    if not _applies(n_features):
        return None
    out = np.empty((*weights.shape, 1 + n_features + n_features * (n_features + 1) // 2))
    arrays = (_contiguous(weights), _contiguous(means), _contiguous(covariances))
    return out if kernels.natural(*arrays, out, n_features) else None


def merging_terms(stats: Array, n_features: int, least: float) -> Array | None:
    """Return the weight times log-determinant of each component."""
    if not _applies(n_features):
        return None
    out = np.empty(stats.shape[:-1])
    return out if kernels.merging_terms(_contiguous(stats), out, n_features, least) else None


def merged_by_terms(stats: Array, n_features: int, n_components: int, least: float) -> Array | None:
    """Return the statistics of components after greedy merging by weights and log-determinants."""
    if not _applies(n_features):
        return None
    stats, is_active = stats.copy(), np.empty(len(stats))
    if not kernels.merge_by_terms(stats, is_active, n_features, n_components, least):
        return None
    return stats[is_active > 0]


def m_step(
    stats: Array, n_features: int, terms: PriorTerms | None, least: float
) -> tuple[Array, Array] | None:
    """Return means and covariances from sufficient statistics and what a prior adds to them."""
    if not _applies(n_features):
        return None
    shape = stats.shape[:-1]
    if terms is None:
        shrinkage, added, divisors = 0.0, np.zeros((n_features, n_features)), np.zeros(shape)
    else:
        shrinkage, added = terms.shrinkage, terms.scatter
        if not _is_per_component(added, shape):
            return None
        divisors = np.full(shape, terms.divisor + terms.mean_divisor)
    means, covariances = np.empty((*shape, n_features)), np.empty((*shape, n_features, n_features))
    arrays = (_contiguous(stats), _contiguous(added), divisors, means, covariances)
    return (means, covariances) if kernels.m_step(*arrays, n_features, shrinkage, least) else None


def log_prior(means: Array, covariances: Array, terms: PriorTerms) -> Array | None:
    """Return the logarithm of the prior of each component, up to a constant."""
    n_features, shape = means.shape[-1], means.shape[:-1]
    if not _applies(n_features) or not _is_per_component(terms.scatter, shape):
        return None
    out, divisors = np.empty(shape), np.full(shape, terms.divisor + terms.mean_divisor)
    arrays = (_contiguous(means), _contiguous(covariances), _contiguous(terms.scatter), divisors, out)
    return out if kernels.log_prior(*arrays, n_features, terms.shrinkage) else None


def common_covariance(
    stats: Array,
    n_features: int,
    added: Array,
    *,
    least: float,
    least_count: float,
    volume_rows: float,
    rounds: int,
) -> Array | None:
    """Return the common covariance, with a volume per component: `apolar.mixture.shrinkage`."""
    if not _applies(n_features):
        return None
    n_components = stats.shape[-2]
    out = np.empty((*stats.shape[:-1], n_features, n_features))
    numbers = (n_features, n_components, least, least_count, volume_rows, rounds)
    return out if kernels.common_covariance(_contiguous(stats), _contiguous(added), out, *numbers) else None


def relative_scatter(stats: Array, covariances: Array) -> tuple[Array, Array] | None:
    """Return the scatters of components, whitened by covariances, and the log-determinants of these."""
    n_features = covariances.shape[-1]
    if not _applies(n_features) or stats.shape[:-1] != covariances.shape[:-2]:
        return None
    out, log_dets = np.empty(covariances.shape), np.empty(stats.shape[:-1])
    arrays = (_contiguous(stats), _contiguous(covariances), out, log_dets)
    return (out, log_dets) if kernels.relative_scatter(*arrays, n_features) else None


def log_marginals(counts: Array, spectrum: Array, strengths: Array) -> Array | None:
    """Return the log-marginal of each component under each of some strengths, shape (n, *counts.shape)."""
    n_features = spectrum.shape[-1]
    if not _applies(n_features):
        return None
    out = np.empty((len(strengths), *counts.shape))
    kernels.log_marginals(_contiguous(counts), _contiguous(spectrum), strengths, out, n_features)
    return out


def retraction(root: Array, tangents: Array, least: float) -> Array | None:
    """Return the covariances L T T^t L^t at tangent vectors."""
    n_features = root.shape[-1]
    if not _applies(n_features):
        return None
    out = np.empty(root.shape)
    is_above = kernels.retraction(_contiguous(root), _contiguous(tangents), out, n_features, least)
    return out if is_above else None


def gradient(
    root: Array, tangents: Array, means: Array, stats: Array, terms: PriorTerms | None
) -> tuple[Array, Array] | None:
    """Return the gradient in the tangent vectors of the means and of the covariances."""
    n_components, n_features = means.shape
    if not _applies(n_features):
        return None
    shrinkage, added, divisors = 0.0, np.zeros((n_features, n_features)), np.zeros(n_components)
    if terms is not None:
        shrinkage, added = terms.shrinkage, terms.scatter
        if not _is_per_component(added, (n_components,)):
            return None
        divisors = np.full(n_components, terms.divisor + terms.mean_divisor)
    by_mean, by_covariance = np.empty(means.shape), np.empty(tangents.shape)
    arrays = (root, tangents, stats, means, added, divisors)
    kernels.gradient(*map(_contiguous, arrays), by_mean, by_covariance, n_features, shrinkage)
    return by_mean, by_covariance


def _is_per_component(added: Array, shape: tuple[int, ...]) -> bool:
    """Return whether what a prior adds to the scatters is one matrix for all components, or one for each."""
    return added.ndim == 2 or added.size == math.prod(shape) * added.shape[-1] ** 2
