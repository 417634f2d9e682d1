"""EM to an optimum: plain steps, then quasi-Newton steps, each one pass over the rows, and off saddles."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.em.coordinates import LocalCoordinates
from apolar.em.left_out import best_strengths
from apolar.em.problem import Problem
from apolar.em.quadratic_models import (
    Evaluation,
    LBFGSHistory,
    line_search,
    principal_curvatures,
)
from apolar.em.result import Fit, FitStatus
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import AdaptivePrior, Prior, Shrinkage, Strengths

__all__ = ["Callback", "EMRun", "climb"]

Callback = Callable[[Fit], bool]
"""Called after each pass with the best result so far; returns whether to stop."""


class EMRun:
    """One run of EM, which counts the passes and remembers the best mixture.

    Parameters
    ----------
    problem : Problem
    start : Fit
    prior : Prior or None
    max_iter : int
        The most passes; at least one is taken.
    callback : callable, optional
    compared_on : Problem, optional
        The rows, or a sample of them, that are left out to choose the strengths of the prior.
    """

    def __init__(
        self,
        problem: Problem,
        start: Fit,
        prior: Prior | None,
        max_iter: int,
        callback: Callback | None = None,
        compared_on: Problem | None = None,
    ) -> None:
        self.compared_on = (problem if compared_on is None else compared_on).compared
        self.problem, self.free_prior = problem, prior
        # The prior of the run, once the first pass has shown what it is for these rows.
        self.prior: Prior | None = None
        # The likelihood of rows left out, at the best mixture under the prior of the run, if it is known.
        self.left_out = -np.inf
        self.max_iter, self.callback = max_iter, callback
        self.history: list[float] = []
        self.start = self.best = start.updated(parameters=problem.family.with_dof(start.parameters))
        self.status = FitStatus.MAX_ITER
        self.has_ended = False

    def evaluate(self, parameters: WhitenedParameters) -> tuple[SufficientStats, float] | None:
        """Return sufficient statistics and objective of one mixture, by one pass; None if the run has ended.

        A run ends after `max_iter` passes, or when the callback asks to stop.
        """
        is_first = not self.history
        if len(self.history) >= max(self.max_iter, 1):
            self.has_ended = True
            return None
        stats, likelihood = self.problem.e_step(parameters[None])
        family = self.problem.family
        if is_first and self.free_prior is not None:
            self.prior = self.free_prior.of_strengths(self.start.strengths).adapted_to(family, stats[0])
        value = float((likelihood + family.log_prior(parameters[None], self.prior))[0])
        if is_first or value >= self.best.objective:
            self.history.append(value)
            self.best = self.start.updated(
                parameters=parameters,
                status=FitStatus.MAX_ITER,
                objective=value,
                log_likelihood=float(likelihood[0]),
                stats=stats[0],
                n_iter=len(self.history),
            )
        else:
            self.history.append(self.best.objective)
        so_far = self.best.updated(n_iter=len(self.history), history=tuple(self.history))
        if self.callback is not None and self.callback(so_far):
            self.status, self.has_ended = FitStatus.STOPPED, True
            return None
        return stats[0], value

    @property
    def strengths(self) -> Strengths | None:
        """The strengths of the prior; None if it has none."""
        return self.prior.strengths if isinstance(self.prior, Shrinkage) else None

    def adapt_prior(self) -> bool:
        """Adapt the prior to the best mixture; return whether there is a prior that adapts.

        The objective changes by a constant and by its slope. The constant is added to the objectives of
        earlier passes, so that they are comparable with those of later ones, and still increase.
        """
        best, family, strengths = self.best, self.problem.family, self.strengths
        if not isinstance(self.free_prior, AdaptivePrior) or best.stats is None or strengths is None:
            return False
        if self.free_prior.strengths is None and not self.start.keeps_strengths:
            known = best.stats, self.free_prior, strengths, best.parameters
            sums = self.problem.weight, best.log_likelihood
            # Those of the start, or of the adaptation before, are near.
            is_near = self.start.strengths is not None or self.left_out > -np.inf
            strengths, self.left_out = best_strengths(self.compared_on.few, *known, *sums, is_near=is_near)
        self.prior = self.free_prior.of_strengths(strengths).adapted_to(family, best.stats)
        objective = best.log_likelihood + float(family.log_prior(best.parameters[None], self.prior)[0])
        self.history = [value + objective - best.objective for value in self.history]
        self.best = best.updated(objective=objective)
        return True

    def go_back_to(self, best: Fit, prior: Prior | None) -> None:
        """Take back what the run has done since a result; its passes still count."""
        kept, n_more = self.history[: best.n_iter], len(self.history) - best.n_iter
        shift = best.objective - kept[-1]
        self.history = [value + shift for value in kept] + [best.objective] * n_more
        self.best, self.prior = best, prior

    def take_last_m_step(self) -> None:
        """Take one more M-step, if that is better.

        The sufficient statistics of the last pass are at hand, and one further pass evaluates the step.
        """
        best, problem = self.best, self.problem
        assert best.stats is not None
        parameters = problem.m_step(best.stats, self.prior, best.parameters)[None]
        if not parameters.is_finite:
            return
        stats, likelihood = problem.e_step(parameters)
        objective = float((likelihood + problem.family.log_prior(parameters, self.prior))[0])
        if objective >= best.objective:
            self.best = best.updated(
                parameters=parameters[0],
                objective=objective,
                log_likelihood=float(likelihood[0]),
                stats=stats[0],
            )

    def result(self) -> Fit:
        """Return the best mixture of the run."""
        return self.best.updated(
            prior=self.prior,
            strengths=self.strengths,
            left_out=None,
            elliptical=None,
            optimism=0.0,
            n_iter=len(self.history),
            history=tuple(self.history),
            status=self.status,
        )


def climb(run: EMRun, tol: float, checked_on: Problem | None) -> Fit:
    """Run EM from its start to an optimum.

    A few plain steps are followed by L-BFGS in coordinates in which EM is steepest ascent. As in EM, an
    iteration is usually one pass over the rows, and the objective never falls. The run ends when two
    successive steps gain less than `tol`, and the quadratic model, g^t H g / 2 with H the approximate inverse
    Hessian, predicts that less than `tol` remains to be gained: it does not end on a plateau, where steps of
    EM are small although much remains.

    Parameters
    ----------
    run : EMRun
        If it may take no pass at all, the result is the start, evaluated by one pass.
    tol : float
    checked_on : Problem or None
        The rows, or a sample of them, on which the end is checked to be a maximum.

    A run that tells its passes ends with the best mixture so far if it is interrupted from the keyboard.

    Returns
    -------
    fit : Fit
    """
    start = run.start
    # A prior that is still to be adapted to the end of the run need not be converged under.
    prior, n_components = run.free_prior, start.parameters.n_components
    adapts = prior is not None and prior.shrinks(run.problem.family, n_components, run.problem.n_features)
    is_fresh = start.status is FitStatus.NOT_RUN
    is_rough = adapts and is_fresh and start.strengths is None and tol < SETTINGS.rough_tolerance
    first_tol = SETTINGS.rough_tolerance if is_rough else tol
    # A run that continues another one is near the optimum.
    n_first = SETTINGS.first_steps if is_fresh else 1
    try:
        if run.max_iter == 0:
            run.evaluate(start.parameters)
            return run.result()
        curvature = _plain_steps(run, start.parameters, first_tol, n_first, start.earlier)
        _adapt_prior(run, tol, curvature, is_rough=is_rough)
        # Where a component has collapsed, there is no maximum to be checked.
        if checked_on is not None and not run.problem.family.is_collapsed(run.best.parameters.covariances):
            _leave_saddles(run, checked_on, tol)
        if run.status is FitStatus.MAX_ITER:
            run.take_last_m_step()
    except KeyboardInterrupt:
        if run.callback is None or run.best.stats is None:
            raise
        run.status, run.has_ended = FitStatus.INTERRUPTED, True
    return run.result()


def _adapt_prior(run: EMRun, tol: float, curvature: LBFGSHistory | None, *, is_rough: bool) -> None:
    """Continue a run while, under the prior that its end suggests, more than `tol` remains to be gained.

    A run that has converged only roughly is continued in any case. Without a `curvature`, plain steps were
    fast.
    """
    highest, kept = -np.inf, (run.best, run.prior)
    for i in range(SETTINGS.max_adaptations):
        before = run.best, run.prior
        if run.has_ended or not run.adapt_prior():
            return
        if run.left_out < highest - tol:
            # Under the last strengths EM went where rows left out are less likely.
            run.go_back_to(*kept)
            run.status = FitStatus.CONVERGED
            return
        highest, kept = run.left_out, before
        best = run.best
        assert best.stats is not None
        coordinates = run.problem.coordinates(best.parameters)
        gradient = coordinates.gradient(coordinates.origin, best.parameters, best.stats, run.prior)
        step = gradient if curvature is None else curvature.direction(gradient)
        if 0.5 * float(gradient @ step) < tol and (i > 0 or not is_rough):
            return
        run.status = FitStatus.MAX_ITER
        parameters = run.problem.m_step(best.stats, run.prior, best.parameters)
        if curvature is None:
            curvature = _plain_steps(run, parameters, tol)
        else:
            curvature = _accelerate(run, parameters, tol, curvature)


def _plain_steps(
    run: EMRun,
    parameters: WhitenedParameters,
    tol: float,
    n_first: int = SETTINGS.first_steps,
    earlier: float = -np.inf,
) -> LBFGSHistory | None:
    """Run plain EM, to convergence if it is fast, and else L-BFGS from where it becomes slow.

    At least `n_first` steps are taken, but one step is enough that gains less than `tol` over an earlier
    objective, if there is one.
    """
    before, gain, n_steps = earlier, np.inf, 0
    while (evaluation := run.evaluate(parameters)) is not None:
        stats, value = evaluation
        parameters = run.problem.m_step(stats, run.prior, parameters)
        if not parameters.is_finite:
            # The rows are too large for arithmetic: the best mixture so far is the end.
            run.has_ended = True
            return None
        new_gain = value - before
        # A gain within rounding errors counts as zero.
        is_zero = abs(new_gain) <= SETTINGS.gain_rounding * abs(value)
        ratio = 0.0 if is_zero else new_gain / max(gain, 1e-300)
        gain, before, n_steps = 0.0 if is_zero else new_gain, value, n_steps + 1
        if earlier > -np.inf and n_steps == 1 and gain < tol:
            run.status = FitStatus.CONVERGED
            return None
        if n_steps < n_first:
            continue
        # The sum of all further gains, if they form a geometric series. If they decrease slowly or increase,
        # it is not a good estimate.
        remaining = gain * ratio / (1 - ratio) if 0 <= ratio < 1 else np.inf
        is_near = ratio < 0.5 and gain < tol and remaining < tol
        if is_zero or is_near:
            run.status = FitStatus.CONVERGED
            return None
        if not 0 <= ratio < SETTINGS.fast_ratio:
            return _accelerate(run, parameters, tol)
    return None


def _evaluate_along(
    run: EMRun, coordinates: LocalCoordinates, point: Array, direction: Array, length: float
) -> Evaluation | None:
    """Return value, slope and gradient at a step length along a direction; None if the run has ended."""
    moved = point + length * direction
    parameters = coordinates.retract(moved)
    if not parameters.is_finite:
        return -np.inf, 0.0, np.zeros_like(moved)
    evaluation = run.evaluate(parameters)
    if evaluation is None:
        return None
    stats, value = evaluation
    gradient = coordinates.gradient(moved, parameters, stats, run.prior)
    return value, float(gradient @ direction), gradient


def _accelerate(
    run: EMRun, parameters: WhitenedParameters, tol: float, curvature: LBFGSHistory | None = None
) -> LBFGSHistory:
    """Run L-BFGS from a mixture to an optimum, and return the curvature there."""
    coordinates = run.problem.coordinates(parameters)
    curvature = LBFGSHistory() if curvature is None else curvature
    point = coordinates.origin
    evaluation = run.evaluate(parameters)
    if evaluation is None:
        return curvature
    stats, value = evaluation
    gradient = coordinates.gradient(point, parameters, stats, run.prior)
    n_quiet = 0
    while True:
        direction = curvature.direction(gradient)
        slope = float(gradient @ direction)
        # The gain that the quadratic model predicts, which is trusted after enough steps.
        remaining = 0.5 * slope
        is_trusted = len(curvature.pairs) >= SETTINGS.trusted_pairs or remaining < 1e-6 * tol
        # Differences within rounding errors would lead a line search astray.
        is_zero = remaining <= SETTINGS.gain_rounding * abs(value)
        if is_zero or (remaining < tol and is_trusted and n_quiet >= SETTINGS.quiet_steps):
            run.status = FitStatus.CONVERGED
            return curvature
        first = min(1.0, SETTINGS.max_log_change / max(coordinates.log_change(direction), 1e-300))
        step = line_search(
            functools.partial(_evaluate_along, run, coordinates, point, direction), value, slope, first
        )
        if run.has_ended:
            return curvature
        if step is None:
            if not curvature.pairs:
                # No gain even along the gradient: differences are within rounding errors.
                run.status = FitStatus.CONVERGED
                return curvature
            curvature = LBFGSHistory()
            continue
        length, new_value, new_gradient = step
        curvature.update(length * direction, gradient - new_gradient)
        point = point + length * direction
        n_quiet = n_quiet + 1 if new_value - value < tol else 0
        value, gradient = new_value, new_gradient
        if coordinates.log_change(point) > SETTINGS.max_log_change:
            assert run.best.stats is not None
            parameters = coordinates.retract(point)
            coordinates, curvature = run.problem.coordinates(parameters), LBFGSHistory()
            point = coordinates.origin
            gradient = coordinates.gradient(point, parameters, run.best.stats, run.prior)


# --- whether the end is a maximum -----------------------------------------------------------


def _leave_saddles(run: EMRun, sample: Problem, tol: float) -> None:
    """Continue a run while its end is a saddle, or while Newton's method predicts a gain above `tol`."""
    for _ in range(SETTINGS.max_saddles):
        better = None if run.has_ended else _beyond(run, sample, tol)
        if better is None or run.has_ended:
            return
        run.status = FitStatus.MAX_ITER
        _accelerate(run, better, tol)


def _beyond(run: EMRun, sample: Problem, tol: float) -> WhitenedParameters | None:
    """Return a better mixture than the best, along a rising direction or a Newton step, or None."""
    best, prior = run.best, run.prior
    assert best.stats is not None
    on_sample, on_all_rows = (each.coordinates(best.parameters) for each in (sample, run.problem))
    origin = on_sample.origin

    def gradient_at(point: Array) -> Array:
        moved = on_sample.retract(point)
        stats, _ = sample.e_step(moved[None])
        return on_sample.gradient(point, moved, stats[0], prior)

    curvatures, directions = principal_curvatures(gradient_at, gradient_at(origin), on_sample.null_direction)
    if not len(curvatures):
        return None
    if curvatures[-1] > SETTINGS.min_rising:
        step = directions[-1] / max(on_sample.step_size(directions[-1]), 1e-300)
        return _best_along(run, on_sample, step, SETTINGS.saddle_lengths, SETTINGS.saddle_rise)
    # The curvature is that of the sample, and the gradient that of all rows. Both are relative to the
    # complete information, so that they can be combined. Flat directions, in which the gradient is small but
    # the maximum far away, may be missed by the history of a quasi-Newton method.
    slopes = directions @ on_all_rows.gradient(origin, best.parameters, best.stats, prior)
    if not (curvatures[-1] < 0 and 0.5 * float((slopes**2 / -curvatures).sum()) > tol):
        return None
    step = (slopes / -curvatures) @ directions
    step = step * min(1.0, SETTINGS.max_log_change / max(on_sample.step_size(step), 1e-300))
    return _best_along(run, on_all_rows, step, SETTINGS.newton_lengths, 0.1 * tol)


def _best_along(
    run: EMRun, coordinates: LocalCoordinates, step: Array, lengths: tuple[float, ...], least: float
) -> WhitenedParameters | None:
    """Return the best mixture along a step, if it gains at least so much; else None."""
    better = None
    for length in lengths:
        parameters = coordinates.retract(length * step)
        before = run.best.objective
        evaluation = run.evaluate(parameters)
        if evaluation is None:
            return None
        if evaluation[1] > before + least:
            better = parameters
    return better
