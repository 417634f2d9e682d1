"""Weights of rows, as counts, and the range in which they can be summed."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core.namespaces import as_float64, is_dask, is_device_array, namespace

# Weights that add up to more than so many times the rows say no more than this.
MOST_COPIES = 2.0**40
# What weights may add up to, and one over it, where they are taken as they are.
MOST_WEIGHT = 1e250


def check_total_weight(weight: float, squares: float) -> None:
    """Refuse weights that cannot be summed, or their squares, without leaving the range of numbers."""
    if not (1 / MOST_WEIGHT < weight < MOST_WEIGHT and np.isfinite(squares)):
        raise ValueError(
            f"sample_weight adds up to {weight:.3g}, beyond what sums can tell: multiply all weights by one "
            "number, so that they add up to about the number of rows."
        )


def as_counts(sample_weight: Any) -> Any:
    """Return weights that count rows: those that add up to fewer rows than have weight are multiplied.

    The prior counts rows: weights that add up to one would leave all to it. Weights of one or more, counts or
    not, stay as they are, so that a row of weight two is a row that is there twice. Vast ones are divided, so
    that sums of squares stay numbers. What is no list of numbers is returned as it is, to be refused where
    rows and weights are read.
    """
    if sample_weight is None:
        return None
    if is_dask(sample_weight):
        return sample_weight * _factor(sample_weight.sum().compute(), (sample_weight > 0).sum().compute())
    weights = sample_weight if is_device_array(sample_weight) else np.asarray(sample_weight)
    if not is_device_array(weights) and weights.dtype.kind not in "buif":
        return weights
    xp = namespace(weights)
    weights = as_float64(weights) if is_device_array(weights) else weights.astype(np.float64, copy=False)
    if weights.ndim != 1 or not weights.shape[0] or not bool(xp.all(xp.isfinite(weights))):
        return weights
    largest = float(xp.max(weights))
    if not largest > 0:
        return weights
    # Relative to the largest first: their sum may not be a number.
    relative = weights / largest
    n_weighted, total = float(xp.sum(xp.astype(weights > 0, weights.dtype))), float(xp.sum(relative))
    factor = _factor(total * largest, n_weighted)
    if factor == 1:
        return weights
    return relative * (n_weighted / total) if factor > 1 else relative * (n_weighted * MOST_COPIES / total)


def _factor(total: float, n_weighted: float) -> float:
    """Return what weights of that sum, of so many rows, are multiplied by."""
    if not total > 0:
        return 1.0
    if total < n_weighted * (1 - 1e-12):
        return float(n_weighted / total)
    return min(1.0, float(n_weighted * MOST_COPIES / total))
