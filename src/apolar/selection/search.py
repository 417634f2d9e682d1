"""Fits of many candidates at once by maximum likelihood: shared starts, short runs, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.threads import run_in_threads
from apolar.em.kernels.runs import plain_runs
from apolar.em.loop import converge
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.rounding import has_rounding, is_narrower, rounding_variances, with_rounding
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.search.merging import merged_pairs
from apolar.search.proposals import with_one_more
from apolar.search.search import portfolio
from apolar.selection.comparable import NO_MAXIMUM, contains, is_regular
from apolar.selection.progress import FITTING, REFINING, Progress
from apolar.selection.starts import FORMS, PLAIN_TREE, SharedStarts

__all__ = ["Candidate", "Found", "LikelihoodSearch", "continued", "is_regular"]

# Steps of EM from each start, how many of the results are kept, more of those that bound others, the steps
# and relative tolerance of the runs from these.
SHORT_STEPS = 12
KEPT = 1
KEPT_OF_FORMS = 2
STEPS = 300
RELATIVE_TOLERANCE = 1e-7
# Candidates whose criterion is above the lowest by no more than this are fitted again from others; those of
# the second number are run closer to their optimum, and those of the third until nothing is left to gain.
REACH = 30.0
FINAL_REACH = 10.0
LAST_REACH = 2.0
CLOSE_STEPS = 2000
CLOSE_TOLERANCE = 1e-9
# The tolerance of the last run, in the log-likelihood of all rows, and its most passes.
TOLERANCE = 1e-3
PASSES = 500
# The least gain of log-likelihood for which a fit replaces another.
MIN_GAIN = 1e-3
# Pairs of components that are merged, and steps of EM after a change of a neighbour.
PAIRS = 5
CHANGED_STEPS = 8


@dataclass(frozen=True)
class Candidate:
    """A family and a number of components."""

    family: Family
    n_components: int


@dataclass(frozen=True, eq=False)
class Found:
    """The best fit of a candidate so far: a maximum of the likelihood.

    Attributes
    ----------
    data : Problem
        The rows under its family. If it has the rounding errors of its columns, no component is narrower than
        these.
    parameters : WhitenedParameters
    log_likelihood : float
        In whitened coordinates.
    start : str
    n_iter : int
    converged : bool
    """

    data: Problem
    parameters: WhitenedParameters
    log_likelihood: float
    start: str
    n_iter: int
    converged: bool

    @property
    def value(self) -> float:
        """The log-likelihood in the units of the data."""
        return self.log_likelihood + self.data.whitening.log_det * self.data.weight

    @property
    def result(self) -> Fit:
        """The fit as a start of EM."""
        return Fit(self.parameters, self.start)


class LikelihoodSearch:
    """The fits of candidates to rows in memory.

    Parameters
    ----------
    by_form : dict of Family to Problem
        The rows under each of `FORMS`.
    least : callable
        The least value that the criterion of a candidate can have at a log-likelihood of these rows.
    criterion : callable
        The criterion of a candidate and its fit; lower is better.
    seed : int
    n_threads : int
    scale : float, default=1.0
        The weight of all rows that the criterion is for, relative to that of these rows. If these are only
        some of them, no candidate is dropped by its bound.
    """

    def __init__(
        self,
        by_form: dict[Family, Problem],
        least: Callable[[Candidate, float], float],
        criterion: Callable[[Candidate, Found], float],
        seed: int,
        n_threads: int,
        scale: float = 1.0,
    ) -> None:
        self.scale = scale
        self.by_form, self.starts = by_form, SharedStarts(by_form, seed)
        self.least, self.criterion = least, criterion
        self.seed, self.n_threads = seed, n_threads
        self._rounding = rounding_variances(by_form[FORMS[0]])
        self.found: dict[Candidate, Found] = {}
        # The criterion of each candidate that was fitted.
        self.values: dict[Candidate, float] = {}
        self.failed: dict[Candidate, str] = {}
        # Why candidates were not fitted: the least value that their criterion can have.
        self.bounds: dict[Candidate, tuple[float, str]] = {}

    def run(self, candidates: Iterable[Candidate], progress: Progress | None = None) -> None:
        """Fit all candidates."""
        candidates = list(candidates)
        progress = Progress(None) if progress is None else progress
        # Those that others are bounded by come first.
        n_done = 0
        for are_forms in (True, False):
            chosen = [each for each in candidates if (each.family in FORMS) == are_forms]
            worth_it = [each for each in chosen if not self._is_hopeless(each)]
            # Candidates that cannot be the best are done with.
            progress.begin(FITTING, len(candidates), n_done + len(chosen) - len(worth_it))
            self._in_threads(self._fit, worth_it, progress)
            n_done += len(chosen)
        # From what each was fitted to by itself: so no candidate does worse because of another.
        alone, improved = dict(self.found), set[Candidate]()
        while wave := self._worth_improving(improved):
            improved.update(wave)
            progress.begin(REFINING, len(wave))
            self._in_threads(lambda each: self._improve(each, alone), wave, progress)
        self._in_threads(self._approach, self._within(FINAL_REACH))
        self._in_threads(self._finish, self._within(LAST_REACH))

    # --- what is fitted -------------------------------------------------------------------------

    def _is_hopeless(self, candidate: Candidate) -> bool:
        """Return whether a family that contains the candidate's is not likely enough; the bound is kept.

        The bound holds as far as the fits of the larger family are its best.
        """
        if not self.found or self.scale > 1:
            return False
        lowest = min(self.values.values())
        for form in FORMS:
            larger = self.found.get(Candidate(form, candidate.n_components))
            if larger is None or has_rounding(larger.data) or not contains(form, candidate.family):
                continue
            # The likelihood of more components is no lower, though the fit found may be.
            smaller = [
                found.value
                for other, found in self.found.items()
                if other.family == form and other.n_components <= candidate.n_components
            ]
            bound = self.least(candidate, max(smaller))
            if bound > lowest + FINAL_REACH:
                self.bounds[candidate] = bound, form.name
                return True
        return False

    def _keep(self, candidate: Candidate, found: Found) -> None:
        self.found[candidate], self.values[candidate] = found, self.criterion(candidate, found)

    def _within(self, reach: float) -> list[Candidate]:
        """Return the candidates whose criterion is above the lowest by no more than that."""
        most = min(self.values.values(), default=0.0) + reach * self.scale
        return [each for each, value in self.values.items() if value <= most]

    def _worth_improving(self, improved: set[Candidate]) -> list[Candidate]:
        """Return the candidates near the best, and those without a maximum next to one of them."""
        near = self._within(REACH)
        found = [each for each in near if each not in improved]
        failed = [each for each in self.failed if each not in improved]
        return found + [each for each in failed if any(_are_neighbours(each, other) for other in near)]

    def _in_threads(
        self,
        function: Callable[[Candidate], None],
        candidates: list[Candidate],
        progress: Progress | None = None,
    ) -> None:
        # The slowest first, so that the threads end at about the same time.
        work = sorted(candidates, key=lambda each: (each.family.n_axes, each.n_components))

        def call() -> None:
            while work:
                try:
                    candidate = work.pop()
                except IndexError:
                    return
                function(candidate)
                if progress is not None:
                    progress.step()

        run_in_threads(call, min(self.n_threads, len(work)))

    def _data(self, kind: Family) -> Problem:
        return self.by_form[kind.untied].under(kind)

    def _fit(self, candidate: Candidate) -> None:
        """Fit a candidate from the shared starts."""
        data = self._data(candidate.family)
        try:
            named = self.starts.mixtures(candidate.family, candidate.n_components)
            found = self._best_of(data, named, SHORT_STEPS)
            if candidate.n_components > 1:
                # A prior may lead away from a maximum that is higher.
                name, start = named[PLAIN_TREE]
                found = _higher(found, self._maximum(data, start, name))
        except (ValueError, ArithmeticError) as error:
            self.failed[candidate] = str(error)
            return
        if found is None:
            self.failed[candidate] = NO_MAXIMUM
        else:
            self._keep(candidate, found)

    def _best_of(
        self, data: Problem, named: list[tuple[str, WhitenedParameters]], n_steps: int
    ) -> Found | None:
        """Return the highest maximum near some starts, if there is one.

        Short runs under the conjugate prior, which keeps components from collapsing on the way, rank the
        starts. The best of them are run to their end, and on without the prior; the others only if a
        component of each of these collapses.
        """
        prior = Prior()
        names, mixtures = [name for name, _ in named], batch([mixture for _, mixture in named])
        short = plain_runs(data, mixtures, prior, n_steps=n_steps, relative_tol=RELATIVE_TOLERANCE)
        values = np.where(np.isfinite(short.log_likelihood), short.log_likelihood, -np.inf)
        order = [int(i) for i in np.argsort(-values, kind="stable")]
        # Runs that are as high as another have reached the same.
        order = [i for j, i in enumerate(order) if j == 0 or values[order[j - 1]] - values[i] > MIN_GAIN]
        n_kept = KEPT_OF_FORMS if data.family in FORMS else KEPT
        kept = order[:n_kept]
        runs = plain_runs(
            data, short.parameters[np.array(kept)], prior, n_steps=STEPS, relative_tol=RELATIVE_TOLERANCE
        )
        best: Found | None = None
        for j, i in enumerate(kept):
            if np.isfinite(runs.log_likelihood[j]):
                steps = int(short.n_steps[i] + runs.n_steps[j])
                best = _higher(best, self._maximum(data, runs.parameters[j], names[i], steps))
        # Rounded rows are searched once more where that may matter: see `_searched`.
        for i in order[n_kept:] if best is None and not np.any(self._rounding) else ():
            best = _higher(best, self._maximum(data, short.parameters[i], names[i], int(short.n_steps[i])))
        return best

    def _maximum(self, data: Problem, start: WhitenedParameters, name: str, n_iter: int = 0) -> Found | None:
        """Return the maximum of the likelihood near a mixture; None if a component collapses.

        Where it collapses on rows that are equal because they are rounded, the maximum is that of rows that
        are known up to their rounding errors.
        """
        runs = plain_runs(data, start[None], None, n_steps=STEPS, relative_tol=RELATIVE_TOLERANCE)
        parameters, value, steps = runs.parameters[0], float(runs.log_likelihood[0]), int(runs.n_steps[0])
        found = Found(data, parameters, value, name, n_iter + steps, steps < STEPS)
        is_finite = np.isfinite(value) and parameters.is_finite
        if is_finite and not is_narrower(data, parameters, self._rounding):
            return found if not runs.is_collapsed[0] and is_regular(data, parameters) else None
        if not np.any(self._rounding):
            return None
        # From the start: what led to the collapse is not near the maximum.
        return self._rounded_maximum(data.with_noise(self._rounding), start, name, n_iter)

    def _rounded_maximum(
        self, rounded: Problem, start: WhitenedParameters, name: str, n_iter: int = 0
    ) -> Found | None:
        """Return the maximum for rows that are known up to their rounding errors; None if there is none."""
        result = converge(rounded, Fit(start, name), None, tol=TOLERANCE, max_iter=PASSES)
        found = exact(continued(Found(rounded, start, -np.inf, name, n_iter, False), result))
        return found if is_regular(rounded, found.parameters) else None

    # --- from one candidate to another ------------------------------------------------------------

    def _improve(self, candidate: Candidate, alone: dict[Candidate, Found]) -> None:
        """Fit a candidate from its neighbours, each as it was fitted by itself; keep what is better."""
        own, k, data = alone.get(candidate), candidate.n_components, self._data(candidate.family)
        named: list[tuple[str, WhitenedParameters]] = []
        rng = np.random.default_rng([self.seed, k, 1])
        smaller, larger = (alone.get(replace(candidate, n_components=n)) for n in (k - 1, k + 1))
        if smaller is not None:
            grown = with_one_more(data, smaller.parameters, rng)
            named += [(f"split of {k - 1}", mixture) for mixture in grown]
        if larger is not None:
            merged = merged_pairs(data, larger.parameters, PAIRS)
            named += [(f"merger of {k + 1}", data.family.m_step(stats, Prior())) for stats in merged]
        for other, found in alone.items():
            is_contained = other.n_components == k and contains(candidate.family, other.family)
            if is_contained and (own is None or found.value > own.value):
                named.append((f"start from {other.family.name}", self._transferred(found, data)))
        better = self._best_of(data, named, CHANGED_STEPS) if named else None
        if own is None or has_rounding(own.data):
            better = _higher(better, self._searched(data, k, rng))
        if better is not None and _higher(own, better) is better:
            self._keep(candidate, better)
            self.failed.pop(candidate, None)

    def _searched(self, data: Problem, n_components: int, rng: np.random.Generator) -> Found | None:
        """Return the maximum for rounded rows that the search for one mixture leads to."""
        if not np.any(self._rounding):
            return None
        rounded, prior = with_rounding(data, Prior(), self._rounding)
        best: Found | None = None
        for start in portfolio(rounded, n_components, prior, rng):
            best = _higher(best, self._rounded_maximum(rounded, start.parameters, start.start))
        return best

    def _transferred(self, found: Found, data: Problem) -> WhitenedParameters:
        """Return the M-step of a family from the responsibilities of a fit of another one."""
        responsibilities = np.asarray(found.data.row_responsibilities(found.parameters)[0])
        return data.family.m_step(data.soft_stats(responsibilities), Prior())

    def _approach(self, candidate: Candidate) -> None:
        """Run a fit nearer to its optimum."""
        found = self.found[candidate]
        if has_rounding(found.data):
            return
        runs = plain_runs(
            found.data, found.parameters[None], None, n_steps=CLOSE_STEPS, relative_tol=CLOSE_TOLERANCE
        )
        parameters, value, steps = runs.parameters[0], float(runs.log_likelihood[0]), int(runs.n_steps[0])
        if is_regular(found.data, parameters) and value >= found.log_likelihood:
            closer = replace(found, parameters=parameters, log_likelihood=value, n_iter=found.n_iter + steps)
            self._keep(candidate, replace(closer, converged=steps < CLOSE_STEPS))

    def _finish(self, candidate: Candidate) -> None:
        """Run a fit to its optimum, and see that it is one."""
        found = self.found[candidate]
        data = found.data
        result = converge(data, found.result, None, tol=TOLERANCE, max_iter=PASSES, checked_on=data)
        finished = exact(continued(found, result))
        if is_regular(data, result.parameters) and finished.log_likelihood >= found.log_likelihood:
            self._keep(candidate, finished)


def continued(found: Found, result: Fit) -> Found:
    """Return a fit after a further run."""
    return replace(
        found,
        parameters=result.parameters,
        log_likelihood=result.log_likelihood,
        n_iter=found.n_iter + result.n_iter,
        converged=result.status is FitStatus.CONVERGED,
    )


def exact(found: Found) -> Found:
    """Return a fit with the likelihood of the mixture itself, also if that of EM has rounding errors."""
    if not has_rounding(found.data):
        return found
    data = found.data.with_noise(np.zeros(found.data.n_features))
    return replace(found, log_likelihood=float(data.e_step(found.parameters[None])[1][0]))


def _are_neighbours(first: Candidate, second: Candidate) -> bool:
    """Return whether candidates differ by one component, or one of their families contains the other."""
    if first.family == second.family:
        return abs(first.n_components - second.n_components) == 1
    is_nested = contains(first.family, second.family) or contains(second.family, first.family)
    return first.n_components == second.n_components and is_nested


def _higher(found: Found | None, other: Found | None) -> Found | None:
    """Return the fit of the higher likelihood; the first, if the other is higher by rounding only."""
    if found is None or other is None:
        return other if found is None else found
    return other if other.value > found.value + MIN_GAIN else found
