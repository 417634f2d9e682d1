"""Text before it is a table: bytes as blocks of lines, lines as cells, and cells as numbers."""

import codecs
import csv
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import is_missing
from apolar.cli.tables.encodings import Utf8Stream
from apolar.cli.tables.table import TableError, size_text

# Bytes that are read at once: too few to matter for memory, enough to make the calls cheap.
BLOCK_BYTES = 2**22

# A longer line is no row of a table: the file has no line ends.
LONGEST_LINE = 2**28

# In the order of preference: a sign that is rare inside cells is more likely a delimiter. None is any white
# space.
DELIMITERS = ("\t", ";", "|", ",", None)

_WORD = re.compile(r'"((?:[^"]|"")*)"(?!\S)|(\S+)')
_POINT = re.compile(
    r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|[+-]?(?:inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_COMMA = re.compile(_POINT.pattern.replace(r"\.", ","), re.ASCII | re.IGNORECASE)

# A number as people write it: "1,5", "1.234,5", "12 000", "1'000.5".
_WRITTEN = re.compile(r"[+-]?(?:\d{1,3}(?:[.,'\s_]\d{3})+|\d+)(?:[.,]\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)

_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s*[ap]\.?m\.?)?(?:Z|\s*[+-]\d{2}:?\d{2})?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = (
    r"(?:\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})"
    rf"|\d{{1,2}}[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} (?:\d{{1,2}}, ?)?\d{{4}})"
)
# "2024-03-01", "1.3.2024 12:30", "1 Mar 2024", "12:30:15".
_DATE = re.compile(rf"{_DAY}(?:[T ]\s*{_TIME})?|{_TIME}", re.ASCII | re.IGNORECASE)


# --- lines ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LineBlock:
    """Consecutive lines of a file.

    Attributes
    ----------
    first : int
        The number of the first line, from one.
    text : str
        The lines, with a line feed between them and none at the end.
    """

    first: int
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return self.text.split("\n")

    def after(self, n_lines: int) -> "LineBlock":
        """Return the block without its first lines; some must be left."""
        return LineBlock(self.first + n_lines, "\n".join(self.lines[n_lines:]))


class Lines:
    """The lines of a stream of text with any line ends, in blocks; blank lines at its end are left out.

    Parameters
    ----------
    read : callable
        Takes a number of bytes and returns as many, or those that are left.
    source : str
        How messages call the file.
    encoding : str, optional
        By default UTF-8, or what a mark at the start says.
    """

    def __init__(self, read: Callable[[int], bytes], source: str, encoding: str | None = None) -> None:
        self._read = Utf8Stream(read, source, encoding).read
        self._source = source
        self._waiting: list[LineBlock] = []
        self._partial_line = b""
        self._offset = 0  # of the first byte that is not in a block yet
        self._n_lines = 0
        self._n_blank = 0  # blank lines at the end of the last block: nothing, unless more lines follow
        self._ended = False

    def next_block(self) -> LineBlock | None:
        """Return the next lines, or None at the end."""
        if self._waiting:
            return self._waiting.pop()
        while (data := self._next_bytes()) is not None:
            text = self._decoded(data)
            n_lines = text.count("\n") + 1
            full = text.rstrip("\n")
            if full:
                n_end = len(text) - len(full)
                block = LineBlock(self._n_lines - self._n_blank + 1, "\n" * self._n_blank + full)
                self._n_blank = n_end
                self._n_lines += n_lines
                return block
            self._n_blank += n_lines
            self._n_lines += n_lines
        return None

    def put_back(self, block: LineBlock) -> None:
        """Make a block the next one again."""
        self._waiting.append(block)

    def _next_bytes(self) -> bytes | None:
        """Return bytes up to the end of a line, or None at the end of the stream."""
        while not self._ended:
            piece = self._read_piece()
            self._ended = len(piece) < BLOCK_BYTES
            data = self._partial_line + piece
            if not self._offset and not self._partial_line:
                data = self._without_mark(data)
            cut = len(data) if self._ended else _last_line_end(data)
            if cut:
                self._partial_line = data[cut:]
                return data[:cut]
            self._partial_line = data
            if len(data) > LONGEST_LINE:
                raise TableError(
                    f"{self._source}, line {self._n_lines + 1:,}: the line is longer than "
                    f"{size_text(LONGEST_LINE)}. Give a file of text with one row per line."
                )
        return None

    def _read_piece(self) -> bytes:
        """Return a block of bytes; a shorter one at the end of the stream."""
        piece = b""
        try:
            while len(piece) < BLOCK_BYTES and (read := self._read(BLOCK_BYTES - len(piece))):
                piece += read
            return piece
        except (EOFError, OSError, zlib.error) as error:
            reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
            raise TableError(
                f"{self._source} is cut short or damaged: {reason}. Make the file again, or take a copy."
            ) from error

    def _without_mark(self, data: bytes) -> bytes:
        """Return the first bytes without a mark of UTF-8."""
        if data.startswith(codecs.BOM_UTF8):
            self._offset = len(codecs.BOM_UTF8)
            return data[self._offset :]
        return data

    def _decoded(self, data: bytes) -> str:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            at = error.start
            likely = "utf-16-le" if b"\0" in data[: at + 2] else "latin-1"
            raise TableError(
                f"{self._source}, line {self._line_of(data, at):,}: the byte {data[at]:#04x} at offset "
                f"{self._offset + at:,} is not UTF-8 text. Name its encoding, such as --encoding {likely}."
            ) from error
        if "\0" in text:
            at = data.index(b"\0")
            raise TableError(
                f"{self._source}, line {self._line_of(data, at):,}: there is a zero byte at offset "
                f"{self._offset + at:,}, so this is not a file of text. Save the table as CSV, in UTF-8; if "
                "it is UTF-16 without a mark, use --encoding utf-16-le."
            )
        self._offset += len(data)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text.removesuffix("\n")

    def _line_of(self, data: bytes, position: int) -> int:
        before = data[:position].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return self._n_lines + before.count(b"\n") + 1


def _last_line_end(data: bytes) -> int:
    """Return the position after the last line end, zero if there is none."""
    cut = data.rfind(b"\n") + 1
    # Some old files have carriage returns only; one at the very end may be the first half of a pair.
    return cut or data.rfind(b"\r", 0, -1) + 1


# --- cells ----------------------------------------------------------------------------------


def records(lines: Iterable[str], delimiter: str | None) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the rows of lines of text.

    Parameters
    ----------
    lines : iterable of str
        Without their ends. A line is only taken when a row needs it, so that
        a row ends where its last line does.
    delimiter : str or None
        None for white space.

    Yields
    ------
    start, stop : int
        The lines of the row, counted from zero: several, if a cell in quotes
        goes over line ends.
    cells : list of str
        Empty if the line is blank.

    Raises
    ------
    csv.Error
        If a cell is longer than any cell can be: quotes were not closed.
    """
    if delimiter is None:
        for i, line in enumerate(lines):
            yield i, i + 1, _words(line) if '"' in line else line.split()
        return
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, skipinitialspace=True)
    start = 0
    for cells in reader:
        yield start, reader.line_num, cells
        start = reader.line_num


def is_blank(cells: Sequence[str]) -> bool:
    """Return whether a row is only a blank line."""
    return not cells or (len(cells) == 1 and not cells[0].strip())


def likely_delimiter(lines: Sequence[str], is_missing: Callable[[str], bool] = is_missing) -> str | None:
    """Return the delimiter with which most lines have equally many cells, and most cells are numbers.

    Parameters
    ----------
    lines : sequence of str
    is_missing : callable, optional
        Whether a cell stands for a missing value.

    Returns
    -------
    delimiter : str or None
        One of `DELIMITERS`; a comma if none of them occurs.
    """
    best: str | None = ","
    best_score = (0.0, 0.0)
    for delimiter in DELIMITERS:
        try:
            rows = [cells for _, _, cells in records(lines, delimiter) if not is_blank(cells)]
        except csv.Error:
            continue
        (width, times), *_ = Counter(map(len, rows)).most_common(1) or [(1, 0)]
        if width == 1:
            continue
        # The first may be a header, none of whose cells is a number.
        below = [row for row in rows[1:] or rows if len(row) == width]
        cells = [cell for row in below for cell in row if not is_missing(cell)]
        n_numbers = sum(is_number(cell) or is_written_number(cell) for cell in cells)
        evenness = times / len(rows)
        score = (evenness * n_numbers / max(1, len(cells)), evenness)
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _words(line: str) -> list[str]:
    """Return the cells of a line with white space between them and some of them in quotes."""
    matches = _WORD.finditer(line)
    return [match[2] if match[2] is not None else match[1].replace('""', '"') for match in matches]


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell is a number, infinite ones too, with this decimal sign."""
    return (_COMMA if decimal == "," else _POINT).fullmatch(cell.strip()) is not None


def is_date(cell: str) -> bool:
    """Return whether a cell is a date, a time of day, or both."""
    return _DATE.fullmatch(cell.strip()) is not None


def is_written_number(cell: str) -> bool:
    """Return whether a cell is a number for a reader, with any decimal sign and thousands separator."""
    return _WRITTEN.fullmatch(cell.strip()) is not None


def numbers(
    cells: Sequence[str], decimal: str = ".", is_missing: Callable[[str], bool] = is_missing
) -> tuple[Array, int | None]:
    """Return a column of cells as numbers.

    Parameters
    ----------
    cells : sequence of str
    decimal : {".", ","}, optional
    is_missing : callable, optional
        Whether a cell stands for a missing value.

    Returns
    -------
    values : ndarray of float64, shape (n,)
        NaN where a number is missing.
    bad : int or None
        The first cell that is no number; what comes after it is not read.
    """
    text = "".join(cells)
    # Python takes underscores and the digits of all scripts; a file that has them is no table of numbers.
    if text.isascii() and "_" not in text and (decimal == "." or "." not in text):
        plain = [cell.replace(",", ".") for cell in cells] if decimal == "," else cells
        try:
            return np.fromiter(map(float, plain), np.float64, len(cells)), None
        except ValueError:
            pass
    values = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        if is_number(cell, decimal):
            values[i] = float(cell.replace(",", "."))
        elif not is_missing(cell):
            return values, i
    return values, None
