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
    levels, half = np.array([SETTINGS.tail_quantile, 0.5]), data.n_features / 2
    if not data.n_rows:
        return 1.0, np.inf
    distances, weights = _squared_distances(data, parameters)
    upper, median = np.quantile(distances, levels, weights=weights, method="inverted_cdf")
    # The chi-squared distribution of as many degrees of freedom as columns.
    expected = 2 * gammaincinv(half, levels)
    logs = (half - 1) * np.log(expected) - expected / 2 - half * np.log(2) - gammaln(half)
    errors = np.sqrt(levels * (1 - levels)) / (np.exp(logs) * expected)
    error = float(np.linalg.norm(errors)) / np.sqrt(len(distances))
    if not median > 0:
        # More than half of the rows are equal: there is no scale to compare the tails with.
        return 1.0, error
    return float((upper / expected[0]) / (median / expected[1])), error


def _squared_distances(data: Problem, parameters: WhitenedParameters) -> tuple[Array, Array]:
    """Return the squared distance of each row to its most probable component, and its weight.

    A row counts as far as it is not noise.
    """
    family, n_components, n_features = data.family, parameters.n_components, data.n_features
    logits = data.row_logits(data.exact.natural(parameters), slice(None))
    of_components = logits[:n_components]
    log_dets = family.log_det(family.per_component(parameters.covariances), n_features)
    log_weights = np.log(np.maximum(parameters.weights, MIN_WEIGHT))
    constants = log_weights - 0.5 * (n_features * LOG_2PI + log_dets)
    distances = 2 * (constants[of_components.argmax(axis=0)] - of_components.max(axis=0))
    noise = np.exp(logits[n_components:] - np.logaddexp.reduce(logits, axis=0)).sum(axis=0)
    weights = data.row_weights()
    return np.maximum(distances, 0.0), np.maximum(1 - noise, MIN_WEIGHT) * (
        1.0 if weights is None else weights
    )
