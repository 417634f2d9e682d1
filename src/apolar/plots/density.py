"""What clusters are like: densities, whether the rows follow them, and profiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar._core.display import count_noun
from apolar.plots.chart import (
    DASHES,
    GREY,
    INK,
    MARK,
    SHADES,
    Chart,
    Line,
    Look,
    cluster_kind,
    draw_chart,
    level_line,
    limits,
    need_library,
    stems,
    style,
)
from apolar.plots.views import MixtureView, TableView, check_fitted, check_names, chosen_columns, column_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The shares of the rows that the contours hold, the largest first.
SHARES = (0.95, 0.75, 0.5, 0.25)
# The points of a curve, and those along each axis of a plane.
N_POINTS, N_GRID = 400, 160
LINE: Look = {"linestyle": "-", "linewidth": 1.2}
# How far the picture goes beyond the means, in standard deviations.
N_DEVIATIONS = 3.5
# The most rows that are drawn.
MAX_ROWS = 2000
# The part of the room of a column that the marks of profiles take.
FILLED = 0.6


def density(
    model: Any,
    X: Any = None,
    *,
    columns: Any = None,
    boundaries: bool = False,
    feature_names: Iterable[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the density of a mixture: a curve in one column, contours in two.

    Contours are those of highest density regions, the smallest areas that hold 25%, 50%, 75% and 95% of the
    rows [hyndman1996].

    Parameters
    ----------
    model : GaussianMixture
        Fitted. Its noise component, if there is one, is left out.
    X : array_like, sparse matrix or dataframe, shape (n_samples, n_features), optional
        Rows to show: as a histogram in one column, as points in two, of 2,000 rows at most.
    columns : int, str, or list of these, optional
        One or two columns, by number or name; by default the two in which the means of the clusters differ
        most, for the spread of the column.
    boundaries : bool, default=False
        Whether to draw where the most probable cluster changes, given these two columns alone.
    feature_names : list of str, optional
        The names of all columns; by default those that the model was fitted with.
    ax : matplotlib Axes, optional
        What to draw into; those of a new figure of pyplot by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture.

    Examples
    --------
    >>> import apolar
    >>> iris = apolar.datasets.load_iris()
    >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
    >>> ax = apolar.plots.density(gm, iris.data, feature_names=iris.feature_names, boundaries=True)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('petal_length', 'petal_width')
    """
    need_library("matplotlib")
    check_fitted(model, "GaussianMixture")
    mixture = MixtureView.of(model)
    table = None if X is None else TableView.of(X)
    if table is not None and table.shape[1] != mixture.means.shape[1]:
        raise ValueError(f"X has {table.shape[1]} columns and the model {mixture.means.shape[1]}.")
    names = column_names(mixture.means.shape[1], feature_names, getattr(model, "feature_names_in_", None))
    known = TableView(mixture.means, names)
    is_single = isinstance(columns, str | int | np.integer)
    chosen = mixture.separating_columns(2) if columns is None else [columns] if is_single else columns
    positions, shown = chosen_columns(list(chosen), known, None)
    if len(positions) > 2:
        raise ValueError(f"columns has {len(positions)} entries: name one or two columns.")
    part = model.marginal(positions)
    vars(part).pop("feature_names_in_", None)
    rows = np.empty((0, len(positions))) if table is None else table.numbers(positions)
    step = -(-len(rows) // MAX_ROWS)
    values = rows if len(positions) == 1 else rows[:: max(step, 1)]
    view = MixtureView.of(part)
    reach = N_DEVIATIONS * np.sqrt(view.variances)
    every = np.concatenate([values, view.means - reach, view.means + reach])
    draw = _curve if len(shown) == 1 else _contours
    return draw_chart(draw(part, values, shown, list(map(limits, every.T)), boundaries=boundaries), ax)


def _log_densities(part: Any, points: Array) -> Array:
    """Return the logarithms of the weighted densities of the components, shape (n_components, n_points)."""
    with np.errstate(divide="ignore"):
        shares = np.log(part.predict_proba(points)).T
    return np.asarray(shares + part.score_samples(points))


def _curve(
    part: Any, rows: Array, names: list[str], ends: list[tuple[float, float]], *, boundaries: bool
) -> Chart:
    """Return the density of one column, with those of the components and a histogram of the rows."""
    if boundaries:
        raise ValueError("boundaries are those of two columns: name two, or leave boundaries out.")
    x = np.linspace(*ends[0], N_POINTS)
    each = np.exp(_log_densities(part, x[:, None]))
    layers = []
    if len(rows):
        heights, edges = np.histogram(rows[:, 0], "auto", density=True)
        outline = np.repeat(edges, 2), np.concatenate([[0], np.repeat(heights, 2), [0]])
        label = f"histogram of {count_noun(len(rows), 'row')}"
        layers.append(Line(*outline, LINE | {"color": SHADES[3]}, "rows", label))
    for k, line in enumerate(each):
        look = LINE | {"color": style(k)["color"]}
        layers.append(Line(x, line, look, cluster_kind(k), f"cluster {k + 1}"))
    layers.append(Line(x, each.sum(axis=0), LINE | {"color": INK, "linewidth": 2.0}, "density", "density"))
    highest = max(float(layer.y.max()) for layer in layers)
    return Chart(layers, ends[0], (0.0, 1.06 * highest), f"Density of {names[0]}", (names[0], "density"))


def _contours(
    part: Any, rows: Array, names: list[str], ends: list[tuple[float, float]], *, boundaries: bool
) -> Chart:
    """Return highest density regions in two columns, and where the most probable cluster changes."""
    from contourpy import contour_generator

    x, y = (np.linspace(*each, N_GRID) for each in ends)
    points = np.column_stack([axis.ravel() for axis in np.meshgrid(x, y)])
    each = _log_densities(part, points)
    logs = logsumexp(each, axis=0)
    # What lies above a density is summed over the cells of the grid.
    ordered = np.sort(logs)[::-1]
    held = np.cumsum(np.exp(ordered - ordered[0]))
    levels = ordered[np.searchsorted(held / held[-1], SHARES)]

    def outline(heights: Array, level: float) -> tuple[Array, Array]:
        """Return the places where heights on the grid cross a level, with gaps."""
        found: Any = contour_generator(x, y, heights.reshape(N_GRID, N_GRID)).lines(level)
        parts = [np.vstack([line, [[np.nan, np.nan]]]) for line in found] or [np.full((1, 2), np.nan)]
        joined = np.vstack(parts)
        return joined[:, 0], joined[:, 1]

    layers = []
    if len(rows):
        look = MARK | {"color": SHADES[3], "markersize": 2, "marker": "."}
        layers.append(Line(rows[:, 0], rows[:, 1], look, "rows", count_noun(len(rows), "row")))
    for number, (share, level) in enumerate(zip(SHARES, levels.tolist(), strict=True)):
        look = LINE | {"color": INK, "linewidth": 0.6 + 0.4 * number}
        layers.append(Line(*outline(logs, level), look, f"region-{share:.0%}", f"holds {share:.0%} of rows"))
    for k in range(len(each)) if boundaries and len(each) > 1 else ():
        ahead = np.exp(each[k] - logs) - np.exp(np.delete(each, k, axis=0).max(axis=0) - logs)
        look = LINE | {"color": SHADES[1], "linewidth": 2.4}
        label = "" if k else "most probable cluster changes"
        layers.append(Line(*outline(ahead, 0.0), look, f"boundary-{k + 1}", label))
    return Chart(layers, ends[0], ends[1], "Highest density regions", (names[0], names[1]))


def quantiles(model: Any, X: Any, column: Any = 0, *, ax: Axes | None = None) -> Axes:
    """Draw the quantiles of a column against those of the mixture: on the diagonal where it describes them.

    Parameters
    ----------
    model : GaussianMixture
        Fitted.
    X : array_like, sparse matrix or dataframe, shape (n_samples, n_features)
    column : int or str, default=0
        By number or name.
    ax : matplotlib Axes, optional
        What to draw into; those of a new figure of pyplot by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture.

    Examples
    --------
    >>> import apolar
    >>> iris = apolar.datasets.load_iris()
    >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
    >>> apolar.plots.quantiles(gm, iris.data, 2).get_xlabel()
    'quantile of the mixture'
    """
    check_fitted(model, "GaussianMixture")
    table = TableView.of(X)
    MixtureView.of(model, table.shape[1])
    positions, (name,) = chosen_columns([column], table, getattr(model, "feature_names_in_", None))
    observed = np.sort(table.numbers(positions)[:, 0])
    part = model.marginal(positions)
    expected = part.quantile((np.arange(len(observed)) + 0.5) / len(observed))
    ends = limits(np.concatenate([observed, expected]))
    diagonal = Line(np.array(ends), np.array(ends), LINE | {"color": GREY}, label="equal")
    look = MARK | {"color": INK, "markersize": 3}
    points = Line(expected, observed, look, "rows", count_noun(len(observed), "row"))
    names = ("quantile of the mixture", f"quantile of {name}")
    return draw_chart(Chart([diagonal, points], ends, ends, f"Fit of {name}", names), ax)


# --- profiles -----------------------------------------------------------------------------


def profiles(
    model: Any,
    *,
    feature_names: Iterable[Any] | None = None,
    class_names: Iterable[Any] | None = None,
    standardise: bool = True,
    max_columns: int = 40,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean of each cluster in each column, with one standard deviation on either side.

    Parameters
    ----------
    model : GaussianMixture or SphericalMixture
        Fitted.
    feature_names : list of str, optional
        The names of all columns; by default those that the model was fitted with.
    class_names : list of str, optional
        The names of the clusters, in the order of the components; "cluster 1" and so on by default.
    standardise : bool, default=True
        Whether to show columns in standard deviations from the overall mean, both of the mixture itself;
        otherwise in their own units.
    max_columns : int, default=40
        The most columns to show: those in which the means differ most, relative to the spread of the
        column, in their order.
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
    >>> ax = apolar.plots.profiles(gm, feature_names=iris.feature_names)
    >>> [text.get_text()[: len("cluster 1")] for text in ax.get_legend().get_texts()]
    ['cluster 1', 'cluster 2', 'cluster 3']
    """
    mixture = MixtureView.of(model)
    r, m = mixture.means.shape
    names = column_names(
        m, feature_names, getattr(model, "feature_names_in_", None), things="columns of the model"
    )
    clusters = [f"cluster {number + 1}" for number in range(r)]
    if class_names is not None:
        clusters = check_names(class_names, r, "class_names", "components")
    max_columns = check_integer(max_columns, "max_columns", least=1)
    chart = profile_chart(mixture, names, clusters, max_columns, standardise=standardise)
    width = min(max(0.12 * (len(clusters) + 1) * len(chart.x_scale), 4.0), 9.0)
    return draw_chart(chart, ax, (width + 3.0, 4.6))


def profile_chart(
    mixture: MixtureView, names: list[str], clusters: list[str], max_columns: int, *, standardise: bool = True
) -> Chart:
    """Return means and standard deviations of clusters, side by side in each column."""
    (r, m), means, deviations = mixture.means.shape, mixture.means, np.sqrt(mixture.variances)
    positions = mixture.separating_columns(max_columns)
    if standardise:
        unit = np.sqrt(mixture.total)
        # A column without spread is at its mean.
        unit = np.where(unit > 0, unit, 1.0)
        means, deviations = (means - mixture.mean) / unit, deviations / unit
    means, deviations = means[:, positions], deviations[:, positions]
    k = len(positions)
    ends, step = (-0.5, k - 0.5), FILLED / r
    layers = [level_line(0.0, ends, {"color": GREY, "linewidth": 0.6})] if standardise else []
    for number in range(r):
        look = style(number) | {"linestyle": DASHES[number % len(DASHES)], "linewidth": 0.8}
        look["markersize"] = min(max(150 * step / k, 2.5), 6.0)
        x = np.arange(k) + (number - (r - 1) / 2) * step
        low, high = means[number] - deviations[number], means[number] + deviations[number]
        layers.append(stems(x, low, high, {"color": look["color"], "linewidth": 1.2}, f"bars-{number + 1}"))
        label = f"{clusters[number]} (weight {mixture.weights[number]:.2f})"
        layers.append(Line(x, means[number], look, cluster_kind(number), label))
    notes = ["Marks: means of clusters. Bars: one standard deviation within the cluster on either side."]
    if k < m:
        notes.append(
            f"Shown: {k} of {m} columns, {'those' if k > 1 else 'that'} in which the means differ most."
        )
    units = "standard deviations from the mean" if standardise else "mean, in units of the column"
    heights = limits(np.concatenate([(means - deviations).ravel(), (means + deviations).ravel()]))
    columns = [names[i] for i in positions]
    return Chart(layers, ends, heights, "Profiles of the clusters", ("column", units), notes, columns)
