"""An open table: its columns, its rows as polars frames, and the error that names what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from apolar._core.arrays import Array
from apolar._core.checks import MISSING_WORDS


class TableError(ValueError):
    """A problem with the user's file or request; its message is one line that names the remedy."""


def quote(text: str) -> str:
    """Return a string from a file in quotes, shortened, on one line."""
    return repr(text if len(text) <= 40 else f"{text[:39]}…")


def join_list(members: Sequence[str], *, shown: int = 5) -> str:
    """Return "a, b and c", or "a, b and 7 more" if there are more members than are shown."""
    first = list(members[:shown])
    last = f"{len(members) - shown:,} more" if len(members) > shown else first.pop()
    return f"{', '.join(first)} and {last}" if first else last


def count_noun(number: int, noun: str) -> str:
    """Return "1 row" or "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_text(n_bytes: float) -> str:
    """Return a number of bytes with its unit."""
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
        The encoding of text; None for UTF-8, or what the first bytes say.
    missing : frozenset of str
        Cells that stand for a missing value, in addition to the usual ones.
    sheet : str or None
        The sheet of a workbook; None for the first with a table.
    """

    encoding: str | None = None
    missing: frozenset[str] = frozenset()
    sheet: str | None = None


@dataclass(frozen=True, eq=False)
class TableInput:
    """A file for the reader of its format.

    Attributes
    ----------
    name : str
        The name in messages.
    path : Path
        Where it is on disk.
    is_copy : bool
        Whether it is a temporary copy of a stream.
    options : ReadOptions
    """

    name: str
    path: Path
    is_copy: bool = False
    options: ReadOptions = ReadOptions()


@dataclass(frozen=True)
class Column:
    """A column of a file, as far as its first rows show.

    Attributes
    ----------
    name : str
    kind : str
        "numbers", "row numbers", "text", "dates", "true and false", "nothing", or the name of another type.
    example : str
        A cell that is not a number, if messages show one.
    problem : str
        Why the column cannot be read as numbers; empty if it can.
    is_misread : bool
        Whether it looks like numbers that are written in an ambiguous way, and must not be dropped silently.
    """

    name: str
    kind: str = "numbers"
    example: str = ""
    problem: str = ""
    is_misread: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether the column is read by default."""
        return self.kind == "numbers"

    @property
    def holds(self) -> str:
        """What the column holds: "is empty" or "holds text such as 'Ann'"."""
        if self.kind == "nothing":
            return "is empty"
        if self.kind == "row numbers":
            return "numbers the rows"
        return f"holds {self.kind}" + (f" such as {quote(self.example)}" if self.example else "")


class NumberParser:
    """Parse the cells of a column as float64.

    Parameters
    ----------
    decimal : {".", ","} or None
        The decimal sign; None until a number shows one.
    missing : collection of str
        Cells that stand for a missing value, in addition to `MISSING_WORDS`.
    """

    def __init__(self, decimal: str | None = ".", missing: frozenset[str] = frozenset()) -> None:
        self.decimal, self.missing = decimal, missing

    def __call__(self, cells: pl.Series) -> tuple[Array, Array]:
        """Return values, NaN where one is missing, and which cells are neither numbers nor missing."""
        if cells.dtype != pl.String:
            return cells.cast(pl.Float64).to_numpy(writable=True), np.zeros(len(cells), dtype=bool)
        if self.decimal is None:
            self.decimal = next((sign for sign in ",." if self.count_signs(cells, sign)), None)
        numbers = self._cast(cells)
        values, wrong = numbers.to_numpy(writable=True), np.zeros(len(numbers), dtype=bool)
        is_other = numbers.is_null()
        if is_other.any():
            rest = cells.filter(is_other).fill_null("").str.strip_chars()
            stripped = self._cast(rest)
            words = [*MISSING_WORDS]
            is_missing = rest.str.to_lowercase().is_in(words) | rest.is_in(list(self.missing))
            values[is_other.to_numpy()] = stripped.to_numpy()
            wrong[is_other.to_numpy()] = (stripped.is_null() & ~is_missing).to_numpy()
        return values, wrong

    def _cast(self, cells: pl.Series) -> pl.Series:
        if self.decimal == ",":
            cells = cells.str.replace_all(".", "x", literal=True).str.replace_all(",", ".", literal=True)
        return cells.cast(pl.Float64, strict=False)

    def count_signs(self, cells: pl.Series, sign: str) -> int:
        """Return how many cells are numbers with this decimal sign."""
        with_sign = cells.filter(cells.str.contains(sign, literal=True))
        values, _ = NumberParser(sign, self.missing)(with_sign)
        return int(np.count_nonzero(~np.isnan(values)))


@dataclass(frozen=True, eq=False)
class Content:
    """An open table.

    Attributes
    ----------
    name : str
        The name in messages.
    unit : str
        What the places of rows count: "line" or "row".
    columns : tuple of Column
    frames : callable
        Takes the positions of columns and yields frames of consecutive rows with their places; once.
    parse : NumberParser
        Takes a column of a frame and returns its values as float64, NaN where one is missing, and which of
        its cells are not numbers.
    separator : str
        The delimiter with which the table is written again.
    mapped : ndarray or None
        The file itself as a memory map, if it holds a table of float64.
    """

    name: str
    unit: str
    columns: tuple[Column, ...]
    frames: Callable[[Sequence[int]], Iterator[tuple[pl.DataFrame, Sequence[int]]]]
    parse: NumberParser
    separator: str = ","
    mapped: Array | None = None
