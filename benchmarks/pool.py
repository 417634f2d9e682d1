"""The tasks of a benchmark in a pool of processes."""

import functools
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits


def run(task: Callable[..., dict[str, Any]], arguments: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return the record of each task, in the order of their arguments, by one process per core.

    They start in this order: the longest should come first.
    """
    calls = (joblib.delayed(_measure)(task, given) for given in arguments)
    records: list[dict[str, Any]] = []
    begun = time.perf_counter()
    with joblib.parallel_config("loky", n_jobs=joblib.cpu_count(), inner_max_num_threads=1):
        for record in joblib.Parallel(return_as="generator", batch_size=1)(calls):
            records.append(record)
            spent = time.perf_counter() - begun
            print(f"{len(records)} of {len(arguments)}, {spent:.0f} s", file=sys.stderr, flush=True)
    return records


def _measure(task: Callable[..., dict[str, Any]], given: tuple[Any, ...]) -> dict[str, Any]:
    # With one worker joblib makes no process, and does not limit its threads.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _warm_up()
        return task(*given)


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
