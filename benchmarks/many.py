"""Many components and many columns: time next to scikit-learn."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from benchmarks import problems

# Rows, columns, components, covariance type; the first table is iris.
SIZES = (
    (150, 4, 3, "full"),
    (1_000, 10, 3, "full"),
    (10_000, 10, 5, "full"),
    (20_000, 10, 20, "full"),
    (50_000, 10, 50, "full"),
    (50_000, 10, 50, "spherical"),
    (60_000, 64, 10, "diag"),
    (20_000, 784, 10, "spherical"),
    (20_000, 784, 10, "diag"),
    (10_000, 256, 10, "full"),
)
# Fits are repeated for this long.
LEAST_SECONDS = 0.3


def wide_clusters(n_rows: int, n_features: int, n_components: int) -> np.ndarray:
    """Return rows of clusters of any shape, as far apart in any number of columns."""
    rng = np.random.default_rng(0)
    means = 4 * np.sqrt(10 / max(n_features, 10)) * rng.standard_normal((n_components, n_features))
    labels = rng.choice(n_components, n_rows, p=rng.dirichlet(np.full(n_components, 5.0)))
    X = np.empty((n_rows, n_features))
    for k, mean in enumerate(means):
        members = np.flatnonzero(labels == k)
        rows = rng.standard_normal((len(members), n_features))
        if n_features <= 256:
            root = rng.standard_normal((n_features, n_features)) / np.sqrt(n_features)
            rows = rows @ (root + 0.5 * np.eye(n_features))
        X[members] = mean + rows
    return X


def timed(fit: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU time of a fit, and the mixture: the least time of several fits that are short."""
    spent, total = np.inf, 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while total < LEAST_SECONDS:
            begun = time.process_time()
            fitted = fit()
            last = time.process_time() - begun
            spent, total = min(spent, last), total + last
    return spent, fitted


def speed() -> list[list[str]]:
    """Return the times of tables of each size."""
    apolar.GaussianMixture(2).fit(np.random.default_rng(0).standard_normal((100, 2)))
    lines = []
    for n_rows, n_features, n_components, kind in SIZES:
        X = load_iris().data if n_rows == 150 else wide_clusters(n_rows, n_features, n_components)
        settings = {"covariance_type": kind, "random_state": 0}
        theirs, their_fit = timed(lambda X=X, k=n_components, s=settings: TheirMixture(k, **s).fit(X))
        ours, our_fit = timed(lambda X=X, k=n_components, s=settings: apolar.GaussianMixture(k, **s).fit(X))
        gain = our_fit.score(X) - their_fit.score(X)
        cost = our_fit.search_
        cells = [f"{n_rows:,} x {n_features}", str(n_components), kind, f"{ours:.3g}", f"{theirs:.3g}"]
        cells += [f"{ours / theirs:.1f}", f"{gain:+.3f}", f"{cost.passes:.1f} of {cost.budget:.0f}"]
        lines.append(cells)
    return lines


def main() -> None:
    """Measure all sizes."""
    header = ["rows x columns", "components", "covariance", "apolar, s", "scikit-learn, s", "ratio"]
    header += ["likelihood per row, apolar less scikit-learn", "passes of the search"]
    problems.save(
        "many",
        "Many components, many columns",
        [
            "Default fits, CPU time; the first table is iris. The likelihood is that of the rows of the fit. "
            "The passes of the search, of its budget, are passes over all rows, or those of its last part in "
            "many columns.",
            problems.table(header, speed()),
        ],
        ("numpy", "scipy", "scikit-learn"),
    )
