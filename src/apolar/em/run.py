"""Passes of EM over the rows: the objective, plain steps, and a run that counts its passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.em.lbfgs import LBFGSHistory
from apolar.em.result import FitResult, FitStatus
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats

Callback = Callable[[FitResult], bool]
"""Called after each pass with the best so far; true to stop."""


def evaluated(
    data: WhitenedData, parameters: WhitenedParameters, prior: Prior | None
) -> tuple[SufficientStats, Array, Array]:
    """Return sufficient statistics, objectives and log-likelihoods of a batch of mixtures: one E-step."""
    stats, log_likelihood = data.e_step(parameters)
    return stats, log_likelihood + data.family.log_prior(parameters, prior), log_likelihood


def short_runs(
    data: WhitenedData, parameters: WhitenedParameters, prior: Prior | None, n_steps: int
) -> tuple[WhitenedParameters, Array]:
    """Return a batch of mixtures after some steps of EM, and log-likelihoods one step before the last.

    Parameters
    ----------
    data : WhitenedData
    parameters : WhitenedParameters
        With one leading axis.
    prior : Prior or None
    n_steps : int

    Returns
    -------
    parameters : WhitenedParameters
    log_likelihood : ndarray, shape (n_mixtures,)
        Of the mixtures that the last step started from; minus infinity where it is NaN or infinite.
    """
    log_likelihood = np.full(len(parameters.weights), -np.inf)
    for _ in range(n_steps):
        stats, log_likelihood = data.e_step(parameters)
        parameters = data.family.m_step(stats, prior)
    return parameters, np.where(np.isfinite(log_likelihood), log_likelihood, -np.inf)


class EMRun:
    """One run of EM: counts the passes and keeps the best mixture.

    Parameters
    ----------
    data : WhitenedData
    start : FitResult
    prior : Prior or None
    max_iter : int
        The most passes.
    callback : callable, optional
    """

    def __init__(
        self,
        data: WhitenedData,
        start: FitResult,
        prior: Prior | None,
        max_iter: int,
        callback: Callback | None = None,
    ) -> None:
        self.data, self.start, self.prior = data, start, prior
        self.max_iter, self.callback = max_iter, callback
        self.history: list[float] = []
        self.best: FitResult | None = None
        self.curvature: LBFGSHistory | None = None
        self.status = FitStatus.MAX_ITER
        self.has_ended = False

    def evaluate(self, parameters: WhitenedParameters) -> tuple[SufficientStats, float] | None:
        """Return sufficient statistics and objective of one mixture, by one pass; None if the run has ended.

        It has when all passes are spent, or the callback asks to stop.
        """
        if len(self.history) >= self.max_iter:
            self.has_ended = True
            return None
        stats, objective, likelihood = evaluated(self.data, parameters[None], self.prior)
        value = float(objective[0])
        if self.best is None or value >= self.best.objective:
            self.history.append(value)
            self.best = replace(
                self.start,
                parameters=parameters,
                status=FitStatus.MAX_ITER,
                objective=value,
                log_likelihood=float(likelihood[0]),
                stats=stats[0],
                n_iter=len(self.history),
                curvature=self.curvature,
            )
        else:
            self.history.append(self.best.objective)
        if self.callback is not None and self.callback(self.best):
            self.status, self.has_ended = FitStatus.STOPPED, True
            return None
        return stats[0], value

    def result(self) -> FitResult:
        """Return the best mixture of the run."""
        if self.best is None:
            raise ValueError("max_iter must be at least 1.")
        return replace(
            self.best,
            n_iter=len(self.history),
            history=tuple(self.history),
            status=self.status,
            curvature=self.curvature,
        )


def plain_em(
    data: WhitenedData,
    start: FitResult,
    prior: Prior | None,
    *,
    relative_tol: float,
    max_iter: int,
) -> FitResult:
    """Run EM as mclust does: until the log-likelihood changes by `relative_tol` of itself.

    Each iteration is an M-step and an E-step; the objective of iteration i is after i M-steps. The start
    is the result of a first M-step.
    """
    run = EMRun(data, start, prior, max_iter)
    offset = data.whitening.log_det * data.weight
    parameters, before = start.parameters, np.inf
    while (evaluation := run.evaluate(parameters)) is not None:
        assert run.best is not None
        likelihood = run.best.log_likelihood + offset
        if abs(before - likelihood) <= relative_tol * (1 + abs(likelihood)):
            run.status = FitStatus.CONVERGED
            break
        before = likelihood
        parameters = data.family.m_step(evaluation[0], prior)
    return run.result()
