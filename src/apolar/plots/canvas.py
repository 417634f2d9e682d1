"""What pictures are made of: a figure and its panels, the text around them, and their places."""

from __future__ import annotations

import io
import itertools
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from apolar._core.arrays import Array
from apolar.plots.palette import GREY, INK, PAPER

if TYPE_CHECKING:
    from apolar.plots.picture import Picture

__all__ = [
    "LegendEntry",
    "add_panel",
    "arrange",
    "file_bytes",
    "need_matplotlib",
    "new_figure",
    "off_screen",
    "shortened",
    "styled",
    "wrap",
    "write",
]

# In inches: between panels, around all, and the least panel in a figure that is given.
GAP, MARGIN, MIN_PANEL = 0.07, 0.12, 0.3
# In points.
TICK_SIZE, TEXT_SIZE, TITLE_SIZE = 8, 9, 12
# More points than this are drawn as an image, also in SVG and PDF.
MAX_VECTORS = 1000


def need_matplotlib() -> None:
    """Raise an error that says what to install, if matplotlib is not there."""
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise ImportError('Pictures need matplotlib: pip install "apolar[plots]".') from error


# Whether new figures are kept from pyplot; each thread has its own value.
_off_screen: ContextVar[bool] = ContextVar("off_screen", default=False)


@contextmanager
def off_screen() -> Iterator[None]:
    """Keep figures that are made in this block from pyplot: no window opens, and nothing has to be closed."""
    token = _off_screen.set(True)
    try:
        yield
    finally:
        _off_screen.reset(token)


def new_figure() -> Picture:
    """Return an empty figure, which pyplot shows if the user works with it."""
    from apolar.plots.picture import Picture

    # Fine enough for print, where points are drawn as an image.
    how: dict[str, Any] = {"dpi": 150, "facecolor": PAPER}
    if _uses_pyplot():
        from matplotlib import pyplot

        return cast(Picture, pyplot.figure(FigureClass=Picture, **how))
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = Picture(**how)
    FigureCanvasAgg(figure)
    return figure


def _uses_pyplot() -> bool:
    """Return whether pyplot shows new figures: where it has been imported, and in notebooks.

    Elsewhere it stays unused: it would keep every figure until it is closed. Windows belong to the main
    thread.
    """
    if _off_screen.get() or threading.current_thread() is not threading.main_thread():
        return False
    if "matplotlib.pyplot" in sys.modules:
        return True
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def file_bytes(figure: Any, kind: str, dpi: int) -> bytes:
    """Return a figure as a PNG or SVG file; the same figure always gives the same bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "apolar"}):
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def add_panel(figure: Any, label: str) -> Any:
    """Return new axes with thin lines and small ticks; `arrange` puts them in their place."""
    return styled(figure.add_axes((0.1, 0.1, 0.8, 0.8), label=label, facecolor="white"))


def styled(panel: Any) -> Any:
    """Return axes after giving them thin lines and small ticks."""
    panel.tick_params(labelsize=TICK_SIZE, length=2.5, width=0.6, pad=2, color=INK, labelcolor=INK)
    panel.spines[:].set(linewidth=0.6, color=GREY)
    panel.grid(False)
    return panel


# --- places -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LegendEntry:
    """A line of the legend: a name, how many, and how its mark looks."""

    name: str
    count: str
    look: dict[str, Any]


def arrange(
    figure: Any,
    panels: Array,
    *,
    panel_size: tuple[float, float] | None,
    title: str | None,
    entries: list[LegendEntry],
    caption: list[str],
    remedy: str = "make it larger",
) -> None:
    """Put panels, legend, caption and title in their places, by the sizes of their text.

    Parameters
    ----------
    figure : matplotlib Figure or SubFigure
    panels : ndarray of Axes, shape (n_rows, n_columns)
        With ticks and their labels at the left and at the bottom only.
    panel_size : pair of float or None
        Width and height of a panel in inches, to which the figure is made; None keeps the size of the figure.
    title : str or None
    entries : list of LegendEntry
        The legend, between panels and caption.
    caption : list of str
        Its paragraphs.
    remedy : str
        What to do if panels get too small in a figure that keeps its size.
    """
    (n_rows, n_columns), dpi = panels.shape, figure.dpi

    def tall(artist: Any) -> float:
        return float(artist.get_window_extent().height / dpi)

    # All in inches.
    left = MARGIN + max(_overhang(panel, panel.yaxis, "x0") for panel in panels[:, 0])
    ticks = max(_overhang(panel, panel.xaxis, "y0") for panel in panels[-1])
    gaps_across, gaps_up = (n_columns - 1) * GAP, (n_rows - 1) * GAP
    if panel_size is None:
        width = figure.bbox.width / dpi
    else:
        width = left + n_columns * panel_size[0] + gaps_across + MARGIN
    inside = (width - 2 * MARGIN) * dpi

    # From the bottom up.
    below = MARGIN
    caption_text = figure.text(0.5, 0, "", fontsize=TEXT_SIZE, color=INK, ha="center", va="bottom")
    wrap(caption_text, *caption, width=inside)
    below += tall(caption_text)
    legend = _legend(figure, entries, inside) if entries else None
    if legend is not None:
        below += 0.08 + tall(legend)
    legend_top = below
    below += 0.1 + ticks
    above = MARGIN
    title_text = figure.text(0.5, 1, "", fontsize=TITLE_SIZE, color=INK, ha="center", va="top")
    if title:
        wrap(title_text, str(title), width=inside)
        above += tall(title_text) + 0.08

    if panel_size is None:
        height = figure.bbox.height / dpi
    else:
        height = below + n_rows * panel_size[1] + gaps_up + above
    across = (width - left - MARGIN - gaps_across) / n_columns
    up = (height - below - above - gaps_up) / n_rows
    if min(across, up) < MIN_PANEL:
        raise ValueError(
            f"A figure of {width:.1f} by {height:.1f} inches is too small for {n_columns} columns and their "
            f"legend: {remedy}."
        )
    if panel_size is not None:
        figure.set_size_inches(width, height)
    for i, j in np.ndindex(n_rows, n_columns):
        x, y = left + j * (across + GAP), below + (n_rows - 1 - i) * (up + GAP)
        panel: Any = panels[i, j]
        panel.set_position((x / width, y / height, across / width, up / height))
    caption_text.set_y(MARGIN / height)
    title_text.set_y(1 - MARGIN / height)
    if legend is not None:
        legend.set_bbox_to_anchor((0.5, legend_top / height), transform=figure.transSubfigure)


def _overhang(panel: Any, axis: Any, side: str) -> float:
    """Return how far, in inches, the ticks and labels of an axis reach out of the panel."""
    box = axis.get_tightbbox()
    return 0.0 if box is None else max(getattr(panel.bbox, side) - getattr(box, side), 0.0) / panel.figure.dpi


def _legend(figure: Any, entries: list[LegendEntry], width: float) -> Any:
    """Return a legend in as many columns as the width, in pixels, allows."""
    from matplotlib.lines import Line2D

    marks: list[Any] = [Line2D([], [], linestyle="none", markersize=6, markeredgewidth=0.7) for _ in entries]
    for mark, entry in zip(marks, entries, strict=True):
        mark.set(**entry.look)
    n_columns, longest = min(len(entries), 6), 40
    while True:
        legend = figure.legend(
            marks, ["text"] * len(marks), loc="upper center", bbox_to_anchor=(0.5, 0.5), ncols=n_columns,
            fontsize=TEXT_SIZE, labelcolor=INK, frameon=False, borderaxespad=0, borderpad=0,
            handlelength=1.0, handletextpad=0.4, columnspacing=1.4, labelspacing=0.35,
        )  # fmt: skip
        for text, entry in zip(legend.get_texts(), entries, strict=True):
            # Only now: what begins with an underscore is left out of a legend when it is made.
            write(text, f"{shortened(entry.name, longest)} ({entry.count})")
        if legend.get_window_extent().width <= width or longest < 8:
            return legend
        legend.remove()
        if n_columns > 1:
            # The same number of lines in all columns, or one less.
            n_columns = -(-len(entries) // -(-len(entries) // (n_columns - 1)))
        else:
            longest -= 4


# --- text --------------------------------------------------------------------------------


def write(text: Any, words: str) -> None:
    """Set the words of a text of matplotlib, shown as they are: a $ of a user is no formula."""
    text.set_parse_math(False)
    text.set_usetex(False)
    text.set_text(words)


def wrap(text: Any, *paragraphs: str, width: float, max_lines: int = 20) -> None:
    """Set the words of a text of matplotlib in lines that are no wider than that many pixels."""

    def fits(length: int) -> bool:
        lines = [textwrap.wrap(words, length, max_lines=max_lines, placeholder="…") for words in paragraphs]
        write(text, "\n".join(itertools.chain(*lines)))
        return bool(text.get_window_extent().width <= width)

    least, most = 3, max([3, *(len(words) for words in paragraphs)])
    if fits(most):
        return
    # The most letters per line that fit, by bisection.
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    fits(least)


def shortened(words: str, length: int) -> str:
    """Return words on one line, cut to a length."""
    words = " ".join(words.split())
    return words if len(words) <= length else words[: length - 1] + "…"
