"""Passes of EM over the rows: the objective, plain EM, and a run with a limited number of passes."""

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
"""Called after each pass with the best result so far; returns whether to stop."""


def evaluate_batch(
    data: WhitenedData, parameters: WhitenedParameters, prior: Prior | None
) -> tuple[SufficientStats, Array, Array]:
    """Return sufficient statistics, objectives and log-likelihoods of a batch of mixtures, by one E-step."""
    stats, log_likelihood = data.e_step(parameters)
    return stats, log_likelihood + data.family.log_prior(parameters, prior), log_likelihood


def short_runs(
    data: WhitenedData, parameters: WhitenedParameters, prior: Prior | None, n_steps: int
) -> tuple[WhitenedParameters, Array]:
    """Return a batch of mixtures after some steps of EM, and their log-likelihoods before the last step.

    Parameters
    ----------
    data : WhitenedData
    parameters : WhitenedParameters
        A batch: with one leading axis.
    prior : Prior or None
    n_steps : int

    Returns
    -------
    parameters : WhitenedParameters
    log_likelihood : ndarray, shape (n_mixtures,)
        Of the mixtures before the last step, for which no further pass is needed; minus infinity in place of
        NaN or infinity.
    """
    log_likelihood = np.full(len(parameters.weights), -np.inf)
    for _ in range(n_steps):
        stats, log_likelihood = data.e_step(parameters)
        parameters = data.family.m_step(stats, prior)
    return parameters, np.where(np.isfinite(log_likelihood), log_likelihood, -np.inf)


class EMRun:
    """One run of EM, which counts the passes and remembers the best mixture.

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

        A run ends after `max_iter` passes, or when the callback asks to stop.
        """
        if len(self.history) >= self.max_iter:
            self.has_ended = True
            return None
        stats, objective, likelihood = evaluate_batch(self.data, parameters[None], self.prior)
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
    """Run EM as mclust does: until the relative change of the log-likelihood is at most `relative_tol`.

    Each iteration is an M-step and an E-step: the objective of iteration i is that after i M-steps, the first
    of which made the start.
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
