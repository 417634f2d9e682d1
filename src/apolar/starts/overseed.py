"""Over-seed and merge: more components than asked for, a few steps of EM, then merging."""

import numpy as np

from apolar.em.problem import Problem
from apolar.em.run import short_runs
from apolar.mixture.families import Family
from apolar.mixture.families.parts import PartlyShared
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats
from apolar.starts.merging import greedily_merged_stats, merged_stats, resized_stats
from apolar.starts.seeds import nearest_stats, spread_rows

# Seeds per component, and steps of EM with all of them.
SEEDS_PER_COMPONENT = 4
STEPS = 5


def from_overseeding(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return one mixture of `overseeded_mixtures`: a `Start`."""
    return overseeded_mixtures(data, n_components, prior, rng, 1)[0]


def overseeded_mixtures(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator, n_runs: int
) -> list[WhitenedParameters]:
    """Return mixtures that start from four times as many k-means++ seeds as components, and are merged.

    Parameters
    ----------
    data : Problem
    n_components : int
    prior : Prior or None
        For the M-step that follows the merging. The steps before it use the conjugate one in place of None.
    rng : numpy.random.Generator
    n_runs : int
        The number of mixtures; they share the passes over the rows.

    Returns
    -------
    mixtures : list of WhitenedParameters
    """
    # Where values are missing, the search for clusters needs whole rows; what comes of it does not.
    data = data.completed()
    n_seeds = max(n_components, min(SEEDS_PER_COMPONENT * n_components, data.n_rows // 2))
    n_seeds = min(n_seeds, data.n_rows)
    search_prior = Prior() if prior is None else prior
    merged = []
    for family, n in _families_of_runs(data.family, n_runs):
        if n:
            run_data = data if family == data.family else data.under(family)
            merged += merged_runs(run_data, n_seeds, n_components, search_prior, rng, n)
    mixtures = data.family.m_step(_stacked(merged), prior)
    return [mixtures[i] for i in range(n_runs)]


def _families_of_runs(family: Family, n_runs: int) -> list[tuple[Family, int]]:
    """Return the families under which runs are made, and the number of runs of each.

    Of several runs for a family with shared parameters, half are without sharing: where clusters differ in
    shape, a common shape would spread each of them over several components. If only a part of the
    covariances is shared, one run shares all of them: its optimum is one of a family that this one contains.
    """
    n_untied = n_runs // 2 if family.shares_parameters else 0
    n_tied = 1 if isinstance(family, PartlyShared) and n_runs > 2 else 0
    runs = [(family, n_runs - n_untied - n_tied), (family.untied, n_untied)]
    return [*runs, (family.tied, n_tied)] if isinstance(family, PartlyShared) else runs


def merged_runs(
    data: Problem, n_seeds: int, n_components: int, prior: Prior, rng: np.random.Generator, n_runs: int
) -> list[SufficientStats]:
    """Return the statistics of short runs from many seeds, each merged to the components asked for."""
    family = data.family
    seeded = [nearest_stats(data, seeds) for seeds in spread_rows(data, n_seeds, rng, n_runs)]
    # A batch needs mixtures of the same number of components, and seeds may be without rows.
    n_common = min(len(stats) for stats in seeded)
    merged_seeds = [greedily_merged_stats(family.untied, stats, n_common) for stats in seeded]
    # The short runs that follow adapt the prior.
    starts = family.m_step(_stacked(merged_seeds), prior.conjugate)
    runs, _ = short_runs(data, starts, prior, STEPS, is_scored=False)
    merged = [merged_stats(data, runs[i], n_components) for i in range(n_runs)]
    return [resized_stats(data, stats, n_components) for stats in merged]


def _stacked(stats: list[SufficientStats]) -> SufficientStats:
    """Return the statistics of mixtures of the same shape as a batch."""
    return SufficientStats(np.stack([mixture.array for mixture in stats]), stats[0].n_features)
