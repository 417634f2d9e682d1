"""A table as it is in its file, with the cluster of each row, its probabilities, and the mark of outliers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apolar.cli.errors import BadInput
from apolar.cli.labels import cluster_numbers, outlier_marks, probability_cells, probability_names

if TYPE_CHECKING:
    from apolar import GaussianMixture
    from apolar._core.arrays import Array
    from apolar.cli.tables.original import OriginalTable


def appended(
    sources: Sequence[str],
    model: GaussianMixture,
    X: Array,
    row_numbers: Array | None,
    level: float,
    write: Callable[[Iterator[str]], Any],
    reading: dict[str, Any] | None = None,
) -> None:
    """Write the table of some files with the columns cluster, p1, p2, ..., outlier at the right.

    All columns and rows of the files are kept, in their order and as they are written there. Rows that were
    left out have nothing in the new cells.

    Parameters
    ----------
    sources : sequence of str
        The paths of the files of the table, which are read again.
    model : GaussianMixture
    X : ndarray, shape (n_samples, n_features)
        The numbers of the rows that were not left out.
    row_numbers : ndarray of int, shape (n_samples,), or None
        Their numbers in the files, from zero.
    level : float
        Of the rule for outliers.
    write : callable
        Takes the lines.
    reading : dict, optional
        How the files were read: parameters of `read_options`, and others of `read_table`.
    """
    from apolar.cli.tables.original import write_again
    from apolar.cli.tables.read import read_options

    def lines(table: OriginalTable) -> Iterator[str]:
        names = _new_names(["cluster", *probability_names(model), "outlier"], table.names)
        yield table.delimiter.join([table.header, *names]) + "\n"
        added = _added(table, model, X, level)
        nothing = table.delimiter + table.delimiter.join([table.missing] * len(names)) + "\n"
        if row_numbers is None:
            for row, new in zip_longest(table.rows, added):
                if row is None or new is None:
                    raise BadInput(f"{sources[0]} changed while it was read: run the command again.")
                yield row + new
            return
        kept = iter(row_numbers.tolist())
        following = next(kept, None)
        for number, row in enumerate(table.rows):
            if number == following:
                yield row + next(added)
                following = next(kept, None)
            else:
                yield row + nothing

    known = {name: (reading or {})[name] for name in ("encoding", "na_values", "sheet") if reading}
    write_again(sources, lambda table: write(lines(table)), read_options(**known))


def check_rereadable(sources: Sequence[str]) -> None:
    """Refuse what can be read only once."""
    if any(source == "-" or not (Path(source).is_file() or Path(source).is_dir()) for source in sources):
        raise BadInput("--append reads the table twice: give it as a file, not as a stream.")


def table_name(source: str) -> str:
    """Return the name of the file with the table: that of a TSV file keeps its kind."""
    return "table.tsv" if Path(source.removesuffix(".gz")).suffix in (".tsv", ".tab") else "table.csv"


def _added(table: OriginalTable, model: GaussianMixture, X: Array, level: float) -> Iterator[str]:
    """Yield what is added to each row, with its line end."""
    from apolar.reports.scoring import score_chunks

    for scores in score_chunks(model, X, level):
        probabilities: Iterable[list[str]] = probability_cells(scores.posteriors)
        if table.decimal == ",":
            probabilities = [[cell.replace(".", ",") for cell in cells] for cells in probabilities]
        if table.missing:
            probabilities = [[cell or table.missing for cell in cells] for cells in probabilities]
        columns = [cluster_numbers(scores.predicted), *probabilities, outlier_marks(scores)]
        pattern = table.delimiter + table.delimiter.join(["%s"] * len(columns)) + "\n"
        yield from (pattern % cells for cells in zip(*columns, strict=True))


def _new_names(wanted: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return names that the table does not have yet: cluster, or cluster_2 if there is one."""
    names: list[str] = []
    for name in wanted:
        free, number = name, 1
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        names.append(free)
    return names
