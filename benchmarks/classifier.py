"""A mixture for each class beside LDA, QDA and naive Bayes of scikit-learn, and MclustDA of R.

``python -m benchmarks.classifier --help`` has parts of it. Tables of a folder, such as those of KEEL, are
files ``name.npz`` with arrays ``X`` and ``y``.
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
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

import apolar
from benchmarks import problems

SEEDS = range(2)
N_FOLDS = 5
# MclustDA is given up after so many seconds for all folds of a seed.
PATIENCE = 300
# Few rows: so many draws of them, of so many rows per class or column, tested on at most so many others.
DRAWS = 8
SIZES = {"3 per class": (3, 0), "1 per column": (0, 1), "5 per column": (0, 5)}
MAX_TESTED = 1500
MAX_ROWS = 800
REFERENCES = ("LinearDiscriminantAnalysis", "larger class")
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
        "MixtureClassifier(shared=False, criterion='bic')": ours(
            shared=False, criterion="bic", random_state=seed
        ),
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


def few_row_tables(folder: Path | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return tables by name, in alphabetical order: bundled ones, and those of a folder."""
    found = {}
    for name in ("iris", "wine", "breast_cancer", "digits"):
        loaded = getattr(datasets, f"load_{name}")()
        found[name] = loaded.data, loaded.target
    for name in ("olive", "diabetes"):
        loaded = getattr(apolar.datasets, f"load_{name}")()
        found[name] = np.asarray(loaded.data, dtype=float), np.asarray(loaded.target)
    for path in sorted(folder.glob("*.npz")) if folder else ():
        with np.load(path) as file:
            found[path.stem] = file["X"], file["y"]
    return {name: (X, np.unique(y, return_inverse=True)[1]) for name, (X, y) in sorted(found.items())}


def drawn(y: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to fit, in proportion to the classes, and rows to test."""
    rng = np.random.default_rng(seed)
    counts = np.bincount(y)
    wanted = np.minimum(np.maximum(2, np.round(size * counts / len(y)).astype(int)), counts - 1)
    fitted = np.concatenate(
        [rng.choice(np.flatnonzero(y == code), count, replace=False) for code, count in enumerate(wanted)]
    )
    others = np.setdiff1d(np.arange(len(y)), fitted)
    return fitted, rng.permutation(others)[:MAX_TESTED]


def few_row_classifiers(seed: int) -> dict[str, Any]:
    """Return classifiers by name."""
    ours = apolar.MixtureClassifier
    return {
        "MixtureClassifier()": ours(random_state=seed),
        "MixtureClassifier(shared=True)": ours(shared=True, random_state=seed),
        "MixtureClassifier(shared=True, covariance_type='full', prior='default')": ours(
            shared=True, covariance_type="full", prior="default", random_state=seed
        ),
        "MixtureClassifier(shared=True, covariance_type='tied')": ours(
            shared=True, covariance_type="tied", random_state=seed
        ),
        "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
        "LinearDiscriminantAnalysis(shrinkage='auto')": LinearDiscriminantAnalysis(
            solver="lsqr", shrinkage="auto"
        ),
        "larger class": DummyClassifier(),
    }


def few_row_errors(X: np.ndarray, y: np.ndarray, size: int) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return the errors of each classifier in each draw, and the seconds of its fits in the median."""
    errors: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    for seed in range(DRAWS):
        fitted, tested = drawn(y, size, seed)
        for name, classifier in few_row_classifiers(seed).items():
            begun = time.perf_counter()
            try:
                wrong = classifier.fit(X[fitted], y[fitted]).predict(X[tested]) != y[tested]
            except (ValueError, IndexError):  # LDA of scikit-learn, with constant columns
                wrong = np.ones(1)
            times.setdefault(name, []).append(time.perf_counter() - begun)
            errors.setdefault(name, []).append(float(np.mean(wrong)))
    return {name: np.array(value) for name, value in errors.items()}, {
        name: float(np.median(value)) for name, value in times.items()
    }


def few_rows(folder: Path | None, half: int | None) -> list[str]:
    """Return tables of errors with few rows, of each bundled table and by size."""
    found = few_row_tables(folder)
    cells: dict[tuple[str, str], tuple[dict[str, np.ndarray], dict[str, float]]] = {}
    chosen = list(found) if half is None else list(found)[half::2]
    for name in chosen:
        X, y = found[name]
        seen: set[int] = set()
        for title, (per_class, per_column) in SIZES.items():
            size = max(3 * (y.max() + 1), per_class * (y.max() + 1), per_column * X.shape[1])
            # In proportion, with at least two rows of each class.
            size = max(size, int(np.ceil(1.5 * len(y) / np.bincount(y).min())))
            if size in seen or size > min(0.7 * len(y), MAX_ROWS):
                continue
            seen.add(size)
            cells[name, title] = few_row_errors(X, y, size)
            errors = cells[name, title][0]
            print(name, title, size, *(f"{100 * value.mean():.1f}" for value in errors.values()), flush=True)
    every = list(few_row_classifiers(0))
    rows = []
    for title in (*SIZES, "all"):
        of_size = [value for (_, size), value in cells.items() if title in (size, "all")]
        for name in every if of_size else ():
            excess, above = [], 0
            for errors, _ in of_size:
                better = min((errors[other] for other in REFERENCES), key=np.mean)
                excess.append(np.mean(errors[name] - better))
                above += excess[-1] > np.std(errors[name] - better, ddof=1) / np.sqrt(DRAWS) + 1e-12
            mean = np.mean([errors[name].mean() for errors, _ in of_size])
            seconds = np.median([times[name] for _, times in of_size])
            rows.append(
                [title, f"{len(of_size)}", name, f"{100 * mean:.1f}", f"{100 * np.mean(excess):+.1f}",
                 f"{above}", f"{100 * max(excess):.1f}", f"{seconds:.3f}"]
            )  # fmt: skip
    heads = [
        "rows", "tables", "classifier", "error, %", "less that of the better of LDA and the larger class",
        "tables above it by more than a standard error", "most above, %", "s",
    ]  # fmt: skip
    return [problems.table(heads, rows)]


def main(only: list[str] | None = None, folder: Path | None = None, half: int | None = None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = [] if only else few_rows(folder, half)
        parts = [
            f"Cross-validated error, {N_FOLDS} folds, the mean of {len(SEEDS)} draws of the folds; the time "
            "is that of one fold, the median of the draws. MclustDA of R's mclust with its defaults.",
            compared(only or []),
            f"With few rows, {DRAWS} draws of each size; all others are tested, at most {MAX_TESTED}.",
            *few,
        ]
    problems.save("classifier", "A mixture for each class", parts, ("numpy", "scipy", "scikit-learn"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", help="the beginnings of their names; all by default")
    parser.add_argument("--folder", type=Path, help="further tables, with few rows only")
    parser.add_argument("--half", type=int, choices=(0, 1), help="every second table, with few rows")
    given = parser.parse_args()
    main(given.tables, given.folder, given.half)
