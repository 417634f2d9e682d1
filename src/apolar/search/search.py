"""The default start: a portfolio of starts, short runs of EM, and rounds of split and merge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.em.low_density import without_low_density
from apolar.em.problem import Problem
from apolar.em.result import Fit, is_empty
from apolar.em.run import Stop, run
from apolar.em.tails import has_long_tails
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.search.merging import merged_pairs, mixture_distances, untied_stats
from apolar.search.moment_starts import from_moments, from_moments_with_one_merged
from apolar.search.proposals import dropped_stats, with_one_more
from apolar.search.simplified import diagonal_problem, projected_problem
from apolar.search.starts import STARTS, as_start_with_noise, overseeded_mixtures


def start_candidates(
    name: str, data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> list[Fit]:
    """Return the candidates of a start, the best first.

    Parameters
    ----------
    name : str
        One of `STARTS`.
    data : Problem
    n_components : int
    prior : Prior or None
    rng : numpy.random.Generator

    Returns
    -------
    candidates : list of Fit
        Those of "auto" are optima of EM on a sample of the rows; the others are where EM is to start.
    """
    entry = STARTS[name]
    is_search = entry.start is None
    if n_components == 1:
        return portfolio(data, n_components, prior, rng)
    if data.whitening.has_noise_component and not is_search:
        share = data.whitening.noise_shares[-1]
        kept = without_low_density(data.subsample(2 * SETTINGS.sample_rows, rng), share)
        candidates = start_candidates(name, kept, n_components, prior, rng)
        return [as_start_with_noise(candidate, share) for candidate in candidates]
    if not entry.sees_all_rows:
        problem = (
            projected_problem(data, n_components, rng)
            if data.is_wide
            else diagonal_problem(data, rng, is_search=is_search)
        )
        if problem is not None:
            simple_candidates = start_candidates(name, problem.simple, n_components, prior, rng)
            return problem.starts(simple_candidates, prior)
    seen = (
        data if entry.sees_all_rows or is_search else data.subsample(2 * SETTINGS.sample_rows, rng).distinct()
    )
    if entry.start is None:
        return portfolio(seen, n_components, prior, rng)
    try:
        made = entry.start(seen, n_components, prior, rng)
        # Moments describe spherical components: for other families they are only a rough start.
        return [Fit(made, name, is_from_all_rows=entry.sees_all_rows and data.family.is_spherical)]
    except ValueError as error:
        if entry.fallback is None:
            raise
        remark = f"{name} was skipped, and {entry.fallback} used in its place: {error}"
    candidates = start_candidates(entry.fallback, data, n_components, prior, rng)
    return [replace(candidate, skipped=(remark, *candidate.skipped)) for candidate in candidates]


def portfolio(data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator) -> list[Fit]:
    """Return the candidates of a portfolio of starts, run to their optima, the best first.

    Parameters
    ----------
    data : Problem
        If it has many rows, the search runs on a sample; the moments are those of all rows.
    n_components : int
    prior : Prior or None
        The search uses the default prior in place of None: without a prior, the likelihood is unbounded
        where a component collapses on a few rows.
    rng : numpy.random.Generator

    Returns
    -------
    candidates : list of Fit
        Optima on the rows of the search. Each lists the starts that were skipped.
    """
    prior = Prior() if prior is None else prior
    search = _Search(data, n_components, prior, rng)
    if n_components == 1:
        single = [search.single_component()]
        # Beside noise it may be any one of the clusters.
        return search.after_split_and_merge(single) if data.whitening.has_noise_component else single
    starts, skipped = search.starts()
    short_run_results, is_long_tailed = search.after_short_runs_with_prior(starts)
    if not search.starts_agree and search.is_on_sample:
        larger = _Search(data, n_components, prior, rng, SETTINGS.rows_if_disagreeing)
        if larger.drawn_rows.n_rows > search.drawn_rows.n_rows:
            search = larger
            starts, skipped = search.starts()
            short_run_results, is_long_tailed = search.after_short_runs_with_prior(starts)
    finalists = search.finalists(short_run_results)
    # Beside noise all starts may have left the same cluster to it.
    if not search.starts_agree or data.whitening.has_noise_component:
        finalists = search.after_split_and_merge(finalists)
    if search.is_on_sample:
        moments = [start for start in starts if start.start == "moments"]
        finalists = search.ranked_on_other_rows([*finalists, *moments])
        if search.starts_agree:
            # All would lead to one optimum on all rows.
            finalists = [replace(candidate, is_contender=False) for candidate in finalists]
        elif search.can_continue and any(candidate.is_contender for candidate in finalists):
            finalists = search.with_more_rows().continued(finalists)
        if search.is_crowded and not search.starts_agree:
            best_short_run = search.ranked_on_other_rows(short_run_results)[0]
            finalists.append(replace(best_short_run, is_contender=True))
    return [replace(candidate, skipped=skipped, has_long_tails=is_long_tailed) for candidate in finalists]


class _Search:
    """The steps of the portfolio.

    Parameters
    ----------
    data : Problem
    n_components : int
    prior : Prior
    rng : numpy.random.Generator
    rows_per_parameter : int, default=SETTINGS.rows_per_parameter
        The least number of rows of the sample, relative to that of parameters.
    n_rows : int, optional
        The number of rows of the sample in its place.
    """

    def __init__(
        self,
        data: Problem,
        n_components: int,
        prior: Prior,
        rng: np.random.Generator,
        rows_per_parameter: int = SETTINGS.rows_per_parameter,
        n_rows: int | None = None,
    ) -> None:
        self.data, self.n_components, self.prior, self.rng = data, n_components, prior, rng
        # A sample is drawn only of more than twice its rows: of fewer, all rows cost little more, and give
        # the optima themselves. The search runs on the distinct rows of the sample.
        # Whether this continues a search on a smaller sample.
        self.is_continued = n_rows is not None
        if n_rows is None:
            n_rows = max(
                min(SETTINGS.sample_rows, SETTINGS.work // self.n_parameters),
                rows_per_parameter * self.n_parameters,
            )
        self.drawn_rows = data.subsample(n_rows if data.n_rows > 2 * n_rows else data.n_rows, rng)
        self.sample = self.drawn_rows.distinct()
        # Drawn when it is needed: see `comparison_rows`.
        self._comparison_rows: Problem | None = None
        # Whether most of the short runs end as high as the best: there is one optimum, and it is found.
        self.starts_agree = False
        # The mixtures at which runs began and ended: arrays of their sufficient statistics.
        self.visited: list[Array] = []

    @property
    def n_parameters(self) -> int:
        """The number of free parameters."""
        return self.data.family.n_parameters(self.n_components, self.data.n_features)

    @property
    def is_on_sample(self) -> bool:
        """Whether the search runs on a sample of the rows."""
        available = self.data.rows.n_rows or self.data.n_rows
        return self.drawn_rows is not self.data and self.drawn_rows.n_rows < available

    @property
    def is_crowded(self) -> bool:
        """Whether there are so few rows per parameter that the sample has optima that all rows do not have.

        The result of a short run, which has not reached such an optimum, is then a candidate too.
        """
        return self.drawn_rows.n_rows < SETTINGS.crowded_rows * self.n_parameters

    @property
    def comparison_rows(self) -> Problem:
        """Rows on which candidates that were fitted to the sample are compared."""
        # Not a cached_property: before Python 3.12 it holds a lock, here while a cluster computes.
        if self._comparison_rows is None:
            self._comparison_rows = self.data.subsample(SETTINGS.sample_rows, self.rng)
        return self._comparison_rows

    def single_component(self) -> Fit:
        """Return the mixture of one component."""
        whitening, sample = self.data.whitening, self.sample
        if whitening.has_noise_component:
            sample = without_low_density(sample, whitening.noise_shares[-1])
        stats = sample.soft_stats(np.ones((1, sample.n_rows)))
        start = Fit(sample.family.m_step(stats, self.prior), "moments")
        if whitening.has_noise_component:
            start = as_start_with_noise(start, whitening.noise_shares[-1])
        return self._converged(start)

    def starts(self) -> tuple[list[Fit], tuple[str, ...]]:
        """Return the starts of the search, and those that were skipped, with the reason.

        Beside noise, they are those of the rows of higher density.
        """
        if not self.data.whitening.has_noise_component:
            return self._starts_on(self.sample, self.data)
        candidates: list[Fit] = []
        skipped: tuple[str, ...] = ()
        for share in self.data.whitening.noise_shares:
            kept = without_low_density(self.sample, share)
            starts, skipped = self._starts_on(kept, kept)
            candidates += [as_start_with_noise(start, share) for start in starts]
        return candidates, skipped

    def _starts_on(self, sample: Problem, source: Problem) -> tuple[list[Fit], tuple[str, ...]]:
        """Return the starts on some rows, with the moments of others, and those that were skipped."""
        n_components = self.n_components
        candidates, skipped = [], []
        methods: dict[str, Callable[[], WhitenedParameters]] = {
            "moments": lambda: from_moments(sample, n_components, source),
            "moments+1": lambda: from_moments_with_one_merged(sample, n_components, self.prior),
        }
        for name, method in methods.items():
            try:
                is_from_all_rows = name == "moments" and sample.family.is_spherical
                candidates.append(Fit(method(), name, is_from_all_rows=is_from_all_rows))
            except ValueError as error:
                skipped.append(f"{name} was skipped: {error}")
        mixtures = overseeded_mixtures(sample, n_components, self.prior, self.rng, SETTINGS.overseeded_starts)
        candidates += [Fit(parameters, "overseed") for parameters in mixtures]
        return candidates, tuple(skipped)

    def after_short_runs_with_prior(self, candidates: list[Fit]) -> tuple[list[Fit], bool]:
        """Return the starts after short runs, the best first, and whether the rows have long tails.

        If they have, the prior of the search is the conjugate one from then on.
        """
        results = self.after_short_runs(candidates)
        if not (self.prior.compares_by_evidence and has_long_tails(self.sample, results[0].parameters)):
            return results, False
        self.prior = self.prior.conjugate
        return self.after_short_runs(candidates), True

    def after_short_runs(self, candidates: list[Fit]) -> list[Fit]:
        """Return the starts after short runs, the best first."""
        runs = run(self.sample, candidates, self.prior, Stop(SETTINGS.short_steps))
        scores = np.array([each.score for each in runs])
        n_agreeing = np.count_nonzero(scores > scores.max() - SETTINGS.same_optimum)
        self.starts_agree = bool(n_agreeing >= SETTINGS.agreeing)
        return self._best_first(runs)

    def _best_first(self, runs: list[Fit]) -> list[Fit]:
        """Return mixtures after short runs, the best first: see `Fit.rank`.

        Those with an almost empty component often have the highest evidence. If they were first, no other
        would be run to its optimum.
        """

        def rank(fit: Fit) -> tuple[bool, float]:
            counts = fit.parameters.weights * self.sample.weight
            return self.prior.compares_by_evidence and bool(np.any(is_empty(counts))), -fit.score

        return sorted(runs, key=rank)

    def finalists(self, short_run_results: list[Fit]) -> list[Fit]:
        """Return the best of the short runs, run to their optima."""
        # The moments, which do not depend on chance, are always among them, and first: candidates that lead
        # to the same optimum as an earlier one are dropped.
        chosen = [result for result in short_run_results if result.start == "moments"]
        chosen += [result for result in short_run_results[: SETTINGS.kept] if result.start != "moments"]
        return _sorted(self._new_optima(chosen))

    def after_split_and_merge(self, finalists: list[Fit], n_rounds: int = SETTINGS.kept) -> list[Fit]:
        """Return the finalists and the optima that rounds of split and merge reach from the best of them."""
        for _ in range(n_rounds):
            before = finalists[0].score
            finalists = _sorted([*finalists, *self._split_and_merge_optima(finalists[0])])
            if finalists[0].score <= before + SETTINGS.min_gain:
                break
        return finalists

    def ranked_on_other_rows(self, candidates: list[Fit]) -> list[Fit]:
        """Return the candidates with the best one first, on other rows than those of the sample.

        The start from the moments of all rows is among them: good moments are nearer to the optimum on all
        rows than any fit to a sample. Candidates whose likelihood is lower by no more than chance may be the
        best on all rows, and are marked as contenders.
        """
        others = self.comparison_rows
        weights = others.row_weights()
        densities = [
            np.asarray(others.row_responsibilities(candidate.parameters)[1]) for candidate in candidates
        ]
        means = np.array([np.average(density, weights=weights) for density in densities])
        best = int(np.argmax(np.where(np.isfinite(means), means, -np.inf)))
        rivals: list[int] = []
        for i in np.argsort(-means, kind="stable"):
            gaps = densities[best] - densities[i]
            error = float(np.std(gaps)) / np.sqrt(len(gaps))
            is_near = means[best] - means[i] < SETTINGS.chance_errors * error
            if i != best and is_near and len(rivals) < SETTINGS.kept:
                rivals.append(int(i))
        order = [best, *rivals, *(i for i in range(len(candidates)) if i != best and i not in rivals)]
        return [replace(candidates[i], is_contender=i in rivals) for i in order]

    @property
    def can_continue(self) -> bool:
        """Whether the search can continue on a larger sample, at a cost in proportion."""
        return SETTINGS.growth * self.drawn_rows.n_rows * self.n_parameters <= SETTINGS.max_work

    def with_more_rows(self) -> _Search:
        """Return the search on a larger sample."""
        n_rows = SETTINGS.growth * self.drawn_rows.n_rows
        return _Search(self.data, self.n_components, self.prior, self.rng, n_rows=n_rows)

    def continued(self, candidates: list[Fit]) -> list[Fit]:
        """Return the optima that contenders of a smaller sample lead to, with one round of split and merge.

        Where that sample could not tell the contenders apart, the best optimum may be none of theirs.
        """
        rivals = [candidate for i, candidate in enumerate(candidates) if i == 0 or candidate.is_contender]
        optima = self.after_split_and_merge(_sorted(self._new_optima(rivals)), n_rounds=1)
        return [replace(candidate, is_contender=False) for candidate in optima]

    def _split_and_merge_optima(self, best: Fit) -> list[Fit]:
        """Return the optima reached from a candidate by adding a component and then merging two."""
        sample, prior = self.sample, self.prior
        completed = sample.completed(best.parameters)
        start = best.start if best.start.endswith("+split") else f"{best.start}+split"
        proposals = [Fit(each, start) for each in with_one_more(completed, best.parameters, self.rng)]
        larger = run(sample, proposals, prior, Stop(SETTINGS.split_steps))
        merged = []
        for fit in sorted(larger, key=lambda fit: -fit.score)[: SETTINGS.kept]:
            merged += [stats.array for stats in merged_pairs(completed, fit.parameters, SETTINGS.kept)]
            merged += [stats.array for stats in dropped_stats(completed, fit.parameters, SETTINGS.kept)]
        # The short runs that follow adapt the prior.
        starts = sample.m_step(SufficientStats(np.stack(merged), sample.n_features), prior.conjugate)
        fits = [Fit(starts[i], start) for i in range(len(merged))]
        runs = run(sample, fits, prior, Stop(SETTINGS.merge_steps))
        return self._new_optima(self._best_first(runs), most=1)

    def _new_optima(self, candidates: list[Fit], most: int | None = None) -> list[Fit]:
        """Return candidates run to their optima, without those that start near a mixture already visited.

        No more than `most` of them are run.
        """
        family = self.sample.family.untied
        results: list[Fit] = []
        for candidate in candidates:
            if len(results) == most:
                break
            start = untied_stats(self.sample, candidate.parameters)
            if self.visited:
                visited = SufficientStats(np.stack(self.visited), start.n_features)
                distances = mixture_distances(family, start, visited)
                if self.data.whitening.has_noise_component:
                    # Components at the same places may hold a cluster, or leave it to the noise.
                    distances = distances + np.abs(visited.counts.sum(axis=-1) - start.counts.sum())
                if np.any(distances < SETTINGS.same_optimum):
                    continue
            results.append(self._converged(candidate))
            self.visited += [start.array, untied_stats(self.sample, results[-1].parameters).array]
        return results

    def _converged(self, candidate: Fit) -> Fit:
        # An optimum on a sample is not exactly one on all rows, and the prior of covariances that are shrunk
        # is settled only at the end of the fit: a loose tolerance is enough.
        is_shrunk = self.prior.shrinks(self.sample.family, self.n_components)
        is_loose = self.is_on_sample or self.is_continued or is_shrunk
        tol = SETTINGS.sample_tolerance if is_loose else SETTINGS.tolerance
        return run(self.sample, [candidate], self.prior, Stop(SETTINGS.sample_passes, gain=tol))[0]


def _sorted(candidates: list[Fit]) -> list[Fit]:
    """Return the candidates, the best first."""
    return sorted(candidates, key=lambda candidate: candidate.rank, reverse=True)
