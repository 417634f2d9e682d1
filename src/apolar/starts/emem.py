"""Short runs of EM from many random starts, of which the best is kept [biernacki2003]."""

import numpy as np

from apolar.em.run import short_runs
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats
from apolar.starts.merging import resized_stats
from apolar.starts.random_responsibilities import random_responsibilities
from apolar.starts.seeds import nearest_stats, random_rows

RUNS = 50
STEPS = 5
# Runs that share each pass over the rows: with more, a pass takes more memory and is no faster.
RUNS_PER_BATCH = 10


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
    """Return the best mixture after short runs of EM: a `Start`.

    Parameters
    ----------
    data : WhitenedData
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
    data: WhitenedData, n_components: int, rng: np.random.Generator, from_rows: bool
) -> SufficientStats:
    """Return the sufficient statistics of one random start."""
    if from_rows:
        stats = nearest_stats(data, random_rows(data, n_components, rng))
        return resized_stats(data, stats, n_components)
    return data.soft_stats(random_responsibilities(data, n_components, rng))
