"""The table behind a picture: X in its many forms, and which of its columns are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, numeric_array

__all__ = ["TableView", "check_names", "chosen_columns", "column_names"]

# Columns that are shown unless the user says otherwise.
N_COLUMNS = 5


@dataclass(frozen=True, eq=False)
class TableView:
    """X, of which columns are read by their numbers.

    Attributes
    ----------
    n_rows, n_features : int
    names : list of str or None
        Those of the columns, if X has them.
    pick : callable
        Takes numbers of columns, and returns these, unchecked.
    """

    n_rows: int
    n_features: int
    names: list[str] | None
    pick: Callable[[list[int]], Any]

    @classmethod
    def of(cls, X: Any) -> TableView:
        """Return the table of an array, a sparse matrix or a dataframe."""
        import narwhals

        names: list[str] | None = None
        pick: Callable[[list[int]], Any]
        if sparse.issparse(X):
            by_column = X.tocsc()
            shape, pick = X.shape, lambda positions: by_column[:, positions].toarray()
        elif hasattr(X, "iloc") and hasattr(X, "columns"):
            # pandas, by position: names may be repeated.
            names = [str(name) for name in X.columns]
            shape, pick = X.shape, lambda positions: X.iloc[:, positions]
        else:
            frame = narwhals.from_native(X, eager_only=True, pass_through=True)
            if isinstance(frame, narwhals.DataFrame):
                names = list(frame.columns)
                shape, pick = frame.shape, lambda positions: frame[:, positions].to_numpy()
            else:
                if np.ma.is_masked(X):
                    raise ValueError(
                        "X has masked entries: drop those rows, or fill them with X.filled(value)."
                    )
                try:
                    array = np.asarray(X)
                except ValueError as error:
                    raise ValueError("X is ragged: its rows have different lengths.") from error
                shape, pick = array.shape, lambda positions: array[:, positions]
        if len(shape) != 2:
            remedy = "Reshape one column with X.reshape(-1, 1), one row with X.reshape(1, -1)."
            raise ValueError(f"X must be a table, of two dimensions; got shape {shape}. {remedy}")
        if 0 in shape:
            raise ValueError(f"X has no {'rows' if shape[0] == 0 else 'columns'}: its shape is {shape}.")
        return cls(shape[0], shape[1], names, pick)

    def numbers(self, positions: list[int]) -> Array:
        """Return some columns, shape (n_rows, len(positions)), checked."""
        try:
            values = numeric_array(self.pick(positions), "X")
        except TypeError as error:
            raise TypeError(f"{error} Choose columns of numbers with columns=.") from None
        if np.iscomplexobj(values):
            raise TypeError("X is complex; a picture takes real numbers.")
        return values


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
