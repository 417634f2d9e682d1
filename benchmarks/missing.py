"""Missing values: what a pass costs, and the error of what is imputed."""

import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (needed before it can be imported)
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

import apolar
from apolar._core.threads import default_threads
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture.families import FAMILIES
from benchmarks import problems

FRACTIONS = (0.1, 0.3)
SEEDS = range(3)


def holed(X: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Return rows with values missing completely at random, and no row without any."""
    rng = np.random.default_rng([seed, int(100 * fraction)])
    missing = rng.random(X.shape) < fraction
    missing[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    return np.where(missing, np.nan, X)


def simulated(name: str, seed: int, n_rows: int = 1000, m: int = 5, r: int = 4) -> tuple[np.ndarray, ...]:
    """Return rows of a mixture of a family, and their components."""
    rng = np.random.default_rng(seed)
    labels, means = rng.integers(r, size=n_rows), 3 * rng.standard_normal((r, m))
    noise = rng.standard_normal((n_rows, m))
    if name in ("full", "tied"):
        roots = rng.standard_normal((r, m, m)) / np.sqrt(m) + 0.5 * np.eye(m)
        roots = roots if name == "full" else np.repeat(roots[:1], r, axis=0)
        noise = np.einsum("nij,nj->ni", roots[labels], noise)
    else:
        scales = rng.uniform(0.5, 1.5, (r, m))
        scales = np.repeat(scales[:1], r, axis=0) if name.startswith("tied") else scales
        scales = np.repeat(scales[:, :1], m, axis=1) if name.endswith("spherical") else scales
        noise = noise * scales[labels]
    return means[labels] + noise, labels


def passes() -> str:
    """Return a table of the time of one E-step on a million rows."""
    rows = []
    rng = np.random.default_rng(0)
    means = 3 * rng.standard_normal((5, 10))
    X = means[rng.integers(5, size=1_000_000)] + rng.standard_normal((1_000_000, 10))
    for name in ("full", "diag", "spherical"):
        times = []
        for fraction in (0.0, *FRACTIONS):
            Z = X if fraction == 0 else holed(X, fraction, 0)
            data = Problem(open_rows(Z), FAMILIES[name], threads=default_threads())
            stats = data.imputed().nearest_stats(data.whitening.transform(means))
            mixture = data.family.m_step(stats, None)[None]
            measured = []
            for _ in range(9):
                begun = time.perf_counter()
                data.e_step(mixture)
                measured.append(time.perf_counter() - begun)
            n_patterns = len(np.unique(np.isnan(Z) @ (1 << np.arange(10))))
            times.append(min(measured))
            rows.append(
                [
                    name, f"{fraction:.0%}", f"{n_patterns}", f"{1e3 * times[-1]:.0f}",
                    f"{times[-1] / times[0]:.2f}",
                ]
            )  # fmt: skip
    header = ["family", "missing", "patterns", "ms a pass", "times that of complete rows"]
    return problems.table(header, rows)


def imputers(r: int | None, seed: int) -> dict[str, Any]:
    """Return imputers by name; with r = None the number of components is chosen by BIC."""
    name = "MixtureImputer" if r else "select by BIC (1-5, full and diag), then impute"
    return {
        name: apolar.MixtureImputer(r or 1, random_state=seed),
        "MixtureImputer, one component": apolar.MixtureImputer(1, random_state=seed),
        "IterativeImputer": IterativeImputer(random_state=seed, max_iter=30),
        "KNNImputer": KNNImputer(),
        "IterativeImputer, standardised columns": Standardised(
            IterativeImputer(random_state=seed, max_iter=30)
        ),
        "KNNImputer, standardised columns": Standardised(KNNImputer()),
        "column means": SimpleImputer(),
    }


class Standardised:
    """An imputer that sees standardised columns: the units of a table must not be its handicap."""

    def __init__(self, imputer: Any) -> None:
        self.imputer = imputer

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        """Return the imputed rows, in the units of the table."""
        scaler = StandardScaler()
        return scaler.inverse_transform(self.imputer.fit_transform(scaler.fit_transform(X)))


def imputation() -> str:
    """Return a table of the errors of imputed values, in deviations of their columns, and of the times."""
    tables = {
        "mixture, full, 1000 x 5": (lambda seed: simulated("full", seed)[0], 4),
        "mixture, diag, 1000 x 5": (lambda seed: simulated("diag", seed)[0], 4),
        "iris, 150 x 4": (lambda _: apolar.datasets.load_iris().data, None),
        "wine, 178 x 13": (lambda _: load_wine().data, None),
        "olive, 572 x 8": (lambda _: apolar.datasets.load_olive().data, None),
    }
    rows = []
    for title, (make, r) in tables.items():
        for fraction in FRACTIONS:
            errors: dict[str, list[float]] = {}
            times: dict[str, list[float]] = {}
            for seed in SEEDS:
                X = make(seed)
                Z = holed(X, fraction, seed)
                missing, deviations = np.isnan(Z), np.broadcast_to(X.std(axis=0), X.shape)
                for name, imputer in imputers(r, seed).items():
                    begun = time.perf_counter()
                    if name.startswith("select"):
                        best = apolar.select(Z, range(1, 6), ("full", "diag"), random_state=seed).best
                        imputed = best.impute(Z)
                    else:
                        imputed = imputer.fit_transform(Z)
                    times.setdefault(name, []).append(time.perf_counter() - begun)
                    gaps = ((imputed - X) / deviations)[missing]
                    errors.setdefault(name, []).append(float(np.sqrt(np.mean(gaps**2))))
            for name, values in errors.items():
                seconds = f"{np.median(times[name]):.2f}"
                rows.append([title, f"{fraction:.0%}", name, f"{np.mean(values):.3f}", seconds])
    return problems.table(["table", "missing", "imputer", "root mean square error", "median s"], rows)


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [
            f"One E-step, 1,000,000 x 10, 5 components, threads: {default_threads()}, least of nine:",
            passes(),
            "Errors of imputed values, in deviations of their columns, mean of three draws of what is "
            "missing:",
            imputation(),
        ]
    problems.save(
        "missing", "Missing values, completely at random", parts, ("numpy", "scipy", "scikit-learn")
    )
