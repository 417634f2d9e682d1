"""The way of EM to the optimum, pass by pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import numeric_array
from apolar.mixture import SphericalMixture
from apolar.plots.canvas import MAX_VECTORS, need_matplotlib
from apolar.plots.palette import GREY, INK
from apolar.plots.single import SinglePanel
from apolar.plots.ticks import integer_ticks, plain_numbers, powers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["convergence"]

# Points are marked up to this many passes.
MAX_MARKS = 100

_LINE = {"color": INK, "linestyle": "-", "linewidth": 1.2}
_END = {"color": INK, "marker": "o", "markerfacecolor": "white"}
_TOLERANCE = {"color": GREY, "linestyle": "--", "linewidth": 1.2}


def convergence(model: Any | Sequence[float], *, ax: Axes | None = None) -> Axes:
    """Draw how far from the best value each pass of EM over the data ended, on a logarithmic scale.

    Parameters
    ----------
    model : GaussianMixture, or sequence of float, length n_passes
        Fitted; or the values of what EM maximises, one after each pass.
    ax : matplotlib Axes, optional
        What to draw into; a new figure by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture; notebooks and `plt.show()` show it.

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
    need_matplotlib()
    curve = _of_values(model) if _is_sequence(model) else _of_model(model)
    single = SinglePanel.of(ax, (4.8, 3.2))
    panel = single.panel
    passes = np.arange(1, len(curve.values) + 1)
    entries = _draw_values(panel, passes, curve) if curve.is_stream else _draw_distances(panel, passes, curve)
    panel.set_xlim(passes[0] - 0.5, passes[-1] + 0.5)
    integer_ticks(panel.xaxis)
    if curve.is_stream:
        single.name_axes("calls of partial_fit", "mean log-likelihood of a row")
    else:
        single.name_axes("passes over the data", curve.distance)
    single.title(curve.title)
    single.key(entries)
    single.note(*curve.notes)
    return single.done()


@dataclass(frozen=True, eq=False)
class _Curve:
    """What is drawn: the value after each pass, the tolerance per row, title and notes."""

    values: Array
    tolerance: float | None
    title: str
    distance: str
    notes: tuple[str, ...]
    is_stream: bool = False


# --- what is drawn ------------------------------------------------------------------------


def _is_sequence(model: Any) -> bool:
    return isinstance(model, list | tuple | np.ndarray) or (
        hasattr(model, "__array__") and not hasattr(model, "fit")
    )


def _of_values(values: Any) -> _Curve:
    array = numeric_array(values, "The sequence of values")
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"A sequence of values must have one per pass, at least one; got shape {array.shape}. Pass "
            "model.lower_bounds_, or the model."
        )
    if np.iscomplexobj(array):
        raise TypeError("The sequence of values is complex: pass real numbers.")
    best = float(array.max())
    notes = (f"The best value is {best:.6g}, after {_passes(int(array.argmax()) + 1)}.",)
    return _Curve(array, None, f"The values of {_passes(len(array))}", "distance to the best value", notes)


def _of_model(model: Any) -> _Curve:
    if isinstance(model, SphericalMixture):
        raise TypeError(
            "A SphericalMixture comes from moments without passes of EM: fit a GaussianMixture, or pass the "
            "values of your own run."
        )
    if not hasattr(model, "covariance_type"):
        raise TypeError(
            f"model must be a GaussianMixture or a sequence of numbers, not {type(model).__name__}."
        )
    if not hasattr(model, "means_"):
        raise ValueError("The model is not fitted: call model.fit(X) first.")
    if not len(getattr(model, "lower_bounds_", ())):
        raise ValueError(
            "The model keeps no lower_bounds_, the value after each pass: fit an apolar.GaussianMixture, or "
            "pass the values themselves."
        )
    values = np.asarray(model.lower_bounds_, dtype=float)
    start, message = getattr(model, "start_", ""), getattr(model, "message_", "")
    if start == "stream":
        return _Curve(values, None, "A mixture that follows a stream", "", (message,), True)
    ended = "converged" if model.converged_ else "did not converge"
    title = f'EM from the start "{start}": {ended}' if start else f"EM {ended}"
    rows = getattr(model, "n_samples_seen_", 0)
    # Our tolerance is for all rows together; that of scikit-learn is for steps.
    tolerance = model.tol / rows if rows and model.converged_ else None
    final = f"Log-likelihood plus log-prior per row: {values.max():.6g} after {_passes(len(values))}."
    remark = ""
    if tolerance and values.max() - values[0] < tolerance:
        remark = "The start had brought the mixture to the optimum; its passes are not shown."
    elif not model.converged_:
        remark = "The optimum is higher than the best value so far."
    return _Curve(
        values, tolerance or None, title, "distance to the best value, per row", (message, final, remark)
    )


def _passes(number: int) -> str:
    return f"{number} pass{'es' * (number != 1)}"


# --- the drawing --------------------------------------------------------------------------


def _draw_distances(panel: Any, passes: Array, curve: _Curve) -> list[tuple[str, dict[str, Any]]]:
    """Draw how far from the best value each pass ended; where that is zero, a hollow mark at the bottom."""
    left = curve.values.max() - curve.values
    above = left > 0
    look = _LINE | {"marker": "o" if len(passes) <= MAX_MARKS else ""}
    entries: list[tuple[str, dict[str, Any]]] = []
    bottom = 0.0
    if above.any():
        panel.set_yscale("log")
        ends = [left[above].min(), left[above].max(), *([] if curve.tolerance is None else [curve.tolerance])]
        bottom = min(ends) / 6
        panel.set_ylim(bottom / 2, max(ends) * 2)
        powers(panel.yaxis)
        shown = np.where(above, left, np.nan)
        as_image = len(passes) > MAX_VECTORS
        panel.plot(passes, shown, markersize=4, zorder=2, label="distance", rasterized=as_image, **look)
        entries.append(("after a pass", look))
    else:
        panel.set_yticks([0], ["0"])
    if curve.tolerance is not None and above.any():
        panel.axhline(curve.tolerance, zorder=1, **_TOLERANCE)
        entries.append((f"tolerance: {curve.tolerance:.2g} per row", _TOLERANCE))
    at_best = passes[~above]
    panel.plot(
        at_best,
        np.full(len(at_best), bottom),
        linestyle="none",
        markersize=5,
        zorder=3,
        clip_on=False,
        label="best value",
        **_END,
    )
    entries.append(("at the best value: 0", _END))
    return entries


def _draw_values(panel: Any, passes: Array, curve: _Curve) -> list[tuple[str, dict[str, Any]]]:
    look = _LINE | {"marker": "o" if len(passes) <= MAX_MARKS else ""}
    as_image = len(passes) > MAX_VECTORS
    panel.plot(passes, curve.values, markersize=4, zorder=2, label="a batch", rasterized=as_image, **look)
    panel.margins(y=0.1)
    plain_numbers(panel.yaxis)
    return [("after a call", look)]
