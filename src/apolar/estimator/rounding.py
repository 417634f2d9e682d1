"""Fits whose components are no narrower than the rounding errors of the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from apolar._core.arrays import Array
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.rounding import has_rounding, is_narrower, rounding_variances, with_rounding
from apolar.exceptions import DisagreementWarning
from apolar.mixture.prior import Prior

__all__ = ["RoundingProblem", "fit_beyond_rounding"]


class RoundingProblem(NamedTuple):
    """What is fitted.

    Attributes
    ----------
    data : Problem
    sample : Problem
        Some of the rows, on the host.
    prior : Prior or None
    """

    data: Problem
    sample: Problem
    prior: Prior | None

    @property
    def is_rounded(self) -> bool:
        """Whether the rows are taken to be known up to their rounding errors only."""
        return has_rounding(self.data)

    def with_rounding(self, variances: Array) -> RoundingProblem:
        """Return the problem of rows that are known up to rounding errors of these variances."""
        data, prior = with_rounding(self.data, self.prior, variances)
        return RoundingProblem(data, self.sample.with_noise(variances), prior)


Search = Callable[[RoundingProblem, Fit | None], Fit]
"""Returns the best mixture for a problem, from a given start or, with None, from the start of the fit."""


def fit_beyond_rounding(
    problem: RoundingProblem, search: Search, *, is_continued: bool = False
) -> tuple[Fit, RoundingProblem]:
    """Return the best mixture that has no component narrower than the rounding errors of the rows.

    Where values repeat because they are rounded, as in integers, the likelihood grows without bound as a
    component becomes flat in a column, and flat components say nothing about clusters. If the best mixture
    has one, the search is repeated for rows that are known up to their rounding errors only. If there is an
    optimum without flat components near what that finds, the rounding errors are not needed, and that is the
    result. Rows without repeated values are fitted once, as they are.

    Parameters
    ----------
    problem : RoundingProblem
        Of the rows as they are.
    search : callable
    is_continued : bool, default=False
        Whether the start is from a fit to rows that were known up to their rounding errors.

    Returns
    -------
    result : Fit
    problem : RoundingProblem
        The one that was solved: as given, or with rounding errors.
    """
    if not is_continued:
        result = search(problem, None)
        if result.status is FitStatus.STOPPED:
            return result, problem
    variances = rounding_variances(problem.sample)
    if is_continued and not np.any(variances):
        return search(problem, None), problem
    if not is_continued and not is_narrower(problem.data, result.parameters, variances):
        return result, problem
    rounded = problem.with_rounding(variances)
    rounded_result = search(rounded, None)
    if rounded_result.status is not FitStatus.CONVERGED:
        return rounded_result, rounded
    start = replace(rounded_result, status=FitStatus.NOT_RUN, is_from_all_rows=True)
    result = search(problem, start)
    if result.status is not FitStatus.CONVERGED or is_narrower(problem.data, result.parameters, variances):
        return rounded_result, rounded
    # The starts disagreed in the search; this run had only one.
    disagreement = [w for w in rounded_result.warnings if isinstance(w, DisagreementWarning)]
    return replace(result, warnings=(*result.warnings, *disagreement)), problem
