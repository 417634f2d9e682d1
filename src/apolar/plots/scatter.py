"""A matrix of scatter plots: true clusters above the diagonal, found ones below."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, random_generator
from apolar.plots.canvas import (
    MAX_VECTORS,
    TICK_SIZE,
    LegendEntry,
    add_panel,
    arrange,
    need_matplotlib,
    new_figure,
    wrap,
    write,
)
from apolar.plots.clusters import Clusters, kept_rows, most_probable, numbered_clusters
from apolar.plots.ellipses import CAPTION, MarginalComponents, draw_ellipses, marginal_components
from apolar.plots.palette import INK, NOISE, WRONG
from apolar.plots.table import TableView, chosen_columns
from apolar.plots.ticks import limits, set_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

__all__ = ["scatter_matrix"]

N_BINS = 30
# The part of a diagonal panel that its histograms take.
HISTOGRAM_HEIGHT = 0.5
# In inches: the panels of pictures of few and of many columns.
LARGEST_PANEL, SMALLEST_PANEL = 2.7, 1.9
# The area of the mark of a row of noise, beside that of one in a cluster.
NOISE_AREA = 0.6
# In points: the largest name of a column.
NAME_SIZE = 13


def scatter_matrix(
    X: Any,
    labels: Any = None,
    predicted: Any = None,
    *,
    model: Any = None,
    columns: Any = None,
    feature_names: Iterable[Any] | None = None,
    class_names: Mapping[Any, Any] | Iterable[Any] | None = None,
    title: str | None = None,
    max_points: int = 2000,
    figure: Figure | SubFigure | None = None,
    random_state: Any = 0,
) -> Figure:
    """Return a matrix of scatter plots of the columns of X, with true and with found clusters.

    Panels above the diagonal are coloured by `labels`, those below by `predicted`; where only one of them is
    known, all are coloured by it. Clusters of a model have the colours of their numbers, as in all pictures,
    and a class that of the cluster that the best matching gives it; `predicted` ones beside `labels` have
    those of their classes. Panels on the diagonal have the name of the column and, as thin steps, the
    histogram of each class, all of the same area, so that small ones show.

    Parameters
    ----------
    X : array_like, sparse matrix or dataframe, shape (n_samples, n_features)
    labels : array_like, shape (n_samples,), optional
        The true clusters: numbers or strings. Among numbers from 0 on, -1 is noise: small grey dots.
    predicted : array_like, shape (n_samples,), optional
        The found clusters; what the model says, if one is given.
    model : GaussianMixture or SphericalMixture, optional
        Fitted; its components are drawn below the diagonal as ellipses at two standard deviations, which
        hold 86% of a Gaussian in the plane. Component k is cluster k + 1; beside `labels` and `predicted`
        it has the colour of the predicted label k, and is grey if there is none.
    columns : int or list of int or str, optional
        How many of the first columns to show, or which ones, by number or name; the first five by default.
    feature_names : list of str, optional
        The names of all columns of X; by default those of the dataframe.
    class_names : list of str or dict, optional
        The names of the classes, in sorted order of the labels, or by label.
    title : str, optional
    max_points : int, default=2000
        The most points in a panel. Of more rows some are chosen at random, among them at least 50 of each
        cluster, or all that it has.
    figure : matplotlib Figure or SubFigure, optional
        What to draw into; a new figure of about 1.9 inches per panel by default.
    random_state : int, Generator or None, default=0
        Which rows are left out.

    Returns
    -------
    figure : matplotlib.figure.Figure
        `figure.savefig(path)` writes it.

    Notes
    -----
    A notebook shows a new figure, and where pyplot has been imported `plt.show()` does, and `plt.close()`
    closes it. Otherwise nothing of pyplot is used, and there is nothing to close.

    Examples
    --------
    >>> import apolar
    >>> X, labels = apolar.datasets.make_example(1, random_state=0)
    >>> figure = apolar.plots.scatter_matrix(X, labels, columns=3)
    >>> len(figure.axes)
    9
    """
    need_matplotlib()
    table = TableView.of(X)
    shown = chosen_columns(columns, table, feature_names)
    values = table.numbers(shown.positions)
    max_points = check_integer(max_points, "max_points", least=1)
    rng = random_generator(random_state)
    components = None
    if model is not None:
        components = marginal_components(model, shown.positions, table.n_features)
        by_component = predicted is None or (labels is None and _are_components(predicted, components))
        predicted = most_probable(model, X, table) if predicted is None else predicted
    n_components = len(components.means) if components is not None and by_component else None
    clusters = numbered_clusters(labels, predicted, class_names, len(values), n_components)
    kept = kept_rows(values, clusters, max_points, rng)

    drawing: Any = new_figure() if figure is None else figure
    k = len(shown.positions)
    panel_size = _panel_size(k) if figure is None else None
    panels = _panels(drawing, values, panel_size)
    arrange(
        drawing,
        panels,
        panel_size=panel_size,
        title=title,
        entries=_legend_entries(clusters, k),
        caption=_caption(clusters, model is not None, k, len(kept), len(values)),
        remedy="make it larger, or show fewer with columns=",
    )
    _draw_points(panels, values[kept], clusters.of_rows(kept))
    _draw_histograms(panels, values, clusters)
    if components is not None:
        colours = [clusters.component_colour(component) for component in range(len(components.means))]
        for j, i in itertools.combinations(range(k), 2):
            draw_ellipses(panels[i, j], components, (j, i), colours)
    for panel, name in zip(panels.diagonal(), shown.names, strict=True):
        _write_name(panel, name)
    return drawing


def _are_components(predicted: Any, components: MarginalComponents) -> bool:
    """Return whether labels are numbers of components, or -1 for noise."""
    labels = np.asarray(predicted)
    if labels.dtype.kind not in "iu" or labels.size == 0:
        return False
    return bool(labels.min() >= NOISE and labels.max() < len(components.means))


# --- panels -------------------------------------------------------------------------------


def _panel_size(n_columns: int) -> tuple[float, float]:
    side = min(max(5.0 / n_columns, SMALLEST_PANEL), LARGEST_PANEL)
    return side, side


def _panels(figure: Any, values: Array, panel_size: tuple[float, float] | None) -> Array:
    """Return the axes, shape (k, k), with limits and ticks."""
    k = values.shape[1]
    ends = [limits(column) for column in values.T]
    # Which ticks have room is decided by about the size that panels will have.
    if panel_size is None:
        across, up = 0.9 * figure.bbox.width / k, 0.75 * figure.bbox.height / k
    else:
        across, up = panel_size[0] * figure.dpi, panel_size[1] * figure.dpi
    panels = np.empty((k, k), dtype=object)
    for i, j in np.ndindex(k, k):
        panel = add_panel(figure, f"row {i}, column {j}")
        panel.set(xlim=ends[j], ylim=ends[i], autoscale_on=False, xticks=[], yticks=[])
        if i == k - 1:
            set_ticks(panel.xaxis, "width", across)
        if j == 0 and k > 1:
            set_ticks(panel.yaxis, "height", up)
        panels[i, j] = panel
    return panels


def _draw_points(panels: Array, values: Array, clusters: Clusters) -> None:
    size = min(panels[0, 0].bbox.width, panels[0, 0].bbox.height) / panels[0, 0].figure.dpi
    area = min(max(400 / np.sqrt(len(values)), 7.0), 22.0) * size / SMALLEST_PANEL
    right = {"s": area, "linewidths": 0}
    wrong = {"s": max(2.2 * area, 20.0), "linewidths": 0.5, "edgecolors": INK, "marker": WRONG}
    for i, j in np.argwhere(~np.eye(len(panels), dtype=bool)):
        codes = clusters.above if i < j else clusters.below
        is_wrong = clusters.wrong & (i > j)
        numbers, counts = np.unique(codes, return_counts=True)
        # Small clusters lie on top of large ones, and wrong rows on top of all.
        layers = [(number, ~is_wrong, right) for number in numbers[np.argsort(-counts, kind="stable")]]
        # Noise lies below all.
        layers.sort(key=lambda layer: layer[0] != NOISE)
        layers += [(number, is_wrong, wrong) for number in numbers]
        for number, which, how in layers:
            rows = which & (codes == number)
            if rows.any():
                colour, marker = clusters.style(number)
                if number == NOISE:
                    how = how | {"s": NOISE_AREA * how["s"]}
                panels[i, j].scatter(
                    values[rows, j],
                    values[rows, i],
                    alpha=0.75,
                    rasterized=len(values) > MAX_VECTORS,
                    gid="noise" if number == NOISE else f"cluster-{number + 1}",
                    **{"facecolors": colour, "marker": marker} | how,
                )


def _draw_histograms(panels: Array, values: Array, clusters: Clusters) -> None:
    for panel, column in zip(panels.diagonal(), values.T, strict=True):
        low, high = panel.get_xlim()
        edges = np.linspace(low, high, N_BINS + 1)
        numbers = np.unique(clusters.above)
        counts = [np.histogram(column[clusters.above == number], edges)[0] for number in numbers]
        fractions = [count / count.sum() for count in counts]
        scale = HISTOGRAM_HEIGHT / max(fraction.max() for fraction in fractions)
        for number, fraction in zip(numbers, fractions, strict=True):
            panel.stairs(
                scale * fraction,
                edges,
                # Heights in parts of the panel: its y-axis is that of the row.
                transform=panel.get_xaxis_transform(),
                color=clusters.style(number)[0],
                linewidth=0.9,
            )


def _write_name(panel: Any, name: str) -> None:
    """Write the name of a column into its panel, as large as fits."""
    middle = HISTOGRAM_HEIGHT + 0.55 * (1 - HISTOGRAM_HEIGHT)
    text = panel.text(0.5, middle, "", transform=panel.transAxes, ha="center", va="center", color=INK)
    name, room = " ".join(name.split()), 0.85 * panel.bbox.width
    for size in range(NAME_SIZE, TICK_SIZE - 1, -1):
        text.set_fontsize(size)
        write(text, name)
        if text.get_window_extent().width <= room:
            return
    wrap(text, name, width=room, max_lines=2)


# --- caption and legend -------------------------------------------------------------------


def _caption(clusters: Clusters, with_model: bool, n_columns: int, n_shown: int, n_rows: int) -> list[str]:
    """Return what the picture shows, one string per paragraph."""
    less = ", small clusters thinned less" if clusters.names else ""
    is_thinned = n_columns > 1 and n_shown < n_rows
    lines = [
        f"Shown: {n_shown} of {n_rows} rows{less}." if is_thinned else f"{n_rows} row{'s' * (n_rows != 1)}."
    ]
    if n_columns > 1 and clusters.has_true and clusters.has_predicted:
        lines[0] += " Above the diagonal: true clusters; below: found."
    elif clusters.names:
        lines[0] += f" Colours: {'true' if clusters.has_true else 'found'} clusters."
    if n_columns > 1 and with_model:
        lines.append(CAPTION)
    return lines


def _legend_entries(clusters: Clusters, n_columns: int) -> list[LegendEntry]:
    entries = []
    for number, name in enumerate(clusters.names):
        n_true = np.count_nonzero(clusters.above == number)
        n_found = np.count_nonzero(clusters.below == number)
        colour, marker = clusters.style(number)
        look = {"color": colour, "marker": marker}
        if not (clusters.has_true and clusters.has_predicted):
            counts = f"{n_true}"
        elif n_true:
            counts = f"{n_true}, found {n_found}"
        else:
            # A found cluster without a class: all its rows are in a wrong one.
            counts, look = f"found {n_found}", look | {"marker": WRONG, "markeredgecolor": INK}
        entries.append(LegendEntry(name, counts, look))
    if clusters.has_noise:
        n_true, n_found = (np.count_nonzero(codes == NOISE) for codes in (clusters.above, clusters.below))
        if not (clusters.has_true and clusters.has_predicted):
            counts = f"{n_found}"
        else:
            counts = f"{n_true}, found {n_found}" if n_true else f"found {n_found}"
        colour, marker = clusters.style(NOISE)
        entries.append(LegendEntry("noise", counts, {"color": colour, "marker": marker}))
    n_wrong = np.count_nonzero(clusters.wrong)
    if n_wrong and n_columns > 1:
        look = {"color": "white", "marker": WRONG, "markeredgecolor": INK}
        entries.append(LegendEntry("in a wrong cluster", f"{n_wrong}", look))
    return entries
