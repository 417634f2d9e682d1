"""What passes between the parts of reading: an open file, its columns and rows, the table, and the error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import is_missing

# Letters of a cell, and members of a list, that a message shows.
_SHOWN_LETTERS = 40
_SHOWN_MEMBERS = 5


class TableError(ValueError):
    """A problem with the user's file or request; its message is one line that names the remedy."""


def quoted(text: str) -> str:
    """Return a string from a file in quotes, shortened, on one line."""
    return repr(text if len(text) <= _SHOWN_LETTERS else text[: _SHOWN_LETTERS - 1] + "…")


def joined(members: Sequence[str], *, shown: int = _SHOWN_MEMBERS) -> str:
    """Return "a, b and c", or "a, b and 7 more" if there are more members than are shown."""
    first = list(members[:shown])
    n_hidden = len(members) - len(first)
    if n_hidden:
        return f"{', '.join(first)} and {n_hidden:,} more"
    return first[0] if len(first) == 1 else f"{', '.join(first[:-1])} and {first[-1]}"


def counted(number: int, noun: str) -> str:
    """Return "1 row" or "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_text(n_bytes: float) -> str:
    """Return a number of bytes as people write it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


@dataclass(frozen=True)
class ReadOptions:
    """How files are read.

    Attributes
    ----------
    encoding : str or None
        Of text; None for UTF-8, or what the first bytes say.
    missing : frozenset of str
        What stands for a missing value, beside the usual strings.
    sheet : str or None
        Of a workbook; None for the first with a table.
    """

    encoding: str | None = None
    missing: frozenset[str] = frozenset()
    sheet: str | None = None

    def is_missing(self, cell: str) -> bool:
        """Return whether a cell stands for a missing value."""
        return is_missing(cell) or cell.strip() in self.missing


@dataclass(frozen=True, eq=False)
class TableInput:
    """A file that is open, for the reader of its format.

    Attributes
    ----------
    name : str
        How messages call it.
    n_bytes : int or None
        Its size; None if only reading to the end shows it.
    read : callable
        Takes a number of bytes and returns them, decompressed; for formats
        that are read forwards.
    done : callable
        Returns how many of `n_bytes` have been read by `read`.
    file : binary file
        One that can be read from any place; for the other formats.
    options : ReadOptions
    """

    name: str
    n_bytes: int | None
    read: Callable[[int], bytes]
    done: Callable[[], int]
    file: IO[bytes]
    options: ReadOptions = ReadOptions()


@dataclass(frozen=True)
class Column:
    """A column of a file, as far as its first rows show.

    Attributes
    ----------
    name : str
    is_numeric : bool
        Whether it is read if no columns are chosen.
    note : str
        What else it holds: "holds text such as 'Ann'".
    refusal : str or None
        What is said if it is chosen although it holds no numbers.
    objection : str or None
        What is said if it would be left out: it looks like numbers, written
        in a way that cannot be read without doubt.
    kind : str
        What it holds if it holds no numbers: "text", "dates", "nothing", or another word; "counter" if it
        only numbers the rows.
    """

    name: str
    is_numeric: bool
    note: str = ""
    refusal: str | None = None
    objection: str | None = None
    kind: str = "text"


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that are read, by their positions from zero, and those left out by default."""

    columns: tuple[int, ...]
    label: int | None
    skipped: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Consecutive rows of a table.

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
    source, unit : str
        The file, and what its places count: "line" or "row".
    """

    values: Array
    labels: Sequence[str] | None
    places: Sequence[int]
    n_bytes: int
    source: str = ""
    unit: str = "row"


@dataclass(frozen=True, eq=False)
class TableContent:
    """What the reader of a format returns: the columns of a file, its rows not read yet.

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
    batches: Callable[[ColumnChoice], Iterator[RowBatch]]
    mapped: Array | None = None


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table of numbers that was read from a file.

    It may be used in a `with` statement; at its end, `close` is called.

    Attributes
    ----------
    X : ndarray, shape (n_rows, n_columns)
        Float64 numbers, NaN where one is missing, read-only: in memory, or a memory map of a
        temporary file (or of the user's .npy file) if they are many.
    names : tuple of str
        Of the columns of X.
    source : str
        The path of the file, or "standard input"; of several, all of them.
    label_codes : ndarray of int32, shape (n_rows,), or None
        The label of each row, as its position in `label_names`; None if no
        label column was asked for.
    label_names : tuple of str
        The strings of the label column, each once, in the order of the file.
    n_dropped : int
        Rows that were dropped because a number was missing.
    row_numbers : ndarray of int64, shape (n_rows,), or None
        The numbers of the kept rows, from zero, counted over all files; None
        if no row was dropped.
    skipped : tuple of str
        Columns that were left out because they are empty, hold other things
        than numbers, or only number the rows; empty if columns were chosen.
    n_missing : ndarray of int, shape (n_columns,), or None
        How many numbers of each column are missing in X; None if none is.
    notes : tuple of str
        What was noticed about the columns and what was done, a sentence each, with the option that undoes it.
    files : tuple of str
        The files in their order.
    first_rows : tuple of int
        The number of the first row of each file, as `row_numbers` counts.
    """

    X: Array
    names: tuple[str, ...]
    source: str
    label_codes: Array | None = None
    label_names: tuple[str, ...] = ()
    n_dropped: int = 0
    row_numbers: Array | None = None
    skipped: tuple[str, ...] = ()
    n_missing: Array | None = None
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    first_rows: tuple[int, ...] = ()
    _remove: Callable[[], Any] | None = field(default=None, repr=False)

    @property
    def missing_line(self) -> str:
        """What is missing, in one line; empty if nothing is."""
        if self.n_missing is None:
            return ""
        pairs = zip(self.names, self.n_missing.tolist(), strict=True)
        holed = [f"{quoted(name)} ({n:,})" for name, n in pairs if n]
        total = int(self.n_missing.sum())
        return (
            f"{counted(total, 'value')} of {self.X.size:,} {'is' if total == 1 else 'are'} missing, in column"
            f"{'' if len(holed) == 1 else 's'} {joined(holed)}: rows count by what they have."
        )

    @property
    def file_of_rows(self) -> Array:
        """The file that each row is from, as its position in `files`: int, shape (n_rows,)."""
        numbers = np.arange(len(self.X)) if self.row_numbers is None else self.row_numbers
        return np.searchsorted(np.array(self.first_rows), numbers, side="right") - 1

    @property
    def labels(self) -> Array | None:
        """The label column as strings: an array of objects, shape (n_rows,), or None."""
        if self.label_codes is None:
            return None
        return np.array(self.label_names, dtype=object)[self.label_codes]

    def close(self) -> None:
        """Remove the temporary file behind X, if there is one.

        X is then an empty table. The space on the disk is given back when no
        array made from X is in use any more.
        """
        if isinstance(self.X, np.memmap):
            object.__setattr__(self, "X", np.empty((0, len(self.names))))
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> TableFile:
        """Return the table itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the table."""
        self.close()
