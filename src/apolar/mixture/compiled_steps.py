"""Steps of EM between two passes over the rows, by the compiled kernels.

Such a step factorises, inverts and multiplies matrices of a few columns. For these a call of NumPy takes far
longer than the arithmetic, and on small tables that is most of a fit. Each of these functions is one call in
place of ten or more. They return None where there is no compiled kernel, where matrices are large, for which
LAPACK is faster, and where a matrix is not safely positive definite: the caller then uses NumPy.

The kernels know how covariances are stored by the number of their axes. What a prior adds is given once where
it is the same for all covariances, and else for each of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from apolar._core.arrays import Array
from apolar._core.compiled import kernels, part_rows
from apolar.mixture.parameters import SufficientStats, WhitenedParameters

if TYPE_CHECKING:
    from apolar.mixture.families import Family
    from apolar.mixture.prior import PriorTerms

# Above this many columns LAPACK is as fast.
MAX_COLUMNS = 32
# The families whose M-step is compiled.
CODES = ["EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"]
# What the kernels take for an array that is not given.
NONE = np.empty(0)
# How they say that a run ended by the collapse of a component.
COLLAPSED = 2


def _applies(n_axes: int, n_features: int) -> bool:
    return kernels is not None and (n_axes < 2 or n_features <= MAX_COLUMNS)


def code_of(family: Family, n_features: int) -> str | None:
    """Return the code by which the kernels know the M-step of a family; None if they do not."""
    return family.code if family.code in CODES and _applies(family.n_axes, n_features) else None


def _contiguous(array: Array | float) -> Array:
    return np.ascontiguousarray(array, dtype=np.float64)


def _once_or_each(values: Array | float, once: tuple[int, ...], each: tuple[int, ...]) -> Array:
    array = _contiguous(values)
    return array if array.size in (math.prod(once), math.prod(each)) else np.full(each, array)


def prior_arrays(
    family: Family, terms: PriorTerms | None, shape: tuple[int, ...], n_features: int
) -> tuple[Array, Array]:
    """Return what a prior adds to the scatters and divisors of mixtures whose weights have that shape."""
    if terms is None:
        return NONE, NONE
    one = (n_features,) * family.n_axes
    each = (*shape[:-1], *family.covariance_shape(shape[-1], n_features))
    return (
        _once_or_each(terms.scatter, one, each),
        _once_or_each(terms.divisor, (), each[: len(each) - family.n_axes]),
    )


def _prior_numbers(terms: PriorTerms | None) -> tuple[float, float]:
    return (0.0, 0.0) if terms is None else (terms.shrinkage, terms.mean_divisor)


def frames_of(family: Family) -> tuple[Array, Array]:
    """Return the map to the units of the data and its inverse, as the kernels take them."""
    if family.frame is None or family.inverse_frame is None:
        return NONE, NONE
    return _contiguous(family.frame), _contiguous(family.inverse_frame)


def m_step(
    family: Family, stats: SufficientStats, terms: PriorTerms | None, near: WhitenedParameters | None
) -> tuple[Array, Array] | None:
    """Return means and covariances from sufficient statistics and what a prior adds to them."""
    shape, n_features = stats.counts.shape, stats.n_features
    code = code_of(family, n_features)
    if code is None:
        return None
    covariances = family.covariance_shape(shape[-1], n_features)
    out = np.empty((*shape, n_features)), np.empty((*shape[:-1], *covariances))
    arrays = (
        *(_contiguous(stats.array), *prior_arrays(family, terms, shape, n_features)),
        *(NONE if near is None else _contiguous(near.covariances), *frames_of(family), *out),
    )
    known = (code, n_features, shape[-1], family.min_variance)
    is_known = kernels.family_m_step(*arrays, *known, *_prior_numbers(terms))
    return out if is_known and np.isfinite(out[1]).all() else None


def plain_run(
    family: Family,
    columns: Array,
    row_weights: Array | None,
    start: WhitenedParameters,
    terms: PriorTerms | None,
    n_steps: int,
    relative: float,
) -> tuple[WhitenedParameters, SufficientStats, Array, bool]:
    """Return the end of plain steps of EM on rows in whitened coordinates, shape (n_features, n_rows).

    It is the mixture of the last E-step and its statistics; log-likelihood, objective and number of E-steps;
    and whether a component collapsed.
    """
    n_components, n_features = start.means.shape
    # Copies, in which the extension writes the ends; a number would not be an array.
    arrays = (start.weights, start.means, np.atleast_1d(start.covariances))
    weights, means, covariances = (np.array(array, np.float64, order="C") for array in arrays)
    stats = np.zeros((n_components, family.n_stats(n_features)))
    results = np.array([-np.inf, -np.inf, 0.0])
    constant = 0.0 if terms is None else float(terms.constant)
    status = kernels.plain_run(
        *(columns, NONE if row_weights is None else _contiguous(row_weights)),
        *prior_arrays(family, terms, (n_components,), n_features),
        *(*frames_of(family), weights, means, covariances, stats, results),
        *(code_of(family, n_features), n_features, n_components, family.min_variance),
        *(*_prior_numbers(terms), constant),
        *(part_rows(columns.shape[1], stats.size), n_steps, relative),
    )
    parameters = WhitenedParameters(weights, means, covariances.reshape(np.shape(start.covariances)))
    return parameters, SufficientStats(stats, n_features), results, status == COLLAPSED


def maximising(family: Family, scatter: Array, divisor: Array, near: Array | None) -> Array | None:
    """Return the covariances that maximise the objective of the M-step."""
    n_features = scatter.shape[-1]
    code = code_of(family, n_features)
    if code is None:
        return None
    out = np.empty(scatter.shape)
    arrays = (
        *(_contiguous(scatter), _contiguous(divisor)),
        *(NONE if near is None else _contiguous(near), *frames_of(family), out),
    )
    known = (code, n_features, divisor.shape[-1], family.min_variance)
    return out if kernels.maximising(*arrays, *known) and np.isfinite(out).all() else None


def natural(family: Family, parameters: WhitenedParameters) -> Array | None:
    """Return natural parameters."""
    weights, means = parameters.weights, parameters.means
    n_features = means.shape[-1]
    if not _applies(family.n_axes, n_features):
        return None
    out = np.empty((*weights.shape, family.n_stats(n_features)))
    arrays = (_contiguous(weights), _contiguous(means), _contiguous(parameters.covariances), out)
    return out if kernels.natural(*arrays, n_features, family.n_axes) else None


def log_prior(family: Family, parameters: WhitenedParameters, terms: PriorTerms) -> Array | None:
    """Return the logarithm of the prior of each component, up to a constant."""
    means, shape = parameters.means, parameters.weights.shape
    n_features = means.shape[-1]
    if not _applies(family.n_axes, n_features) or family.shares_covariance:
        return None
    out = np.empty(shape)
    arrays = (
        *(_contiguous(means), _contiguous(parameters.covariances)),
        *(*prior_arrays(family, terms, shape, n_features), out),
    )
    numbers = (n_features, family.n_axes, *_prior_numbers(terms))
    return out if kernels.log_prior(*arrays, *numbers) else None


def gradient(
    family: Family,
    root: Array,
    tangents: Array,
    means: Array,
    stats: SufficientStats,
    terms: PriorTerms | None,
) -> tuple[Array, Array] | None:
    """Return the gradient in the tangent vectors of the means and of the covariances.

    For families that share nothing; the others have coordinates of their own.
    """
    n_components, n_features = means.shape
    if code_of(family, n_features) is None or family.shares_parameters:
        return None
    out = np.empty(means.shape), np.empty(tangents.shape)
    arrays = (
        *map(_contiguous, (root, tangents, stats.array, means)),
        *(*prior_arrays(family, terms, (n_components,), n_features), *out),
    )
    kernels.gradient(*arrays, n_features, family.n_axes, *_prior_numbers(terms))
    return out


def common_covariance(
    family: Family,
    stats: SufficientStats,
    added: Array,
    *,
    min_count: float,
    volume_rows: float,
    rounds: int,
) -> Array | None:
    """Return the common covariance, with a volume per component: see `apolar.mixture.shrinkage`."""
    n_features, shape = stats.n_features, stats.counts.shape
    if not _applies(family.n_axes, n_features):
        return None
    out = np.empty((*shape, *(n_features,) * family.n_axes))
    numbers = (n_features, family.n_axes, shape[-1], family.min_variance, min_count, volume_rows, rounds)
    arrays = (_contiguous(stats.array), _contiguous(added), out)
    return out if kernels.common_covariance(*arrays, *numbers) else None


# --- matrices -----------------------------------------------------------------------------------


def inverses(covariances: Array) -> tuple[Array, Array] | None:
    """Return the inverses of covariances, and the logarithms of their determinants."""
    n_features = covariances.shape[-1]
    if not _applies(2, n_features):
        return None
    out = np.empty(covariances.shape), np.empty(covariances.shape[:-2])
    return out if kernels.inverses(_contiguous(covariances), *out, n_features) else None


def merging_terms(stats: SufficientStats, least: float) -> Array | None:
    """Return the weight times log-determinant of each component."""
    if not _applies(2, stats.n_features):
        return None
    out = np.empty(stats.counts.shape)
    return out if kernels.merging_terms(_contiguous(stats.array), out, stats.n_features, least) else None


def relative_scatter(stats: SufficientStats, covariances: Array) -> tuple[Array, Array] | None:
    """Return the scatters of components, whitened by covariances, and the log-determinants of these."""
    n_features, shape = stats.n_features, stats.counts.shape
    if not _applies(2, n_features) or shape != covariances.shape[:-2]:
        return None
    out = np.empty(covariances.shape), np.empty(shape)
    arrays = (_contiguous(stats.array), _contiguous(covariances), *out)
    return out if kernels.relative_scatter(*arrays, n_features) else None
