"""The resolution of columns: the step that values are whole multiples of, counted from the smallest one."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS

# Values repeat if there are at most this many different ones per row.
MAX_DISTINCT = 0.9
# A column without a repeated value among its first rows, this many of them, is not examined any further.
FIRST_ROWS = 1000
# The rounding errors of a value, relative to the largest one: of one that was read, and a few operations on.
ROUNDINGS = 4.0
# How far a value may be from a whole multiple of the step, in steps.
MAX_OFF = 0.1


def rounding_variances(values: Array, weights: Array | None = None) -> Array:
    """Return the variance of the rounding errors of each column, from the rows in which it is observed.

    Those of a column with a resolution are evenly spread over one step, of variance step^2 / 12. Columns
    without a resolution have none.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_features)
        NaN where a value is missing. They may have been rounded to single precision.
    weights : ndarray, shape (n_rows,), optional
        How many rows each row stands for.

    Returns
    -------
    variances : ndarray, shape (n_features,)
    """
    variances = np.zeros(values.shape[1])
    for number, column in enumerate(values.T):
        is_seen = ~np.isnan(column)
        seen, row_weights = column[is_seen], None if weights is None else weights[is_seen]
        step = resolution(seen, row_weights)
        if step > 0:
            spread = np.average((seen - np.average(seen, weights=row_weights)) ** 2, weights=row_weights)
            variances[number] = min(step**2 / 12, SETTINGS.max_rounding * spread)
    return variances


def resolution(column: Array, weights: Array | None = None) -> float:
    """Return the step of a column that is recorded with a resolution, or zero.

    A column has a resolution if its values repeat, and are all whole multiples of their smallest gap, counted
    from the smallest value: integers, one decimal, or those divided by any number.

    Parameters
    ----------
    column : ndarray of float64, shape (n_rows,)
        Finite.
    weights : ndarray, shape (n_rows,), optional
    """
    if weights is not None:
        column, weights = column[weights > 0], weights[weights > 0]
    # Most columns of measurements are told here, at the cost of a short sort.
    elif len(np.unique(column[:FIRST_ROWS])) == len(column[:FIRST_ROWS]):
        return 0.0
    n_rows = len(column) if weights is None else float(weights.sum())
    distinct = np.unique(column)
    return _step(distinct) if 1 < len(distinct) <= MAX_DISTINCT * n_rows else 0.0


def _step(distinct: Array) -> float:
    """Return the step of sorted distinct values, or zero if they have none."""
    step = _step_up_to(distinct, float(np.finfo(np.float64).eps))
    if step:
        return step
    # In single precision, multiples of a tenth are off by more.
    with np.errstate(over="ignore", under="ignore"):
        is_single = np.all(distinct == distinct.astype(np.float32))
    return _step_up_to(distinct, float(np.finfo(np.float32).eps)) if is_single else 0.0


def _step_up_to(distinct: Array, precision: float) -> float:
    """Return the step of sorted values that are rounded to a relative precision, or zero."""
    error = ROUNDINGS * precision * float(np.abs(distinct).max())
    offsets = distinct - distinct[0]
    lengths = np.concatenate([np.diff(offsets), offsets])
    # Values that are equal up to rounding are not a step apart.
    lengths = np.sort(lengths[lengths > 2 * error])
    if not len(lengths):
        return 0.0
    step, uncertainty, reach = float(lengths[0]), 2 * error, 0.0
    # The number of steps in a length is certain only if the length is not too large. From the largest such
    # length the step is known more accurately, and the next one is larger.
    while reach < lengths[-1]:
        limit = 0.25 * step * (step / uncertainty) if uncertainty else np.inf
        certain = lengths[: np.searchsorted(lengths, limit, side="right")]
        if not len(certain) or not certain[-1] > reach:
            return 0.0
        reach = float(certain[-1])
        n_steps = round(reach / step)
        step, uncertainty = reach / n_steps, 2 * error / n_steps
    in_steps = offsets / step
    is_off = np.abs(in_steps - np.rint(in_steps)) > 2 * error / step
    return 0.0 if 2 * error > MAX_OFF * step or np.any(is_off) else step
