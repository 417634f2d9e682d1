"""Many components and many columns: time next to scikit-learn, and how many clusters are found."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
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
# Components, columns, rows for each component, data sets.
SEARCHES = ((15, 2, 200, 10), (15, 10, 400, 10), (50, 2, 200, 10), (50, 10, 400, 5), (200, 2, 200, 3))
# The least distance of two means, in standard deviations of an average cluster, and that of a mean from the
# one that finds it.
LEAST_DISTANCE, NEAR = 5.0, 1.0
# Fits are repeated for this long.
LEAST_SECONDS = 0.3


def clusters(n_components: int, n_features: int, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of clusters of any shape whose means are apart, and these means."""
    rng = np.random.default_rng(seed)
    width = 1.6 * LEAST_DISTANCE * n_components ** (1 / n_features) if n_features == 2 else 7.0
    means: list[np.ndarray] = []
    while len(means) < n_components:
        mean = rng.uniform(0, width, n_features)
        if all(np.linalg.norm(mean - other) >= LEAST_DISTANCE for other in means):
            means.append(mean)
    weights = rng.dirichlet(np.full(n_components, 8.0))
    labels = rng.choice(n_components, n_rows, p=weights)
    X = np.empty((n_rows, n_features))
    for k, mean in enumerate(means):
        axes = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
        roots = axes * np.exp(rng.uniform(-0.5, 0.5, n_features))
        members = np.flatnonzero(labels == k)
        X[members] = mean + rng.standard_normal((len(members), n_features)) @ roots
    return X, np.array(means)


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


def found() -> list[list[str]]:
    """Return in how many data sets all clusters were found."""
    lines = []
    for n_components, n_features, n_each, n_sets in SEARCHES:
        n_all, spent = np.zeros((2, n_sets)), np.zeros((2, n_sets))
        for seed in range(n_sets):
            X, means = clusters(n_components, n_features, n_each * n_components, seed)
            makers = (
                lambda s=seed, k=n_components: apolar.GaussianMixture(k, random_state=s),
                lambda s=seed, k=n_components: TheirMixture(k, random_state=s, n_init=10),
            )
            for i, make in enumerate(makers):
                spent[i, seed], fitted = timed(lambda make=make, X=X: make().fit(X))
                n_all[i, seed] = np.mean(cdist(means, fitted.means_).min(axis=1) < NEAR)
        cells = [f"{int(np.sum(each == 1))} of {n_sets}, {100 * each.mean():.1f}%" for each in n_all]
        times = [f"{each.mean():.2f}" for each in spent]
        lines.append([str(n_components), str(n_features), f"{n_each * n_components:,}", *cells, *times])
    return lines


def main() -> None:
    """Measure both."""
    header = ["rows x columns", "components", "covariance", "apolar, s", "scikit-learn, s", "ratio"]
    header += ["likelihood per row, apolar less scikit-learn", "passes of the search"]
    others = ["components", "columns", "rows", "apolar finds all; share", "scikit-learn, n_init=10"]
    others += ["apolar, s", "scikit-learn, s"]
    problems.save(
        "many",
        "Many components, many columns",
        [
            "Default fits, CPU time; the first table is iris. The likelihood is that of the rows of the fit. "
            "The passes of the search, of its budget, are passes over all rows, or those of its last part in "
            "many columns.",
            problems.table(header, speed()),
            f"Clusters of any shape, their means at least {LEAST_DISTANCE:g} standard deviations apart; one "
            f"is found if a mean is within {NEAR:g} of its own. Full covariances.",
            problems.table(others, found()),
        ],
        ("numpy", "scipy", "scikit-learn"),
    )
