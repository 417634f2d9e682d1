"""Tables of stability: how often each method is best, over many simulated data sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar_reproduction.methods import METHODS, N_ROWS, PAPER_METHODS, cluster, simulate
from apolar_reproduction.printed import STUDIES

N_SIMULATIONS = 100
N_REPEATS = 20

# Raise this when the methods give other scores: scores of two revisions are never mixed in a file.
REVISION = 1
# The paper's method of moments: each of our methods is compared in its place.
MOMENTS = "em_mom"
# Decimals of the printed tables: methods whose values agree to these are both best.
PRINTED_DECIMALS = {"bic": 2, "ari": 4, "error_rate": 4}
SCORES = tuple(PRINTED_DECIMALS)
HIGH_ARI = 0.99
# A difference of BIC below which two fits are at the same optimum: EM stops within about 0.3 of it.
NEAR = 1.0
# Decimals of the numbers in the file: results are the same whether the scores were read or just computed.
DECIMALS = 6

Key = tuple[int, int]
"""Repeat and simulation."""
Shares = dict[str, float]
"""How often a method was best, in per cent: means over the repeats, and their variances, by column."""
CountCallback = Callable[[int, int], None]
"""Called with the number of data sets that are done, and the number of all."""


def run_study(
    label: str,
    *,
    n_simulations: int = N_SIMULATIONS,
    n_repeats: int = N_REPEATS,
    seed: int = 0,
    path: Path | None = None,
    n_jobs: int | None = None,
    callback: CountCallback | None = None,
) -> dict[str, Shares]:
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
    shares : dict of str to dict of str to float
        By method and column: the mean over the repeats of the per cent of data sets in which the method was
        best, and the variance. The paper's four methods are compared with each other; ours, each with the
        other three in the place of `em_mom`. `near` is how often the BIC was within 1 of the best
        of all methods.
    """
    n_simulations = check_integer(n_simulations, "n_simulations", least=1)
    n_repeats = check_integer(n_repeats, "n_repeats", least=1)
    wanted = [(repeat, simulation) for repeat in range(n_repeats) for simulation in range(n_simulations)]
    runs = RunsFile(path, describe_study(label, seed), METHODS)
    missing = [key for key in wanted if key not in runs.scores]
    n_done = len(wanted) - len(missing)
    if callback is not None:
        callback(n_done, len(wanted))
    with runs:
        for key, scores in _score_all(label, seed, missing, n_jobs):
            runs.add(key, scores)
            n_done += 1
            if callback is not None:
                callback(n_done, len(wanted))
    table = np.array([runs.scores[key] for key in wanted])
    return shares_of(table.reshape(n_repeats, n_simulations, len(METHODS), len(SCORES)))


def describe_study(label: str, seed: int) -> str:
    """Return what the scores of a study are of, as the first line of their file says it."""
    return f"{label}, seed {seed}, {N_ROWS} rows, methods of revision {REVISION}"


def _score_all(label: str, seed: int, keys: list[Key], n_jobs: int | None) -> Iterator[tuple[Key, Array]]:
    """Yield data sets and their scores as they are done, by several processes."""
    n_jobs = min(n_jobs or os.cpu_count() or 1, len(keys))
    example = STUDIES[label].size
    if n_jobs <= 1:
        for key in keys:
            yield score_data_set(example, seed, key)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(score_data_set)(example, seed, key) for key in keys)


def score_data_set(example: int, seed: int, key: Key) -> tuple[Key, Array]:
    """Return the scores of all methods on one data set, shape (n_methods, 3): BIC, ARI, error rate."""
    rng = np.random.default_rng([example, seed, *key])
    task = simulate(example, rng)
    method_seed = int(rng.integers(2**31))
    results = [cluster(method, task, method_seed) for method in METHODS]
    return key, np.round([(result.bic, result.ari, result.error_rate) for result in results], DECIMALS)


def shares_of(scores: Array) -> dict[str, Shares]:
    """Return the shares of each method, from scores of shape (n_repeats, n_simulations, n_methods, 3)."""
    shares: dict[str, Shares] = {}
    for method in METHODS:
        rivals = [other for other in PAPER_METHODS if method in PAPER_METHODS or other != MOMENTS]
        group = [METHODS.index(other) for other in dict.fromkeys([method, *rivals])]
        is_best = {}
        for column, (name, decimals) in enumerate(PRINTED_DECIMALS.items()):
            # The error rate is best where it is lowest.
            values = np.round(scores[:, :, group, column] * (-1 if name == "error_rate" else 1), decimals)
            is_best[name] = values[:, :, 0] >= values.max(axis=2)
            if name == "ari":
                is_best["ari_099"] = scores[:, :, group[0], column] >= HIGH_ARI
        is_best["near"] = scores[:, :, group[0], 0] >= scores[..., 0].max(axis=2) - NEAR
        shares[method] = {}
        for name, found in is_best.items():
            percentages = 100 * found.mean(axis=1)
            shares[method][name] = float(percentages.mean())
            # The variance of a single repeat is NaN.
            variance = percentages.var(ddof=1) if len(percentages) > 1 else float("nan")
            shares[method][f"{name}_variance"] = float(variance)
    return shares


class RunsFile:
    """A table of scores, one line per data set, each appended when it is done.

    Parameters
    ----------
    path : Path or None
        None to keep the scores in memory.
    what : str
        What the scores are of. A file with scores of something else is refused.
    methods : tuple of str

    Attributes
    ----------
    scores : dict of Key to ndarray
        Of each data set, shape (n_methods, 3): BIC, ARI, error rate.
    """

    def __init__(self, path: Path | None, what: str, methods: tuple[str, ...]) -> None:
        self.path, self.methods = path, methods
        columns = [f"{method}_{score}" for method in methods for score in SCORES]
        self.head = f"# {what}: one line a data set\n" + ",".join(["repeat", "simulation", *columns]) + "\n"
        self.scores: dict[Key, Array] = {}
        self._file: IO[str] | None = None
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is damaged: it is not text. Remove it to begin anew.") from error
        if not text.startswith(self.head):
            if self.head.startswith(text):  # interrupted while the head was written
                path.unlink()
                return
            raise ValueError(
                f"{path} holds scores of something else: it begins {text.splitlines()[0][:80]!r}, not "
                f"{self.head.splitlines()[0]!r}. Choose another folder, or remove the file to begin anew."
            )
        body = text[len(self.head) :]
        lines = body.splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # interrupted in the middle of a line
        for number, line in enumerate(lines, start=self.head.count("\n") + 1):
            try:
                numbers = line.rstrip("\n").split(",")
                key = int(numbers[0]), int(numbers[1])
                scores = np.array(numbers[2:], dtype=float).reshape(len(self.methods), len(SCORES))
                if not np.all(np.isfinite(scores)):
                    raise ValueError("not finite")
                self.scores[key] = scores
            except (ValueError, IndexError) as error:
                raise ValueError(
                    f"{path}, line {number}, is damaged: remove that line, and run again."
                ) from error
        n_bytes = sum(len(line.encode()) for line in lines) + len(self.head.encode())
        if n_bytes < path.stat().st_size:
            with path.open("r+b") as file:
                file.truncate(n_bytes)

    def __enter__(self) -> RunsFile:
        if self.path is not None:
            is_new = not self.path.exists()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8", newline="\n")
            if is_new:
                self._write(self.head)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, key: Key, scores: Array) -> None:
        """Keep the scores of a data set, and save them."""
        self.scores[key] = scores
        self._write(",".join([*map(str, key), *(f"{score:.{DECIMALS}f}" for score in scores.ravel())]) + "\n")

    def _write(self, text: str) -> None:
        if self._file is not None:
            self._file.write(text)
            self._file.flush()
