"""One call of `fit`: from rows to the attributes of the estimator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from apolar._core.arrays import Array
from apolar._core.checks import fits_in_memory, random_generator
from apolar._core.settings import SETTINGS
from apolar.data import Rows
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus, SearchCost, in_canonical_order
from apolar.estimator.fit_warnings import warn_of_rows, warnings_of
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import (
    allows_rounding,
    check_columns,
    float_type,
    is_path,
    known_of,
    n_threads_of,
)
from apolar.estimator.model_files import Checkpoint, stored_state
from apolar.exceptions import ApolarWarning, DisagreementWarning, SkippedStartWarning, warn_user
from apolar.mixture.families import Family
from apolar.mixture.parameters import NoiseBox
from apolar.mixture.prior import Prior
from apolar.search.given import has_given_order, requested_candidates
from apolar.search.search import Candidates, best_fit

try:  # scikit-learn 1.9 or later
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # pragma: no cover - older scikit-learn
    CallbackSupportMixin = type(
        "CallbackSupportMixin",
        (),
        {"__doc__": "Takes the place of scikit-learn's class, where it has no callbacks."},
    )

    def _with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        return method


__all__ = [
    "CallbackSupportMixin",
    "NotConvergedWarning",
    "best_solution",
    "check_enough_rows",
    "check_memory",
    "fit_rows",
    "problem_of",
    "reports_passes",
    "warm_start_of",
    "with_callbacks",
]

ILL_DEFINED = (
    "Fitting the mixture model failed because some components have ill-defined empirical "
    "covariance (for instance caused by singleton or collapsed samples). Try to decrease the "
    "number of components, increase reg_covar, or scale the input data. reg_covar=None, the "
    "default, keeps components from collapsing by a prior."
)
"""As scikit-learn says it, where the user asked for no regularisation."""
AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])
Observer = Callable[[Fit, Callable[[Fit], FittedState]], bool]
PassReport = Callable[[float, float], object]
"""Takes how many passes over the rows a fit has taken, and about how many it will take."""
_REPORT: ContextVar[PassReport | None] = ContextVar("report", default=None)


@contextmanager
def reports_passes(report: PassReport | None) -> Iterator[None]:
    """Report the passes of fits in this context."""
    token = _REPORT.set(report)
    try:
        yield
    finally:
        _REPORT.reset(token)


def with_callbacks(method: AnyMethod) -> AnyMethod:
    """Return a method that manages scikit-learn's callbacks, where it has them; its type stays what it is."""
    managed: AnyMethod = _with_callbacks(method)
    return managed


class NotConvergedWarning(ApolarWarning, ConvergenceWarning):
    """EM ended before an optimum: both an ApolarWarning and scikit-learn's ConvergenceWarning."""


def fit_rows(
    estimator: Any,
    X: Any,
    rows: Rows,
    family: Family,
    prior: Prior | None,
    has_weight: Array | None,
    **knowledge: Any,
) -> None:
    """Fit an estimator to rows, and set its attributes.

    Parameters
    ----------
    estimator : GaussianMixture
    X : object
        The rows as the user gave them, for callables and callbacks.
    rows : Rows
    family : Family
    prior : Prior or None
    has_weight : ndarray of bool or None
        Which rows of X have a weight above zero; None if all have.
    **knowledge : object
        What the user knows, `y`, `groups` and `fixed`.
    """
    check_memory(family, int(estimator.n_components), rows.n_features)
    last = stored_state(estimator, family, rows.n_features) if estimator.warm_start is not False else None
    problem = problem_of(estimator, rows, family, estimator.noise)
    known = known_of(problem, int(estimator.n_components), has_weight, **knowledge)
    if known is not None:
        problem = problem.replace(known=known)
    # A fit that resumes from its checkpoint orders its components as the first one would have; other warm
    # starts keep the order of the mixture that they start from.
    is_stored = last is not None
    is_resumed = is_stored and not is_path(estimator.warm_start)
    keeps_order = not is_resumed or has_given_order(estimator, problem)
    if not is_stored and estimator.warm_start:
        last = _last_state(estimator, rows.n_features)

    progress = FitProgress(estimator, X, problem)
    checkpoint = None if estimator.checkpoint is None else Checkpoint(estimator)
    observers: list[Observer] = [] if checkpoint is None else [checkpoint]
    observers += [progress] if progress.is_watched else []

    def start(problem: Problem, prior: Prior | None) -> Candidates:
        if last is None:
            return requested_candidates(estimator, problem, X, prior, has_weight, progress.report_search)
        warm = warm_start_of(last, problem, is_same=not is_stored)
        return Candidates(lambda _: [warm], keeps_order=keeps_order)

    solution = best_solution(
        estimator,
        problem,
        prior,
        start,
        is_continued=last is not None and last.is_rounded,
        dtype=float_type(X),
        observers=observers,
    )
    fit, state = solution.fit, solution.state(float_type(X))
    is_collapsed = solution.problem.family.is_collapsed(fit.parameters.covariances)
    if is_collapsed and fit.status is FitStatus.CONVERGED and estimator.reg_covar == 0:
        raise ValueError(ILL_DEFINED)
    state.set_on(estimator)
    vars(estimator).pop("_stream", None)
    if checkpoint is not None:
        checkpoint.write(state)
    is_short = fit.status is FitStatus.MAX_ITER and estimator.max_iter > 0
    if is_short or fit.status is FitStatus.INTERRUPTED:
        warn_user(fit.status.value, NotConvergedWarning)
    is_by_moments = isinstance(estimator.init_params, str) and estimator.init_params == "moments"
    skipped = fit.skipped if is_by_moments else ()
    for warning in (*map(SkippedStartWarning, skipped), *fit.warnings):
        warn_user(warning)
    # Words that no row has are constant columns.
    scale = None if rows.is_sparse else problem.scale
    used = "Criteria such as BIC count their parameters."
    warn_of_rows(estimator, scale, problem.far_rows, has_weight, used)
    progress.end(fit.status.value)


def check_memory(family: Family, n_components: int, n_features: int) -> None:
    """Refuse covariances that do not fit into memory, before the rows are read."""
    if not family.is_axis_aligned and not family.has_factors:
        n_numbers = 4 * n_features**2 + 4 * n_components * family.n_stats(n_features)
        what = f"{family.name!r} covariances of {n_features} columns"
        fits_in_memory(n_numbers, what, "use 'diag' or 'spherical', or fewer columns")


def problem_of(
    estimator: Any, rows: Rows, family: Family, noise: bool | float, box: NoiseBox | None = None
) -> Problem:
    """Return rows as an estimator is to fit them: whitened, with `reg_covar` and the noise component.

    Parameters
    ----------
    estimator : GaussianMixture
    rows : Rows
    family : Family
    noise : bool or float
        Whether there is a noise component, or the share of the rows that is expected to be noise.
    box : NoiseBox, optional
        Of the noise, if it is known; by default that of the rows.
    """
    check_columns(estimator, rows.n_features)
    threads, n_components = n_threads_of(estimator), estimator.n_components
    problem = Problem(rows, family, threads=threads, measurement=estimator.reg_covar or 0.0)
    if noise:
        problem = with_noise_component(problem, noise, box)
    check_enough_rows(problem, n_components)
    return problem


def check_enough_rows(problem: Problem, n_components: int) -> None:
    """Refuse more components than rows."""
    if problem.n_rows < n_components:
        raise ValueError(
            f"n_components = {n_components} components need at least as many rows; got "
            f"n_samples = {problem.n_rows}. Ask for fewer components, or pass more rows."
        )


def warm_start_of(last: FittedState, problem: Problem, *, is_same: bool = False) -> Fit:
    """Return a fitted mixture as the start of another fit.

    With `is_same`, rows of the same weight are taken to be those of the fit, which may then be at its end.
    """
    whitening = problem.whitening
    is_same = is_same and last.n_samples_seen == problem.weight and problem.is_rounded == last.is_rounded
    is_same = is_same and (last.parameters.noise is not None) == problem.has_noise
    earlier = -np.inf
    if is_same and last.lower_bounds:
        earlier = (last.lower_bounds[-1] - whitening.log_det) * problem.weight
    return Fit(
        whitening.transform_parameters(last.parameters),
        "warm start",
        strengths=last.shrinkage,
        is_from_all_rows=True,
        earlier=earlier,
    )


def _last_state(estimator: Any, n_features: int) -> FittedState | None:
    """Return the state of an estimator that holds a fitted mixture of its family and size."""
    try:
        last = FittedState.of(estimator)
    except ValueError:
        return None
    return last if last.parameters.means.shape == (estimator.n_components, n_features) else None


class Solution(NamedTuple):
    """The best mixture of a search, with the prior that it was found under.

    The problem is that which was solved: as given, or with the rounding errors of the rows.
    """

    fit: Fit
    problem: Problem
    prior: Prior | None

    def state(self, dtype: Any) -> FittedState:
        """Return the fitted state, with the density of the mixture as it is returned, and of rows left out.

        EM computes the density with the measurement errors of rows, and before parameters are rounded in the
        transform to the units of the data.
        """
        problem = self.problem
        state = FittedState.of_fit(self.fit, problem, dtype)
        return state.with_likelihood(problem.rows, self.prior, problem.threads)


def best_solution(
    estimator: Any,
    problem: Problem,
    prior: Prior | None,
    start: Callable[[Problem, Prior | None], Candidates],
    *,
    is_continued: bool,
    dtype: Any = np.float64,
    observers: Sequence[Observer] = (),
) -> Solution:
    """Return the best mixture that has no component narrower than the rounding errors of the rows.

    Where values repeat because they are rounded, as in integers, the likelihood grows without bound as a
    component becomes flat in a column, and flat components say nothing about clusters. If the best mixture
    has one, the search is repeated for rows that are known up to their rounding errors only. If there is an
    optimum without flat components near what that finds, the rounding errors are not needed, and that is the
    result. Rows without repeated values are fitted once, as they are.

    Parameters
    ----------
    estimator : GaussianMixture
    problem : Problem
    prior : Prior or None
    start : callable
        Takes a problem and a prior, and returns the candidates.
    is_continued : bool
        Whether the start is from a fit to rows that were known up to their rounding errors.
    dtype : dtype
        The floating type of the attributes.
    observers : sequence of callable
        Called after each pass with the result so far and the function that makes a fitted state of one; they
        return whether to stop.
    """
    # To check that EM ended at a maximum, to compare partitions, and for the resolution of the columns.
    sample = problem.subsample(SETTINGS.sample_rows, np.random.default_rng(0))
    has_rounding = allows_rounding(estimator)
    variances = sample.rounding_variances() if has_rounding else np.zeros(problem.n_features)
    solve = partial(_solve, estimator, dtype, observers)
    if not (is_continued and np.any(variances)):
        plain = solve(problem, sample, prior, start(problem, prior))
        is_flat = problem.is_narrower(plain.fit.parameters, variances)
        if plain.fit.status.is_stopped or not is_flat:
            return plain
    coarse, coarse_sample = (each.replace(measurement=variances) for each in (problem, sample))
    coarse_prior = coarse.prior_for(prior)
    candidates = start(coarse, coarse_prior)
    rounded = solve(coarse, coarse_sample, coarse_prior, candidates)
    if rounded.fit.status is not FitStatus.CONVERGED:
        return rounded
    again = replace(rounded.fit, status=FitStatus.NOT_RUN, is_from_all_rows=True)
    exact = solve(problem, sample, prior, Candidates(lambda _: [again], keeps_order=candidates.keeps_order))
    is_flat = problem.is_narrower(exact.fit.parameters, variances)
    if exact.fit.status is not FitStatus.CONVERGED or is_flat:
        return rounded
    # The starts disagreed in the search; this run had only one.
    disagreement = [each for each in again.warnings if isinstance(each, DisagreementWarning)]
    return exact._replace(fit=replace(exact.fit, warnings=(*exact.fit.warnings, *disagreement)))


def _solve(
    estimator: Any,
    dtype: Any,
    observers: Sequence[Observer],
    problem: Problem,
    sample: Problem,
    prior: Prior | None,
    start: Candidates,
) -> Solution:
    """Return the best mixture for some rows, its components in order, with the warnings about it."""

    def solution(fit: Fit) -> Solution:
        if not start.keeps_order:
            fit = in_canonical_order(fit, problem.family, problem.whitening)
        return Solution(fit, problem.for_mixture(fit.parameters), prior)

    def state(fit: Fit) -> FittedState:
        known = solution(fit)
        return FittedState.of_fit(known.fit, known.problem, dtype)

    def report(fit: Fit) -> bool:
        return any(observe(fit, state) for observe in observers)

    result, candidates = best_fit(
        problem,
        prior,
        start,
        tol=estimator.tol,
        max_iter=estimator.max_iter,
        rng=random_generator(estimator.random_state),
        sample=sample,
        callback=report if observers else None,
    )
    on_all, on_sample = (rows.for_mixture(result.parameters) for rows in (problem, sample))
    warnings = warnings_of(on_all, prior, result, candidates, on_sample)
    return solution(replace(result, warnings=tuple(warnings)))


class FitProgress:
    """Prints and reports the progress of a fit, and calls scikit-learn's callbacks.

    Parameters
    ----------
    estimator : estimator
    X : object
        The rows as the user gave them, for the callbacks of scikit-learn.
    problem : Problem
    """

    def __init__(self, estimator: Any, X: Any, problem: Problem) -> None:
        self.estimator, self.X, self.problem = estimator, X, problem
        self.n_passes, self.last, self.began = 0, -np.inf, time.perf_counter()
        # The passes of the search, and what is told about them.
        self.of_search, self.report, self.context = 0.0, _REPORT.get(), None
        if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(estimator=estimator, X=X)
        self.is_watched = bool(estimator.verbose or self.report or self.context)

    def report_search(self, cost: SearchCost) -> None:
        """Report what the search for a start took so far."""
        self.of_search = cost.passes
        if self.estimator.verbose:
            print(f"search: {cost.passes:.1f} passes of {cost.budget:.0f}, {cost.seconds:.1f} s")
        if self.report is not None:
            self.report(cost.passes, max(cost.budget, cost.passes) + SETTINGS.run_passes)

    def __call__(self, fit: Fit, state: Callable[[Fit], FittedState]) -> bool:
        """Report a pass; return whether a callback asks to stop."""
        self.n_passes += 1
        estimator = self.estimator
        if self.report is not None:
            # Most runs need no more; the others may take all that they are allowed.
            is_usual = self.n_passes <= SETTINGS.run_passes
            expected = SETTINGS.run_passes if is_usual else max(estimator.max_iter, self.n_passes)
            self.report(self.of_search + self.n_passes, self.of_search + expected)
        mean = fit.log_likelihood / self.problem.weight + self.problem.whitening.log_det
        if estimator.verbose and (self.n_passes == 1 or self.n_passes % estimator.verbose_interval == 0):
            gain = "" if self.n_passes == 1 else f", gain {mean - self.last:.3g}"
            taken = f", {time.perf_counter() - self.began:.2f} s" if estimator.verbose > 1 else ""
            print(f"pass {self.n_passes}: mean log-likelihood {mean:.8g}{gain}{taken}")
            self.last = mean
        if self.context is None:
            return False
        task = self.context.subcontext(task_name="pass")
        task.call_on_fit_task_begin(estimator=estimator, X=self.X)
        of_fit = {"reconstruction_attributes": lambda: state(fit).attributes()}
        return bool(task.call_on_fit_task_end(estimator=estimator, X=self.X, **of_fit))

    def end(self, message: str) -> None:
        """Report the end of the fit."""
        if self.estimator.verbose:
            print(f"after {self.n_passes} passes: {message}")
        if self.context is not None:
            # The estimator has all of its attributes by now: none needs to be reconstructed.
            self.context.call_on_fit_task_end(
                estimator=self.estimator, X=self.X, reconstruction_attributes={}
            )
