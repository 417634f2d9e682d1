"""The means of clusters in many columns, side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar.plots.canvas import TICK_SIZE, need_matplotlib, shortened
from apolar.plots.mixtures import MixtureView
from apolar.plots.palette import DASHES, GREY, style
from apolar.plots.single import SinglePanel
from apolar.plots.ticks import plain_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["profiles"]

# The part of the room of a column that its marks take.
FILLED = 0.6
# In inches: the room of a cluster in a column of a new figure, and the least and largest width of its axes.
ROOM, NARROWEST, WIDEST = 0.12, 4.0, 9.0
# In letters: longer names are cut.
LONGEST_NAME = 24


def profiles(
    model: Any,
    *,
    feature_names: Iterable[Any] | None = None,
    class_names: Iterable[Any] | None = None,
    standardise: bool = True,
    max_columns: int = 40,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean of each cluster in each column, with one standard deviation to both sides.

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
        The most columns. Of more, those are shown in which the means differ most, for the spread of the
        column, in their order.
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
    >>> ax = apolar.plots.profiles(gm, feature_names=iris.feature_names)
    >>> [text.get_text()[: len("cluster 1")] for text in ax.get_legend().get_texts()]
    ['cluster 1', 'cluster 2', 'cluster 3']
    """
    need_matplotlib()
    mixture = MixtureView.of(model)
    m = mixture.means.shape[1]
    names = _names(model, feature_names, m)
    clusters = _cluster_names(class_names, len(mixture.weights))
    max_columns = check_integer(max_columns, "max_columns", least=1)
    positions = np.sort(np.argsort(-mixture.share_between, kind="stable")[:max_columns])
    means, deviations = mixture.means, np.sqrt(mixture.variances)
    if standardise:
        unit = np.sqrt(mixture.total)
        # A column without spread is at its mean.
        unit = np.where(unit > 0, unit, 1.0)
        means, deviations = (means - mixture.mean) / unit, deviations / unit

    width = min(max(ROOM * (len(means) + 1) * len(positions), NARROWEST), WIDEST)
    single = SinglePanel.of(ax, (width, 3.4))
    panel = single.panel
    if standardise:
        panel.axhline(0, color=GREY, linewidth=0.6, zorder=0)
    entries = _draw(panel, means[:, positions], deviations[:, positions], mixture.weights, clusters)
    panel.set_xlim(-0.5, len(positions) - 0.5)
    plain_numbers(panel.yaxis)
    _name_columns(panel, [names[i] for i in positions])
    units = "standard deviations from the mean" if standardise else "mean, in units of the column"
    single.name_axes("column", units)
    single.title("Profiles of the clusters")
    single.key(entries)
    chosen = ""
    if len(positions) < m:
        n = len(positions)
        chosen = f"Shown: {n} of {m} columns, {'those' if n > 1 else 'that'} in which the means differ most."
    single.note(
        "Marks: means of clusters. Bars: one standard deviation within the cluster to both sides.",
        chosen,
    )
    return single.done()


def _names(model: Any, feature_names: Iterable[Any] | None, n_features: int) -> list[str]:
    given = getattr(model, "feature_names_in_", None) if feature_names is None else feature_names
    if given is None:
        return [f"column {i}" for i in range(n_features)]
    names = [str(name) for name in given]
    if len(names) != n_features:
        raise ValueError(
            f"feature_names must name all {n_features} columns of the model; got {len(names)} names."
        )
    return names


def _cluster_names(class_names: Iterable[Any] | None, n_components: int) -> list[str]:
    if class_names is None:
        return [f"cluster {number + 1}" for number in range(n_components)]
    names = [str(name) for name in class_names]
    if len(names) != n_components:
        raise ValueError(f"class_names must name all {n_components} components; got {len(names)} names.")
    return names


def _draw(
    panel: Any, means: Array, deviations: Array, weights: Array, clusters: list[str]
) -> list[tuple[str, dict[str, Any]]]:
    """Draw all clusters, side by side in each column, and return their lines of the legend."""
    r, k = means.shape
    step = FILLED / r
    inches = panel.bbox.width / panel.figure.dpi / k * step
    size = min(max(50 * inches, 2.5), 6.0)
    entries = []
    for number in range(r):
        colour, marker = style(number)
        look = {"color": colour, "marker": marker, "linestyle": DASHES[number % len(DASHES)]}
        places = np.arange(k) + (number - (r - 1) / 2) * step
        panel.errorbar(
            places,
            means[number],
            yerr=deviations[number],
            markersize=size,
            linewidth=0.7,
            elinewidth=min(max(15 * inches, 0.6), 1.4),
            zorder=2,
            label=clusters[number],
            gid=f"cluster-{number + 1}",
            **look,
        )
        entries.append((f"{clusters[number]} (weight {weights[number]:.2f})", look | {"linewidth": 1.0}))
    return entries


def _name_columns(panel: Any, names: list[str]) -> None:
    """Write the names of columns at their places: upright if they are long, only some if they are many."""
    plain = {"parse_math": False, "usetex": False, "fontsize": TICK_SIZE}
    names = [shortened(name, LONGEST_NAME) for name in names]
    panel.set_xticks(np.arange(len(names)), names, **plain)
    boxes = [label.get_window_extent() for label in panel.get_xticklabels()]
    room = panel.bbox.width / len(names)
    if max(box.width for box in boxes) > 0.92 * room:
        step = -(-max(box.height for box in boxes) // room)
        every = slice(None, None, int(step))
        panel.set_xticks(np.arange(len(names))[every], names[every], rotation=90, **plain)
