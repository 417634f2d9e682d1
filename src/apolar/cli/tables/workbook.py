"""Tables in Excel workbooks, if openpyxl is installed."""

import datetime
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from apolar.cli.tables.lines import is_date, is_number
from apolar.cli.tables.table import (
    Column,
    ColumnChoice,
    ReadOptions,
    RowBatch,
    TableContent,
    TableError,
    TableInput,
    joined,
    quoted,
)

_BATCH_ROWS = 2**12
# As for text: rows that the columns are guessed from, and the part of numbers in a column of numbers.
_SAMPLE_ROWS = 1000
_MOSTLY = 0.9

_DATES = (datetime.date, datetime.time, datetime.timedelta)

SheetRow = tuple[int, list[Any]]
"""The number of a row in the sheet, from one, and its cells, at least one of them not empty."""


def open_workbook(file: TableInput) -> TableContent:
    """Return the content of a sheet: the values that were stored with formulas, and blank rows left out."""
    sheet = _opened(file)
    rows = _rows(file.name, sheet)
    sample = list(itertools.islice(rows, _SAMPLE_ROWS + 1))
    if not sample:
        raise TableError(f"{file.name}: the sheet {quoted(sheet.title)} is empty: give another with --sheet.")
    options = file.options
    width = max(len(cells) for _, cells in sample)
    header = _padded(sample[0][1], width)
    has_header = any(isinstance(cell, str) and _number(cell, options) is None for cell in header)
    below = sample[1:] if has_header else sample
    if not below:
        raise TableError(f"{file.name} has a header and no rows below it: at least two are needed.")
    names = [_name(cell, i) for i, cell in enumerate(header)] if has_header else []
    columns = tuple(
        _column(file.name, names[i] if names else f"x{i + 1}", i, below, options) for i in range(width)
    )
    n_rows, n_bytes = max(sheet.max_row or 1, 1), file.n_bytes or 0

    def batches(choice: ColumnChoice) -> Iterator[RowBatch]:
        every = itertools.chain(below, rows)
        while part := list(itertools.islice(every, _BATCH_ROWS)):
            values = np.empty((len(part), len(choice.columns)))
            for row, (place, cells) in enumerate(part):
                padded = _padded(cells, width)
                if any(cell is not None for cell in padded[width:]):
                    raise TableError(
                        f"{file.name}, row {place:,}: there are cells to the right of the last column. "
                        "Remove them, or give them a column."
                    )
                for i, column in enumerate(choice.columns):
                    cell = padded[column]
                    value = _number(cell, options)
                    if value is None:
                        raise TableError(_not_a_number(file.name, place, columns[column].name, cell))
                    values[row, i] = value
            labels = None if choice.label is None else [_label(cells, choice.label) for _, cells in part]
            done = n_bytes * min(part[-1][0], n_rows) // n_rows
            yield RowBatch(values, labels, [place for place, _ in part], done)

    return TableContent(columns, "row", batches)


def sheet_rows(file: TableInput) -> Iterator[SheetRow]:
    """Yield the rows of a sheet that are not blank, the header too."""
    return _rows(file.name, _opened(file))


def _opened(file: TableInput) -> Any:
    """Return the sheet that is read."""
    try:
        import openpyxl
    except ImportError as error:
        raise TableError(
            f'{file.name}: Excel workbooks need openpyxl: pip install "apolar[tables]", or save the table '
            "as CSV."
        ) from error
    with _damage(file.name):
        book = openpyxl.load_workbook(file.file, read_only=True, data_only=True)
        return _sheet(file.name, book, file.options.sheet)


def _sheet(source: str, book: Any, wanted: str | None) -> Any:
    """Return the sheet of a name, or the first that is not empty."""
    titles = [sheet.title for sheet in book.worksheets]
    if wanted is not None:
        if wanted not in titles:
            listed = joined([quoted(title) for title in titles]) if titles else "none"
            raise TableError(f"{source} has no sheet {quoted(wanted)}: its sheets are {listed}.")
        return book[wanted]
    if not titles:
        raise TableError(f"{source} has no sheet with a table: save the table as CSV.")
    return next((sheet for sheet in book.worksheets if not _is_empty(sheet)), book.worksheets[0])


def _is_empty(sheet: Any) -> bool:
    rows = sheet.iter_rows(values_only=True)
    return all(cell is None for row in itertools.islice(rows, 100) for cell in row)


def _rows(source: str, sheet: Any) -> Iterator[SheetRow]:
    """Yield the rows that are not blank."""
    sheet.reset_dimensions()  # programs write wrong ones
    stored = sheet.iter_rows(values_only=True)
    for place in itertools.count(1):
        with _damage(source):
            row = next(stored, None)
        if row is None:
            return
        cells = list(row)
        while cells and (cells[-1] is None or (isinstance(cells[-1], str) and not cells[-1].strip())):
            cells.pop()
        if cells:
            yield place, cells


def _padded(cells: Sequence[Any], width: int) -> list[Any]:
    return [*cells, *[None] * (width - len(cells))]


def _name(cell: Any, position: int) -> str:
    return " ".join(_text(cell).split()) or f"column {position + 1}"


def _label(cells: Sequence[Any], position: int) -> str:
    return _text(cells[position]).strip() if position < len(cells) else ""


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


def _number(cell: Any, options: ReadOptions) -> float | None:
    """Return a cell as a number, NaN if it is missing, None if it is something else."""
    if cell is None:
        return math.nan
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float(cell)
    if isinstance(cell, str):
        if options.is_missing(cell):
            return math.nan
        return float(cell) if is_number(cell) else None
    return None


def _column(source: str, name: str, position: int, rows: Sequence[SheetRow], options: ReadOptions) -> Column:
    present = []
    for place, cells in rows:
        cell = cells[position] if position < len(cells) else None
        number = _number(cell, options)
        if number is None or not math.isnan(number):
            present.append((place, cell, number))
    if not present:
        return Column(name, False, "is empty", kind="nothing")
    others = [(place, cell) for place, cell, number in present if number is None]
    if len(present) - len(others) >= _MOSTLY * len(present):
        return Column(name, True)
    place, cell = others[0]
    are_dates = all(isinstance(other, _DATES) or is_date(_text(other)) for _, other in others)
    are_flags = all(isinstance(other, bool) for _, other in others)
    kind = "dates" if are_dates else "true and false" if are_flags else "text"
    refusal = _not_a_number(source, place, name, cell)
    return Column(name, False, f"holds {kind} such as {quoted(_text(cell))}", refusal, kind=kind)


def _not_a_number(source: str, place: int, name: str, cell: Any) -> str:
    return (
        f"{source}, row {place:,}, column {quoted(name)}: {quoted(_text(cell))} is not a number. Fix the "
        "cell (leave it empty if the number is missing), or leave the column out with --columns."
    )


@contextmanager
def _damage(source: str) -> Iterator[None]:
    """Turn what openpyxl raises, which is almost anything when bytes are damaged, into one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions that do not matter to values
            yield
    except (MemoryError, TableError):
        raise
    except Exception as error:
        raise TableError(f"{source} is no Excel workbook, or is damaged: save the table as CSV.") from error
