"""How many factors components have: the number under which rows left out are likeliest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.em.left_out import left_out
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, run
from apolar.mixture.factors import FactorFamily
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import AdaptivePrior, AddedRows, Prior

__all__ = ["mixture_of_shares", "with_left_out"]


def mixture_of_shares(data: Problem, shares: Array, prior: Prior | None) -> WhitenedParameters:
    """Return the mixture of components that hold these shares of complete rows.

    If the number of factors is open, it is that of the best trade-off of the likelihood of rows
    left out with what a mixture owes to having seen the rows. Twice as many are tried as long as that is
    better, and then those between.

    Parameters
    ----------
    data : Problem
        At most a sample of the rows, if the number of factors is open.
    shares : ndarray, shape (n_components, n_rows)
    prior : Prior or None

    Returns
    -------
    parameters : WhitenedParameters
    """
    kind = data.family
    if not isinstance(kind, FactorFamily) or kind.n_factors is not None:
        return data.mixture_of(shares, prior)
    known: dict[int, Fit] = {}

    def score(n_factors: int) -> float:
        if n_factors not in known:
            known[n_factors] = _fit_with(
                data.replace(family=replace(kind, n_factors=n_factors)), shares, prior
            )
        return known[n_factors].log_likelihood - (1 + SETTINGS.price) * known[n_factors].optimism

    most = kind.max_factors(data.n_features, data.n_rows)
    best = 1
    while 2 * best <= most and score(2 * best) > score(best):
        best *= 2
    step = best // 2
    while step:
        best = max((best, best - step, min(best + step, most)), key=score)
        step //= 2
    score(best)
    return known[best].parameters


def _fit_with(problem: Problem, shares: Array, prior: Prior | None) -> Fit:
    """Return the mixture of a number of factors, near its optimum, with the rows left out of it.

    With more factors than the rows have, EM takes long to fit the last ones to chance. A run that ends before
    owes less to having seen the rows than its optimum does: a nat for each parameter, or more.
    """
    within = AdaptivePrior() if prior is None else prior
    start = Fit(problem.mixture_of(shares, within), "factors")
    stop = Stop(SETTINGS.run_passes, gain=SETTINGS.sample_tolerance)
    (end,) = run(problem, [start], within, stop, is_compared=False)
    fit = with_left_out(problem, end)
    n_parameters = problem.family.n_parameters(fit.parameters.n_components, problem.n_features)
    return fit.updated(optimism=max(fit.optimism, float(n_parameters)))


def with_left_out(problem: Problem, fit: Fit) -> Fit:
    """Return a fit with the likelihood of each row under what the others leave of it."""
    (without,), (seen,) = left_out(problem, fit.parameters[None], AddedRows())
    of_rows = problem.row_weights()
    weights = np.ones(len(seen)) if of_rows is None else of_rows
    return fit.updated(left_out=without * weights, optimism=float((seen - without) @ weights))
