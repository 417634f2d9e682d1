"""Rows so far from all others that they would set the scale of a column."""

from __future__ import annotations

import math

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.data import ArrayRows, Rows
from apolar.moments.covariance import ColumnMoments

__all__ = ["find_far_rows", "is_host_array", "without_rows"]

# A value is far if it is this many standard deviations of the other rows away from them.
MIN_DEVIATIONS = 100.0


def is_host_array(rows: Rows) -> bool:
    """Return whether rows are those of a NumPy array in memory."""
    return isinstance(rows, ArrayRows) and isinstance(rows.values, np.ndarray) and rows.in_memory


def find_far_rows(rows: Rows, moments: ColumnMoments) -> IndexArray:
    """Return the positions of rows with a value that is far from the values of all other rows.

    The standard deviation leaves out the rows that are furthest from the median: the square root of their
    number. A few rows, such as codes for missing values, can set the scale of a column, but they should not
    be the measure of the others.

    Parameters
    ----------
    rows : Rows
        An array in memory; other sources are not searched.
    moments : ColumnMoments
        Of the columns.

    Returns
    -------
    positions : ndarray of int
    """
    if not is_host_array(rows) or moments.weight < 2:
        return np.zeros(0, dtype=np.intp)
    values, weights = rows.take(slice(None))
    # Rows with weights below one are counted by their number.
    most = min(math.sqrt(moments.weight), moments.weight / math.sqrt(len(values)))
    # Values that are far from the others are at least this far from the mean of all.
    least = MIN_DEVIATIONS / math.sqrt(1 + MIN_DEVIATIONS**2 * most / moments.weight)
    with np.errstate(all="ignore"):
        reach = least * np.sqrt(np.maximum(moments.variances, 0.0))
        highest, lowest = np.fmax.reduce(values, axis=0), np.fmin.reduce(values, axis=0)
        is_suspect = np.maximum(highest - moments.mean, moments.mean - lowest) > reach
        is_far = np.zeros(len(values), dtype=bool)
        for column in np.flatnonzero(is_suspect | ~np.isfinite(moments.variances)):
            is_far |= _is_far(values[:, column].astype(np.float64), weights, most)
    return np.flatnonzero(is_far)


def _is_far(values: Array, weights: Array | None, most: float) -> Array:
    """Return which values of a column are far from the others; weights of at most `most` can be."""
    seen = np.flatnonzero(np.isfinite(values))
    w = np.ones(len(seen)) if weights is None else np.asarray(weights, np.float64)[seen]
    distances = np.abs(values[seen] - np.median(values[seen]))
    order = np.argsort(-distances, kind="stable")
    kept = order[np.searchsorted(np.cumsum(w[order]), most * (1 + 1e-9), side="right") :]
    is_far = np.zeros(len(values), dtype=bool)
    if len(kept) < 2:
        return is_far
    offsets = values[seen[kept]]
    centre = np.average(offsets, weights=w[kept])
    deviation = math.sqrt(float(np.average((offsets - centre) ** 2, weights=w[kept])))
    if deviation > 0:
        is_far[seen] = np.abs(values[seen] - centre) > MIN_DEVIATIONS * deviation
    return is_far


def without_rows(rows: Rows, positions: IndexArray) -> Rows:
    """Return the rows of an array with weight zero at some positions."""
    values, weights = rows.take(slice(None))
    weights = np.ones(len(values)) if weights is None else np.array(weights, np.float64)
    weights[positions] = 0.0
    others = ArrayRows(values, weights)
    others.names = rows.names
    return others
