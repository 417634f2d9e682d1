"""Runs of variational inference: E-steps of expected log-densities, and posteriors from their sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apolar.em.problem import Problem
from apolar.em.result import FitStatus
from apolar.mixture.parameters import SufficientStats
from apolar.mixture.posterior import ConjugatePrior, Posterior

__all__ = ["PosteriorFit", "run_variational"]


@dataclass(frozen=True, eq=False)
class PosteriorFit:
    """Where a run of variational inference starts, and its result.

    Attributes
    ----------
    posterior : Posterior
    start : str
        The name of the start it came from.
    status : FitStatus
    lower_bounds : tuple of float
        After each pass.
    """

    posterior: Posterior
    start: str
    status: FitStatus = FitStatus.NOT_RUN
    lower_bounds: tuple[float, ...] = ()

    @property
    def lower_bound(self) -> float:
        """The lower bound after the last pass."""
        return self.lower_bounds[-1] if self.lower_bounds else -np.inf


def run_variational(
    problem: Problem,
    prior: ConjugatePrior,
    start: PosteriorFit,
    max_iter: int,
    tol: float,
    callback: Callable[[PosteriorFit], object],
) -> PosteriorFit:
    """Return the posterior after passes over the rows: each is an E-step and the posterior of its sums.

    Parameters
    ----------
    problem : Problem
        Without missing values or noise.
    prior : ConjugatePrior
    start : PosteriorFit
        If a run is continued, with its lower bounds.
    max_iter : int
    tol : float
        The run ends where the lower bound changes by less.
    callback : callable
        Called after each pass.
    """
    family, last, known = problem.family, start.lower_bound, PosteriorFit(start.posterior, start.start)
    for _ in range(max_iter):
        expected = known.posterior.expected
        batch_of_stats, likelihood = problem.e_step(expected[None])
        stats: SufficientStats = batch_of_stats[0]
        # Minus the sum of r log r: logits are linear in the statistics of a row.
        entropy = float(likelihood[0] - np.vdot(problem.natural(expected), stats.array))
        posterior = prior.posterior(family, stats)
        bound = posterior.lower_bound(family, entropy, problem.whitening.log_det)
        if not np.isfinite(bound):
            raise ValueError(
                "Fitting the mixture model failed because some components have ill-defined empirical "
                "covariance: increase reg_covar or covariance_prior, or ask for fewer components."
            )
        is_end = abs(bound - last) < tol
        status = FitStatus.CONVERGED if is_end else FitStatus.MAX_ITER
        last, known = bound, PosteriorFit(posterior, start.start, status, (*known.lower_bounds, bound))
        callback(known)
        if is_end:
            break
    return known
