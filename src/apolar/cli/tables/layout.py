"""The columns of a text, guessed from its first rows: header, names, decimal sign, which hold numbers."""

import csv
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from apolar._core.checks import is_missing
from apolar.cli.tables.cells import is_number, is_written_number
from apolar.cli.tables.columns import Column
from apolar.cli.tables.dialect import is_blank, likely_delimiter, records
from apolar.cli.tables.errors import TableError, counted, quoted
from apolar.cli.tables.lines import Block

SAMPLE_ROWS = 1000
_SNIFFED_LINES = 100

TOO_LONG = f"a cell has more than {csv.field_size_limit():,} letters, as if a quote were not closed"

# A column with so many numbers among its cells is one of numbers: its other cells are errors, not texts.
MOSTLY = 0.9

Row = tuple[int, list[str]]
"""The number of a line and its cells."""


@dataclass(frozen=True)
class Layout:
    """How a text is a table.

    Attributes
    ----------
    delimiter : str or None
        None for white space.
    decimal : {".", ","} or None
        None if no number has told yet.
    n_header_lines : int
        How many lines the header has at the start of the block.
    columns : tuple of Column
    """

    delimiter: str | None
    decimal: str | None
    n_header_lines: int
    columns: tuple[Column, ...]


def layout(source: str, block: Block) -> Layout:
    """Return the layout of a text.

    Parameters
    ----------
    source : str
        How messages call the file.
    block : Block
        The start of the text, from the first line that is neither a comment
        nor blank.

    Returns
    -------
    layout : Layout
    """
    delimiter = likely_delimiter(block.lines[:_SNIFFED_LINES])
    (first_line, first), below, n_first_lines = _sample(source, block, delimiter)
    if not below:
        what = "a header and no rows below it" if _has_text(first, ".") else "only one row of numbers"
        raise TableError(f"{source} has {what}: at least two are needed.")
    decimal = _decimal(below) if delimiter == ";" else "."
    header = _whole_header(first, below) if _has_text(first, decimal) else first
    rows = [row for row in below if len(row[1]) == len(header)]
    guesses = [_guess(source, f"x{i + 1}", i, rows, decimal) for i in range(len(header))]
    if not rows or (len(header) > len(first) and not any(guess.is_numeric for guess in guesses)):
        hint = f"If line {first_line:,} is a title, remove it."
        raise ragged(source, *below[0], len(first), hint)
    first = header
    numeric = [cell for cell, guess in zip(first, guesses, strict=True) if guess.is_numeric]
    if not _has_text(numeric or first, decimal):
        return Layout(delimiter, decimal, 0, tuple(guesses))
    names = [" ".join(cell.split()) for cell in first]
    columns = [_guess(source, name or f"column {i + 1}", i, rows, decimal) for i, name in enumerate(names)]
    if not names[0] and _is_index(rows) and len(names) > 1:
        columns[0] = Column(columns[0].name, False, "numbers the rows")
    return Layout(delimiter, decimal, n_first_lines, tuple(columns))


def ragged(source: str, line: int, cells: Sequence[str], expected: int, hint: str) -> TableError:
    """Return the error of a row with too many or too few cells."""
    if any("\n" in cell for cell in cells):
        hint = "A cell in quotes goes over several lines there: look whether it should."
    found = f"{'is' if len(cells) == 1 else 'are'} {counted(len(cells), 'cell')}"
    return TableError(f"{source}, line {line:,}: there {found} instead of {expected:,}. {hint}")


def unclosed(source: str, line: int, what: str) -> TableError:
    """Return the error of a cell in quotes that does not end."""
    return TableError(f"{source}, line {line:,}: {what}. Close the quote, or remove it.")


def not_a_number(source: str, line: int, name: str, cell: str, decimal: str | None) -> str:
    """Return what is said of a cell that should be a number."""
    remedy = "Fix the cell (leave it empty if the number is missing)"
    if is_written_number(cell):
        sign = "comma, as the other numbers," if decimal == "," else "point"
        remedy = f"Write it with a decimal {sign} and without thousands separators"
    return (
        f"{source}, line {line:,}, column {quoted(name)}: {quoted(cell)} is not a number. "
        f"{remedy}, or leave the column out with --columns."
    )


def _sample(source: str, block: Block, delimiter: str | None) -> tuple[Row, list[Row], int]:
    """Return the first row, those below it, and the number of lines of the first."""
    rows: list[Row] = []
    stop = n_first_lines = 0
    try:
        for start, stop, cells in itertools.islice(records(block.lines, delimiter), SAMPLE_ROWS + 1):
            n_first_lines = n_first_lines or stop
            rows.append((block.first + start, cells))
    except csv.Error as error:
        raise unclosed(source, block.first + stop, TOO_LONG) from error
    below = [row for row in rows[1:] if not is_blank(row[1])]
    return rows[0], below, n_first_lines


def _has_text(cells: Sequence[str], decimal: str | None) -> bool:
    return any(not is_missing(cell) and not is_number(cell, decimal or ".") for cell in cells)


def _decimal(rows: Sequence[Row]) -> str | None:
    """Return the decimal sign of most numbers that have one; None if none has."""
    votes = Counter(
        sign for _, cells in rows for cell in cells for sign in ".," if sign in cell and is_number(cell, sign)
    )
    return "," if votes[","] > votes["."] else "." if votes["."] else None


def _whole_header(names: list[str], rows: Sequence[Row]) -> list[str]:
    """Return the names of a header that may leave out one: that of row names, or of an empty last column."""
    (width, _), *_ = Counter(len(cells) for _, cells in rows).most_common(1)
    if len(names) != width - 1:
        return names
    last_is_empty = all(not cells[-1].strip() for _, cells in rows if len(cells) == width)
    return [*names, ""] if last_is_empty else ["", *names]


def _guess(source: str, name: str, position: int, rows: Sequence[Row], decimal: str | None) -> Column:
    sign = decimal or "."
    present = [(cells[position], line) for line, cells in rows if not is_missing(cells[position])]
    if not present:
        return Column(name, False, "is empty")
    others = [(cell, line) for cell, line in present if not is_number(cell, sign)]
    if len(present) - len(others) >= MOSTLY * len(present):
        return Column(name, True)
    cell, line = others[0]
    refusal = not_a_number(source, line, name, cell, decimal)
    written = all(is_number(other, sign) or is_written_number(other) for other, _ in present)
    note = f"holds text such as {quoted(cell)}"
    return Column(name, False, note, refusal, refusal if written else None)


def _is_index(rows: Sequence[Row]) -> bool:
    """Return whether the first cells are integers, none twice: the row numbers of another program."""
    cells = [cells[0].strip() for _, cells in rows]
    return all(cell.isascii() and cell.isdigit() for cell in cells) and len(set(cells)) == len(cells)
