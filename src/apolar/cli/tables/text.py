"""Tables of text: whole blocks by NumPy's parser, and cell by cell where that fails."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.cli.tables.cells import numbers
from apolar.cli.tables.columns import Choice
from apolar.cli.tables.content import Batch, Content
from apolar.cli.tables.dialect import is_blank, records
from apolar.cli.tables.errors import TableError
from apolar.cli.tables.layout import TOO_LONG, Layout, layout, not_a_number, ragged, unclosed
from apolar.cli.tables.lines import Block, Lines


def open_text(source: str, read: Callable[[int], bytes], done: Callable[[], int]) -> Content:
    """Return the content of a file of text.

    Parameters
    ----------
    source : str
        How messages call the file.
    read : callable
        Takes a number of bytes and returns as many, or those that are left.
    done : callable
        Returns how much of the file has been read.

    Returns
    -------
    content : Content
    """
    lines = Lines(read, source)
    block = _start(lines, source)
    table = layout(source, block)
    if table.n_header_lines < len(block.lines):
        lines.put_back(block.after(table.n_header_lines))
    return Content(table.columns, "line", lambda choice: _Reader(source, lines, table, choice).batches(done))


def _start(lines: Lines, source: str) -> Block:
    """Return the first lines without comments and blank lines above them."""
    while (block := lines.next_block()) is not None:
        for i, line in enumerate(block.lines):
            if line.strip() and not line.startswith("#"):
                block = block.after(i) if i else block
                # A header may fill a block; without a row below it nothing can be told.
                if len(block.lines) == 1 and (more := lines.next_block()) is not None:
                    gap = "\n" * (more.first - block.first)
                    block = Block(block.first, block.text + gap + more.text)
                return block
    raise TableError(f"{source} is empty: give a file with a table of numbers.")


class _Reader:
    """The rows of a text, as numbers."""

    def __init__(self, source: str, lines: Lines, table: Layout, choice: Choice) -> None:
        self._source = source
        self._lines = lines
        self._layout = table
        self._choice = choice
        self._width = len(table.columns)
        self._is_all = choice.columns == tuple(range(self._width))

    def batches(self, done: Callable[[], int]) -> Iterator[Batch]:
        """Yield all rows."""
        while (block := self._lines.next_block()) is not None:
            values = self._quickly(block)
            if values is not None:
                places = range(block.first, block.first + len(values))
                yield Batch(values, self._labels(block), places, done())
            else:
                yield Batch(*self._carefully(block), done())

    def _quickly(self, block: Block) -> Array | None:
        """Return the numbers of a block if all is as it should be, None if it needs a closer look."""
        text, delimiter, decimal = block.text, self._layout.delimiter, self._layout.decimal
        if '"' in text or (decimal is None and ("," in text or "." in text)):
            return None
        if decimal == ",":
            if "." in text:
                return None
            text = text.replace(",", ".")
        if delimiter is not None:
            text = _filled(text, delimiter)
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

    def _labels(self, block: Block) -> list[str] | None:
        """Return the label column of a block without quotes and blank lines."""
        label, delimiter = self._choice.label, self._layout.delimiter
        if label is None:
            return None
        return [line.split(delimiter, label + 1)[label].strip() for line in block.lines]

    def _carefully(self, block: Block) -> tuple[Array, list[str] | None, list[int]]:
        """Return numbers, labels and lines of a block, and of what its last row has in the next one."""
        places, rows = self._rows(block)
        cells: list[tuple[str, ...]] = list(zip(*rows, strict=True)) if rows else [()] * self._width
        if self._layout.decimal is None:
            self._layout = replace(self._layout, decimal=self._decimal(cells))
        values = np.empty((len(rows), len(self._choice.columns)))
        errors = []
        for i, column in enumerate(self._choice.columns):
            values[:, i], bad = numbers(cells[column], self._layout.decimal or ".")
            if bad is not None:
                errors.append((bad, column))
        if errors:
            row, column = min(errors)
            name, cell = self._layout.columns[column].name, rows[row][column]
            raise TableError(not_a_number(self._source, places[row], name, cell, self._layout.decimal))
        label = self._choice.label
        return values, None if label is None else [cell.strip() for cell in cells[label]], places

    def _rows(self, block: Block) -> tuple[list[int], list[list[str]]]:
        """Return the first lines and the cells of the rows that start in a block."""
        places: list[int] = []
        rows: list[list[str]] = []
        n_lines = len(block.lines)
        stop = 0
        taken = _Taken(block, self._lines)
        try:
            for start, stop, cells in records(taken, self._layout.delimiter):
                # More lines are asked for only where a cell in quotes goes on.
                if taken.has_run_out:
                    raise unclosed(self._source, block.first + start, "a quote is opened and never closed")
                if len(cells) == self._width:
                    places.append(block.first + start)
                    rows.append(cells)
                elif not is_blank(cells):
                    raise ragged(self._source, block.first + start, cells, self._width, "Fix the line.")
                elif self._width == 1:
                    places.append(block.first + start)
                    rows.append([""])
                if stop >= n_lines:
                    break
        except csv.Error as error:
            raise unclosed(self._source, block.first + stop, TOO_LONG) from error
        taken.put_back()
        return places, rows

    def _decimal(self, cells: list[tuple[str, ...]]) -> str | None:
        """Return the decimal sign that a block shows; None if it still shows none."""
        text = "".join("".join(cells[column]) for column in self._choice.columns)
        return "," if "," in text else "." if "." in text else None


class _Taken:
    """The lines of a block, and then those of the next, as far as they are asked for."""

    def __init__(self, block: Block, lines: Lines) -> None:
        self._block = block
        self._lines = lines
        self._next: Block | None = None
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
        """Give back the lines of the next block that nobody took."""
        if self._next is not None and self._n_taken < len(self._next.lines):
            self._lines.put_back(self._next.after(self._n_taken))


def _n_cells(line: str, delimiter: str | None) -> int:
    return len(line.split()) if delimiter is None else line.count(delimiter) + 1


def _filled(text: str, delimiter: str) -> str:
    """Return a text without quotes with "nan" for the commonest ways to say missing: nothing, and NA."""
    for word in ("", "NA"):
        inside = f"{delimiter}{word}{delimiter}"
        if inside in text:
            # Twice: of two such cells in a row, the delimiter between them belongs to both.
            for _ in range(2):
                text = text.replace(inside, f"{delimiter}nan{delimiter}")
        text = text.replace(f"\n{word}{delimiter}", f"\nnan{delimiter}")
        text = text.replace(f"{delimiter}{word}\n", f"{delimiter}nan\n")
        if text.startswith(word + delimiter):
            text = "nan" + text.removeprefix(word)
        if text.endswith(delimiter + word):
            text = text.removesuffix(word) + "nan"
    return text
