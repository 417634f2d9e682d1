"""What every kind of file gives: its columns, and batches of its rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from apolar._core.arrays import Array
from apolar.cli.tables.columns import Choice, Column


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a table, one after another.

    Attributes
    ----------
    values : ndarray of float64, shape (n, n_columns)
        Of the chosen columns; NaN where a number is missing.
    labels : sequence of str, length n, or None
        Of the label column, if there is one.
    places : sequence of int, length n
        Where the rows stand in the file: numbers of lines or of rows, from one.
    n_bytes : int
        How much of the file has been read with this batch.
    """

    values: Array
    labels: Sequence[str] | None
    places: Sequence[int]
    n_bytes: int


@dataclass(frozen=True, eq=False)
class Content:
    """An open file, its rows not read yet.

    Attributes
    ----------
    columns : tuple of Column
        All of them.
    unit : str
        What its places count: "line" or "row".
    batches : callable
        Takes a choice of columns and yields the rows, once.
    mapped : ndarray or None
        The file itself as a memory map, if it holds a table of float64.
    """

    columns: tuple[Column, ...]
    unit: str
    batches: Callable[[Choice], Iterator[Batch]]
    mapped: Array | None = None
