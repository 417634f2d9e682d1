"""The k-means start: the best of several runs of Lloyd's algorithm, by scikit-learn."""

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.starts.merging import resized_stats


def from_kmeans(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator, n_runs: int = 10
) -> WhitenedParameters:
    """Return the mixture of the clusters of k-means on standardised columns: a `Start`.

    Parameters
    ----------
    data : WhitenedData
    n_components : int
    prior : Prior or None
    rng : numpy.random.Generator
    n_runs : int, default=10
        The run of the lowest inertia is taken.

    Returns
    -------
    parameters : WhitenedParameters
    """
    n_clusters = min(n_components, data.n_rows)
    method = KMeans(n_clusters, n_init=n_runs, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        # Fewer distinct rows than clusters: `resized_stats` splits the heaviest clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = method.fit(data.standardised, sample_weight=data.row_weights()).labels_
    stats = data.hard_stats(labels, n_clusters)
    return data.family.m_step(resized_stats(data, stats[stats.counts > 0], n_components), prior)
