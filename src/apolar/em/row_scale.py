"""Where rows are and how far they spread, without rows that are far from all others."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.data import ArrayRows, Rows, fetch_rows
from apolar.em.whitening import MAX_DISTANCE, Whitening, whitening_by
from apolar.mixture.families import Family
from apolar.moments.covariance import ROUNDING, RowMoments, is_constant, row_moments

# The largest deviation of a column, and the inverse of the smallest: sums of squares must not overflow.
MAX_SPREAD = 1e145
# The largest distance of a row that is far from all others, in deviations. Responsibilities are at least
# exp(-100), about 1e-43: times the square of a larger distance, they would count in sums.
MAX_FAR_DISTANCE = 1e20
# The largest variance of the measurement error, relative to the variance of a column.
MAX_MEASUREMENT = 1e100
# The unit of a constant column, relative to the deviations of the other columns.
CONSTANT_UNIT = 1e-3
# A value is far if it is this many standard deviations of the other rows away from them.
MIN_DEVIATIONS = 100.0


def scale_of(rows: Rows, family: Family, n_threads: int = 1) -> tuple[RowMoments, IndexArray]:
    """Return where rows are and how far they spread, without those that are far from all others.

    One far row would set the scale of all: of the whitening, and with it of the prior. Rows are checked, and
    read once or twice.

    Returns
    -------
    scale : RowMoments
        Weight and number are those of all rows. The covariance is there if the family is whitened by it, or
        values are missing.
    far_rows : ndarray of int
        The positions of the far rows.
    """
    has_covariance = not family.is_axis_aligned
    scale = row_moments(rows, n_threads, has_covariance=has_covariance, allows_missing=True)
    far_rows = find_far_rows(rows, scale)
    if len(far_rows):
        rows = without_rows(rows, far_rows)
        others = row_moments(rows, n_threads, has_covariance=has_covariance, allows_missing=True)
        scale = replace(scale, mean=others.mean, variances=others.variances, covariance=others.covariance)
    return scale, far_rows


def whitening_of(scale: RowMoments, family: Family) -> Whitening:
    """Return the whitening of rows for a family, by a map under which the family is invariant.

    For spherical families all columns are divided by one number, for diagonal ones each column by its
    deviation, and for full ones the covariance of all rows becomes the identity.
    """
    # The sample variance, which a single row does not have.
    correction = scale.weight / (scale.weight - 1) if scale.weight >= 2 else 1.0
    variances = np.maximum(scale.variances, 0.0) * correction
    units = column_units(variances, scale.mean)
    if not family.is_axis_aligned:
        assert scale.covariance is not None
        return whitening_by(scale.mean, units, scale.covariance * correction)
    if family.is_spherical:
        unit = np.sqrt(np.mean(variances))
        is_any = unit > 0 and not np.all(is_constant(scale.mean, variances))
        units = np.asarray(unit if is_any else units.max())
    return whitening_by(scale.mean, units)


def check_scale(scale: RowMoments, names: tuple[str, ...] | None, measurement: float) -> None:
    """Refuse columns whose squares overflow or underflow, and measurement errors that dwarf a column."""
    units = column_units(np.maximum(scale.variances, 0.0), scale.mean)
    with np.errstate(invalid="ignore"):
        in_range = np.isfinite(scale.variances) & (units < MAX_SPREAD) & (units > 1 / MAX_SPREAD)
    if not np.all(in_range):
        column = int(np.argmin(in_range))
        name = str(column) if names is None else f"{column} ({names[column]!r})"
        deviation = float(np.sqrt(scale.variances[column]))
        spread = f"a deviation of {deviation:.3g}" if deviation > 0 else "values too far from zero"
        raise ValueError(
            f"Column {name} of X has {spread}: its squares leave the range of numbers. Divide the column by "
            "its scale first, or leave it out."
        )
    if measurement > MAX_MEASUREMENT * float(units.min()) ** 2:
        raise ValueError(
            f"reg_covar={measurement:.3g} is more than {MAX_MEASUREMENT:.0e} times the variance of a column: "
            "beside it the column is nothing. Give a smaller one, or None."
        )


def column_units(variances: Array, mean: Array) -> Array:
    """Return the unit of each column: its deviation, or a small unit if the column is constant."""
    deviations = np.sqrt(variances)
    constant = is_constant(mean, variances)
    if not np.any(constant):
        return deviations
    varying = deviations[~constant]
    if len(varying):
        unit = CONSTANT_UNIT * float(np.sqrt(np.mean(varying**2)))
    else:
        unit = CONSTANT_UNIT * max(float(np.abs(mean).max()), 1.0)
    # The unit must be large compared with the rounding errors of the column.
    return np.where(constant, np.maximum(unit, 1e3 * ROUNDING * np.abs(mean)), deviations)


# --- rows that are far from all others ---------------------------------------------


def is_host_array(rows: Rows) -> bool:
    """Return whether rows are those of a NumPy array in memory."""
    return isinstance(rows, ArrayRows) and isinstance(rows.values, np.ndarray) and rows.in_memory


def find_far_rows(rows: Rows, moments: RowMoments) -> IndexArray:
    """Return the positions of rows with a value that is far from the values of all other rows.

    The standard deviation leaves out the rows that are furthest from the median: the square root of their
    number. A few rows, such as codes for missing values, can set the scale of a column, but they should not
    be the measure of the others.

    Parameters
    ----------
    rows : Rows
        An array in memory; other sources are not searched.
    moments : RowMoments
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


def refuse_rows_out_of_reach(rows: Rows, whitening: Whitening, far_rows: IndexArray) -> None:
    """Refuse rows so far from the others that squares of their distances are too large for sums.

    Rows without weights that count in the scale cannot be that far from the mean.
    """
    if len(far_rows):
        values, _ = fetch_rows(rows, far_rows)
        distances = np.nanmax(np.abs(values - whitening.centre) / whitening.deviations, axis=1)
        if np.max(distances) > MAX_FAR_DISTANCE:
            row = int(far_rows[np.argmax(distances)])
            raise ValueError(
                f"A row of X (number {row} of those with weight) is more than {MAX_FAR_DISTANCE:.0e} "
                "standard deviations away from the others: remove it."
            )
    if not is_host_array(rows):
        return
    values, weights = rows.take(slice(None))
    if weights is None:
        return
    values = np.where(np.isnan(values), whitening.centre, values)
    if whitening.within_reach(values) is not values:
        row = int(np.argmax(np.max(np.abs(values / np.max(np.abs(values), axis=0)), axis=1)))
        raise ValueError(
            f"A row of X (number {row} of those with weight) lies more than {MAX_DISTANCE:.0e} "
            "deviations from the mean, and its weight is negligible: leave it out."
        )
