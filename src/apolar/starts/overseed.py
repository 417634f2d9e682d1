"""Over-seed and merge: more components than asked for, a few steps of EM, then merging."""

import numpy as np

from apolar.em.run import short_runs
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats
from apolar.starts.merging import merged_down, reduced_stats
from apolar.starts.seeds import nearest_stats, spread_rows

# Seeds per component, and steps of EM with all of them.
SEEDS_A_COMPONENT = 4
STEPS = 5


def overseeded(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator, n_runs: int = 1
) -> list[WhitenedParameters]:
    """Return mixtures that grew from four times as many k-means++ seeds.

    Parameters
    ----------
    data : WhitenedData
    n_components : int
    prior : Prior or None
        The merged components are made with it; the steps before always use one.
    rng : numpy.random.Generator
    n_runs : int
        Mixtures to make; they share the passes.

    Returns
    -------
    mixtures : list of WhitenedParameters
    """
    n_seeds = max(n_components, min(SEEDS_A_COMPONENT * n_components, data.n_rows // 2))
    n_seeds = min(n_seeds, data.n_rows)
    weak = Prior() if prior is None else prior
    # Where components share something, half of several runs grow without: where clusters differ in shape, a
    # common one spreads them over more components than they have.
    untied = data.family.untied
    n_untied = 0 if untied == data.family else n_runs // 2
    grown = []
    for grown_on, n in ((data, n_runs - n_untied), (data.under(untied), n_untied)):
        if n:
            grown += _grown(grown_on, n_seeds, n_components, weak, rng, n)
    return [data.family.m_step(stats, prior) for stats in grown]


def _grown(
    data: WhitenedData, n_seeds: int, n_components: int, prior: Prior, rng: np.random.Generator, n_runs: int
) -> list[SufficientStats]:
    """Return the statistics of mixtures that were grown from many seeds, and merged."""
    family = data.family
    runs = [nearest_stats(data, spread_rows(data, n_seeds, rng)) for _ in range(n_runs)]
    n_common = min(len(run) for run in runs)
    starts = [family.m_step(merged_down(family.untied, run, n_common), prior) for run in runs]
    grown, _ = short_runs(data, batch(starts), prior, STEPS)
    return [reduced(data, reduced_stats(data, grown[i], n_components), n_components) for i in range(n_runs)]


def reduced(data: WhitenedData, stats: SufficientStats, n_components: int) -> SufficientStats:
    """Return statistics merged down; if the components are too few to begin with, the heaviest are halved."""
    merged = merged_down(data.family.untied, stats, n_components).array
    while len(merged) < n_components:
        heaviest = int(merged[:, 0].argmax())
        merged[heaviest] /= 2
        merged = np.concatenate([merged, merged[heaviest : heaviest + 1]])
    return SufficientStats(merged, data.n_features)
