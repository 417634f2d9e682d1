"""The M-step of families that share covariances, or parts of them, by the compiled kernels: see `compiled`.

The functions return None where there is no compiled kernel, where a matrix is not safely positive definite,
and where numbers leave the range of the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families import compiled
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import PriorTerms
from apolar.mixture.stats import SufficientStats

if TYPE_CHECKING:
    from apolar.mixture.families.base import Family

# What the kernels take for an array that is not given.
NONE = np.empty(0)


def code_of(family: Family, n_features: int) -> str | None:
    """Return the code by which the kernels know a family; None if there are none."""
    if compiled.kernels is None or n_features > compiled.MOST_COLUMNS:
        return None
    return family.compiled_code


def frames_of(family: Family) -> tuple[Array, Array]:
    """Return the map to the units of the data and its inverse, as the kernels take them."""
    if family.frame is None or family.inverse_frame is None:
        return NONE, NONE
    return _contiguous(family.frame), _contiguous(family.inverse_frame)


def prior_arrays(
    family: Family, terms: PriorTerms | None, shape: tuple[int, ...], n_features: int
) -> tuple[Array, Array]:
    """Return what a prior adds to the scatters and divisors of mixtures whose weights have that shape."""
    if terms is None:
        return NONE, NONE
    lead, n_components = shape[:-1], shape[-1]
    covariances = family.covariance_shape(n_components, n_features)
    per_covariance = covariances[: len(covariances) - family.n_axes]
    added = np.broadcast_to(terms.scatter, (*lead, *covariances))
    return _contiguous(added), _contiguous(np.broadcast_to(terms.divisor, (*lead, *per_covariance)))


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
    numbers = (0.0, 0.0) if terms is None else (terms.shrinkage, terms.mean_divisor)
    known = (code, n_features, shape[-1], family.least_variance)
    is_known = compiled.kernels.family_m_step(*arrays, *known, *numbers)
    return out if is_known and np.isfinite(out[1]).all() else None


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
    known = (code, n_features, divisor.shape[-1], family.least_variance)
    return out if compiled.kernels.maximising(*arrays, *known) and np.isfinite(out).all() else None


def _contiguous(array: Array) -> Array:
    return np.ascontiguousarray(array, dtype=np.float64)
