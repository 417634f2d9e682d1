"""Curves: EM on its way to the optimum, criteria of a selection, components combined, eigenvalues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, numeric_array
from apolar._core.display import count_noun
from apolar.estimator.cluster_merging import Combination
from apolar.exceptions import join_names
from apolar.mixture import SphericalMixture
from apolar.moments import ComponentCount, n_components_from_spectrum
from apolar.plots.chart import (
    DASHES,
    GREY,
    INK,
    LEVEL,
    MARK,
    MARKERS,
    MAX_NAMES,
    SHADES,
    Chart,
    Line,
    Look,
    draw_chart,
    level_line,
    limits,
    stems,
)
from apolar.plots.views import MixtureView, check_fitted
from apolar.scores import criterion_title
from apolar.selection import Selection
from apolar.selection.selection_table import ranked_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Passes are marked up to this many.
MAX_MARKS = 100
# The part of the candidates, the best ones, for which there is room whatever the others are; all are shown if
# they take at most this many times the room of these.
SHOWN, ROOM_FOR_ALL = 0.4, 1.6

# The axis of eigenvalues is logarithmic if the largest is this many times the smallest shown.
WIDE = 50.0

_RING = MARK | {"markerfacecolor": "none", "markersize": 14}


# --- EM -----------------------------------------------------------------------------------


def convergence(model: Any | Sequence[float], *, ax: Axes | None = None) -> Axes:
    """Draw how far from the best value each pass of EM over the data ended, on a logarithmic scale.

    Parameters
    ----------
    model : GaussianMixture, or sequence of float, length n_passes
        Fitted; or the values of what EM maximises, one after each pass.
    ax : matplotlib Axes, optional
        What to draw into; those of a new figure of pyplot by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture.

    Notes
    -----
    Shown is the distance of `model.lower_bounds_`, log-likelihood plus log-prior per row, to the best of
    them. Passes of the start, and those over a part of the rows, are not among them. After `partial_fit` the
    values themselves are shown, one per call: there is no optimum that they go to. The legend is at the right
    of the axes and a note below them: a figure with `layout="constrained"` makes room for both.

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, random_state=0)
    >>> gm = apolar.GaussianMixture(4, init_params="kmeans", random_state=0).fit(X)
    >>> ax = apolar.plots.convergence(gm)
    >>> ax.get_xlabel()
    'passes over the data'
    >>> ax.get_title()
    'EM from the start "kmeans": converged'
    """
    is_array = hasattr(model, "__array__") and not hasattr(model, "fit")
    is_values = is_array or isinstance(model, list | tuple)
    return draw_chart(_chart_of_values(model) if is_values else _chart_of_model(model), ax)


def _distance_chart(values: Array, tolerance: float | None, title: str, name: str, notes: list[str]) -> Chart:
    """Return the distance of values to the best of them; a hollow mark at the bottom is zero."""
    passes, look = _passes_and_look(values)
    ends = (0.5, len(passes) + 0.5)
    left = values.max() - values
    above = left > 0
    layers = []
    bottom, heights = 0.0, (-1.0, 1.0)
    if above.any():
        known = [*left[above], *([] if tolerance is None else [tolerance])]
        bottom = min(known) / 6
        heights = (bottom / 2, max(known) * 2)
        if tolerance is not None:
            layers.append(level_line(tolerance, ends, LEVEL, f"tolerance: {tolerance:.2g} per row"))
        layers.append(Line(passes, np.where(above, left, np.nan), look, "distance", "after a pass"))
    at_best = passes[~above]
    end = MARK | {"color": INK, "markerfacecolor": "white", "clip_on": False}
    layers.append(Line(at_best, np.full(len(at_best), bottom), end, "best", "at the best value: 0"))
    scale = "log" if above.any() else "zero"
    return Chart(layers, ends, heights, title, ("passes over the data", name), notes, "integer", scale)


def _passes_and_look(values: Array) -> tuple[Array, Look]:
    """Return the numbers of passes, and the look of the line through them."""
    marker = "o" if len(values) <= MAX_MARKS else ""
    look = {"color": INK, "linestyle": "-", "linewidth": 1.2, "markersize": 4, "marker": marker}
    return np.arange(1, len(values) + 1), look


def _chart_of_values(values: Any) -> Chart:
    array = numeric_array(values, "The sequence of values")
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"A sequence of values must have one per pass, at least one; got shape {array.shape}. Pass "
            "model.lower_bounds_, or the model."
        )
    if np.iscomplexobj(array):
        raise TypeError("The sequence of values is complex: pass real numbers.")
    best = float(array.max())
    note = f"The best value is {best:.6g}, after {count_noun(int(array.argmax()) + 1, 'pass')}."
    title = f"The values of {count_noun(len(array), 'pass')}"
    return _distance_chart(array, None, title, "distance to the best value", [note])


def _chart_of_model(model: Any) -> Chart:
    if isinstance(model, SphericalMixture):
        raise TypeError(
            "A SphericalMixture comes from moments without passes of EM: fit a GaussianMixture, or pass the "
            "values of your own run."
        )
    check_fitted(model, "GaussianMixture or a sequence of numbers")
    if not len(getattr(model, "lower_bounds_", ())):
        raise ValueError(
            "The model keeps no lower_bounds_, the value after each pass: fit an apolar.GaussianMixture, or "
            "pass the values themselves."
        )
    values = np.asarray(model.lower_bounds_, dtype=float)
    start, message = getattr(model, "start_", ""), getattr(model, "message_", "")
    if start == "stream":
        calls, look = _passes_and_look(values)
        names = ("calls of partial_fit", "mean log-likelihood of a row")
        title, ends = "A mixture that follows a stream", (0.5, len(calls) + 0.5)
        line = Line(calls, values, look, "values", "after a call")
        return Chart([line], ends, limits(values), title, names, [message], "integer")
    ended = "converged" if model.converged_ else "did not converge"
    title = f'EM from the start "{start}": {ended}' if start else f"EM {ended}"
    rows = getattr(model, "n_samples_seen_", 0)
    # Our tolerance is for all rows together; that of scikit-learn is for steps.
    tolerance = model.tol / rows if rows and model.converged_ else None
    final = (
        f"Log-likelihood plus log-prior per row: {values.max():.6g} after {count_noun(len(values), 'pass')}."
    )
    remark = ""
    if tolerance and values.max() - values[0] < tolerance:
        remark = "The start had brought the mixture to the optimum; its passes are not shown."
    elif not model.converged_:
        remark = "The optimum is higher than the best value so far."
    name = "distance to the best value, per row"
    return _distance_chart(values, tolerance or None, title, name, [message, final, remark])


# --- the choice of a model ----------------------------------------------------------------


def bic_curves(selection: Selection, *, ax: Axes | None = None) -> Axes:
    """Draw the criterion of each candidate against its number of components, one line per family.

    The family of the choice is drawn in ink, the others in grey: colours are for clusters.

    Parameters
    ----------
    selection : Selection
        What `apolar.select` returns; the criterion is the one that it chose by.
    ax : matplotlib Axes, optional
        What to draw into; those of a new figure of pyplot by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture.

    Notes
    -----
    The better candidates fill the frame, so that the decision shows, and a note says how many are above it.
    A candidate that failed is a gap in its line, and a hollow mark is one whose EM did not converge. The
    legend is at the right of the axes and a note below them: a figure with `layout="constrained"` makes room
    for both.

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(2, random_state=0)
    >>> selection = apolar.select(X, range(1, 5), ["spherical", "tied_spherical"], random_state=0)
    >>> ax = apolar.plots.bic_curves(selection)
    >>> ax.get_ylabel()
    'BIC (lower is better)'
    """
    if not isinstance(selection, Selection):
        raise TypeError(
            f"selection must be what apolar.select returns, not {type(selection).__name__}: "
            "pass apolar.select(X)."
        )
    return draw_chart(selection_chart(selection), ax)


def selection_chart(selection: Selection) -> Chart:
    """Return the criterion of each candidate against its number of components."""
    criterion, best, highest = selection.criterion, selection.best_row, _highest(selection)
    layers: list[Line] = []
    by_size = sorted(selection.table, key=lambda row: row.n_components)
    for number, form in enumerate(dict.fromkeys(row.form for row in selection.table)):
        rows = [row for row in by_size if row.form == form]
        values = np.array([getattr(row, criterion) for row in rows], dtype=float)
        if not np.any(values <= highest):  # NaN, too
            continue
        is_chosen = form == best.form
        look: Look = {
            "color": INK if is_chosen else SHADES[number % len(SHADES)],
            "marker": MARKERS[number % len(MARKERS)],
            "markersize": 5,
            "linestyle": "-" if is_chosen else DASHES[1 + number % (len(DASHES) - 1)],
            "linewidth": 2.0 if is_chosen else 1.0,
        }
        components = np.array([row.n_components for row in rows])
        # Gaps where candidates failed or were pruned.
        layers.append(Line(components, values, look, form, form))
        is_open = np.isfinite(values) & ~np.array([row.converged for row in rows])
        if is_open.any():
            hollow = look | {"linestyle": "none", "markerfacecolor": "white"}
            layers.append(Line(components[is_open], values[is_open], hollow))
    ranked = ranked_rows(selection.table, criterion)
    lowest = float(getattr(ranked[0], criterion))
    for row, colour in zip([best, *[row for row in ranked if row is not best]], (INK, GREY), strict=False):
        value = float(getattr(row, criterion))
        name = f"{row.n_components} {row.form}"
        behind = "" if row is ranked[0] else f", {value - lowest:.1f} behind"
        label = f"{'lowest' if row is ranked[0] else 'chosen' if row is best else 'next'}: {name}{behind}"
        x, y = np.array([row.n_components]), np.array([value])
        layers.append(Line(x, y, _RING | {"color": colour}, label=label))
    numbers = [row.n_components for row in selection.table]
    name, margin = criterion_title(criterion), 0.1 * (highest - lowest)
    return Chart(
        layers,
        (min(numbers) - 0.5, max(numbers) + 0.5),
        (lowest - margin, highest + margin),
        f"{name} of {count_noun(len(selection.table), 'candidate')}",
        ("number of components", f"{name} (lower is better)"),
        [selection.reason, *_remarks(selection, highest)],
        "integer",
    )


def _highest(selection: Selection) -> float:
    """Return up to which value of the criterion candidates are in the frame."""
    criterion, best = selection.criterion, selection.best_row
    rows = ranked_rows(selection.table, criterion)
    values = [float(getattr(row, criterion)) for row in rows]
    lowest = values[0]
    highest = max(values[int(np.ceil(SHOWN * len(values))) - 1], float(getattr(best, criterion)))
    for number in (best.n_components - 1, best.n_components + 1):
        # One component fewer, and one more, with which the choice is compared.
        beside = [value for row, value in zip(rows, values, strict=True) if row.n_components == number]
        highest = max([highest, *beside[:1]])
    if values[-1] - lowest <= ROOM_FOR_ALL * (highest - lowest):
        highest = values[-1]
    return highest if highest > lowest else lowest + max(1.0, 1e-6 * abs(lowest))


def _remarks(selection: Selection, highest: float) -> list[str]:
    """Return what the reader must know about candidates that are not shown, or not as the others."""
    remarks = []
    n_above = sum(bool(getattr(row, selection.criterion) > highest) for row in selection.table)
    if n_above:
        remarks.append(f"Above the frame: {count_noun(n_above, 'candidate')}.")
    failed = [row.named for row in selection.table if row.failed is not None]
    if failed:
        remarks.append(f"Gaps: {join_names(failed)} failed.")
    if any(row.is_fitted and not row.converged for row in selection.table):
        remarks.append("Hollow marks: EM did not converge.")
    return remarks


# --- components that are combined -------------------------------------------------------------------


def entropies(combination: Combination, *, ax: Axes | None = None) -> Axes:
    """Draw the entropy of the clustering, or the largest overlap, against the number of clusters.

    Parameters
    ----------
    combination : Combination
        What `GaussianMixture.combine` returns; it is drawn by what clusters were combined by.
    ax : matplotlib Axes, optional
        What to draw into; those of a new figure of pyplot by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture.

    Examples
    --------
    >>> import apolar
    >>> X = apolar.datasets.load_iris().data
    >>> gm = apolar.GaussianMixture(3, random_state=0).fit(X)
    >>> ax = apolar.plots.entropies(gm.combine(X))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('number of clusters', 'entropy of the clustering')
    """
    if not isinstance(combination, Combination):
        raise TypeError(
            f"combination must be what combine returns, not {type(combination).__name__}: pass gm.combine(X)."
        )
    is_overlap = combination.by == "overlap"
    values = combination.overlaps if is_overlap else combination.entropies
    numbers, chosen = np.arange(1, len(values) + 1), combination.n_clusters
    layers = [
        Line(numbers, values, MARK | {"color": INK, "linestyle": "-"}, "values"),
        Line(
            numbers[chosen - 1 : chosen], values[chosen - 1 : chosen], _RING | {"color": INK}, label="chosen"
        ),
    ]
    name = "largest overlap of two clusters" if is_overlap else "entropy of the clustering"
    ends = (0.5, len(values) + 0.5)
    title, axes = "Combined components", ("number of clusters", name)
    return draw_chart(Chart(layers, ends, limits(values), title, axes, [combination.sentence], "integer"), ax)


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
    is_mixture = isinstance(X, SphericalMixture) or (hasattr(X, "covariance_type") and hasattr(X, "fit"))
    return draw_chart((_chart_of_mixture if is_mixture else _chart_of_rows)(X, n_components), ax)


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
