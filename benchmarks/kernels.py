"""The compiled kernels and scikit-learn: passes of EM by threads, whole fits, the moment start, memory.

``python -m benchmarks kernels`` runs all parts; ``python -m benchmarks.kernels passes fits`` those named, and
``python -m benchmarks threads`` the passes alone, for a machine with many cores.
"""

import functools
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture as TheirMixture
from threadpoolctl import threadpool_limits

import apolar
from apolar._core.compiled import kernels_in_use
from apolar._core.threads import one_blas_thread
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from benchmarks import problems
from benchmarks.em import rows as spherical_rows
from benchmarks.em import seconds

N_ROWS = 1_000_000
SIZES = ((10, 5), (16, 8))
THREADS = tuple(n for n in (1, 2, 4, 8, 16) if n <= (os.cpu_count() or 1))
# Rows, columns, components and the spread of the means, in deviations of a component, of the whole fits.
FITS = [
    (n_rows, n_columns, n_components, spread)
    for n_rows, n_columns, n_components in (
        (10_000, 10, 5),
        (100_000, 10, 5),
        (100_000, 16, 8),
        (1_000_000, 16, 8),
    )
    for spread in (0.7, 1.5)
]


def example(
    n_rows: int, n_columns: int, n_components: int, spread: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a random mixture of full covariances, and its means."""
    rng = np.random.default_rng([seed, n_rows, n_columns, n_components])
    means = spread * rng.standard_normal((n_components, n_columns))
    roots = np.eye(n_columns) + 0.3 * rng.standard_normal((n_components, n_columns, n_columns))
    labels = rng.integers(0, n_components, n_rows)
    X = rng.standard_normal((n_rows, n_columns))
    for k in range(n_components):
        X[labels == k] = means[k] + X[labels == k] @ roots[k].T
    return X, means


def _pass_of(data: Problem, start: MixtureParameters) -> Callable[[], None]:
    """Return a function that runs an E-step and an M-step."""
    whitened = data.whitening.transform_parameters(start)[None]

    def one_pass() -> None:
        with one_blas_thread():
            data.family.m_step(data.e_step(whitened)[0], None)

    return one_pass


def passes() -> str:
    """Return the time of one E-step and M-step by threads."""
    lines = []
    for n_columns, n_components in SIZES:
        X, _ = example(N_ROWS, n_columns, n_components, 1.5)
        for name in ("spherical", "diag", "full"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = TheirMixture(n_components, covariance_type=name, random_state=0).fit(X[:5000])

            def their_pass(theirs: TheirMixture = theirs, X: np.ndarray = X) -> None:
                _, posterior = theirs._e_step(X)
                theirs._m_step(X, posterior)

            start = MixtureParameters(theirs.weights_, theirs.means_, theirs.covariances_)
            ours = []
            for n_threads in THREADS:
                data = Problem(open_rows(X), family(name), threads=n_threads)
                ours.append(seconds(_pass_of(data, start), 7))
            other = []
            for n_threads in THREADS[:2]:
                with threadpool_limits(n_threads):
                    other.append(seconds(their_pass, 2))
            cells = [f"{1000 * spent:.1f}" for spent in (*ours, *other)]
            ratios = [f"{theirs / mine:.1f}" for theirs, mine in zip(other, ours, strict=False)]
            lines.append([f"{n_columns}, {n_components}", name, *cells, *ratios])
    header = [
        "columns, components",
        "covariance",
        *(f"{n} thread" + "s" * (n > 1) for n in THREADS),
        *(f"scikit-learn, {n}" for n in THREADS[:2]),
        *(f"ratio, {n}" for n in THREADS[:2]),
    ]
    text = f"One E-step and M-step at {N_ROWS:,} rows of float64, milliseconds, by the number of threads."
    return text + "\n\n" + problems.table(header, lines)


def fits() -> str:
    """Return the times of whole default fits on two threads."""
    lines = []
    for n_rows, n_columns, n_components, spread in FITS:
        X, means = example(n_rows, n_columns, n_components, spread)
        repeats = 3 if n_rows <= 100_000 else 2
        ours = apolar.GaussianMixture(n_components, random_state=0, n_threads=2)
        theirs = TheirMixture(n_components, random_state=0)
        truth = apolar.GaussianMixture(n_components, means_init=means, n_threads=2)
        with warnings.catch_warnings(), threadpool_limits(2):
            warnings.simplefilter("ignore")
            spent, other = (seconds(functools.partial(model.fit, X), repeats) for model in (ours, theirs))
            gains = [n_rows * (ours.score(X) - peer.score(X)) for peer in (theirs, truth.fit(X))]
        cells = [f"{spread}", f"{spent:.3f}", f"{other:.3f}", f"{other / spent:.1f}"]
        cells += [f"{gain:+.1f}" for gain in gains]
        cells.append(f"{ours.n_iter_}, {theirs.n_iter_}")
        lines.append([f"{n_rows:,} x {n_columns}", str(n_components), *cells])
    header = ["rows", "components", "spread", "apolar s", "scikit-learn s", "ratio"]
    header += ["gain", "above EM from the truth", "passes"]
    text = (
        "Whole fits of full covariances, both as they come, on two threads. Gain: log-likelihood of all rows "
        "above scikit-learn's. Our default shrinks covariances, which costs a little of the likelihood of "
        "the rows that were fitted, and gains on others."
    )
    return text + "\n\n" + problems.table(header, lines)


def moment_start() -> str:
    """Return the times of the moment start and of k-means."""
    X = spherical_rows(N_ROWS, 1.5)
    spent = seconds(lambda: apolar.mixture_from_moments(X, 5), 5)
    other = seconds(lambda: KMeans(5, n_init=1, random_state=0).fit(X), 3)
    return (
        f"The moment start at {N_ROWS:,} x 10, r = 5: {1000 * spent:.1f} ms. scikit-learn's "
        f"KMeans(n_init=1): {1000 * other:.0f} ms, {other / spent:.1f} times as long. Both with all "
        f"{os.cpu_count()} cores."
    )


# In a process of its own, cold: what a fit takes beyond the rows and what was imported.
MEMORY = """
import json, sys
import numpy as np
import apolar
import apolar.estimator.fit
import scipy.linalg, sklearn.cluster
rng = np.random.default_rng(0)
X = np.empty((1_000_000, 10))
for start in range(0, len(X), 10_000):
    X[start : start + 10_000] = rng.standard_normal((10_000, 10)) + 3 * rng.integers(0, 5, (10_000, 1))
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
def size():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) / 1024
open("/proc/self/clear_refs", "w").write("5")
before = size()
what, name = sys.argv[1:]
if what == "pass":
    from apolar.data import open_rows
    from apolar.em.problem import Problem
    from apolar.mixture.families import family
    from apolar.mixture.parameters import WhitenedParameters
    kind = family(name)
    data = Problem(open_rows(X), kind, threads=2)
    means = rng.standard_normal((5, 10))
    covariances = {"spherical": np.ones(5), "full": np.tile(np.eye(10), (5, 1, 1))}[name]
    kind.m_step(data.e_step(WhitenedParameters(np.full(5, 0.2), means, covariances)[None])[0], None)
elif what == "start":
    apolar.mixture_from_moments(X, 5)
else:
    apolar.GaussianMixture(5, covariance_type=name, init_params=what, n_threads=2, random_state=0).fit(X)
print(json.dumps(peak() - before))
"""


def memory() -> str:
    """Return the memory beyond the rows, measured from a fresh process."""
    lines = []
    for what, name, words in (
        ("pass", "spherical", "the pass that finds the scale, and one of EM, spherical"),
        ("pass", "full", "the same, full"),
        ("start", "spherical", "the moment start"),
        ("moments", "spherical", "a whole fit from the moments, spherical"),
        ("auto", "full", "a whole default fit, full"),
    ):
        command = [sys.executable, "-c", MEMORY, what, name]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lines.append([words, f"{json.loads(output):.1f}"])
    text = (
        f"Memory beyond X at {N_ROWS:,} x 10, in MB: the peak of a fresh process, minus what it had with X "
        "and the imports."
    )
    return text + "\n\n" + problems.table(["what", "MB"], lines)


PARTS: dict[str, Callable[[], str]] = {
    "passes": passes,
    "fits": fits,
    "moment_start": moment_start,
    "memory": memory,
}


def threads() -> None:
    """Measure the passes alone, on a machine with many cores."""
    parts = [f"Kernels in use: {kernels_in_use()}.", passes()]
    libraries = ("numpy", "scipy", "scikit-learn")
    problems.save("threads", "Passes of EM by the number of threads", parts, libraries)


def main(names: list[str] | None = None) -> None:
    """Measure the parts that are named, or all."""
    parts = [f"Kernels in use: {kernels_in_use()}."]
    parts += [PARTS[name]() for name in (names or PARTS)]
    if names:
        print("\n\n".join(parts))
    else:
        problems.save("kernels", "Compiled kernels", parts, ("numpy", "scipy", "scikit-learn"))


if __name__ == "__main__":
    main(sys.argv[1:])
