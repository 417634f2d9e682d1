"""The choice of the number of clusters, in the units of the table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from apolar.reports.analysis import Analysis
from apolar.selection import Row, Selection
from apolar.selection.result import reason

__all__ = ["Candidate", "candidates", "choice", "is_at_the_end", "table_selection"]

# Candidates that are listed.
MAX_CANDIDATES = 60


def table_selection(analysis: Analysis) -> Selection | None:
    """Return the selection with criteria in the units of the table.

    Standardised columns change each criterion by a constant, the same for all candidates. With the one of the
    analysis for the chosen candidate, there is one BIC in all places.
    """
    selection = analysis.selection
    if selection is None:
        return None
    best = selection.best_row
    shifts = {name: value - getattr(best, name) for name, value in analysis.criteria.items()}
    likelihood = analysis.log_likelihood - best.log_likelihood

    def shifted(row: Row) -> Row:
        values = {name: getattr(row, name) + shift for name, shift in shifts.items() if np.isfinite(shift)}
        return replace(row, log_likelihood=row.log_likelihood + likelihood, **values)

    table = tuple(shifted(row) for row in selection.table)
    ranked = sorted(
        (row for row in table if row.is_fitted), key=lambda row: float(getattr(row, selection.criterion))
    )
    numbers = tuple(sorted({row.n_components for row in table}))
    words = reason(ranked, numbers, selection.criterion, selection.note)
    return replace(selection, table=table, reason=words)


def choice(analysis: Analysis, *, is_fitted_before: bool = False) -> str:
    """Return how the number of clusters was chosen; one that was given may have been chosen by `select`."""
    selection = table_selection(analysis)
    if selection is not None:
        return selection.reason
    given = f"The number of clusters, {len(analysis.model.weights_)}, was given."
    if is_fitted_before:
        return f"{given} apolar.select(X) chooses the best of several."
    return f"{given} If several numbers are given, the best of them is chosen."


def is_at_the_end(analysis: Analysis) -> bool:
    """Return whether the chosen number is the largest of those that were tried."""
    if analysis.selection is None:
        return False
    numbers = {row.n_components for row in analysis.selection.table}
    return len(numbers) > 1 and len(analysis.model.weights_) == max(numbers)


@dataclass(frozen=True)
class Candidate:
    """A candidate as the page lists it; `behind` is how far its criterion is above the best."""

    family: str
    n_components: int
    n_parameters: int
    value: float
    behind: float


def candidates(selection: Selection | None) -> list[Candidate]:
    """Return the candidates that were fitted, the best first."""
    if selection is None:
        return []
    fitted = [row for row in selection.table if row.is_fitted]
    values = {id(row): float(getattr(row, selection.criterion)) for row in fitted}
    ranked = sorted(fitted, key=lambda row: values[id(row)])[:MAX_CANDIDATES]
    best = values[id(ranked[0])]
    return [
        Candidate(
            row.covariance_type, row.n_components, row.n_parameters, values[id(row)], values[id(row)] - best
        )
        for row in ranked
    ]
