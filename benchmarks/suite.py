"""Clusterings of a benchmark suite with reference partitions: ``python -m benchmarks suite FOLDER``.

The folder has the layout of *A benchmark suite for clustering algorithms* (Gagolewski and others, 2022, doi
10.5281/zenodo.7088171): ``battery/name.data.gz``, ``name.labels0.gz``, ``name.labels1.gz``, ... The data are
not part of this repository.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from benchmarks import pool, problems

# One thread each: the pool has a process per core.
FITTERS: dict[str, Callable[[int], Any]] = {
    "apolar": lambda k: apolar.GaussianMixture(k, random_state=0, n_threads=1),
    "apolar, StudentMixture": lambda k: apolar.StudentMixture(k, random_state=0, n_threads=1),
    "apolar, spherical": lambda k: apolar.GaussianMixture(
        k, covariance_type="spherical", random_state=0, n_threads=1
    ),
    "scikit-learn": lambda k: TheirMixture(k, random_state=0),
    "scikit-learn, n_init=10": lambda k: TheirMixture(k, random_state=0, n_init=10),
    "k-means, n_init=10": lambda k: KMeans(k, random_state=0, n_init=10),
}


def index_of(labels: np.ndarray, reference: np.ndarray) -> float:
    """Return the adjusted Rand index of the rows that are not marked as noise."""
    used = reference > 0
    return float(adjusted_rand_score(reference[used], labels[used]))


def measured(path: Path) -> dict[str, Any]:
    """Return the score of each fitter on a data set: its best index, over all reference partitions."""
    X = np.loadtxt(path, ndmin=2)
    name = path.name.removesuffix(".data.gz")
    references = [np.loadtxt(each, dtype=int) for each in sorted(path.parent.glob(f"{name}.labels*.gz"))]
    scores, seconds, errors = {}, {}, []
    for fitter, model_of in FITTERS.items():
        indices, seconds[fitter] = list[float](), 0.0
        for k in sorted({int(reference.max()) for reference in references}):
            model, spent, error = pool.attempt(model_of(k), X)
            seconds[fitter] += spent
            if model is None:
                errors.append(f"{fitter}, k = {k}: {error}")
                continue
            labels = model.predict(X)
            indices += [index_of(labels, reference) for reference in references if reference.max() == k]
        scores[fitter] = max(indices, default=0.0)
    return {
        "battery": path.parent.name,
        "name": f"{name} ({X.shape[0]} x {X.shape[1]})",
        "scores": scores,
        "seconds": seconds,
        "errors": errors,
    }


def means(records: list[dict[str, Any]]) -> list[float]:
    """Return the mean score of each fitter."""
    return [float(np.mean([record["scores"][fitter] for record in records])) for fitter in FITTERS]


def main(folder: str = "") -> None:
    """Score all data sets of a folder."""
    paths = sorted(Path(folder).glob("*/*.data.gz"), key=lambda path: path.stat().st_size, reverse=True)
    if not folder or not paths:
        raise SystemExit("Name a folder with data sets: python -m benchmarks suite FOLDER.")
    records = pool.run(measured, [(path,) for path in paths])
    records.sort(key=lambda record: (record["battery"], record["name"]))
    batteries: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        batteries.setdefault(record["battery"], []).append(record)
    of_batteries = {battery: means(each) for battery, each in batteries.items()}

    def cells(values: list[float]) -> list[str]:
        return [f"{value:.3f}" for value in values]

    rows = [[name, str(len(batteries[name])), *cells(values)] for name, values in of_batteries.items()]
    overall = [float(value) for value in np.mean(list(of_batteries.values()), axis=0)]
    rows.append(["mean of batteries", str(len(records)), *cells(overall)])
    seconds = [sum(record["seconds"][fitter] for record in records) for fitter in FITTERS]
    rows.append(["seconds, all fits", "", *(f"{spent:.1f}" for spent in seconds)])
    singles = [
        [record["battery"], record["name"], *cells(list(record["scores"].values()))] for record in records
    ]
    setting = (
        f"{len(records)} data sets of *A benchmark suite for clustering algorithms* (Gagolewski and others, "
        "2022), as they are, each with the number of clusters of its reference partitions; rows that a "
        "partition marks as noise are fitted and not scored. Score: the best adjusted Rand index over the "
        "partitions. Seed 0; full covariances where nothing else is said. The folder of the data follows the "
        "name of the benchmark."
    )
    parts = [
        setting,
        "## Means of batteries\n\n" + problems.table(["battery", "data sets", *FITTERS], rows),
        "## Data sets\n\n" + problems.table(["battery", "data set (rows x columns)", *FITTERS], singles),
    ]
    if errors := [f"- {record['name']}, {words}" for record in records for words in record["errors"]]:
        parts.append("## Fits that failed\n\nThey score 0.\n\n" + "\n".join(errors))
    problems.save("suite", "A clustering suite", parts, ("numpy", "scipy", "scikit-learn"))
