"""Weights of rows: checked, and on the scale of counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core.namespaces import (
    as_float64,
    detach,
    is_dask,
    is_device_array,
    namespace,
    to_device_of,
    to_numpy,
)
from apolar.exceptions import RowError

# The largest mean weight of a row: larger weights are divided.
MAX_MEAN_WEIGHT = 2.0**40
# The largest total weight where weights are not scaled; the smallest is its reciprocal.
MAX_TOTAL_WEIGHT = 1e250


def check_weights(weights: Any, block: Any, first_row: int = 0) -> Any:
    """Return the weights of rows as float64, on their device, after checking them.

    Parameters
    ----------
    weights : array_like, shape (n,), or None
    block : array, shape (n, n_features)
        The rows.
    first_row : int, default=0
        The index of the first row, for messages.
    """
    if weights is None:
        return None
    if not is_device_array(weights):
        weights = np.asarray(weights)
        if weights.dtype.kind not in "buif":
            raise TypeError("sample_weight must hold real numbers.")
    if tuple(weights.shape) != (block.shape[0],):
        raise ValueError(f"sample_weight must have shape ({block.shape[0]},); got {tuple(weights.shape)}.")
    if not is_device_array(block):
        weights = np.asarray(to_numpy(weights), dtype=np.float64)
    elif is_device_array(weights):
        weights = as_float64(detach(weights))
    else:
        weights = to_device_of(np.asarray(weights, np.float64), block)
    xp = namespace(weights)
    if not bool(xp.all(xp.isfinite(weights))) or bool(xp.any(weights < 0)):
        raise RowError(first_row, "sample_weight is negative or not finite, from row {row} on.")
    return weights


def check_total_weight(weight: float) -> None:
    """Raise ValueError if the total weight overflows or underflows."""
    if not 1 / MAX_TOTAL_WEIGHT < weight < MAX_TOTAL_WEIGHT:
        raise ValueError(
            f"sample_weight adds up to {weight:.3g}, too large or too small for sums: multiply all weights "
            "by one number, so that they add up to about the number of rows."
        )


def as_counts(sample_weight: Any) -> Any:
    """Return weights on the scale of counts of rows: multiplied by one factor, if their mean is below one.

    The prior is worth a number of rows: it would dominate weights that sum to one. Weights of mean one or
    more stay as they are, so that weight two is the same as a repeated row. Very large weights are divided,
    so that sums of their squares do not overflow. Invalid weights are returned as they are: they are refused
    when rows and weights are read.

    Parameters
    ----------
    sample_weight : array_like, dask array or dask series, shape (n_samples,), or None

    Returns
    -------
    weights : array, dask array or dask series, shape (n_samples,), or None
    """
    if sample_weight is None or getattr(sample_weight, "ndim", 1) != 1:
        return sample_weight
    if is_dask(sample_weight):
        return sample_weight * _factor(sample_weight.sum().compute(), (sample_weight > 0).sum().compute())
    weights = sample_weight if is_device_array(sample_weight) else np.asarray(sample_weight)
    if not is_device_array(weights) and weights.dtype.kind not in "buif":
        return weights
    xp = namespace(weights)
    weights = as_float64(weights) if is_device_array(weights) else weights.astype(np.float64, copy=False)
    largest = float(xp.max(weights)) if weights.ndim == 1 and weights.shape[0] else 0.0
    if not 0 < largest < np.inf:
        return weights
    # Divided by the largest first: the sum of the weights themselves may overflow.
    relative = weights / largest
    n_weighted, total = float(xp.sum(xp.astype(weights > 0, weights.dtype))), float(xp.sum(relative))
    factor = _factor(total * largest, n_weighted)
    if factor == 1:
        return weights
    return (
        relative * (n_weighted / total) if factor > 1 else relative * (n_weighted * MAX_MEAN_WEIGHT / total)
    )


def counted_rows(total: float, n_weighted: int) -> float:
    """Return how many rows weights stand for, on the scale of `as_counts`.

    Parameters
    ----------
    total : float
        The sum of the weights.
    n_weighted : int
        The number of positive weights.
    """
    return total * _factor(total, n_weighted)


def _factor(total: float, n_weighted: float) -> float:
    """Return the factor for weights of this sum, of which `n_weighted` are positive."""
    if not total > 0:
        return 1.0
    if total < n_weighted * (1 - 1e-12):
        return float(n_weighted / total)
    return min(1.0, float(n_weighted * MAX_MEAN_WEIGHT / total))
