"""The rows of a file as they are written in it, to be written again with more columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from apolar.cli.tables.lines import LineBlock, Lines, is_blank, records
from apolar.cli.tables.source import FORMATS, opened
from apolar.cli.tables.table import TableError, TableInput
from apolar.cli.tables.text import TextLayout, _layout, _start


@dataclass(frozen=True, eq=False)
class OriginalTable:
    """A table as it stands in its file.

    Attributes
    ----------
    header : str
        The names of the columns as one line of text, or the lines of the file. A file without names gets
        them: x1, x2 and so on.
    names : tuple of str
        The names of all columns.
    delimiter : str
    missing : str
        What is written where there is nothing.
    decimal : str
        The decimal sign of its numbers.
    rows : iterator of str
        The text of each row, without a line end; quotes and spaces are kept.
    """

    header: str
    names: tuple[str, ...]
    delimiter: str
    missing: str
    decimal: str
    rows: Iterator[str]


def write_again(sources: Sequence[str], write: Callable[[OriginalTable], None]) -> None:
    """Open tables of any format, and pass them on as they are written, as one table.

    Parameters
    ----------
    sources : sequence of str
        Paths of files with the same columns in the same order.
    write : callable
        Takes the table, whose rows are read as far as they are asked for.
    """
    with _opened(sources[0]) as first:
        write(replace(first, rows=_rows_of_all(first, sources)))


@contextmanager
def _opened(source: str) -> Iterator[OriginalTable]:
    with opened(source, None) as (table_format, file):
        name = next(name for name, entry in FORMATS.items() if entry is table_format)
        if name not in _READERS:
            raise TableError(f"{source}: tables of this format cannot be appended to. Save it as CSV first.")
        yield _READERS[name](file)


def _rows_of_all(first: OriginalTable, sources: Sequence[str]) -> Iterator[str]:
    yield from first.rows
    for source in sources[1:]:
        with _opened(source) as table:
            if (table.names, table.delimiter) != (first.names, first.delimiter):
                raise TableError(
                    f"{source} is not written as {sources[0]} is, with the same columns in the same order: "
                    "--append cannot put them into one table."
                )
            yield from table.rows


# --- text -----------------------------------------------------------------------------------


def _text(file: TableInput) -> OriginalTable:
    lines = Lines(file.read, file.name)
    block = _start(lines, file.name)
    layout = _layout(file.name, block)
    header = "\n".join(block.lines[: layout.n_header_lines])
    if layout.n_header_lines < len(block.lines):
        lines.put_back(block.after(layout.n_header_lines))
    width = len(layout.columns)
    names = tuple(column.name for column in layout.columns)
    delimiter = layout.delimiter or " "
    if not layout.n_header_lines:
        header = delimiter.join(names)
    elif layout.delimiter is not None and names[-1] == f"column {width}":
        # Rows that end with a delimiter have one more cell than there are names.
        (cells,) = [cells for _, _, cells in records(header.split("\n"), layout.delimiter)]
        header += layout.delimiter if len(cells) < width else ""
    missing = "NA" if layout.delimiter is None else ""
    return OriginalTable(
        header, names, delimiter, missing, layout.decimal or ".", _text_rows(lines, layout, width)
    )


def _text_rows(lines: Lines, layout: TextLayout, width: int) -> Iterator[str]:
    """Yield the text of each row: of several lines, if a cell in quotes goes over line ends."""
    waiting: list[str] = []

    def each_line() -> Iterator[str]:
        block: LineBlock | None
        while (block := lines.next_block()) is not None:
            for line in block.lines:
                waiting.append(line)
                yield line

    for _, _, cells in records(each_line(), layout.delimiter):
        text = "\n".join(waiting)
        waiting.clear()
        if width == 1 or not is_blank(cells):
            yield text


# --- other formats, as CSV ---------------------------------------------------------------------


def _as_csv(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> OriginalTable:
    return OriginalTable(_csv_line(names), tuple(names), ",", "", ".", map(_csv_line, rows))


def _csv_line(cells: Sequence[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(["" if cell is None else cell for cell in cells])
    return buffer.getvalue()


def _npy(file: TableInput) -> OriginalTable:
    from apolar.cli.tables.npy import _mapped

    table = _mapped(file.name, file.file)
    names = [f"x{i + 1}" for i in range(table.shape[1])]

    def rows() -> Iterator[Sequence[Any]]:
        for start in range(0, len(table), 4096):
            yield from table[start : start + 4096].tolist()

    return _as_csv(names, rows())


def _parquet(file: TableInput) -> OriginalTable:
    from pyarrow import parquet

    table = parquet.ParquetFile(file.file)
    return _as_csv(table.schema_arrow.names, _arrow_rows(table.iter_batches(4096)))


def _feather(file: TableInput) -> OriginalTable:
    from pyarrow import ipc

    binary = file.file
    is_file = binary.read(6) == b"ARROW1"
    binary.seek(0)
    table = ipc.open_file(binary) if is_file else ipc.open_stream(binary)
    stored = (table.get_batch(i) for i in range(table.num_record_batches)) if is_file else iter(table)
    batches = (batch.slice(start, 4096) for batch in stored for start in range(0, batch.num_rows, 4096))
    return _as_csv(table.schema.names, _arrow_rows(batches))


def _arrow_rows(batches: Iterator[Any]) -> Iterator[Sequence[Any]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


_READERS: dict[str, Callable[[TableInput], OriginalTable]] = {
    "text": _text,
    "parquet": _parquet,
    "feather": _feather,
    "npy": _npy,
}
