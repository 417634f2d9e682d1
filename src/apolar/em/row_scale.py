"""Where rows are and how far they spread, without rows that are far from all others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.data import ArrayRows, Rows
from apolar.em.whitening import Whitening, decorrelation, scaling
from apolar.mixture.families import Family, Invariance
from apolar.moments.covariance import ROUNDING, RowMoments, is_constant, row_moments

# The largest deviation of a column, and the inverse of the smallest: sums of squares must not overflow.
MAX_SPREAD = 1e145
# The largest variance of the measurement error, relative to the variance of a column.
MAX_MEASUREMENT = 1e100
# The unit of a constant column, relative to the deviations of the other columns.
CONSTANT_UNIT = 1e-3
# A value is far if it is this many standard deviations of the other rows away from them.
MIN_DEVIATIONS = 100.0


@dataclass(frozen=True, eq=False)
class RowScale:
    """Where rows are and how far they spread, without the rows that are far from all others.

    One far row would set the scale of all: of the whitening, and with it of the prior.

    Attributes
    ----------
    weight : float
        The sum of the weights of all rows.
    n_rows : int
        The number of all rows.
    mean, variances : ndarray, shape (n_features,)
    covariance : ndarray, shape (n_features, n_features), or None
        If the family is whitened by it, or values are missing.
    is_incomplete : bool
        Whether values are missing.
    far_rows : ndarray of int
        The positions of the far rows.
    """

    weight: float
    n_rows: int
    mean: Array
    variances: Array
    covariance: Array | None
    is_incomplete: bool
    far_rows: IndexArray

    @property
    def moments(self) -> RowMoments | None:
        """The first two moments of all rows, if this is what was computed."""
        if self.covariance is None or self.is_incomplete or len(self.far_rows):
            return None
        return RowMoments(self.weight, self.n_rows, self.mean, self.variances, self.covariance)


def scale_of(rows: Rows, family: Family, n_threads: int = 1) -> RowScale:
    """Return the scale of rows for the whitening of a family; they are checked, and read once or twice."""
    has_covariance = family.whitened_by is Invariance.LINEAR
    moments = row_moments(rows, n_threads, has_covariance=has_covariance, allows_missing=True)
    weight, n_rows, is_incomplete = moments.weight, moments.n_rows, moments.is_incomplete
    far_rows = find_far_rows(rows, moments)
    if len(far_rows):
        rows = without_rows(rows, far_rows)
        moments = row_moments(rows, n_threads, has_covariance=has_covariance, allows_missing=True)
    return RowScale(
        weight, n_rows, moments.mean, moments.variances, moments.covariance, is_incomplete, far_rows
    )


def whitening_of(
    rows: Rows, family: Family, measurement: float = 0.0, n_threads: int = 1, scale: RowScale | None = None
) -> Whitening:
    """Return the whitening of rows for a family, by a map under which the family is invariant.

    For spherical families all columns are divided by one number, for diagonal ones each column by its
    deviation, and for full ones the covariance of all rows becomes the identity.

    Parameters
    ----------
    rows : Rows
    family : Family
    measurement : float, default=0.0
        The variance of the measurement error of each row.
    n_threads : int, default=1
    scale : RowScale, optional
        That of the rows, if it is known.

    Returns
    -------
    whitening : Whitening
    """
    scale = scale_of(rows, family, n_threads) if scale is None else scale
    weight, n_rows, mean = scale.weight, scale.n_rows, scale.mean
    # The sample variance, which a single row does not have.
    correction = weight / (weight - 1) if weight >= 2 else 1.0
    variances = np.maximum(scale.variances, 0.0) * correction
    units = column_units(variances, mean)
    _check_scales(variances, units, rows.names, measurement)
    if family.whitened_by is Invariance.SCALING:
        unit = float(np.sqrt(np.mean(variances)))
        all_constant = np.all(is_constant(mean, variances))
        unit = float(units.max()) if all_constant or not unit > 0 else unit
        whitening = scaling(mean, np.asarray(unit), n_rows, weight, measurement)
    elif family.whitened_by is not Invariance.LINEAR:
        whitening = scaling(mean, units, n_rows, weight, measurement)
    else:
        assert scale.covariance is not None
        correlation = scale.covariance * correction / units / units[:, None]
        whitening = decorrelation(mean, units, correlation, n_rows, weight, measurement)
    return replace(whitening, available_covariance=scale.covariance) if scale.is_incomplete else whitening


def _check_scales(variances: Array, units: Array, names: tuple[str, ...] | None, measurement: float) -> None:
    """Refuse columns whose squares overflow or underflow, and measurement errors that dwarf a column."""
    with np.errstate(invalid="ignore"):
        in_range = np.isfinite(variances) & (units < MAX_SPREAD) & (units > 1 / MAX_SPREAD)
    if not np.all(in_range):
        column = int(np.argmin(in_range))
        name = str(column) if names is None else f"{column} ({names[column]!r})"
        deviation = float(np.sqrt(variances[column]))
        scale = f"a deviation of {deviation:.3g}" if deviation > 0 else "values too far from zero"
        raise ValueError(
            f"Column {name} of X has {scale}: its squares leave the range of numbers. Divide the column by "
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
