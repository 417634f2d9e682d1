"""Where a table comes from: a path, standard input or an open file, and which format it has."""

import gzip
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from apolar.cli.paths import names_in, not_found, shown_path
from apolar.cli.tables.arrow import open_feather, open_parquet
from apolar.cli.tables.collect import spooled
from apolar.cli.tables.npy import open_npy
from apolar.cli.tables.table import ReadOptions, TableContent, TableError, TableInput, joined, quoted
from apolar.cli.tables.text import open_text
from apolar.cli.tables.workbook import open_workbook


@dataclass(frozen=True)
class TableFormat:
    """A format of tables.

    Attributes
    ----------
    reader : callable
        Takes a `TableInput` and returns its `TableContent`.
    suffixes : tuple of str
        Of the names of such files.
    magic : bytes or None
        What such files begin with; None if that can be anything.
    is_streamed : bool
        Whether it is read forwards only, and may be compressed by gzip; otherwise the reader gets a file
        that can be read from any place.
    """

    reader: Callable[[TableInput], TableContent]
    suffixes: tuple[str, ...]
    magic: bytes | None = None
    is_streamed: bool = False


FORMATS = {
    "text": TableFormat(open_text, (".csv", ".tsv", ".tab", ".txt"), is_streamed=True),
    "parquet": TableFormat(open_parquet, (".parquet", ".pq"), b"PAR1"),
    "feather": TableFormat(open_feather, (".feather", ".arrow"), b"ARROW1"),
    "npy": TableFormat(open_npy, (".npy",), b"\x93NUMPY"),
    "xlsx": TableFormat(open_workbook, (".xlsx", ".xlsm"), b"PK\x03\x04"),
}
"""All formats by name. A new one is a file with its reader, and a line here."""

# What people also have, and what to do with it.
_FOREIGN = (
    (b"\xd0\xcf\x11\xe0", "an Excel workbook of the old kind", "Save the table as .xlsx or CSV."),
    (b"\x89HDF", "an HDF5 file", "Save the table as CSV or Parquet."),
    (b"%PDF", "a PDF file", "Save the table as CSV."),
    (b"BZh", "compressed by bzip2", "Decompress it first, or use gzip."),
    (b"\xfd7zXZ", "compressed by xz", "Decompress it first, or use gzip."),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "Decompress it first, or use gzip."),
)
_HEAD_BYTES = 16
_GZIP = b"\x1f\x8b"
_DELIMITERS = (b",", b";", b"\t", b"|", b" ")


class PeekedStream:
    """Bytes that can only be read forwards, and are counted; the first of them are known before."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.head = b""
        while len(self.head) < _HEAD_BYTES and (piece := read(_HEAD_BYTES - len(self.head))):
            self.head += piece
        self._waiting = self.head
        self.n_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Return at most so many bytes; none at the end."""
        if self._waiting:
            cut = len(self._waiting) if size < 0 else size
            piece, self._waiting = self._waiting[:cut], self._waiting[cut:]
            if not self._waiting and (size < 0 or len(piece) < size):
                piece += self._read(size if size < 0 else size - len(piece))
        else:
            piece = self._read(size)
        self.n_bytes += len(piece)
        return piece


@contextmanager
def opened(
    source: str | os.PathLike[str] | IO[bytes], format: str | None, options: ReadOptions | None = None
) -> Iterator[tuple[TableFormat, TableInput]]:
    """Open a source of any kind.

    Parameters
    ----------
    source : str, path or binary file
        A path, "-" for standard input, or a file open as bytes.
    format : str or None
        A key of `FORMATS`; None if it follows from the name or the first bytes.
    options : ReadOptions, optional

    Yields
    ------
    table_format : TableFormat
    file : TableInput
        Closed at the end, if it was opened here.
    """
    if format is not None and format not in FORMATS:
        raise TableError(f"There is no format {quoted(str(format))}: it is one of {joined(tuple(FORMATS))}.")
    with ExitStack() as stack:
        suffixes: list[str] = []
        n_bytes = None
        if not isinstance(source, str | os.PathLike):
            name, file = _object_name(source), source
        elif os.fspath(source) == "-":
            name, file = "standard input", sys.stdin.buffer
        else:
            path = Path(source)
            name = shown_path(path)
            file = stack.enter_context(_open_path(path, name))
            suffixes = [suffix.lower() for suffix in path.suffixes]
            status = os.fstat(file.fileno())
            n_bytes = status.st_size if stat.S_ISREG(status.st_mode) else None
        try:
            stream = PeekedStream(file.read)
        except OSError as error:
            raise TableError(f"{name} cannot be read: {error.strerror or error}.") from error
        except TypeError as error:
            raise TypeError(f"{name} is open as text: open it as bytes, with mode 'rb'.") from error
        if not stream.head:
            raise TableError(f"{name} is empty: give a file with a table of numbers.")
        table_format = _format(name, suffixes, stream.head) if format is None else FORMATS[format]
        options = options or ReadOptions()
        if options.sheet is not None and table_format is not FORMATS["xlsx"]:
            raise TableError(f"{name} is no workbook and has no sheets: leave --sheet out.")
        read: Callable[[int], bytes] = stream.read
        if table_format.is_streamed and stream.head.startswith(_GZIP):
            read = gzip.GzipFile(fileobj=cast(IO[bytes], stream)).read
        elif not table_format.is_streamed:
            if n_bytes is None:
                file = stack.enter_context(spooled(stream.read))
                n_bytes = file.seek(0, os.SEEK_END)
            file.seek(0)
        yield table_format, TableInput(name, n_bytes, read, lambda: stream.n_bytes, file, options)


def _object_name(source: Any) -> str:
    if not callable(getattr(source, "read", None)):
        raise TypeError(f"source must be a path, '-' or a file open as bytes, not {type(source).__name__}.")
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the open file"


def _format(name: str, suffixes: list[str], head: bytes) -> TableFormat:
    for foreign, what, remedy in _FOREIGN:
        if head.startswith(foreign):
            raise TableError(f"{name} is {what}, which cannot be read. {remedy}")
    by_suffix = _formats_by_suffix()
    if head.startswith(FORMATS["xlsx"].magic or b"PK"):
        if suffixes and suffixes[-1] not in by_suffix:
            remedy = "Save one table with numpy.save." if suffixes[-1] == ".npz" else "Give the table in it."
            raise TableError(f"{name} is an archive, which cannot be read. {remedy}")
        return FORMATS["xlsx"]
    if suffixes and suffixes[-1] in by_suffix:
        return by_suffix[suffixes[-1]]
    if not suffixes or suffixes[-1] != ".gz":
        for table_format in FORMATS.values():
            magic = table_format.magic
            # A header of text may begin with the same letters, and a delimiter after them.
            if magic and head.startswith(magic) and head[len(magic) : len(magic) + 1] not in _DELIMITERS:
                return table_format
    return FORMATS["text"]


def _open_path(path: Path, name: str) -> IO[bytes]:
    try:
        if path.is_dir():
            raise TableError(f"{name} is a folder: give a file in it.")
        return open(path, "rb")
    except TableError:
        raise
    except FileNotFoundError as error:
        raise TableError(not_found(path)) from error
    except PermissionError as error:
        raise TableError(
            f"{name} may not be read by you: ask its owner for permission, or take a copy."
        ) from error
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
        raise TableError(f"{name} cannot be opened: {reason}. Check the name.") from error


def _formats_by_suffix() -> dict[str, TableFormat]:
    return {suffix: entry for entry in FORMATS.values() for suffix in entry.suffixes}


def tables_in(folder: Path) -> list[Path]:
    """Return the tables in a folder, in the order of their names; refuse several formats."""
    known = _formats_by_suffix()
    names = sorted(name for name in names_in(folder) if not name.startswith((".", "~$")))
    by_format: dict[int, list[str]] = {}
    for name in names:
        found = known.get(Path(name.removesuffix(".gz")).suffix.lower())
        if found is not None and (folder / name).is_file():
            by_format.setdefault(id(found), []).append(name)
    if not by_format:
        listed = f": it has {joined([quoted(name) for name in names], shown=3)}" if names else ": it is empty"
        raise TableError(f"There is no table in the folder {folder}{listed}. Give a folder of CSV files.")
    if len(by_format) > 1:
        shown = joined([quoted(tables[0]) for tables in by_format.values()])
        raise TableError(
            f"The folder {folder} has tables of several formats, such as {shown}: name the files, as in "
            f"{folder / '*'}{Path(next(iter(by_format.values()))[0]).suffix}."
        )
    (tables,) = by_format.values()
    return [folder / name for name in tables]
