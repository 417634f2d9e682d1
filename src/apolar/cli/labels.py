"""Labels of rows as polars frames: clusters, probabilities and outliers, alone or next to the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apolar.cli.console import BadInput

if TYPE_CHECKING:
    import polars as pl

    from apolar import GaussianMixture
    from apolar._core.arrays import Array
    from apolar.cli.tables import TableFile

# Decimals of a probability in a file.
DECIMALS = 6


def label_frames(model: GaussianMixture, table: TableFile, level: float) -> Iterator[pl.DataFrame]:
    """Yield the number, cluster, probability, mark and all probabilities of rows, a chunk at a time.

    Rows and clusters are counted from 1; noise is -1. Probabilities are those of a row that is of the
    mixture: they say nothing of an outlier, which has its mark. They are missing for a row so far away that
    they cannot be computed.

    Parameters
    ----------
    model : GaussianMixture
    table : TableFile
    level : float
        Of the rule for outliers.
    """
    import numpy as np
    import polars as pl

    from apolar.reports.scoring import score_chunks

    names = [f"p{k + 1}" for k in range(len(model.weights_))]
    names += [] if model.noise_box_ is None else ["p_noise"]
    numbers = np.arange(len(table.X)) if table.row_numbers is None else table.row_numbers
    files = np.array(
        [name.encode("utf-8", "backslashreplace").decode() for name in table.files], dtype=object
    )
    start = 0
    for scores in score_chunks(model, table.X, level):
        stop = start + len(scores.predicted)
        posteriors = np.round(scores.posteriors, DECIMALS)
        columns = {"file": files[table.file_of_rows[start:stop]]} if len(files) > 1 else {}
        columns |= {
            "row": numbers[start:stop] + 1,
            "cluster": cluster_numbers(scores.predicted),
            "probability": posteriors.max(axis=1),
            "outlier": np.where(scores.outliers, "yes", "no"),
            **dict(zip(names, posteriors.T, strict=True)),
        }
        yield pl.DataFrame(columns).fill_nan(None)
        start = stop


def cluster_numbers(predicted: Array) -> Array:
    """Return the number of the cluster of each row, from 1, and -1 for noise."""
    return predicted + (predicted >= 0)


def csv_text(
    frames: Iterable[pl.DataFrame], names: Sequence[str] | None = None, **style: Any
) -> Iterator[str]:
    """Yield frames as CSV with one header: names that may be repeated, or those of the frames."""
    import polars as pl

    for i, frame in enumerate(frames):
        if i == 0:
            header = pl.DataFrame({f"{j}": [name] for j, name in enumerate(names or frame.columns)})
            yield header.write_csv(include_header=False, **style)
        yield frame.write_csv(include_header=False, **style)


# --- the table with its labels --------------------------------------------------------------------


def check_rereadable(sources: Sequence[str]) -> None:
    """Refuse what can be read only once."""
    if any(source == "-" or not (Path(source).is_file() or Path(source).is_dir()) for source in sources):
        raise BadInput("--append reads the table twice: give it as a file, not as a stream.")


def table_name(source: str) -> str:
    """Return the name of the file with the table: that of a TSV file keeps its kind."""
    plain = Path(source.removesuffix(".gz").removesuffix(".zst"))
    return "table.tsv" if plain.suffix in (".tsv", ".tab") else "table.csv"


def appended_text(
    sources: Sequence[str], model: GaussianMixture, table: TableFile, level: float, reading: dict[str, Any]
) -> Iterator[str]:
    """Yield the text of a table with the columns cluster, p1, p2, ..., outlier at the right.

    All columns and rows of the files are kept, in their order. Rows that were left out have nothing in the
    new cells.

    Parameters
    ----------
    sources : sequence of str
        The paths of the files of the table, which are read again.
    model : GaussianMixture
    table : TableFile
    level : float
        Of the rule for outliers.
    reading : dict
        How the files were read: parameters of `read_options`, and others of `read_table`.
    """
    from apolar.cli.tables.formats import expand_folders, open_table

    options = {name: reading[name] for name in ("encoding", "na_values", "sheet")}
    files = expand_folders(list(sources))
    labels = _LabelsInOrder(label_frames(model, table, level))
    with open_table(files[0], **options) as first:
        names, separator = [column.name for column in first.columns], first.separator
    header = [*names, *_free_names(labels.names, names)]
    for source in files:
        with open_table(source, **options) as content:
            if ([column.name for column in content.columns], content.separator) != (names, separator):
                raise BadInput(
                    f"{source} has other columns or another delimiter than {sources[0]}: "
                    "--append needs the same."
                )
            frames = (labels.append_to(frame) for frame, _ in content.frames(range(len(names))))
            style = {"separator": separator, "null_value": "NA" if separator == " " else ""}
            lines = csv_text(frames, header, decimal_comma=content.parse.decimal == ",", **style)
            if source is not files[0]:
                next(lines)
            yield from lines
    if labels.n_rows != len(table.X) + table.n_dropped:
        raise BadInput(f"{sources[0]} changed while it was read: run the command again.")


class _LabelsInOrder:
    """The labels of rows, for frames of all rows in their order."""

    def __init__(self, chunks: Iterator[pl.DataFrame]) -> None:
        self.chunks, self.n_rows, self.waiting = chunks, 0, next(chunks)
        others = ("file", "row", "probability", "outlier")
        self.names = [*(name for name in self.waiting.columns if name not in others), "outlier"]

    def append_to(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the next rows with their labels; rows that were left out have none."""
        import polars as pl
        from polars import selectors

        first, self.n_rows = self.n_rows + 1, self.n_rows + len(frame)
        while self.waiting["row"][-1] < self.n_rows and (chunk := next(self.chunks, None)) is not None:
            self.waiting = pl.concat([self.waiting.filter(pl.col("row") >= first), chunk])
        frame = frame.rename({name: f"column {i}" for i, name in enumerate(frame.columns)})
        # CSV has no cells of other types.
        as_text = (selectors.nested() | selectors.binary()).map_elements(str, pl.String)
        rows = pl.int_range(first, self.n_rows + 1).alias("row")
        joined = frame.with_columns(as_text, rows).join(
            self.waiting, on="row", how="left", maintain_order="left"
        )
        return joined.select(frame.columns + self.names)


def _free_names(wanted: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return names that the table does not have yet: cluster, or cluster_2 if there is one."""
    names: list[str] = []
    for name in wanted:
        free, number = name, 1
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        names.append(free)
    return names


# --- outliers -------------------------------------------------------------------------------------


def row_numbers_of(chosen: Array, row_numbers: Array | None) -> list[int]:
    """Return the numbers of some rows as they are counted in their table, from 1.

    Parameters
    ----------
    chosen : ndarray of bool, shape (n_samples,)
    row_numbers : ndarray of int, shape (n_samples,), or None
        The numbers of all rows in the table, from zero.
    """
    import numpy as np

    positions = np.flatnonzero(chosen)
    return ((positions if row_numbers is None else np.asarray(row_numbers)[positions]) + 1).tolist()


def outliers_sentence(rows: Sequence[int], level: float) -> str:
    """Return how many rows are outliers, by which rule, and which they are: at most ten are named."""
    rule = f"{level:.3g} chance of any false alarm per table"
    if level >= 0.01:
        rule = f"{100 * level:.3g}% chance of any false alarm per table"
    if not rows:
        return f"No outliers ({rule})."
    named = ", ".join(f"{row}" for row in rows[:10]) + (
        f" and {len(rows) - 10:,} more" if len(rows) > 10 else ""
    )
    is_one = len(rows) == 1
    return f"{len(rows):,} outlier{'' if is_one else 's'} ({rule}): row{'' if is_one else 's'} {named}."


def outlier_text(
    model: GaussianMixture, table: TableFile, predicted: Array, outliers: Array
) -> Iterator[str]:
    """Return as CSV, for each outlier its row, the cluster, the distance and its values.

    The distance is Mahalanobis' from the nearest cluster, in standard deviations; none if it overflows.
    """
    import numpy as np
    import polars as pl

    from apolar.estimator.marginals import OutlierRule
    from apolar.mixture.conditional import min_distances

    rule = OutlierRule.of(model, 0.05)  # for its means and covariances, which do not depend on the level
    rows = np.flatnonzero(outliers)
    values = np.asarray(table.X[rows], dtype=np.float64)
    squares = min_distances(rule.means[rule.is_cluster], rule.covariances[rule.is_cluster], values)[0]
    numbers = rows if table.row_numbers is None else table.row_numbers[rows]
    distances = [float(f"{root:.6g}") if np.isfinite(root) else None for root in np.sqrt(squares).tolist()]
    frame = pl.DataFrame(
        {"row": numbers + 1, "cluster": cluster_numbers(predicted[rows]), "distance": distances},
        schema_overrides={"distance": pl.Float64},
    )
    columns = [pl.Series(f"column {i}", values[:, i]) for i in range(values.shape[1])]
    return csv_text([frame.hstack(columns).fill_nan(None)], ["row", "cluster", "distance", *table.names])
