"""EM from a start to an optimum: plain steps, then quasi-Newton steps, each one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array
from apolar.em.coordinates import LocalCoordinates
from apolar.em.curvature import newton_step, rising_direction
from apolar.em.lbfgs import Evaluation, LBFGSHistory, line_search
from apolar.em.problem import Problem
from apolar.em.result import MIN_ROWS, Fit, FitStatus
from apolar.em.run import Callback, EMRun, evaluate_batch, evidence_of
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior

# The least number of plain steps before accelerated ones: far from an optimum plain EM is the better of the
# two. Plain steps continue while each gains less than this fraction of the step before.
FIRST_STEPS = 3
FAST_RATIO = 0.1
# A gain that is smaller, relative to the objective, is within rounding errors.
ROUNDING = 1e-14
# Successive accelerated steps that must gain less than the tolerance before the run can end.
QUIET_STEPS = 2
# Pairs in the L-BFGS history from which on its estimate of the remaining gain is trusted.
TRUSTED_PAIRS = 4
# The local coordinates are re-centred when the logarithm of a weight or a deviation has changed by more than
# this; no single step changes one by more.
MAX_LOG_CHANGE = 1.0
# The most saddles that a run leaves, and the least gain of leaving one.
MAX_SADDLES = 10
SADDLE_RISE = 1e-6
# The most times that the prior is adapted to the end of a run, and the tolerance of the run before the first.
MAX_ADAPTATIONS = 12
ROUGH_TOLERANCE = 0.5
# Lengths that are tried along a rising direction, and along a Newton step.
SADDLE_LENGTHS = (0.05, -0.05, 0.25, -0.25, 1.0, -1.0)
NEWTON_LENGTHS = (1.0, 0.3, 0.1)


def converge(
    data: Problem,
    start: Fit,
    prior: Prior | None,
    *,
    tol: float,
    max_iter: int,
    callback: Callback | None = None,
    checked_on: Problem | None = None,
) -> Fit:
    """Run EM from a start to an optimum.

    A few plain steps are followed by L-BFGS in coordinates in which EM is steepest ascent. As in EM, an
    iteration is usually one pass over the rows, and the objective never falls. The run ends when two
    successive steps gain less than `tol`, and the quadratic model, g^t H g / 2 with H the approximate inverse
    Hessian, predicts that less than `tol` remains to be gained: it does not end on a plateau, where steps of
    EM are small although much remains.

    Parameters
    ----------
    data : Problem
    start : Fit
        If it has a `curvature`, from a run that ended nearby, there are no plain steps. If it continues a
        run, one pass that gains less than `tol` over its `earlier` objective is enough to end.
    prior : Prior or None
    tol : float
        The log-likelihood, of all rows together, that may remain to be gained.
    max_iter : int
        The most passes over the rows. With 0 the result is the start, evaluated by one pass.
    callback : callable, optional
    checked_on : Problem, optional
        The rows, or a sample of them, on which the end is checked to be a maximum. Near a saddle steps are as
        small as near an optimum, and starts such as k-means are often close to one. The run leaves saddles.

    Returns
    -------
    result : Fit
        The start, with the parameters at the end of the run and how it ended.
    """
    run = EMRun(data, start, prior, max(max_iter, 1), callback)
    if max_iter == 0:
        run.evaluate(start.parameters)
        return run.result()
    # A prior that is still to be adapted to the end of the run need not be converged under.
    adapts = prior is not None and prior.shrinks(data.family, start.parameters.n_components)
    is_fresh = start.status is FitStatus.NOT_RUN and start.strength is None
    first_tol = max(tol, ROUGH_TOLERANCE) if adapts and is_fresh else tol
    if start.curvature is None or max_iter < FIRST_STEPS:
        _plain_steps(run, start, first_tol)
    else:
        _accelerated(run, start.parameters, first_tol, start.curvature.copy())
    _adapt_prior(run, tol, is_rough=first_tol > tol)
    if checked_on is not None:
        _leave_saddles(run, checked_on, tol)
    result = run.result()
    return _after_last_m_step(data, result, run.prior) if result.status is FitStatus.MAX_ITER else result


def _adapt_prior(run: EMRun, tol: float, *, is_rough: bool) -> None:
    """Continue a run while, under the prior that its end suggests, more than `tol` remains to be gained.

    A run that has converged only roughly is continued in any case.
    """
    for i in range(MAX_ADAPTATIONS):
        before, prior = run.best, run.prior
        if run.has_ended or not run.adapt_prior():
            return
        best = run.best
        assert before is not None
        assert best is not None
        assert best.stats is not None
        coordinates = run.data.coordinates(best.parameters)
        gradient = coordinates.gradient(coordinates.origin, best.parameters, best.stats, run.prior)
        curvature = LBFGSHistory() if run.curvature is None else run.curvature.copy()
        if 0.5 * float(gradient @ curvature.direction(gradient)) < tol and (i > 0 or not is_rough):
            return
        run.status = FitStatus.MAX_ITER
        parameters = run.data.m_step(best.stats, run.prior, best.parameters)
        if run.curvature is None:
            # Plain steps were fast.
            _plain_steps(run, Fit(parameters, run.start.start), tol)
        else:
            _accelerated(run, parameters, tol, curvature)
        if _has_emptied(run.best, before):
            # The evidence of fewer components is higher, but these were asked for.
            run.go_back_to(before, prior)
            if i == 0 and is_rough:
                run.status = FitStatus.MAX_ITER
                _accelerated(run, before.parameters, tol)
            else:
                run.status = FitStatus.CONVERGED
            return


def _has_emptied(result: Fit | None, before: Fit) -> bool:
    """Return whether a component has become almost empty that was not so before."""
    assert result is not None
    assert result.stats is not None
    assert before.stats is not None
    return bool(result.stats.counts.min() < MIN_ROWS <= before.stats.counts.min())


def _after_last_m_step(data: Problem, result: Fit, prior: Prior | None) -> Fit:
    """Return the result after one more M-step, if that is better.

    The sufficient statistics of the last pass are at hand, and one further pass evaluates the step.
    """
    assert result.stats is not None
    parameters = data.m_step(result.stats, prior, result.parameters)
    stats, objective, likelihood = evaluate_batch(data, parameters[None], prior)
    if not objective[0] >= result.objective:
        return result
    after = replace(
        result,
        parameters=parameters,
        objective=float(objective[0]),
        log_likelihood=float(likelihood[0]),
        stats=stats[0],
    )
    return after if after.evidence is None else replace(after, evidence=evidence_of(data, after))


def _plain_steps(run: EMRun, start: Fit, tol: float) -> None:
    """Run plain EM, to convergence if it is fast, and else L-BFGS from where it becomes slow."""
    parameters = start.parameters
    before, gain, n_steps = start.earlier, np.inf, 0
    while (evaluation := run.evaluate(parameters)) is not None:
        stats, value = evaluation
        parameters = run.data.m_step(stats, run.prior, parameters)
        new_gain = value - before
        # A gain within rounding errors counts as zero.
        is_zero = abs(new_gain) <= ROUNDING * abs(value)
        ratio = 0.0 if is_zero else new_gain / max(gain, 1e-300)
        gain, before, n_steps = 0.0 if is_zero else new_gain, value, n_steps + 1
        if start.earlier > -np.inf and n_steps == 1 and gain < tol:
            run.status = FitStatus.CONVERGED
            return
        if n_steps < FIRST_STEPS:
            continue
        # The sum of all further gains, if they form a geometric series. If they decrease slowly or increase,
        # it is not a good estimate.
        remaining = gain * ratio / (1 - ratio) if 0 <= ratio < 1 else np.inf
        is_near = ratio < 0.5 and gain < tol and remaining < tol
        if is_zero or is_near:
            run.status = FitStatus.CONVERGED
            return
        if not 0 <= ratio < FAST_RATIO:
            _accelerated(run, parameters, tol)
            return


@dataclass(frozen=True, eq=False)
class _Ray:
    """The objective along a direction: each evaluation is one pass."""

    run: EMRun
    coordinates: LocalCoordinates
    point: Array
    direction: Array

    def __call__(self, length: float) -> Evaluation | None:
        """Return value, slope and gradient at a step length; None if the run has ended."""
        moved = self.point + length * self.direction
        parameters = self.coordinates.retract(moved)
        if not parameters.is_finite:
            return -np.inf, 0.0, np.zeros_like(moved)
        evaluation = self.run.evaluate(parameters)
        if evaluation is None:
            return None
        stats, value = evaluation
        gradient = self.coordinates.gradient(moved, parameters, stats, self.run.prior)
        return value, float(gradient @ self.direction), gradient


def _accelerated(
    run: EMRun, parameters: WhitenedParameters, tol: float, curvature: LBFGSHistory | None = None
) -> None:
    """Run L-BFGS from a mixture to an optimum."""
    coordinates = run.data.coordinates(parameters)
    curvature = LBFGSHistory() if curvature is None else curvature
    run.curvature = curvature
    point = coordinates.origin
    evaluation = run.evaluate(parameters)
    if evaluation is None:
        return
    stats, value = evaluation
    gradient = coordinates.gradient(point, parameters, stats, run.prior)
    n_quiet = 0
    while True:
        direction = curvature.direction(gradient)
        slope = float(gradient @ direction)
        # The gain that the quadratic model predicts, which is trusted after enough steps.
        remaining = 0.5 * slope
        is_trusted = len(curvature.pairs) >= TRUSTED_PAIRS or remaining < 1e-6 * tol
        # Differences within rounding errors would lead a line search astray.
        is_zero = remaining <= ROUNDING * abs(value)
        if is_zero or (remaining < tol and is_trusted and n_quiet >= QUIET_STEPS):
            run.status = FitStatus.CONVERGED
            return
        first = min(1.0, MAX_LOG_CHANGE / max(coordinates.log_change(direction), 1e-300))
        step = line_search(_Ray(run, coordinates, point, direction), value, slope, first)
        if run.has_ended:
            return
        if step is None:
            if not curvature.pairs:
                # No gain even along the gradient: differences are within rounding errors.
                run.status = FitStatus.CONVERGED
                return
            run.curvature = curvature = LBFGSHistory()
            continue
        length, new_value, new_gradient = step
        curvature.update(length * direction, gradient - new_gradient)
        point = point + length * direction
        n_quiet = n_quiet + 1 if new_value - value < tol else 0
        value, gradient = new_value, new_gradient
        if coordinates.log_change(point) > MAX_LOG_CHANGE and run.best is not None:
            assert run.best.stats is not None
            parameters = coordinates.retract(point)
            coordinates, curvature = run.data.coordinates(parameters), LBFGSHistory()
            run.curvature = curvature
            point = coordinates.origin
            gradient = coordinates.gradient(point, parameters, run.best.stats, run.prior)


# --- whether the end is a maximum -----------------------------------------------------------


def _leave_saddles(run: EMRun, sample: Problem, tol: float) -> None:
    """Continue a run while its end is a saddle, or while Newton's method predicts a gain above `tol`."""
    for _ in range(MAX_SADDLES):
        if run.has_ended:
            return
        better = _beyond_saddle(run, sample)
        if better is None and not run.has_ended:
            better = _after_newton_step(run, sample, tol)
        if better is None or run.has_ended:
            return
        run.status = FitStatus.MAX_ITER
        _accelerated(run, better, tol)


def _beyond_saddle(run: EMRun, sample: Problem) -> WhitenedParameters | None:
    """Return a better mixture along a rising direction if the best mixture is a saddle, or None."""
    assert run.best is not None
    coordinates = sample.coordinates(run.best.parameters)
    gradient_at = _gradient_of(coordinates, sample, run.prior)
    origin = coordinates.origin
    rising = rising_direction(gradient_at, origin, gradient_at(origin), coordinates.null_direction)
    if rising is None:
        return None
    better, direction = None, rising[1] / max(coordinates.step_size(rising[1]), 1e-300)
    for length in SADDLE_LENGTHS:
        parameters = coordinates.retract(length * direction)
        before = run.best.objective
        evaluation = run.evaluate(parameters)
        if evaluation is None:
            return None
        if evaluation[1] > before + SADDLE_RISE:
            better = parameters
    return better


def _after_newton_step(run: EMRun, sample: Problem, tol: float) -> WhitenedParameters | None:
    """Return a better mixture along a Newton step if that is predicted to gain more than `tol`, or None."""
    assert run.best is not None
    best, best_stats, prior = run.best, run.best.stats, run.prior
    assert best_stats is not None
    coordinates = sample.coordinates(best.parameters)
    gradient_at = _gradient_of(coordinates, sample, prior)
    gradient = gradient_at(coordinates.origin)
    null_direction = coordinates.null_direction
    if sample is not run.data:
        # The curvature is that of the sample, and the gradient that of all rows. Both are relative to the
        # complete information, so that they can be combined.
        on_all_rows = run.data.coordinates(best.parameters)
        target = on_all_rows.gradient(on_all_rows.origin, best.parameters, best_stats, prior)
        shift = gradient - target
        model = newton_step(
            lambda point: gradient_at(point) - shift, coordinates.origin, target, null_direction
        )
    else:
        on_all_rows = coordinates
        model = newton_step(gradient_at, coordinates.origin, gradient, null_direction)
    if model is None or not model[0] > tol:
        return None
    step = model[1] * min(1.0, MAX_LOG_CHANGE / max(coordinates.step_size(model[1]), 1e-300))
    for length in NEWTON_LENGTHS:
        parameters = on_all_rows.retract(length * step)
        before = best.objective
        evaluation = run.evaluate(parameters)
        if evaluation is None:
            return None
        if evaluation[1] > before + 0.1 * tol:
            return parameters
    return None


def _gradient_of(
    coordinates: LocalCoordinates, sample: Problem, prior: Prior | None
) -> Callable[[Array], Array]:
    """Return the gradient of the objective on a sample, as a function of the tangent vector."""

    def gradient_at(point: Array) -> Array:
        moved = coordinates.retract(point)
        stats, _ = sample.e_step(moved[None])
        return coordinates.gradient(point, moved, stats[0], prior)

    return gradient_at
