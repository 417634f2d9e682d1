"""The criterion of a selection against the number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apolar.plots.canvas import need_matplotlib
from apolar.plots.palette import DASHES, GREY, INK, MARKERS, SHADES
from apolar.plots.single import SinglePanel
from apolar.plots.ticks import plain_numbers
from apolar.scores import criterion_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from apolar.selection import Row, Selection

__all__ = ["bic_curves"]

# The part of the candidates, the best ones, for which there is room whatever the others are.
SHOWN = 0.4
# If all take at most this many times the room of these, all are shown.
ROOM_FOR_ALL = 1.6

_NEXT = {"marker": "o", "color": GREY, "markerfacecolor": "none", "markersize": 14, "markeredgewidth": 1.0}
_BEST = {"marker": "o", "color": INK, "markerfacecolor": "none", "markersize": 14, "markeredgewidth": 1.4}


def bic_curves(selection: Selection, *, ax: Axes | None = None) -> Axes:
    """Draw the criterion of each candidate against its number of components, one line per family.

    The family of the choice is drawn in ink, the others in grey: colours are for clusters.

    Parameters
    ----------
    selection : Selection
        What `apolar.select` returns; the criterion is the one that it chose by.
    ax : matplotlib Axes, optional
        What to draw into; a new figure by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture; notebooks and `plt.show()` show it.

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
    need_matplotlib()
    from apolar.selection import Selection

    if not isinstance(selection, Selection):
        raise TypeError(
            f"selection must be what apolar.select returns, not {type(selection).__name__}: "
            "pass apolar.select(X)."
        )
    single = SinglePanel.of(ax, (4.8, 3.4))
    panel, criterion, highest = single.panel, selection.criterion, _highest(selection)
    entries = []
    by_kind: dict[str, list[Row]] = {}
    for row in selection.table:
        by_kind.setdefault(row.covariance_type, []).append(row)
    for number, (kind, rows) in enumerate(by_kind.items()):
        if not any(np.isfinite(getattr(row, criterion)) for row in rows):
            continue
        look = _look(number, kind == selection.best_row.covariance_type)
        _draw(panel, sorted(rows, key=lambda row: row.n_components), criterion, look)
        is_outside = not any(getattr(row, criterion) <= highest for row in rows)
        entries.append((f"{kind} (above the frame)" if is_outside else kind, look))
    name = criterion_title(criterion)
    best = selection.best_row
    lowest = getattr(best, criterion)
    panel.plot([best.n_components], [lowest], linestyle="none", zorder=4, **_BEST)
    entries.append((f"lowest: {best.n_components} {best.covariance_type}", _BEST))
    others = [row for row in selection.table if row.is_fitted and row is not best]
    if others:
        second = min(others, key=lambda row: float(getattr(row, criterion)))
        value = getattr(second, criterion)
        panel.plot([second.n_components], [value], linestyle="none", zorder=4, **_NEXT)
        behind = f"{second.n_components} {second.covariance_type}, {value - lowest:.1f} behind"
        entries.append((f"next: {behind}", _NEXT))

    numbers = sorted({row.n_components for row in selection.table})
    panel.set_xlim(numbers[0] - 0.5, numbers[-1] + 0.5)
    panel.set_xticks(numbers[:: -(-len(numbers) // 20)])
    panel.set_ylim(lowest - 0.1 * (highest - lowest), highest + 0.1 * (highest - lowest))
    plain_numbers(panel.yaxis)
    single.name_axes("number of components", f"{name} (lower is better)")
    single.title(f"{name} of {len(selection.table)} candidate{'s' * (len(selection.table) != 1)}")
    single.key(entries)
    single.note(selection.reason, _outside(selection, highest), _failures(selection), _open_ends(selection))
    return single.done()


def _highest(selection: Selection) -> float:
    """Return up to which value of the criterion candidates are in the frame."""
    criterion, best = selection.criterion, selection.best_row
    rows = [row for row in selection.table if np.isfinite(getattr(row, criterion))]
    values = np.sort([float(getattr(row, criterion)) for row in rows])
    lowest, highest = float(values[0]), float(values[int(np.ceil(SHOWN * len(values))) - 1])
    for number in (best.n_components - 1, best.n_components + 1):
        # One component less, and one more, with which the choice is compared.
        beside = [float(getattr(row, criterion)) for row in rows if row.n_components == number]
        highest = max([highest, *([min(beside)] if beside else [])])
    if values[-1] - lowest <= ROOM_FOR_ALL * (highest - lowest):
        highest = float(values[-1])
    return highest if highest > lowest else lowest + max(1.0, 1e-6 * abs(lowest))


def _outside(selection: Selection, highest: float) -> str:
    values = [getattr(row, selection.criterion) for row in selection.table]
    count = sum(bool(value > highest) for value in values)
    return f"{count} candidate{'s are' if count > 1 else ' is'} above the frame." if count else ""


def _look(number: int, is_chosen: bool) -> dict[str, Any]:
    """Return how the line of a family looks: that of the chosen one stands out."""
    return {
        "color": INK if is_chosen else SHADES[number % len(SHADES)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": "-" if is_chosen else DASHES[1 + number % (len(DASHES) - 1)],
        "linewidth": 2.0 if is_chosen else 1.0,
    }


def _draw(panel: Any, rows: list[Row], criterion: str, look: dict[str, Any]) -> None:
    """Draw the line of a family, with gaps where candidates failed or were dropped."""
    values = np.array([getattr(row, criterion) for row in rows])
    numbers = np.array([row.n_components for row in rows])
    panel.plot(numbers, values, markersize=5, zorder=2, label=rows[0].covariance_type, **look)
    unfinished = np.array([not row.converged for row in rows]) & np.isfinite(values)
    if unfinished.any():
        hollow = {"marker": look["marker"], "color": look["color"], "markerfacecolor": "white"}
        panel.plot(
            numbers[unfinished], values[unfinished], linestyle="none", markersize=5, zorder=3, **hollow
        )


def _failures(selection: Selection) -> str:
    failed: dict[str, list[int]] = {}
    for row in selection.table:
        if row.failed is not None:
            failed.setdefault(row.covariance_type, []).append(row.n_components)
    listed = "; ".join(f"{kind} with {_ranges(sorted(numbers))}" for kind, numbers in failed.items())
    return f"Gaps are candidates that failed: {listed}." if failed else ""


def _ranges(numbers: list[int]) -> str:
    """Return ascending numbers in words, neighbours together."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def _open_ends(selection: Selection) -> str:
    is_open = any(row.is_fitted and not row.converged for row in selection.table)
    return "Hollow marks: EM did not converge." if is_open else ""
