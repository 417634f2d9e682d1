"""Tables of text: header and columns are guessed from the first rows, then all rows are read as numbers."""

import csv
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array
from apolar.cli.tables.lines import (
    LineBlock,
    Lines,
    is_blank,
    is_date,
    is_number,
    is_written_number,
    likely_delimiter,
    numbers,
    records,
)
from apolar.cli.tables.table import (
    Column,
    ColumnChoice,
    ReadOptions,
    RowBatch,
    TableContent,
    TableError,
    TableInput,
    counted,
    quoted,
)

SAMPLE_ROWS = 1000
_SNIFFED_LINES = 100

TOO_LONG = f"a cell has more than {csv.field_size_limit():,} letters, as if a quote were not closed"

# A column is one of numbers if at least this part of its cells are; its other cells are errors then.
MOSTLY = 0.9

IsMissing = Callable[[str], bool]
"""Takes a cell, and says whether it stands for a missing value."""

TextRow = tuple[int, list[str]]
"""The number of a line and its cells."""


def open_text(file: TableInput) -> TableContent:
    """Return the content of a file of text, which is read forwards."""
    options = file.options
    lines = Lines(file.read, file.name, options.encoding)
    block = _start(lines, file.name)
    layout = _layout(file.name, block, options)
    if layout.n_header_lines < len(block.lines):
        lines.put_back(block.after(layout.n_header_lines))

    def batches(choice: ColumnChoice) -> Iterator[RowBatch]:
        return _TextRows(file.name, lines, layout, choice, options).batches(file.done)

    return TableContent(layout.columns, "line", batches)


def _start(lines: Lines, source: str) -> LineBlock:
    """Return the first lines without comments and blank lines above them."""
    while (block := lines.next_block()) is not None:
        for i, line in enumerate(block.lines):
            if line.strip() and not line.startswith("#"):
                block = block.after(i) if i else block
                # A header may fill a block; without a row below it, it cannot be recognised.
                if len(block.lines) == 1 and (below := lines.next_block()) is not None:
                    gap = "\n" * (below.first - block.first)
                    block = LineBlock(block.first, block.text + gap + below.text)
                return block
    raise TableError(f"{source} is empty: give a file with a table of numbers.")


# --- the columns, guessed from the first rows ------------------------------------------------


@dataclass(frozen=True)
class TextLayout:
    """How lines of text are a table.

    Attributes
    ----------
    delimiter : str or None
        None for white space.
    decimal : {".", ","} or None
        None if no number has had one yet.
    n_header_lines : int
        How many lines the header has at the start of the block.
    columns : tuple of Column
    """

    delimiter: str | None
    decimal: str | None
    n_header_lines: int
    columns: tuple[Column, ...]


def _layout(source: str, block: LineBlock, options: ReadOptions) -> TextLayout:
    """Return the layout of a file of text.

    Parameters
    ----------
    source : str
        How messages call the file.
    block : LineBlock
        Its start, from the first line that is neither a comment
        nor blank.
    options : ReadOptions

    Returns
    -------
    layout : TextLayout
    """
    is_missing = options.is_missing
    delimiter = likely_delimiter(block.lines[:_SNIFFED_LINES], is_missing)
    (first_line, first), below, n_first_lines = _sample(source, block, delimiter)
    if not below:
        what = (
            "a header and no rows below it"
            if _has_text(first, ".", is_missing)
            else "only one row of numbers"
        )
        raise TableError(f"{source} has {what}: at least two are needed.")
    decimal = _decimal(below) if delimiter == ";" else "."
    header = _full_header(first, below) if _has_text(first, decimal, is_missing) else first
    rows = [row for row in below if len(row[1]) == len(header)]
    guesses = [_guess(source, f"x{i + 1}", i, rows, decimal, is_missing) for i in range(len(header))]
    if not rows or (len(header) > len(first) and not any(guess.is_numeric for guess in guesses)):
        hint = f"If line {first_line:,} is a title, remove it."
        raise _ragged(source, *below[0], len(first), hint)
    first = header
    numeric = [cell for cell, guess in zip(first, guesses, strict=True) if guess.is_numeric]
    if not _has_text(numeric or first, decimal, is_missing):
        return TextLayout(delimiter, decimal, 0, tuple(guesses))
    names = [" ".join(cell.split()) for cell in first]
    columns = [
        _guess(source, name or f"column {i + 1}", i, rows, decimal, is_missing)
        for i, name in enumerate(names)
    ]
    if not names[0] and _is_index(rows) and len(names) > 1:
        columns[0] = Column(columns[0].name, False, "numbers the rows", kind="counter")
    return TextLayout(delimiter, decimal, n_first_lines, tuple(columns))


def _ragged(source: str, line: int, cells: Sequence[str], expected: int, hint: str) -> TableError:
    """Return the error of a row with too many or too few cells."""
    if any("\n" in cell for cell in cells):
        hint = "A cell in quotes goes over several lines there: look whether it should."
    verb = "is" if len(cells) == 1 else "are"
    return TableError(
        f"{source}, line {line:,}: there {verb} {counted(len(cells), 'cell')} instead of {expected:,}. {hint}"
    )


def _unclosed(source: str, line: int, what: str) -> TableError:
    """Return the error of a cell in quotes that does not end."""
    return TableError(f"{source}, line {line:,}: {what}. Close the quote, or remove it.")


def _not_a_number(source: str, line: int, name: str, cell: str, decimal: str | None) -> str:
    """Return the message on a cell that should be a number."""
    remedy = "Fix the cell (leave it empty if the number is missing)"
    if is_written_number(cell):
        sign = "comma, as the other numbers," if decimal == "," else "point"
        remedy = f"Write it with a decimal {sign} and without thousands separators"
    return (
        f"{source}, line {line:,}, column {quoted(name)}: {quoted(cell)} is not a number. "
        f"{remedy}, or leave the column out with --columns."
    )


def _sample(source: str, block: LineBlock, delimiter: str | None) -> tuple[TextRow, list[TextRow], int]:
    """Return the first row, those below it, and the number of lines of the first."""
    rows: list[TextRow] = []
    stop = n_first_lines = 0
    try:
        for start, stop, cells in itertools.islice(records(block.lines, delimiter), SAMPLE_ROWS + 1):
            n_first_lines = n_first_lines or stop
            rows.append((block.first + start, cells))
    except csv.Error as error:
        raise _unclosed(source, block.first + stop, TOO_LONG) from error
    below = [row for row in rows[1:] if not is_blank(row[1])]
    return rows[0], below, n_first_lines


def _has_text(cells: Sequence[str], decimal: str | None, is_missing: IsMissing) -> bool:
    return any(not is_missing(cell) and not is_number(cell, decimal or ".") for cell in cells)


def _decimal(rows: Sequence[TextRow]) -> str | None:
    """Return the decimal sign of most numbers that have one; None if none has."""
    votes = Counter(
        sign for _, cells in rows for cell in cells for sign in ".," if sign in cell and is_number(cell, sign)
    )
    return "," if votes[","] > votes["."] else "." if votes["."] else None


def _full_header(names: list[str], rows: Sequence[TextRow]) -> list[str]:
    """Return the names of a header that may leave out one: that of row names, or of an empty last column."""
    (width, _), *_ = Counter(len(cells) for _, cells in rows).most_common(1)
    if len(names) != width - 1:
        return names
    last_is_empty = all(not cells[-1].strip() for _, cells in rows if len(cells) == width)
    return [*names, ""] if last_is_empty else ["", *names]


def _guess(
    source: str,
    name: str,
    position: int,
    rows: Sequence[TextRow],
    decimal: str | None,
    is_missing: IsMissing,
) -> Column:
    sign = decimal or "."
    present = [(cells[position], line) for line, cells in rows if not is_missing(cells[position])]
    if not present:
        return Column(name, False, "is empty", kind="nothing")
    others = [(cell, line) for cell, line in present if not is_number(cell, sign)]
    if len(present) - len(others) >= MOSTLY * len(present):
        return Column(name, True)
    cell, line = others[0]
    refusal = _not_a_number(source, line, name, cell, decimal)
    written = all(is_number(other, sign) or is_written_number(other) for other, _ in present)
    kind = "dates" if all(is_date(other) for other, _ in present) else "text"
    note = f"holds {kind} such as {quoted(cell)}"
    return Column(name, False, note, refusal, refusal if written and kind == "text" else None, kind)


def _is_index(rows: Sequence[TextRow]) -> bool:
    """Return whether the first cells are integers, none twice: the row numbers of another program."""
    cells = [cells[0].strip() for _, cells in rows]
    return all(cell.isascii() and cell.isdigit() for cell in cells) and len(set(cells)) == len(cells)


# --- the rows -------------------------------------------------------------------------------


class _TextRows:
    """The rows of a file of text, as numbers: whole blocks by NumPy, and cell by cell where that fails."""

    def __init__(
        self, source: str, lines: Lines, layout: TextLayout, choice: ColumnChoice, options: ReadOptions
    ) -> None:
        self._options = options
        self._source = source
        self._lines = lines
        self._layout = layout
        self._choice = choice
        self._width = len(layout.columns)
        self._is_all = choice.columns == tuple(range(self._width))

    def batches(self, done: Callable[[], int]) -> Iterator[RowBatch]:
        """Yield all rows."""
        while (block := self._lines.next_block()) is not None:
            values = self._quickly(block)
            if values is not None:
                places = range(block.first, block.first + len(values))
                yield RowBatch(values, self._labels(block), places, done())
            else:
                yield RowBatch(*self._carefully(block), done())

    def _quickly(self, block: LineBlock) -> Array | None:
        """Return the numbers of a block if all is as it should be, None if it needs a closer look."""
        text, delimiter, decimal = block.text, self._layout.delimiter, self._layout.decimal
        if '"' in text or (decimal is None and ("," in text or "." in text)):
            return None
        if decimal == ",":
            if "." in text:
                return None
            text = text.replace(",", ".")
        if delimiter is not None:
            text = _filled(text, delimiter, self._options.missing)
        lines = text.split("\n")
        # NumPy counts the cells of a row only if it reads them all.
        if not self._is_all and any(_n_cells(line, delimiter) != self._width for line in lines):
            return None
        try:
            values = np.loadtxt(
                lines,
                delimiter=delimiter,
                usecols=None if self._is_all else self._choice.columns,
                comments=None,
                ndmin=2,
            )
        except ValueError:
            return None
        # Blank lines are passed over, and are missing numbers if there is one column.
        return values if values.shape == (len(lines), len(self._choice.columns)) else None

    def _labels(self, block: LineBlock) -> list[str] | None:
        """Return the label column of a block without quotes and blank lines."""
        label, delimiter = self._choice.label, self._layout.delimiter
        if label is None:
            return None
        return [line.split(delimiter, label + 1)[label].strip() for line in block.lines]

    def _carefully(self, block: LineBlock) -> tuple[Array, list[str] | None, list[int]]:
        """Return numbers, labels and lines of a block, and of what its last row has in the next one."""
        places, rows = self._rows(block)
        cells: list[tuple[str, ...]] = list(zip(*rows, strict=True)) if rows else [()] * self._width
        if self._layout.decimal is None:
            self._layout = replace(self._layout, decimal=self._decimal(cells))
        values = np.empty((len(rows), len(self._choice.columns)))
        errors = []
        for i, column in enumerate(self._choice.columns):
            values[:, i], bad = numbers(cells[column], self._layout.decimal or ".", self._options.is_missing)
            if bad is not None:
                errors.append((bad, column))
        if errors:
            row, column = min(errors)
            name, cell = self._layout.columns[column].name, rows[row][column]
            raise TableError(_not_a_number(self._source, places[row], name, cell, self._layout.decimal))
        label = self._choice.label
        return values, None if label is None else [cell.strip() for cell in cells[label]], places

    def _rows(self, block: LineBlock) -> tuple[list[int], list[list[str]]]:
        """Return the first lines and the cells of the rows that start in a block."""
        places: list[int] = []
        rows: list[list[str]] = []
        n_lines = len(block.lines)
        stop = 0
        taken = _LinesOnDemand(block, self._lines)
        try:
            for start, stop, cells in records(taken, self._layout.delimiter):
                # More lines are asked for only where a cell in quotes goes on.
                if taken.has_run_out:
                    raise _unclosed(self._source, block.first + start, "a quote is opened and never closed")
                if len(cells) == self._width:
                    places.append(block.first + start)
                    rows.append(cells)
                elif not is_blank(cells):
                    raise _ragged(self._source, block.first + start, cells, self._width, "Fix the line.")
                elif self._width == 1:
                    places.append(block.first + start)
                    rows.append([""])
                if stop >= n_lines:
                    break
        except csv.Error as error:
            raise _unclosed(self._source, block.first + stop, TOO_LONG) from error
        taken.put_back()
        return places, rows

    def _decimal(self, cells: list[tuple[str, ...]]) -> str | None:
        """Return the decimal sign that a block shows; None if it still shows none."""
        text = "".join("".join(cells[column]) for column in self._choice.columns)
        return "," if "," in text else "." if "." in text else None


class _LinesOnDemand:
    """The lines of a block, and then those of the next, as far as they are asked for."""

    def __init__(self, block: LineBlock, lines: Lines) -> None:
        self._block = block
        self._lines = lines
        self._next: LineBlock | None = None
        self._n_taken = 0  # of the next
        self.has_run_out = False

    def __iter__(self) -> Iterator[str]:
        yield from self._block.lines
        while (block := self._lines.next_block()) is not None:
            self._next = block
            for self._n_taken, line in enumerate(block.lines, start=1):
                yield line
        self.has_run_out = True

    def put_back(self) -> None:
        """Give back the lines of the next block that were not taken."""
        if self._next is not None and self._n_taken < len(self._next.lines):
            self._lines.put_back(self._next.after(self._n_taken))


def _n_cells(line: str, delimiter: str | None) -> int:
    return len(line.split()) if delimiter is None else line.count(delimiter) + 1


def _filled(text: str, delimiter: str, missing: Iterable[str]) -> str:
    """Return text without quotes with "nan" for the usual ways to say missing: nothing, NA, and others."""
    for word in ("", "NA", *missing):
        inside = f"{delimiter}{word}{delimiter}"
        if inside in text:
            # Twice: of two such cells side by side, the delimiter between them belongs to both.
            for _ in range(2):
                text = text.replace(inside, f"{delimiter}nan{delimiter}")
        text = text.replace(f"\n{word}{delimiter}", f"\nnan{delimiter}")
        text = text.replace(f"{delimiter}{word}\n", f"{delimiter}nan\n")
        if text.startswith(word + delimiter):
            text = "nan" + text.removeprefix(word)
        if text.endswith(delimiter + word):
            text = text.removesuffix(word) + "nan"
    return text
