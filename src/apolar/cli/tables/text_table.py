"""Tables of text: find the delimiter, header and columns, then split the lines into cells with polars."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

import polars as pl

from apolar._core.checks import MISSING_WORDS
from apolar.cli.console import TableError, count_noun, quote
from apolar.cli.tables.columns import (
    FRAME_SIZE,
    SAMPLE_ROWS,
    WRITTEN_NUMBER,
    Column,
    Content,
    TableInput,
    describe_columns,
    refuse_damage,
)

# Text is read in blocks of as many characters as a frame of numbers has bytes, and the rest of a line.
BLOCK_SIZE = 8 * FRAME_SIZE

TextRow = tuple[int, list[str]]
"""The line on which a row begins, and its cells."""

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

# After the last line, where it is a row of its own unless a quote is open; no line has a zero byte.
_END = "\0"
_NEVER_CLOSED = "a quote is opened and never closed"
_TOO_LONG = f"a cell has more than {csv.field_size_limit():,} characters, as if a quote were not closed"


# --- lines ----------------------------------------------------------------------------------------


def read_blocks(file: TableInput, n_skipped: int = 0, size: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield the number of the first line and the text of consecutive lines.

    Lines end with a line feed, the last one of a block without it. Blank lines at the end of the file are
    left out.

    Parameters
    ----------
    file : TableInput
    n_skipped : int
        Lines at the top that are left out.
    size : int, optional
        The number of characters of a block.
    """
    with _open_lines(file) as lines:
        for _ in range(n_skipped):
            lines.readline()
        first = n_skipped + 1
        blank = ""  # line ends that may be the last of the file
        while read := lines.read(size or BLOCK_SIZE):
            text = blank + read + lines.readline(BLOCK_SIZE)
            block = text.rstrip("\n")
            if "\0" in block:
                line = first + block[: block.index("\0")].count("\n")
                raise TableError(
                    f"{file.name}, line {line:,}: a zero byte, so this is not a text file. Save the table as "
                    "CSV in UTF-8; if it is UTF-16 without a byte order mark, use --encoding utf-16-le."
                )
            if block:
                yield first, block
                first += block.count("\n") + 1
            blank = text[len(block) :].removeprefix("\n" if block else "")


@contextmanager
def _open_lines(file: TableInput) -> Iterator[io.TextIOWrapper]:
    """Open a file as text, and turn what may be wrong with it into one line."""
    with file.path.open("rb") as stored, refuse_damage(file.name):
        stream = _decompress(stored)
        mark = stream.read(4)
        stream.seek(0)
        encoding = file.encoding or next((_MARKS[key] for key in _MARKS if mark.startswith(key)), "utf-8-sig")
        try:
            lines = io.TextIOWrapper(stream, encoding)
        except LookupError as error:
            raise TableError(
                f"Unknown encoding {quote(encoding)}: give one such as --encoding latin-1."
            ) from error
        try:
            yield lines
        except UnicodeDecodeError as error:
            raise _wrong_encoding(file, error) from error
        except UnicodeError as error:
            raise TableError(f"{file.name}: {error}. Choose another encoding with --encoding.") from error


def _decompress(stored: IO[bytes]) -> Any:
    """Return the bytes of the text of a file that may be compressed."""
    head = stored.read(4)
    stored.seek(0)
    if head.startswith(_ZSTD):  # Polars has a decompressor, for lines of a single cell.
        options: dict[str, Any] = {"separator": "\0", "quote_char": None, "has_header": False}
        lines = pl.read_csv(stored.read(), schema={"line": pl.String}, **options)
        return io.BytesIO("\n".join(lines["line"].fill_null("")).encode())
    return gzip.GzipFile(fileobj=stored) if head.startswith(_GZIP) else stored


def _wrong_encoding(file: TableInput, error: UnicodeDecodeError) -> TableError:
    """Return what is said about bytes that are not text in an encoding."""
    with file.path.open("rb") as stored:
        lines = enumerate(io.TextIOWrapper(_decompress(stored), error.encoding, errors="replace"), start=1)
        number = next((number for number, line in lines if "\N{REPLACEMENT CHARACTER}" in line), 1)
    byte, encoding = error.object[error.start], error.encoding.upper()
    return TableError(
        f"{file.name}, line {number:,}: byte {byte:#04x} is not {encoding} text. Specify its encoding, "
        "such as --encoding latin-1 or utf-16-le."
    )


# --- cells ----------------------------------------------------------------------------------------


def split_rows(source: str, first: int, lines: Iterable[str], delimiter: str | None) -> Iterator[TextRow]:
    """Yield the number of the first line of each row, and its cells; refuse quotes that are not closed.

    Parameters
    ----------
    source : str
    first : int
        The number of the first line.
    lines : iterable of str
        Without line ends.
    delimiter : str or None
    """
    if delimiter is None:
        lines = (line.strip().expandtabs(1) for line in lines)
    ended = itertools.chain((f"{line}\n" for line in lines), [_END])
    reader = csv.reader(ended, delimiter=delimiter or " ", skipinitialspace=True)
    line, problem = first, _TOO_LONG
    with suppress(csv.Error):
        for cells in reader:
            if cells == [_END]:
                return
            if cells and cells[-1].endswith(_END):
                problem = _NEVER_CLOSED
                break
            yield line, cells or [""]  # in a table of one column, a blank line is a row
            line = first + reader.line_num
    raise TableError(f"{source}, line {line:,}: {problem}. Close the quote, or remove it.")


def is_blank(cells: Sequence[str]) -> bool:
    """Return whether a row is only a blank line."""
    return len(cells) == 1 and not cells[0].strip()


def _rate_delimiter(
    lines: Sequence[str], delimiter: str | None, missing: Sequence[str]
) -> tuple[float, float]:
    """Return the fraction of rows of the usual length times that of numbers in them, and the first alone.

    With the best delimiter most lines have equally many cells, and most cells are numbers.
    """
    rows: list[list[str]] = []
    with suppress(TableError):  # the lines may end inside of quotes
        rows.extend(cells for _, cells in split_rows("", 1, lines, delimiter) if not is_blank(cells))
    if not rows:
        return 0.0, 0.0
    ((width, times),) = Counter(map(len, rows)).most_common(1)
    if width == 1:
        return 0.0, 0.0
    # The first may be a header, none of whose cells is a number.
    below = [row for row in rows[1:] or rows if len(row) == width]
    cells = pl.Series(itertools.chain.from_iterable(below), dtype=pl.String).str.strip_chars()
    present = cells.filter(~cells.str.to_lowercase().is_in([*MISSING_WORDS, *missing]))
    n_numbers = len(present.filter(present.str.contains(WRITTEN_NUMBER)))
    evenness = times / len(rows)
    return evenness * n_numbers / max(1, len(present)), evenness


# --- a file ---------------------------------------------------------------------------------------


def open_text(file: TableInput) -> Content:
    """Return the content of a text file."""
    first, lines, others = _first_lines(file)
    if re.fullmatch(r"sep=.", lines[0].strip()):
        raise TableError(f"{file.name}: line {first:,} is for spreadsheets only: use --skip-rows {first}.")
    parse = file.parser()
    scores = {each: _rate_delimiter(lines, each, file.na_values) for each in DELIMITERS}
    best = max(scores, key=scores.__getitem__)
    delimiter = best if any(scores[best]) else ","
    rows: list[TextRow] = []
    try:
        every = split_rows(file.name, first, itertools.chain(lines, others), delimiter)
        rows.extend(itertools.islice(every, len(lines)))
    except TableError:
        if len(rows) < 2:
            raise
    header, below = rows[0][1], [row for row in rows[1:] if not is_blank(row[1])]
    names = header
    if below and (file.header or parse.parse_list(header)[1].any()):
        names = _full_header(header, below)
    even = [row for row in below if len(row[1]) == len(names)]
    sample = _as_frame([names, *(cells for _, cells in even)])
    if delimiter == ";" and file.thousands is None:
        commas, points = parse.count_signs(sample[1:], ","), parse.count_signs(sample[1:], ".")
        parse.decimal = "," if commas > points else "." if points else None
    columns: tuple[Column, ...] = ()
    if even or not below:
        places = [first, *(line for line, _ in even)]
        has_header, columns = describe_columns(file.name, "line", places, sample, parse, file.header)
    if len(names) > len(header) and all(column.kind != "numbers" for column in columns):
        columns = ()
    ((width, _),) = Counter(len(cells) for _, cells in rows).most_common(1)
    if not columns or (width != len(names) and 2 * len(even) < len(below)):
        line, cells = next(row for row in below if len(row[1]) != len(header))
        top = next(line for line, cells in rows if len(cells) == width)
        hint = f"If the lines above line {top:,} are a title, use --skip-rows {top - 1}."
        raise _ragged_row_error(
            file.name, line, cells, len(header), hint if top > first else "Correct the line."
        )
    # All lines of a header that spans several are left out.
    n_skipped = (rows[1][0] if has_header else first) - 1

    def frames(positions: Sequence[int]) -> Iterator[tuple[pl.DataFrame, Sequence[int]]]:
        blocks = read_blocks(file, n_skipped)
        for line, text in blocks:
            frame = _split_by_polars(text, delimiter, len(columns))
            if frame is None:
                further = itertools.chain([text], (following for _, following in blocks))
                split = _split_by_csv(file.name, line, further, delimiter, len(columns))
                yield from ((frame.select(pl.nth(*positions)), lines) for frame, lines in split)
                return
            yield frame.select(pl.nth(*positions)), range(line, line + len(frame))

    names_are_given = has_header or file.header is False
    return Content(file.name, "line", columns, frames, parse, delimiter or " ", has_names=names_are_given)


def _as_frame(rows: Sequence[Sequence[str]]) -> pl.DataFrame:
    """Return rows of equally many cells as columns of strings."""
    return pl.DataFrame({f"{i}": cells for i, cells in enumerate(zip(*rows, strict=True))})


def _first_lines(file: TableInput) -> tuple[int, list[str], Iterator[str]]:
    """Return the number of the first line below comments and blank lines, the first lines, and the others."""
    lines = (line for _, text in read_blocks(file, size=csv.field_size_limit()) for line in text.split("\n"))
    for first, top in enumerate(lines, start=1):
        if first > file.skip_rows and not top.startswith("#") and top.strip():
            n_below = min(SAMPLE_ROWS, max(2, FRAME_SIZE // len(top)))
            return first, [top, *itertools.islice(lines, n_below)], lines
    raise TableError(f"{file.name} is empty: give a file with a table of numbers.")


def _full_header(names: list[str], rows: Sequence[TextRow]) -> list[str]:
    """Return the names of a header that may omit one: that of R's row names, or of an empty last column."""
    ((width, _),) = Counter(len(cells) for _, cells in rows).most_common(1)
    if len(names) != width - 1:
        return names
    last_is_empty = all(not cells[-1].strip() for _, cells in rows if len(cells) == width)
    return [*names, ""] if last_is_empty else ["", *names]


def _split_by_polars(text: str, delimiter: str | None, width: int) -> pl.DataFrame | None:
    """Return the cells if each line is surely one row, and each row as long as the others; else None."""
    separator, has_quotes = delimiter or "\t", '"' in text
    if has_quotes:
        # Each must begin or end a cell, or be doubled inside of one.
        single = text.replace('""', "")
        n_opening = single.count(f'{separator}"') + single.count('\n"') + single.startswith('"')
        n_closing = single.count(f'"{separator}') + single.count('"\n') + single.endswith('"')
        if delimiter is None or not n_opening == n_closing == single.count('"') / 2:
            return None
    if delimiter is None:
        text = "\n".join(["\t".join(line.split()) for line in text.split("\n")])
    try:
        frame = pl.read_csv(
            text.encode("utf-8", "surrogatepass"),
            has_header=False,
            schema={f"{i}": pl.String for i in range(width)},
            separator=separator,
            quote_char='"' if has_quotes else None,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    # Polars fills up short rows: the number of delimiters must be right, apart from those in cells.
    n_lines, n_delimiters = text.count("\n") + 1, text.count(separator)
    if has_quotes:
        n_delimiters -= sum(frame.select(pl.all().str.count_matches(separator, literal=True).sum()).row(0))
    return frame if len(frame) == n_lines and n_delimiters == (width - 1) * n_lines else None


def _split_by_csv(
    source: str, first: int, texts: Iterable[str], delimiter: str | None, width: int
) -> Iterator[tuple[pl.DataFrame, Sequence[int]]]:
    """Yield cells and the lines of rows, without blank lines; refuse rows of other lengths."""
    lines = itertools.chain.from_iterable(text.split("\n") for text in texts)
    rows = split_rows(source, first, lines, delimiter)
    while batch := list(itertools.islice(rows, max(1, FRAME_SIZE // width))):
        kept = [row for row in batch if len(row[1]) == width or not is_blank(row[1])]
        for line, cells in kept:
            if len(cells) != width:
                is_title = len(cells) == 1 and any(sign.isalpha() for sign in cells[0])
                title = f" If the lines up to line {line:,} are a title, use --skip-rows {line}."
                raise _ragged_row_error(
                    source, line, cells, width, "Correct the line." + (title if is_title else "")
                )
        if kept:
            frame = _as_frame([cells for _, cells in kept])
            yield frame.with_columns(pl.all().replace("", None)), [line for line, _ in kept]


def _ragged_row_error(source: str, line: int, cells: Sequence[str], expected: int, hint: str) -> TableError:
    if any("\n" in cell for cell in cells):
        hint = "A quoted cell spans several lines there: check whether it should."
    return TableError(
        f"{source}, line {line:,}: {count_noun(len(cells), 'cell')} instead of {expected:,}. {hint}"
    )
