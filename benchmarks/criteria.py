"""Which criterion chooses the true number of components, and the true family?

``python -m benchmarks.criteria --help`` has parts of it, and files of its records.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

import apolar
from apolar.scores import CRITERIA, criterion_title
from apolar.selection import Row, Selection
from benchmarks import generalise, pool, problems, random_mixtures

N_EACH = 17
# Candidates of random mixtures, which have 2 to 8 components.
NUMBERS = range(1, 10)
# The longest first.
TABLES = ("breast-cancer", "olive", "wine", "diabetes", "iris", "banknote-like")
TABLE_NUMBERS = range(1, 11)
TABLE_FAMILIES = ("spherical", "diag", "tied", "full")


def chosen(selection: Selection, criterion: str) -> Row:
    """Return the candidate that a criterion prefers: one set of fits is enough for all criteria."""
    rows = [row for row in selection.table if row.failed is None]
    return min(rows, key=lambda row: (getattr(row, criterion), row.n_parameters))


def of_mixture(family: str, index: int) -> dict[str, Any]:
    """Return what each criterion chooses for the rows of a random mixture."""
    truth, separation, n_samples, rng = random_mixtures.drawn(family, index)
    X, labels = truth.sample(n_samples, rng)
    k = len(truth.weights)
    # One thread each: the pool has a process per core.
    by_number = apolar.select(X, NUMBERS, family, random_state=0, n_threads=1)
    by_family = apolar.select(X, k, random_mixtures.FAMILIES, random_state=0, n_threads=1)
    record: dict[str, Any] = {
        "family": family,
        "index": index,
        "shape": [*X.shape, k],
        "rows_per_parameter": n_samples / truth.n_parameters,
        "separation": separation,
    }
    for name in CRITERIA:
        number = chosen(by_number, name).n_components
        predicted = by_number.models[family, number].predict(X)
        record[name] = {
            "n_components": number,
            "family": chosen(by_family, name).covariance_type,
            "ari": float(adjusted_rand_score(labels, predicted)),
        }
    return record


def of_table(table: str) -> dict[str, Any]:
    """Return what each criterion chooses for a table whose classes are known."""
    X, classes = generalise.TABLES[table]()
    selection = apolar.select(X, TABLE_NUMBERS, TABLE_FAMILIES, random_state=0, n_threads=1)
    record: dict[str, Any] = {"table": table, "shape": [*X.shape, len(np.unique(classes))]}
    for name in CRITERIA:
        row = chosen(selection, name)
        predicted = selection.models[row.covariance_type, row.n_components].predict(X)
        record[name] = {
            "n_components": row.n_components,
            "family": row.covariance_type,
            "ari": float(adjusted_rand_score(classes, predicted)),
        }
    return record


def measured(kind: str, *given: Any) -> dict[str, Any]:
    """Return the record of a table or of a random mixture."""
    return of_table(*given) if kind == "table" else of_mixture(*given)


def mixture_lines(title: str, records: list[dict[str, Any]]) -> list[list[str]]:
    """Return a line per criterion on a group of random mixtures."""
    true_numbers = np.array([record["shape"][2] for record in records])
    families = np.array([record["family"] for record in records])
    lines = []
    for name in CRITERIA:
        numbers = np.array([record[name]["n_components"] for record in records])
        ari = np.mean([record[name]["ari"] for record in records])
        is_right_family = families == [record[name]["family"] for record in records]
        groups = (numbers == true_numbers, numbers < true_numbers, numbers > true_numbers)
        counts = [f"{100 * np.mean(group):.0f}" for group in groups]
        right_family = f"{100 * np.mean(is_right_family):.0f}"
        lines.append([title, str(len(records)), criterion_title(name), *counts, f"{ari:.3f}", right_family])
    return lines


def parts(records: list[dict[str, Any]]) -> list[str]:
    """Return the sections of the report."""
    mixtures = [record for record in records if "index" in record]
    tables = [record for record in records if "table" in record]
    enough = random_mixtures.ENOUGH_ROWS
    groups = {
        f"n >= {enough}p": [r for r in mixtures if r["rows_per_parameter"] >= enough],
        f"n < {enough}p": [r for r in mixtures if r["rows_per_parameter"] < enough],
        **{family: [r for r in mixtures if r["family"] == family] for family in random_mixtures.FAMILIES},
        "all": mixtures,
    }
    lines = [line for title, some in groups.items() if some for line in mixture_lines(title, some)]
    header = ["mixtures", "how many", "criterion", "% right number", "% too few", "% too many", "ARI"]
    sections = []
    if mixtures:
        sections.append(
            f"{len(mixtures)} random mixtures, those of `random_mixtures`: n rows, p free parameters. The "
            f"number is chosen among {NUMBERS[0]} to {NUMBERS[-1]}, of the true family; the family among all "
            "six, of the true number. ARI: adjusted Rand index of the chosen number with the true "
            "components.\n\n" + problems.table([*header, "% right family"], lines)
        )
    if tables:
        cells = [
            [
                f"{record['table']} ({' x '.join(map(str, record['shape'][:2]))}, {record['shape'][2]})",
                *(
                    f"{record[name]['n_components']} {record[name]['family']}, {record[name]['ari']:.3f}"
                    for name in CRITERIA
                ),
            ]
            for record in sorted(tables, key=lambda record: TABLES.index(record["table"]))
        ]
        sections.append(
            "Tables (rows x columns, classes): what each criterion chooses among "
            f"{TABLE_NUMBERS[0]} to {TABLE_NUMBERS[-1]} components of {', '.join(TABLE_FAMILIES)} "
            "covariances, and the adjusted Rand index with the classes, which need not be Gaussian.\n\n"
            + problems.table(["table", *map(criterion_title, CRITERIA)], cells)
        )
    return sections


def records_of(
    families: Sequence[str] = random_mixtures.FAMILIES,
    n_each: int = N_EACH,
    tables: Sequence[str] = TABLES,
    *,
    workers: int | None = None,
    out: Path | None = None,
) -> list[dict[str, Any]]:
    """Return the records of some mixtures and tables, by a pool of processes."""
    tasks: list[tuple[Any, ...]] = [("table", table) for table in tables]
    tasks += [("mixture", family, index) for family in families for index in range(n_each)]
    return pool.run(measured, tasks, workers=workers, out=out)


def save(records: list[dict[str, Any]]) -> None:
    problems.save(
        "criteria", "The number of components and the family", parts(records), ("numpy", "scikit-learn")
    )


def main() -> None:
    """Measure all mixtures and tables."""
    save(records_of())


def command_line() -> None:
    """Measure some mixtures and tables, or put the records of several runs together; print the report."""
    parser = argparse.ArgumentParser(
        description="Criteria on random mixtures and tables, or on some of them."
    )
    parser.add_argument("--family", nargs="*", choices=random_mixtures.FAMILIES, default=None)
    parser.add_argument("--each", type=int, default=N_EACH, metavar="N", help="mixtures of each family")
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=TABLES)

    def measure(given: argparse.Namespace, **options: Any) -> list[dict[str, Any]]:
        families = random_mixtures.FAMILIES if given.family is None else given.family
        return records_of(families, given.each, given.tables, **options)

    pool.command_line(parser, measure, parts, save)


if __name__ == "__main__":
    command_line()
