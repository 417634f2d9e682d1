"""Twenty fits at once in threads, and four processes at once: the digits of fits that are alone."""

import concurrent.futures as futures
import hashlib
import multiprocessing
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

import apolar

N_THREADS, N_PROCESSES = 20, 4
# A family of each kind of storage, and one whose components share a part of their covariances.
FAMILIES = ("full", "tied", "diag", "spherical", "VEE")


def rows():
    """Return overlapping clusters, some values of which are missing in every other fit."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((6000, 4)) + 3 * rng.standard_normal((5, 4))[rng.integers(5, size=6000)]


def digits(number, X=None):
    """Return a hash of the parameters of one of the fits."""
    X = rows() if X is None else X
    if number % 2:
        X = np.where(np.random.default_rng(number).random(X.shape) < 0.01, np.nan, X)
    family = FAMILIES[number % len(FAMILIES)]
    model = apolar.GaussianMixture(4, covariance_type=family, random_state=number).fit(X)
    of_rows = model.predict_proba(X)
    arrays = model.weights_, model.means_, np.asarray(model.covariances_), of_rows
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


def in_threads(X):
    """Return the digits of all fits, which begin at the same time."""
    barrier = threading.Barrier(N_THREADS)

    def fit(number):
        barrier.wait()
        return digits(number, X)

    with futures.ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(fit, range(N_THREADS)))


def save(number, path):
    """Save one of the fits, again and again, where others save theirs."""
    X = rows()[:500]
    model = apolar.GaussianMixture(2, random_state=number).fit(X)
    for _ in range(20):
        model.save(path)
        apolar.GaussianMixture.load(path)
    return digits(number)


def main():
    """Run both, and compare."""
    X = rows()
    alone = [digits(number, X) for number in range(N_THREADS)]
    assert in_threads(X) == alone, "a fit in a thread has other digits than alone"
    # Forked processes would share the threads of this one.
    with (
        tempfile.TemporaryDirectory() as folder,
        futures.ProcessPoolExecutor(N_PROCESSES, multiprocessing.get_context("spawn")) as pool,
    ):
        path = Path(folder) / "model.npz"
        together = list(pool.map(save, range(N_PROCESSES), [path] * N_PROCESSES))
        assert together == alone[:N_PROCESSES], "a fit in a process has other digits than alone"
        assert [each.name for each in Path(folder).iterdir()] == ["model.npz"]
        assert apolar.GaussianMixture.load(path).n_components == 2
    print(f"{N_THREADS} fits in threads, {N_PROCESSES} in processes: the same digits as alone")


if __name__ == "__main__":
    sys.exit(main())
