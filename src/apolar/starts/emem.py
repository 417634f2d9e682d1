"""Short runs of EM from many starts; the best goes on [biernacki2003]."""

import numpy as np

from apolar._core.arrays import Array
from apolar.em.run import short_runs
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats
from apolar.starts.overseed import reduced
from apolar.starts.seeds import nearest_stats, random_rows

RUNS = 50
STEPS = 5
# Runs that share a pass: more only need more memory.
TOGETHER = 10


def best_of_short_runs(
    data: WhitenedData,
    n_components: int,
    prior: Prior | None,
    rng: np.random.Generator,
    *,
    from_rows: bool = True,
    n_runs: int = RUNS,
    n_steps: int = STEPS,
) -> WhitenedParameters:
    """Return the best mixture after short runs of EM.

    Parameters
    ----------
    data : WhitenedData
    n_components : int
    prior : Prior or None
    rng : numpy.random.Generator
    from_rows : bool
        Start at random rows; else at random responsibilities, as the figures of [khouja2022moments] suggest
        that the paper did.
    n_runs, n_steps : int

    Returns
    -------
    parameters : WhitenedParameters
    """
    best: tuple[float, WhitenedParameters] | None = None
    for first in range(0, n_runs, TOGETHER):
        n_now = min(TOGETHER, n_runs - first)
        starts = [_random_stats(data, n_components, rng, from_rows) for _ in range(n_now)]
        runs = batch([data.family.m_step(stats, prior) for stats in starts])
        runs, _ = short_runs(data, runs, prior, n_steps)
        likelihoods = data.e_step(runs)[1]
        winner = int(np.argmax(np.where(np.isfinite(likelihoods), likelihoods, -np.inf)))
        if best is None or likelihoods[winner] > best[0]:
            best = float(likelihoods[winner]), runs[winner]
    assert best is not None
    return best[1]


def _random_stats(
    data: WhitenedData, n_components: int, rng: np.random.Generator, from_rows: bool
) -> SufficientStats:
    if from_rows:
        stats = nearest_stats(data, random_rows(data, n_components, rng))
        return reduced(data, stats, n_components)
    return data.soft_stats(random_responsibilities(data, n_components, rng))


def random_responsibilities(data: WhitenedData, n_components: int, rng: np.random.Generator) -> Array:
    """Return random responsibilities, shape (n_components, n_rows), that add up to one per row."""
    responsibilities = rng.random((n_components, data.n_rows))
    return responsibilities / responsibilities.sum(axis=0)
