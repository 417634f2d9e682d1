"""The k-means start: the best of several runs of Lloyd's algorithm, by scikit-learn."""

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.starts.overseed import reduced


def from_kmeans(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator, n_runs: int = 10
) -> WhitenedParameters:
    """Return the mixture of the clusters of k-means on standardised columns.

    Parameters
    ----------
    data : WhitenedData
    n_components : int
    prior : Prior or None
    rng : numpy.random.Generator
    n_runs : int
        The run with the least inertia is taken.

    Returns
    -------
    parameters : WhitenedParameters
    """
    # Where there are fewer rows than clusters, the heaviest clusters are halved below.
    n_clusters = min(n_components, data.n_rows)
    method = KMeans(n_clusters, n_init=n_runs, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = method.fit(data.standardised, sample_weight=data.row_weights()).labels_
    stats = data.hard_stats(labels, n_clusters)
    return data.family.m_step(reduced(data, stats[stats.counts > 0], n_components), prior)
