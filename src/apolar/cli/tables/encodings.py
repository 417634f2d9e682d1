"""Text in any encoding, as UTF-8."""

import codecs
from collections.abc import Callable

from apolar.cli.tables.table import TableError, quoted

# The longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MARK_BYTES = 4
_READ_BYTES = 2**20


def check_encoding(encoding: str) -> str:
    """Return the usual name of an encoding of text; refuse what is none."""
    try:
        b"a\0\0\0".decode(encoding, "replace")
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise TableError(
            f"There is no encoding {quoted(encoding)}: give one such as latin-1 or utf-16 with --encoding."
        ) from error


class Utf8Stream:
    """Bytes of text, read forwards, as those of UTF-8.

    Parameters
    ----------
    read : callable
        Takes a number of bytes and returns as many, or those that are left.
    source : str
        How messages call the file.
    encoding : str, optional
        By default what a mark at the start says; without one, UTF-8.
    """

    def __init__(self, read: Callable[[int], bytes], source: str, encoding: str | None = None) -> None:
        self._read_raw, self._source, self._encoding = read, source, encoding
        self._waiting = b""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._n_lines = 0
        self._is_open = self._is_ended = False

    def read(self, size: int) -> bytes:
        """Return at most so many bytes; none at the end."""
        if not self._is_open:
            self._open()
        if self._decoder is None:
            if not self._waiting:
                return self._read_raw(size)
        else:
            while len(self._waiting) < size and not self._is_ended:
                self._decode(self._read_raw(_READ_BYTES))
        piece, self._waiting = self._waiting[:size], self._waiting[size:]
        return piece

    def _open(self) -> None:
        """See which encoding it is."""
        head = b""
        while len(head) < _MARK_BYTES and (piece := self._read_raw(_MARK_BYTES - len(head))):
            head += piece
        self._is_open = True
        marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
        self._encoding = self._encoding or marked
        if self._encoding in (None, "utf-8", "utf-8-sig"):
            self._waiting = head
        else:
            assert self._encoding is not None
            self._decoder = codecs.getincrementaldecoder(self._encoding)()
            self._decode(head, is_last=not head)

    def _decode(self, data: bytes, *, is_last: bool | None = None) -> None:
        assert self._decoder is not None
        self._is_ended = not data if is_last is None else is_last
        try:
            text = self._decoder.decode(data, final=self._is_ended)
        except UnicodeError as error:
            raise TableError(
                f"{self._source}, near line {self._n_lines + 1:,}: this is not {self._encoding} text. Give "
                "another encoding with --encoding, or leave the option out for UTF-8."
            ) from error
        self._n_lines += text.count("\n")
        self._waiting += text.encode("utf-8", "surrogatepass")
