"""The columns of an open table: their cells as numbers, what they hold, and which are read."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from apolar._core.arrays import Array
from apolar._core.checks import MISSING_WORDS
from apolar.cli.console import TableError, quote
from apolar.exceptions import join_names

# Numbers, or characters of text, that are held at once.
FRAME_SIZE = 2**22
# Columns are described by the first rows: a column is numeric if at least this fraction of its cells are
# numbers, and then its other cells are errors.
SAMPLE_ROWS = 1000
MIN_NUMERIC = 0.9

# Longer cells are not codes for missing values, nor are more of them.
LONGEST_CODE = 20
MAX_CODES = 5

ALL = "all"
"""Instead of names: all columns."""
AMBIGUOUS = "numbers that are written in an ambiguous way"
"""The kind of a column of numbers such as 1,234 where the decimal sign is a point."""

# A number as people write it: "1,5", "1.234,5", "12 000", "1'000.5".
WRITTEN_NUMBER = r"^[+-]?(?:(?:\d{1,3}(?:[.,'\s_]\d{3})+|\d+)(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?$"
# With a sign of a currency, a percent sign, or brackets for less than zero: "€1,200.50", "12%", "(1,200)".
_CURRENCY = r"(?:[$€£¥₹]|USD|EUR|GBP|CHF|JPY)"
_DECORATION = rf"{_CURRENCY}|[%\s]"
DECORATED_NUMBER = rf"^[(]?[+-]?\s*{_CURRENCY}?\s*{WRITTEN_NUMBER[1:-1]}\s*(?:{_CURRENCY}|%)?\s*[)]?$"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s*[ap]\.?m\.?)?(?:Z|\s*[+-]\d{2}:?\d{2})?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = (
    r"(?:\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})"
    rf"|\d{{1,2}}[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} (?:\d{{1,2}}, ?)?\d{{4}})"
)
# "2024-03-01", "1.3.2024 12:30", "1 Mar 2024", "12:30:15".
_DATE = rf"^(?i:{_DAY}(?:[T ]\s*{_TIME})?|{_TIME})$"


@dataclass(frozen=True, eq=False)
class TableInput:
    """A file for the reader of its format.

    Attributes
    ----------
    name : str
        The name in messages.
    path : Path
        Where it is on disk.
    encoding : str or None
        The encoding of text; None for UTF-8, or what the first bytes say.
    na_values : sequence of str
        Cells that stand for a missing value, in addition to the usual ones.
    sheet : str or None
        The sheet of a workbook; None for the first with a table.
    header : bool or None
        Whether the first row has the names of the columns; None if its cells are to say so.
    skip_rows : int
        Lines, or rows of a sheet, at the top that are left out.
    thousands : str or None
        The thousands separator. Numbers may then have a currency or percent sign, or brackets for less than
        zero.
    """

    name: str
    path: Path
    encoding: str | None = None
    na_values: Sequence[str] = ()
    sheet: str | None = None
    header: bool | None = None
    skip_rows: int = 0
    thousands: str | None = None

    def parser(self) -> NumberParser:
        """Return what reads its numbers."""
        return NumberParser("," if self.thousands == "." else ".", frozenset(self.na_values), self.thousands)


@dataclass(frozen=True)
class Column:
    """A column of a file, as far as its first rows show.

    Attributes
    ----------
    name : str
    kind : str
        "numbers", "row numbers", "text", "dates", "true and false", "empty", or the name of another type;
        `AMBIGUOUS` for numbers that must not be dropped silently.
    problem : str
        Why the column cannot be read as numbers; empty if it can.
    code : str
        The only text of a column of text that has numbers, too.
    """

    name: str
    kind: str = "numbers"
    problem: str = ""
    code: str = ""

    @property
    def holds(self) -> str:
        """What the column holds, in a note."""
        if not self.code:
            return self.kind
        remedy = f"--na-values {shlex.quote(self.code)} if that is a missing value"
        return f"numbers and {quote(self.code)} (use {remedy})"


@dataclass
class NumberParser:
    """Parse cells as float64.

    Parameters
    ----------
    decimal : {".", ","} or None
        The decimal sign; None until a number shows one.
    missing : collection of str
        Cells, or numbers, that stand for a missing value, in addition to `MISSING_WORDS`.
    thousands : str or None
        As in `TableInput`.
    """

    decimal: str | None = "."
    missing: frozenset[str] = frozenset()
    thousands: str | None = None

    def __call__(self, cells: pl.DataFrame) -> tuple[Array, Array]:
        """Return values, NaN where one is missing, and which cells are neither numbers nor missing.

        Parameters
        ----------
        cells : DataFrame, shape (n_rows, n_columns)
            Of strings or numbers.

        Returns
        -------
        values, is_wrong : ndarray, shape (n_rows, n_columns)
        """
        if self.decimal is None:
            self.decimal = next((sign for sign in ",." if self.count_signs(cells, sign)), None)
        numbers = self._cast(cells)
        values = np.array(numbers.to_numpy(), order="C")
        missing_numbers = pl.Series([*self.missing], dtype=pl.String).cast(pl.Float64, strict=False)
        values[np.isin(values, missing_numbers.drop_nulls())] = np.nan
        is_wrong = np.zeros(values.shape, dtype=bool)
        # Of all columns at once: each call takes as long as there are columns.
        counts = zip(numbers.null_count().row(0), cells.dtypes, strict=True)
        for i, (n_others, kind) in enumerate(counts):
            if n_others and kind == pl.String:
                is_other = numbers.to_series(i).is_null()
                others = cells.to_series(i).filter(is_other).fill_null("").str.strip_chars()
                stripped = self._cast(others.to_frame()).to_series()
                is_missing = others.str.to_lowercase().is_in([*MISSING_WORDS]) | others.is_in([*self.missing])
                values[is_other.to_numpy(), i] = stripped.to_numpy()
                is_wrong[is_other.to_numpy(), i] = (stripped.is_null() & ~is_missing).to_numpy()
        return values, is_wrong

    def parse_list(self, cells: Iterable[str]) -> tuple[Array, Array]:
        """Return values and which cells are wrong, of strings in one column: shape (n_cells,)."""
        values, is_wrong = self(pl.Series(cells, dtype=pl.String).to_frame())
        return values[:, 0], is_wrong[:, 0]

    def _cast(self, cells: pl.DataFrame) -> pl.DataFrame:
        if self.thousands is not None:
            plain = pl.col(pl.String).str.replace_all(_DECORATION, "")
            plain = plain.str.replace_all(self.thousands, "", literal=True)
            cells = cells.with_columns(plain.str.replace(r"^\((.*)\)$", "-$1"))
        if self.decimal == ",":
            dotted = pl.col(pl.String).str.replace_all(".", "x", literal=True)
            cells = cells.with_columns(dotted.str.replace_all(",", ".", literal=True))
        return cells.cast(pl.Float64, strict=False)

    def count_signs(self, cells: pl.DataFrame, sign: str) -> int:
        """Return how many cells are numbers with this decimal sign."""
        has_sign = cells.select(pl.all().str.contains(sign, literal=True).fill_null(False)).to_numpy()
        values, _ = NumberParser(sign, self.missing, self.thousands)(cells)
        return int(np.count_nonzero(has_sign & ~np.isnan(values)))


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
        Takes the positions of columns and yields frames of consecutive rows with their places.
    parse : NumberParser
        Takes a frame and returns its values as float64, NaN where one is missing, and which of its cells are
        not numbers.
    separator : str
        The delimiter with which the table is written again.
    mapped : ndarray or None
        The file itself as a memory map, if it holds a table of float64.
    has_names : bool
        Whether the columns have names of their own, or could not.
    """

    name: str
    unit: str
    columns: tuple[Column, ...]
    frames: Callable[[Sequence[int]], Iterator[tuple[pl.DataFrame, Sequence[int]]]]
    parse: NumberParser
    separator: str = ","
    mapped: Array | None = None
    has_names: bool = True


@contextmanager
def refuse_damage(source: str, what: str = "") -> Iterator[None]:
    """Turn what a library raises on damaged bytes, which may be anything, into one line."""
    try:
        yield
    except (MemoryError, TableError):
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")[:200]
        is_other = f"is not {what}, or " if what else ""
        raise TableError(
            f"{source} {is_other}is truncated or damaged: {reason}. Create or copy the file again."
        ) from error


def row_slices(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices of consecutive rows that hold at most `FRAME_SIZE` numbers each."""
    size = max(1, FRAME_SIZE // n_columns)
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


# --- what columns hold, by the first rows ---------------------------------------------------------


def describe_columns(
    source: str,
    unit: str,
    places: Sequence[int],
    cells: pl.DataFrame,
    parse: NumberParser,
    header: bool | None = None,
) -> tuple[bool, tuple[Column, ...]]:
    """Return whether the first row is a header, and the columns.

    Parameters
    ----------
    source, unit : str
        The file, and what places count.
    places : sequence of int
        Those of the first rows.
    cells : DataFrame of str
        The first rows.
    parse : NumberParser
    header : bool or None
        Whether the first row is a header, if that is known.
    """
    top = [cell or "" for cell in cells.row(0)]
    is_text = parse(cells[:1])[1][0]
    if len(cells) == 1 and (is_text.any() or header):
        raise TableError(f"{source} has a header and no rows below it: at least two are needed.")
    start = 0 if len(cells) == 1 or header is False else 1
    below = cells[start:].with_columns(pl.all().str.strip_chars())
    values, is_wrong = parse(below)
    n_wrong = np.count_nonzero(is_wrong, axis=0)
    n_present = np.count_nonzero(~np.isnan(values), axis=0) + n_wrong
    is_numeric = (n_present > 0) & (n_present - n_wrong >= MIN_NUMERIC * n_present)
    has_header = header
    if has_header is None:
        has_header = bool(np.any(is_text[is_numeric] if is_numeric.any() else is_text))
    columns = []
    for i, cell in enumerate(top):
        name = (" ".join(cell.split()) or f"column {i + 1}") if has_header else f"x{i + 1}"
        if is_numeric[i] or not n_present[i]:
            columns.append(Column(name, "numbers" if is_numeric[i] else "empty"))
            continue
        column = below.to_series(i)
        wrong = column.filter(is_wrong[:, i])
        kind = _kind_of_text(column.filter(is_wrong[:, i] | ~np.isnan(values[:, i])), wrong)
        place = places[start + int(np.argmax(is_wrong[:, i]))]
        has_code = kind == "text" and n_wrong[i] < n_present[i] and wrong.n_unique() == 1
        problem = not_a_number(source, unit, place, name, wrong[:1], parse)
        columns.append(Column(name, kind, problem, wrong[0] if has_code else ""))
    first = below.to_series(0)
    is_counted = first.str.contains(r"^[0-9]+$").fill_null(False).all() and first.is_unique().all()
    if has_header and is_counted and len(top) > 1 and not top[0].strip():
        columns[0] = Column(columns[0].name, "row numbers")
    return has_header, tuple(columns)


def _kind_of_text(present: pl.Series, wrong: pl.Series) -> str:
    """Return what a column holds that is mostly not numbers, by its cells and those that are not numbers."""
    if present.str.contains(_DATE).all():
        return "dates"
    if present.is_in(["true", "false"]).all():
        return "true and false"
    return AMBIGUOUS if wrong.str.contains(DECORATED_NUMBER).all() else "text"


def is_code(cell: str) -> bool:
    """Return whether a cell that is not a number may stand for a missing value."""
    return len(cell) <= LONGEST_CODE and "," not in cell and not re.match(DECORATED_NUMBER, cell)


def cell_place(source: str, unit: str, place: int, name: str) -> str:
    """Return where a cell is."""
    return f"{source}, {unit} {place:,}, column {quote(name)}"


def not_a_number(
    source: str, unit: str, place: int, name: str, cells: Iterable[str], parse: NumberParser
) -> str:
    """Return the message on a cell that should be a number: the first of several, which may be codes."""
    cell, *others = dict.fromkeys(each.strip() for each in cells)
    groups = re.search(r"\d([,.'\s_])\d{3}(?!\d)", cell)
    if not re.match(DECORATED_NUMBER, cell):
        found = [each for each in (cell, *others) if is_code(each)]
        found = found if len(found) <= MAX_CODES else found[:1]
        what = "it stands for a missing value" if len(found) == 1 else "they stand for missing values"
        missing = f", use --na-values {shlex.quote(','.join([*sorted(parse.missing), *found]))} if {what}"
        remedy = f"Correct the cell{missing if is_code(cell) else ''}"
    elif groups is None and re.match(WRITTEN_NUMBER, cell):
        sign = "comma, like the other numbers" if parse.decimal == "," else "point"
        remedy = f"Write it with a decimal {sign}"
    else:
        sign = groups[1] if groups else "." if parse.decimal == "," else ","
        remedy = f"Use --thousands '{sign}'" if sign != "'" else 'Use --thousands "\'"'
        remedy += " to read thousands separators, currency and percent signs"
    return (
        f"{cell_place(source, unit, place, name)}: {quote(cell)} is not a number. "
        f"{remedy}, or exclude the column with --columns."
    )


# --- which columns are read -----------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that are read, by their positions from zero, and those left out by default.

    Attributes
    ----------
    columns : tuple of int
        Columns of numbers.
    strings : dict
        Columns that are read as strings: the one of "label", of "id", and columns of text by their names.
    skipped : tuple of int
    """

    columns: tuple[int, ...]
    strings: dict[str, int]
    skipped: tuple[int, ...] = ()


def choose_columns(
    content: Content,
    columns: Sequence[str | int] | str | None,
    label_column: str | int | None,
    keep: Sequence[str | int] = (),
    id_column: str | int | None = None,
) -> ColumnChoice:
    """Return which columns to read.

    Parameters
    ----------
    content : Content
    columns : sequence of str or int, optional
        Names, or numbers from one; by default all columns of numbers except the
        label column.
    label_column : str or int, optional
    keep : sequence of str or int, optional
        Columns that are read although they would be left out by default, or "all" for all of them.
    id_column : str or int, optional
        The column that names the rows.
    """
    table = content.columns
    asked = {"label": label_column, "id": id_column}
    strings = {key: find_columns(content, each)[0] for key, each in asked.items() if each is not None}
    wanted = [each for each in keep if each != ALL] if columns is None else columns
    named = tuple(dict.fromkeys(find_columns(content, wanted)))
    for key, position in strings.items():
        if position in named:
            option = "--keep" if columns is None else "--columns"
            name = quote(table[position].name)
            raise TableError(f"Column {name} is the {key} column: remove it from {option}.")
    used = named
    skipped: tuple[int, ...] = ()
    if columns is None:
        kinds = ("numbers", "row numbers") if ALL in keep else ("numbers",)
        others = [i for i in range(len(table)) if i not in strings.values()]
        used = tuple(i for i in others if i in named or table[i].kind in kinds)
        skipped = tuple(i for i in others if i not in used)
    for i in (*used, *skipped):
        if table[i].problem and (i in named or table[i].kind == AMBIGUOUS):
            raise TableError(table[i].problem)
    if not used:
        held = [f"{quote(table[i].name)} ({table[i].holds})" for i in skipped]
        raise TableError(
            f"{content.name} has no numeric column: {join_names(held or ['none is left or chosen'])}. "
            "Give a file with at least one column of numbers."
        )
    names = [table[i].name for i in used]
    if len(set(names)) < len(names):
        raise _ambiguous(content, next(name for name in names if names.count(name) > 1))
    texts = [i for i in skipped if table[i].kind in ("text", "true and false")]
    return ColumnChoice(used, {f"text {table[i].name}": i for i in texts} | strings, skipped)


def find_columns(content: Content, wanted: Sequence[str | int] | str | int) -> tuple[int, ...]:
    """Return the positions of columns by their names, or by their numbers from one."""
    names = [column.name for column in content.columns]
    known = {name: i for i, name in enumerate(names)}
    positions = []
    for each in [wanted] if isinstance(wanted, str | int) else wanted:
        text = str(each).strip()
        if each in known:
            if len(known) < len(names) and names.count(text) > 1:
                raise _ambiguous(content, text)
            positions.append(known[each])
        elif text.isdecimal() and text.isascii() and 1 <= int(text) <= len(names):
            positions.append(int(text) - 1)
        else:
            by_lower = {name.lower(): quote(name) for name in names}
            close = difflib.get_close_matches(text.lower(), by_lower, n=3)
            guess = f" Did you mean {' or '.join(by_lower[name] for name in close)}?" if close else ""
            listed = join_names([quote(name) for name in names], most=20)
            raise TableError(f"{content.name} has no column {quote(text)}.{guess} Its columns are {listed}.")
    return tuple(positions)


def _ambiguous(content: Content, name: str) -> TableError:
    numbers = [str(i) for i, column in enumerate(content.columns, start=1) if column.name == name]
    return TableError(
        f"{content.name} has {len(numbers)} columns called {quote(name)} (columns {join_names(numbers)}): "
        "rename them, or choose one by its number with --columns."
    )


def match_columns(first: Content, choice: ColumnChoice, other: Content, *, must_agree: bool) -> ColumnChoice:
    """Return where another file has the columns that are read of the first one.

    Parameters
    ----------
    first : Content
    choice : ColumnChoice
    other : Content
    must_agree : bool
        Whether all columns must be the same, not only those that are read.
    """
    names, others = ([column.name for column in content.columns] for content in (first, other))
    if must_agree and sorted(names) != sorted(others):
        differing = sorted(set(names) ^ set(others)) or names
        raise TableError(
            f"{other.name} has other columns than {first.name}: they differ in "
            f"{join_names([quote(name) for name in differing])}. Give files with the same columns, or choose "
            "columns with --columns."
        )
    matched = choose_columns(other, [names[position] for position in choice.columns], None)
    strings = {key: find_columns(other, names[position])[0] for key, position in choice.strings.items()}
    return replace(matched, strings=strings)
