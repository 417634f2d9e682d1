"""The default start: a portfolio of starts, short runs of EM, and rounds of splitting and merging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from apolar.em.loop import converge
from apolar.em.result import FitResult
from apolar.em.run import short_runs
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats
from apolar.starts.merging import apart, merged_pairs, untied_stats
from apolar.starts.moments import from_moments, from_more_moments
from apolar.starts.overseed import overseeded
from apolar.starts.splitting import with_one_more

# The portfolio is run on at most this many rows, or so many per parameter if that is more.
MOST_ROWS = 5_000
ROWS_PER_PARAMETER = 50
# With fewer rows per parameter than this, optima on a sample are not to be trusted.
CROWDED = 60
# Starts by over-seeding; steps of EM after which the best starts are kept, and how many.
OVERSEEDED = 4
SHORT_STEPS = 10
KEPT = 3
# Log-likelihood that may be left to gain in the runs of the portfolio, and their passes at most.
TOLERANCE = 1e-3
LOOSE_TOLERANCE = 0.1
PASSES = 300
# Rounds of split and merge, steps of EM with one component more and then one less, and the least gain that
# counts.
ROUNDS = 3
SPLIT_STEPS = 5
# Pairs that are tried as mergers of each proposal.
PAIRS = 3
LEAST_GAIN = 0.05
# Rows on which candidates from a sample are compared; how many standard errors are chance, and the most
# candidates that go on beside the best.
PROVING_ROWS = 10_000
CHANCE = 4.0
CONTENDERS = 3
# Mixtures that are no further apart than this, in log-likelihood, are taken to lead to the same optimum.
SAME = 0.5


def portfolio(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> list[FitResult]:
    """Return candidates that were run to their optima, the best first.

    Parameters
    ----------
    data : WhitenedData
        If its rows are many, the portfolio sees some of them; the moments see all.
    n_components : int
    prior : Prior or None
        With None the search uses the default prior all the same: without one, the likelihood is highest
        where a component has collapsed on a few rows.
    rng : numpy.random.Generator

    Returns
    -------
    candidates : list of FitResult
        Their optima are those of the rows that the portfolio saw. All of them name the starts that were
        skipped.
    """
    search = _Search(data, n_components, Prior() if prior is None else prior, rng)
    if n_components == 1:
        return [search.single()]
    candidates, skipped = search.starts()
    grown = search.grown(candidates)
    finalists = search.improved(search.finalists(grown))
    if search.is_of_some_rows:
        moments = [candidate for candidate in candidates if candidate.start == "moments"]
        finalists = search.proven([*finalists, *moments])
        if search.is_crowded:
            finalists.append(replace(search.proven(grown)[0], is_contender=True))
    return [replace(candidate, skipped=skipped) for candidate in finalists]


class _Search:
    """The steps of the portfolio.

    Parameters
    ----------
    data : WhitenedData
    n_components : int
    prior : Prior
    rng : numpy.random.Generator
    """

    def __init__(self, data: WhitenedData, n_components: int, prior: Prior, rng: np.random.Generator) -> None:
        self.data, self.n_components, self.prior, self.rng = data, n_components, prior, rng
        # The rows that the search sees, some or all, and the different ones among them, on which it works.
        # Optima of most of the rows are not those of all, and all cost little more.
        n_rows = max(MOST_ROWS, ROWS_PER_PARAMETER * self.n_parameters)
        self.drawn = data.subsample(n_rows if data.n_rows > 2 * n_rows else data.n_rows, rng)
        self.sample = self.drawn.distinct()
        # Rows on which candidates that were fitted to a sample are compared: drawn when they are needed.
        self._others: WhitenedData | None = None
        # Where runs began and ended, as sufficient statistics of the rows.
        self.visited: list[SufficientStats] = []

    @property
    def n_parameters(self) -> int:
        """The number of free parameters."""
        return self.data.family.n_parameters(self.n_components, self.data.n_features)

    @property
    def is_of_some_rows(self) -> bool:
        """Whether the sample does not hold all rows."""
        available = self.data.rows.n_rows or self.data.n_rows
        return self.drawn is not self.data and self.drawn.n_rows < available

    @property
    def is_crowded(self) -> bool:
        """Whether parameters are so many that fits to the sample may be caught in optima of its own.

        A short run is not yet caught, and goes on to all rows as well.
        """
        return self.drawn.n_rows < CROWDED * self.n_parameters

    @property
    def others(self) -> WhitenedData:
        """Rows on which candidates are compared that were fitted to a sample."""
        # Not a cached_property: before Python 3.12 its lock is held while a cluster works.
        if self._others is None:
            self._others = self.data.subsample(PROVING_ROWS, self.rng)
        return self._others

    def single(self) -> FitResult:
        """Return the only component there is."""
        stats = self.sample.soft_stats(np.ones((1, self.sample.n_rows)))
        return self._converged(FitResult(self.sample.family.m_step(stats, self.prior), "moments"))

    def starts(self) -> tuple[list[FitResult], tuple[str, ...]]:
        """Return where the search starts, and which starts were skipped, with the reason."""
        sample, n_components = self.sample, self.n_components
        candidates, skipped = [], []
        methods: dict[str, Callable[[], WhitenedParameters]] = {
            "moments": lambda: from_moments(sample, n_components, self.data),
            "moments+1": lambda: from_more_moments(sample, n_components, self.prior),
        }
        for name, method in methods.items():
            try:
                everything = name == "moments" and sample.family.is_spherical
                candidates.append(FitResult(method(), name, is_from_all_rows=everything))
            except ValueError as error:
                skipped.append(f"{name} was skipped: {error}")
        mixtures = overseeded(sample, n_components, self.prior, self.rng, OVERSEEDED)
        candidates += [FitResult(parameters, "overseed") for parameters in mixtures]
        return candidates, tuple(skipped)

    def grown(self, candidates: list[FitResult]) -> list[FitResult]:
        """Return the starts after short runs, the best first."""
        runs = batch([candidate.parameters for candidate in candidates])
        runs, likelihoods = short_runs(self.sample, runs, self.prior, SHORT_STEPS)
        order = [int(i) for i in np.argsort(-likelihoods, kind="stable")]
        return [FitResult(runs[i], candidates[i].start) for i in order]

    def finalists(self, grown: list[FitResult]) -> list[FitResult]:
        """Return the best of the short runs, run to their optima."""
        # The start from moments goes on in any case, and first: it has no luck in it, and is the one to
        # disagree with.
        kept = [candidate for candidate in grown if candidate.start == "moments"]
        kept += [candidate for candidate in grown[:KEPT] if candidate.start != "moments"]
        return _sorted(self._converged_anew(kept))

    def improved(self, finalists: list[FitResult]) -> list[FitResult]:
        """Return the finalists with what rounds of split and merge made of the best."""
        for _ in range(ROUNDS):
            before = finalists[0].log_likelihood
            finalists = _sorted([*finalists, *self._split_and_merged(finalists[0])])
            if finalists[0].log_likelihood <= before + LEAST_GAIN:
                break
        return finalists

    def proven(self, candidates: list[FitResult]) -> list[FitResult]:
        """Return the candidates with the one first that is best on other rows than it was fitted to.

        The moments of all rows, as they are, are among them: where they are good, they are nearer to the
        optimum on all rows than any fit to some of them. Those whose likelihood is lower by no more than
        chance may be the best on all rows, and go on as well.
        """
        others = self.others
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
            is_near = i != best and means[best] - means[i] < CHANCE * error and len(rivals) < CONTENDERS
            rivals += [int(i)] if is_near else []
        order = [best, *rivals, *(i for i in range(len(candidates)) if i != best and i not in rivals)]
        return [replace(candidates[i], is_contender=i in rivals) for i in order]

    def _split_and_merged(self, best: FitResult) -> list[FitResult]:
        """Return what a candidate becomes with one component more and then one less."""
        sample, prior, kind = self.sample, self.prior, self.sample.family
        proposals = batch(with_one_more(sample, best.parameters, self.rng))
        grown, likelihoods = short_runs(sample, proposals, prior, SPLIT_STEPS)
        merged = []
        for i in np.argsort(-likelihoods, kind="stable")[:KEPT]:
            pairs = merged_pairs(sample, grown[int(i)], PAIRS)
            merged += [kind.m_step(stats, prior) for stats in pairs]
        runs, likelihoods = short_runs(sample, batch(merged), prior, SPLIT_STEPS)
        start = best.start if best.start.endswith("+split") else f"{best.start}+split"
        kept = np.argsort(-likelihoods, kind="stable")[:KEPT]
        return self._converged_anew([FitResult(runs[int(i)], start) for i in kept])

    def _converged_anew(self, candidates: list[FitResult]) -> list[FitResult]:
        """Return candidates run to their optima, without those that lead to where others have been."""
        results = []
        for candidate in candidates:
            begun = untied_stats(self.sample, candidate.parameters)
            if any(apart(self.sample.family.untied, begun, other) < SAME for other in self.visited):
                continue
            results.append(self._converged(candidate))
            self.visited.extend((begun, untied_stats(self.sample, results[-1].parameters)))
        return results

    def _converged(self, candidate: FitResult) -> FitResult:
        # The optimum on some of the rows is not that on all: there is no use in coming very near to it.
        tol = LOOSE_TOLERANCE if self.is_of_some_rows else TOLERANCE
        return converge(self.sample, candidate, self.prior, tol=tol, max_iter=PASSES)


def _sorted(candidates: list[FitResult]) -> list[FitResult]:
    """Return the candidates, the best first."""
    return sorted(candidates, key=lambda candidate: -candidate.log_likelihood)
