"""Tables of stability: how often each method is best, over many simulated data sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar.paper.methods import METHODS, PAPER_METHODS, clustering
from apolar.paper.printed import STUDIES, PrintedStudy, Share, Shares
from apolar.paper.runs import DECIMALS, Key, RunsFile
from apolar.paper.tasks import N_ROWS, simulated

N_SIMULATIONS = 100
N_REPEATS = 20

# Raise this when the methods give other scores: scores of two revisions are never mixed in a file.
REVISION = 1
# The paper's method of moments: each of our methods is compared in its place.
MOMENTS = "em_mom"
# Decimals of the printed tables: methods whose values agree to these are both best.
PRINTED_DECIMALS = {"bic": 2, "ari": 4, "error_rate": 4}
HIGH_ARI = 0.99
# A difference of BIC below which two fits are at the same optimum: EM stops within about 0.3 of it.
NEAR = 1.0

CountCallback = Callable[[int, int], None]
"""Called with the number of data sets that are done, and the number of all."""


@dataclass(frozen=True, eq=False)
class Study:
    """How often each method was best.

    Attributes
    ----------
    label : str
    n_simulations, n_repeats : int
    shares : dict of str to Shares
        By method: the mean over the repeats of the per cent of data sets, and their variance. The paper's
        four methods are compared with each other; ours, each with the other three in the place of `em_mom`.
    """

    label: str
    n_simulations: int
    n_repeats: int
    shares: dict[str, Shares]

    @property
    def printed(self) -> PrintedStudy:
        """What the paper prints."""
        return STUDIES[self.label]


def studied(
    label: str,
    *,
    n_simulations: int = N_SIMULATIONS,
    n_repeats: int = N_REPEATS,
    seed: int = 0,
    path: Path | None = None,
    n_jobs: int | None = None,
    callback: CountCallback | None = None,
) -> Study:
    """Run every method on many data sets of an example.

    Parameters
    ----------
    label : {"table5", "table6"}
    n_simulations : int, default=100
        Data sets per repeat.
    n_repeats : int, default=20
    seed : int, default=0
        Each data set has its own stream of random numbers, which does not depend on how many there are.
    path : Path, optional
        Where to save the scores of each data set when it is done. Those already there are not computed again.
    n_jobs : int, optional
        Processes; by default as many as there are cores.
    callback : callable, optional
        Called with the number of data sets that are done, and the number of all.

    Returns
    -------
    study : Study
    """
    n_simulations = check_integer(n_simulations, "n_simulations", least=1)
    n_repeats = check_integer(n_repeats, "n_repeats", least=1)
    wanted = [(repeat, simulation) for repeat in range(n_repeats) for simulation in range(n_simulations)]
    runs = RunsFile(path, described(label, seed), METHODS)
    missing = [key for key in wanted if key not in runs.scores]
    n_done = len(wanted) - len(missing)
    if callback is not None:
        callback(n_done, len(wanted))
    with runs:
        for key, scores in _done(label, seed, missing, n_jobs):
            runs.add(key, scores)
            n_done += 1
            if callback is not None:
                callback(n_done, len(wanted))
    table = np.array([runs.scores[key] for key in wanted])
    shares = _shares(table.reshape(n_repeats, n_simulations, len(METHODS), 3))
    return Study(label, n_simulations, n_repeats, shares)


def described(label: str, seed: int) -> str:
    """Return what the scores of a study are of, as the first line of their file says it."""
    return f"{label}, seed {seed}, {N_ROWS} rows, methods of revision {REVISION}"


def _done(label: str, seed: int, keys: list[Key], n_jobs: int | None) -> Iterator[tuple[Key, Array]]:
    """Yield data sets and their scores as they are done, by several processes."""
    n_jobs = min(n_jobs or os.cpu_count() or 1, len(keys))
    example = STUDIES[label].example
    if n_jobs <= 1:
        for key in keys:
            yield _scored(example, seed, key)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(_scored)(example, seed, key) for key in keys)


def _scored(example: int, seed: int, key: Key) -> tuple[Key, Array]:
    """Return the scores of all methods on one data set, shape (n_methods, 3): BIC, ARI, error rate."""
    rng = np.random.default_rng([example, seed, *key])
    task = simulated(example, rng)
    method_seed = int(rng.integers(2**31))
    results = [clustering(method, task, method_seed) for method in METHODS]
    return key, np.round([(result.bic, result.ari, result.error_rate) for result in results], DECIMALS)


def _shares(scores: Array) -> dict[str, Shares]:
    """Return the shares of each method, from scores of shape (n_repeats, n_simulations, n_methods, 3)."""
    shares = {}
    for method in METHODS:
        rivals = [other for other in PAPER_METHODS if method in PAPER_METHODS or other != MOMENTS]
        group = [METHODS.index(other) for other in dict.fromkeys([method, *rivals])]
        cells = []
        for column, name in enumerate(("bic", "ari", "error_rate")):
            # The error rate is best where it is lowest.
            values = scores[:, :, group, column] * (-1 if name == "error_rate" else 1)
            rounded = np.round(values, PRINTED_DECIMALS[name])
            cells.append(_share(rounded[:, :, 0] >= rounded.max(axis=2)))
        high = _share(scores[:, :, group[0], 1] >= HIGH_ARI)
        near = _share(scores[:, :, group[0], 0] >= scores[..., 0].max(axis=2) - NEAR)
        shares[method] = Shares(cells[0], cells[1], high, cells[2], near)
    return shares


def _share(is_best: Array) -> Share:
    """Return mean and variance over the repeats, in per cent; the variance of a single repeat is NaN."""
    percentages = 100 * is_best.mean(axis=1)
    variance = float(percentages.var(ddof=1)) if len(percentages) > 1 else float("nan")
    return Share(float(percentages.mean()), variance)
