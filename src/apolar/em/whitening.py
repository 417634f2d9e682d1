"""Whitened coordinates, in which EM runs: rows have mean zero and unit variance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array, IndexArray
from apolar._core.namespaces import to_device_of, write
from apolar.data import ArrayRows, Rows
from apolar.mixture.families import Family
from apolar.mixture.low_rank import rescale
from apolar.mixture.parameters import MixtureParameters, NoiseBox, Parameters, WhitenedParameters
from apolar.moments.covariance import COLUMN_ROUNDING, RowMoments, is_constant, row_moments

# The largest distance of a row from the centre, in deviations of the columns.
MAX_DISTANCE = 1e140
# The least eigenvalue of the correlation matrix that is divided by.
MIN_WHITENED = 1e-6
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


@dataclass(frozen=True, eq=False)
class Whitening:
    """The affine map from the units of the data to whitened coordinates, x -> (x - centre) A.

    Attributes
    ----------
    centre : ndarray, shape (n_features,)
    matrix : ndarray
        A: a number, shape (n_features,) if diagonal, or (n_features, n_features).
    inverse : ndarray
        Of the same shape as `matrix`.
    log_det : float
        log |det A|: adding it to the log-density of a whitened row gives that in the units of the data.
    """

    centre: Array
    matrix: Array
    inverse: Array
    log_det: float

    @property
    def covariance(self) -> Array:
        """The covariance that becomes the identity, shape (n_features, n_features), in units of the data."""
        covariance = diagonal_covariance(np.ones(len(self.centre)), self.inverse)
        return covariance if covariance.ndim == 2 else np.diag(np.broadcast_to(covariance, len(self.centre)))

    @property
    def deviations(self) -> Array:
        """The deviation of each column, in the units of the data; one number if all columns have one unit."""
        inverse = self.inverse
        return np.sqrt(np.einsum("ij,ij->j", inverse, inverse)) if inverse.ndim == 2 else inverse

    def write(self, block: Any, out: Any) -> None:
        """Write rows, shape (n, n_features), in whitened coordinates into `out`, shape (n_features, n)."""
        dense = block.toarray() if sparse.issparse(block) else block
        centre = to_device_of(self.centre, out)
        if self.matrix.ndim == 2:
            write("matmul", to_device_of(self.matrix.T, out), (dense - centre).T, out=out)
            return
        write("subtract", dense.T, centre[:, None], out=out)
        out *= float(self.matrix) if self.matrix.ndim == 0 else to_device_of(self.matrix, out)[:, None]

    def transform(self, points: Array) -> Array:
        """Return points, shape (..., n_features), in whitened coordinates."""
        return _times(points - self.centre, self.matrix)

    def inverse_transform(self, points: Array) -> Array:
        """Return whitened points in the units of the data."""
        return self.centre + _times(points, self.inverse)

    def within_reach(self, block: Array) -> Array:
        """Return rows, shape (n, n_features), clipped so that squares of their distances do not overflow.

        The log-density of rows further than `MAX_DISTANCE` deviations from the centre would overflow; it is
        computed as if they were at that distance.
        """
        reach = MAX_DISTANCE * self.deviations
        if max(float(block.max(initial=0.0)), -float(block.min(initial=0.0))) < float(np.min(reach)):
            return block
        return np.clip(block, self.centre - reach, self.centre + reach)

    def transform_parameters(self, parameters: MixtureParameters) -> WhitenedParameters:
        """Return mixtures in whitened coordinates."""
        means = self.transform(parameters.means)
        covariances = _congruent(parameters, self.matrix)
        return WhitenedParameters(parameters.weights, means, covariances, dof=parameters.dof)

    def inverse_transform_parameters(
        self, parameters: WhitenedParameters, noise: NoiseBox | None = None
    ) -> MixtureParameters:
        """Return whitened mixtures in the units of the data, with their noise component if there is one."""
        means = self.inverse_transform(parameters.means)
        covariances = _congruent(parameters, self.inverse)
        return MixtureParameters(parameters.weights, means, covariances, noise, dof=parameters.dof)


def _times(points: Array, matrix: Array) -> Array:
    return points @ matrix if matrix.ndim == 2 else points * matrix


def _congruent(parameters: Parameters, matrix: Array) -> Array:
    """Return A^t S A for each covariance S of mixtures."""
    covariances = parameters.covariances
    if covariances.ndim > parameters.means.ndim and matrix.ndim < 2:
        # Of few factors: other matrices are decorrelated.
        return rescale(covariances, matrix)
    if matrix.ndim == 2:
        product = matrix.T @ covariances @ matrix
        return (product + np.swapaxes(product, -1, -2)) / 2
    return covariances * matrix**2


def diagonal_covariance(variances: Array | float, matrix: Array) -> Array:
    """Return A^t diag(variances) A in the form of A: a number (of the mean variance), diagonal, or matrix."""
    if matrix.ndim == 2:
        return (matrix.T * variances) @ matrix
    return np.asarray((variances if matrix.ndim else np.mean(variances)) * matrix**2)


def whitening_by(centre: Array, units: Array, covariance: Array | None = None) -> Whitening:
    """Return the whitening that divides all columns by one unit, or each by its own, and decorrelates them.

    Parameters
    ----------
    centre : ndarray, shape (n_features,)
    units : ndarray, shape () or (n_features,)
    covariance : ndarray, shape (n_features, n_features), optional
        By default, columns are not decorrelated.

    Returns
    -------
    whitening : Whitening
    """
    if covariance is None:
        log_det = -float(np.sum(np.log(units))) * (len(centre) if units.ndim == 0 else 1)
        return Whitening(centre, np.asarray(1 / units), units, log_det)
    values, vectors = np.linalg.eigh(covariance / units / units[:, None])
    roots = np.sqrt(np.maximum(values, MIN_WHITENED))
    matrix = vectors / roots / units[:, None]
    log_det = -float(np.log(roots).sum() + np.log(units).sum())
    return Whitening(centre, matrix, (vectors * roots).T * units, log_det)


def whitening_around(parameters: MixtureParameters, family: Family) -> Whitening:
    """Return the whitening of rows with the mean and covariance of a mixture, in the units of the data.

    If the mixture has noise, these are the mean and covariance of the components.
    """
    weights, means = parameters.weights, parameters.means
    weights = weights if parameters.noise is None else weights / weights.sum()
    centre = weights @ means
    family, covariances = family.without_correlations(parameters.covariances)
    between = family.between(means - centre, weights).sum(axis=0)
    within = family.average(covariances, weights)
    total = within + between / family.divisor(np.ones(()), means.shape[1])
    if not family.is_axis_aligned:
        return whitening_by(centre, np.sqrt(np.diag(total)), total)
    variances = family.diagonals(total)
    if family.is_spherical:
        variances = np.asarray(np.mean(variances))
    return whitening_by(centre, np.asarray(np.sqrt(variances)))


def mixture_around(parameters: MixtureParameters, family: Family) -> tuple[Whitening, WhitenedParameters]:
    """Return the whitening around a mixture, and the mixture in its coordinates.

    All that is asked of a fitted mixture is computed there. Matrices are transformed by their roots: products
    with the matrices themselves may not be positive definite, by rounding.
    """
    whitening = whitening_around(parameters, family)
    inside = whitening.transform_parameters(parameters)
    if whitening.matrix.ndim == 2:
        roots = whitening.matrix.T @ family.root(parameters.covariances)
        inside = replace(inside, covariances=roots @ np.swapaxes(roots, -1, -2))
    return whitening, inside


# --- the whitening of rows, without those that are far from all others ----------------------------


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
    has_covariance = family.unit_axes == 2
    scale = row_moments(rows, n_threads, has_covariance=has_covariance, allows_missing=True)
    far_rows = find_far_rows(rows, scale)
    if len(far_rows):
        rows = without_rows(rows, far_rows)
        # Also if values are missing in the far rows only: these are still to be completed.
        has_covariance = has_covariance or scale.counts is not None
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
    if family.unit_axes == 2:
        assert scale.covariance is not None
        return whitening_by(scale.mean, units, scale.covariance * correction)
    if not family.unit_axes:
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
            f"Column {name} of X has {spread}: its squares overflow or underflow. Divide the column by "
            "its scale first, or leave it out."
        )
    if measurement > MAX_MEASUREMENT * float(units.min()) ** 2:
        raise ValueError(
            f"reg_covar={measurement:.3g} is more than {MAX_MEASUREMENT:.0e} times the variance of a column, "
            "which would then not count at all. Give a smaller one, or None."
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
    return np.where(constant, np.maximum(unit, 1e3 * COLUMN_ROUNDING * np.abs(mean)), deviations)


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
            is_far |= _is_far(values[:, column].astype(np.float64), weights, most / moments.weight)
    # Each of a few rows is far from the others in some column, if there are many columns.
    return np.flatnonzero(is_far & (2 * np.count_nonzero(is_far) <= len(values)))


def _is_far(values: Array, weights: Array | None, share: float) -> Array:
    """Return which values of a column are far from the others; at most that share of them can be."""
    is_seen = np.isfinite(values)
    seen, row_weights = values[is_seen], None if weights is None else np.asarray(weights, np.float64)[is_seen]
    is_far = np.zeros(len(values), dtype=bool)
    if len(seen) > 2:
        distances = np.abs(seen - np.median(seen))
        level = max(1 - share, 0.0)
        kept = distances <= np.quantile(distances, level, weights=row_weights, method="inverted_cdf")
        of_kept = None if row_weights is None else row_weights[kept]
        offsets = seen - np.average(seen[kept], weights=of_kept)
        steps = np.diff(np.unique(seen[kept]))
        deviation = math.sqrt(float(np.average(offsets[kept] ** 2, weights=of_kept)))
        # Values that hardly ever differ from one, as pixels at an edge, go in steps.
        deviation = max(deviation, float(steps.min())) if len(steps) else 0.0
        is_far[is_seen] = (np.abs(offsets) > MIN_DEVIATIONS * deviation) & (deviation > 0)
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
    """Refuse rows of an array so far from the others that squares of their distances are too large for sums.

    Only far rows can be, and rows of negligible weight: others count in the scale.
    """
    if not is_host_array(rows):
        return
    values, weights = rows.take(slice(None))
    if weights is None and not len(far_rows):
        return
    distances = np.abs(np.where(np.isnan(values), 0.0, values - whitening.centre)) / whitening.deviations
    row = int(np.argmax(distances.max(axis=1)))
    if np.max(distances[row]) > MAX_FAR_DISTANCE:
        raise ValueError(
            f"A row of X (number {row} of those with weight) is more than {MAX_FAR_DISTANCE:.0e} "
            "standard deviations away from the others: remove it."
        )
