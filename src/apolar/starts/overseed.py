"""Over-seed and merge: more components than asked for, a few steps of EM, then merging."""

import numpy as np

from apolar._core.arrays import Array
from apolar.em.run import short_runs
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.starts.merging import merged_down, reduced_stats
from apolar.starts.seeds import nearest_stats, spread_rows

# Seeds a component, and steps of EM with all of them.
SEEDS_A_COMPONENT = 4
STEPS = 5


def overseeded(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator, n_runs: int = 1
) -> list[WhitenedParameters]:
    """Return mixtures that grew from four times as many k-means++ seeds.

    Parameters
    ----------
    table : Table
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
    # Half of several runs of a tied family grow with a covariance for each component: where clusters differ
    # in shape, a common one spreads them over more components than they have.
    n_untied = n_runs // 2 if data.family.tied else 0
    mixtures = []
    for grown_on, n in ((data, n_runs - n_untied), (data.under(data.family.untied), n_untied)):
        if n:
            mixtures += _grown(grown_on, n_seeds, n_components, weak, rng, n)
    return [data.family.m_step(stats, prior) for stats in mixtures]


def _grown(
    data: WhitenedData, n_seeds: int, n_components: int, prior: Prior, rng: np.random.Generator, n_runs: int
) -> list[Array]:
    """Return the sums of mixtures that were grown from many seeds, and merged."""
    kind = data.family
    runs = [nearest_stats(data, spread_rows(data, n_seeds, rng)) for _ in range(n_runs)]
    n_common = min(len(run) for run in runs)
    starts = [kind.m_step(merged_down(kind.untied, run, n_common), prior) for run in runs]
    grown, _ = short_runs(data, batch(starts), prior, STEPS)
    return [reduced(data, reduced_stats(data, grown[i], n_components), n_components) for i in range(n_runs)]


def reduced(data: WhitenedData, stats: Array, n_components: int) -> Array:
    """Return sums merged down; if there are too few to begin with, the heaviest are halved."""
    merged = merged_down(data.family.untied, stats, n_components)
    while len(merged) < n_components:
        heaviest = int(merged[:, 0].argmax())
        merged[heaviest] /= 2
        merged = np.concatenate([merged, merged[heaviest : heaviest + 1]])
    return merged
