"""Passes of EM over the rows: the objective, plain EM, and a run with a limited number of passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apolar._core.arrays import Array
from apolar.em.lbfgs import LBFGSHistory
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.mixture.evidence import comparison_score, log_evidence
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.shrinkage import Shrinkage

# In short runs, a prior is adapted to every fifth of the mixtures.
ADAPTED_EVERY = 5

Callback = Callable[[Fit], bool]
"""Called after each pass with the best result so far; returns whether to stop."""


def evaluate_batch(
    data: Problem, parameters: WhitenedParameters, prior: Prior | None
) -> tuple[SufficientStats, Array, Array]:
    """Return sufficient statistics, objectives and log-likelihoods of a batch of mixtures, by one E-step."""
    stats, log_likelihood = data.e_step(parameters)
    return stats, log_likelihood + data.family.log_prior(parameters, prior), log_likelihood


def evidence_of(data: Problem, result: Fit, of_covariances: Array | None = None) -> float:
    """Return a lower bound on the log-evidence of a result of EM, in whitened coordinates.

    That of the covariances may be known from a prior that was adapted to the same statistics.
    """
    assert result.stats is not None
    likelihood = np.array([result.log_likelihood])
    batched = result.parameters[None], result.stats[None], likelihood
    return float(evidences(data, *batched, of_covariances)[0])


def evidences(
    data: Problem,
    parameters: WhitenedParameters,
    stats: SufficientStats,
    log_likelihood: Array,
    of_covariances: Array | None = None,
) -> Array:
    """Return the log-evidences of a batch of mixtures, from their E-step on the data."""
    n_rows = data.weight if data.whitening.has_noise_component else None
    return log_evidence(data.family, parameters, stats, log_likelihood, of_covariances, n_rows)


def comparison_scores(
    data: Problem,
    parameters: WhitenedParameters,
    stats: SufficientStats,
    log_likelihood: Array,
    prior: Prior | None,
) -> Array:
    """Return what a batch of mixtures is compared by under a prior, from their E-step on the data."""
    if prior is None or not prior.compares_by_evidence:
        return log_likelihood
    return comparison_score(evidences(data, parameters, stats, log_likelihood), log_likelihood)


def short_runs(
    data: Problem,
    parameters: WhitenedParameters,
    prior: Prior | None,
    n_steps: int,
    *,
    is_scored: bool = True,
) -> tuple[WhitenedParameters, Array]:
    """Return a batch of mixtures after some steps of EM, and their scores before the last step.

    Parameters
    ----------
    data : Problem
    parameters : WhitenedParameters
        A batch: with one leading axis.
    prior : Prior or None
    n_steps : int
    is_scored : bool, default=True
        Whether scores are needed; without them a prior that adapts costs less.

    Returns
    -------
    parameters : WhitenedParameters
    scores : ndarray, shape (n_mixtures,)
        Log-likelihoods, with evidence if the prior asks for it, of the mixtures before the last step, for
        which no further pass is needed; minus infinity in place of NaN or infinity.
    """
    scores = np.full(len(parameters.weights), -np.inf)
    adapted = prior
    for step in range(n_steps):
        stats, scores = data.e_step(parameters)
        if prior is not None and step % ADAPTED_EVERY == 0:
            adapted = prior.adapted_to(data.family, stats)
        if is_scored and step == n_steps - 1:
            scores = comparison_scores(data, parameters, stats, scores, prior)
        parameters = data.m_step(stats, adapted, parameters)
    return parameters, np.where(np.isfinite(scores), scores, -np.inf)


class EMRun:
    """One run of EM, which counts the passes and remembers the best mixture.

    Parameters
    ----------
    data : Problem
    start : Fit
    prior : Prior or None
    max_iter : int
        The most passes.
    callback : callable, optional
    """

    def __init__(
        self,
        data: Problem,
        start: Fit,
        prior: Prior | None,
        max_iter: int,
        callback: Callback | None = None,
    ) -> None:
        self.data, self.start, self.free_prior = data, start, prior
        # The prior of the run, once the first pass has shown what it is for these rows.
        self.prior: Prior | None = None
        # The statistics that the prior was last adapted to by evidence.
        self._adapted_to: SufficientStats | None = None
        self.max_iter, self.callback = max_iter, callback
        self.history: list[float] = []
        self.best: Fit | None = None
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
        stats, likelihood = self.data.e_step(parameters[None])
        family = self.data.family
        if self.best is None and self.free_prior is not None:
            # Where a run only starts, evidence would say that components are alike which are not yet apart.
            free, strength = self.free_prior, self.start.strength
            has_run = self.start.status is not FitStatus.NOT_RUN
            free = free if strength is None else free.of_strength(strength)
            self.prior = free.adapted_to(family, stats[0], by_evidence=has_run and strength is None)
        value = float((likelihood + family.log_prior(parameters[None], self.prior))[0])
        if self.best is None or value >= self.best.objective:
            self.history.append(value)
            self.best = self.start.updated(
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
        so_far = self.best.updated(n_iter=len(self.history), history=tuple(self.history))
        if self.callback is not None and self.callback(so_far):
            self.status, self.has_ended = FitStatus.STOPPED, True
            return None
        return stats[0], value

    def adapt_prior(self) -> bool:
        """Adapt the prior to the best mixture; return whether there is a prior that adapts.

        The objective changes by a constant and by its slope. The constant is added to the objectives of
        earlier passes, so that they are comparable with those of later ones, and still increase.
        """
        best = self.best
        if self.free_prior is None or best is None or best.stats is None:
            return False
        family = self.data.family
        adapted = self.free_prior.adapted_to(family, best.stats, by_evidence=True)
        if not isinstance(adapted, Shrinkage):
            return False
        self.prior, self._adapted_to = adapted, best.stats
        objective = best.log_likelihood + float(family.log_prior(best.parameters[None], adapted)[0])
        self.history = [value + objective - best.objective for value in self.history]
        self.best = best.updated(objective=objective)
        return True

    def go_back_to(self, best: Fit, prior: Prior | None) -> None:
        """Take back what the run has done since a result; its passes still count."""
        kept, n_more = self.history[: best.n_iter], len(self.history) - best.n_iter
        shift = best.objective - kept[-1]
        self.history = [value + shift for value in kept] + [best.objective] * n_more
        self.best, self.prior, self._adapted_to = best, prior, None

    def result(self) -> Fit:
        """Return the best mixture of the run."""
        if self.best is None:
            raise ValueError("max_iter must be at least 1.")
        evidence = None
        if self.free_prior is not None and self.free_prior.compares_by_evidence:
            known = None
            if isinstance(self.prior, Shrinkage) and self._adapted_to is self.best.stats:
                known = self.prior.evidence
            evidence = evidence_of(self.data, self.best, known)
        return self.best.updated(
            prior=self.prior,
            evidence=evidence,
            n_iter=len(self.history),
            history=tuple(self.history),
            status=self.status,
            curvature=self.curvature,
        )


def plain_em(
    data: Problem,
    start: Fit,
    prior: Prior | None,
    *,
    relative_tol: float,
    max_iter: int,
) -> Fit:
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
        parameters = data.m_step(evaluation[0], prior, parameters)
    return run.result()
