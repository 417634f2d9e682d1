"""The table behind a picture: X in its many forms, and which of its columns are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, numeric_array
from apolar.data.chunks import as_array, require_numbers, require_table
from apolar.data.sources import column_labels, is_dataframe, read_dataframe

__all__ = ["TableView", "check_names", "chosen_columns", "column_names"]

# Columns that are shown unless the user says otherwise.
N_COLUMNS = 5


@dataclass(frozen=True, eq=False)
class TableView:
    """X, of which columns are read by their numbers.

    Attributes
    ----------
    X : ndarray, sparse matrix or dataframe, shape (n_rows, n_features)
    names : list of str or None
        Those of the columns, if X has them.
    """

    X: Any
    names: list[str] | None

    @classmethod
    def of(cls, X: Any) -> TableView:
        """Return the table of an array, a sparse matrix or a dataframe."""
        names = None
        if is_dataframe(X):
            names = [str(label) for label in column_labels(X)]
        elif not sparse.issparse(X):
            X = as_array(X)
        require_table(X.shape)
        if X.shape[0] == 0:
            raise ValueError(f"X has no rows: its shape is {X.shape}.")
        return cls(X, names)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self.X.shape[1])

    def read(self, positions: Sequence[int]) -> Array:
        """Return some columns, shape (n_rows, len(positions)), NaN where a value is missing."""
        if self.names is not None:
            return read_dataframe(self.X, positions)[0]
        if sparse.issparse(self.X):
            return np.asarray(self.X.tocsc()[:, positions].toarray())
        return np.asarray(require_numbers(self.X[:, positions]))

    def numbers(self, positions: Sequence[int]) -> Array:
        """Return some columns, shape (n_rows, len(positions)), refused if values are missing."""
        try:
            return numeric_array(self.read(positions), "X")
        except TypeError as error:
            raise TypeError(f"{error} Choose columns of numbers with columns=.") from None


def check_names(names: Iterable[Any], number: int, parameter: str, things: str) -> list[str]:
    """Return names as strings, one for each of so many things."""
    strings = [str(name) for name in names]
    if len(strings) != number:
        raise ValueError(f"{parameter} must name all {number} {things}; got {len(strings)} names.")
    return strings


def column_names(n_features: int, *sources: Iterable[Any] | None, things: str = "columns of X") -> list[str]:
    """Return the names of all columns: the first of the sources that is given, or their numbers."""
    for names in sources:
        if names is not None:
            return check_names(names, n_features, "feature_names", things)
    return [f"column {i}" for i in range(n_features)]


def chosen_columns(
    columns: Any, table: TableView, feature_names: Iterable[Any] | None
) -> tuple[list[int], list[str]]:
    """Return the columns that the user asks for: their numbers, and their names.

    Parameters
    ----------
    columns : int, list of int or str, or None
        How many of the first columns, or which ones; the first five by default.
    table : TableView
    feature_names : list of str or None
        The names of all columns; by default those of the table.
    """
    m = table.n_features
    names = column_names(m, feature_names, table.names)
    if columns is None or (np.ndim(columns) == 0 and not isinstance(columns, str)):
        count = N_COLUMNS if columns is None else check_integer(columns, "columns", least=1)
        positions = list(range(min(count, m)))
    else:
        given = [columns] if isinstance(columns, str) else list(columns)
        positions = [_position(column, names) for column in given]
    if not positions:
        raise ValueError("columns is empty: name at least one column.")
    return positions, [names[i] for i in positions]


def _position(column: Any, names: list[str]) -> int:
    if isinstance(column, str):
        if column in names:
            return names.index(column)
        listed = ", ".join(repr(name) for name in names[:10]) + (", ..." if len(names) > 10 else "")
        raise ValueError(f"X has no column {column!r}: choose among {listed}.")
    position = check_integer(column, "A column", least=0)
    if position >= len(names):
        raise ValueError(f"X has no column {position}: choose among 0 to {len(names) - 1}.")
    return position
