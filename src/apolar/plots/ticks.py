"""Limits and ticks of axes: as many labels as there is room for."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._arrays import Array
from apolar.plots.canvas import TICK_SIZE
from apolar.plots.palette import INK

__all__ = ["limits", "set_ticks"]

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
    # What all ticks have in common, as 1e6, goes outside: where matplotlib puts it is another panel.
    formatter.set_locs(axis.get_majorticklocs())
    common = formatter.get_offset()
    axis.get_offset_text().set_visible(False)
    if common:
        axis.set_label_text(common if common[0] in "+-\N{MINUS SIGN}" else f"\N{MULTIPLICATION SIGN}{common}")
        axis.label.set(fontsize=TICK_SIZE, color=INK)
        axis.labelpad = 1
