"""How sure a mixture is of the cluster of each row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.checks import check_integer, random_generator
from apolar.plots.chart import INK, PAPER, Chart, draw_chart, limits
from apolar.plots.clusters import (
    Clusters,
    cluster_points,
    kept_rows,
    most_probable,
    numbered_clusters,
    posteriors_of,
)
from apolar.plots.mixtures import MixtureView
from apolar.plots.table import TableView, chosen_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["row_chart", "uncertainty"]

# Rows above these are counted; those above the first lie on top of the others.
DOUBTFUL, UNDECIDED = 0.1, 0.5
# How much larger the mark of the most uncertain row is than that of a certain one, in area.
GROWTH = 6.0


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
    mixture = MixtureView.of(model).check_columns(table.n_features)
    max_points, rng = check_integer(max_points, "max_points", least=1), random_generator(random_state)
    plane, names = _plane(mixture, table, columns, feature_names)
    probabilities = posteriors_of(model, X)
    found = most_probable(probabilities, len(mixture.weights))
    doubt = 1 - probabilities.max(axis=1)
    clusters = numbered_clusters(labels, found, class_names, table.n_rows, len(mixture.weights))
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
    legend = [entry for entry in clusters.legend() if not entry[0].endswith("(0)")]
    n_doubtful = int(np.count_nonzero(doubt > DOUBTFUL))
    if n_doubtful:
        look = {"marker": "o", "color": PAPER, "markeredgecolor": INK, "markersize": 8}
        legend.append((f"in doubt ({n_doubtful})", look))
    return Chart(
        layers,
        limits(values[:, 0]),
        (-0.06 * highest, 1.08 * highest) if is_doubt else limits(values[:, 1]),
        "Where the cluster of a row is uncertain",
        names,
        legend,
        _notes(doubt, len(kept), n_choices),
    )


def _plane(
    mixture: MixtureView, table: TableView, columns: Any, feature_names: Iterable[Any] | None
) -> tuple[Array, tuple[str, str]]:
    """Return what is shown, shape (n_rows, 1 or 2), and the names of both axes."""
    is_pca = isinstance(columns, str) and columns == "pca"
    if is_pca and table.n_features > 1:
        spread, axes = np.linalg.eigh(mixture.covariance)
        axes, fractions = axes[:, :-3:-1], spread[:-3:-1] / spread.sum()
        # Of the two directions of an axis, that in which its largest entry is positive.
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(2)])
        values = (table.numbers(list(range(table.n_features))) - mixture.mean) @ axes
        first, second = (
            f"principal axis {i + 1} ({part:.0%} of the variance)" for i, part in enumerate(fractions)
        )
        return values, (first, second)
    if columns is None or is_pca:
        # In the order of the table, so that the picture does not turn with the last digit.
        columns = mixture.separating_columns(2)
    positions, shown = chosen_columns(columns, table, feature_names)
    if len(positions) > 2:
        raise ValueError(
            f"columns are {len(positions)}, and a plane has two: name one or two, or pass 'pca' for "
            "principal axes."
        )
    name, other = (*shown, "uncertainty")[:2]
    return table.numbers(positions), (name, other)


def _notes(doubt: Array, n_shown: int, n_choices: int) -> list[str]:
    n_rows = len(doubt)
    doubtful, undecided = np.count_nonzero(doubt > DOUBTFUL), np.count_nonzero(doubt > UNDECIDED)
    counts = f"Uncertainty above {DOUBTFUL}: {doubtful} of {n_rows} row{'s' * (n_rows != 1)}; "
    if n_choices == 1:
        return ["There is one cluster: nothing is uncertain."]
    if n_choices == 2:
        counts += f"{UNDECIDED} is the most that two clusters can have."
    else:
        counts += f"above {UNDECIDED}: {undecided}."
    shown = f"Shown: {n_shown} of {n_rows} rows, the most uncertain among them." if n_shown < n_rows else ""
    return [counts, shown]
