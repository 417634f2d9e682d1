"""One Gaussian, and clusters beside one wrong entry: how often `select` and fits are right."""

import json
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from benchmarks import problems

SHAPES = ((5, 3), (20, 3), (30, 2), (30, 3), (50, 3), (40, 6), (60, 6), (50, 10), (100, 10))
SEEDS = range(36)
ENTRIES = (1e3, 1e4, 1e5, 1e6, 1e7)
BAD_SEEDS = range(5)
RIGHT = [1, 99, 100, 100]
R_NUMBERS = """
suppressMessages(library(mclust)); folder <- commandArgs(TRUE)[1]
n <- sapply(list.files(folder, full.names = TRUE), function(path) {
  best <- Mclust(as.matrix(read.csv(path, header = FALSE)), verbose = FALSE)
  if (is.null(best)) NA else best$G })
cat("[", paste(ifelse(is.na(n), "null", n), collapse = ","), "]")
"""


def numbers_of_mclust(tables: list[np.ndarray]) -> list[int | None] | None:
    """Return the number of components that `Mclust` chooses for each table; None without R."""
    if not shutil.which("Rscript"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        for i, X in enumerate(tables):
            np.savetxt(Path(folder) / f"{i:04}.csv", X, delimiter=",")
        done = subprocess.run(
            ["Rscript", "-e", R_NUMBERS, folder], check=True, capture_output=True, text=True
        )
    return json.loads(done.stdout)


def single_gaussians() -> list[list[str]]:
    """Count the tables of one Gaussian in which one component is chosen."""
    lines = []
    for n_samples, n_features in SHAPES:
        tables = [np.random.default_rng(s).standard_normal((n_samples, n_features)) for s in SEEDS]
        chosen = [apolar.select(X, random_state=0).best.n_components for X in tables]
        theirs = numbers_of_mclust(tables)
        line = [f"{n_samples} x {n_features}", str(chosen.count(1))]
        lines.append([*line, "-" if theirs is None else str(theirs.count(1)), str(len(tables))])
    return lines


def with_wrong_entry(seed: int, size: float, *, is_row: bool) -> np.ndarray:
    """Return three clusters of 100 rows, 8 standard deviations apart, with a wrong row or cell."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(centre, 1, (100, 3)) for centre in (0, 8, -8)])
    X[0, slice(None) if is_row else 1] = size
    return X


def wrong_entries() -> list[list[str]]:
    """Count the tables in which the clusters, and the wrong row by itself, are found."""
    lines = []
    for is_row in (True, False):
        for size in ENTRIES:
            tables = [with_wrong_entry(seed, size, is_row=is_row) for seed in BAD_SEEDS]
            fits = {
                "full": lambda X: apolar.GaussianMixture(4, random_state=0).fit_predict(X),
                "tied": lambda X: apolar.GaussianMixture(
                    4, covariance_type="tied", random_state=0
                ).fit_predict(X),
                "select": lambda X: apolar.select(X, random_state=0).best.predict(X),
                "scikit-learn": lambda X: TheirMixture(4, random_state=0).fit_predict(X),
            }
            right = [sum(sorted(np.bincount(fit(X))) == RIGHT for X in tables) for fit in fits.values()]
            lines.append(["row" if is_row else "cell", f"{size:.0e}", *map(str, right), str(len(tables))])
    return lines


def main() -> None:
    """Measure both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single, wrong = single_gaussians(), wrong_entries()
    problems.save(
        "single_gaussian",
        "One Gaussian, and one wrong entry",
        [
            "How often one component is chosen for one standard Gaussian, by `select` and by `Mclust` "
            "(mclust 6.0.0), each with all families and up to nine components.\n\n"
            + problems.table(["rows x columns", "select", "Mclust", "of"], single),
            "How often three clusters of 100 rows, and the row with a wrong entry by itself, are found: by "
            "default fits of four components, and by `select`.\n\n"
            + problems.table(["wrong", "entry", "full", "tied", "select", "scikit-learn full", "of"], wrong),
        ],
        ("numpy", "scipy", "scikit-learn"),
    )
