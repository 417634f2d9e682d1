"""The best optimum of several starts, and the warnings about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.em.low_density import as_start_on
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import Callback, Stop, evidences, run
from apolar.em.tails import has_long_tails
from apolar.estimator.few_rows import few_rows_warning
from apolar.exceptions import (
    ApolarWarning,
    CollapsedWarning,
    DisagreementWarning,
    EmptyComponentWarning,
)
from apolar.mixture.evidence import comparison_score
from apolar.mixture.parameters import WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.scores import adjusted_rand_index
from apolar.search.given import ResolvedStart

# If there are many rows, EM first runs on samples of them, each larger than the last by this factor.
GROWTH = 5
# The smallest sample, in rows and in rows per parameter.
MIN_SAMPLE = 20_000
ROWS_PER_PARAMETER = 200
# With a smaller max_iter there are no samples.
FEWEST_PASSES = 50
# Tolerance and passes of EM on a sample, whose optimum is only approximately that of all rows.
SAMPLE_TOLERANCE = 0.1
SAMPLE_PASSES = 200
# Up to this many rows, each of several candidates is run to its end.
FEW_ROWS = 20_000
# If a component of the best mixture is almost empty, so many of the other candidates are run too.
MAX_OTHERS = 3
# Two optima disagree if what they are compared by differs by less than the first of these, per row, and the
# adjusted Rand index between their partitions is below the second.
NEARLY_EQUAL = 0.15
DIFFERENT = 0.5


def best_fit(
    data: Problem,
    prior: Prior | None,
    start: ResolvedStart,
    *,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    sample: Problem,
    callback: Callback | None = None,
) -> Fit:
    """Return the best mixture of several starts.

    Parameters
    ----------
    data : Problem
    prior : Prior or None
    start : ResolvedStart
    tol : float
        EM ends when less than this is left to gain in the log-likelihood of all rows together.
    max_iter : int
        The most passes of each run.
    rng : numpy.random.Generator
    sample : Problem
        Some of the rows, on the host, to check that EM ended at a maximum, and to compare partitions.
    callback : callable, optional

    Returns
    -------
    result : Fit
        With all starts that were skipped, and the warnings for the user.
    """
    best: Fit | None = None
    winner: Fit | None = None
    rivals: list[Fit] = []
    skipped: dict[str, None] = {}

    def optimum(first: Fit, prior: Prior | None) -> Fit:
        stop = Stop(max_iter, gain=tol)
        return run(data, [first], prior, stop, callback=callback, checked_on=sample)[0]

    for _ in range(start.n_init):
        candidates = [as_start_on(data, candidate) for candidate in start.candidates(rng)]
        for candidate in candidates:
            skipped |= dict.fromkeys(candidate.skipped)
        rivals += candidates
        used = prior.conjugate if prior is not None and candidates[0].has_long_tails else prior
        contenders = [candidates[0], *(other for other in candidates[1:] if other.is_contender)]
        for candidate, approached in _approached_all(data, contenders, used, max_iter):
            result = optimum(approached, used)
            if candidate.status is FitStatus.NOT_RUN and _is_misled(sample, result):
                # The start was no search, which would have seen that the tails are long.
                assert used is not None
                result = optimum(approached, used.conjugate)
            if best is None or result.is_better_than(best):
                best, winner = result, candidate
            is_stopped = result.status is FitStatus.STOPPED
            if is_stopped:
                break
        assert best is not None
        if not (is_stopped or best.rank[0]):
            # A component has emptied on the way: of another candidate it may stay.
            others = [other for other in candidates if other not in contenders and _is_full_optimum(other)]
            for candidate in others[:MAX_OTHERS]:
                result = optimum(candidate, used)
                is_stopped = result.status is FitStatus.STOPPED
                if result.is_better_than(best):
                    best, winner = result, candidate
                if is_stopped or best.rank[0]:
                    break
        if is_stopped:
            break
    assert best is not None
    is_collapsed = data.family.is_collapsed(best.parameters.covariances)
    warnings = _almost_empty(data, best, sample)
    if is_collapsed:
        warnings.append(_collapsed(prior))
    # An empty or collapsed component has its own remedy.
    few_rows = None if warnings else few_rows_warning(data, best)
    if few_rows is not None:
        warnings.append(few_rows)
    warnings += _disagreeing(sample, best, [rival for rival in rivals if rival is not winner])
    return replace(best, skipped=tuple(skipped), warnings=tuple(warnings), is_collapsed=is_collapsed)


def _is_full_optimum(candidate: Fit) -> bool:
    """Return whether a candidate is an optimum on the rows of a search, without almost empty components."""
    return candidate.status is not FitStatus.NOT_RUN and candidate.rank[0]


def _is_misled(sample: Problem, result: Fit) -> bool:
    """Return whether covariances were shrunk by an evidence that is misleading: see `apolar.em.tails`."""
    is_final = result.status is not FitStatus.STOPPED
    return is_final and result.shrinkage > 0 and has_long_tails(sample, result.parameters)


def _collapsed(prior: Prior | None) -> ApolarWarning:
    """Return the warning that a component has collapsed."""
    remedy = "Use the default prior in place of prior=None, a" if prior is None else "A"
    return CollapsedWarning(
        "A component has collapsed: its variance is zero in some direction, and the likelihood has no "
        f"maximum. {remedy}sk for fewer components, or remove columns that depend on others."
    )


def _approached_all(
    data: Problem, candidates: list[Fit], prior: Prior | None, max_iter: int
) -> list[tuple[Fit, Fit]]:
    """Return the candidates to run on all rows, each with the mixture that EM is to continue from.

    If the rows are many, only one candidate is returned: the one that is best on the largest sample.
    """
    unchanged = [(candidate, candidate) for candidate in candidates]
    if max_iter < FEWEST_PASSES or (len(candidates) == 1 and candidates[0].is_from_all_rows):
        return unchanged
    approached = [_approached(data, candidate, prior) for candidate in candidates]
    if approached[0] is candidates[0]:
        # No sample has shown which is best, so that each is run to its end; of many rows, only two.
        is_few = len(candidates) < 3 or data.n_rows <= FEW_ROWS
        return unchanged if is_few else [unchanged[0], unchanged[-1]]
    best = max(range(len(approached)), key=lambda i: approached[i].rank)
    return [(candidates[best], approached[best])]


def _approached(data: Problem, start: Fit, prior: Prior | None) -> Fit:
    """Return the result of EM on larger and larger samples of the rows; the start if the rows are too few.

    It is near the optimum on all rows, at a fraction of the cost.
    """
    steps = []
    step = GROWTH
    least = ROWS_PER_PARAMETER * data.family.n_parameters(start.parameters.n_components, data.n_features)
    while data.n_rows // step >= max(MIN_SAMPLE, least):
        steps.append(step)
        step *= GROWTH
    for step in reversed(steps):
        sample = data.systematic_sample(step)
        (start,) = run(sample, [start], prior, Stop(SAMPLE_PASSES, gain=SAMPLE_TOLERANCE))
    return start


def _almost_empty(data: Problem, result: Fit, sample: Problem) -> list[ApolarWarning]:
    """Return a warning if there are components without rows."""
    counts = result.parameters.weights * data.weight
    n_empty = int(np.sum(counts < 0.5))
    if not n_empty:
        return _too_few_distinct(sample, len(counts)) if sample.n_rows == data.n_rows else []
    message = f"{n_empty} of {len(counts)} components hold less than one row. Ask for fewer components."
    return [EmptyComponentWarning(message)]


def _too_few_distinct(rows: Problem, n_components: int) -> list[ApolarWarning]:
    """Return a warning if there are fewer different rows than components."""
    if rows.has_distinct_rows(n_components):
        return []
    n_distinct = rows.distinct().n_rows
    message = (
        f"There are only {n_distinct} different rows for {n_components} components, which cannot differ: ask "
        "for fewer components."
    )
    return [EmptyComponentWarning(message)]


def _disagreeing(sample: Problem, result: Fit, rivals: list[Fit]) -> list[ApolarWarning]:
    """Return a warning if another optimum is nearly as good, and its partition of the rows different."""
    rivals = [rival for rival in rivals if rival.status is not FitStatus.NOT_RUN]
    if not rivals or result.parameters.n_components == 1:
        return []
    mixtures = batch([result.parameters, *(rival.parameters for rival in rivals)])
    stats, log_likelihood = sample.e_step(mixtures)
    scores = log_likelihood
    if result.evidence is not None:
        scores = comparison_score(evidences(sample, mixtures, stats, log_likelihood), log_likelihood)
    gaps = (scores[0] - scores[1:]) / sample.weight
    near = [(rival, float(gap)) for rival, gap in zip(rivals, gaps, strict=True) if not gap > NEARLY_EQUAL]
    if not near:
        return []

    def labels(parameters: WhitenedParameters) -> Array:
        return np.asarray(sample.row_responsibilities(parameters)[0]).argmax(axis=0)

    ours = labels(result.parameters)
    for rival, gap in near:
        index = adjusted_rand_index(ours, labels(rival.parameters))
        if index < DIFFERENT:
            what = "mean log-likelihood" + (" and log-evidence" if result.evidence is not None else "")
            message = (
                f"Good starts disagree: another optimum, only {max(gap, 0.0):.2g} lower in "
                f"{what}, parts the rows differently (adjusted Rand index {index:.2f} between "
                "the two). Components of this form may not be what the data are made of: try another "
                "covariance_type or n_components."
            )
            return [DisagreementWarning(message)]
    return []
