"""How the cells of a line are told apart."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from apolar._core.checks import is_missing
from apolar.cli.tables.cells import is_number, is_written_number

# In the order of preference: the rarer a sign is inside cells, the more it says between them. None is any
# white space.
DELIMITERS = ("\t", ";", "|", ",", None)

_WORD = re.compile(r'"((?:[^"]|"")*)"(?!\S)|(\S+)')


def records(lines: Iterable[str], delimiter: str | None) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the rows of a text.

    Parameters
    ----------
    lines : iterable of str
        Without their ends. None is taken before the row that needs it, so
        that a row ends where its last line does.
    delimiter : str or None
        None for white space.

    Yields
    ------
    start, stop : int
        The lines of the row, counted from zero: several, if a cell in quotes
        goes over line ends.
    cells : list of str
        None if the line is blank.

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


def likely_delimiter(lines: Sequence[str]) -> str | None:
    """Return the delimiter with which most lines have equally many cells, and most cells are numbers.

    Parameters
    ----------
    lines : sequence of str

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
        # The first may be a header, of which every cell is text.
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
    found = _WORD.finditer(line)
    return [match[2] if match[2] is not None else match[1].replace('""', '"') for match in found]
