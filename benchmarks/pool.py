"""The tasks of a benchmark in a pool of processes, and a file of their records to compare versions by."""

import argparse
import functools
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits


def run(
    task: Callable[..., dict[str, Any]],
    arguments: Sequence[tuple[Any, ...]],
    *,
    workers: int | None = None,
    out: Path | None = None,
) -> list[dict[str, Any]]:
    """Return the record of each task, in the order of their arguments.

    Parameters
    ----------
    task : callable
        Returns a record that JSON can hold.
    arguments : sequence of tuple
        Those of each task. They start in this order: the longest should come first.
    workers : int, optional
        The number of processes, each with one thread; by default one per core.
    out : path, optional
        A JSON file of the records so far, written after each task: a run that is stopped leaves the rest.
    """
    workers = workers or joblib.cpu_count()
    calls = (joblib.delayed(_numbered)(task, number, given) for number, given in enumerate(arguments))
    by_number: dict[int, dict[str, Any]] = {}
    begun = time.perf_counter()
    with joblib.parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
        for number, record in joblib.Parallel(return_as="generator_unordered", batch_size=1)(calls):
            by_number[number] = record
            spent = time.perf_counter() - begun
            words = " ".join(map(str, arguments[number]))
            print(
                f"{len(by_number)} of {len(arguments)}, {spent:.0f} s: {words}", file=sys.stderr, flush=True
            )
            if out is not None:
                write(out, [by_number[done] for done in sorted(by_number)])
    return [by_number[number] for number in range(len(arguments))]


def write(path: Path, records: list[dict[str, Any]]) -> None:
    """Write records as JSON, in one piece: a run that is stopped leaves no half of a file."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(records))
    part.replace(path)


def read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the records of several files."""
    return [record for path in paths for record in json.loads(path.read_text())]


def _numbered(
    task: Callable[..., dict[str, Any]], number: int, given: tuple[Any, ...]
) -> tuple[int, dict[str, Any]]:
    # With one worker joblib makes no process, and does not limit its threads.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _warm_up()
        return number, task(*given)


@functools.cache
def _warm_up() -> None:
    """Fit a few rows once per process, so that no fit that is timed imports what it needs."""
    import sklearn.mixture

    import apolar

    X = np.random.default_rng(0).standard_normal((50, 2))
    for mixture in (apolar.GaussianMixture, sklearn.mixture.GaussianMixture):
        mixture(2, random_state=0).fit(X).score(X)


def attempt(model: Any, X: np.ndarray) -> tuple[Any, float, str | None]:
    """Fit a model, and return it with the seconds that it took; if it refuses, None and its words."""
    begun = time.perf_counter()
    try:
        model.fit(X)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        words = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
        return None, time.perf_counter() - begun, words
    return model, time.perf_counter() - begun, None


def command_line(
    parser: argparse.ArgumentParser,
    measure: Callable[..., list[dict[str, Any]]],
    parts: Callable[[list[dict[str, Any]]], list[str]],
    save: Callable[[list[dict[str, Any]]], None],
) -> None:
    """Measure what the command line asks for, or read the records of several runs; save or print the report.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        With the arguments of the benchmark; those of every one are added.
    measure : callable
        Takes the parsed arguments, and `workers` and `out` for `run`; returns records.
    parts : callable
        Returns the parts of a report.
    save : callable
        Keeps the report in the folder of results.
    """
    parser.add_argument("--workers", type=int, help="processes; one per core by default")
    parser.add_argument("--out", type=Path, help="a JSON file for the records")
    parser.add_argument("--read", nargs="+", type=Path, help="report these files of records instead")
    parser.add_argument("--save", action="store_true", help="keep the report in the folder of results")
    given = parser.parse_args()
    records = read(given.read) if given.read else measure(given, workers=given.workers, out=given.out)
    if given.save:
        save(records)
    else:
        print("\n\n".join(parts(records)))
