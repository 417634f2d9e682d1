"""Rows of low density, which may be noise: how many there are, the box they fill, and the rows without them.

The distance of a row to a near neighbour tells its density, as in [byers1998]. Rows of noise are those of a
density that is not far above that of the noise itself, spread evenly over the box of all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import gammaln

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.data import fetch_rows, open_rows
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.row_blocks import NOISE_AND_MISSING
from apolar.em.row_scale import column_units, whitening_of
from apolar.em.whitening import MIN_EIGENVALUE, Whitening
from apolar.mixture.families import Family
from apolar.mixture.noise import NoiseBox, noise_weights
from apolar.mixture.parameters import AnyParameters
from apolar.moments.covariance import column_moments, is_constant

__all__ = ["as_start_on", "with_noise_component", "with_noise_share", "without_low_density"]

# Steps to the share: it moves in one direction, and most often stops after a few.
MAX_ROUNDS = 100
# A start with less noise is one without.
MIN_GIVEN = 1e-6
# The least width of the box, in deviations: that of rows spread evenly in a direction in which they vary no
# more than the whitening allows for.
MIN_WIDTH = float(np.sqrt(12 * MIN_EIGENVALUE))
# With more columns, the box is along the columns.
MAX_COLUMNS = 1000


def with_noise_component(data: Problem, expected: bool | float, box: NoiseBox | None = None) -> Problem:
    """Return the rows with a noise component, whitened by those of them that are not noise-like.

    Rows far from all others would lead the mean and the covariance by which rows are whitened, and with
    them the prior.

    Parameters
    ----------
    data : Problem
    expected : bool or float
        The share of the rows that is expected to be noise; True: found from their densities.
    box : NoiseBox, optional
        Where the noise is, if it is known from another fit; by default the box of the rows, which is the same
        for all families.

    Returns
    -------
    data : Problem

    Raises
    ------
    ValueError
        For sparse rows of many columns.
    """
    if data.is_incomplete:
        raise ValueError(NOISE_AND_MISSING)
    if data.is_wide:
        raise ValueError(
            f"noise={expected!r} needs the volume of the rows, and sparse rows of {data.n_features} columns "
            "fill hardly any of it: project them on fewer columns first, or leave noise out."
        )
    sample = data.subsample(SETTINGS.box_rows, np.random.default_rng(0))
    values, weights = _rows_of(sample)
    log_densities = _relative_densities(values, weights, data.family)
    is_found = isinstance(expected, bool | np.bool_)
    shares = _noise_shares(log_densities, weights) if is_found else (float(expected),)
    is_kept = ~_is_lowest(log_densities, weights, shares[-1])
    whitening = _whitening_of(values, weights, is_kept, data)
    return Problem(
        data.rows,
        data.family,
        replace(whitening, noise_box=box or _noise_box(values), noise_shares=shares),
        data.threads,
    )


def without_low_density(data: Problem, share: float) -> Problem:
    """Return the rows without the share of them that has the lowest density, and without noise component.

    Parameters
    ----------
    data : Problem
        At most a sample: all of its rows are fetched.
    share : float

    Returns
    -------
    kept : Problem
        In the same coordinates.
    """
    values, weights = _rows_of(data)
    is_kept = np.ones(len(values), dtype=bool)
    if share > 0:
        is_kept = ~_is_lowest(_relative_densities(values, weights, data.family), weights, share)
    weights = None if weights is None else weights[is_kept]
    n_rows = int(is_kept.sum())
    whitening = replace(
        data.whitening,
        n_rows=n_rows,
        weight=float(n_rows if weights is None else weights.sum()),
        noise_box=None,
        noise_shares=(),
    )
    return Problem(open_rows(values[is_kept], weights), data.family, whitening, data.threads)


def with_noise_share(parameters: AnyParameters, share: float) -> AnyParameters:
    """Return a mixture as the start of one with noise of a share, but not of so little that it stays so."""
    share = min(max(share, SETTINGS.min_share), SETTINGS.max_share)
    weights = parameters.weights
    return replace(parameters, weights=weights / weights.sum(axis=-1, keepdims=True) * (1 - share))


def as_start_on(data: Problem, start: Fit) -> Fit:
    """Return a start whose weights suit the data: with noise if there is a noise component, else without.

    A start that is given, or from another fit, may be of the other kind; a weight of zero would stay so.
    """
    whitening, noise = data.whitening, float(noise_weights(start.parameters.weights))
    if start.status is not FitStatus.NOT_RUN:
        return start
    if whitening.has_noise_component and noise < MIN_GIVEN:
        return replace(start, parameters=with_noise_share(start.parameters, whitening.noise_shares[-1]))
    if not whitening.has_noise_component and noise > MIN_GIVEN:
        weights = start.parameters.weights
        return replace(start, parameters=replace(start.parameters, weights=weights / weights.sum()))
    return start


def _rows_of(data: Problem) -> tuple[Array, Array | None]:
    """Return all rows on the host in double precision, and their weights."""
    n_rows = data.n_rows if data.rows.n_rows is None else data.rows.n_rows
    values, weights = fetch_rows(data.rows, np.arange(n_rows))
    return np.asarray(values, dtype=np.float64), weights


def _whitening_of(values: Array, weights: Array | None, is_kept: Array, data: Problem) -> Whitening:
    """Return the whitening of those rows of a sample that are kept, for all rows."""
    kept = open_rows(values[is_kept], None if weights is None else weights[is_kept])
    whitening = data.whitening
    # In a column in which these rows do not vary, but others do, there is no unit for the others.
    of_kept, of_all = (is_constant(*column_moments(rows)[2:]) for rows in (kept, open_rows(values, weights)))
    if np.array_equal(of_kept, of_all):
        whitening = whitening_of(kept, data.family)
    return replace(whitening, n_rows=data.n_rows, weight=data.weight, measurement=data.whitening.measurement)


# --- densities from nearest neighbours ----------------------------------------------------------


def _relative_densities(values: Array, weights: Array | None, family: Family) -> Array:
    """Return the logarithm of the density of each row, relative to that of rows spread over their box."""
    z = _scale_columns(values, family)
    n, m = z.shape
    row_weights = np.ones(n) if weights is None else weights
    rng = np.random.default_rng(0)
    n_among = min(n, SETTINGS.neighbour_rows)
    among = np.arange(n) if n == n_among else np.sort(rng.choice(n, n_among, replace=False))
    # A list of numbers, as one number would give arrays without an axis of neighbours where it is 1.
    numbers = list(range(1, min(SETTINGS.neighbour + 1, len(among)) + 1))
    distances, neighbours = cKDTree(z[among]).query(z, k=numbers)
    # A row of weight two counts as two: the neighbour is the one at which the weights reach the number.
    reached = np.cumsum(row_weights[among][neighbours], axis=1)
    position = np.minimum((reached < SETTINGS.neighbour + 1).sum(axis=1), distances.shape[1] - 1)
    distance = distances[np.arange(n), position]
    n_within = np.maximum(reached[np.arange(n), position] - 1, 1.0)
    smallest = np.min(distance[distance > 0], initial=np.inf)
    logs = np.log(np.maximum(distance, smallest if np.isfinite(smallest) else 1.0))
    widths = np.maximum(z.max(axis=0) - z.min(axis=0), MIN_WIDTH)
    log_ball = 0.5 * m * np.log(np.pi) - gammaln(0.5 * m + 1) + m * logs
    return np.asarray(np.log(n_within / row_weights[among].sum()) + np.log(widths).sum() - log_ball)


def _scale_columns(values: Array, family: Family) -> Array:
    """Return rows with columns divided by scales that a few far rows do not change."""
    centre = np.median(values, axis=0)
    low, high = np.percentile(values, [25, 75], axis=0)
    deviations = np.std(values, axis=0)
    scales = np.where(high > low, high - low, np.where(deviations > 0, deviations, 1.0))
    if family.is_rotated or family.is_spherical:
        scales = np.full(len(scales), np.hypot.reduce(scales) / np.sqrt(len(scales)))
    return (values - centre) / scales


def _noise_shares(log_densities: Array, weights: Array | None) -> tuple[float, ...]:
    """Return shares of noise that agree with the densities: as many rows have at most the density of noise.

    There may be two, if rows of a wide cluster are hardly denser than noise: with the first they are none.
    """
    row_weights = np.ones(len(log_densities)) if weights is None else weights
    order = np.argsort(log_densities)
    sorted_densities = log_densities[order]
    cumulative = np.concatenate([[0.0], np.cumsum(row_weights[order])]) / row_weights.sum()
    shares = []
    for share in SETTINGS.first_shares:
        for _ in range(MAX_ROUNDS):
            limit = np.log(SETTINGS.noise_like * max(share, 1e-300))
            share, before = float(cumulative[np.searchsorted(sorted_densities, limit)]), share
            if share == before:
                break
        position = _up_to_gap(sorted_densities, int(np.searchsorted(cumulative, share)))
        shares.append(min(float(cumulative[position]), SETTINGS.max_share))
    low, high = min(shares), max(shares)
    return (high,) if high <= SETTINGS.same_share * low or high == 0 else (low, high)


def _up_to_gap(sorted_densities: Array, position: int) -> int:
    """Return how many rows are noise-like, from how many have the density of noise.

    Rows of noise near a cluster have a higher one. If there are a few more before a wide gap, they are meant.
    """
    n_more = max(SETTINGS.rows_before_gap, round(0.25 * position))
    densities = sorted_densities[max(position - 1, 0) : position + n_more + 1]
    gaps = np.diff(densities)
    if position == 0 or not len(gaps) or gaps.max() < np.log(SETTINGS.wide_gap):
        return position
    return position + int(np.argmax(gaps))


def _is_lowest(log_densities: Array, weights: Array | None, share: float) -> Array:
    """Return which rows are the given share of them with the lowest densities."""
    row_weights = np.ones(len(log_densities)) if weights is None else weights
    order = np.argsort(log_densities, kind="stable")
    is_lowest = np.zeros(len(order), dtype=bool)
    is_lowest[order] = np.cumsum(row_weights[order]) <= min(share, SETTINGS.max_share) * row_weights.sum()
    return is_lowest


# --- the box -------------------------------------------------------------------------------------


def _noise_box(values: Array) -> NoiseBox:
    """Return the smaller of the boxes of rows along the columns and along their principal axes, as mclust."""
    n_features, centre = values.shape[1], values.mean(axis=0)
    units = column_units(values.var(axis=0), centre)
    z = (values - centre) / units
    low, widths = z.min(axis=0), np.maximum(np.ptp(z, axis=0), MIN_WIDTH)
    along_columns = NoiseBox(centre + low * units, widths * units)
    if n_features == 1 or n_features > MAX_COLUMNS:
        return along_columns
    axes = np.linalg.eigh(z.T @ z)[1]
    scores = z @ axes
    low, widths = scores.min(axis=0), np.maximum(np.ptp(scores, axis=0), MIN_WIDTH)
    along_axes = NoiseBox(centre + (axes @ low) * units, (axes * widths).T * units)
    return min(along_columns, along_axes, key=lambda box: box.log_volume)
