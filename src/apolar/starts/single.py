"""Starts by name that make one mixture: k-means, a merge tree, short runs, and random responsibilities."""

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from apolar._core.arrays import Array
from apolar.em.problem import Problem
from apolar.em.run import short_runs
from apolar.mixture.parameters import WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats
from apolar.starts.mbhc import mbhc_labels
from apolar.starts.merging import resized_stats
from apolar.starts.seeds import nearest_stats, random_rows

# Short runs of "emem", their steps, and how many share each pass: with more, a pass takes more memory and
# is no faster.
RUNS = 50
STEPS = 5
RUNS_PER_BATCH = 10


def from_kmeans(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator, n_runs: int = 10
) -> WhitenedParameters:
    """Return the mixture of the clusters of k-means on standardised columns: a `Start`.

    Parameters
    ----------
    data : Problem
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


def from_hierarchical_clusters(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the mixture of the clusters of `mbhc_labels` on standardised columns: a `Start`."""
    n_clusters = min(n_components, data.n_rows)
    labels = mbhc_labels(
        data.standardised,
        n_clusters,
        rng,
        criterion=data.family.as_spherical.code,
        sizes=data.row_weights(),
    )
    stats = data.hard_stats(labels, n_clusters)
    return data.family.m_step(resized_stats(data, stats, n_components), prior)


def best_of_short_runs(
    data: Problem,
    n_components: int,
    prior: Prior | None,
    rng: np.random.Generator,
    *,
    from_rows: bool = True,
    n_runs: int = RUNS,
    n_steps: int = STEPS,
) -> WhitenedParameters:
    """Return the best mixture after short runs of EM from many random starts [biernacki2003]: a `Start`.

    Parameters
    ----------
    data : Problem
    n_components : int
    prior : Prior or None
    rng : numpy.random.Generator
    from_rows : bool, default=True
        Start at random rows; else at random responsibilities, as the figures of [khouja2022moments] suggest
        that the paper did.
    n_runs, n_steps : int
        At least one run.

    Returns
    -------
    parameters : WhitenedParameters
    """
    batch_winners: list[tuple[float, WhitenedParameters]] = []
    for first_run in range(0, n_runs, RUNS_PER_BATCH):
        batch_size = min(RUNS_PER_BATCH, n_runs - first_run)
        starts = [_random_stats(data, n_components, rng, from_rows) for _ in range(batch_size)]
        runs = batch([data.family.m_step(stats, prior) for stats in starts])
        runs, _ = short_runs(data, runs, prior, n_steps, is_scored=False)
        likelihoods = data.e_step(runs)[1]
        likelihoods = np.where(np.isfinite(likelihoods), likelihoods, -np.inf)
        winner = int(np.argmax(likelihoods))
        batch_winners.append((float(likelihoods[winner]), runs[winner]))
    return max(batch_winners, key=lambda scored: scored[0])[1]


def _random_stats(
    data: Problem, n_components: int, rng: np.random.Generator, from_rows: bool
) -> SufficientStats:
    """Return the sufficient statistics of one random start."""
    if from_rows:
        stats = nearest_stats(data, random_rows(data, n_components, rng))
        return resized_stats(data, stats, n_components)
    return data.soft_stats(random_responsibilities(data, n_components, rng))


def random_responsibilities(data: Problem, n_components: int, rng: np.random.Generator) -> Array:
    """Return random responsibilities, shape (n_components, n_rows), that add up to one per row."""
    responsibilities = rng.random((n_components, data.n_rows))
    return responsibilities / responsibilities.sum(axis=0)


def from_random_responsibilities(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the M-step from random responsibilities: a `Start`."""
    return data.family.m_step(data.soft_stats(random_responsibilities(data, n_components, rng)), prior)
