"""Over-seed and merge: more components than asked for, a few steps of EM, then merging."""

import numpy as np

from apolar._arrays import Array
from apolar.em.loop import short_runs
from apolar.em.table import Table
from apolar.mixture.components import Components, batch
from apolar.mixture.prior import Prior
from apolar.starts.merging import Mergers, merged_down
from apolar.starts.seeds import nearest_sums, spread_rows

# Seeds a component, and steps of EM with all of them.
SEEDS_A_COMPONENT = 4
STEPS = 5


def overseeded(
    table: Table, n_components: int, prior: Prior | None, rng: np.random.Generator, n_runs: int = 1
) -> list[Components]:
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
    mixtures : list of Components
    """
    family = table.family
    n_seeds = max(n_components, min(SEEDS_A_COMPONENT * n_components, table.n_rows // 2))
    n_seeds = min(n_seeds, table.n_rows)
    weak = Prior() if prior is None else prior
    runs = [nearest_sums(table, spread_rows(table, n_seeds, rng)) for _ in range(n_runs)]
    n_common = min(len(run) for run in runs)
    starts = [family.maximised(merged_down(family.untied, run, n_common), weak) for run in runs]
    grown, _ = short_runs(table, batch(starts), weak, STEPS)
    return [reduced_mixture(table, grown[i], n_components, prior) for i in range(n_runs)]


def reduced_mixture(
    table: Table, components: Components, n_components: int, prior: Prior | None
) -> Components:
    """Return a mixture of fewer components, merged where that costs the least likelihood."""
    sums = Mergers(table, components).reduced(n_components)
    return table.family.maximised(reduced(table, sums, n_components), prior)


def reduced(table: Table, sums: Array, n_components: int) -> Array:
    """Return sums merged down; if there are too few to begin with, the heaviest are halved."""
    merged = merged_down(table.family.untied, sums, n_components)
    while len(merged) < n_components:
        heaviest = int(merged[:, 0].argmax())
        merged[heaviest] /= 2
        merged = np.concatenate([merged, merged[heaviest : heaviest + 1]])
    return merged
