"""Where EM starts, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from apolar._core.arrays import Array, IndexArray
from apolar._core.settings import SETTINGS
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, run
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.search.hierarchical import merge_tree
from apolar.search.merging import greedily_merged_stats, merged_stats, resized_stats
from apolar.search.moment_starts import from_moments_of_family

Start = Callable[[Problem, int, Prior | None, np.random.Generator], WhitenedParameters]
"""Takes rows, a number of components, a prior and a generator. Returns a mixture of that many components in
whitened coordinates. Raises ValueError with the reason if it does not apply to the rows."""


@dataclass(frozen=True, eq=False)
class StartEntry:
    """One entry of the table of starts.

    Attributes
    ----------
    start : Start or None
        None: the search, `apolar.search.search`.
    sees_all_rows : bool
        Whether `start` is called with all rows, and not with the distinct rows of a sample.
    fallback : str or None
        The name of the start to use where this one does not apply. None: its error is raised.
    """

    start: Start | None
    sees_all_rows: bool = False
    fallback: str | None = None


def from_random_rows(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the M-step from the rows nearest to each of some random rows: a `Start`."""
    return _from_seeds(data, random_rows(data, n_components, rng), n_components, prior)


def from_spread_rows(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the M-step from the rows nearest to each k-means++ seed: a `Start`."""
    return _from_seeds(data, spread_rows(data, n_components, rng)[0], n_components, prior)


def _from_seeds(
    data: Problem, seeds: IndexArray, n_components: int, prior: Prior | None
) -> WhitenedParameters:
    return data.family.m_step(resized_stats(data, nearest_stats(data, seeds), n_components), prior)


def random_rows(data: Problem, n_seeds: int, rng: np.random.Generator) -> IndexArray:
    """Return the positions of distinct rows, drawn in proportion to their weights; all rows if fewer."""
    weights, n_rows = data.row_weights(), data.n_rows
    probabilities = None if weights is None else weights / weights.sum()
    return rng.choice(n_rows, min(n_seeds, n_rows), replace=False, p=probabilities)


def spread_rows(data: Problem, n_seeds: int, rng: np.random.Generator, n_runs: int = 1) -> IndexArray:
    """Return the positions of rows far from each other, shape (n_runs, n_seeds): k-means++ [arthur2007].

    Where there are fewer distinct rows than seeds, some are repeated.
    """
    # Not scikit-learn's `kmeans_plusplus`: on some hundred rows it takes ten times as long.
    x, weights = data.imputed().standardised, data.row_weights()
    squares, ones = np.einsum("ij,ij->i", x, x)[:, None], np.ones((len(x), 1))
    # The product of a line of one and a line of the other is a squared distance.
    lines, others = np.hstack([x, squares, ones]).T, np.hstack([-2 * x, ones, squares])
    nearest = np.full((n_runs, len(x)), np.inf)
    weighted = np.broadcast_to(1.0 if weights is None else weights, nearest.shape)
    seeds, runs = np.empty((n_runs, n_seeds), dtype=np.intp), np.arange(n_runs)
    for k, draws in enumerate(rng.random((n_runs, n_seeds)).T):
        cumulated = weighted.cumsum(axis=1)
        is_before = cumulated <= draws[:, None] * cumulated[:, -1:]
        seeds[:, k] = chosen = np.minimum(is_before.sum(axis=1), len(x) - 1)
        np.minimum(nearest, others[chosen] @ lines, out=nearest)
        np.maximum(nearest, 0.0, out=nearest)
        nearest[runs, chosen] = 0.0
        weighted = nearest if weights is None else nearest * weights
    return seeds


def nearest_stats(data: Problem, seeds: IndexArray) -> SufficientStats:
    """Return the sufficient statistics of the rows nearest to each seed, without seeds that have no rows."""
    rows = data.imputed().standardised
    centres = rows[seeds]
    halves = 0.5 * np.einsum("ij,ij->i", centres, centres)
    step = max(1, SETTINGS.chunk_numbers // len(seeds))
    # Minus half the squared distance, up to a term of the row alone.
    chunks = (rows[i : i + step] @ centres.T - halves for i in range(0, len(rows), step))
    labels = np.concatenate([scores.argmax(axis=1) for scores in chunks])
    stats = data.imputed().hard_stats(labels, len(seeds))
    return stats[stats.counts > 0]


def from_overseeding(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return one mixture of `overseeded_mixtures`: a `Start`."""
    return overseeded_mixtures(data, n_components, prior, rng, 1)[0]


def overseeded_mixtures(
    data: Problem,
    n_components: int,
    prior: Prior | None,
    rng: np.random.Generator,
    n_runs: int,
    n_steps: int = SETTINGS.short_steps,
) -> list[WhitenedParameters]:
    """Return mixtures that start from four times as many k-means++ seeds as components, and are merged.

    Parameters
    ----------
    data : Problem
    n_components : int
    prior : Prior or None
        For the M-step that follows the merging. The steps before it use the conjugate one instead of None.
    rng : numpy.random.Generator
    n_runs : int
        The number of mixtures; they share the passes over the rows.
    n_steps : int
        Steps of EM before components are merged.

    Returns
    -------
    mixtures : list of WhitenedParameters
    """
    # Where values are missing, the search for clusters needs whole rows; what comes of it does not.
    data = data.imputed()
    n_seeds = max(n_components, min(SETTINGS.seeds_per_component * n_components, data.n_rows // 2))
    n_seeds = min(n_seeds, data.n_rows)
    search_prior = Prior() if prior is None else prior
    merged = []
    for family, n in _families_of_runs(data.family, n_runs):
        if n:
            run_data = data if family == data.family else data.replace(family=family)
            merged += merged_runs(run_data, n_seeds, n_components, search_prior, rng, n, n_steps)
    mixtures = data.family.m_step(_stack_stats(merged), prior)
    return [mixtures[i] for i in range(n_runs)]


def _families_of_runs(family: Family, n_runs: int) -> list[tuple[Family, int]]:
    """Return the families under which runs are made, and the number of runs of each.

    For several runs of a family with shared parameters, half are without sharing: where clusters differ in
    shape, a common shape would spread each of them over several components. If only a part of the
    covariances is shared, one run shares all of them: its optimum is one of a family that this one contains.
    """
    n_untied = n_runs // 2 if family.shared else 0
    n_tied = 1 if family.shares_part and n_runs > 2 else 0
    runs = [(family, n_runs - n_untied - n_tied), (family.untied, n_untied)]
    return [*runs, (family.tied, n_tied)] if family.shares_part else runs


def merged_runs(
    data: Problem,
    n_seeds: int,
    n_components: int,
    prior: Prior,
    rng: np.random.Generator,
    n_runs: int,
    n_steps: int = SETTINGS.short_steps,
) -> list[SufficientStats]:
    """Return the statistics of short runs from many seeds, each merged to the components asked for."""
    family = data.family
    seeded = [nearest_stats(data, seeds) for seeds in spread_rows(data, n_seeds, rng, n_runs)]
    # A batch needs mixtures of the same number of components, and seeds may be without rows.
    n_common = min(len(stats.counts) for stats in seeded)
    merged_seeds = [greedily_merged_stats(family.untied, stats, n_common) for stats in seeded]
    # The short runs that follow adapt the prior.
    starts = family.m_step(_stack_stats(merged_seeds), prior.conjugate)
    seeds = [Fit(starts[i], "overseed") for i in range(n_runs)]
    runs = run(data, seeds, prior, Stop(n_steps))
    merged = [merged_stats(data, each.parameters, n_components) for each in runs]
    return [resized_stats(data, stats, n_components) for stats in merged]


def _stack_stats(stats: list[SufficientStats]) -> SufficientStats:
    """Return the statistics of mixtures of the same shape as a batch."""
    return SufficientStats(np.stack([mixture.array for mixture in stats]), stats[0].n_features)


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
        labels = method.fit(data.imputed().standardised, sample_weight=data.row_weights()).labels_
    stats = data.imputed().hard_stats(labels, n_clusters)
    return data.family.m_step(resized_stats(data, stats[stats.counts > 0], n_components), prior)


def from_hierarchical_clusters(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the mixture of the clusters of a merge tree of the rows, or of a sample of them: a `Start`."""
    data = data.imputed()
    if data.n_rows > SETTINGS.max_tree_rows:
        data = data.taken(np.sort(rng.choice(data.n_rows, SETTINGS.max_tree_rows, replace=False)))
    criterion, n_clusters = data.family.with_axes(0).code, min(n_components, data.n_rows)
    labels = merge_tree(data.standardised, criterion, sizes=data.row_weights()).labels(n_clusters)
    stats = data.hard_stats(labels, n_clusters)
    return data.family.m_step(resized_stats(data, stats, n_components), prior)


def best_of_short_runs(
    data: Problem,
    n_components: int,
    prior: Prior | None,
    rng: np.random.Generator,
    *,
    from_rows: bool = True,
    n_runs: int = SETTINGS.emem_runs,
    n_steps: int = SETTINGS.short_steps,
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
    for first_run in range(0, n_runs, SETTINGS.runs_per_batch):
        batch_size = min(SETTINGS.runs_per_batch, n_runs - first_run)
        starts = [_random_stats(data, n_components, rng, from_rows) for _ in range(batch_size)]
        fits = [Fit(data.family.m_step(stats, prior), "emem") for stats in starts]
        fits = run(data, fits, prior, Stop(n_steps))
        runs = batch([fit.parameters for fit in fits])
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
    return data.imputed().soft_stats(random_responsibilities(data, n_components, rng))


def random_responsibilities(data: Problem, n_components: int, rng: np.random.Generator) -> Array:
    """Return random responsibilities, shape (n_components, n_rows), that add up to one per row."""
    responsibilities = rng.random((n_components, data.n_rows))
    return responsibilities / responsibilities.sum(axis=0)


def from_random_responsibilities(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the M-step from random responsibilities: a `Start`."""
    return data.family.m_step(
        data.imputed().soft_stats(random_responsibilities(data, n_components, rng)), prior
    )


# A new start is a function, and a line of this table.
STARTS: dict[str, StartEntry] = {
    "auto": StartEntry(None),
    "moments": StartEntry(from_moments_of_family, sees_all_rows=True, fallback="overseed"),
    "overseed": StartEntry(from_overseeding),
    "kmeans": StartEntry(from_kmeans),
    "mbhc": StartEntry(from_hierarchical_clusters),
    "emem": StartEntry(best_of_short_runs),
    "k-means++": StartEntry(from_spread_rows),
    "random_from_data": StartEntry(from_random_rows),
    "random": StartEntry(from_random_responsibilities),
}
