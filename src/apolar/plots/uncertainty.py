"""How sure a mixture is of the cluster of each row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, random_generator
from apolar.plots.canvas import MAX_VECTORS, need_matplotlib
from apolar.plots.clusters import Clusters, kept_rows, numbered_clusters, posteriors
from apolar.plots.mixtures import MixtureView
from apolar.plots.palette import INK, NOISE, PAPER, WRONG, style
from apolar.plots.single import SinglePanel
from apolar.plots.table import TableView, chosen_columns
from apolar.plots.ticks import limits, set_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["uncertainty"]

# Rows above these are counted; those above the first lie on top of the others.
DOUBTFUL, UNDECIDED = 0.1, 0.5
# How much larger the mark of the most uncertain row is than that of a certain one, in area.
GROWTH = 6.0
# Of the colours of rows that are not in doubt.
CERTAIN_ALPHA = 0.5


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
    is one less the probability of its most probable cluster: 0 if that is certain, and 1 - 1 / n_components
    at most. Noise counts as one more cluster.

    Parameters
    ----------
    model : GaussianMixture or SphericalMixture
        Fitted.
    X : array_like, sparse matrix or dataframe, shape (n_samples, n_features)
    columns : "pca", or int or list of int or str, optional
        One or two columns, by number or name; by default the two in which the means of the clusters differ
        most, for the spread of the column. "pca" is for the first two principal axes of the mixture. One
        column is shown against the uncertainty itself.
    labels : array_like, shape (n_samples,), optional
        The true clusters: numbers or strings. Found clusters then have the names of those that match them
        best too, and rows in a wrong cluster a marker of their own.
    feature_names : list of str, optional
        The names of all columns of X; by default those of the dataframe.
    class_names : list or dict of names, optional
        Of the true clusters, or of the found ones where there are no `labels`, as in `scatter_matrix`.
    max_points : int, default=2000
        The most points. Of more rows, the most uncertain ones are kept, as half of the points at most, and
        others are chosen at random.
    random_state : int, Generator or None, default=0
        Which rows are left out.
    ax : matplotlib Axes, optional
        What to draw into; a new figure by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture; notebooks and `plt.show()` show it.

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
    need_matplotlib()
    table = TableView.of(X)
    mixture = MixtureView.of(model).checked(table.n_features)
    max_points, rng = check_integer(max_points, "max_points", least=1), random_generator(random_state)
    plane = _plane(mixture, table, columns, feature_names)
    probabilities = posteriors(model, X, table)
    found = probabilities.argmax(axis=1)
    n_choices = len(mixture.weights)
    if getattr(model, "noise_box_", None) is not None:
        # Noise is one more that a row may belong to.
        of_noise = 1 - probabilities.sum(axis=1)
        found = np.where(of_noise > probabilities.max(axis=1), NOISE, found)
        probabilities, n_choices = np.column_stack([probabilities, of_noise]), n_choices + 1
    doubt = 1 - probabilities.max(axis=1)
    clusters = numbered_clusters(labels, found, class_names, table.n_rows, len(mixture.weights))
    is_line = plane.values.shape[1] == 1
    values = np.column_stack([plane.values, doubt]) if is_line else plane.values
    order = np.argsort(-doubt, kind="stable")
    kept = kept_rows(values, clusters, max_points, rng, before=order[doubt[order] > DOUBTFUL])

    single = SinglePanel.of(ax, (4.4, 3.8))
    panel = single.panel
    panel.set(xlim=limits(values[:, 0]), ylim=limits(values[:, 1]))
    if is_line:
        highest = max(float(doubt.max()), DOUBTFUL)
        panel.set_ylim(-0.06 * highest, 1.08 * highest)
    set_ticks(panel.xaxis, "width", panel.bbox.width)
    set_ticks(panel.yaxis, "height", panel.bbox.height)
    single.name_axes(
        *(
            _with_factor(axis, name)
            for axis, name in zip((panel.xaxis, panel.yaxis), plane.names, strict=True)
        )
    )
    _draw(panel, values[kept], doubt[kept], clusters.of_rows(kept), _most(n_choices))
    single.title("Where the cluster of a row is uncertain")
    single.key(_entries(clusters, doubt))
    single.note(*_notes(doubt, len(kept), n_choices))
    return single.done()


# --- the plane ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Plane:
    """What is shown: values, shape (n_rows, 1 or 2), and the names of both axes."""

    values: Array
    names: tuple[str, str]


def _plane(
    mixture: MixtureView, table: TableView, columns: Any, feature_names: Iterable[Any] | None
) -> _Plane:
    m = table.n_features
    if isinstance(columns, str) and columns == "pca" and m > 1:
        return _principal(mixture, table)
    if columns is None or (isinstance(columns, str) and columns == "pca"):
        # In the order of the table, so that the picture does not turn with the last digit.
        columns = sorted(np.argsort(-mixture.share_between, kind="stable")[:2].tolist())
    shown = chosen_columns(columns, table, feature_names)
    if len(shown.positions) > 2:
        raise ValueError(
            f"columns are {len(shown.positions)}, and a plane has two: name one or two, or pass 'pca' for "
            "principal axes."
        )
    name, other = (*shown.names, "uncertainty")[:2]
    return _Plane(table.numbers(shown.positions), (name, other))


def _principal(mixture: MixtureView, table: TableView) -> _Plane:
    spread, axes = np.linalg.eigh(mixture.covariance)
    axes, fractions = axes[:, :-3:-1], spread[:-3:-1] / spread.sum()
    # Of the two directions of an axis, that in which its largest entry is positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(2)])
    values = (table.numbers(list(range(table.n_features))) - mixture.mean) @ axes
    first, second = (
        f"principal axis {i + 1} ({fraction:.0%} of the variance)" for i, fraction in enumerate(fractions)
    )
    return _Plane(values, (first, second))


def _with_factor(axis: Any, name: str) -> str:
    """Return the name of an axis with the factor that its ticks have in common, which is its label so far."""
    factor = axis.get_label_text()
    return f"{name} ({factor})" if factor else name


# --- the drawing --------------------------------------------------------------------------


def _most(n_components: int) -> float:
    """Return the largest uncertainty that there can be."""
    return 1 - 1 / n_components if n_components > 1 else 1.0


def _draw(panel: Any, values: Array, doubt: Array, clusters: Clusters, most: float) -> None:
    as_image = len(values) > MAX_VECTORS
    base = min(max(400 / np.sqrt(len(values)), 8.0), 22.0)
    area = base * (1 + (GROWTH - 1) * doubt / most)
    order = np.argsort(doubt, kind="stable")
    certain = {"alpha": CERTAIN_ALPHA, "linewidths": 0}
    doubtful = {"edgecolors": INK, "linewidths": 0.7}
    # Uncertain rows lie on top of certain ones, and of them the wrong ones.
    layers = [
        (is_layer & (clusters.below == number) & ~clusters.wrong, number, style(number)[1], name, how)
        for is_layer, how in ((doubt <= DOUBTFUL, certain), (doubt > DOUBTFUL, doubtful))
        for number, name in [(NOISE, "noise"), *enumerate(clusters.names)]
    ]
    layers += [
        (clusters.wrong & (clusters.below == number), number, WRONG, "in a wrong cluster", doubtful)
        for number in np.unique(clusters.below)
    ]
    for is_layer, number, marker, name, how in layers:
        rows = order[is_layer[order]]
        if len(rows):
            panel.scatter(
                values[rows, 0],
                values[rows, 1],
                s=area[rows] * (1.5 if marker == WRONG else 1.0),
                facecolors=style(number)[0],
                marker=marker,
                label=name,
                gid="noise" if number == NOISE else f"cluster-{number + 1}",
                rasterized=as_image,
                zorder=2,
                **how,
            )


def _entries(clusters: Clusters, doubt: Array) -> list[tuple[str, dict[str, Any]]]:
    entries: list[tuple[str, dict[str, Any]]] = []
    for number, name in enumerate(clusters.names):
        count = np.count_nonzero(clusters.below == number)
        if count:
            entries.append((f"{name} ({count})", _look(number)))
    n_noise = np.count_nonzero(clusters.below == NOISE)
    if n_noise:
        entries.append((f"noise ({n_noise})", _look(NOISE)))
    n_doubtful = np.count_nonzero(doubt > DOUBTFUL)
    if n_doubtful:
        look = {"marker": "o", "color": PAPER, "markeredgecolor": INK, "markersize": 8}
        entries.append((f"in doubt ({n_doubtful})", look))
    n_wrong = np.count_nonzero(clusters.wrong)
    if n_wrong:
        look = {"marker": WRONG, "color": "white", "markeredgecolor": INK}
        entries.append((f"in a wrong cluster ({n_wrong})", look))
    return entries


def _look(number: int) -> dict[str, Any]:
    colour, marker = style(number)
    return {"marker": marker, "color": colour}


def _notes(doubt: Array, n_shown: int, n_components: int) -> list[str]:
    n_rows = len(doubt)
    doubtful, undecided = np.count_nonzero(doubt > DOUBTFUL), np.count_nonzero(doubt > UNDECIDED)
    counts = f"Uncertainty above {DOUBTFUL}: {doubtful} of {n_rows} row{'s' * (n_rows != 1)}; "
    if n_components == 1:
        return ["There is one cluster: nothing is uncertain."]
    if n_components == 2:
        counts += f"{UNDECIDED} is the most that two clusters can have."
    else:
        counts += f"above {UNDECIDED}: {undecided}."
    shown = f"Shown: {n_shown} of {n_rows} rows, the most uncertain among them." if n_shown < n_rows else ""
    return [counts, shown]
