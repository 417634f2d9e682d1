"""Numbers and small tables of results, as people read them: as text, and in notebooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape

__all__ = [
    "Displayed",
    "TableCells",
    "cluster_table",
    "count_noun",
    "figures",
    "html_table",
    "text_table",
    "with_error",
]

# Figures of a number, and of the deviation or standard error next to it.
N_FIGURES, N_ERROR_FIGURES = 4, 2
# From these powers of ten on a number is written with an exponent.
MIN_POWER, MAX_POWER = -5, 7
# A number next to its error has more digits before it is written with an exponent: a time in seconds has ten.
MAX_DIGITS = 12


def figures(value: float, n_figures: int = N_FIGURES) -> str:
    """Return a number with a few significant figures; with an exponent only if it is huge or tiny.

    Digits before the point are all written: 10341, not 1.034e+04.

    >>> figures(10341.27), figures(0.246), figures(-12.3456), figures(2.5e-9)
    ('10341', '0.246', '-12.35', '2.5e-9')
    """
    if not math.isfinite(value):
        return str(float(value))
    if value == 0:
        return "0"
    power = _power(value, n_figures)
    if not MIN_POWER <= power < MAX_POWER:
        digits, _, exponent = f"{value:.{n_figures - 1}e}".partition("e")
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
        return f"{digits}e{int(exponent)}"
    n_decimals = max(n_figures - 1 - power, 0)
    text = f"{value:.{n_decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_error(value: float, error: float) -> str:
    """Return a number and its deviation or standard error, to the same decimal.

    The error has two significant figures, and the number ends where the error does. Digits before the point
    are all written, of the error rounded to its figures: 4325 ± 850.

    >>> with_error(4325.3, 846.2), with_error(0.24623, 0.10541), with_error(10341.2, 5.43)
    ('4325 ± 850', '0.25 ± 0.11', '10341.2 ± 5.4')
    """
    if not (math.isfinite(value) and math.isfinite(error)) or error == 0:
        return f"{figures(value)} ± {figures(error, N_ERROR_FIGURES)}"
    largest = max(abs(value), abs(error))
    power, error_power = _power(largest, N_FIGURES), _power(error, N_ERROR_FIGURES)
    if error_power < MIN_POWER or power > MAX_DIGITS or power - error_power > MAX_DIGITS:
        return f"{figures(value)} ± {figures(error, N_ERROR_FIGURES)}"
    n_decimals = max(N_ERROR_FIGURES - 1 - error_power, 0)
    rounded = round(error, N_ERROR_FIGURES - 1 - error_power)
    return f"{round(value, n_decimals) + 0.0:.{n_decimals}f} ± {rounded:.{n_decimals}f}"


def count_noun(number: int, noun: str) -> str:
    """Return "1 row", "2,000 rows" or "3 passes"."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def _power(value: float, n_figures: int) -> int:
    """Return the power of ten of the first figure, after rounding."""
    return int(f"{abs(value):.{n_figures - 1}e}".partition("e")[2])


# --- tables ----

# The most columns of the data that a notebook shows, and the most clusters that are shown anywhere.
SHOWN_COLUMNS, SHOWN_CLUSTERS = 10, 30

TableCells = tuple[list[str], list[list[str]]]
"""The heads of a table, and its rows."""

CELL_STYLE = "text-align:right;white-space:nowrap;padding:0.1em 0.6em"


class Displayed:
    """A result that is shown as a title and a table, as text and in notebooks."""

    def _display(self) -> tuple[str, TableCells]:
        """Return the title and the table."""
        raise NotImplementedError

    def __str__(self) -> str:
        title, table = self._display()
        return "\n".join([title, "", *text_table(*table)])

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        title, table = self._display()
        return html_table(*table, title)


def cluster_table(
    first: Mapping[str, Sequence[str]], names: Sequence[str], cell: Callable[[int, int], str], n_columns: int
) -> TableCells:
    """Return a table with one line for each cluster.

    Parameters
    ----------
    first : mapping of str to sequence of str
        The heads and cells of the first columns.
    names : sequence of str
        The heads of the others: the columns of the data.
    cell : callable
        Takes the numbers of a cluster and of a column of the data.
    n_columns : int
        How many columns of the data are shown.
    """
    more = ["..."] if len(names) > n_columns else []
    columns = range(min(len(names), n_columns))
    rows = [
        [*values, *(cell(k, j) for j in columns), *more]
        for k, values in enumerate(zip(*first.values(), strict=True))
    ]
    return [*first, *names[:n_columns], *more], rows


def text_table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = ()) -> list[str]:
    """Return the lines of a table, with cells aligned to the right, except in some columns."""
    lines = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return a table as HTML, with everything escaped; with the caption below it.

    Colours and fonts are those of the notebook, light or dark.

    Parameters
    ----------
    heads : sequence of str
    rows : iterable of sequences of str
        One cell for each head.
    caption : str, default=""

    Returns
    -------
    html : str
    """
    head = "".join(_cell("th", cell) for cell in heads)
    body = "".join(f"<tr>{''.join(_cell('td', cell) for cell in row)}</tr>" for row in rows)
    below = f"<p>{escape(caption)}</p>" if caption else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="apolar" style="overflow-x:auto">{table}{below}</div>'


def _cell(tag: str, text: str) -> str:
    return f'<{tag} style="{CELL_STYLE}">{escape(str(text))}</{tag}>'
