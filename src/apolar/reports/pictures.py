"""The pictures of a report: charts as SVG inside a page.

Text is text, colours are variables of the page, in light and in dark, and points say what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.estimator.fitted import NOISE_LABEL
from apolar.mixture.families import family
from apolar.plots import chart
from apolar.plots.chart import Chart, Line, Look, Points
from apolar.plots.clusters import numbered_clusters
from apolar.plots.curves import convergence_chart, selection_chart
from apolar.plots.mixtures import ELLIPSES, MixtureView
from apolar.plots.scatter import matrix_charts
from apolar.plots.summaries import profile_chart, spectrum_chart
from apolar.plots.table import N_COLUMNS
from apolar.plots.uncertainty import row_chart
from apolar.reports.analysis import Analysis
from apolar.reports.limits import LIMITS
from apolar.reports.listed_rows import ShownRows, choose_rows, is_doubtful, is_outlying
from apolar.reports.scoring import nameless
from apolar.scores import criterion_title

# In points: a panel that can be read on a phone, the space between panels, and text.
PANEL, GAP, TEXT = (259.0, 194.0), 5.0, 8.0
# Of a swatch, in units of its own, and the part of it that the mark fills.
SWATCH, FILLED = 12.0, 9.0

LIGHT = {
    **{f"k{i + 1}": colour for i, colour in enumerate(chart.COLOURS)},
    **{f"shade{i + 1}": colour for i, colour in enumerate(chart.SHADES)},
    "noise": chart.NOISE_STYLE[0],
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


@dataclass(frozen=True)
class PagePicture:
    """A picture of a page.

    Attributes
    ----------
    title : str
    alt : str
        What it shows.
    caption : str
        How to read it.
    svg : str
        The element.
    width : float
        In points.
    legend : list of pair of str
        Marks, as elements, and their text.
    """

    title: str
    alt: str
    caption: str
    svg: str
    width: float
    legend: list[tuple[str, str]]


def draw_pictures(analysis: Analysis, X: Array, row_numbers: Array | None = None) -> list[PagePicture]:
    """Return the pictures that suit an analysis.

    Parameters
    ----------
    analysis : Analysis
    X : ndarray, shape (n_samples, n_features)
    row_numbers : ndarray of int, shape (n_samples,), optional
        The numbers of the rows in the file, from 0.
    """
    model, names = nameless(analysis.model), list(analysis.names)
    mixture = MixtureView.of(model)
    n_clusters, n_columns = mixture.means.shape
    pictures = [_matrix(analysis, X, row_numbers, mixture)]
    if n_clusters > 1 and n_columns > 2:
        width = 6.1 * (n_clusters + 1) * min(n_columns, LIMITS.profile_columns)
        profile = profile_chart(
            mixture, names, [f"cluster {k + 1}" for k in range(n_clusters)], LIMITS.profile_columns
        )
        alt = "Means of each cluster in each column, in standard deviations from the overall mean."
        pictures.append(_of_chart("Profiles", alt, profile, "p", min(max(width, PANEL[0]), 576.0)))
    if n_clusters > 1 and n_columns > 1:
        pictures.append(_plane(analysis, X, row_numbers, mixture))
    if analysis.selection is not None:
        # The reason stands next to the picture.
        curves = selection_chart(replace(analysis.selection, reason=""))
        name = criterion_title(analysis.selection.criterion)
        alt = f"{name} against the number of clusters; lower is better."
        pictures.append(_of_chart("How many clusters", alt, curves, "h"))
    # Only spherical clusters leave a flat level of noise.
    is_whole = not np.any(analysis.n_missing) and 2 < n_columns <= LIMITS.spectrum_columns
    if family(analysis.covariance_type).is_spherical and is_whole:
        alt = "Eigenvalues of the covariance of the table, largest first, and the level of noise."
        pictures.append(
            _of_chart("Spectrum", alt, spectrum_chart(np.asarray(X[: LIMITS.spectrum_rows])), "s")
        )
    bounds = model.lower_bounds_
    if len(bounds) > 3 and (bounds[-1] - bounds[0]) * analysis.n_rows > 1:
        alt = "What is left to gain, after each pass over the data."
        pictures.append(_of_chart("Convergence", alt, convergence_chart(model), "c"))
    return pictures


def _matrix(analysis: Analysis, X: Array, row_numbers: Array | None, mixture: MixtureView) -> PagePicture:
    columns = mixture.separating_columns(N_COLUMNS)
    k = len(columns)
    n_panels = max(k * (k - 1), 1)
    shown = choose_rows(
        analysis, X, columns, min(LIMITS.panel_points, LIMITS.matrix_points // n_panels), row_numbers
    )
    values, n, side = shown.values[:, columns], len(shown.values), min(max(5.0 / k, 1.9), 2.7)
    clusters = numbered_clusters(None, shown.predicted, None, n, len(mixture.means))
    grid = matrix_charts(values, clusters, mixture, columns, np.arange(n), side)
    for i, j in np.argwhere(~np.eye(k, dtype=bool)).tolist():
        grid[i][j] = _with_rings(grid[i][j], shown, values[:, [j, i]])
    remarks = ["Colours and marks are clusters.", *shown.remarks, *([ELLIPSES] if k > 1 else [])]
    words = shown.words if n_panels * n <= LIMITS.named_points else None
    alt = "Scatter-plot matrix of the columns that separate the clusters best."
    names = [analysis.names[i] for i in columns]
    svg, width = draw_svg(grid, (72 * side, 72 * side), "m", alt, words, names)
    legend = _row_legend(analysis, shown, with_doubt=False)
    return PagePicture("The clusters", alt, " ".join(remarks), svg, width, legend)


def _plane(analysis: Analysis, X: Array, row_numbers: Array | None, mixture: MixtureView) -> PagePicture:
    columns = mixture.separating_columns(2)
    shown = choose_rows(analysis, X, columns, LIMITS.panel_points, row_numbers)
    values, n, n_clusters = shown.values[:, columns], len(shown.values), len(mixture.means)
    clusters = numbered_clusters(None, shown.predicted, None, n, n_clusters)
    names = (analysis.names[columns[0]], analysis.names[columns[1]])
    plane = row_chart(values, names, shown.doubt, clusters, np.arange(n), n_clusters + analysis.has_noise)
    alt = "Rows in the plane of two columns; large marks with a rim are rows between clusters."
    svg, width = draw_svg([[_with_rings(plane, shown, values)]], PANEL, "w", alt, shown.words)
    caption = " ".join(["Point at a mark to see its row.", *shown.remarks])
    legend = _row_legend(analysis, shown, with_doubt=True)
    return PagePicture("Where the cluster is in doubt", alt, caption, svg, width, legend)


def _of_chart(title: str, alt: str, shown: Chart, name: str, width: float = PANEL[0]) -> PagePicture:
    svg, whole = draw_svg([[shown]], (width, PANEL[1]), name, alt)
    legend = [(_mark_of_look(look), text) for text, look in shown.legend]
    return PagePicture(title, alt, shown.caption, svg, whole, legend)


def _with_rings(panel: Chart, shown: ShownRows, values: Array) -> Chart:
    """Add rings around rows that are not in the cluster of their class, and squares around outliers."""
    rings = [
        Points(
            x=values[rows, 0],
            y=values[rows, 1],
            areas=np.full(np.count_nonzero(rows), 70.0),
            look=look,
            kind="ring",
            rows=np.flatnonzero(rows),
            alpha=1.0,
            edge=edge,
        )
        for rows, look, edge in (
            (shown.disagrees, ("none", "o"), chart.GREY),
            (shown.is_outlier, ("none", "s"), chart.INK),
        )
        if rows.any()
    ]
    return replace(panel, layers=[*panel.layers, *rings])


def _row_legend(analysis: Analysis, shown: ShownRows, *, with_doubt: bool) -> list[tuple[str, str]]:
    legend = [(swatch(k), f"cluster {k + 1} ({count:,})") for k, count in enumerate(analysis.counts)]
    if analysis.has_noise:
        legend.append((swatch(NOISE_LABEL), f"noise ({analysis.n_noise:,})"))
    n_doubtful = int(np.count_nonzero(is_doubtful(analysis)))
    ring: Look = chart.MARK | {"markersize": 8, "color": chart.PAPER}
    if with_doubt and n_doubtful:
        legend.append((_mark_of_look(ring | {"markeredgecolor": chart.INK}), f"in doubt ({n_doubtful:,})"))
    if shown.n_disagreeing:
        text = f"not in the cluster of its class ({shown.n_disagreeing:,})"
        legend.append((_mark_of_look(ring | {"markeredgecolor": chart.GREY}), text))
    if shown.is_outlier.any():
        text = f"outlier ({np.count_nonzero(is_outlying(analysis)):,})"
        legend.append((_mark_of_look(ring | {"marker": "s", "markeredgecolor": chart.INK}), text))
    return legend


# --- marks --------------------------------------------------------------------------------


def swatch(cluster: int) -> str:
    """Return the mark of a cluster by its number from 0, or of noise by -1, as a small picture."""
    colour, marker = chart.style(cluster)
    return _mark_of_look({"color": colour, "marker": marker, "linestyle": "none", "markeredgewidth": 0})


def _mark_of_look(look: Look) -> str:
    """Return a line of a legend and its marker as a small picture."""
    has_line = look.get("linestyle", "-") != "none"
    width, parts = (26.0 if has_line else SWATCH), ""
    if has_line:
        style = _line_style(look | {"linewidth": min(look["linewidth"], 6.0)})
        parts = f'<path d="M0 0H{_number(width)}" style="{style}"/>'
    if look.get("marker"):
        shape = _path(_marker_path(look["marker"]), min(1.3 * look.get("markersize", SWATCH), FILLED))
        place = f"translate({_number(width / 2)} 0)"
        parts += f'<path d="{shape}" transform="{place}" style="{_marker_style(look)}"/>'
    box = f"0 -{_number(SWATCH / 2)} {_number(width)} {_number(SWATCH)}"
    size = f"width: {_number(width / SWATCH)}em"
    return f'<svg class="mark" viewBox="{box}" style="{size}" aria-hidden="true">{parts}</svg>'


def _number(value: float) -> str:
    """Return a coordinate as SVG has it, to a hundredth."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _colour(colour: str) -> str:
    return "none" if colour == "none" else f"var(--{_VARIABLES[colour]})"


# As matplotlib's, in widths of the line.
_DASHES = {"-": (), "--": (3.7, 1.6), "-.": (6.4, 1.6, 1.0, 1.6)}


def _line_style(look: Look) -> str:
    width = float(look.get("linewidth", 1.5))
    style = f"fill: none; stroke: {_colour(look['color'])}; stroke-width: {_number(width)}"
    kind = look.get("linestyle", "-")
    dashes = _DASHES[kind] if isinstance(kind, str) else kind[1]
    if dashes:
        style += f"; stroke-dasharray: {' '.join(_number(max(width, 1.0) * dash) for dash in dashes)}"
    return f"{style}; stroke-opacity: {look['alpha']}" if "alpha" in look else style


def _marker_style(look: Look) -> str:
    face = _colour(str(look.get("markerfacecolor", look["color"])))
    edge = _colour(str(look.get("markeredgecolor", look["color"])))
    return f"fill: {face}; stroke: {edge}; stroke-width: {look.get('markeredgewidth', 1.0)}"


def _marker_path(marker: Any) -> Any:
    from matplotlib.markers import MarkerStyle

    drawn = MarkerStyle(marker)
    return drawn.get_path().transformed(drawn.get_transform())


def _path(path: Any, scale: float) -> str:
    """Return a path of matplotlib as the data of one of SVG, where y points down."""
    letters = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
    parts = []
    for points, code in path.iter_segments(simplify=False):
        letter = letters[int(code)]
        values = [] if letter == "Z" else (np.reshape(points, (-1, 2)) * (scale, -scale)).ravel().tolist()
        parts.append(letter + " ".join(_number(value) for value in values))
    return "".join(parts)


# --- charts -------------------------------------------------------------------------------


def draw_svg(
    grid: list[list[Chart]],
    size: tuple[float, float],
    name: str,
    alt: str,
    words: Sequence[str] | None = None,
    diagonal: Sequence[str] | None = None,
) -> tuple[str, float]:
    """Return charts as an element of a page, and its width in points.

    Parameters
    ----------
    grid : list of list of Chart
        Panels by row and column, with ticks at the left and at the bottom.
    size : pair of float
        Of a panel, in points.
    name : str
        Of the picture, unique on the page: ids begin with it.
    alt : str
        What it shows.
    words : sequence of str, optional
        What shows when the pointer is on a row.
    diagonal : sequence of str, optional
        Names in the panels on the diagonal.
    """
    (w, h), k = size, len(grid)
    bottom, first = grid[-1][0], grid[0][0]
    y_ticks = [_ticks(row[0].y_scale, row[0].ylim, 5) for row in grid]
    longest = max(
        [len(text) for ticks in y_ticks[(diagonal is not None and k == 1) :] for _, text in ticks], default=0
    )
    left = 0.62 * TEXT * longest + 8 + (16 if first.names[1] else 0)
    x_ticks = [_ticks(panel.x_scale, panel.xlim, 5) for panel in grid[-1]]
    room = max(w / max(len(ticks), 1) for ticks in x_ticks)
    width_of_names = 0.62 * TEXT * max(len(text) for ticks in x_ticks for _, text in ticks)
    is_upright = isinstance(bottom.x_scale, list) and width_of_names > room
    below = (0.9 * width_of_names if is_upright else TEXT) + 6 + (13 if bottom.names[0] else 0)
    whole, height = left + k * (w + GAP), k * (h + GAP) + below + 4
    parts = [f'<clipPath id="{name}-clip"><rect width="{_number(w)}" height="{_number(h)}"/></clipPath>']
    for i, row in enumerate(grid):
        for j, panel in enumerate(row):
            x, y = left + j * (w + GAP), 4 + i * (h + GAP)
            inside = "".join(
                _layer(layer, panel, size, f"{name}{i}{j}{n}", words) for n, layer in enumerate(panel.layers)
            )
            marks = ""
            if i == k - 1:
                for place, text in x_ticks[j]:
                    at = _number(_places(np.array([place]), panel.xlim, w)[0])
                    marks += _text(
                        text,
                        f"translate({at} {_number(h + 4)})",
                        "end" if is_upright else "hanging",
                        is_upright,
                    )
            if j == 0 and not (diagonal is not None and k == 1):
                for place, text in y_ticks[i]:
                    at = _places(np.array([place]), panel.ylim, h, panel.y_scale == "log")[0]
                    marks += _text(text, f"translate(-5 {_number(h - at)})", "left")
            if diagonal is not None and i == j:
                shown = chart.shorten(diagonal[i], int(w / (0.62 * TEXT)))
                marks += _text(shown, f"translate({_number(w / 2)} {_number(0.22 * h)})", "middle")
            parts.append(
                f'<g transform="translate({_number(x)} {_number(y)})">'
                f'<path d="M0 0H{_number(w)}V{_number(h)}H0Z" '
                'style="fill: var(--paper); stroke: var(--soft); stroke-width: 0.6"/>'
                f'<g clip-path="url(#{name}-clip)">{inside}</g>{marks}</g>'
            )
    if bottom.names[0]:
        parts.append(
            _text(bottom.names[0], f"translate({_number(left + w / 2)} {_number(height - 6)})", "middle")
        )
    if first.names[1]:
        parts.append(_text(first.names[1], f"translate(8 {_number(4 + h / 2)}) rotate(-90)", "middle"))
    head = f'<svg viewBox="0 0 {_number(whole)} {_number(height)}" role="img" aria-label="{escape(alt)}"'
    return f"{head}>{''.join(parts)}</svg>", whole


def _ticks(scale: str | list[str], ends: tuple[float, float], most: int) -> list[tuple[float, str]]:
    """Return the places and the text of ticks."""
    locator, formatter = chart.ticks(scale, ends, most if isinstance(scale, str) else LIMITS.profile_columns)
    places = locator.tick_values(*ends)
    return [(place, formatter(place, n)) for n, place in enumerate(places) if ends[0] <= place <= ends[1]]


def _text(text: str, transform: str, where: str, is_upright: bool = False) -> str:
    """Return text; `where` it is from its place."""
    anchor = "end" if where in ("left", "end") else "middle"
    baseline = "hanging" if where == "hanging" else "central"
    turn = " rotate(-90)" if is_upright else ""
    style = f"font-size: {TEXT:g}px; fill: var(--ink); text-anchor: {anchor}; dominant-baseline: {baseline}"
    return f'<text transform="{transform}{turn}" style="{style}">{escape(text, quote=False)}</text>'


def _places(values: Array, ends: tuple[float, float], length: float, is_log: bool = False) -> Array:
    """Return where values are along an axis, in points."""
    low, high = np.log(ends) if is_log else ends
    with np.errstate(divide="ignore", invalid="ignore"):
        return length * ((np.log(values) if is_log else np.asarray(values)) - low) / (high - low)


def _layer(
    layer: Points | Line, panel: Chart, size: tuple[float, float], name: str, words: Sequence[str] | None
) -> str:
    x = _places(layer.x, panel.xlim, size[0])
    y = size[1] - _places(layer.y, panel.ylim, size[1], panel.y_scale == "log")
    if isinstance(layer, Points):
        return _points(layer, x, y, name, words)
    kind = f' data-kind="{layer.kind}"' if layer.kind else ""
    known = np.isfinite(x) & np.isfinite(y)
    parts = ""
    if layer.is_filled:
        corners = "L".join(f"{_number(a)} {_number(b)}" for a, b in zip(x, y, strict=True))
        style = f"fill: {_colour(layer.look['color'])}; fill-opacity: {layer.look['alpha']}"
        parts += f'<path d="M{corners}Z" style="{style}"/>'
    elif layer.look.get("linestyle", "-") != "none":
        letters = np.where(known & ~np.append(False, known[:-1]), "M", "L")
        ends = zip(letters[known], x[known], y[known], strict=True)
        data = "".join(f"{letter}{_number(a)} {_number(b)}" for letter, a, b in ends)
        parts += f'<path d="{data}" style="{_line_style(layer.look)}"/>'
    if layer.look.get("marker"):
        shape = _path(_marker_path(layer.look["marker"]), layer.look.get("markersize", 6.0))
        places = zip(x[known], y[known], strict=True)
        marks = [f'<path d="{shape}" transform="translate({_number(a)} {_number(b)})"/>' for a, b in places]
        parts += f'<g style="{_marker_style(layer.look)}">{"".join(marks)}</g>'
    return f"<g{kind}>{parts}</g>"


def _points(points: Points, x: Array, y: Array, name: str, words: Sequence[str] | None) -> str:
    """Return points: marks of each size, and the places where they are used."""
    sizes = np.sqrt(points.areas)
    least = float(sizes.min())
    step = max((float(sizes.max()) - least) / (LIMITS.n_sizes - 1), 1e-9)
    levels = np.rint((sizes - least) / step).astype(int)
    path = _marker_path(points.look[1])
    marks = "".join(
        f'<path id="{name}m{level}" d="{_path(path, least + level * step)}"/>' for level in np.unique(levels)
    )
    places = list(zip(points.x.tolist(), points.y.tolist(), strict=True))
    together: dict[tuple[float, float], list[str]] = {}
    if words is not None and points.kind != "ring":
        for place, row in zip(places, points.rows.tolist(), strict=True):
            together.setdefault(place, []).append(words[row])
    uses = []
    for place, a, b, level in zip(places, x, y, levels, strict=True):
        inside = f"<title>{escape(_join_words(together[place]), quote=False)}</title>" if together else ""
        uses.append(f'<use href="#{name}m{level}" x="{a:.1f}" y="{b:.1f}">{inside}</use>')
    style = f"fill: {_colour(points.look[0])}; fill-opacity: {points.alpha:g}"
    if points.edge is not None:
        style += f"; stroke: {_colour(points.edge)}; stroke-width: 0.7"
    head = f'<g class="points" data-kind="{points.kind}" style="{style}">'
    return f"{head}<defs>{marks}</defs>{''.join(uses)}</g>"


def _join_words(words: list[str]) -> str:
    """Return the words of rows at one place, a line each."""
    left = len(words) - LIMITS.named_together
    return "\n".join([*words[: LIMITS.named_together], *([f"and {left} more here"] if left > 0 else [])])
