"""How many distinct rows there are, as far as that is needed."""

from __future__ import annotations

import numpy as np

from apolar.data import fetch_rows
from apolar.em.whitened import WhitenedData

__all__ = ["has_distinct_rows"]

# How many rows are looked at first, per row that is asked for.
FIRST_ROWS = 4


def has_distinct_rows(data: WhitenedData, n_rows: int) -> bool:
    """Return whether at least so many of the rows are distinct.

    Usually the first rows are, and the others need not be sorted.
    """
    if not data.is_wide and data.rows.can_take:
        first, _ = fetch_rows(data.rows, np.arange(min(FIRST_ROWS * n_rows, data.n_rows)))
        if len(set(map(tuple, first.tolist()))) >= n_rows:
            return True
    return data.distinct().n_rows >= n_rows
