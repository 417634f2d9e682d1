"""Rows as points: in a matrix of scatter plots, and in a plane that shows where clusters are in doubt."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.checks import check_integer, random_generator
from apolar._core.display import count_noun
from apolar.estimator.fitted import NOISE_LABEL
from apolar.plots.chart import (
    CHARACTERS,
    GREY,
    INK,
    PAPER,
    TEXT_SIZE,
    TITLE_SIZE,
    Chart,
    Line,
    Points,
    cluster_kind,
    draw_chart,
    draw_layers,
    legend_of,
    limits,
    need_library,
    style,
    wrap_text,
    write,
)
from apolar.plots.clusters import (
    Clusters,
    cluster_points,
    kept_rows,
    most_probable,
    numbered_clusters,
    posteriors_of,
)
from apolar.plots.views import ELLIPSES, MixtureView, TableView, chosen_columns, column_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

N_BINS = 30
# Columns of at most this many integers, such as ratings, are moved by up to this much.
FEW_INTEGERS, TIE_SHIFT = 20, 0.3
MOVED = f"In columns of few integers, points are moved by up to {TIE_SHIFT} so that equal rows show."
# The part of a diagonal panel that its histograms take.
HISTOGRAM_HEIGHT = 0.5
# In inches: the panels of pictures of few and of many columns.
LARGEST_PANEL, SMALLEST_PANEL = 2.7, 1.9
# Rows above these are counted; those above the first lie on top of the others.
DOUBTFUL, UNDECIDED = 0.1, 0.5
# How much larger the mark of the most uncertain row is than that of a certain one, in area.
GROWTH = 6.0


# --- the matrix ---------------------------------------------------------------------------


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
    and a class that of the cluster that the best matching gives it; where both are given, `predicted` ones
    have those of their classes. Panels on the diagonal have the name of the column and, as thin steps, the
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
        hold 86% of a Gaussian in the plane. Component k is cluster k + 1; where `labels` and `predicted` are
        given it has the colour of the predicted label k, and is grey if there is none.
    columns : int or list of int or str, optional
        How many of the first columns to show, or which ones, by number or name; the first five by default.
    feature_names : list of str, optional
        The names of all columns of X; by default those of the dataframe.
    class_names : list of str or dict, optional
        The names of the classes, in sorted order of the labels, or by label.
    title : str, optional
    max_points : int, default=2000
        The most points in a panel. From more rows, some are chosen at random, among them at least 50 of each
        cluster, or all that it has.
    figure : matplotlib Figure or SubFigure, optional
        What to draw into, with the constrained layout; a new figure of pyplot by default, of about 1.9 inches
        per panel.
    random_state : int, Generator or None, default=0
        Which rows are left out.

    Returns
    -------
    figure : matplotlib.figure.Figure
        `figure.savefig(path)` writes it.

    Examples
    --------
    >>> import apolar
    >>> X, labels = apolar.datasets.make_example(1, random_state=0)
    >>> figure = apolar.plots.scatter_matrix(X, labels, columns=3)
    >>> len(figure.axes)
    9
    """
    need_library("matplotlib")
    table = TableView.of(X)
    n_rows, n_features = table.shape
    positions, names = chosen_columns(columns, table, feature_names)
    values = table.numbers(positions)
    max_points = check_integer(max_points, "max_points", least=1)
    rng = random_generator(random_state)
    mixture, n_components = None, None
    if model is not None:
        mixture = MixtureView.of(model, n_features)
        if predicted is None or (labels is None and _are_components(predicted, len(mixture.means))):
            n_components = len(mixture.means)
        if predicted is None:
            predicted = most_probable(posteriors_of(model, X), len(mixture.means))
    clusters = numbered_clusters(labels, predicted, class_names, n_rows, n_components)
    kept = kept_rows(values, clusters.groups, max_points, rng)
    values, has_moved = separate_ties(values)

    k = len(positions)
    side = min(max(5.0 / k, SMALLEST_PANEL), LARGEST_PANEL)
    drawing: Any = figure
    if drawing is None:
        from matplotlib import pyplot

        drawing = pyplot.figure(figsize=(max(k * side + 0.6, 4.8), k * side + 1.3), layout="constrained")
    whole = getattr(drawing, "figure", None) or drawing
    if whole.get_layout_engine() is None:
        whole.set_layout_engine("constrained")
    _draw_matrix(drawing, matrix_charts(values, names, clusters, mixture, positions, kept, side))
    caption = _caption(clusters, mixture is not None, k, len(kept), n_rows)
    if has_moved and k > 1:
        caption = f"{caption} {MOVED}"
    entries = clusters.legend() if k > 1 else clusters.legend()[: len(clusters.names) + 1]
    width = drawing.bbox.width / whole.dpi
    if title:
        write(drawing.suptitle("", fontsize=TITLE_SIZE), wrap_text(title, 0.75 * width))
    if not entries:
        write(drawing.supxlabel("", fontsize=TEXT_SIZE), wrap_text(caption, width))
    else:
        longest = min(max(len(words) for words, _ in entries), 60) + 5
        most = max(int(CHARACTERS * width) // longest, 1)
        n_lines = -(-len(entries) // most)
        legend = legend_of(drawing, entries, loc="outside lower center", ncols=-(-len(entries) // n_lines))
        legend.set_title(wrap_text(caption, width), {"size": TEXT_SIZE})
        write(legend.get_title(), wrap_text(caption, width))
    return drawing


def _are_components(predicted: Any, n_components: int) -> bool:
    """Return whether labels are numbers of components, or -1 for noise."""
    labels = np.asarray(predicted)
    if labels.dtype.kind not in "iu" or labels.size == 0:
        return False
    return bool(labels.min() >= NOISE_LABEL and labels.max() < n_components)


def separate_ties(values: Array) -> tuple[Array, bool]:
    """Return rows with columns of few integers moved a little, so that ties show, and whether any is."""
    apart, has_moved = np.array(values, dtype=float), False
    for j, column in enumerate(apart.T):
        known = column[~np.isnan(column)]
        distinct = np.unique(known)
        if 1 < len(distinct) <= FEW_INTEGERS < len(known) and np.array_equal(distinct, np.round(distinct)):
            column += np.random.default_rng(j).uniform(-TIE_SHIFT, TIE_SHIFT, len(column))
            has_moved = True
    return apart, has_moved


def matrix_charts(
    values: Array,
    names: list[str],
    clusters: Clusters,
    mixture: MixtureView | None,
    positions: list[int],
    kept: IndexArray,
    side: float,
) -> list[list[Chart]]:
    """Return the panels of the matrix, by row and column.

    Parameters
    ----------
    values : ndarray, shape (n_rows, k)
    names : list of str, length k
    clusters : Clusters
        Of all rows.
    mixture : MixtureView or None
        Whose ellipses are drawn below the diagonal.
    positions : list of int, length k
        The numbers of the columns in the mixture.
    kept : ndarray of int
        The rows that are shown; histograms are those of all rows.
    side : float
        Of a panel, in inches.
    """
    n_rows, k = values.shape
    ends = [limits(column) for column in values.T]
    area = min(max(400 / np.sqrt(len(kept)), 7.0), 22.0) * side / SMALLEST_PANEL
    areas, is_grey = np.full(n_rows, area), not clusters.names
    charts = []
    for i in range(k):
        row = []
        for j in range(k):
            layers: list[Points | Line] = []
            if i == j:
                layers += _histograms(values[:, i], clusters.groups[0], ends[i], is_grey)
            else:
                numbers, wrong = clusters.groups[int(i > j)], clusters.wrong & (i > j)
                layers += cluster_points(values[:, [j, i]], numbers, wrong, areas, kept, is_grey=is_grey)
            if i > j and mixture is not None:
                for component, outline in enumerate(mixture.outlines((positions[j], positions[i]))):
                    # A white rim, so that an ellipse shows among points of its own colour.
                    layers.append(Line(outline[:, 0], outline[:, 1], {"color": PAPER, "linewidth": 2.4}))
                    number = clusters.component_numbers.get(component)
                    colour = GREY if number is None else style(number)["color"]
                    look = {"color": colour, "linewidth": 1.2}
                    layers.append(Line(outline[:, 0], outline[:, 1], look, cluster_kind(component)))
            y_scale: str | list[str] = "number" if k > 1 else []
            row.append(Chart(layers, ends[j], ends[i], label=names[i] if i == j else "", y_scale=y_scale))
        charts.append(row)
    return charts


def _histograms(column: Array, numbers: Array, ends: tuple[float, float], is_grey: bool) -> list[Line]:
    """Return the histogram of each cluster, in a panel whose y-axis is the column itself."""
    edges = np.linspace(*ends, N_BINS + 1)
    found = np.unique(numbers)
    counts = [np.histogram(column[numbers == number], edges)[0] for number in found]
    fractions = [count / count.sum() for count in counts]
    scale = HISTOGRAM_HEIGHT * (ends[1] - ends[0]) / max(fraction.max() for fraction in fractions)
    return [
        Line(
            np.repeat(edges, 2)[1:-1],
            ends[0] + scale * np.repeat(fraction, 2),
            {"color": GREY if is_grey else style(number)["color"], "linewidth": 0.9},
            cluster_kind(number),
        )
        for number, fraction in zip(found.tolist(), fractions, strict=True)
    ]


def _draw_matrix(drawing: Any, charts: list[list[Chart]]) -> None:
    k = len(charts)
    panels = drawing.subplots(k, k, squeeze=False, sharex="col", sharey="row")
    for (i, j), panel in np.ndenumerate(panels):
        draw_layers(panel, charts[i][j], 4)
        panel.tick_params(bottom=i == k - 1, left=j == 0, labelleft=j == 0)
        name = " ".join(charts[i][j].label.split())
        lines = textwrap.wrap(name, 18, max_lines=3, placeholder="…")
        if lines:
            height = HISTOGRAM_HEIGHT + 0.55 * (1 - HISTOGRAM_HEIGHT)
            text = panel.text(0.5, height, "", transform=panel.transAxes, ha="center", va="center")
            write(text, "\n".join(lines))
            text.set_fontsize(TITLE_SIZE if len(name) <= 12 else TEXT_SIZE - 1)


def _caption(clusters: Clusters, with_model: bool, n_columns: int, n_shown: int, n_rows: int) -> str:
    """Return what the picture shows."""
    less = ", small clusters thinned less" if clusters.names else ""
    text = f"{count_noun(n_rows, 'row')}."
    if n_columns > 1 and n_shown < n_rows:
        text = f"Shown: {n_shown:,} of {n_rows:,} rows{less}."
    if n_columns > 1 and clusters.true is not None and clusters.found is not None:
        text += " Above the diagonal: true clusters; below: found."
    elif clusters.names:
        text += f" Colours: {'found' if clusters.true is None else 'true'} clusters."
    return f"{text} {ELLIPSES}" if n_columns > 1 and with_model else text


# --- uncertain rows -----------------------------------------------------------------------


def uncertainty(
    model: Any,
    X: Any,
    *,
    columns: Any = None,
    labels: Any = None,
    feature_names: Iterable[Any] | None = None,
    class_names: Mapping[Any, Any] | Iterable[Any] | None = None,
    max_points: int = 2000,
    random_state: Any = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw rows in a plane, larger the less sure the mixture is of their cluster, and with a rim if in doubt.

    Colours and markers are those of the clusters, as in all pictures of a mixture. The uncertainty of a row
    is one minus the probability of its most probable cluster: 0 if that is certain, and 1 - 1 / n_components
    at most. Noise counts as one more cluster.

    Parameters
    ----------
    model : GaussianMixture or SphericalMixture
        Fitted.
    X : array_like, sparse matrix or dataframe, shape (n_samples, n_features)
    columns : "pca", "discriminant", or int or list of int or str, optional
        One or two columns, by number or name; by default the two in which the means of the clusters differ
        most, for the spread of the column. "pca" is for the first two principal axes of the mixture,
        "discriminant" for the two directions that separate its components best. One column is shown
        against the uncertainty itself.
    labels : array_like, shape (n_samples,), optional
        The true clusters: numbers or strings. Found clusters then have the names of those that match them
        best too, and rows in a wrong cluster a marker of their own.
    feature_names : list of str, optional
        The names of all columns of X; by default those of the dataframe.
    class_names : list or dict of names, optional
        Names of the true clusters, or of the found ones where there are no `labels`, as in `scatter_matrix`.
    max_points : int, default=2000
        The most points. From more rows, the most uncertain ones are kept, as half of the points at most, and
        others are chosen at random.
    random_state : int, Generator or None, default=0
        Which rows are left out.
    ax : matplotlib Axes, optional
        What to draw into; those of a new figure of pyplot by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture.

    Notes
    -----
    The legend is at the right of the axes and a note below them: a figure with `layout="constrained"` makes
    room for both.

    Examples
    --------
    >>> import apolar
    >>> iris = apolar.datasets.load_iris()
    >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
    >>> ax = apolar.plots.uncertainty(gm, iris.data, feature_names=iris.feature_names)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('petal_length', 'petal_width')
    """
    table = TableView.of(X)
    mixture = MixtureView.of(model, table.shape[1])
    max_points, rng = check_integer(max_points, "max_points", least=1), random_generator(random_state)
    plane, names = _plane(mixture, table, columns, feature_names)
    probabilities = posteriors_of(model, X)
    found = most_probable(probabilities, len(mixture.weights))
    doubt = 1 - probabilities.max(axis=1)
    clusters = numbered_clusters(labels, found, class_names, len(found), len(mixture.weights))
    values = np.column_stack([plane, doubt]) if plane.shape[1] == 1 else plane
    order = np.argsort(-doubt, kind="stable")
    kept = kept_rows(values, clusters.groups, max_points, rng, before=order[doubt[order] > DOUBTFUL])
    chart = row_chart(values, names, doubt, clusters, kept, probabilities.shape[1])
    return draw_chart(chart, ax, (7.4, 4.8))


def row_chart(
    values: Array,
    names: tuple[str, str],
    doubt: Array,
    clusters: Clusters,
    kept: IndexArray,
    n_choices: int,
) -> Chart:
    """Return rows in a plane, by their clusters and how much these are in doubt.

    Parameters
    ----------
    values : ndarray, shape (n_rows, 2)
        Where the second column is the doubt itself, its axis begins at zero.
    names : pair of str
    doubt : ndarray, shape (n_rows,)
    clusters : Clusters
    kept : ndarray of int
        The rows that are shown.
    n_choices : int
        The number of clusters, and one more for noise.
    """
    highest = max(float(doubt.max()), DOUBTFUL)
    is_doubt = names[1] == "uncertainty" and np.array_equal(values[:, 1], doubt)
    most = 1 - 1 / n_choices if n_choices > 1 else 1.0
    base = min(max(400 / np.sqrt(len(kept)), 8.0), 22.0)
    areas = base * (1 + (GROWTH - 1) * doubt / most)
    # Uncertain rows lie on top of certain ones.
    order = kept[np.argsort(doubt[kept], kind="stable")]
    certain, doubtful = order[doubt[order] <= DOUBTFUL], order[doubt[order] > DOUBTFUL]
    numbers, wrong = clusters.groups[1], clusters.wrong
    layers = [
        *cluster_points(values, numbers, wrong, areas, certain),
        *cluster_points(values, numbers, wrong, areas, doubtful, edge=INK),
    ]
    marks = [entry for entry in clusters.legend() if not entry[0].endswith("(0)")]
    n_doubtful = int(np.count_nonzero(doubt > DOUBTFUL))
    if n_doubtful:
        look = {"marker": "o", "color": PAPER, "markeredgecolor": INK, "markersize": 8}
        marks.append((f"in doubt ({n_doubtful})", look))
    return Chart(
        layers,
        limits(values[:, 0]),
        (-0.06 * highest, 1.08 * highest) if is_doubt else limits(values[:, 1]),
        "Where the cluster of a row is uncertain",
        names,
        _notes(doubt, len(kept), n_choices),
        marks=marks,
    )


def _plane(
    mixture: MixtureView, table: TableView, columns: Any, feature_names: Iterable[Any] | None
) -> tuple[Array, tuple[str, str]]:
    """Return what is shown, shape (n_rows, 1 or 2), and the names of both axes."""
    is_pca = isinstance(columns, str) and columns == "pca"
    if is_pca and table.shape[1] > 1:
        spread, axes = np.linalg.eigh(mixture.covariance)
        axes, fractions = axes[:, :-3:-1], spread[:-3:-1] / spread.sum()
        # The direction of an axis in which its largest entry is positive.
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(2)])
        values = (table.numbers(list(range(table.shape[1]))) - mixture.mean) @ axes
        first, second = (
            f"principal axis {i + 1} ({part:.0%} of the variance)" for i, part in enumerate(fractions)
        )
        return values, (first, second)
    is_discriminant = isinstance(columns, str) and columns == "discriminant"
    if is_discriminant and table.shape[1] > 2 and len(mixture.means) > 1:
        plane = mixture.discriminating_plane()
        shown_names = column_names(table.shape[1], feature_names, table.names)
        return plane.places(table.numbers(list(range(table.shape[1])))), plane.axis_names(shown_names)
    if columns is None or is_pca or is_discriminant:
        # In the order of the table, so that the picture does not turn with the last digit.
        columns = mixture.separating_columns(2)
    positions, shown = chosen_columns(columns, table, feature_names)
    if len(positions) > 2:
        raise ValueError(
            f"columns has {len(positions)} entries, and a plane has two axes: name one or two columns, or "
            "pass 'pca' or 'discriminant' for directions that combine columns."
        )
    name, other = (*shown, "uncertainty")[:2]
    return table.numbers(positions), (name, other)


def _notes(doubt: Array, n_shown: int, n_choices: int) -> list[str]:
    n_rows = len(doubt)
    if n_choices == 1:
        return ["There is one cluster: nothing is uncertain."]
    doubtful, undecided = np.count_nonzero(doubt > DOUBTFUL), np.count_nonzero(doubt > UNDECIDED)
    more = f"above {UNDECIDED}: {undecided}."
    if n_choices == 2:
        more = f"With two clusters it is at most {UNDECIDED}."
    shown = (
        f"Shown: {n_shown:,} of {n_rows:,} rows, the most uncertain among them." if n_shown < n_rows else ""
    )
    return [f"Uncertainty above {DOUBTFUL}: {doubtful} of {count_noun(n_rows, 'row')}; {more}", shown]
