"""Limits and ticks of axes: as many labels as there is room for."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.plots.canvas import TICK_SIZE
from apolar.plots.palette import INK

__all__ = ["integer_ticks", "limits", "plain_numbers", "powers", "set_ticks"]

# In inches: the least between two labels.
APART = 0.07


def limits(column: Array) -> tuple[float, float]:
    """Return the least and the greatest of some numbers, with a margin."""
    low, high = float(column.min()), float(column.max())
    pad = 0.06 * (high - low)
    if pad <= 1e-9 * max(abs(low), abs(high)):
        pad = 0.5 * (abs(low) or 1.0)
    return low - pad, high + pad


def set_ticks(axis: Any, extent: str, room: float) -> None:
    """Set as many ticks as have labels within an axis, none into the next panel.

    Parameters
    ----------
    axis : matplotlib Axis
    extent : {"width", "height"}
        The side of a label that lies along the axis.
    room : float
        The length of the axis in pixels.
    """
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    gap = APART * axis.axes.figure.dpi
    formatter = ScalarFormatter(useMathText=False)
    formatter.set_powerlimits((-3, 5))
    axis.set_major_formatter(formatter)
    low, high = axis.get_view_interval()
    for n in range(6, 0, -1):
        ticks = MaxNLocator(n, steps=[1, 2, 5, 10]).tick_values(low, high)
        ticks = ticks[(ticks > low) & (ticks < high)]
        if len(ticks) == 0:
            continue
        axis.set_ticks(ticks)
        halves = [getattr(label.get_window_extent(), extent) / 2 for label in axis.get_ticklabels()]
        centres = (ticks - low) / (high - low) * room
        starts, ends = centres - halves, centres + halves
        inside = (starts >= 0) & (ends <= room)
        if inside.any():
            axis.set_ticks(ticks[inside])
        if np.all(starts[1:] - ends[:-1] > gap) and np.count_nonzero(inside) > 1:
            break
    # What all ticks have in common, such as 1e6, goes into the label: matplotlib would put it into the next
    # panel.
    formatter.set_locs(axis.get_majorticklocs())
    common = formatter.get_offset()
    axis.get_offset_text().set_visible(False)
    if common:
        axis.set_label_text(common if common[0] in "+-\N{MINUS SIGN}" else f"\N{MULTIPLICATION SIGN}{common}")
        axis.label.set(fontsize=TICK_SIZE, color=INK)
        axis.labelpad = 1


def plain_numbers(axis: Any) -> None:
    """Write numbers at ticks as they are: no factor and no offset beside the axis."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(_plain))
    axis.set_minor_formatter(NullFormatter())


def powers(axis: Any) -> None:
    """Give a logarithmic axis ticks at powers of ten; at 2 and 5 times them as well if it is short."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    plain_numbers(axis)


def _plain(value: float, _: int | None = None) -> str:
    # Digits that rounding has left are cut.
    return f"{value:.10g}".replace("-", "\N{MINUS SIGN}")


def integer_ticks(axis: Any) -> None:
    """Give an axis ticks at integers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=9, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
