"""Open a table of any format: text, Parquet, Feather, NPY, and workbooks."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl

from apolar.cli.errors import names_in, not_found, shown_path
from apolar.cli.tables.content import (
    Column,
    Content,
    NumberParser,
    ReadOptions,
    TableError,
    TableInput,
    join_list,
    quote,
    size_text,
)
from apolar.cli.tables.text import SAMPLE_ROWS, describe_columns, open_text

# Numbers in a frame of a file that is read in parts.
FRAME_SIZE = 2**22

# A workbook that unpacks to more bytes than this is refused: it is read into memory as a whole.
MAX_UNPACKED = 2**31

# The row numbers of pandas, which it stores with the table.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")

Source = str | os.PathLike[str] | IO[bytes]
"""A path, "-" for standard input, or a file open as bytes."""


# --- typed columns --------------------------------------------------------------------------------


def open_parquet(file: TableInput) -> Content:
    """Return the content of a Parquet file."""
    return open_lazily(file, "Parquet", pl.scan_parquet)


def open_feather(file: TableInput) -> Content:
    """Return the content of a Feather file: the Arrow format, as a file or as a stream."""
    with file.path.open("rb") as stored:
        is_file = stored.read(6) == b"ARROW1"
    return open_lazily(
        file, "Feather", pl.scan_ipc if is_file else lambda path: pl.read_ipc_stream(path).lazy()
    )


def open_lazily(file: TableInput, format: str, scan: Callable[[Path], pl.LazyFrame]) -> Content:
    """Return the content of a file that polars scans, by the name of its format."""
    with _refuse_damage(file.name, f"a {format} file"):
        table = scan(file.path)
        schema = table.collect_schema()

    def frames(positions: Sequence[int]) -> Iterator[tuple[pl.DataFrame, range]]:
        chosen, start = table.select(pl.nth(*positions)), 1
        size = max(1, FRAME_SIZE // len(positions))
        while True:
            with _refuse_damage(file.name, f"a {format} file"):
                frame = chosen.slice(start - 1, size).collect()
            yield frame, range(start, start + len(frame))
            start += len(frame)
            if len(frame) < size:
                return

    columns = tuple(_typed_column(file.name, name, dtype) for name, dtype in schema.items())
    return Content(file.name, "row", columns, frames, NumberParser())


def _typed_column(source: str, name: str, dtype: pl.DataType) -> Column:
    if dtype.is_numeric():
        return Column(name, "row numbers" if _PANDAS_INDEX.fullmatch(name) else "numbers")
    kinds: dict[Any, str] = dict.fromkeys((pl.String, pl.Categorical, pl.Enum), "text")
    kinds |= {pl.Boolean: "true and false", pl.Null: "nothing"}
    kind = "dates" if dtype.is_temporal() else kinds.get(dtype.base_type(), str(dtype).lower())
    problem = (
        f"{source}: column {quote(name)} holds {kind}, not numbers. Choose other columns with --columns."
    )
    return Column(name, kind, problem=problem)


def open_npy(file: TableInput) -> Content:
    """Return the content of a .npy file: a table, or one column, of real numbers."""
    with _refuse_damage(file.name, "a .npy file of numbers"):
        table = np.load(str(file.path), mmap_mode="r", allow_pickle=False)
    if not isinstance(table, np.ndarray) or table.dtype.kind not in "iuf":
        what = str(getattr(table, "dtype", "several arrays"))
        raise TableError(f"{file.name} holds {what}, not real numbers. Save it again as an array of float64.")
    if table.ndim not in (1, 2) or table.shape[-1] == 0 < table.ndim - 1:
        raise TableError(
            f"{file.name} holds an array of shape {table.shape}, not a table of rows and columns. "
            "Save it again with two dimensions."
        )
    table = table.reshape(-1, 1) if table.ndim == 1 else table
    columns = tuple(Column(f"x{i + 1}") for i in range(table.shape[1]))

    def frames(positions: Sequence[int]) -> Iterator[tuple[pl.DataFrame, range]]:
        size = max(1, FRAME_SIZE // table.shape[1])
        for start in range(0, len(table), size):
            part = np.asarray(table[start : start + size, list(positions)], dtype=np.float64)
            yield pl.from_numpy(part), range(start + 1, start + len(part) + 1)

    # Other processes map it by its name, which a copy of a stream loses at the end.
    is_plain = table.dtype == np.float64 and table.flags.c_contiguous and not file.is_copy
    return Content(file.name, "row", columns, frames, NumberParser(), mapped=table if is_plain else None)


# --- workbooks ------------------------------------------------------------------------------------


def open_workbook(file: TableInput) -> Content:
    """Return the content of a sheet: the values that were stored with formulas, without blank rows."""
    import fastexcel

    if zipfile.is_zipfile(file.path):
        with _refuse_damage(file.name, "a workbook"), zipfile.ZipFile(file.path) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        if n_bytes > MAX_UNPACKED:
            raise TableError(
                f"{file.name} unpacks to {size_text(n_bytes)}, too much for a workbook. Save it as CSV."
            )
    with _refuse_damage(file.name, "a workbook"):
        book = fastexcel.read_excel(file.path)
        sheet = file.options.sheet
        if sheet is None:
            sheet = next(
                (title for title in book.sheet_names if _load_sheet(book, title, "string", 100).height), None
            )
        if sheet not in book.sheet_names:
            listed = join_list([quote(title) for title in book.sheet_names])
            what = "table in its sheets" if sheet is None else f"sheet {quote(sheet)}: its sheets are"
            raise TableError(f"{file.name} has no {what} {listed}.")
        cells, numbers = (_load_sheet(book, sheet, dtype) for dtype in ("string", "float"))
    parse = NumberParser(missing=file.options.missing)
    places = np.flatnonzero(
        cells.select(pl.any_horizontal(pl.all().str.strip_chars() != "")).to_series().fill_null(False)
    )
    cells = cells[places].with_columns(pl.all().fill_null(""))
    if not len(cells):
        raise TableError(f"{file.name}: the sheet {quote(sheet)} is empty. Give another with --sheet.")
    first, *sample = [
        (place + 1, list(row))
        for place, row in zip(places.tolist(), cells[: SAMPLE_ROWS + 1].rows(), strict=False)
    ]
    has_header = bool(parse(pl.Series(first[1]))[1].any())
    if has_header and not sample:
        raise TableError(f"{file.name} has a header and no rows below it: at least two are needed.")
    has_header, columns = describe_columns(
        file.name, "row", first[1], sample if has_header else [first, *sample], parse
    )
    cells, places = cells[int(has_header) :], places[int(has_header) :]
    # As strings, numbers lose digits.
    wrong = [parse(column)[1].any() for column in cells]
    table = cells.with_columns(
        numbers[places][name] for name, is_text in zip(cells.columns, wrong, strict=True) if not is_text
    )

    def frames(positions: Sequence[int]) -> Iterator[tuple[pl.DataFrame, Sequence[int]]]:
        yield table.select(pl.nth(*positions)), (places + 1).tolist()

    return Content(file.name, "row", columns, frames, parse)


def _load_sheet(book: Any, title: str, dtype: str, n_rows: int | None = None) -> pl.DataFrame:
    return book.load_sheet(title, header_row=None, skip_rows=0, n_rows=n_rows, dtypes=dtype).to_polars()


# --- files ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableFormat:
    """A format of tables.

    Attributes
    ----------
    reader : callable
        Takes a `TableInput` and returns its `Content`.
    suffixes : tuple of str
        The endings of the names of such files.
    magic : tuple of bytes
        What such files begin with; empty if that can be anything.
    """

    reader: Callable[[TableInput], Content]
    suffixes: tuple[str, ...]
    magic: tuple[bytes, ...] = ()


FORMATS = {
    "text": TableFormat(open_text, (".csv", ".tsv", ".tab", ".txt")),
    "parquet": TableFormat(open_parquet, (".parquet", ".pq"), (b"PAR1",)),
    "feather": TableFormat(open_feather, (".feather", ".arrow"), (b"ARROW1",)),
    "npy": TableFormat(open_npy, (".npy",), (b"\x93NUMPY",)),
    "xlsx": TableFormat(
        open_workbook, (".xlsx", ".xlsm", ".xls", ".ods"), (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
    ),
}
"""All formats by name. A new one is a reader, and a line here."""

# What people also have, and what to do with it.
_FOREIGN = {
    b"\x89HDF": ("an HDF5 file", "Save the table as CSV or Parquet."),
    b"%PDF": ("a PDF file", "Save the table as CSV."),
    b"BZh": ("compressed with bzip2", "Decompress it first, or use gzip or zstd."),
    b"\xfd7zXZ": ("compressed with xz", "Decompress it first, or use gzip or zstd."),
}


@contextmanager
def open_table(source: Source, format: str | None, options: ReadOptions) -> Iterator[Content]:
    """Open a source of any kind.

    Parameters
    ----------
    source : str, path or binary file
        A path, "-" for standard input, or a file open as bytes.
    format : str or None
        A key of `FORMATS`; None if it follows from the name or the first bytes.
    options : ReadOptions
    """
    if format is not None and format not in FORMATS:
        raise TableError(f"Unknown format {quote(str(format))}: use one of {join_list(tuple(FORMATS))}.")
    name = source_name(source)
    with ExitStack() as stack:
        path, is_copy = Path(os.fspath(source) if isinstance(source, str | os.PathLike) else "-"), False
        try:
            if str(path) == "-" or path.is_fifo():
                stream = source if not isinstance(source, str | os.PathLike) else sys.stdin.buffer
                stream = stack.enter_context(path.open("rb")) if str(path) != "-" else stream
                path, is_copy = stack.enter_context(_copy(name, stream)), True
            with path.open("rb") as file:
                head = file.read(16)
        except FileNotFoundError as error:
            raise TableError(not_found(path)) from error
        except (OSError, ValueError) as error:
            if isinstance(error, TableError):
                raise
            reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
            raise TableError(f"Cannot read {name}: {reason}.") from error
        if not head:
            raise TableError(f"{name} is empty: give a file with a table of numbers.")
        table_format = (
            _recognise(name, "" if is_copy else path.suffix.lower(), head)
            if format is None
            else FORMATS[format]
        )
        if options.sheet is not None and table_format is not FORMATS["xlsx"]:
            raise TableError(f"{name} is not a workbook and has no sheets: omit --sheet.")
        yield table_format.reader(TableInput(name, path, is_copy, options))


def source_name(source: Source) -> str:
    """Return how messages call a source."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if os.fspath(source) == "-" else shown_path(Path(source))
    if not callable(getattr(source, "read", None)):
        raise TypeError(f"source must be a path, '-' or a file open as bytes, not {type(source).__name__}.")
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the open file"


@contextmanager
def _copy(name: str, stream: IO[bytes]) -> Iterator[Path]:
    """Copy a stream to a temporary file, so that it can be read from any place."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="apolar-"))
            shutil.copyfileobj(stream, file)
            file.flush()
        except TypeError as error:
            raise TypeError(f"{name} is open as text: open it as bytes, with mode 'rb'.") from error
        except OSError as error:
            raise TableError(
                f"Cannot copy {name} to a temporary file: {error.strerror or error}. "
                "Set TMPDIR to a folder with space."
            ) from error
        yield Path(file.name)


def _recognise(name: str, suffix: str, head: bytes) -> TableFormat:
    """Return the format of a file by its ending, or else by its first bytes."""
    for magic, (what, remedy) in _FOREIGN.items():
        if head.startswith(magic):
            raise TableError(f"{name} is {what}, which cannot be read. {remedy}")
    by_suffix = {suffix: entry for entry in FORMATS.values() for suffix in entry.suffixes}
    is_archive = head.startswith(b"PK\x03\x04")
    if is_archive and suffix and suffix not in by_suffix:
        remedy = "Save one table with numpy.save." if suffix == ".npz" else "Extract the table from it."
        raise TableError(f"{name} is an archive, which cannot be read. {remedy}")
    if suffix in by_suffix and not is_archive:
        return by_suffix[suffix]
    for table_format in FORMATS.values():
        for magic in table_format.magic:
            # A header of text may begin with the same letters, and a delimiter after them.
            if head.startswith(magic) and head[len(magic) : len(magic) + 1] not in (
                b",",
                b";",
                b"\t",
                b"|",
                b" ",
            ):
                return table_format
    return FORMATS["text"]


def expand_folders(source: Source | Sequence[Source]) -> list[Source]:
    """Return single sources, in order: all tables of a folder."""
    sources: list[Any] = list(source) if isinstance(source, list | tuple) else [source]
    if not sources:
        raise TableError("No file is given: name at least one.")
    single: list[Source] = []
    for each in sources:
        is_path = isinstance(each, str | os.PathLike) and "\0" not in os.fspath(each)
        single += _tables_in(Path(each)) if is_path and Path(each).is_dir() else [each]
    return single


def _tables_in(folder: Path) -> list[Path]:
    """Return the tables in a folder, in the order of their names; refuse several formats."""
    names = sorted(name for name in names_in(folder) if not name.startswith((".", "~$")))
    by_format: dict[str, list[str]] = {}
    for name, (format, known) in itertools.product(names, FORMATS.items()):
        ending = Path(re.sub(r"\.(gz|zst)$", "", name)).suffix.lower()
        if ending in known.suffixes and (folder / name).is_file():
            by_format.setdefault(format, []).append(name)
    if not by_format:
        listed = (
            f" (it has {join_list([quote(name) for name in names], shown=3)})" if names else " (it is empty)"
        )
        raise TableError(f"No table in the folder {folder}{listed}. Give a folder of CSV files.")
    if len(by_format) > 1:
        shown = join_list([quote(tables[0]) for tables in by_format.values()])
        pattern = folder / f"*{Path(next(iter(by_format.values()))[0]).suffix}"
        raise TableError(
            f"The folder {folder} has tables of several formats, such as {shown}: name the files, as in "
            f"{pattern}."
        )
    (tables,) = by_format.values()
    return [folder / name for name in tables]


@contextmanager
def _refuse_damage(source: str, what: str) -> Iterator[None]:
    """Turn what a library raises on damaged bytes, which may be anything, into one line."""
    try:
        yield
    except (MemoryError, TableError):
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")[:200]
        raise TableError(
            f"{source} is not {what}, or is truncated or damaged: {reason}. Create or copy the file again."
        ) from error
