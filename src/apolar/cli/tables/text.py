"""Tables of text: find the delimiter, header and columns, then split the lines into cells with polars."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from apolar.cli.tables.content import (
    Column,
    Content,
    NumberParser,
    TableError,
    TableInput,
    count_noun,
    quote,
    size_text,
)

# Text is read in blocks of this size, in bytes. A longer line is refused: the file has no line ends.
BLOCK_BYTES = 2**25

# Columns are described by the first rows, and the delimiter is found in the first lines, as far as this many
# rows and characters go.
SAMPLE_ROWS, SAMPLE_CHARACTERS, SNIFFED_CHARACTERS = 1000, 2**22, 2**18

# A column is numeric if at least this fraction of its cells are numbers; its other cells are errors.
MIN_NUMERIC = 0.9

# In the order of preference: signs that are rare inside cells come first. None is white space.
DELIMITERS = ("\t", ";", "|", ",", None)

# The longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

_WORD = re.compile(r'"((?:[^"]|"")*)"(?!\S)|(\S+)')
# A number as people write it: "1,5", "1.234,5", "12 000", "1'000.5".
_WRITTEN = r"^[+-]?(?:\d{1,3}(?:[.,'\s_]\d{3})+|\d+)(?:[.,]\d+)?(?:[eE][+-]?\d+)?$"
_WRITTEN_CELL = re.compile(_WRITTEN)
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s*[ap]\.?m\.?)?(?:Z|\s*[+-]\d{2}:?\d{2})?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = (
    r"(?:\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})"
    rf"|\d{{1,2}}[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} (?:\d{{1,2}}, ?)?\d{{4}})"
)
# "2024-03-01", "1.3.2024 12:30", "1 Mar 2024", "12:30:15".
_DATE = re.compile(rf"{_DAY}(?:[T ]\s*{_TIME})?|{_TIME}", re.ASCII | re.IGNORECASE)

_NEVER_CLOSED = "a quote is opened and never closed"
_TOO_LONG = f"a cell has more than {csv.field_size_limit():,} characters, as if a quote were not closed"


# --- lines ----------------------------------------------------------------------------------------


def check_encoding(encoding: str) -> str:
    """Return the usual name of an encoding of text, or refuse it."""
    try:
        b"a\0\0\0".decode(encoding, "replace")
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise TableError(
            f"Unknown encoding {quote(encoding)}: give one such as --encoding latin-1."
        ) from error


def read_blocks(path: Path, source: str, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the number of the first line and the text of consecutive lines.

    Lines end with a line feed, the last one of a block without it. Blank lines at the end of the file are
    left out.
    """
    with path.open("rb") as compressed:
        head = compressed.read(4)
        file: Any = compressed
        compressed.seek(0)
        if head.startswith(_ZSTD):
            file = io.BytesIO(_decompress_zstd(path, source))
        elif head.startswith(_GZIP):
            file = gzip.GzipFile(fileobj=compressed)
        yield from _decode_blocks(file, source, encoding)


def _decode_blocks(file: Any, source: str, encoding: str | None) -> Iterator[tuple[int, str]]:
    data = _read(file, BLOCK_BYTES, source)
    encoding = encoding or next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8-sig")
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)(), translate=True)
    first, n_bytes, rest, is_last = 1, 0, "", False
    while not is_last:
        n_bytes, is_last = n_bytes + len(data), len(data) < BLOCK_BYTES
        try:
            text = rest + decoder.decode(data, final=is_last)
        except UnicodeError as error:
            raise _wrong_encoding(source, error, first + rest.count("\n"), n_bytes) from error
        if "\0" in text:
            line = first + text[: text.index("\0")].count("\n")
            raise TableError(
                f"{source}, line {line:,}: a zero byte, so this is not a text file. Save the table as CSV "
                "in UTF-8; if it is UTF-16 without a byte order mark, use --encoding utf-16-le."
            )
        full = text[: len(text) if is_last else text.rfind("\n") + 1].rstrip("\n")
        rest = text[len(full) :]
        if full:
            yield first, full
            rest = rest.removeprefix("\n")
            first += full.count("\n") + 1
        if len(rest.lstrip("\n")) > BLOCK_BYTES:
            raise TableError(
                f"{source}, line {first:,}: the line is longer than {size_text(BLOCK_BYTES)}. Give a text "
                "file with one row per line."
            )
        data = b"" if is_last else _read(file, BLOCK_BYTES, source)


def _read(file: Any, size: int, source: str) -> bytes:
    try:
        return file.read(size)
    except (EOFError, OSError, zlib.error) as error:
        reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
        raise TableError(
            f"{source} is truncated or damaged: {reason}. Create or copy the file again."
        ) from error


def _decompress_zstd(path: Path, source: str) -> bytes:
    """Return the text of a file by polars, which has a decompressor, as lines of a single cell."""
    try:
        lines = pl.read_csv(
            path.read_bytes(), separator="\0", quote_char=None, has_header=False, schema={"line": pl.String}
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise TableError(f"{source} is truncated or damaged. Create or copy the file again.") from error
    return "\n".join(lines["line"].fill_null("")).encode()


def _wrong_encoding(source: str, error: UnicodeError, line: int, n_bytes: int) -> TableError:
    if not isinstance(error, UnicodeDecodeError):
        return TableError(f"{source}: {error}. Choose another encoding with --encoding.")
    before, byte = error.object[: error.start], error.object[error.start]
    line += before.decode(error.encoding, "ignore").replace("\r\n", "\n").replace("\r", "\n").count("\n")
    name, remedy = error.encoding, "Choose another encoding, or omit --encoding for UTF-8"
    if name.startswith("utf-8"):
        likely = "utf-16-le" if b"\0" in error.object[: error.start + 2] else "latin-1"
        name, remedy = "UTF-8", f"Specify the encoding, such as --encoding {likely}"
    offset = n_bytes - len(error.object) + error.start
    return TableError(
        f"{source}, line {line:,}: byte {byte:#04x} at offset {offset:,} is not {name} text. {remedy}."
    )


# --- cells ----------------------------------------------------------------------------------------


def split_rows(text: str, delimiter: str | None) -> Iterator[tuple[int, list[str], bool]]:
    """Yield the first line of each row, counted from zero, its cells, and whether an open quote ends it."""
    lines = text.split("\n")
    if delimiter is None:
        for i, line in enumerate(lines):
            words = [(match[1], match[2]) for match in _WORD.finditer(line)]
            yield i, [word or cell.replace('""', '"') for cell, word in words], False
        return
    is_at_end = False

    def take_lines() -> Iterator[str]:
        nonlocal is_at_end
        for line in lines:
            yield line + "\n"
        is_at_end = True  # the reader asks for more lines before it returns a row only inside of quotes

    reader, start = csv.reader(take_lines(), delimiter=delimiter, skipinitialspace=True), 0
    try:
        for cells in reader:
            yield start, cells, is_at_end
            start = reader.line_num
    except csv.Error as error:
        raise csv.Error(start) from error


def is_blank(cells: Sequence[str]) -> bool:
    """Return whether a row is only a blank line."""
    return not cells or (len(cells) == 1 and not cells[0].strip())


def _likely_delimiter(text: str, parse: NumberParser) -> str | None:
    """Return the delimiter with which most lines have equally many cells, and most cells are numbers."""
    best: str | None = ","
    best_score = (0.0, 0.0)
    for delimiter in DELIMITERS:
        try:
            rows = [cells for _, cells, _ in split_rows(text, delimiter) if not is_blank(cells)]
        except csv.Error:
            continue
        (width, times), *_ = Counter(map(len, rows)).most_common(1) or [(1, 0)]
        if width == 1:
            continue
        # The first may be a header, none of whose cells is a number.
        below = [row for row in rows[1:] or rows if len(row) == width]
        cells = pl.Series(itertools.chain.from_iterable(below), dtype=pl.String)
        values, wrong = parse(cells)
        wrong_cells = cells.filter(pl.Series(wrong)).str.strip_chars()
        n_numbers = int(np.count_nonzero(~np.isnan(values))) + len(
            wrong_cells.filter(wrong_cells.str.contains(_WRITTEN))
        )
        n_present = int(np.count_nonzero(~np.isnan(values) | wrong))
        evenness = times / len(rows)
        score = (evenness * n_numbers / max(1, n_present), evenness)
        if score > best_score:
            best, best_score = delimiter, score
    return best


# --- columns, described by the first rows ---------------------------------------------------------

TextRow = tuple[int, list[str]]
"""The place of a row in its file, and its cells."""


def describe_columns(
    source: str, unit: str, first: Sequence[str], below: Sequence[TextRow], parse: NumberParser
) -> tuple[bool, tuple[Column, ...]]:
    """Return whether the first row is a header, and the columns.

    Parameters
    ----------
    source, unit : str
        The file, and what places count.
    first : sequence of str
        The cells of the first row.
    below : sequence of TextRow
        Rows below it, of the same length.
    parse : NumberParser
    """
    cells = pl.Series(itertools.chain.from_iterable(row for _, row in below), dtype=pl.String)
    values, wrong = (array.reshape(len(below), len(first)) for array in parse(cells))
    n_present = np.count_nonzero(~np.isnan(values) | wrong, axis=0)
    n_wrong = np.count_nonzero(wrong, axis=0)
    is_numeric = (n_present > 0) & (n_present - n_wrong >= MIN_NUMERIC * n_present)
    is_text = parse(pl.Series(first, dtype=pl.String))[1]
    has_header = bool(np.any(is_text[is_numeric] if is_numeric.any() else is_text))
    names = [" ".join(cell.split()) or f"column {i + 1}" for i, cell in enumerate(first)]
    if not has_header:
        names = [f"x{i + 1}" for i in range(len(first))]
    columns = []
    for i, name in enumerate(names):
        if is_numeric[i]:
            columns.append(Column(name))
        elif not n_present[i]:
            columns.append(Column(name, "nothing"))
        else:
            places = np.flatnonzero(wrong[:, i] | ~np.isnan(values[:, i]))
            present = [(below[at][0], below[at][1][i].strip(), bool(wrong[at, i])) for at in places.tolist()]
            columns.append(_describe_text(source, unit, name, present, parse.decimal))
    if has_header and not first[0].strip() and len(first) > 1 and _is_index([row[0] for _, row in below]):
        columns[0] = Column(names[0], "row numbers")
    return has_header, tuple(columns)


def _describe_text(
    source: str, unit: str, name: str, present: Sequence[tuple[int, str, bool]], decimal: str | None
) -> Column:
    """Return a column that is mostly not numbers, by the places and cells that are not missing."""
    cells = [cell for _, cell, _ in present]
    place, example = next((place, cell) for place, cell, is_wrong in present if is_wrong)
    kind = "text"
    if all(_DATE.fullmatch(cell) for cell in cells):
        kind = "dates"
    elif all(cell in ("true", "false") for cell in cells):
        kind = "true and false"
    is_misread = all(not is_wrong or _WRITTEN_CELL.match(cell) for _, cell, is_wrong in present)
    problem = not_a_number(source, unit, place, name, example, decimal)
    return Column(name, kind, example, problem, kind == "text" and is_misread)


def not_a_number(source: str, unit: str, place: int, name: str, cell: str, decimal: str | None = ".") -> str:
    """Return the message on a cell that should be a number."""
    remedy = "Correct the cell (leave it empty if the value is missing)"
    if _WRITTEN_CELL.match(cell.strip()):
        sign = "comma, like the other numbers," if decimal == "," else "point"
        remedy = f"Write it with a decimal {sign} and without thousands separators"
    return (
        f"{source}, {unit} {place:,}, column {quote(name)}: {quote(cell)} is not a number. "
        f"{remedy}, or exclude the column with --columns."
    )


def _is_index(cells: Sequence[str]) -> bool:
    """Return whether cells are distinct integers: the row numbers of another program."""
    cells = [cell.strip() for cell in cells]
    return all(cell.isascii() and cell.isdigit() for cell in cells) and len(set(cells)) == len(cells)


# --- a file ---------------------------------------------------------------------------------------


def open_text(file: TableInput) -> Content:
    """Return the content of a text file."""
    return _TextTable(file).content()


class _TextTable:
    """A text file: the layout is found in the first block, then the rows are split block by block."""

    def __init__(self, file: TableInput) -> None:
        self.source = file.name
        self.blocks = read_blocks(file.path, file.name, file.options.encoding)
        self.line, self.text = self._start()
        parse = NumberParser(missing=file.options.missing)
        self.delimiter = _likely_delimiter(_first_lines(self.text, SNIFFED_CHARACTERS), parse)
        first, below, n_first_lines = self._sample()
        if self.delimiter == ";":
            cells = pl.Series(itertools.chain.from_iterable(row for _, row in below), dtype=pl.String)
            commas, points = parse.count_signs(cells, ","), parse.count_signs(cells, ".")
            parse.decimal = "," if commas > points else "." if points else None
        self.parse = parse
        self._describe(first, below)
        if self.has_header:
            self.text = self.text[_end_of_lines(self.text, n_first_lines) :]
            self.line += n_first_lines

    def content(self) -> Content:
        """Return the columns, and the rows yet to be read."""
        return Content(self.source, "line", self.columns, self.frames, self.parse, self.delimiter or " ")

    def _start(self) -> tuple[int, str]:
        """Return the first lines below comments and blank lines: at least two, if there are as many."""
        start, text = 1, ""
        for first, block in self.blocks:
            start, text = (start, f"{text}\n{block}") if text else (first, block)
            n_skipped = at = 0
            while at < len(text) and (text.startswith("#", at) or not text[at : at + 1].strip()):
                end = text.find("\n", at)
                if not text.startswith("#", at) and text[at : end if end >= 0 else None].strip():
                    break
                at, n_skipped = (end + 1 if end >= 0 else len(text)), n_skipped + 1
            start, text = start + n_skipped, text[at:]
            if "\n" in text:
                break
        if not text:
            raise TableError(f"{self.source} is empty: give a file with a table of numbers.")
        return start, text

    def _sample(self) -> tuple[list[str], list[TextRow], int]:
        """Return the cells of the first row, the rows below it, and the number of lines of the first."""
        rows: list[TextRow] = []
        second = 0
        try:
            sample = split_rows(_first_lines(self.text, SAMPLE_CHARACTERS), self.delimiter)
            for start, cells, is_open in itertools.islice(sample, SAMPLE_ROWS + 1):
                second = second or start
                if is_open and len(rows) < 2:
                    raise self._unclosed(self.line + start, _NEVER_CLOSED)
                if not is_open:
                    rows.append((self.line + start, cells))
        except csv.Error as error:
            raise self._unclosed(self.line + error.args[0], _TOO_LONG) from error
        return rows[0][1], [row for row in rows[1:] if not is_blank(row[1])], second

    def _describe(self, first: list[str], below: list[TextRow]) -> None:
        """Find the columns, and whether there is a header; refuse a title above the table."""
        is_text = self.parse(pl.Series(first, dtype=pl.String))[1].any()
        if not below:
            what = "a header and no rows below it" if is_text else "only one row of numbers"
            raise TableError(f"{self.source} has {what}: at least two are needed.")
        header = _full_header(first, below) if is_text else first
        rows = [row for row in below if len(row[1]) == len(header)]
        if rows:
            self.has_header, self.columns = describe_columns(self.source, "line", header, rows, self.parse)
        if not rows or (len(header) > len(first) and not any(column.is_numeric for column in self.columns)):
            raise self._ragged(*below[0], len(first), f"If line {self.line:,} is a title, remove it.")

    def frames(self, positions: Sequence[int]) -> Iterator[tuple[pl.DataFrame, Sequence[int]]]:
        """Yield the cells of the columns as strings, and the lines of their rows."""
        line, text = self.line, self.text
        while True:
            rest = ""
            if text:
                frame, places, rest = self._split(line, text)
                yield frame.select(pl.nth(*positions)), places
            first, following = next(self.blocks, (0, ""))
            if not following and rest:
                start = line + text[: len(text) - len(rest)].count("\n")
                raise self._unclosed(start, _NEVER_CLOSED)
            if not following:
                return
            line = first - rest.count("\n") - 1 if rest else first
            text = f"{rest}\n{following}" if rest else following

    def _split(self, line: int, text: str) -> tuple[pl.DataFrame, Sequence[int], str]:
        """Return the cells and lines of rows, and the text from where a quote is open at the end."""
        n_lines = text.count("\n") + 1
        frame = self._split_by_polars(text, n_lines)
        if frame is not None:
            return frame, range(line, line + n_lines), ""
        places, rows, width, rest = [], [], len(self.columns), ""
        try:
            for start, cells, is_open in split_rows(text, self.delimiter):
                if is_open:
                    rest = text[_end_of_lines(text, start) :]
                elif len(cells) == width or (width == 1 and not cells):
                    places.append(line + start)
                    rows.append(cells or [""])
                elif not is_blank(cells):
                    raise self._ragged(line + start, cells, width, "Correct the line.")
        except csv.Error as error:
            raise self._unclosed(line + error.args[0], _TOO_LONG) from error
        columns = zip(*rows, strict=True) if rows else ((),) * width
        frame = pl.DataFrame({f"{i}": cells for i, cells in enumerate(columns)}, schema=self._schema)
        return frame.with_columns(pl.all().replace("", None)), places, rest

    def _split_by_polars(self, text: str, n_lines: int) -> pl.DataFrame | None:
        """Return the cells if each line is surely one row, and each row as long as the others; else None."""
        width, separator = len(self.columns), self.delimiter or "\t"
        has_quotes = '"' in text
        if self.delimiter is None:
            if has_quotes:
                return None
            text = "\n".join(["\t".join(line.split()) for line in text.split("\n")])
        if has_quotes and not _has_plain_quotes(text, separator):
            return None
        try:
            frame = pl.read_csv(
                text.encode("utf-8", "surrogatepass"),
                has_header=False,
                schema=self._schema,
                separator=separator,
                quote_char='"' if has_quotes else None,
            )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return None
        # Polars fills up short rows: there are as many delimiters as there should be, but for those in cells.
        n_delimiters = text.count(separator)
        if has_quotes:
            counts = frame.select(pl.all().str.count_matches(separator, literal=True).sum())
            n_delimiters -= sum(counts.row(0))
        is_full = n_delimiters == (width - 1) * n_lines
        return frame if is_full and len(frame) == n_lines else None

    @property
    def _schema(self) -> dict[str, type[pl.String]]:
        return {f"{i}": pl.String for i in range(len(self.columns))}

    def _ragged(self, line: int, cells: Sequence[str], expected: int, hint: str) -> TableError:
        if any("\n" in cell for cell in cells):
            hint = "A quoted cell spans several lines there: check whether it should."
        return TableError(
            f"{self.source}, line {line:,}: {count_noun(len(cells), 'cell')} instead of {expected:,}. {hint}"
        )

    def _unclosed(self, line: int, what: str) -> TableError:
        return TableError(f"{self.source}, line {line:,}: {what}. Close the quote, or remove it.")


def _first_lines(text: str, size: int) -> str:
    """Return the first lines of a text, of about so many characters: at least three."""
    if size >= len(text):
        return text
    size = max(size, _end_of_lines(text, 3))
    return text[: text.rfind("\n", 0, size)] if size < len(text) else text


def _end_of_lines(text: str, n_lines: int) -> int:
    """Return the position after some lines."""
    end = 0
    for _ in range(n_lines):
        end = text.find("\n", end) + 1
        if not end:
            return len(text)
    return end


def _full_header(names: list[str], rows: Sequence[TextRow]) -> list[str]:
    """Return the names of a header that may omit one: that of R's row names, or of an empty last column."""
    (width, _), *_ = Counter(len(cells) for _, cells in rows).most_common(1)
    if len(names) != width - 1:
        return names
    last_is_empty = all(not cells[-1].strip() for _, cells in rows if len(cells) == width)
    return [*names, ""] if last_is_empty else ["", *names]


def _has_plain_quotes(text: str, separator: str) -> bool:
    """Return whether each quote begins or ends a cell, or is doubled inside of one."""
    text = text.replace('""', "")
    n_opening = text.count(f'{separator}"') + text.count('\n"') + text.startswith('"')
    n_closing = text.count(f'"{separator}') + text.count('"\n') + text.endswith('"')
    return n_opening == n_closing and text.count('"') == 2 * n_opening
