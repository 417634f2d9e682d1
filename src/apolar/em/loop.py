"""EM from a start to the optimum: plain steps, then quasi-Newton steps, each one pass over the rows."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array
from apolar.em.coordinates import LocalCoordinates, coordinate_order
from apolar.em.curvature import newton_step, rising_direction
from apolar.em.lbfgs import LBFGSHistory, line_search
from apolar.em.whitened import WhitenedData
from apolar.em.whitening import Whitening
from apolar.mixture.families import Family
from apolar.mixture.order import canonical_order
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats

# Steps of plain EM before the accelerated ones: far from an optimum, EM is the better of the two, and it
# goes on while each step gains less than this much of the one before.
FIRST_STEPS = 3
FAST = 0.1
# Accelerated steps in a row that must promise and bring less than the tolerance.
QUIET_STEPS = 2
# Steps from which the memory must have learnt before its estimate is believed.
LEARNT = 4
# The coordinates are made anew when the logarithm of a weight or a deviation has changed by this much; no
# step changes one by more.
FAR = 1.0
# Saddles that a run leaves before it gives up, and what leaving one must bring.
MOST_SADDLES = 10
SADDLE_RISE = 1e-6


class FitStatus(enum.Enum):
    """How EM ended; the text says what to do."""

    CONVERGED = "EM reached an optimum: less than the tolerance is left to gain."
    MAX_ITER = (
        "Best performing initialization did not converge. Try different init parameters, or increase "
        "max_iter, tol, or check for degenerate data. EM stopped at max_iter passes over the rows."
    )
    STOPPED = "EM was stopped by a callback."


@dataclass(frozen=True, eq=False)
class Fit:
    """Where EM ended.

    Attributes
    ----------
    parameters : WhitenedParameters
        One mixture, in the frame.
    objective : float
        Log-likelihood plus log-prior, in the units of the frame.
    log_likelihood : float
        In the units of the frame.
    stats : SufficientStats
        Of the E-step at the components.
    n_iter : int
        Passes over the rows.
    history : tuple of float
        The best objective after each pass.
    status : FitStatus
    memory : Memory or None
        What was learnt of the curvature at the end. It depends on the mixture, and hardly on the rows: a run
        on more of them can start with it.
    """

    parameters: WhitenedParameters
    objective: float
    log_likelihood: float
    stats: SufficientStats
    n_iter: int
    history: tuple[float, ...]
    status: FitStatus
    curvature: LBFGSHistory | None = None


def in_canonical_order(fit: Fit, family: Family, whitening: Whitening) -> Fit:
    """Return the fit with its components in canonical order."""
    parameters = fit.parameters
    order = canonical_order(parameters.weights, whitening.inverse_transform(parameters.means))
    ordered = family.reordered(parameters, order)
    curvature = None
    if fit.curvature is not None and fit.curvature.pairs:
        places = coordinate_order(family, order, parameters.n_features)
        steps, changes = fit.curvature.arrays()
        curvature = LBFGSHistory.of(steps[:, places], changes[:, places])
    return replace(fit, parameters=ordered, stats=fit.stats[order], curvature=curvature)


Callback = Callable[["Fit"], bool]
"""Called after each pass with the best so far; true to stop."""


def evaluated(
    data: WhitenedData, parameters: WhitenedParameters, prior: Prior | None
) -> tuple[SufficientStats, Array, Array]:
    """Return sufficient statistics, objectives and log-likelihoods of a batch of mixtures."""
    stats, log_likelihood = data.e_step(parameters)
    return stats, log_likelihood + data.family.log_prior(parameters, prior), log_likelihood


def short_runs(
    data: WhitenedData, parameters: WhitenedParameters, prior: Prior | None, n_steps: int
) -> tuple[WhitenedParameters, Array]:
    """Return a batch of mixtures after some steps of EM, and log-likelihoods one step before the last.

    Parameters
    ----------
    table : Table
    parameters : WhitenedParameters
        With one leading axis.
    prior : Prior or None
    n_steps : int

    Returns
    -------
    parameters : WhitenedParameters
    log_likelihood : ndarray, shape (n_mixtures,)
        Of the components that the last step started from; minus infinity where it is not a number.
    """
    log_likelihood = np.full(len(parameters.weights), -np.inf)
    for _ in range(n_steps):
        stats, log_likelihood = data.e_step(parameters)
        parameters = data.family.m_step(stats, prior)
    return parameters, np.where(np.isfinite(log_likelihood), log_likelihood, -np.inf)


class _Stop(Exception):  # noqa: N818 - it is not an error
    """Ends a run from inside a line search."""


class Run:
    """One run of EM: counts the passes and keeps the best mixture."""

    def __init__(
        self, data: WhitenedData, prior: Prior | None, max_iter: int, callback: Callback | None
    ) -> None:
        self.data, self.prior, self.max_iter, self.callback = data, prior, max_iter, callback
        self.history: list[float] = []
        self.best: Fit | None = None
        self.curvature: LBFGSHistory | None = None
        self.status = FitStatus.MAX_ITER

    def __call__(self, parameters: WhitenedParameters) -> tuple[SufficientStats, float]:
        """Return the sufficient statistics and the objective of one mixture, by one pass."""
        if len(self.history) >= self.max_iter:
            raise _Stop
        stats, objective, likelihood = evaluated(self.data, parameters[None], self.prior)
        value = float(objective[0])
        if self.best is None or value >= self.best.objective:
            self.history.append(value)
            n_iter = len(self.history)
            self.best = Fit(
                parameters,
                value,
                float(likelihood[0]),
                stats[0],
                n_iter,
                (),
                FitStatus.MAX_ITER,
                self.curvature,
            )
        else:
            self.history.append(self.best.objective)
        if self.callback is not None and self.callback(self.best):
            self.status = FitStatus.STOPPED
            raise _Stop
        return stats[0], value

    def result(self) -> Fit:
        """Return the best mixture of the run."""
        if self.best is None:
            raise ValueError("max_iter must be at least 1.")
        best = self.best
        return Fit(
            best.parameters,
            best.objective,
            best.log_likelihood,
            best.stats,
            len(self.history),
            tuple(self.history),
            self.status,
            self.curvature,
        )


def converge(
    data: WhitenedData,
    parameters: WhitenedParameters,
    prior: Prior | None,
    *,
    tol: float,
    max_iter: int,
    callback: Callback | None = None,
    checked_on: WhitenedData | None = None,
    curvature: LBFGSHistory | None = None,
    earlier: tuple[float, ...] = (),
) -> Fit:
    """Run EM from a start to an optimum.

    A few plain steps, then L-BFGS in coordinates where EM is steepest ascent: each step is one pass, as
    EM's is, and none is kept that lowers the objective. It ends when two steps in a row brought less than
    `tol`, and the quadratic model g^t H g / 2 of what is left promises less as well: a plateau, where
    steps of EM are small and much is left, does not end it.

    Parameters
    ----------
    table : Table
    parameters : WhitenedParameters
        One mixture, in the frame.
    prior : Prior or None
    tol : float
        The log-likelihood (of all rows together) that may be left to gain.
    max_iter : int
        The most passes over the rows; 0 keeps the start, and one pass tells its likelihood.
    watcher : callable, optional
    checked_on : Table, optional
        The rows, or some of them, on which the end is checked to be a maximum: near a saddle everything
        is as quiet as at an optimum, and k-means likes to start there. If it is a saddle, the run goes on.
    memory : Memory, optional
        Of a run that ended nearby.
    earlier : tuple of float, optional
        The objectives of the last passes of the run that this one continues: a run of one or two passes
        cannot tell by itself how much is left to gain.

    Returns
    -------
    fit : Fit
    """
    run = Run(data, prior, max(max_iter, 1), callback)
    if max_iter == 0:
        run(parameters)
        return run.result()
    try:
        if curvature is None or max_iter < FIRST_STEPS:
            _first_steps(run, parameters, tol, earlier)
        else:
            _accelerated(run, parameters, tol, curvature.copy())
        for _ in range(MOST_SADDLES if checked_on is not None else 0):
            assert checked_on is not None
            further = _escaped(run, checked_on) or _stepped(run, checked_on, tol)
            if further is None:
                break
            run.status = FitStatus.MAX_ITER
            _accelerated(run, further, tol)
    except _Stop:
        pass
    fit = run.result()
    if fit.status is FitStatus.MAX_ITER:
        # The sums of the last pass are paid for: one more M-step is free, and one pass tells its likelihood.
        parameters = data.family.m_step(fit.stats, prior)
        stats, objective, likelihood = evaluated(data, parameters[None], prior)
        if objective[0] >= fit.objective:
            return replace(
                fit,
                parameters=parameters,
                objective=float(objective[0]),
                log_likelihood=float(likelihood[0]),
                stats=stats[0],
            )
    return fit


def _first_steps(
    run: Run, parameters: WhitenedParameters, tol: float, earlier: tuple[float, ...] = ()
) -> None:
    """Go on by plain EM while it is fast, to the end if it can, and by L-BFGS from there."""
    family, prior = run.data.family, run.prior
    before, gain, n_steps = -np.inf, np.inf, 0
    for value in earlier:
        before, gain, n_steps = value, value - before, n_steps + 1
    while True:
        stats, value = run(parameters)
        parameters = family.m_step(stats, prior)
        new_gain = value - before
        # What is below rounding is nothing.
        still = abs(new_gain) <= 1e-14 * abs(value)
        ratio = 0.0 if still else new_gain / max(gain, 1e-300)
        gain, before, n_steps = 0.0 if still else new_gain, value, n_steps + 1
        if n_steps < FIRST_STEPS:
            continue
        # A geometric series of gains; where they fall slowly or rise, nothing is said about the rest.
        left = gain * ratio / (1 - ratio) if 0 <= ratio < 1 else np.inf
        if still or (ratio < 0.5 and gain < tol and left < tol) or (earlier and max(gain, left) < tol):
            run.status = FitStatus.CONVERGED
            return
        if not 0 <= ratio < FAST:
            _accelerated(run, parameters, tol)
            return


def _gradient_of(
    coordinates: LocalCoordinates, sample: WhitenedData, prior: Prior | None
) -> Callable[[Array], Array]:
    """Return the gradient as a function of the point, on those rows."""

    def gradient_at(point: Array) -> Array:
        moved = coordinates.retract(point)
        stats, _ = sample.e_step(moved[None])
        return coordinates.gradient(point, moved, stats[0], prior)

    return gradient_at


def _stepped(run: Run, sample: WhitenedData, tol: float) -> WhitenedParameters | None:
    """Return a better mixture beside the best one if more than the tolerance is left to gain, or None."""
    assert run.best is not None
    best, prior = run.best, run.prior
    coordinates = LocalCoordinates(sample.family, best.parameters, sample.weight)
    gradient_at = _gradient_of(coordinates, sample, prior)
    gradient = gradient_at(coordinates.origin)
    if sample is not run.data:
        # The curvature is that of the sample, the gradient that of all rows: both are in units of the
        # complete information, so that the one fits the other.
        whole = LocalCoordinates(sample.family, best.parameters, run.data.weight)
        target = whole.gradient(whole.origin, best.parameters, best.stats, prior)
        shift = gradient - target
        found = newton_step(
            lambda point: gradient_at(point) - shift, coordinates.origin, target, coordinates.null_direction
        )
    else:
        whole = coordinates
        found = newton_step(gradient_at, coordinates.origin, gradient, coordinates.null_direction)
    if found is None or not found[0] > tol:
        return None
    step = found[1] * min(1.0, FAR / max(coordinates.step_size(found[1]), 1e-300))
    for length in (1.0, 0.3, 0.1):
        parameters = whole.retract(length * step)
        before = best.objective
        if run(parameters)[1] > before + 0.1 * tol:
            return parameters
    return None


def _escaped(run: Run, sample: WhitenedData) -> WhitenedParameters | None:
    """Return a better mixture beside the best one if that is a saddle, or None."""
    assert run.best is not None
    coordinates = LocalCoordinates(sample.family, run.best.parameters, sample.weight)
    gradient_at = _gradient_of(coordinates, sample, run.prior)
    found = rising_direction(
        gradient_at, coordinates.origin, gradient_at(coordinates.origin), coordinates.null_direction
    )
    if found is None:
        return None
    better, direction = None, found[1] / max(coordinates.step_size(found[1]), 1e-300)
    for length in (0.05, -0.05, 0.25, -0.25, 1.0, -1.0):
        parameters = coordinates.retract(length * direction)
        before = run.best.objective
        if run(parameters)[1] > before + SADDLE_RISE:
            better = parameters
    return better


def plain(
    data: WhitenedData,
    parameters: WhitenedParameters,
    prior: Prior | None,
    *,
    relative_tol: float,
    max_iter: int,
) -> Fit:
    """Run EM as mclust does: until the log-likelihood changes by `relative_tol` of itself.

    Each iteration is an M-step and an E-step; the objective of iteration i is after i M-steps. The start
    is the result of a first M-step.
    """
    run = Run(data, prior, max_iter, None)
    offset = data.whitening.log_det * data.weight
    before = np.inf
    try:
        while True:
            stats, _ = run(parameters)
            assert run.best is not None
            likelihood = run.best.log_likelihood + offset
            if abs(before - likelihood) <= relative_tol * (1 + abs(likelihood)):
                run.status = FitStatus.CONVERGED
                break
            before = likelihood
            parameters = data.family.m_step(stats, prior)
    except _Stop:
        pass
    return run.result()


@dataclass(frozen=True, eq=False)
class _Ray:
    """The objective along a direction: each evaluation is one pass."""

    run: Run
    coordinates: LocalCoordinates
    point: Array
    direction: Array

    def __call__(self, length: float) -> tuple[float, float, Array]:
        """Return value, slope and gradient at a length."""
        moved = self.point + length * self.direction
        parameters = self.coordinates.retract(moved)
        if not parameters.is_finite:
            return -np.inf, 0.0, np.zeros_like(moved)
        stats, value = self.run(parameters)
        gradient = self.coordinates.gradient(moved, parameters, stats, self.run.prior)
        return value, float(gradient @ self.direction), gradient


def _accelerated(
    run: Run, parameters: WhitenedParameters, tol: float, curvature: LBFGSHistory | None = None
) -> None:
    """Go from a mixture to the optimum by L-BFGS."""
    family, prior, weight = run.data.family, run.prior, run.data.weight
    coordinates, curvature = (
        LocalCoordinates(family, parameters, weight),
        LBFGSHistory() if curvature is None else curvature,
    )
    run.curvature = curvature
    point = coordinates.origin
    stats, value = run(parameters)
    gradient = coordinates.gradient(point, parameters, stats, prior)
    quiet = 0
    while True:
        direction = curvature.direction(gradient)
        slope = float(gradient @ direction)
        # What the quadratic model promises. It is believed once it has been learnt.
        left = 0.5 * slope
        learnt = len(curvature.pairs) >= LEARNT or left < 1e-6 * tol
        if left < tol and learnt and quiet >= QUIET_STEPS:
            run.status = FitStatus.CONVERGED
            return
        first = min(1.0, FAR / max(coordinates.log_change(direction), 1e-300))
        found = line_search(_Ray(run, coordinates, point, direction), value, slope, first)
        if found is None:
            if not curvature.pairs:
                # Not even along the gradient: what is left is rounding.
                run.status = FitStatus.CONVERGED
                return
            run.curvature = curvature = LBFGSHistory()
            continue
        length, new_value, new_gradient = found
        curvature.update(length * direction, gradient - new_gradient)
        point = point + length * direction
        quiet = quiet + 1 if new_value - value < tol else 0
        value, gradient = new_value, new_gradient
        if coordinates.log_change(point) > FAR and run.best is not None:
            parameters = coordinates.retract(point)
            coordinates, curvature = LocalCoordinates(family, parameters, weight), LBFGSHistory()
            run.curvature = curvature
            point = coordinates.origin
            gradient = coordinates.gradient(point, parameters, run.best.stats, prior)
