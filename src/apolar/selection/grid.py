"""A grid of families and numbers of components, fitted from shared starts and from neighbours."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar._core.threads import run_in_threads
from apolar.data import Rows
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import Stop, evidence_of, leave_rows_out, run
from apolar.mixture.families import Family
from apolar.mixture.parameters import N_NOISE_PARAMETERS, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.moments.covariance import is_constant
from apolar.scores import CRITERIA, FitSummary
from apolar.search.given import requested_candidates
from apolar.search.merging import merged_pairs, untied_stats
from apolar.search.proposals import extend_mixture, extensions
from apolar.search.search import approach, is_better, one_component, portfolio, race
from apolar.selection.shared_starts import FORMS, PLAIN_TREE, SharedStarts

__all__ = [
    "NO_MAXIMUM",
    "UNDER_PRIOR",
    "Callback",
    "Candidate",
    "CandidateGrid",
    "Optimum",
    "Task",
    "contains",
]

Callback = Callable[[str, int, int], object]
"""Takes what is being done, how many candidates are finished, and of how many."""

# Criteria of fits under a prior.
UNDER_PRIOR = ("evidence", "loo")
# Exceptions by which a fit reports that a candidate cannot be fitted; others are errors of the program.
FAILURES = (ValueError, ArithmeticError, MemoryError)
# What is said about a candidate for which no maximum of the likelihood is found.
NO_MAXIMUM = (
    "the likelihood has no maximum: a component would collapse on a few rows. Ask for fewer components, a "
    "covariance type with fewer parameters, or the criterion 'evidence', which fits under a prior."
)
# For the orientation: axis-aligned components are a special case of the same orientation, that of any.
_ORIENTATIONS = {"I": "IEV", "E": "EV", "V": "V"}
_PARTS = {"E": "EV", "V": "V"}
_CODE = re.compile("[EV][EVI][EVI]")


class Candidate(NamedTuple):
    """A family and a number of components."""

    family: Family
    n_components: int


class Optimum(NamedTuple):
    """The best fit of a candidate so far, and the problem that it solves.

    If the rows have the rounding errors of their columns, no component is narrower than these; the likelihood
    is that of the mixture itself.
    """

    problem: Problem
    fit: Fit

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood in the units of the data."""
        return self.fit.log_likelihood + self.problem.whitening.log_det * self.problem.weight


@dataclass(frozen=True, eq=False)
class Task:
    """What the candidates are fitted to, and how.

    Attributes
    ----------
    rows : Rows
    X : object
        The rows as the user gave them, for a callable `init_params`.
    has_weight : ndarray of bool or None
        Which rows of X have a weight above zero; None if all have.
    model : GaussianMixture
        Its parameters are those of all candidates.
    prior : Prior or None
        None: candidates are fitted by maximum likelihood.
    allows_rounding : bool
        Whether rows may be taken to be known up to their rounding errors.
    criterion : str
    n_threads : int
    callback : callable or None
    """

    rows: Rows
    X: Any
    has_weight: Array | None
    model: Any
    prior: Prior | None
    allows_rounding: bool
    criterion: str
    n_threads: int
    callback: Callback | None = None

    def problem(self, form: Family) -> Problem:
        """Return the rows under a family."""
        model = self.model
        problem = Problem(self.rows, form, threads=self.n_threads, measurement=model.reg_covar or 0.0)
        return with_noise_component(problem, model.noise) if model.noise else problem


class CandidateGrid:
    """The fits of many candidates, on a sample of the rows if there are many, and then on all rows.

    Parameters
    ----------
    task : Task
    candidates : list of Candidate

    Attributes
    ----------
    optima : dict of Candidate to Optimum
        Of those that were fitted; after `run`, on all rows.
    failed, dropped : dict of Candidate to str
        Why the others were not.
    """

    def __init__(self, task: Task, candidates: list[Candidate]) -> None:
        self.task, self.candidates = task, candidates
        self.is_searched = task.model.init_params == "auto" and not task.rows.is_wide
        forms = dict.fromkeys(kind.untied.gaussian for kind, _ in candidates)
        if self.is_searched:
            # Whitened, no more rows than columns are all equally far apart.
            can_whiten = task.rows.n_features < (task.rows.n_rows or task.rows.n_features)
            forms = dict.fromkeys([*(form for form in FORMS if can_whiten or form.is_axis_aligned), *forms])
        self.on_all = {form: task.problem(form) for form in forms}
        self.problems = {form: self._sample(problem) for form, problem in self.on_all.items()}
        self.whole, self.first = (next(iter(known.values())) for known in (self.on_all, self.problems))
        # The weight of all rows, relative to that of the rows of the search.
        self.scale = self.whole.weight / self.first.weight
        self.rounding = np.zeros(self.first.n_features)
        if task.allows_rounding:
            self.rounding = self.first.rounding_variances()
        self.optima: dict[Candidate, Optimum] = {}
        self.failed: dict[Candidate, str] = {}
        self.dropped: dict[Candidate, str] = {}
        # The criterion of each candidate that was fitted.
        self.values: dict[Candidate, float] = {}
        # Whether several numbers of components are compared by a maximum of the likelihood.
        self.is_compared = len({number for _, number in candidates}) > 1 and task.criterion not in UNDER_PRIOR
        self.starts: SharedStarts | None = None
        if self.is_searched and any(number > 1 for _, number in candidates):
            self.starts = SharedStarts(self.problems, self.seed)

    @property
    def seed(self) -> int:
        """The seed of all starts."""
        return int(self.task.model.random_state)

    def _sample(self, problem: Problem) -> Problem:
        sample = problem.subsample(SETTINGS.sample_rows, np.random.default_rng(self.seed))
        # Threads are for the candidates.
        return problem if sample is problem else sample.replace(threads=1)

    def run(self) -> None:
        """Fit all candidates."""
        self._refuse()
        n_all = len(self.candidates)
        # Those that bound others come first: Gaussian components, and covariances of any form.
        waves = itertools.groupby(sorted(self.candidates, key=_bounded_by), _bounded_by)
        for _, wave in waves:
            worth_it = [each for each in wave if each not in self.failed and not self._drop_if_hopeless(each)]
            n_done = len(self.failed) + len(self.dropped) + len(self.optima)
            self._each(self._fit, worth_it, "fitting", n_done, n_all)
        # From what each was fitted to by itself: so no candidate does worse because of another.
        alone, improved = dict(self.optima), set[Candidate]()
        while near := self._worth_improving(improved):
            improved.update(near)
            self._each(partial(self._improve, alone=alone), near, "refining")
        self._each(self._finish, self._within(SETTINGS.final_reach))
        self._continue_on_all_rows()

    # --- progress and threads -------------------------------------------------------------------

    def _each(
        self,
        function: Callable[[Candidate], None],
        candidates: list[Candidate],
        what: str = "",
        n_done: int = 0,
        n_all: int | None = None,
        n_threads: int | None = None,
    ) -> None:
        """Call a function for each candidate, in threads; `n_done` of `n_all` may have been done before."""
        # The slowest first, so that the threads end at about the same time.
        work = sorted(candidates, key=lambda each: (each.family.n_axes, each.n_components))
        numbers, lock = itertools.count(n_done), threading.Lock()
        n_all = len(work) if n_all is None else n_all

        def report() -> None:
            if self.task.callback is not None and what and n_all:
                with lock:
                    self.task.callback(what, next(numbers), n_all)

        def call() -> None:
            while work:
                try:
                    candidate = work.pop()
                except IndexError:
                    return
                function(candidate)
                report()

        report()
        run_in_threads(call, min(n_threads or self.task.n_threads, len(work)))

    # --- what is fitted -------------------------------------------------------------------------

    def n_parameters(self, candidate: Candidate) -> int:
        """Return the number of free parameters of a candidate."""
        n_parameters = candidate.family.n_parameters(candidate.n_components, self.first.n_features)
        return n_parameters + N_NOISE_PARAMETERS * self.first.has_noise

    def _refuse(self) -> None:
        """Find the candidates that are not to be fitted."""
        whole = self.whole
        constant = (
            np.zeros(0) if whole.scale is None else is_constant(whole.scale.mean, whole.scale.variances)
        )
        for each in self.candidates:
            kind, number = each
            n_parameters = kind.n_parameters(number, whole.n_features)
            n_values = whole.weight * whole.n_features
            if number > whole.n_rows:
                self.failed[each] = (
                    f"{number} components need at least as many rows; there are {whole.n_rows}."
                )
            elif self.task.prior is None and np.any(constant) and not kind.is_spherical:
                self.failed[each] = f"column {int(np.argmax(constant))} is constant: leave it out."
            elif self.is_compared and number > 1 and n_values < SETTINGS.values_per_parameter * n_parameters:
                self.failed[each] = (
                    f"{n_parameters} parameters are too many for {whole.weight:.6g} rows of "
                    f"{whole.n_features} columns: ask for fewer components, or a covariance type with fewer "
                    "parameters."
                )

    def _drop_if_hopeless(self, candidate: Candidate) -> bool:
        """Return whether a family that contains the candidate's is not likely enough to let it win.

        The bound holds for maxima of the likelihood, as far as the fits of the larger family are its best.
        """
        if candidate.family.dof is not None and self._is_form_behind(candidate):
            return True
        if not self.optima or self.scale > 1 or self.task.prior is not None or self.task.model.reg_covar:
            return False
        for form in (replace(form, dof=candidate.family.dof) for form in FORMS):
            larger = self.optima.get(Candidate(form, candidate.n_components))
            if larger is None or larger.problem.is_rounded or not contains(form, candidate.family):
                continue
            # The likelihood of more components is no lower, though the fit found may be.
            highest = max(
                optimum.log_likelihood
                for (kind, number), optimum in self.optima.items()
                if kind == form and number <= candidate.n_components
            )
            bound = self._criterion(FitSummary(highest, self.n_parameters(candidate), self.first.weight, 0.0))
            if bound > min(self.values.values()) + SETTINGS.final_reach:
                behind = bound - min(self.values.values())
                why = f"{form.name} contains it and is no likelier"
                self.dropped[candidate] = f"at least {behind:.1f} behind the best so far: {why}"
                return True
        return False

    def _is_form_behind(self, candidate: Candidate) -> bool:
        """Return whether the covariance family of a candidate is far behind others without long tails."""
        own = self.values.get(Candidate(candidate.family.gaussian, candidate.n_components))
        values = [
            value
            for (kind, number), value in self.values.items()
            if kind.dof is None and number == candidate.n_components
        ]
        if own is None or own <= min(values) + SETTINGS.reach * self.scale:
            return False
        behind = own - min(values)
        self.dropped[candidate] = f"without long tails {behind:.1f} behind another covariance type"
        return True

    def _keep(self, candidate: Candidate, optimum: Optimum) -> None:
        self.optima[candidate] = optimum
        self.values[candidate] = self._value(candidate, optimum)
        self.failed.pop(candidate, None)

    def _value(self, candidate: Candidate, optimum: Optimum) -> float:
        """Return the criterion of a fit to the rows of the search, for all rows."""
        problem, fit = optimum
        certainty, evidence, without = 0.0, np.nan, np.nan
        if self.task.criterion == "icl":
            responsibilities = np.asarray(problem.row_responsibilities(fit.parameters)[0])
            certainties = np.log(responsibilities.max(axis=0))
            weights = problem.row_weights()
            certainty = float(certainties.sum() if weights is None else certainties @ weights)
        if self.task.criterion == "evidence":
            evidence = evidence_of(problem, fit)
            evidence += problem.whitening.log_det * problem.weight
        if self.task.criterion == "loo":
            without = fit.score + problem.whitening.log_det * problem.weight
        n_parameters = self.n_parameters(candidate)
        weight = self.whole.weight
        scale = weight / problem.weight
        # Each parameter that is fitted to fewer rows raises their likelihood by 1/2 on average.
        value = scale * optimum.log_likelihood - 0.5 * (scale - 1) * n_parameters
        sums = certainty * scale, evidence * scale, without * scale
        return self._criterion(FitSummary(value, n_parameters, weight, *sums))

    def _criterion(self, fit: FitSummary) -> float:
        return CRITERIA[self.task.criterion](fit)

    def _within(self, reach: float) -> list[Candidate]:
        """Return the candidates whose criterion is above the lowest by no more than that."""
        most = min(self.values.values(), default=0.0) + reach * self.scale
        return [each for each, value in self.values.items() if value <= most]

    def _worth_improving(self, improved: set[Candidate]) -> list[Candidate]:
        """Return the candidates near the best, and those without a maximum next to one of them."""
        near = self._within(SETTINGS.reach)
        failed = [each for each, why in self.failed.items() if why == NO_MAXIMUM]
        beside = [each for each in failed if any(_are_neighbours(each, other) for other in near)]
        return [each for each in near + beside if each not in improved]

    # --- how a candidate is fitted --------------------------------------------------------------

    def _problem(self, kind: Family) -> Problem:
        return self.problems[kind.untied.gaussian].replace(family=kind)

    def _fit(self, candidate: Candidate) -> None:
        """Fit a candidate from the shared starts."""
        problem = self._problem(candidate.family)
        try:
            starts = self._starts(candidate)
            best = self._best_of(problem, starts)
            if self.task.prior is None and self.starts and candidate.n_components > 1:
                # A prior may lead away from a maximum that is higher.
                best = _better(best, self._optimum(problem, starts[PLAIN_TREE], (None,)))
        except FAILURES as error:
            self.failed[candidate] = str(error)
            return
        if best is None:
            self.failed[candidate] = NO_MAXIMUM
        else:
            self._keep(candidate, best)

    def _starts(self, candidate: Candidate) -> list[Fit]:
        """Return where the runs of a candidate begin: the same for all families, or as the user asked."""
        (kind, number), model = candidate, self.task.model
        problem = self._problem(kind)
        if number == 1 and self.is_searched:
            parameters = one_component(problem, Prior())
            return [Fit(replace(parameters, weights=np.array([1 - problem.noise_share])), "one component")]
        if self.starts is not None:
            return self.starts.mixtures(problem, number, model.n_init)
        settings = type(model)(**model.get_params()).set_params(n_components=number)
        if callable(model.init_params):
            problem = self.on_all[kind.untied.gaussian].replace(family=kind)
        asked = requested_candidates(settings, problem, self.task.X, self.task.prior, self.task.has_weight)
        rngs = [np.random.default_rng([self.seed, number, i]) for i in range(asked.n_init)]
        return [start for rng in rngs for start in asked.draw(rng)]

    def _best_of(self, problem: Problem, starts: list[Fit]) -> Optimum | None:
        """Return the best optimum near some starts, if there is one.

        Short runs under the conjugate prior, which keeps components from collapsing on the way, rank the
        starts. The best of them is run to its end; the next ones only if a component of it collapses.
        """
        prior = self.task.prior
        conjugate = Prior() if prior is None else prior.conjugate
        ranked = race(problem, starts, conjugate)
        # One of those that are equally high.
        gaps = np.diff([fit.log_likelihood for fit in ranked], prepend=np.inf)
        ranked = [fit for fit, gap in zip(ranked, gaps, strict=True) if gap < -self.task.model.tol]
        priors = (Prior(), None) if prior is None else (prior,)
        for start in ranked[: SETTINGS.kept]:
            found = self._optimum(problem, start, priors)
            if found is not None or np.any(self.rounding):
                return found
        return None

    def _optimum(self, problem: Problem, start: Fit, priors: tuple[Prior | None, ...]) -> Optimum | None:
        """Return the optimum that runs under some priors lead to; None if a component collapses.

        Where it collapses on rows that are equal because they are rounded, the optimum is that of rows that
        are known up to their rounding errors.
        """
        fit, model = start, self.task.model
        max_iter = min(SETTINGS.sample_passes, max(model.max_iter, 1))
        for prior in priors:
            end = approach(problem, fit, prior, max_iter, max(model.tol, SETTINGS.sample_tolerance))
            end = leave_rows_out(problem.compared, end, prior, problem.weight)
            fit = replace(end, n_iter=fit.n_iter + end.n_iter)
        is_finite = np.isfinite(fit.log_likelihood) and fit.parameters.is_finite
        if is_finite and not problem.is_narrower(fit.parameters, self.rounding):
            is_regular = not fit.is_collapsed and self._is_regular(problem, fit.parameters)
            return Optimum(problem, fit) if is_regular else None
        # From the start: what led to the collapse is not near the optimum.
        return self._rounded_optimum(problem, start) if np.any(self.rounding) else None

    def _rounded_optimum(self, problem: Problem, start: Fit) -> Optimum | None:
        """Return the optimum for rows that are known up to their rounding errors; None if there is none."""
        rounded = problem.replace(measurement=self.rounding)
        prior = rounded.prior_for(self.task.prior)
        fresh = replace(start, status=FitStatus.NOT_RUN)
        fit = self._converged(rounded, fresh, prior, is_checked=False)
        return Optimum(rounded, fit) if self._is_regular(rounded, fit.parameters) else None

    def _converged(
        self, problem: Problem, start: Fit, prior: Prior | None, *, is_checked: bool = True
    ) -> Fit:
        """Return the end of a run to the tolerance of the user, with the likelihood of the mixture itself."""
        model, checked_on = self.task.model, None
        if is_checked:
            checked_on = problem if problem.n_rows <= self.first.n_rows else self._problem(problem.family)
            if checked_on is not problem and problem.is_rounded:
                checked_on = checked_on.replace(measurement=problem.measurement)
        stop = Stop(model.max_iter, gain=model.tol)
        (fit,) = run(problem, [start], prior, stop, checked_on=checked_on)
        return _exact(problem, replace(fit, n_iter=start.n_iter + fit.n_iter))

    def _is_regular(self, problem: Problem, parameters: WhitenedParameters) -> bool:
        """Return whether no component is empty, or has collapsed or is about to.

        A component whose rows have too few values for its own parameters collapses on them, unless its
        covariance is shared, or is kept from it only by its form, by rounding or by a prior: such an optimum
        says nothing about clusters.
        """
        kind, (number, n_features) = problem.family, parameters.means.shape
        if not parameters.is_finite:
            return False
        min_rows = SETTINGS.min_component_rows
        if number > 1 and not kind.shares_covariance and (self.is_compared or self.task.prior is None):
            # What one more component adds, without its weight.
            of_two, of_three = (kind.n_parameters(k, n_features) for k in (2, 3))
            min_rows = SETTINGS.values_per_parameter * (of_three - of_two - 1) / n_features
        if float(parameters.weights.min()) * problem.weight < min_rows:
            return False
        is_kept_wide = self.task.prior is not None or np.any(problem.measurement)
        return bool(is_kept_wide or kind.smallest_variance(parameters.covariances) > SETTINGS.min_variance)

    # --- from one candidate to another ------------------------------------------------------------

    def _improve(self, candidate: Candidate, alone: dict[Candidate, Optimum]) -> None:
        """Fit a candidate from its neighbours, each as it was fitted by itself; keep what is better."""
        (kind, k), own = candidate, alone.get(candidate)
        problem = self._problem(kind)
        starts: list[Fit] = []
        smaller, larger = (alone.get(Candidate(kind, n)) for n in (k - 1, k + 1))
        if smaller is not None:
            completed = problem.imputed(smaller.fit.parameters)
            stats = untied_stats(problem, smaller.fit.parameters)
            for each in extensions(completed, smaller.fit.parameters, Prior())[: SETTINGS.kept]:
                grown = problem.m_step(extend_mixture(stats, [each]), Prior())
                starts.append(Fit(grown, f"split of {k - 1}"))
        if larger is not None:
            completed = problem.imputed(larger.fit.parameters)
            merged = merged_pairs(completed, larger.fit.parameters, SETTINGS.kept)
            starts += [Fit(problem.m_step(stats, Prior()), f"merger of {k + 1}") for stats in merged]
        for other, optimum in alone.items():
            is_contained = other.n_components == k and contains(kind, other.family)
            if is_contained and (own is None or optimum.log_likelihood > own.log_likelihood):
                responsibilities = np.asarray(optimum.problem.row_responsibilities(optimum.fit.parameters)[0])
                parameters = problem.m_step(problem.imputed().soft_stats(responsibilities), Prior())
                starts.append(Fit(parameters, f"start from {other.family.name}"))
        better = self._best_of(problem, starts) if starts else None
        if np.any(self.rounding) and (own is None or own.problem.is_rounded):
            rounded = problem.replace(measurement=self.rounding)
            prior = rounded.prior_for(Prior())
            for start in portfolio(rounded, k, prior, np.random.default_rng([self.seed, k, 1])):
                better = _better(better, self._rounded_optimum(problem, start))
        if better is not None and _better(own, better) is better:
            self._keep(candidate, better)

    def _finish(self, candidate: Candidate) -> None:
        """Run a fit to its optimum, and see that it is one."""
        problem, fit = self.optima[candidate]
        finished = Optimum(problem, self._converged(problem, fit, self._prior(problem)))
        if self._is_regular(problem, finished.fit.parameters) and finished.fit.score >= fit.score:
            self._keep(candidate, finished)

    def _prior(self, problem: Problem) -> Prior | None:
        return problem.prior_for(self.task.prior)

    # --- all rows ---------------------------------------------------------------------------------

    def _continue_on_all_rows(self) -> None:
        """Fit candidates to more and more rows, as long as they are not behind by more than chance."""
        if self.whole.n_rows <= self.first.n_rows or not self.optima:
            return
        near, step = list(self.optima), 1
        while self.whole.n_rows > SETTINGS.growth * step * self.first.n_rows:
            step *= SETTINGS.growth
        while True:
            near = self._not_behind(near)
            if step == 1:
                break
            rows = self.whole.rows.systematic_sample(step)
            self._each(partial(self._continue, rows=rows), near, "fitting to more rows")
            near = [each for each in near if each in self.optima]
            step //= SETTINGS.growth
        # One after the other: threads share the rows.
        self._each(partial(self._continue, rows=None), near, "fitting to all rows", n_threads=1)
        for each in [each for each in self.optima if each not in near]:
            problem, fit = self.optima[each]
            on_all = self._on_all_rows(each.family, problem)
            # The likelihood is that of all rows, though EM has not seen them.
            (there,) = run(on_all, [fit], self._prior(on_all), Stop(0, gain=0.0))
            self.optima[each] = Optimum(on_all, _exact(on_all, replace(there, n_iter=fit.n_iter)))

    def _on_all_rows(self, kind: Family, problem: Problem) -> Problem:
        """Return all rows under a family, with the rounding errors of another problem."""
        on_all = self.on_all[kind.untied.gaussian].replace(family=kind)
        return on_all.replace(measurement=problem.measurement) if problem.is_rounded else on_all

    def _not_behind(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return the candidates, fitted to the same rows, that are not behind by more than chance."""
        best = min(candidates, key=lambda each: self.values[each])
        densities, near = _densities(self.optima[best]), []
        scale = self.whole.weight / self.optima[best].problem.weight
        for each in candidates:
            gaps = densities - _densities(self.optima[each])
            error = 2 * scale * float(np.std(gaps)) * np.sqrt(len(gaps))
            reach = max(SETTINGS.chance_errors * error, SETTINGS.final_reach)
            if self.values[each] <= self.values[best] + reach:
                near.append(each)
        return near

    def _continue(self, candidate: Candidate, rows: Rows | None) -> None:
        """Fit a candidate to more rows, from where it is; to all of them, until its optimum."""
        problem, fit = self.optima[candidate]
        more = self._on_all_rows(candidate.family, problem)
        if rows is None:
            found = self._converged(more, fit, self._prior(more))
        else:
            more = more.replace(rows=rows, threads=1)
            # A few passes: it is near the optimum, or far behind.
            stop = Stop(SETTINGS.short_steps, gain=SETTINGS.sample_tolerance)
            (found,) = run(more, [fit], self._prior(more), stop)
            found = _exact(more, replace(found, n_iter=fit.n_iter + found.n_iter))
        if self._is_regular(more, found.parameters):
            self._keep(candidate, Optimum(more, found))
        else:
            self.failed[candidate] = NO_MAXIMUM
            del self.optima[candidate]


def _bounded_by(candidate: Candidate) -> tuple[bool, bool]:
    """Return what orders candidates so that each comes after those that bound it."""
    return candidate.family.dof is not None, candidate.family.gaussian not in FORMS


def contains(larger: Family, smaller: Family) -> bool:
    """Return whether every mixture of a family is one of another, so that it cannot be more likely.

    Volume, shape and orientation of the larger family are each at least as free. Spherical components have
    the identity as their shape, which is one shape that components can share.
    """
    if larger == smaller:
        return True
    if larger.dof != smaller.dof and larger.dof != "own":
        return False
    if not all(_CODE.fullmatch(kind.code) for kind in (larger, smaller)):
        return False
    volume, shape, orientation = tuple(smaller.code)
    if larger.code[0] not in _PARTS[volume]:
        return False
    return shape == "I" or (larger.code[1] in _PARTS[shape] and larger.code[2] in _ORIENTATIONS[orientation])


def _are_neighbours(first: Candidate, second: Candidate) -> bool:
    """Return whether candidates differ by one component, or one of their families contains the other."""
    if first.family == second.family:
        return abs(first.n_components - second.n_components) == 1
    is_nested = contains(first.family, second.family) or contains(second.family, first.family)
    return first.n_components == second.n_components and is_nested


def _better(optimum: Optimum | None, other: Optimum | None) -> Optimum | None:
    """Return the better of two fits; the first, if the other is better by rounding only."""
    if optimum is None or other is None:
        return other if optimum is None else optimum
    return other if is_better(other.fit, optimum.fit) else optimum


def _exact(problem: Problem, fit: Fit) -> Fit:
    """Return a fit with the likelihood of the mixture itself, also if that of EM has rounding errors."""
    if not problem.is_rounded:
        return fit
    return replace(fit, log_likelihood=float(problem.exact.e_step(fit.parameters[None])[1][0]))


def _densities(optimum: Optimum) -> Array:
    """Return the log-density of each row, in the units of the data."""
    densities = np.asarray(optimum.problem.row_responsibilities(optimum.fit.parameters)[1])
    return densities + optimum.problem.whitening.log_det
