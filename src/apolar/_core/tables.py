"""Small tables of results, as text and for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape

__all__ = ["Displayed", "TableCells", "cluster_table", "html_table", "text_table"]

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
    """Return the lines of a table, with cells to the right, but those of some columns to the left."""
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
        As many cells as there are heads.
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
