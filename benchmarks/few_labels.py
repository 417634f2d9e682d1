"""Few labelled rows per class: MixtureClassifier compared with discriminant analysis.

    python -m benchmarks.few_labels [-o FILE] [--draws N]

From each table 2, 3, 5 and 10 rows per class are drawn, classes are learned from them, with and without the
other rows, and predicted for these.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

import apolar

NUMBERS = (2, 3, 5, 10)
METHODS: dict[str, Callable[[], Any]] = {
    "LDA": LinearDiscriminantAnalysis,
    "QDA": QuadraticDiscriminantAnalysis,
    "apolar": lambda: apolar.MixtureClassifier(random_state=0),
}


def tables() -> dict[str, tuple[Any, Any]]:
    """Return the tables: rows and classes by name."""
    diabetes = apolar.datasets.load_diabetes()
    loaded = {
        "iris": datasets.load_iris(return_X_y=True),
        "wine": datasets.load_wine(return_X_y=True),
        "breast cancer": datasets.load_breast_cancer(return_X_y=True),
        "diabetes": (diabetes.data, diabetes.target),
        "digits": datasets.load_digits(return_X_y=True),
    }
    return {
        name: (np.asarray(X, float), np.unique(y, return_inverse=True)[1]) for name, (X, y) in loaded.items()
    }


def errors(X: Any, y: Any, n_labelled: int, seed: int) -> dict[str, float]:
    """Return the error of each method on the rows that are not drawn."""
    rng = np.random.default_rng(seed)
    drawn = np.concatenate(
        [rng.choice(np.flatnonzero(y == c), n_labelled, replace=False) for c in np.unique(y)]
    )
    others = np.setdiff1d(np.arange(len(y)), drawn)
    found = {
        name: _error(method(), X[drawn], y[drawn], X[others], y[others]) for name, method in METHODS.items()
    }
    partly = np.full(len(y), -1)
    partly[drawn] = y[drawn]
    found["apolar, all rows"] = _error(METHODS["apolar"](), X, partly, X[others], y[others])
    return found


def _error(model: Any, rows: Any, classes: Any, X: Any, y: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(np.mean(model.fit(rows, classes).predict(X) != y))
        except (ValueError, np.linalg.LinAlgError):
            # Too few rows for a method: it has no answer.
            return 1 - 1 / len(np.unique(y))


def main(arguments: list[str]) -> None:
    """Print the table of mean errors, or write it."""
    parser = argparse.ArgumentParser(prog="benchmarks.few_labels", description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--tables", nargs="*")
    options = parser.parse_args(arguments)
    names = [*METHODS, "apolar, all rows"]
    lines = [f"| table | rows per class | {' | '.join(names)} | seconds |", "|---" * (len(names) + 3) + "|"]
    for table, (X, y) in tables().items():
        if options.tables and table not in options.tables:
            continue
        for n_labelled in NUMBERS:
            begun = time.process_time()
            each = [errors(X, y, n_labelled, seed) for seed in range(options.draws)]
            means = [float(np.mean([one[name] for one in each])) for name in names]
            cells = " | ".join(f"{mean:.3f}" for mean in means)
            lines.append(
                f"| {table} | {n_labelled} | {cells} | {(time.process_time() - begun) / options.draws:.1f} |"
            )
            print(lines[-1], flush=True)
    text = (
        f"# Few labels\n\nMean errors over {options.draws} draws of labelled rows, on the other rows. "
        f"apolar {apolar.__version__}.\n\n" + "\n".join(lines) + "\n"
    )
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
