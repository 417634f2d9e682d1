"""Labels as lines of text: clusters, their probabilities, and marks of outliers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apolar import GaussianMixture
    from apolar._core.arrays import Array
    from apolar.cli.tables import TableFile
    from apolar.reports.scoring import RowScores

# Decimals of a probability in a file.
DECIMALS = 6


def cluster_numbers(predicted: Any) -> list[int]:
    """Return the number of the cluster of each row, from 1, and -1 for noise."""
    return [label + 1 if label >= 0 else label for label in predicted.tolist()]


def probability_names(model: GaussianMixture) -> list[str]:
    """Return the names of the columns of probabilities: p1, p2 and so on, and p_noise."""
    names = [f"p{k + 1}" for k in range(len(model.weights_))]
    return names if model.noise_box_ is None else [*names, "p_noise"]


def file_names(table: TableFile) -> list[str] | None:
    """Return the file of each row, if the table is of several."""
    if len(table.files) < 2:
        return None
    return [table.files[position] for position in table.file_of_rows.tolist()]


def outlier_marks(scores: RowScores) -> list[str]:
    """Return "yes" for outliers and "no" for other rows."""
    return ["yes" if is_outlier else "no" for is_outlier in scores.outliers.tolist()]


def probability_cells(posteriors: Array) -> list[list[str]]:
    """Return probabilities as cells, a list per column; empty where there is none."""
    import numpy as np

    rounded = np.round(posteriors, DECIMALS)
    cells = np.where(rounded == 0, "0", np.where(rounded == 1, "1", "")).astype(object)
    # Almost all are 0 or 1: writing only the others one by one saves most of the time.
    others = (rounded > 0) & (rounded < 1)
    cells[others] = [f"{value:.{DECIMALS}g}" for value in rounded[others].tolist()]
    return cells.T.tolist()


def label_lines(
    model: GaussianMixture,
    X: Array,
    row_numbers: Any = None,
    *,
    level: float,
    files: Sequence[str] | None = None,
) -> Iterator[str]:
    """Yield a header, then for each row its number, cluster, probability, mark, and all probabilities.

    Rows and clusters are counted from 1; noise is -1. Probabilities are those of a row that is of the
    mixture: they say nothing of an outlier, which has its mark. There are none, and the cells are empty, for
    a row so far away that they cannot be computed.

    Parameters
    ----------
    model : GaussianMixture
    X : ndarray, shape (n_samples, n_features)
        Read a chunk at a time.
    row_numbers : array_like of int, shape (n_samples,), optional
        Of the rows in their table, from zero.
    level : float
        Of the rule for outliers.
    files : sequence of str, length n_samples, optional
        The file of each row, if there are several.
    """
    import numpy as np

    from apolar.reports.scoring import score_chunks

    first = ["row"] if files is None else ["file", "row"]
    names = probability_names(model)
    yield ",".join([*first, "cluster", "probability", "outlier", *names]) + "\n"
    start = 0
    for scores in score_chunks(model, X, level):
        stop = start + len(scores.predicted)
        rows = np.arange(start, stop) if row_numbers is None else np.asarray(row_numbers[start:stop])
        columns: list[Any] = [
            (rows + 1).tolist(),
            cluster_numbers(scores.predicted),
            *probability_cells(scores.posteriors.max(axis=1, keepdims=True)),
            outlier_marks(scores),
            *probability_cells(scores.posteriors),
        ]
        if files is not None:
            columns.insert(0, [quoted_cell(name) for name in files[start:stop]])
        pattern = ",".join(["%s"] * len(columns)) + "\n"
        yield "".join([pattern % cells for cells in zip(*columns, strict=True)])
        start = stop


def quoted_cell(text: str, delimiter: str = ",") -> str:
    """Return a cell of a CSV file, in quotes if it needs them."""
    if any(sign in text for sign in (delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text
