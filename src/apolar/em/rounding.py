"""Rows that are known up to their rounding errors, where a component would be narrower than these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.data import fetch_rows
from apolar.data.resolution import column_resolutions
from apolar.em.problem import Problem
from apolar.em.whitening import Whitening
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior

__all__ = ["has_rounding", "is_narrower", "prior_for", "rounding_variances", "with_rounding"]


def rounding_variances(sample: Problem) -> Array:
    """Return the variance of the rounding errors of each column, shape (n_features,).

    Those of a column with a resolution are evenly spread over one step, of variance step^2 / 12. Columns
    without a resolution, and all columns of wide sparse rows, have none.

    Parameters
    ----------
    sample : Problem
        Rows on the host.

    Returns
    -------
    variances : ndarray, shape (n_features,)
        In the units of the data.
    """
    if sample.is_wide:
        return np.zeros(sample.n_features)
    rows = sample.rows
    n_rows = sample.n_rows if rows.n_rows is None else rows.n_rows
    values, weights = fetch_rows(rows, np.arange(n_rows))
    if sample.is_incomplete:
        return _of_observed(values, weights)
    return _rounding_variances(values, weights)


def _of_observed(values: Array, weights: Array | None) -> Array:
    """Return the variances of rounding errors, of each column from the rows in which it is observed."""
    variances = np.zeros(values.shape[1])
    for column, of_column in enumerate(values.T):
        seen = ~np.isnan(of_column)
        part = None if weights is None else weights[seen]
        if np.any(seen):
            variances[column] = _rounding_variances(of_column[seen, None], part)[0]
    return variances


def _rounding_variances(values: Array, weights: Array | None) -> Array:
    steps = column_resolutions(values, weights)
    variances = np.zeros(len(steps))
    stepped = steps > 0
    if np.any(stepped):
        offsets = values[:, stepped] - np.average(values[:, stepped], axis=0, weights=weights)
        spread = np.average(offsets**2, axis=0, weights=weights)
        variances[stepped] = np.minimum(steps[stepped] ** 2 / 12, SETTINGS.max_rounding * spread)
    return variances


def has_rounding(data: Problem) -> bool:
    """Return whether rows are taken to be known up to their rounding errors only."""
    return isinstance(data.whitening.measurement, np.ndarray)


def prior_for(whitening: Whitening, family: Family, prior: Prior | None) -> Prior | None:
    """Return the prior for rows with the noise of a whitening: of one variance per column, if it has any."""
    if prior is None or not isinstance(whitening.measurement, np.ndarray):
        return prior
    return replace(prior, noise=whitening.measurement_covariance(family))


def is_narrower(data: Problem, parameters: WhitenedParameters, variances: Array) -> bool:
    """Return whether a component varies less, in some direction, than the rounding errors of its rows."""
    noise = data.with_measurement(variances).whitening.measurement_covariance(data.family)
    return noise is not None and np.max(data.family.relative_variances(noise, parameters.covariances)) > 1


def with_rounding(data: Problem, prior: Prior | None, variances: Array) -> tuple[Problem, Prior | None]:
    """Return the rows as known up to rounding errors of these variances, and the prior for them.

    The covariances of EM are then those that it would have without rounding errors, given the same
    responsibilities, plus the covariance of these errors.
    """
    data = data.with_measurement(variances)
    return data, prior_for(data.whitening, data.family, prior)
