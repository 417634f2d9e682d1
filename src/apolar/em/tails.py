"""Whether rows have longer tails than the components of a Gaussian mixture."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincinv, gammaln

from apolar._core.arrays import Array
from apolar._core.constants import MIN_WEIGHT
from apolar._core.settings import SETTINGS
from apolar.em.problem import Problem
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.storage import LOG_2PI

__all__ = ["has_long_tails", "tail_ratio"]


def has_long_tails(data: Problem, parameters: WhitenedParameters) -> bool:
    """Return whether the tails of the rows are clearly longer than those of the components.

    Then a narrow and a wide component at the same place are more likely than two components at different
    places, and evidence, which relies on the likelihood, prefers them even to the true classes.

    Parameters
    ----------
    data : Problem
    parameters : WhitenedParameters
        One mixture.
    """
    ratio, error = tail_ratio(data, parameters)
    return bool(np.log(ratio) > np.log(SETTINGS.long_tails) + SETTINGS.tail_errors * error)


def tail_ratio(data: Problem, parameters: WhitenedParameters) -> tuple[float, float]:
    """Return the ratio of upper quantile to median of the squared distances, and its relative standard error.

    Distances are those of each row to its most probable component, in deviations of that component. The ratio
    is relative to that of Gaussian rows.
    """
    # Distances of rows with missing values have fewer degrees of freedom.
    data = data.complete_cases()
    n_features = data.n_features
    if not data.n_rows:
        return 1.0, np.inf
    distances, weights = _squared_distances(data, parameters)
    levels = np.array([SETTINGS.tail_quantile, 0.5])
    upper, median = _weighted_quantiles(distances, weights, levels)
    # The chi-squared distribution of as many degrees of freedom as columns.
    shape = n_features / 2
    expected = 2 * gammaincinv(shape, levels)
    logs = (shape - 1) * np.log(expected) - expected / 2 - shape * np.log(2) - gammaln(shape)
    errors = np.sqrt(levels * (1 - levels)) / (np.exp(logs) * expected)
    error = float(np.linalg.norm(errors)) / np.sqrt(max(len(distances), 1))
    if not median > 0:
        # More than half of the rows are equal: there is no scale to compare the tails with.
        return 1.0, error
    return float((upper / expected[0]) / (median / expected[1])), error


def _squared_distances(data: Problem, parameters: WhitenedParameters) -> tuple[Array, Array | None]:
    """Return the squared distance of each row to its most probable component, and its weight or None.

    A row counts as far as it is not noise.
    """
    responsibilities, densities = (np.asarray(a) for a in data.row_responsibilities(parameters))
    weights = data.row_weights()
    if data.has_noise:
        of_components = responsibilities.sum(axis=0)
        weights = of_components if weights is None else weights * of_components
    family, n_features = data.family, data.n_features
    labels = responsibilities.argmax(axis=0)
    log_dets = family.log_det(family.per_component(parameters.covariances), n_features)
    log_weights = np.log(np.maximum(parameters.weights, MIN_WEIGHT))
    constants = log_weights - 0.5 * (n_features * LOG_2PI + log_dets)
    logits = densities + np.log(np.maximum(responsibilities.max(axis=0), MIN_WEIGHT))
    return np.maximum(2 * (constants[labels] - logits), 0.0), weights


def _weighted_quantiles(values: Array, weights: Array | None, levels: Array) -> Array:
    """Return quantiles of values that may have weights."""
    if weights is None:
        return np.quantile(values, levels)
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order]) / weights.sum()
    positions = np.minimum(np.searchsorted(cumulative, levels), len(values) - 1)
    return np.asarray(values[order][positions])
