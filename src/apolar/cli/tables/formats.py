"""Open a table of any format: text, Parquet, Feather, NPY, and workbooks."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from apolar.cli.console import TableError, not_found, quote, shown_path
from apolar.cli.tables.columns import (
    SAMPLE_ROWS,
    Column,
    Content,
    NumberParser,
    TableInput,
    describe_columns,
    refuse_damage,
    row_slices,
)
from apolar.cli.tables.text_table import open_text
from apolar.exceptions import join_names

# A workbook that unpacks to more bytes than this is refused: it is read into memory as a whole.
MAX_UNPACKED = 2**31

# The row numbers of pandas, which it stores with the table.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")

Source = str | Path
"""A path, or "-" for standard input."""


# --- typed columns --------------------------------------------------------------------------------


def open_feather(file: TableInput) -> Content:
    """Return the content of a Feather file: the Arrow format, as a file or as a stream."""
    with file.path.open("rb") as stored:
        is_file = stored.read(6) == b"ARROW1"
    return open_lazily(
        file, "Feather", pl.scan_ipc if is_file else lambda path: pl.read_ipc_stream(path).lazy()
    )


def open_lazily(file: TableInput, format: str, scan: Callable[[Path], pl.LazyFrame]) -> Content:
    """Return the content of a file that polars scans, by the name of its format."""
    with refuse_damage(file.name, f"a {format} file"):
        table = scan(file.path)
        schema = table.collect_schema()
        n_rows = table.select(pl.len()).collect().item()

    def frames(positions: Sequence[int]) -> Iterator[tuple[pl.DataFrame, range]]:
        chosen = table.select(pl.nth(*positions))
        for rows in row_slices(n_rows, len(positions)):
            with refuse_damage(file.name, f"a {format} file"):
                frame = chosen.slice(rows.start, rows.stop - rows.start).collect()
            yield frame, range(rows.start + 1, rows.stop + 1)

    columns = tuple(_typed_column(file.name, name, dtype) for name, dtype in schema.items())
    return Content(file.name, "row", columns, frames, NumberParser(missing=frozenset(file.na_values)))


def _typed_column(source: str, name: str, dtype: pl.DataType) -> Column:
    if dtype.is_numeric():
        return Column(name, "row numbers" if _PANDAS_INDEX.fullmatch(name) else "numbers")
    kinds: dict[Any, str] = dict.fromkeys((pl.String, pl.Categorical, pl.Enum), "text")
    kinds |= {pl.Boolean: "true and false", pl.Null: "empty"}
    kind = "dates" if dtype.is_temporal() else kinds.get(dtype.base_type(), str(dtype).lower())
    problem = (
        f"{source}: column {quote(name)} holds {kind}, not numbers. Choose other columns with --columns."
    )
    return Column(name, kind, problem=problem)


def open_npy(file: TableInput) -> Content:
    """Return the content of a .npy file: a table, or one column, of real numbers."""
    with refuse_damage(file.name, "a .npy file of numbers"):
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
        for rows in row_slices(*table.shape):
            part = np.asarray(table[rows, list(positions)], dtype=np.float64)
            yield pl.from_numpy(part), range(rows.start + 1, rows.stop + 1)

    is_plain = table.dtype == np.float64 and table.flags.c_contiguous
    parse = NumberParser(missing=frozenset(file.na_values))
    return Content(file.name, "row", columns, frames, parse, mapped=table if is_plain else None)


# --- workbooks ------------------------------------------------------------------------------------


def open_workbook(file: TableInput) -> Content:
    """Return the content of a sheet: the values that were stored with formulas, without blank rows."""
    import fastexcel

    with refuse_damage(file.name, "a workbook"):
        if zipfile.is_zipfile(file.path):
            with zipfile.ZipFile(file.path) as archive:
                n_bytes = sum(member.file_size for member in archive.infolist())
            if n_bytes > MAX_UNPACKED:
                raise TableError(
                    f"{file.name} unpacks to {n_bytes:,} bytes, too many for a workbook. Save it as CSV."
                )
        book = fastexcel.read_excel(file.path)
        filled = (title for title in book.sheet_names if _load_sheet(book, title, "string", 100).height)
        sheet = file.sheet or next(filled, None)
        if sheet not in book.sheet_names:
            listed = join_names([quote(title) for title in book.sheet_names])
            what = "table in its sheets" if sheet is None else f"sheet {quote(sheet)}: its sheets are"
            raise TableError(f"{file.name} has no {what} {listed}.")
        cells, numbers = (_load_sheet(book, sheet, dtype) for dtype in ("string", "float"))
    is_filled = cells.select(pl.any_horizontal(pl.all().str.strip_chars() != "")).to_series().fill_null(False)
    # As strings, numbers lose digits.
    cells = cells.with_columns(
        pl.when(pl.col(name).cast(pl.Float64, strict=False) != numbers[name])
        .then(numbers[name].cast(pl.String))
        .otherwise(pl.col(name))
        for name in cells.columns
    ).filter(is_filled)
    places = (np.flatnonzero(is_filled) + 1).tolist()
    n_skipped = sum(place <= file.skip_rows for place in places)
    cells, places = cells[n_skipped:], places[n_skipped:]
    if not places:
        raise TableError(f"{file.name}: the sheet {quote(sheet)} is empty. Give another with --sheet.")
    parse, sample = file.parser(), cells[: SAMPLE_ROWS + 1]
    has_header, columns = describe_columns(file.name, "row", places, sample, parse, file.header)

    def frames(positions: Sequence[int]) -> Iterator[tuple[pl.DataFrame, Sequence[int]]]:
        yield cells[int(has_header) :].select(pl.nth(*positions)), places[int(has_header) :]

    return Content(file.name, "row", columns, frames, parse, has_names=has_header or file.header is False)


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
    "parquet": TableFormat(
        partial(open_lazily, format="Parquet", scan=pl.scan_parquet), (".parquet", ".pq"), (b"PAR1",)
    ),
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
    b"[{": ("JSON", "Save the table as CSV or Parquet."),
    b'{"': ("JSON", "Save the table as CSV or Parquet."),
    b"BZh": ("compressed with bzip2", "Decompress it first, or use gzip or zstd."),
    b"\xfd7zXZ": ("compressed with xz", "Decompress it first, or use gzip or zstd."),
}


READING = ("encoding", "na_values", "sheet", "header", "skip_rows", "thousands")
"""The parameters of `read_table` and `open_table` that say what a file looks like."""


@contextmanager
def open_table(source: Source, **reading: Any) -> Iterator[Content]:
    """Open a source of any kind.

    Parameters
    ----------
    source : str or path
        A path, or "-" for standard input.
    **reading
        `READING`, of `TableInput`.
    """
    name, path = source_name(source), Path(source)
    with ExitStack() as stack:
        try:
            if str(path) == "-" or path.is_fifo():
                path = stack.enter_context(_copy(name, path))
            with path.open("rb") as file:
                head = file.read(16)
        except FileNotFoundError as error:
            raise TableError(not_found(path)) from error
        except OSError as error:
            raise TableError(f"Cannot read {name}: {error.strerror or error}.") from error
        if not head:
            raise TableError(f"{name} is empty: give a file with a table of numbers.")
        format = _recognise(name, path.suffix.lower(), head)
        if reading.get("sheet") is not None and format != "xlsx":
            raise TableError(f"{name} is not a workbook and has no sheets: omit --sheet.")
        yield FORMATS[format].reader(TableInput(name, path, **reading))


def source_name(source: Source) -> str:
    """Return how messages call a source."""
    return "standard input" if str(source) == "-" else shown_path(Path(source))


@contextmanager
def _copy(name: str, path: Path) -> Iterator[Path]:
    """Copy a stream to a temporary file, so that it can be read from any place."""
    opened = nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb")
    with opened as stream, tempfile.NamedTemporaryFile(prefix="apolar-") as file:
        try:
            shutil.copyfileobj(stream, file)
            file.flush()
        except OSError as error:
            raise TableError(
                f"Cannot copy {name} to a temporary file: {error.strerror or error}. "
                "Set TMPDIR to a folder with space."
            ) from error
        yield Path(file.name)


def _formats_by_suffix() -> dict[str, str]:
    return {suffix: key for key, known in FORMATS.items() for suffix in known.suffixes}


def _recognise(name: str, suffix: str, head: bytes) -> str:
    """Return the name of the format of a file, by its ending or else by its first bytes."""
    by_suffix = _formats_by_suffix()
    for magic, (what, remedy) in _FOREIGN.items():
        if head.startswith(magic) and not any(magic in known.magic for known in FORMATS.values()):
            raise TableError(f"{name} is {what}, which cannot be read. {remedy}")
    is_archive = head.startswith(b"PK\x03\x04")
    if is_archive and suffix not in ("", *by_suffix):
        raise TableError(f"{name} is an archive, which cannot be read. Extract the table from it.")
    if suffix in by_suffix and not is_archive:
        return by_suffix[suffix]
    # A header of text may begin with the same letters, and a delimiter after them.
    by_magic = {magic: key for key, known in FORMATS.items() for magic in known.magic}
    begins = (key for magic, key in by_magic.items() if re.match(re.escape(magic) + rb"[^,;\t| ]", head))
    return next(begins, "text")


def expand_folders(source: Source | Sequence[Source]) -> list[Source]:
    """Return single sources, in order: all tables of a folder."""
    single: list[Source] = []
    for each in [source] if isinstance(source, str | Path) else source:
        single += _tables_in(Path(each)) if Path(each).is_dir() else [each]
    return single


def _tables_in(folder: Path) -> list[Path]:
    """Return the tables in a folder, in the order of their names; refuse several formats."""
    formats = _formats_by_suffix()
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    plain = (path for path in files if not path.name.startswith((".", "~$")))
    kind_of = {
        path: formats.get(Path(re.sub(r"\.(gz|zst)$", "", path.name)).suffix.lower()) for path in plain
    }
    kinds = sorted({kind for kind in kind_of.values() if kind})
    if not kinds:
        raise TableError(f"No table in the folder {folder}: give a folder of CSV files.")
    if len(kinds) > 1:
        raise TableError(
            f"The folder {folder} has tables of several formats, {join_names(kinds)}: name the files, as in "
            f"{folder / '*.csv'}."
        )
    return [path for path, kind in kind_of.items() if kind]
