"""The pictures of a report: charts with places, which `picture.html` draws as SVG inside a page.

Text is text, colours are variables of the page, in light and in dark, and points say what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.plots import chart
from apolar.plots.chart import Chart, Line, Look, Points
from apolar.plots.clusters import Clusters, numbered_clusters
from apolar.plots.curves import selection_chart
from apolar.plots.density import profile_chart
from apolar.plots.scatter import MOVED, matrix_charts, row_chart, separate_ties
from apolar.plots.views import ELLIPSES, N_COLUMNS, MixtureView
from apolar.reports.analysis import Analysis
from apolar.reports.listed_rows import choose_rows, row_words
from apolar.reports.scoring import LIMITS
from apolar.scores import criterion_title

# In points: a panel that can be read on a phone, the space between panels, and text.
PANEL, GAP, TEXT = (259.0, 194.0), 5.0, 8.0
# A panel that fills the width of the page.
LARGE = (315.0, 225.0)
ELLIPSE: Look = {"marker": "", "linewidth": 1.4}
GLANCE = "The clusters at a glance"

LIGHT = {
    **{f"k{i + 1}": colour for i, colour in enumerate(chart.COLOURS)},
    **{f"shade{i + 1}": colour for i, colour in enumerate(chart.SHADES)},
    "noise": chart.NOISE_STYLE["color"],
}
"""The variables of the page, and their values in light."""
DARK = {
    **{f"k{i + 1}": colour for i, colour in enumerate(chart.DARK_COLOURS)},
    **{f"shade{i + 1}": colour for i, colour in enumerate(("#B8B8B8", "#8C8C8C", "#A2A2A2", "#777777"))},
    "noise": "#8F8F8F",
}
"""The same in dark."""
_VARIABLES = {colour: name for name, colour in LIGHT.items()} | {
    chart.INK: "ink",
    chart.GREY: "soft",
    chart.PAPER: "paper",
    "white": "paper",
}
# Rings around rows: in doubt, not in the cluster of their class, outliers.
IN_DOUBT: Look = {"marker": "o", "color": chart.PAPER, "markeredgecolor": chart.INK}
DISAGREES = IN_DOUBT | {"marker": "D", "markeredgecolor": chart.GREY}
OUTLIER = IN_DOUBT | {"marker": "s"}


@dataclass(frozen=True)
class PagePicture:
    """A picture of a page, which `picture.html` draws; lengths and places are in points.

    Attributes
    ----------
    title : str
    alt : str
        What it shows.
    caption : str
        How to read it.
    legend : list of pair
        The text of each entry, and how the line or mark next to it looks.
    name : str
        Unique on the page: ids begin with it.
    size, whole : pair of float
        Of a panel, and of the picture.
    names : pair of str
        Of the axes.
    is_upright : bool
        Whether the text at ticks of the horizontal axis is.
    panels : list of dict
        Place, `label`, ticks and `layers` of each.
    """

    title: str
    alt: str
    caption: str
    legend: list[tuple[str, Look]]
    name: str
    size: tuple[float, float]
    whole: tuple[float, float]
    names: tuple[str, str]
    is_upright: bool
    panels: list[dict[str, Any]]


def draw_pictures(analysis: Analysis, X: Array, row_numbers: Array) -> list[PagePicture]:
    """Return the pictures that suit an analysis.

    Parameters
    ----------
    analysis : Analysis
    X : ndarray, shape (n_samples, n_features)
    row_numbers : ndarray of int, shape (n_samples,)
        From 1.
    """
    mixture, names = analysis.clusters, list(analysis.names)
    n_clusters, n_columns = mixture.means.shape
    pictures = []
    if n_clusters > 1 and n_columns > 1:
        pictures.append(_glance(analysis, X, row_numbers, mixture))
    if n_clusters == 1 or n_columns != 2:
        pictures.append(_matrix(analysis, X, row_numbers, mixture))
    if n_clusters > 1 and n_columns > 2:
        width = 6.1 * (n_clusters + 1) * min(n_columns, LIMITS.profile_columns)
        size = (min(max(width, PANEL[0]), 576.0), PANEL[1])
        clusters = [f"cluster {k + 1}" for k in range(n_clusters)]
        profile = profile_chart(mixture, names, clusters, LIMITS.profile_columns)
        alt = "Means of each cluster in each column, in standard deviations from the overall mean."
        pictures.append(_picture("Profiles", alt, [[profile]], "p", size))
    if analysis.selection is not None:
        # The reason stands next to the picture.
        curves = selection_chart(replace(analysis.selection, reason=""))
        name = criterion_title(analysis.selection.criterion)
        alt = f"{name} against the number of clusters; lower is better."
        pictures.append(_picture("How many clusters", alt, [[curves]], "h"))
    return pictures


def _matrix(analysis: Analysis, X: Array, row_numbers: Array, mixture: MixtureView) -> PagePicture:
    large = np.flatnonzero(analysis.counts >= LIMITS.few_rows).tolist()
    columns = (mixture.of_components(large) if len(large) > 1 else mixture).separating_columns(N_COLUMNS)
    k = len(columns)
    n_panels = max(k * (k - 1), 1)
    most = min(LIMITS.panel_points, LIMITS.matrix_points // n_panels)
    positions, rows, remarks = choose_rows(analysis, X, columns, most)
    values, has_moved = separate_ties(rows[:, columns])
    n, side = len(values), min(max(5.0 / k, 1.9), 2.7)
    names = [analysis.names[i] for i in columns]
    clusters = _clusters_of(analysis, positions)
    grid = matrix_charts(values, names, clusters, mixture, columns, np.arange(n), side)
    for i, j in np.argwhere(~np.eye(k, dtype=bool)).tolist():
        grid[i][j] = _with_rings(grid[i][j], analysis, positions, values[:, [j, i]])
    notes = ["Colours and marks are clusters.", *remarks, ELLIPSES if k > 1 else ""]
    notes += [MOVED] * has_moved
    grid[0][0] = replace(grid[0][0], notes=notes, marks=_row_legend(analysis, positions))
    alt = "Scatter-plot matrix of the columns that separate the clusters best."
    words = row_words(analysis, positions, row_numbers) if n_panels * n <= LIMITS.named_points else None
    numbers = row_numbers[positions].tolist()
    return _picture("Pairs of columns", alt, grid, "m", (72 * side, 72 * side), words, numbers)


def _glance(analysis: Analysis, X: Array, row_numbers: Array, mixture: MixtureView) -> PagePicture:
    """Return the rows in the plane that separates the clusters best, with those in doubt."""
    # A cluster of a few odd rows would make the others a dot.
    large = np.flatnonzero(analysis.counts >= LIMITS.few_rows).tolist()
    large = large if len(large) > 1 else list(range(len(mixture.means)))
    n_choices, mixture = len(mixture.means) + analysis.has_noise, mixture.of_components(large)
    n_columns = mixture.means.shape[1]
    columns = mixture.separating_columns(N_COLUMNS)
    positions, shown, remarks = choose_rows(analysis, X, columns, LIMITS.panel_points)
    if n_columns == 2:
        plane, values, alt = mixture, shown, "The rows in the two columns of the table."
        names = (analysis.names[0], analysis.names[1])
        how = []
    else:
        directions = mixture.discriminating_plane()
        alt = "The rows in the two directions that separate the clusters best."
        plane, values = directions.mixture, directions.places(shown)
        first, second = directions.axis_names(analysis.names)
        names = (
            chart.shorten(first, int(LARGE[0] / (0.6 * TEXT))),
            chart.shorten(second, int(LARGE[1] / (0.6 * TEXT))),
        )
        how = ["Each direction is a combination of columns."]
    rows, n_doubtful = np.arange(len(values)), int(np.count_nonzero(analysis.is_doubtful))
    # Where many rows are in doubt, their large marks would hide the clusters.
    marks_doubt = n_doubtful <= LIMITS.much_doubt * analysis.n_rows
    doubt = (1 - analysis.certainty[positions]) * marks_doubt
    panel = row_chart(values, names, doubt, _clusters_of(analysis, positions), rows, n_choices)
    ellipses = [
        Line(outline[:, 0], outline[:, 1], chart.style(k) | ELLIPSE, chart.cluster_kind(k))
        for k, outline in zip(large, plane.outlines((0, 1)), strict=True)
    ]
    panel = replace(panel, layers=[*panel.layers, *ellipses])
    doubtful = [(f"in doubt ({n_doubtful:,})", IN_DOUBT)] if n_doubtful and marks_doubt else []
    notes = [*how, ELLIPSES, *remarks]
    legend = _row_legend(analysis, positions, doubtful)
    panel = replace(_with_rings(panel, analysis, positions, values), notes=notes, marks=legend)
    alt += " Large marks with a rim are in doubt." if doubtful else ""
    words = row_words(analysis, positions, row_numbers)
    return _picture(GLANCE, alt, [[panel]], "w", LARGE, words, row_numbers[positions].tolist())


def _picture(
    title: str,
    alt: str,
    grid: list[list[Chart]],
    name: str,
    size: tuple[float, float] = PANEL,
    words: Sequence[str] | None = None,
    numbers: Sequence[int] | None = None,
) -> PagePicture:
    """Return charts with the notes and the legend of the first of them.

    Parameters
    ----------
    title, alt, name, size
        Of `PagePicture`.
    grid : list of list of Chart
        Panels by row and column, with ticks at the left and at the bottom.
    words : sequence of str, optional
        What shows when the pointer is on a row.
    numbers : sequence of int, optional
        Those of the rows, by which the page finds them in all pictures.
    """
    (w, h), k = size, len(grid)
    bottom, first = grid[-1][0], grid[0][0]
    x_ticks = [_ticks(panel.x_scale, panel.xlim, w) for panel in grid[-1]]
    y_ticks = [_ticks(row[0].y_scale, row[0].ylim, h) for row in grid]
    longest, widest = (
        0.62 * TEXT * max([len(text) for ticks in axes for _, text in ticks], default=0)
        for axes in (y_ticks, x_ticks)
    )
    is_upright = isinstance(bottom.x_scale, list) and widest > w / len(x_ticks[0])
    left = longest + 8 + (16 if first.names[1] else 0)
    room = (0.9 * widest if is_upright else TEXT) + 6 + (13 if bottom.names[0] else 0)
    panels = [
        {
            "x": left + j * (w + GAP),
            "y": 4 + i * (h + GAP),
            "label": chart.shorten(panel.label, int(w / (0.62 * TEXT))),
            "layers": [
                _layer(layer, panel, size, words, numbers) | {"id": f"{name}{i}{j}{n}"}
                for n, layer in enumerate(panel.layers)
            ],
            "x_ticks": x_ticks[j] if i == k - 1 else [],
            "y_ticks": y_ticks[i] if j == 0 else [],
        }
        for i, row in enumerate(grid)
        for j, panel in enumerate(row)
    ]
    whole, names = (left + k * (w + GAP), k * (h + GAP) + room + 4), (bottom.names[0], first.names[1])
    return PagePicture(title, alt, first.caption, first.legend, name, size, whole, names, is_upright, panels)


def _clusters_of(analysis: Analysis, positions: Array) -> Clusters:
    """Return the clusters of some rows."""
    return numbered_clusters(None, analysis.predicted[positions], None, len(positions), len(analysis.groups))


def _with_rings(panel: Chart, analysis: Analysis, positions: Array, values: Array) -> Chart:
    """Add rings around rows that are not in the cluster of their class, and squares around outliers."""
    layers = [*panel.layers]
    for marked, ring in ((analysis.disagrees, DISAGREES), (analysis.is_outlying, OUTLIER)):
        is_marked = marked[positions]
        if is_marked.any():
            rows, (x, y) = np.flatnonzero(is_marked), values[is_marked].T
            look = ring | {"color": "none", "alpha": 1}
            layers.append(Points(x, y, np.full(len(rows), 70.0), look, "ring", rows))
    return replace(panel, layers=layers)


def _row_legend(
    analysis: Analysis, positions: Array, doubtful: Sequence[tuple[str, Look]] = ()
) -> list[tuple[str, Look]]:
    legend = [(f"cluster {k + 1} ({n:,})", chart.style(k)) for k, n in enumerate(analysis.counts)]
    if analysis.has_noise:
        legend.append((f"noise ({analysis.n_noise:,})", chart.NOISE_STYLE))
    legend += doubtful
    if analysis.disagrees.any():
        n_disagreeing = np.count_nonzero(analysis.disagrees)
        legend.append((f"not in the cluster of its class ({n_disagreeing:,})", DISAGREES))
    if analysis.is_outlying[positions].any():
        legend.append((f"outlier ({np.count_nonzero(analysis.is_outlying):,})", OUTLIER))
    return legend


# --- what the template asks for -------------------------------------------------------------


def number(value: float) -> str:
    """Return a coordinate as SVG has it, to a hundredth."""
    return f"{round(value, 2) + 0.0:g}"


def colour(name: str) -> str:
    """Return a colour of a chart as a variable of the page."""
    return "none" if name == "none" else f"var(--{_VARIABLES[name]})"


# As matplotlib's, in widths of the line.
_DASHES = {"-": (), "--": (3.7, 1.6), "-.": (6.4, 1.6, 1.0, 1.6)}


def dashes(look: Look) -> str:
    """Return the lengths of dashes and gaps of a line; nothing if it has none."""
    kind, width = look.get("linestyle", "-"), max(float(look.get("linewidth", 1.5)), 1.0)
    lengths = _DASHES[kind] if isinstance(kind, str) else kind[1]
    return " ".join(number(width * length) for length in lengths)


def shape(marker: str, size: float) -> str:
    """Return a marker of matplotlib as the data of a path of SVG, where y points down."""
    from matplotlib.markers import MarkerStyle

    drawn, parts = MarkerStyle(marker), ""
    for points, code in drawn.get_path().transformed(drawn.get_transform()).iter_segments(simplify=False):
        letter = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}[int(code)]
        values = () if letter == "Z" else (np.reshape(points, (-1, 2)) * (size, -size)).ravel()
        parts += letter + " ".join(map(number, values))
    return parts


FILTERS: dict[str, Callable[..., str]] = {
    "number": number,
    "colour": colour,
    "dashes": dashes,
    "shape": shape,
}


# --- layers -------------------------------------------------------------------------------


def _ticks(scale: str | list[str], ends: tuple[float, float], length: float) -> list[tuple[float, str]]:
    """Return the places, along the axis, and the text of ticks."""
    locator, formatter = chart.ticks(scale, ends, 5 if isinstance(scale, str) else LIMITS.profile_columns)
    texts = [(place, formatter(place, n)) for n, place in enumerate(locator.tick_values(*ends))]
    return [(_place(place, ends, length), text) for place, text in texts if ends[0] <= place <= ends[1]]


def _place(values: Any, ends: tuple[float, float], length: float) -> Any:
    """Return where values are along an axis."""
    return length * (values - ends[0]) / (ends[1] - ends[0])


def _layer(
    layer: Points | Line,
    panel: Chart,
    size: tuple[float, float],
    words: Sequence[str] | None,
    numbers: Sequence[int] | None,
) -> dict[str, Any]:
    """Return a line with its path and places, or points with their sizes and what each is."""
    x, y = _place(layer.x, panel.xlim, size[0]), size[1] - _place(layer.y, panel.ylim, size[1])
    drawn = {"kind": layer.kind, "look": layer.look}
    if isinstance(layer, Line):
        # Gaps are where it is NaN.
        known = np.isfinite(x) & np.isfinite(y)
        letters = np.where(known & ~np.append(False, known[:-1]), "M", "L")
        places = list(zip(x[known], y[known], strict=True))
        parts = zip(letters[known], places, strict=True)
        path = "".join(f"{letter}{number(a)} {number(b)}" for letter, (a, b) in parts)
        return drawn | {"path": path, "places": places}
    # In tenths of a point, so that marks of about one size are written once.
    sizes = np.rint(10 * np.sqrt(layer.areas)).astype(int)
    together: dict[tuple[float, float], list[str]] = {}
    places = list(zip(layer.x.tolist(), layer.y.tolist(), strict=True))
    if words is not None and layer.kind != "ring":
        for place, row in zip(places, layer.rows.tolist(), strict=True):
            together.setdefault(place, []).append(words[row])
    most = LIMITS.named_together
    for lines in together.values():
        lines[most:] = [f"and {len(lines) - most} more here"] if len(lines) > most else []
    rows = ["" if numbers is None else numbers[row] for row in layer.rows]
    titles = ["\n".join(together.get(place, [])) for place in places]
    uses = list(zip(sizes.tolist(), x, y, rows, titles, strict=True))
    return drawn | {"sizes": np.unique(sizes).tolist(), "uses": uses}
