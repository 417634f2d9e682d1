"""Moments and the mixtures they give: accuracy, time and memory, compared with scikit-learn."""

import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

import apolar
from benchmarks import problems

N_COMPONENTS = {1: 4, 2: 3}


def mean_errors(truth: apolar.SphericalMixture, estimate: apolar.SphericalMixture) -> np.ndarray:
    """Return |mu - estimated mu| / |mu| of each component, matched."""
    distances = np.linalg.norm(truth.means[:, None] - estimate.means, axis=2)
    i, j = linear_sum_assignment(distances)
    return distances[i, j] / np.linalg.norm(truth.means[i], axis=1)


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def accuracy() -> str:
    rows = []
    for example in (1, 2):
        truth = apolar.datasets.example_mixture(example)
        for form in ("equivariant", "paper"):
            sizes, means = np.array([1_000, 10_000, 100_000, 1_000_000]), []
            for n in sizes:
                errors = []
                for seed in range(40 if n < 1_000_000 else 10):
                    X, _ = apolar.datasets.make_example(example, n, seed)
                    estimate = apolar.mixture_from_moments(X, N_COMPONENTS[example], form, random_state=seed)
                    errors.append(mean_errors(truth, estimate).mean())
                means.append(np.mean(errors))
            slope = np.polyfit(np.log(sizes), np.log(means), 1)[0]
            rows.append([f"{example}", form, *(f"{mean:.4f}" for mean in means), f"{slope:.2f}"])
    header = ["example", "form", "n = 1e3", "1e4", "1e5", "1e6", "exponent"]
    return "Mean over components and data sets of |mu - estimated mu| / |mu|:\n\n" + problems.table(
        header, rows
    )


def never_fails(n_sets: int = 1000) -> str:
    rows = []
    for example in (1, 2):
        for form in ("equivariant", "paper"):
            crashed, unusable, statuses = 0, 0, {}
            for seed in range(n_sets):
                X, _ = apolar.datasets.make_example(example, 1000, seed)
                try:
                    estimate = apolar.mixture_from_moments(X, N_COMPONENTS[example], form, random_state=seed)
                except Exception as error:
                    crashed += 1
                    print(f"  example {example}, {form}, seed {seed}: {error}")
                    continue
                reach = 3 * np.abs(X - X.mean(axis=0)).max()
                usable = (
                    np.isfinite(estimate.means).all()
                    and np.abs(estimate.means - X.mean(axis=0)).max() < reach
                )
                unusable += not usable
                statuses[estimate.status.name] = statuses.get(estimate.status.name, 0) + 1
            listed = ", ".join(f"{name} {count}" for name, count in sorted(statuses.items()))
            rows.append([f"{example}", form, f"{crashed}", f"{unusable}", listed])
    header = ["example", "form", "crashes", "means out of reach", "status"]
    return f"{n_sets} data sets of 1000 rows each:\n\n" + problems.table(header, rows)


def times() -> str:
    from sklearn.cluster import KMeans

    rng = np.random.default_rng(0)
    rows = []
    for n, m, r in ((1_000, 6, 4), (500_000, 10, 5), (1_000_000, 20, 10)):
        means = 6 * rng.standard_normal((r, m))
        X = means[rng.integers(r, size=n)] + rng.standard_normal((n, m))
        ours = seconds(lambda X=X, r=r: apolar.mixture_from_moments(X, r), 50 if n < 10_000 else 5)
        peer = seconds(lambda X=X, r=r: KMeans(r, n_init=1, random_state=0).fit(X), 5 if n < 600_000 else 3)
        rows.append([f"{n:,} x {m}, r = {r}", f"{1e3 * ours:.1f}", f"{peer / ours:.1f}"])
    return problems.table(["problem", "apolar, ms", "KMeans(n_init=1) / apolar"], rows)


def growth() -> str:
    rng = np.random.default_rng(0)
    rows = []
    n, r = 5_000, 5
    columns, times = (100, 200, 400, 800, 1600), []
    for m in columns:
        X = 2 * rng.standard_normal((r, m))[rng.integers(r, size=n)] + rng.standard_normal((n, m))
        times.append(seconds(lambda X=X: apolar.mixture_from_moments(X, r, random_state=0), 5))
    slope = np.polyfit(np.log(columns), np.log(times), 1)[0]
    rows.append([f"m = {columns[0]} to {columns[-1]}, n = {n}", f"{slope:.2f}", _listed(times)])
    sizes, times = (10_000, 40_000, 160_000, 640_000), []
    for n in sizes:
        X = 6 * rng.standard_normal((r, 10))[rng.integers(r, size=n)] + rng.standard_normal((n, 10))
        times.append(seconds(lambda X=X: apolar.mixture_from_moments(X, r), 5))
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    rows.append([f"n = {sizes[0]:,} to {sizes[-1]:,}, m = 10", f"{slope:.2f}", _listed(times)])
    return problems.table(["growth, r = 5", "exponent", "ms"], rows)


def _listed(times: list[float]) -> str:
    return ", ".join(f"{1e3 * t:.1f}" for t in times)


LIMITED = """
import resource, sys, numpy as np, apolar
X = np.load(sys.argv[1], mmap_mode="r")
apolar.mixture_from_moments(X[:1000], 5)
# What this process may allocate from here on; the mapped file does not count, the system may drop its pages.
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv[2]), used + int(sys.argv[2])))
print(apolar.mixture_from_moments(X, 5).status.name, f"{X.nbytes / 2**20:.0f}")
"""


def memory() -> str:
    rng = np.random.default_rng(0)
    n, m, r = 1_000_000, 20, 5
    X = 6 * rng.standard_normal((r, m))[rng.integers(r, size=n)] + rng.standard_normal((n, m))
    apolar.mixture_from_moments(X[:1000], r)
    rows = []
    for name, call in (
        ("mixture_from_moments", lambda: apolar.mixture_from_moments(X, r)),
        ("MomentSketch.update", lambda: apolar.MomentSketch(m).update(X)),
    ):
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append([f"{name}, 1,000,000 x 20", f"{peak / 2**20:.1f}"])
    text = problems.table(["beyond X", "MB"], rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.save(path, X)
        limit = 64 * 2**20
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, str(path), str(limit)],
            capture_output=True,
            text=True,
            check=False,
        )
    outcome = done.stdout.strip() or done.stderr.strip().splitlines()[-1]
    status, size = outcome.split()[:2] if done.returncode == 0 else (outcome, "?")
    limit_text = f"A memory-mapped file of {size} MB, with {limit // 2**20} MB to allocate at most: {status}."
    return text + "\n\n" + limit_text


def main() -> None:
    parts = [accuracy(), never_fails(), times(), growth(), memory()]
    problems.save(
        "moments", "From rows to moments to a mixture", parts, libraries=("numpy", "scipy", "scikit-learn")
    )


if __name__ == "__main__":
    main()
