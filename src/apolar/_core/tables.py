"""Small tables of results, as text and for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table", "text_table"]

CELL_STYLE = "text-align:right;white-space:nowrap;padding:0.1em 0.6em"


def text_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with cells to the right."""
    lines = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return a table as HTML, with everything escaped; a caption in words stands below it.

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
