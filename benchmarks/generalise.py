"""Tables whose classes are known: are they found, do the fits hold for new rows, and do seeds agree?

``python -m benchmarks.generalise --help`` has parts of it.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as TheirMixture
from sklearn.model_selection import KFold

import apolar
from benchmarks import pool, problems

N_FOLDS = 5
SEEDS = (0, 1, 2, 3, 4)
SCALINGS = ("raw", "standardised")
# Partitions with a larger adjusted Rand index are the same.
SAME_PARTITION = 0.999
# Differences that the tables do not show are ties.
TIE = 0.0005

# Means and covariances (upper triangles) of genuine and counterfeit Swiss bank notes, in mm: length, left and
# right height, lower and upper margin, diagonal. From Flury and Riedwyl (1988), Multivariate Statistics.
BANKNOTES = {
    "genuine": (
        (214.969, 129.943, 129.720, 8.305, 10.168, 141.517),
        (
            (0.150, 0.058, 0.057, 0.057, 0.014, 0.005),
            (0.133, 0.086, 0.057, 0.049, -0.043),
            (0.126, 0.058, 0.031, -0.024),
            (0.413, -0.263, 0.000),
            (0.421, -0.075),
            (0.200,),
        ),
    ),
    "counterfeit": (
        (214.823, 130.300, 130.193, 10.530, 11.133, 139.450),
        (
            (0.124, 0.032, 0.024, -0.101, 0.019, 0.012),
            (0.065, 0.047, -0.024, -0.012, -0.005),
            (0.089, -0.019, 0.000, 0.034),
            (1.281, -0.490, 0.238),
            (0.404, -0.022),
            (0.311,),
        ),
    ),
}


def banknotes(n_each: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows drawn from the published means and covariances, rounded to 0.1 mm, and their classes."""
    rng = np.random.default_rng(seed)
    rows = []
    for mean, triangle in BANKNOTES.values():
        upper = np.zeros((len(mean), len(mean)))
        upper[np.triu_indices(len(mean))] = np.concatenate(triangle)
        covariance = upper + np.triu(upper, 1).T
        rows.append(rng.multivariate_normal(mean, covariance, n_each, method="cholesky"))
    return np.concatenate(rows).round(1), np.repeat(np.arange(len(rows)), n_each)


def digits(n_components: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's digits, all pixels that vary or principal components, and their classes."""
    X, classes = datasets.load_digits(return_X_y=True)
    X = X[:, np.ptp(X, axis=0) > 0]
    if n_components is not None:
        X = PCA(n_components, svd_solver="full").fit_transform(X)
    return X, classes


def bundled(loaded: Any) -> tuple[np.ndarray, np.ndarray]:
    return loaded.data, loaded.target


# The longest first: they are then not what a pool of processes waits for at the end.
TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "digits": lambda: digits(None),
    "digits-20": lambda: digits(20),
    "breast-cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "olive": lambda: bundled(apolar.datasets.load_olive()),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "diabetes": lambda: bundled(apolar.datasets.load_diabetes()),
    "banknote-like": banknotes,
}


# One thread each: the pool has a process per core.
FITTERS: dict[str, Callable[[int, int], Any]] = {
    "scikit-learn": lambda k, seed: TheirMixture(k, random_state=seed),
    "scikit-learn, n_init=10": lambda k, seed: TheirMixture(k, random_state=seed, n_init=10),
    "apolar": lambda k, seed: apolar.GaussianMixture(k, random_state=seed, n_threads=1),
    "apolar, StudentMixture": lambda k, seed: apolar.StudentMixture(k, random_state=seed, n_threads=1),
}
THEIRS, THEIRS_10, OURS, STUDENT = FITTERS


def folds_of(X: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows that are fitted and those that are held out, for each fold.

    Rows that differ in a column that is constant in the rows to be fitted are not held out: their density is
    zero or whatever the floor of the variance makes it, and one of them would outweigh all other rows.
    """
    folds = []
    for train, test in KFold(N_FOLDS, shuffle=True, random_state=seed).split(X):
        constant = np.ptp(X[train], axis=0) == 0
        folds.append((train, test[(X[test][:, constant] == X[train[0], constant]).all(axis=1)]))
    return folds


def measured(table: str, scaling: str, seed: int) -> dict[str, Any]:
    """Return what each fitter makes of a table, with all of its rows and by cross-validation."""
    X, classes = TABLES[table]()
    if scaling == "standardised":
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    n_components = len(np.unique(classes))
    folds = folds_of(X, seed)
    fits = {}
    for name, fitter in FITTERS.items():
        model, seconds, error = pool.attempt(fitter(n_components, seed), X)
        labels = None if model is None else model.predict(X)
        errors, held_out = [error], []
        for train, test in folds:
            model, spent, error = pool.attempt(fitter(n_components, seed), X[train])
            score = np.nan if model is None else float(model.score(X[test]))
            if model is not None and not np.isfinite(score):
                error = f"held-out log-likelihood {score}"
            held_out.append(score * len(test) if np.isfinite(score) else None)
            errors.append(error)
            seconds += spent
        fits[name] = {
            "ari": None if labels is None else float(adjusted_rand_score(classes, labels)),
            "labels": None if labels is None else labels.tolist(),
            "held_out": held_out,
            "errors": [words for words in errors if words],
            "seconds": seconds / (1 + N_FOLDS),
        }
    return {
        "table": table,
        "scaling": scaling,
        "seed": seed,
        "shape": [*X.shape, n_components],
        "fold_sizes": [len(test) for _, test in folds],
        "fits": fits,
    }


class Case:
    """A table in one scaling, with the records of all seeds."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.records = records
        first = records[0]
        n_samples, n_features, n_components = first["shape"]
        self.name = f"{first['table']}, {first['scaling']}"
        self.label = f"{self.name} ({n_samples} x {n_features}, {n_components})"

    def each(self, fitter: str, key: str) -> list[Any]:
        """Return a value of a fitter's, for each seed."""
        return [record["fits"][fitter][key] for record in self.records]

    def ari(self, fitter: str) -> float:
        """Return the mean adjusted Rand index with the classes; NaN where no fit was possible."""
        found = [value for value in self.each(fitter, "ari") if value is not None]
        return float(np.mean(found)) if found else np.nan

    def held_out(self, fitter: str, also: str | None = None) -> float:
        """Return the mean held-out log-likelihood per row, of folds that it (`also` another) could fit."""
        values = np.array(self.each(fitter, "held_out"), dtype=float)
        sizes = np.array([record["fold_sizes"] for record in self.records], dtype=float)
        used = np.isfinite(values)
        if also is not None:
            used &= np.isfinite(np.array(self.each(also, "held_out"), dtype=float))
        return float(values[used].sum() / sizes[used].sum()) if used.any() else np.nan

    def n_partitions(self, fitter: str) -> int:
        """Return how many different partitions the seeds lead to; a fit that failed is one of its own."""
        n_failed, different = 0, []
        for labels in self.each(fitter, "labels"):
            if labels is None:
                n_failed += 1
            elif all(adjusted_rand_score(labels, other) <= SAME_PARTITION for other in different):
                different.append(labels)
        return len(different) + n_failed

    def seconds(self, fitter: str) -> float:
        """Return the mean time of a fit."""
        return float(np.mean(self.each(fitter, "seconds")))

    def errors(self, fitter: str) -> list[str]:
        """Return the words of the fits that failed."""
        return [words for errors in self.each(fitter, "errors") for words in errors]

    def ari_deficit(self, other: str) -> float:
        """Return by how much our default has a lower adjusted Rand index; NaN if one of them failed."""
        return self.ari(other) - self.ari(OURS)

    def held_out_deficit(self, other: str) -> float:
        """Return by how much our default has a lower held-out log-likelihood, on the folds of both."""
        return self.held_out(other, OURS) - self.held_out(OURS, other)


def cases(records: list[dict[str, Any]]) -> list[Case]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in sorted(records, key=lambda record: record["seed"]):
        groups.setdefault((record["table"], record["scaling"]), []).append(record)
    order = [(table, scaling) for table in TABLES for scaling in SCALINGS]
    return [Case(groups[key]) for key in order if key in groups]


def number(value: float) -> str:
    if not np.isfinite(value):
        return "-"
    return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.3g}"


def summary(studied: list[Case]) -> str:
    """Return on how many tables our default is at or above the others, and how far below it falls."""

    def compared(title: str, deficit: Callable[[Case, str], float], names: str, *others: str) -> str:
        # What the other one could not fit is NaN, and no deficit; what ours could not is one without bound.
        below = {case.name: max(np.nan_to_num(deficit(case, other)) for other in others) for case in studied}
        below |= {case.name: np.inf for case in studied if case.errors(OURS)}
        count = sum(value <= TIE for value in below.values())
        worst = sorted((name for name in below if below[name] > TIE), key=lambda name: -below[name])[:3]
        deficits = ", ".join(f"{number(below[name])} ({name})" for name in worst) or "none"
        return f"- {title} at or above {names}: {count} of {len(studied)}. Largest deficits: {deficits}."

    peers = {name: (name,) for name in (THEIRS, THEIRS_10, STUDENT)}
    peers |= {"both of scikit-learn": (THEIRS, THEIRS_10), "all three": (THEIRS, THEIRS_10, STUDENT)}
    lines = [
        compared(title, deficit, names, *others)
        for title, deficit in (
            ("Held-out log-likelihood per row", Case.held_out_deficit),
            ("Adjusted Rand index", Case.ari_deficit),
        )
        for names, others in peers.items()
    ]
    agree = [f"{name}: {sum(case.n_partitions(name) == 1 for case in studied)}" for name in FITTERS]
    lines.append(f"- All seeds lead to one partition, of {len(studied)}: {'; '.join(agree)}.")
    return "\n".join(lines)


def parts(records: list[dict[str, Any]]) -> list[str]:
    """Return the sections of the report."""
    studied = cases(records)
    seeds = sorted({record["seed"] for record in records})
    setting = (
        f"Full covariances, one component per class, {len(seeds)} seeds. Table (rows x columns, "
        "classes), as it is or with columns of mean 0 and deviation 1; digits are the pixels that vary, "
        "digits-20 their first principal components; the bank notes are drawn from published means and "
        f"covariances. Held-out: mean log-likelihood per row by {N_FOLDS}-fold cross-validation, another "
        "split for each seed; rows that differ where the rows of the fit are constant are left out. `apolar` "
        "is the default fit."
    )

    def measure(title: str, cell: Callable[[Case, str], str], names: Sequence[str] = tuple(FITTERS)) -> str:
        rows = [[case.label, *(cell(case, name) for name in names)] for case in studied]
        return f"## {title}\n\n" + problems.table(["table", *names], rows)

    def held_out(case: Case, name: str) -> str:
        return number(case.held_out(name)) + ("*" if case.errors(name) else "")

    sections = [
        setting,
        "## Summary\n\nThe default fit, over tables in each scaling; two fits are compared on the folds that "
        f"both could fit, and differences up to {TIE} are ties.\n\n" + summary(studied),
        measure("Adjusted Rand index with the classes, mean of the seeds", lambda c, f: number(c.ari(f))),
        measure("Held-out log-likelihood per row", held_out),
        measure("Different partitions over the seeds", lambda c, f: str(c.n_partitions(f))),
        measure(
            "Time of a fit, relative to scikit-learn",
            lambda c, f: f"{c.seconds(f) / c.seconds(THEIRS):.1f}",
            list(FITTERS)[1:],
        ),
    ]
    notes = []
    for case in studied:
        for name in FITTERS:
            if errors := case.errors(name):
                n_fits = len(case.records) * (1 + N_FOLDS)
                notes.append(f"- {case.name}, {name}: {len(errors)} of {n_fits} fits failed; {errors[0]}")
    if notes:
        sections.append("\\* Without the folds where the fit failed:\n\n" + "\n".join(notes))
    return sections


def main() -> None:
    """Measure all tables; with ``--tables``, some of them, without saving."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES)
    options, _ = parser.parse_known_args()
    tasks = [
        (table, scaling, seed) for table in options.tables or TABLES for scaling in SCALINGS for seed in SEEDS
    ]
    report = parts(pool.run(measured, tasks))
    if options.tables:
        print("\n\n".join(report))
    else:
        problems.save(
            "generalise", "Tables whose classes are known", report, ("numpy", "scipy", "scikit-learn")
        )


if __name__ == "__main__":
    # Functions of this module under its own name can be sent to other processes.
    from benchmarks import generalise

    generalise.main()
