"""Rows too far from the others for arithmetic."""

from __future__ import annotations

import numpy as np

from apolar.em.whitened import WhitenedData
from apolar.em.whitening import MOST_DISTANCE

__all__ = ["refuse_rows_out_of_reach"]


def refuse_rows_out_of_reach(data: WhitenedData) -> None:
    """Refuse weighted rows so far from the others that squares of their distances overflow.

    Rows without weights cannot be that far from their own mean, in their own deviations.
    """
    if not (data.rows.can_take and data.rows.in_memory) or data.rows.device_template is not None:
        return
    values, weights = data.rows.take(slice(None))
    if weights is None or not isinstance(values, np.ndarray):
        return
    if data.is_incomplete:
        values = np.where(np.isnan(values), data.whitening.centre, values)
    if data.whitening.within_reach(values) is not values:
        row = int(np.argmax(np.max(np.abs(values / np.max(np.abs(values), axis=0)), axis=1)))
        raise ValueError(
            f"A row of X (number {row} of those with weight) lies more than {MOST_DISTANCE:.0e} "
            "deviations from the mean, and its weight is negligible: leave it out."
        )
