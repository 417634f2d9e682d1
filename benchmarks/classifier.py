"""A mixture for each class beside LDA, QDA and naive Bayes of scikit-learn, and MclustDA of R.

``python -m benchmarks.classifier --help`` has parts of it.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

import apolar
from apolar.classification import class_mixtures
from benchmarks import problems

SEEDS = range(2)
OTHER_SEEDS = (10, 11)
N_FOLDS = 5
# MclustDA is given up after so many seconds for all folds of a seed.
PATIENCE = 300
LIMIT_NOTE = (
    "That a component has two rows for each column was decided after a first run on these folds, in which "
    "the error of `MixtureClassifier()` on wine was 25.6%. With and without this limit, on other folds:"
)
R_TABLES = """
suppressMessages(library(mclust)); folder <- commandArgs(TRUE)[1]
data(banknote); data(thyroid); data(diabetes)
tables <- list(banknote = banknote[, c(2:7, 1)], thyroid = thyroid[, c(2:6, 1)],
  diabetes = diabetes[, c(2:4, 1)])
for (name in names(tables))
  write.csv(tables[[name]], file.path(folder, paste0(name, ".csv")), row.names = FALSE, quote = FALSE)
"""
# The table has the columns, the class, and the fold of each row.
R_FOLDS = """
suppressMessages(library(mclust)); args <- commandArgs(TRUE)
table <- read.csv(args[1]); m <- ncol(table) - 2
X <- as.matrix(table[, 1:m]); y <- table[, m + 1]; fold <- table[, m + 2]; wrong <- 0
seconds <- system.time(for (f in unique(fold)) {
  fit <- MclustDA(X[fold != f, ], y[fold != f], modelType = args[2], verbose = FALSE)
  found <- predict(fit, X[fold == f, ])$classification
  wrong <- wrong + sum(as.character(found) != as.character(y[fold == f]))
})[["elapsed"]]
cat(sprintf('{"wrong": %d, "seconds": %.3f}', as.integer(wrong), seconds))
"""


def tables(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the tables by name, each with its classes; those of mclust if R is installed."""
    found = {}
    for name in ("iris", "olive"):
        loaded = getattr(apolar.datasets, f"load_{name}")()
        found[name] = np.asarray(loaded.data, dtype=float), np.asarray(loaded.target)
    wine, cancer = datasets.load_wine(), datasets.load_breast_cancer()
    found["wine"] = wine.data, wine.target
    # Of thirty columns, all families of all numbers of components take minutes, here and in R.
    reduced = PCA(10, random_state=0).fit_transform(StandardScaler().fit_transform(cancer.data))
    found["breast cancer, 10 principal components"] = reduced, cancer.target
    if shutil.which("Rscript"):
        subprocess.run(["Rscript", "-e", R_TABLES, str(folder)], check=True, capture_output=True)
        for path in sorted(folder.glob("*.csv")):
            text = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str)
            found[path.stem] = text[:, :-1].astype(float), np.unique(text[:, -1], return_inverse=True)[1]
    return found


def classifiers(seed: int) -> dict[str, Any]:
    """Return classifiers by name."""
    ours = apolar.MixtureClassifier
    return {
        "MixtureClassifier()": ours(random_state=seed),
        "MixtureClassifier(shared=True)": ours(shared=True, random_state=seed),
        "MixtureClassifier(shared=True, covariance_type='full', prior='default')": ours(
            shared=True, covariance_type="full", prior="default", random_state=seed
        ),
        "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
        "QuadraticDiscriminantAnalysis": QuadraticDiscriminantAnalysis(),
        "GaussianNB": GaussianNB(),
    }


def folds(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Return the fold of each row."""
    out = np.zeros(len(y), dtype=int)
    splitter = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    for fold, (_, test) in enumerate(splitter.split(X, y)):
        out[test] = fold
    return out


def error_rate(classifier: Any, X: np.ndarray, y: np.ndarray, fold: np.ndarray) -> float:
    """Return the error rate over all folds; NaN if a fit fails."""
    wrong = 0
    for left_out in range(N_FOLDS):
        try:
            fitted = classifier.fit(X[fold != left_out], y[fold != left_out])
        except ValueError:  # LinAlgError is one
            return np.nan
        wrong += np.sum(fitted.predict(X[fold == left_out]) != y[fold == left_out])
    return wrong / len(y)


def in_r(X: np.ndarray, y: np.ndarray, fold: np.ndarray, kind: str, folder: Path) -> tuple[float, float]:
    """Return the error rate of MclustDA over all folds, and its seconds; NaN if it fails."""
    path = folder / "rows.csv"
    head = ",".join([*(f"x{k}" for k in range(X.shape[1])), "y", "fold"])
    np.savetxt(path, np.column_stack([X, y, fold]), delimiter=",", header=head, comments="", fmt="%.17g")
    try:
        done = subprocess.run(
            ["Rscript", "-e", R_FOLDS, str(path), kind],
            check=True, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return np.nan, np.nan
    answer = json.loads(done.stdout)
    return answer["wrong"] / len(y), answer["seconds"]


def compared(only: list[str]) -> str:
    """Return a table of cross-validated errors and times."""
    rows = []
    with tempfile.TemporaryDirectory() as there:
        folder = Path(there)
        for title, (X, y) in tables(folder).items():
            if only and not any(title.startswith(name) for name in only):
                continue
            errors: dict[str, list[float]] = {}
            times: dict[str, list[float]] = {}
            for seed in SEEDS:
                fold = folds(X, y, seed)
                for name, classifier in classifiers(seed).items():
                    begun = time.perf_counter()
                    errors.setdefault(name, []).append(error_rate(classifier, X, y, fold))
                    times.setdefault(name, []).append(time.perf_counter() - begun)
                for kind in ("MclustDA", "EDDA") if shutil.which("Rscript") else ():
                    error, seconds = in_r(X, y, fold, kind, folder)
                    errors.setdefault(f"R: {kind}", []).append(error)
                    times.setdefault(f"R: {kind}", []).append(seconds)
            size = f"{title}, {len(X)} x {X.shape[1]}, {len(np.unique(y))} classes"
            for name, values in errors.items():
                cells = [f"{100 * np.mean(values):.1f}", f"{np.median(times[name]) / N_FOLDS:.3f}"]
                rows.append([size, name, *("failed" if cell == "nan" else cell for cell in cells)])
                print(*rows[-1], sep=" | ", flush=True)
    return problems.table(["table", "classifier", "error, %", "s per fit and prediction"], rows)


def limited() -> str:
    """Return a table of errors with and without the limit on components by columns, on other folds."""
    rows = []
    usual = class_mixtures.ROWS_PER_COLUMN
    with tempfile.TemporaryDirectory() as there:
        found = tables(Path(there))
    for title in ("wine", "banknote", "diabetes", "thyroid"):
        if title not in found:
            continue
        X, y = found[title]
        cells = []
        for class_mixtures.ROWS_PER_COLUMN in (usual, 0):
            errors = [
                error_rate(apolar.MixtureClassifier(random_state=seed), X, y, folds(X, y, seed))
                for seed in OTHER_SEEDS
            ]
            cells.append(f"{100 * np.mean(errors):.1f}")
        rows.append([title, *cells])
    class_mixtures.ROWS_PER_COLUMN = usual
    return problems.table(["table", "error with the limit, %", "without, %"], rows)


def main(only: list[str] | None = None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [
            f"Cross-validated error, {N_FOLDS} folds, the mean of {len(SEEDS)} draws of the folds; the time "
            "is that of one fold, the median of the draws. MclustDA of R's mclust with its defaults.",
            compared(only or []),
            LIMIT_NOTE,
            limited(),
        ]
    problems.save("classifier", "A mixture for each class", parts, ("numpy", "scipy", "scikit-learn"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", help="the beginnings of their names; all by default")
    main(parser.parse_args().tables)
