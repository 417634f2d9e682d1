"""Mixtures of one component less, beside noise: the rows of one component become noise."""

import numpy as np

from apolar._core.constants import MIN_WEIGHT
from apolar.em.problem import Problem
from apolar.mixture.families.base import LOG_2PI
from apolar.mixture.noise import noise_weights
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.stats import SufficientStats
from apolar.starts.merging import untied_stats


def dropped_stats(data: Problem, parameters: WhitenedParameters, n_dropped: int) -> list[SufficientStats]:
    """Return the statistics of a mixture with one component left to the noise, for those that cost least.

    Without them a component could not leave a wide cluster, or a clump of noise, for another cluster.

    Parameters
    ----------
    data : Problem
    parameters : WhitenedParameters
        One mixture of the family of the data.
    n_dropped : int
        How many components are tried.

    Returns
    -------
    stats : list of SufficientStats
        Empty without a noise component.
    """
    whitening, family, n_features = data.whitening, data.family, data.n_features
    if not whitening.has_noise_component:
        return []
    stats = untied_stats(data, parameters)
    log_dets = family.log_det(family.per_component(parameters.covariances), n_features)
    # The mean log-density of the rows of a component, beside that of the noise.
    own = np.log(np.maximum(parameters.weights, MIN_WEIGHT)) - 0.5 * (n_features * (LOG_2PI + 1) + log_dets)
    noise = np.log(noise_weights(parameters.weights) + parameters.weights) + whitening.noise_log_density
    costs = parameters.weights * (own - noise)
    cheapest = np.argsort(costs, kind="stable")[:n_dropped]
    return [SufficientStats(np.delete(stats.array, int(k), axis=0), n_features) for k in cheapest]
