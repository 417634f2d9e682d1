"""What a start is, and what the table of starts says about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar.em.low_density import with_noise_share
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.mixture.prior import Prior

__all__ = ["Start", "StartEntry", "as_start_with_noise"]

# Starts that do not need all rows see at most this many.
MAX_ROWS = 20_000

Start = Callable[[Problem, int, Prior | None, np.random.Generator], Any]
"""Takes rows, a number of components, a prior and a generator. Returns a mixture of that many components in
whitened coordinates, or, if it is a search, candidates, the best first. Raises ValueError with the reason if
it does not apply to the rows."""


def as_start_with_noise(start: Fit, share: float) -> Fit:
    """Return a start on rows without noise as one beside noise of a share."""
    return replace(start, parameters=with_noise_share(start.parameters, share), is_from_all_rows=False)


@dataclass(frozen=True, eq=False)
class StartEntry:
    """One entry of the table of starts.

    Attributes
    ----------
    start : Start
    sees_all_rows : bool
        Whether `start` is called with all rows, and not with the distinct rows of a sample.
    is_search : bool
        Whether `start` is called with all rows, draws samples itself, and returns several candidates.
    fallback : str or None
        The name of the start to use where this one does not apply. None: its error is raised.
    """

    start: Start
    sees_all_rows: bool = False
    is_search: bool = False
    fallback: str | None = None
