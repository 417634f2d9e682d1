"""Rows of low density, which may be noise: how many there are, the box they fill, and the rows without them.

The distance of a row to a near neighbour tells its density. Rows of noise are spread evenly over the box of
all rows, so that the share of them is their density [byers1998].
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import expit, gammaln

from apolar._core.arrays import Array
from apolar._core.constants import MIN_WEIGHT
from apolar._core.settings import SETTINGS
from apolar.data import open_rows
from apolar.em.missing import NOISE_AND_MISSING
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.whitening import MIN_WHITENED, column_units, scale_of, whitening_of
from apolar.mixture.parameters import AnyParameters, NoiseBox, noise_weights
from apolar.moments.covariance import MAX_INCOMPLETE_COLUMNS, is_constant

__all__ = ["as_start_on", "with_noise_component", "with_noise_share", "without_low_density"]


def with_noise_component(data: Problem, expected: bool | float, noise: NoiseBox | None = None) -> Problem:
    """Return the rows with a noise component, whitened by those of them that are not noise-like.

    Rows far from all others would lead the mean and the covariance by which rows are whitened, and with
    them the prior.

    Parameters
    ----------
    data : Problem
    expected : bool or float
        The share of the rows that is expected to be noise; True: found from their densities.
    noise : NoiseBox, optional
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
    values, weights = data.subsample(SETTINGS.box_rows, np.random.default_rng(0)).fetch()
    log_densities = _log_densities(values, weights)
    is_found = isinstance(expected, bool | np.bool_)
    share = _noise_share(log_densities, weights) if is_found else float(expected)
    is_kept = ~_is_lowest(log_densities, weights, share)
    kept = open_rows(values[is_kept], None if weights is None else weights[is_kept])
    (scale, _), (of_all, _) = (scale_of(rows, data.family) for rows in (kept, open_rows(values, weights)))
    # In a column in which these rows do not vary, but others do, there is no unit for the others.
    is_new = is_constant(scale.mean, scale.variances) & ~is_constant(of_all.mean, of_all.variances)
    whitening = data.whitening if np.any(is_new) else whitening_of(scale, data.family)
    changes = {"noise": noise or _noise_box(values), "noise_share": share, "whitening": whitening}
    return data.replace(scale=None, far_rows=data.far_rows[:0], **changes)


def without_low_density(data: Problem) -> Problem:
    """Return the rows that are not noise-like, and no noise component, in the same coordinates.

    The rows are at most a sample: all of them are fetched.
    """
    values, weights = data.fetch()
    is_kept = ~_is_lowest(_log_densities(values, weights), weights, data.noise_share)
    rows = open_rows(values[is_kept], None if weights is None else weights[is_kept])
    return data.replace(rows=rows, noise=None, noise_share=0.0)


def with_noise_share(parameters: AnyParameters, share: float) -> AnyParameters:
    """Return a mixture as the start of one with noise of a share, but not of so little that it stays so."""
    share = min(max(share, SETTINGS.min_share), SETTINGS.max_share)
    weights = parameters.weights
    return replace(parameters, weights=weights / weights.sum(axis=-1, keepdims=True) * (1 - share))


def as_start_on(data: Problem, start: Fit) -> Fit:
    """Return a start whose weights suit the data: with noise if there is a noise component, else without.

    A start that is given, or from another fit, may be of the other kind; a weight of zero would stay so.
    """
    weights = start.parameters.weights
    # Less than this is rounding, or stays as it is.
    is_noisy = bool(noise_weights(weights) > 1e-6)
    if start.status is not FitStatus.NOT_RUN or is_noisy == data.has_noise:
        return start
    if data.has_noise:
        return replace(start, parameters=with_noise_share(start.parameters, data.noise_share))
    return replace(start, parameters=replace(start.parameters, weights=weights / weights.sum()))


# --- densities from nearest neighbours ----------------------------------------------------------


def _log_densities(values: Array, weights: Array | None) -> Array:
    """Return the logarithm of the density of each row, relative to that of rows spread over their box."""
    # Columns are divided by scales that a few far rows do not change.
    low, high = np.percentile(values, [25, 75], axis=0)
    deviations = np.std(values, axis=0)
    z = values / np.where(high > low, high - low, np.where(deviations > 0, deviations, 1.0))
    n, m = z.shape
    row_weights = np.ones(n) if weights is None else weights
    among = np.arange(n)
    if n > SETTINGS.neighbour_rows:
        among = np.random.default_rng(0).choice(n, SETTINGS.neighbour_rows, replace=False)
    # A list of numbers, as one number would give arrays without an axis of neighbours where it is 1.
    numbers = list(range(1, min(SETTINGS.neighbour + 1, len(among)) + 1))
    distances, neighbours = cKDTree(z[among]).query(z, k=numbers)
    # A row of weight two counts as two: the neighbour is the one at which the weights reach the number.
    reached = np.cumsum(row_weights[among][neighbours], axis=1)
    position = np.minimum((reached < SETTINGS.neighbour + 1).sum(axis=1), len(numbers) - 1)[:, None]
    distance, n_within = (np.take_along_axis(each, position, axis=1)[:, 0] for each in (distances, reached))
    smallest = np.min(distance[distance > 0], initial=np.inf)
    logs = np.log(np.maximum(distance, smallest if np.isfinite(smallest) else 1.0))
    log_ball = 0.5 * m * np.log(np.pi) - gammaln(0.5 * m + 1) + m * logs
    log_share = np.log(np.maximum(n_within - 1, 1.0) / row_weights[among].sum())
    return np.asarray(log_share - log_ball + np.log(_widths(z)).sum())


def _noise_share(log_densities: Array, weights: Array | None) -> float:
    """Return the share of noise, by EM for rows of two densities: that of noise is its share of the rows.

    The volume up to a neighbour has a gamma distribution, with one degree for each neighbour. At
    first, half of the rows are noise, and the others are as dense as the densest tenth.
    """
    row_weights, k = np.ones(len(log_densities)) if weights is None else weights, SETTINGS.neighbour
    # With many columns, volumes would overflow.
    volumes = np.exp(np.clip(-log_densities, -300, 300))
    share, density = 0.5, 1 / float(np.quantile(volumes, 0.1))
    for _ in range(SETTINGS.sample_passes):
        prior = max(share, MIN_WEIGHT)
        # Logarithms, as the ratios themselves may overflow.
        each = math.log(prior) - math.log(density) - (prior - density) * volumes
        log_odds = math.log(prior) - math.log1p(-prior) + k * each
        noise = row_weights * expit(log_odds)
        before, share = share, min(float(noise.sum() / row_weights.sum()), SETTINGS.max_share)
        if math.isclose(share, before, rel_tol=1e-3):
            break
        others = np.maximum(row_weights - noise, MIN_WEIGHT)
        density = float(others.sum() / (others @ volumes))
    return share


def _is_lowest(log_densities: Array, weights: Array | None, share: float) -> Array:
    """Return which rows are the given share of them with the lowest densities."""
    row_weights = np.ones(len(log_densities)) if weights is None else weights
    order = np.argsort(log_densities, kind="stable")
    is_lowest = np.zeros(len(order), dtype=bool)
    is_lowest[order] = np.cumsum(row_weights[order]) <= min(share, SETTINGS.max_share) * row_weights.sum()
    return is_lowest


# --- the box -------------------------------------------------------------------------------------


def _widths(z: Array) -> Array:
    """Return the widths of the columns of rows, not less than of rows that are spread evenly.

    The least is that where rows vary no more than the whitening allows for.
    """
    return np.maximum(np.ptp(z, axis=0), np.sqrt(12 * MIN_WHITENED))


def _noise_box(values: Array) -> NoiseBox:
    """Return the smaller of the boxes of rows along the columns and along their principal axes, as mclust."""
    centre = values.mean(axis=0)
    units = column_units(values.var(axis=0), centre)
    z = (values - centre) / units
    along_columns = NoiseBox(centre + z.min(axis=0) * units, _widths(z) * units)
    if not 1 < z.shape[1] <= MAX_INCOMPLETE_COLUMNS:
        return along_columns
    axes = np.linalg.eigh(z.T @ z)[1]
    scores = z @ axes
    along_axes = NoiseBox(centre + (axes @ scores.min(axis=0)) * units, (axes * _widths(scores)).T * units)
    return min(along_columns, along_axes, key=lambda box: box.log_volume)
