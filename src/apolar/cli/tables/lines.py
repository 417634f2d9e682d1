"""A stream of bytes as blocks of lines: UTF-8, any line ends, damage found where it is."""

import codecs
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from apolar.cli.tables.errors import TableError, size_text

# Bytes that are read at once: few enough to forget, enough to make the calls cheap.
BLOCK_BYTES = 2**22

# A longer line is no row of a table: the file has no line ends.
LONGEST_LINE = 2**28

_OTHER_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Block:
    """Some lines of a file, one after another.

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

    def after(self, n_lines: int) -> "Block":
        """Return the block without its first lines; some must be left."""
        return Block(self.first + n_lines, "\n".join(self.lines[n_lines:]))


class Lines:
    """The lines of a stream, in blocks; blank lines at its end are left out.

    Parameters
    ----------
    read : callable
        Takes a number of bytes and returns as many, or those that are left.
    source : str
        How messages call the file.
    """

    def __init__(self, read: Callable[[int], bytes], source: str) -> None:
        self._read = read
        self._source = source
        self._waiting: list[Block] = []
        self._rest = b""
        self._offset = 0  # of the first byte that is not in a block yet
        self._n_lines = 0
        self._n_blank = 0  # blank lines at the end of the last block: nothing, unless more lines follow
        self._ended = False

    def next_block(self) -> Block | None:
        """Return the next lines, or None at the end."""
        if self._waiting:
            return self._waiting.pop()
        while (data := self._next_bytes()) is not None:
            text = self._decoded(data)
            n_lines = text.count("\n") + 1
            full = text.rstrip("\n")
            if full:
                n_end = len(text) - len(full)
                block = Block(self._n_lines - self._n_blank + 1, "\n" * self._n_blank + full)
                self._n_blank = n_end
                self._n_lines += n_lines
                return block
            self._n_blank += n_lines
            self._n_lines += n_lines
        return None

    def put_back(self, block: Block) -> None:
        """Make a block the next one again."""
        self._waiting.append(block)

    def _next_bytes(self) -> bytes | None:
        """Return bytes up to the end of a line, or None at the end of the stream."""
        while not self._ended:
            piece = self._read_piece()
            self._ended = len(piece) < BLOCK_BYTES
            data = self._rest + piece
            if not self._offset and not self._rest:
                data = self._without_mark(data)
            cut = len(data) if self._ended else _last_line_end(data)
            if cut:
                self._rest = data[cut:]
                return data[:cut]
            self._rest = data
            if len(data) > LONGEST_LINE:
                raise TableError(
                    f"{self._source}, line {self._n_lines + 1:,}: the line is longer than "
                    f"{size_text(LONGEST_LINE)}. Give a file of text with one row a line."
                )
        return None

    def _read_piece(self) -> bytes:
        """Return a block of bytes; a shorter one at the end of the stream."""
        piece = b""
        try:
            while len(piece) < BLOCK_BYTES and (more := self._read(BLOCK_BYTES - len(piece))):
                piece += more
            return piece
        except (EOFError, OSError, zlib.error) as error:
            reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
            raise TableError(
                f"{self._source} is cut short or damaged: {reason}. Make the file again, or take a copy."
            ) from error

    def _without_mark(self, data: bytes) -> bytes:
        """Return the first bytes without a mark of UTF-8; refuse the marks of other encodings."""
        for mark, encoding in _OTHER_ENCODINGS:
            if data.startswith(mark):
                raise TableError(
                    f"{self._source} is {encoding.upper()} text, not UTF-8. {self._conversion(encoding)}"
                )
        if data.startswith(codecs.BOM_UTF8):
            self._offset = len(codecs.BOM_UTF8)
            return data[self._offset :]
        return data

    def _decoded(self, data: bytes) -> str:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            at = error.start
            raise TableError(
                f"{self._source}, line {self._line_of(data, at):,}: the byte {data[at]:#04x} at offset "
                f"{self._offset + at:,} is not UTF-8 text. {self._conversion('latin1')}"
            ) from error
        if "\0" in text:
            at = data.index(b"\0")
            raise TableError(
                f"{self._source}, line {self._line_of(data, at):,}: there is a zero byte at offset "
                f"{self._offset + at:,}, so this is not a file of text. Save the table as CSV, in UTF-8."
            )
        self._offset += len(data)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text.removesuffix("\n")

    def _line_of(self, data: bytes, position: int) -> int:
        before = data[:position].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return self._n_lines + before.count(b"\n") + 1

    def _conversion(self, encoding: str) -> str:
        path = "FILE" if " " in self._source else self._source
        return f"Convert the file first, for example: iconv -f {encoding} -t utf-8 {path} > converted.csv"


def _last_line_end(data: bytes) -> int:
    """Return the position after the last line end, zero if there is none."""
    cut = data.rfind(b"\n") + 1
    # Files of old have carriage returns only; one at the very end may be half of a pair.
    return cut or data.rfind(b"\r", 0, -1) + 1
