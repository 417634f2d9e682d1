"""The search for the best mixture: candidates from starts, EM on samples of the rows, and then on all."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.em.left_out import best_strengths
from apolar.em.low_density import as_start_on, with_noise_share, without_low_density
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus, SearchCost
from apolar.em.run import Callback, Stop, has_compiled_run, is_quick, leave_rows_out, run
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import AdaptivePrior, Prior, Shrinkage, Strengths
from apolar.search.factor_numbers import mixture_of_shares
from apolar.search.merging import is_crowded, merged_pairs, merging_costs, mixture_distances, untied_stats
from apolar.search.moment_starts import from_moments
from apolar.search.proposals import dropped_stats, exchanges, extend_mixture, extensions
from apolar.search.starts import from_kmeans, overseeded_mixtures

__all__ = [
    "Candidates",
    "SearchReport",
    "affords_all_starts",
    "approach",
    "beside_noise",
    "best_first",
    "best_fit",
    "is_better",
    "one_component",
    "portfolio",
    "race",
    "work_of_pass",
]


SearchReport = Callable[[SearchCost], object]
"""Takes what a search took so far."""

# The strongest of all priors: components have equal weights and the same diagonal covariance, as in k-means.
ALIKE = Strengths(1e5, 1.0, 1e5, 1e5)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The source of the candidates of a fit.

    Attributes
    ----------
    draw : callable
        Takes a generator and returns candidates, the best first.
    n_init : int
        How many times to call it: once, if it does not depend on the generator.
    keeps_order : bool
        Whether components stay in the order in which the user gave them.
    """

    draw: Callable[[np.random.Generator], list[Fit]]
    n_init: int = 1
    keeps_order: bool = True


def best_fit(
    data: Problem,
    prior: Prior | None,
    start: Candidates,
    *,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    sample: Problem,
    callback: Callback | None = None,
) -> tuple[Fit, list[Fit]]:
    """Return the best mixture of several starts, and all candidates.

    Parameters
    ----------
    data : Problem
    prior : Prior or None
    start : Candidates
    tol : float
        EM ends when less than this is left to gain in the log-likelihood of all rows together.
    max_iter : int
        The most passes of each run.
    rng : numpy.random.Generator
    sample : Problem
        Some of the rows, on the host, to check that EM ended at a maximum.
    callback : callable, optional

    Returns
    -------
    best : Fit
        With all starts that were skipped.
    candidates : list of Fit
    """
    best: Fit | None = None
    drawn: list[Fit] = []
    for _ in range(start.n_init):
        try:
            candidates = [as_start_on(data, candidate) for candidate in start.draw(rng)]
        except KeyboardInterrupt:
            if best is None:
                raise
            best = replace(best, status=FitStatus.INTERRUPTED)
            break
        drawn += candidates
        stop, start_of_all = Stop(max_iter, gain=tol), candidates[0]
        data, sample = (rows.for_mixture(start_of_all.parameters) for rows in (data, sample))
        is_interrupted = start_of_all.status is FitStatus.INTERRUPTED
        if is_interrupted:
            stop = Stop(0, gain=tol)
        else:
            start_of_all = _near_optimum_of_all(data, start_of_all, prior, max_iter)
        (result,) = run(
            data,
            [start_of_all],
            prior,
            stop,
            callback=callback,
            checked_on=sample,
            is_compared=start.n_init > 1,
        )
        if is_interrupted:
            result = replace(result, status=FitStatus.INTERRUPTED)
        best = result if best is None else best_first([best, result])[0]
        if result.status.is_stopped:
            best = replace(best, status=result.status)
            break
    assert best is not None
    skipped = dict.fromkeys(reason for candidate in drawn for reason in candidate.skipped)
    return replace(best, skipped=tuple(skipped)), drawn


def is_better(fit: Fit, other: Fit) -> bool:
    """Return whether a fit is better by more than rounding; of equal ones the first is kept."""
    return fit.score > other.score + 1e-12 * abs(other.score)


def _near_optimum_of_all(data: Problem, start: Fit, prior: Prior | None, max_iter: int) -> Fit:
    """Return a start after runs on growing samples of many rows, so that few passes over all are left."""
    n_parameters = data.family.n_parameters(start.parameters.n_components, data.n_features)
    steps, step = [], SETTINGS.growth
    # Strengths that were chosen are chosen again on all rows only.
    prior = None if prior is None else prior.of_strengths(start.strengths)
    while data.n_rows // step >= max(2 * SETTINGS.sample_rows, SETTINGS.approach_rows * n_parameters):
        steps.append(step)
        step *= SETTINGS.growth
    # Of samples less is known.
    for step in [] if start.is_from_all_rows or data.known is not None else reversed(steps):
        stop = Stop(min(max_iter, SETTINGS.sample_passes), gain=SETTINGS.sample_tolerance)
        rows = data.replace(rows=data.rows.systematic_sample(step))
        (start,) = run(rows, [start], prior, stop, is_compared=False)
    return start


def race(problem: Problem, starts: list[Fit], prior: Prior) -> list[Fit]:
    """Return starts after short runs of EM, the best first."""
    is_compiled = has_compiled_run(problem) and not isinstance(prior, AdaptivePrior)
    stop = Stop(SETTINGS.short_steps, SETTINGS.relative_tolerance if is_compiled else None)
    runs = [
        Fit(
            end.parameters,
            end.start,
            log_likelihood=end.score,
            gain=end.gain,
            n_iter=SETTINGS.short_steps,
        )
        for end in run(problem, starts, prior, stop)
    ]
    return best_first(runs)


def approach(problem: Problem, start: Fit, prior: Prior | None, max_iter: int, tol: float) -> Fit:
    """Return the end of one run near an optimum: by plain steps where the extension makes them."""
    if has_compiled_run(problem) and not isinstance(prior, AdaptivePrior):
        return run(problem, [start], prior, Stop(max_iter, SETTINGS.relative_tolerance))[0]
    n_plain = min(max_iter, SETTINGS.run_passes)
    is_settled = isinstance(prior, AdaptivePrior) and prior.strengths is not None
    if not (is_settled and n_plain and is_quick(problem, start.parameters.n_components)):
        return run(problem, [start], prior, Stop(max_iter, gain=tol), is_compared=False)[0]
    assert isinstance(prior, AdaptivePrior)
    # Where the same number of steps, each of the gain of the last one, would gain less than the tolerance.
    gain = tol / SETTINGS.run_passes
    (end,) = run(problem, [start], prior, Stop(n_plain, gain / (1 + abs(start.log_likelihood))))
    if end.status is FitStatus.CONVERGED and end.stats is not None:
        adapted = prior.adapted_to(problem.family, end.stats)
        strengths = adapted.strengths if isinstance(adapted, Shrinkage) else None
        return end.updated(prior=adapted, strengths=strengths)
    start = end.updated(status=FitStatus.NOT_RUN)
    (fit,) = run(problem, [start], prior, Stop(max_iter, gain=tol), is_compared=False)
    return fit.updated(n_iter=end.n_iter + fit.n_iter)


def one_component(problem: Problem, prior: Prior) -> WhitenedParameters:
    """Return the mixture of one component: the M-step from all rows."""
    return mixture_of_shares(problem.imputed(), np.ones((1, problem.n_rows)), prior)


def beside_noise(starts: list[Fit], share: float) -> list[Fit]:
    """Return starts on rows without noise as ones with noise of a share."""
    return [
        replace(start, parameters=with_noise_share(start.parameters, share), is_from_all_rows=False)
        for start in starts
    ]


def portfolio(
    data: Problem,
    n_components: int,
    prior: Prior | None,
    rng: np.random.Generator,
    report: SearchReport | None = None,
) -> list[Fit]:
    """Return the candidates of a portfolio of starts, run to their optima, the best first.

    Parameters
    ----------
    data : Problem
        If it has many rows, the search runs on a sample; the moments are those of all rows.
    n_components : int
    prior : Prior or None
        The search uses the default prior instead of None: without a prior, the likelihood is unbounded
        where a component collapses on a few rows.
    rng : numpy.random.Generator
    report : callable, optional
        Told about the work after each step.

    Returns
    -------
    candidates : list of Fit
        Optima on the rows of the search. Each lists the starts that were skipped.
    """
    search = SampleSearch(data, n_components, Prior() if prior is None else prior, rng)
    search.report = report
    try:
        finalists = search.run()
    except KeyboardInterrupt:
        if search.best is None:
            raise
        finalists = [replace(search.best, status=FitStatus.INTERRUPTED)]
    return [replace(fit, search=search.cost) for fit in finalists]


def work_of_pass(problem: Problem, n_components: int) -> float:
    """Return about how many multiplications one pass over the rows takes."""
    return float(problem.n_rows) * n_components * problem.n_stats


def affords_all_starts(problem: Problem, n_components: int) -> bool:
    """Return whether a search with all of its starts takes no longer than what takes no time."""
    of_start = (SETTINGS.seeds_per_component + 1) * SETTINGS.short_steps
    n_passes = 2 * SETTINGS.overseeded_starts * of_start
    return n_passes * work_of_pass(problem, n_components) <= SETTINGS.free_work


class SampleSearch:
    """The steps of the portfolio.

    Parameters
    ----------
    data : Problem
    n_components : int
    prior : Prior
    rng : numpy.random.Generator
    n_rows : int, optional
        Of the sample; by default as many as its parameters allow for.
    """

    def __init__(
        self,
        data: Problem,
        n_components: int,
        prior: Prior,
        rng: np.random.Generator,
        n_rows: int | None = None,
    ) -> None:
        self.data, self.n_components, self.prior, self.rng = data, n_components, prior, rng
        self.n_parameters = data.family.n_parameters(n_components, data.n_features)
        if n_rows is None:
            n_rows = min(SETTINGS.sample_rows, SETTINGS.work // self.n_parameters)
            n_rows = max(n_rows, SETTINGS.rows_per_parameter * self.n_parameters)
        # A sample is drawn only of more than twice its rows: of fewer, all rows cost little more, and give
        # the optima themselves. The search runs on the distinct rows of the sample.
        drawn = data.subsample(n_rows if data.n_rows > 2 * n_rows else data.n_rows, rng)
        self.n_drawn = drawn.n_rows
        self.is_on_sample = drawn is not data and drawn.n_rows < (data.rows.n_rows or data.n_rows)
        # In passes over the rows of the search: what EM runs on all rows take, or what takes no time.
        of_pass = work_of_pass(drawn, n_components)
        of_runs = SETTINGS.search_runs * SETTINGS.run_passes * data.n_rows / self.n_drawn
        self.budget = self.n_passes_left = max(of_runs, SETTINGS.free_work / of_pass)
        # The most passes of a run: where they take long, the budget is for moves to better optima.
        is_free = affords_all_starts(drawn, n_components)
        self.n_most = SETTINGS.sample_passes if is_free else SETTINGS.run_passes
        self.begun = time.perf_counter()
        self.sample = drawn.distinct()
        # Whether most of the short runs end as high as the best: there is one optimum, and it is found.
        self.starts_agree = False
        # Where strengths are chosen: those of the runs, and the start of components that are alike.
        self.strengths: Strengths | None = None
        self.alike: list[Fit] = []
        self.report: SearchReport | None = None
        # The last of the best mixtures: of an optimum or, before there is one, of a short run.
        self.best: Fit | None = None
        # The mixtures at which runs began and ended: arrays of their sufficient statistics.
        self.visited: list[Array] = []

    def run(self) -> list[Fit]:
        """Return the candidates, the best first."""
        ranked, moments, skipped = self.after_short_runs()
        self.compare_strengths(ranked[0])
        finalists = self.finalists(ranked)
        # With noise, all starts may have left the same cluster to it.
        if self.data.has_noise or not (self.n_components == 1 or self.starts_agree):
            finalists = self.after_split_and_merge(finalists)
        if self.is_on_sample and self.n_components > 1:
            larger = self.with_more_rows()
            if larger is not None:
                larger.starts_agree, larger.report = self.starts_agree, self.report
                # The best optimum of all rows may be none of those of the sample. Moments are those of all.
                finalists = larger.optima([*finalists[: SETTINGS.kept], *moments])
                finalists = larger.after_split_and_merge(finalists, n_rounds=1)
                self.n_passes_left -= (larger.budget - larger.n_passes_left) * larger.n_drawn / self.n_drawn
        return [replace(fit, skipped=skipped) for fit in finalists]

    @property
    def cost(self) -> SearchCost:
        """What the search took so far."""
        share = self.n_drawn / self.data.n_rows
        passes = (self.budget - self.n_passes_left) * share
        return SearchCost(passes, self.budget * share, self.n_drawn, time.perf_counter() - self.begun)

    def with_more_rows(self) -> SampleSearch | None:
        """Return the search on twice as many rows; None if it would cost too much."""
        n_rows = min(2 * self.n_drawn, self.data.n_rows)
        if self.n_drawn * self.n_parameters > SETTINGS.work:
            return None
        return SampleSearch(self.data, self.n_components, self.prior, self.rng, n_rows)

    def after_short_runs(self) -> tuple[list[Fit], list[Fit], tuple[str, ...]]:
        """Return starts after short runs, the best first; those from moments, and those that were skipped.

        With noise, they are those of the rows of higher density. Where the first half of the starts lead to
        one optimum, there are no more.
        """
        if self.n_components == 1:
            first = Fit(one_component(self.start_rows, self.prior), "moments")
            return self._race([first], self.prior), [], ()
        found, skipped = self._from_moments()
        moments, known = self._beside_noise(found), self._beside_noise(self._known_starts())
        starts, ranked = [*moments, *known], list[Fit]()
        # With the runs that rank them they take half of the budget; if it is small, seeds take no steps.
        of_steps = SETTINGS.seeds_per_component * SETTINGS.short_steps
        n_left = int(self.n_passes_left / 2 / (of_steps + SETTINGS.short_steps))
        n_steps = SETTINGS.short_steps if n_left else 0
        n_left = min(max(n_left, 1), SETTINGS.overseeded_starts)
        while n_left and not self.starts_agree:
            # Seeds for families that share a part of the covariances differ from each other.
            n_starts = n_left if ranked or self.data.family.shares_part else n_left - n_left // 2
            seeded = self.start_rows, self.n_components, self.prior, self.rng, n_starts, n_steps
            mixtures = overseeded_mixtures(*seeded)
            starts += self._beside_noise([Fit(parameters, "overseed") for parameters in mixtures])
            self._spend(n_starts * of_steps if n_steps else 0)
            ranked = best_first([*ranked, *self._race(starts, self.prior)])
            n_agreeing = sum(fit.score > ranked[0].score - SETTINGS.same_optimum for fit in ranked)
            self.starts_agree = n_agreeing >= max(SETTINGS.agreeing, len(ranked) - 1)
            starts, n_left = [], n_left - n_starts
        return ranked, moments, skipped

    @functools.cached_property
    def start_rows(self) -> Problem:
        """The rows that starts are found on."""
        return without_low_density(self.sample) if self.data.has_noise else self.sample

    def _beside_noise(self, starts: list[Fit]) -> list[Fit]:
        """Return starts on the rows of higher density as starts on all, if there is noise."""
        return beside_noise(starts, self.data.noise_share) if self.data.has_noise else starts

    def _from_moments(self) -> tuple[list[Fit], tuple[str, ...]]:
        """Return the start from the moments of all rows, or the reason why there is none."""
        rows = self.start_rows
        try:
            found = from_moments(rows, self.n_components, rows if self.data.has_noise else self.data)
        except ValueError as error:
            return [], (f"moments was skipped: {error}",)
        return [Fit(found, "moments", is_from_all_rows=rows.family.is_spherical)], ()

    def _known_starts(self) -> list[Fit]:
        """Return the starts from rows of known component, and from those nearest to where these are."""
        rows = self.start_rows
        if rows.known is None or not rows.known.names_components:
            return []
        if len(rows.targets) != self.n_components or not np.all(np.isfinite(rows.targets)):
            return []
        whole, components = rows.imputed(), np.arange(self.n_components)[:, None]
        several = whole.nearest_stats(rows.targets), whole.soft_stats(rows.known.labels == components)
        return [Fit(rows.m_step(each, self.prior), "known") for each in several if each.counts.min() > 0]

    def compare_strengths(self, best: Fit) -> None:
        """Choose the strengths of the runs by the best of the short runs, and find components alike."""
        if not isinstance(self.prior, AdaptivePrior):
            return
        self.strengths = self._strengths(self.prior, best)
        # With many rows for each parameter, one optimum that all lead to is that of any strengths.
        is_open = not self.starts_agree or is_crowded(self.sample, self.n_components)
        is_compared = self.n_components > 1 and is_open and self._affords(2 * SETTINGS.run_passes)
        if self.strengths is None or not is_compared:
            return
        prior = self.prior.of_strengths(ALIKE)
        kmeans = from_kmeans(self.sample, self.n_components, prior, self.rng, SETTINGS.kept)
        alike = self._race([Fit(kmeans, "kmeans")], prior)[0]
        chosen = replace(alike, strengths=self._strengths(self.prior, alike, ALIKE))
        self.alike = [chosen, replace(alike, strengths=ALIKE, keeps_strengths=True)]

    def _strengths(self, prior: AdaptivePrior, fit: Fit, first: Strengths | None = None) -> Strengths | None:
        """Return the strengths under which rows left out are likeliest; None if the prior has none."""
        sample, parameters = self.sample, fit.parameters
        stats, likelihood = sample.e_step(parameters[None])
        adapted = prior.of_strengths(first).adapted_to(sample.family, stats[0])
        if not isinstance(adapted, Shrinkage) or adapted.strengths is None:
            return None
        known = stats[0], prior, adapted.strengths, parameters, sample.weight, float(likelihood[0])
        return best_strengths(sample.few, *known)[0]

    def finalists(self, ranked: list[Fit]) -> list[Fit]:
        """Return the best of the short runs, run to their optima."""
        # The moments, which do not depend on chance, are among them if the budget allows for them.
        chosen = ranked[: SETTINGS.kept] + [fit for fit in ranked[SETTINGS.kept :] if fit.start == "moments"]
        optima = self.optima(chosen)
        return self._best_first([*optima, *(self._optimum(each) for each in self.alike)])

    def _best_first(self, fits: list[Fit]) -> list[Fit]:
        """Return optima, the best first; rows are left out of them if there are several."""
        if len(fits) > 1:
            rows, weight = self.sample.compared, self.sample.weight
            fits = [leave_rows_out(rows, fit, self.prior, weight) for fit in fits]
        return best_first(fits)

    def _spend(self, n_passes: float) -> None:
        """Take passes from the budget."""
        self.n_passes_left -= n_passes
        if self.report is not None:
            self.report(self.cost)

    def _affords(self, n_passes: float) -> bool:
        """Return whether the budget of the search has this many passes left."""
        return self.n_passes_left >= n_passes

    def _race(self, starts: list[Fit], prior: Prior) -> list[Fit]:
        """Return starts after short runs, the best first."""
        self._spend(len(starts) * SETTINGS.short_steps)
        ranked = race(self.sample, starts, prior)
        if self.best is None or self.best.n_iter == SETTINGS.short_steps:
            self.best = ranked[0]
        return ranked

    def optima(self, candidates: list[Fit], most: int | None = None) -> list[Fit]:
        """Return the optima that candidates lead to, the best first; no more than `most` of them are run.

        Candidates near a mixture at which a run began or ended lead to the same optimum, and are not run.
        """
        optima: list[Fit] = []
        for start in candidates:
            is_afforded = not optima or self._affords(SETTINGS.run_passes)
            if len(optima) == most or not is_afforded or self._is_visited(start):
                continue
            # One that cannot catch up makes a few steps, for the comparison of shapes.
            n_most = SETTINGS.short_steps if self._is_behind(start) else self.n_most
            optima.append(self._optimum(start, n_most))
        ranked = self._best_first(optima)
        if ranked and (self.best is None or not ranked[0].score < self.best.score):
            self.best = ranked[0]
        return ranked

    def _optimum(self, start: Fit, n_most: int = SETTINGS.sample_passes) -> Fit:
        """Return the optimum of a run, under the strengths of its start, or else those of the search."""
        prior = self.prior.of_strengths(start.strengths).of_strengths(self.strengths)
        fit = approach(self.sample, start, prior, n_most, SETTINGS.sample_tolerance)
        self._spend(fit.n_iter)
        self.visited += [untied_stats(self.sample, each.parameters).array for each in (start, fit)]
        return fit

    def _is_behind(self, start: Fit) -> bool:
        """Return whether a candidate stays below the best mixture if each step gains as much as its last one.

        This assumes that rows left out cost it nothing, and the best mixture a nat for each parameter.
        """
        highest = start.log_likelihood + SETTINGS.run_passes * start.gain + self.n_parameters
        return self.best is not None and highest < self.best.log_likelihood

    def _is_visited(self, start: Fit) -> bool:
        """Return whether a run began or ended near a mixture."""
        stats = untied_stats(self.sample, start.parameters)
        if not self.visited:
            return False
        visited = SufficientStats(np.stack(self.visited), stats.n_features)
        distances = mixture_distances(self.sample.family.untied, stats, visited)
        # With noise, components at the same places may hold a cluster, or leave it to the noise.
        distances = distances + np.abs(visited.counts.sum(axis=-1) - stats.counts.sum())
        return bool(np.any(distances < SETTINGS.same_optimum))

    def after_split_and_merge(self, finalists: list[Fit], n_rounds: int = SETTINGS.kept) -> list[Fit]:
        """Return the finalists and the optima that rounds of split and merge reach from the best of them."""
        for i in range(n_rounds):
            best = finalists[0]
            if i and not self._affords(SETTINGS.run_passes):
                break
            found = self.optima(self._split_and_merged(best), most=1)
            if not found:
                break
            finalists = self._best_first([*finalists, *found])
            before = next(fit for fit in finalists if fit.parameters is best.parameters)
            if finalists[0].score < before.score + SETTINGS.sample_tolerance:
                break
        return finalists

    def _split_and_merged(self, best: Fit) -> list[Fit]:
        """Return mixtures reached from a candidate by adding a component and then merging two."""
        # Under the strengths of the candidate, if there are any.
        strengths, sample = best.strengths, self.sample
        prior = self.prior.of_strengths(strengths)
        completed = sample.imputed(best.parameters)
        stats = untied_stats(sample, best.parameters)
        larger = extensions(completed, best.parameters, prior)
        costs, pairs = merging_costs(completed, best.parameters)
        # What EM makes of a proposal may be more than it promises, which is tried where that takes no time.
        is_promising = len(larger) and len(costs) and larger[0].gain > costs[0]
        if not is_promising and (self.starts_agree or not affords_all_starts(sample, self.n_components)):
            return []
        exchanged = exchanges(stats, larger, costs, pairs)
        merged = [] if exchanged is None else [exchanged]
        # The others replace one component each, after which all are near enough to move to.
        n_tried = (self.n_passes_left - SETTINGS.run_passes) / SETTINGS.short_steps - len(merged)
        for each in larger[: int(np.clip(n_tried / SETTINGS.kept, not merged, SETTINGS.kept))]:
            parameters = sample.m_step(extend_mixture(stats, [each]), prior.conjugate)
            merged += [stats.array for stats in merged_pairs(completed, parameters, SETTINGS.kept)]
            merged += [stats.array for stats in dropped_stats(completed, parameters, SETTINGS.kept)]
        if not merged:  # all mergers cost more than numbers can say
            return []
        # The short runs that follow adapt the prior.
        starts = sample.m_step(SufficientStats(np.stack(merged), sample.n_features), prior.conjugate)
        name = best.start if best.start.endswith("+split") else f"{best.start}+split"
        fits = self._race([Fit(starts[i], name) for i in range(len(merged))], prior)
        return [replace(fit, strengths=strengths) for fit in fits]


def best_first(candidates: list[Fit]) -> list[Fit]:
    """Return the candidates, the best first.

    That is the one under which rows left out are likeliest; of those that these rows do not tell from it, by
    one standard error, the one of the best trade-off with what it owes to having seen the rows. But where a
    core and a tail, or edges, take the place of clusters, the one of the better shapes.
    """
    if not candidates:
        return []
    ranked = sorted(candidates, key=lambda candidate: -candidate.score)
    near = [fit for fit in ranked if fit.is_near(ranked[0])]
    best = max(near, key=lambda fit: fit.score - SETTINGS.price * fit.optimism, default=ranked[0])
    shaped = max(ranked, key=lambda fit: -np.inf if fit.elliptical is None else fit.elliptical.sum())
    if best.has_worse_shapes(shaped):
        best = shaped.updated(keeps_strengths=True)
        ranked = [best if fit is shaped else fit for fit in ranked]
    return sorted(ranked, key=lambda fit: fit is not best)
