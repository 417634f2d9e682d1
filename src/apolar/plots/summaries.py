"""Summaries: the profiles of clusters, and the eigenvalues of a covariance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar._core.display import count_noun
from apolar.mixture import SphericalMixture
from apolar.moments import ComponentCount, n_components_from_spectrum
from apolar.plots.chart import (
    DASHES,
    GREY,
    INK,
    LEVEL,
    MARK,
    MAX_NAMES,
    Chart,
    Line,
    cluster_kind,
    draw_chart,
    level_line,
    limits,
    stems,
    style,
)
from apolar.plots.views import MixtureView, check_names, column_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["profile_chart", "profiles", "spectrum", "spectrum_chart"]

# The part of the room of a column that its marks take.
FILLED = 0.6
# The axis is logarithmic if the largest eigenvalue is this many times the smallest shown.
WIDE = 50.0


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


# --- eigenvalues --------------------------------------------------------------------------


def spectrum(X: Any, *, n_components: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the eigenvalues of the covariance, largest first, and what noise alone gives.

    The means of r components lie in r - 1 directions, and eigenvalues there stand out of the noise of
    spherical clusters, which is flat except for the fluctuation of a sample. Those that stand out are filled,
    the others are hollow. See `apolar.n_components_from_spectrum`, which counts them.

    Parameters
    ----------
    X : array_like, dataframe, iterable of chunks, MomentSketch, ComponentCount or mixture
        Rows, shape (n_samples, n_features), a sketch of them, or the result of `n_components_from_spectrum`.
        For a SphericalMixture or a fitted GaussianMixture, the eigenvalues of its own covariance are
        shown; they do not fluctuate, and there is no band.
    n_components : int, optional
        Fill the eigenvalues of that many components, and take the others for noise; by default as many as
        stand out, or as the mixture has.
    ax : matplotlib Axes, optional
        What to draw into; those of a new figure of pyplot by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture.

    Notes
    -----
    At most 40 eigenvalues are shown. The legend is at the right of the axes and a note below them: a figure
    with `layout="constrained"` makes room for both.

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, 10_000, random_state=0)
    >>> ax = apolar.plots.spectrum(X)
    >>> ax.get_title()
    'The eigenvalues show 4 components'
    """
    return draw_chart(spectrum_chart(X, n_components), ax)


def _chart_of_rows(X: Any, n_components: int | None) -> Chart:
    count = X if isinstance(X, ComponentCount) else n_components_from_spectrum(X)
    values, n_signal, signal = count.spectrum, count.n_components - 1, "out of the noise"
    said = f"the eigenvalues show {count_noun(count.n_components, 'component')}"
    title, note = f"T{said[1:]}", count.message
    # The edge of Marchenko and Pastur depends on the number of rows, which it gives back here.
    rows = (len(values) - n_signal) / (np.sqrt(count.threshold / count.noise_level) - 1) ** 2
    if n_components is not None:
        n_signal = _check_summary(n_components, len(values), "the eigenvalues that are not zero") - 1
        signal, note = "between components", f"By themselves {said}."
        title = f"The eigenvalues taken as {count_noun(n_components, 'component')}"
    return _eigenvalue_chart(values, n_signal, (signal, "noise"), title, note, rows)


def _chart_of_mixture(model: Any, n_components: int | None) -> Chart:
    mixture = MixtureView.of(model)
    values = np.maximum(np.linalg.eigvalsh(mixture.covariance)[::-1], 0.0)
    if not values[0] > 0:
        raise ValueError("The mixture has no spread: fit it to rows that differ.")
    values = values[values > 1e-12 * values[0]]
    r = number = len(mixture.weights)
    if n_components is not None:
        number = _check_summary(n_components, len(values), "the columns of the mixture")
    n_signal = min(number - 1, len(values))
    note = "These are eigenvalues of the covariance of the mixture itself, not of rows."
    if n_signal:
        note += (
            f" The means of {n_signal + 1} components span {count_noun(n_signal, 'direction')}: these "
            "eigenvalues are filled. If components are spherical, the others are their common spread."
        )
    if n_signal == len(values):
        note += " There are more components than columns: no eigenvalue is left for that."
    title = f"Eigenvalues of a mixture of {count_noun(r, 'component')}"
    names = ("span of the means", "the others")
    return _eigenvalue_chart(values, n_signal, names, title, note)


def _check_summary(n_components: Any, most: int, what: str) -> int:
    number = check_integer(n_components, "n_components", least=1)
    if number > most:
        raise ValueError(
            f"n_components = {number} is more than {what}, {most}, and one of these must be left for the "
            f"noise: ask for at most {most}, or leave n_components out."
        )
    return number


def spectrum_chart(X: Any, n_components: int | None = None) -> Chart:
    """Return eigenvalues, those of the signal filled, and the level of the noise."""
    is_mixture = isinstance(X, SphericalMixture) or (hasattr(X, "covariance_type") and hasattr(X, "fit"))
    return _chart_of_mixture(X, n_components) if is_mixture else _chart_of_rows(X, n_components)


def _eigenvalue_chart(
    values: Array,
    n_signal: int,
    parts: tuple[str, str],
    title: str,
    note: str,
    n_rows: float | None = None,
) -> Chart:
    """Return eigenvalues, the first of which are signal; for a sample, with the band of its noise.

    Parameters
    ----------
    values : ndarray
        Largest first.
    n_signal : int
    parts : pair of str
        Names of the signal, and of the others.
    title, note : str
    n_rows : float, optional
        That of the sample.
    """
    shown, others = values[:MAX_NAMES], values[n_signal:]
    is_wide = bool(shown[0] > WIDE * shown[-1])
    level = float(others.mean()) if len(others) else float(values[-1])
    ratio = 0.0 if n_rows is None else np.sqrt(len(others) / n_rows)
    low, high = level * max(1 - ratio, 0.0) ** 2, level * (1 + ratio) ** 2
    known = [*shown, level, high]
    ends = (0.4, len(shown) + 0.6)
    heights = (min(known) / 2, 1.6 * max(known)) if is_wide else (0.0, 1.08 * max(known))
    layers, notes = [], [note]
    if n_rows is not None:
        label = f"noise alone: {low:.3g} to {high:.3g}"
        bottom = max(low, heights[0])
        x, y = np.array([*ends, *ends[::-1]]), np.array([bottom, bottom, high, high])
        # A thick line stands for it in the legend.
        look = {"color": GREY, "alpha": 0.3, "linestyle": "-", "linewidth": 8, "solid_capstyle": "butt"}
        layers.append(Line(x, y, look, label=label, is_filled=True))
        n_inside = int(np.count_nonzero(values[:n_signal] <= high))
        if n_inside:
            verb = "is" if n_inside == 1 else "are"
            notes.insert(
                0, f"{n_inside} of the {n_signal} filled {verb} no larger than what noise alone gives."
            )
    if len(others):
        layers.append(level_line(level, ends, LEVEL, f"mean of {parts[1]}: {level:.3g}"))
    x = np.arange(1, len(shown) + 1)
    for name, count, colour, face, part in (
        (parts[0], n_signal, INK, INK, slice(0, n_signal)),
        (parts[1], len(others), GREY, "white", slice(n_signal, None)),
    ):
        if len(shown[part]):
            layers.append(stems(x[part], heights[0], shown[part], {"color": colour, "linewidth": 1.0}))
            look = MARK | {"color": colour, "markerfacecolor": face}
            layers.append(Line(x[part], shown[part], look, label=f"{name} ({count})"))
    if len(shown) < len(values):
        notes.append(f"Shown: the largest {len(shown)} of {len(values)} eigenvalues.")
    height = f"eigenvalue{' (logarithmic scale)' * is_wide}"
    names = ("eigenvalues of the covariance, the largest first", height)
    return Chart(layers, ends, heights, title, names, notes, "integer", "log" if is_wide else "number")
