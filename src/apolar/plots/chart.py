"""Charts: what a picture shows, as data; how clusters look; and matplotlib, which draws charts."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.estimator.fitted import NOISE_LABEL

Look = dict[str, Any]
"""How a line or a mark looks: properties of matplotlib's Line2D."""

# The eight colours of Okabe and Ito, neighbours far apart. Their yellow is too light for points on white;
# darkened a little it is orange or vermilion to many who are colour-blind, and only this dark it is not.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#554E00", "#000000")
# The same colours in the same order, for marks on a dark ground.
DARK_COLOURS = ("#4C9FDB", "#F08048", "#2FC498", "#E3A0C6", "#F5B642", "#B9E4FF", "#CFC75A", "#F2F2F2")
# Thirteen, which has no factor in common with eight: pairs of colour and marker repeat after 104 clusters.
MARKERS = ("o", "s", "^", "D", "v", "p", "P", "<", "*", ">", "d", "h", "8")
# Dashes of lines, where the marks of neighbours are apart.
DASHES = ("-", "--", "-.", (0, (1, 1.2)), (0, (7, 1.5, 1, 1.5, 1, 1.5)), (0, (9, 3)), (0, (3, 1)))
# The marker of rows in a wrong cluster; no cluster has it.
WRONG = "X"
# What belongs to no cluster.
GREY = "#6B6B6B"
# Rows that are noise: small grey dots.
NOISE_STYLE: Look = {"color": "#9A9A9A", "marker": "."}
# Lines that are not clusters, next to one in ink: colours are for clusters alone.
SHADES = ("#5C5C5C", "#8C8C8C", "#747474", "#A3A3A3")
# Marks without a line, and a level that others are compared with.
MARK: Look = {"marker": "o", "linestyle": "none", "markersize": 6}
# What an entry of a legend is unless it says otherwise.
ENTRY = MARK | {"marker": ""}
LEVEL: Look = {"color": GREY, "linestyle": "--", "linewidth": 1.2}
# Text and lines, and what is drawn on.
INK, PAPER = "#222222", "#FFFFFF"

# In points.
TICK_SIZE, TEXT_SIZE, TITLE_SIZE = 8, 9, 12
# Characters of text in an inch, and lines in the legend of a column.
CHARACTERS, MAX_ENTRIES = 14, 18
# Longer names are cut; of more names at an axis only some are written.
LONGEST_NAME, MAX_NAMES = 40, 40
# More points than this are drawn as an image, also in SVG and PDF.
MAX_VECTORS = 1000


def style(number: int) -> Look:
    """Return the colour and the marker of a cluster by its number, or of noise by -1."""
    if number == NOISE_LABEL:
        return NOISE_STYLE
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def cluster_kind(number: int) -> str:
    """Return the name of a cluster, or of noise, in the elements of a picture."""
    return "noise" if number == NOISE_LABEL else f"cluster-{number + 1}"


@dataclass(frozen=True, eq=False)
class Points:
    """Marks of one look.

    Attributes
    ----------
    x, y : ndarray, shape (n,)
    areas : ndarray, shape (n,)
        In square points.
    look : Look
        Colour, marker and opacity, and the colour of the rim if there is one.
    kind : str
        The cluster; `cluster_kind`.
    rows : ndarray of int, shape (n,)
        Which row each mark is.
    """

    x: Array
    y: Array
    areas: Array
    look: Look
    kind: str
    rows: IndexArray


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points, with gaps where they are NaN; closed and filled on demand.

    The legend names lines that have a label.
    """

    x: Array
    y: Array
    look: Look
    kind: str = ""
    label: str = ""
    is_filled: bool = False


@dataclass(frozen=True, eq=False)
class Chart:
    """What one pair of axes shows.

    Attributes
    ----------
    layers : list of Points or Line
        From the bottom to the top.
    xlim, ylim : pair of float
    title : str
    names : pair of str
        Of the axes.
    notes : list of str
        How to read the picture.
    x_scale, y_scale : {"number", "integer", "log", "zero"} or list of str
        What ticks are at, or the names of 0, 1, ...; zero has a tick at zero only.
    label : str
        What is written between the lines and points.
    marks : list of pair
        What the legend names besides lines: a text, and how the mark next to it looks.
    """

    layers: Sequence[Points | Line]
    xlim: tuple[float, float]
    ylim: tuple[float, float]
    title: str = ""
    names: tuple[str, str] = ("", "")
    notes: list[str] = field(default_factory=list)
    x_scale: str | list[str] = "number"
    y_scale: str | list[str] = "number"
    label: str = ""
    marks: list[tuple[str, Look]] = field(default_factory=list)

    @property
    def legend(self) -> list[tuple[str, Look]]:
        """The texts of the legend, and how the line or mark next to each looks."""
        lines = [layer for layer in self.layers if isinstance(layer, Line) and layer.label]
        return [(line.label, line.look) for line in lines] + self.marks

    @property
    def caption(self) -> str:
        """The notes as one text."""
        return " ".join(note for note in self.notes if note)


def limits(column: Array) -> tuple[float, float]:
    """Return the least and the greatest of some numbers, with a margin."""
    low, high = float(column.min()), float(column.max())
    pad = 0.06 * (high - low)
    if pad <= 1e-9 * max(abs(low), abs(high)):
        pad = 0.5 * (abs(low) or 1.0)
    return low - pad, high + pad


def level_line(value: float, ends: tuple[float, float], look: Look, label: str = "") -> Line:
    """Return a horizontal line."""
    return Line(np.array(ends), np.full(2, value), look, label=label)


def stems(x: Array, low: Array | float, high: Array, look: Look, kind: str = "") -> Line:
    """Return vertical lines at places, each from one height to another."""
    gaps = np.full(len(x), np.nan)
    heights = np.column_stack([np.broadcast_to(low, x.shape), high, gaps]).ravel()
    return Line(np.column_stack([x, x, gaps]).ravel(), heights, look, kind)


# --- ticks --------------------------------------------------------------------------------


def ticks(scale: str | list[str], ends: tuple[float, float], most: int) -> tuple[Any, Any]:
    """Return locator and formatter of an axis."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, MaxNLocator

    if not isinstance(scale, str):
        step = max(-(-len(scale) // most), 1)
        names = [shorten(name, 24) for name in scale]
        return FixedLocator(list(range(0, len(scale), step))), FixedFormatter(names[::step])
    formatter = FuncFormatter(partial(tick_text, 0.0 if scale == "log" else ends[1] - ends[0]))
    if scale == "zero":
        return FixedLocator([0.0]), formatter
    if scale == "log":
        # At 2 and 5 times powers of ten as well, if the axis is short.
        return LogLocator(subs=(1.0,) if ends[1] > 300 * ends[0] else (1.0, 2.0, 5.0)), formatter
    is_integer = scale == "integer"
    return MaxNLocator(
        most, steps=[1, 2, 5, 10], integer=is_integer, min_n_ticks=1 + (not is_integer)
    ), formatter


def tick_text(span: float, value: float, _: int | None = None) -> str:
    """Return a number at a tick of an axis that spans a range."""
    value = 0.0 if abs(value) < 1e-9 * span else value
    plain = value == 0 or 1e-3 <= abs(value) < 1e5
    text = (
        f"{value:.10g}" if plain else f"{value:.4g}".replace("e+0", "e").replace("e-0", "e-").replace("+", "")
    )
    return text.replace("-", "\N{MINUS SIGN}")


# --- text ---------------------------------------------------------------------------------


def shorten(text: str, length: int = LONGEST_NAME) -> str:
    """Return text on one line, cut to a length."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def wrap_text(text: str, inches: float) -> str:
    """Return text in lines of about that width."""
    return textwrap.fill(" ".join(text.split()), max(int(CHARACTERS * inches), 20))


def write(text: Any, words: str) -> None:
    """Set a text of matplotlib, shown as it is: a $ of a user does not start a formula."""
    text.set(parse_math=False, usetex=False, text=words, color=INK)


# --- matplotlib ---------------------------------------------------------------------------


def need_library(library: str) -> None:
    """Raise an error that says what to install, if matplotlib or jinja2 is not there."""
    try:
        import_module(library)
    except ImportError as error:
        what = {"matplotlib": "Pictures", "jinja2": "Pages"}[library]
        raise ImportError(f'{what} need {library}: pip install "apolar[report]".') from error


def draw_layers(panel: Any, chart: Chart, most_ticks: int) -> None:
    """Draw points and lines of a chart into axes, which get its limits and about that many ticks."""
    n_points = sum(len(layer.x) for layer in chart.layers if isinstance(layer, Points))
    panel.set(xlim=chart.xlim, ylim=chart.ylim, yscale="log" if chart.y_scale == "log" else "linear")
    for order, layer in enumerate(chart.layers, start=2):
        if isinstance(layer, Points):
            look, edge = layer.look, layer.look.get("markeredgecolor")
            panel.scatter(
                layer.x, layer.y, s=layer.areas, marker=look["marker"], facecolors=look["color"],
                alpha=look["alpha"], linewidths=0 if edge is None else 0.6, edgecolors=edge, gid=layer.kind,
                rasterized=n_points > MAX_VECTORS, zorder=order,
            )  # fmt: skip
        elif layer.is_filled:
            colour, alpha = layer.look["color"], layer.look["alpha"]
            panel.fill(layer.x, layer.y, color=colour, alpha=alpha, linewidth=0, zorder=order)
        else:
            image = len(layer.x) > MAX_VECTORS
            panel.plot(layer.x, layer.y, zorder=order, gid=layer.kind, rasterized=image, **layer.look)
    for axis, scale, ends in (
        (panel.xaxis, chart.x_scale, chart.xlim),
        (panel.yaxis, chart.y_scale, chart.ylim),
    ):
        locator, formatter = ticks(scale, ends, most_ticks if isinstance(scale, str) else MAX_NAMES)
        axis.set_major_locator(locator)
        axis.set_major_formatter(formatter)
    panel.minorticks_off()
    panel.set(xlim=chart.xlim, ylim=chart.ylim)
    panel.tick_params(labelsize=TICK_SIZE, length=2.5, width=0.6, color=INK, labelcolor=INK)
    panel.spines[:].set(linewidth=0.6, color=GREY)


def legend_of(owner: Any, entries: list[tuple[str, Look]], **place: Any) -> Any:
    """Return the legend of a figure or of axes."""
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], **(ENTRY | look)) for _, look in entries]
    legend = owner.legend(
        marks, ["text"] * len(marks), fontsize=TEXT_SIZE, frameon=False, borderaxespad=0.0, **place
    )
    for text, (words, _) in zip(legend.get_texts(), entries, strict=True):
        # Only now: what begins with an underscore is left out of a legend when it is made.
        write(text, shorten(words, LONGEST_NAME + 20))
    return legend


def draw_chart(chart: Chart, ax: Any, size: tuple[float, float] = (7.0, 4.2)) -> Any:
    """Draw a chart into the axes that the user gives, or into those of a new figure of a size in inches."""
    need_library("matplotlib")
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(figsize=size, layout="constrained")
        width = 0.64 * size[0]
    else:
        from matplotlib.axes import Axes

        if not isinstance(ax, Axes):
            raise TypeError(
                f"ax must be axes of matplotlib, not {type(ax).__name__}: pass those of figure.subplots."
            )
        width = ax.bbox.width / ax.figure.dpi
    draw_layers(ax, chart, 7)
    if not isinstance(chart.x_scale, str):
        for label in ax.get_xticklabels():
            label.set(parse_math=False, usetex=False)
        if sum(map(len, chart.x_scale)) + len(chart.x_scale) > 1.1 * CHARACTERS * width:
            ax.tick_params(axis="x", labelrotation=90)
    for text, words in zip((ax.xaxis.label, ax.yaxis.label), chart.names, strict=True):
        write(text, wrap_text(words, width) if len(words) > CHARACTERS * width else words)
    write(ax.title, wrap_text(chart.title, width))
    ax.title.set_fontsize(TITLE_SIZE)
    columns = -(-len(chart.legend) // MAX_ENTRIES)
    legend_of(ax, chart.legend, loc="upper left", bbox_to_anchor=(1.02, 1.0), ncols=columns)
    ax.annotate(
        "\n".join(wrap_text(note, width) for note in chart.notes if note), (0.5, 0), xycoords=ax.xaxis.label,
        xytext=(0, -8), textcoords="offset points", fontsize=TEXT_SIZE, color=INK, ha="center", va="top",
        annotation_clip=False,
    )  # fmt: skip
    return ax
