"""Whether the rows are too few for the parameters."""

from __future__ import annotations

import numpy as np

from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.exceptions import FewRowsWarning

__all__ = ["few_rows_seen", "few_rows_warning"]

# Sums of responsibilities are not exact.
ROUNDING = 1e-6


def few_rows_warning(data: Problem, result: Fit) -> FewRowsWarning | None:
    """Return a warning if there are fewer rows than parameters, or fewer than columns in a component."""
    # Sparse rows of very many columns are for spherical components, and there is nothing to advise.
    seen = None if data.is_wide else few_rows_seen(data, result)
    if seen is None:
        return None
    return FewRowsWarning(
        f"{seen} Use a covariance type with fewer parameters, or fewer components; `select` compares them."
    )


def few_rows_seen(data: Problem, result: Fit) -> str | None:
    """Return what there are too few rows for; None if there are enough."""
    n_components, n_features = result.parameters.means.shape
    n_parameters = data.family.n_parameters(n_components, n_features)
    # Spherical components have hardly any parameters but their means, which few rows suffice for.
    if data.weight + ROUNDING < n_parameters and not data.family.is_spherical:
        return f"{data.weight:.6g} rows are fewer than the {n_parameters} parameters of this mixture."
    if data.family.is_axis_aligned or data.family.shares_parameters:
        return None
    counts = result.parameters.weights * data.weight
    n_few = int(np.sum(counts + ROUNDING < n_features))
    if not n_few:
        return None
    hold = f"{n_few} of {n_components} components " + ("holds" if n_few == 1 else "hold")
    return (
        f"{hold} fewer rows than there are columns: {counts.min():.3g} rows, for a covariance of "
        f"{n_features} columns."
    )
