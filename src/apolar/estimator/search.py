"""The best optimum of several starts, and the warnings about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.em.loop import converge
from apolar.em.result import FitResult, FitStatus
from apolar.em.run import Callback
from apolar.em.whitened import WhitenedData
from apolar.exceptions import (
    ApolarWarning,
    CollapsedWarning,
    DisagreementWarning,
    EmptyComponentWarning,
)
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.scores import adjusted_rand_index
from apolar.starts.resolve import ResolvedStart

# How many rows, at most, are used to check that EM ended at a maximum, and to compare partitions.
CHECKED_ROWS = 10_000
# If there are many rows, EM first runs on samples of them, each larger than the last by this factor.
GROWTH = 5
# The smallest sample, in rows and in rows per parameter.
LEAST_SAMPLE = 20_000
ROWS_PER_PARAMETER = 200
# With a smaller max_iter there are no samples.
FEWEST_PASSES = 50
# Tolerance and passes of EM on a sample, whose optimum is only approximately that of all rows.
SAMPLE_TOLERANCE = 0.1
SAMPLE_PASSES = 200
# Up to this many rows, each of several candidates is run to its end.
FEW_ROWS = 20_000
# Two optima disagree if their log-likelihoods per row differ by less than the first of these, and the
# adjusted Rand index between their partitions is below the second.
NEARLY_EQUAL = 0.15
DIFFERENT = 0.5
# Log-likelihoods with a relative difference below this are equal up to rounding.
ROUNDING = 1e-12


def best_fit(
    data: WhitenedData,
    prior: Prior | None,
    start: ResolvedStart,
    *,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> FitResult:
    """Return the best mixture of several starts.

    Parameters
    ----------
    data : WhitenedData
    prior : Prior or None
    start : ResolvedStart
    tol : float
        EM ends when less than this is left to gain in the log-likelihood of all rows together.
    max_iter : int
        The most passes of each run.
    rng : numpy.random.Generator
    callback : callable, optional

    Returns
    -------
    result : FitResult
        With all starts that were skipped, and the warnings for the user.
    """
    best: FitResult | None = None
    winner: FitResult | None = None
    rivals: list[FitResult] = []
    skipped: dict[str, None] = {}
    sample = data.subsample(CHECKED_ROWS, np.random.default_rng(0))
    for _ in range(start.n_init):
        candidates = start.candidates(rng)
        for candidate in candidates:
            skipped |= dict.fromkeys(candidate.skipped)
        rivals += candidates
        contenders = [candidates[0], *(other for other in candidates[1:] if other.is_contender)]
        for candidate, approached in _approached_all(data, contenders, prior, max_iter):
            result = converge(
                data, approached, prior, tol=tol, max_iter=max_iter, callback=callback, checked_on=sample
            )
            if best is None or _is_better(result, best):
                best, winner = result, candidate
            is_stopped = result.status is FitStatus.STOPPED
            if is_stopped:
                break
        if is_stopped:
            break
    assert best is not None
    is_collapsed = _is_collapsed(data, best)
    warnings = [*_almost_empty(data, best)]
    if is_collapsed:
        warnings.append(_collapsed(prior))
    warnings += _disagreeing(sample, best, [rival for rival in rivals if rival is not winner])
    return replace(best, skipped=tuple(skipped), warnings=tuple(warnings), is_collapsed=is_collapsed)


def _collapsed(prior: Prior | None) -> ApolarWarning:
    """Return the warning that a component has collapsed."""
    remedy = "Use the default prior in place of prior=None, a" if prior is None else "A"
    return CollapsedWarning(
        "A component has collapsed: its variance is zero in some direction, and the likelihood has no "
        f"maximum. {remedy}sk for fewer components, or remove columns that depend on others."
    )


def _is_better(result: FitResult, other: FitResult) -> bool:
    """Return whether a result is better by more than rounding; of equal ones the first is kept."""
    return result.log_likelihood > other.log_likelihood + ROUNDING * abs(other.log_likelihood)


def _approached_all(
    data: WhitenedData, candidates: list[FitResult], prior: Prior | None, max_iter: int
) -> list[tuple[FitResult, FitResult]]:
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
    best = int(np.argmax([result.log_likelihood for result in approached]))
    return [(candidates[best], approached[best])]


def _approached(data: WhitenedData, start: FitResult, prior: Prior | None) -> FitResult:
    """Return the result of EM on larger and larger samples of the rows; the start if the rows are too few.

    It is near the optimum on all rows, at a fraction of the cost.
    """
    steps = []
    step = GROWTH
    least = ROWS_PER_PARAMETER * data.family.n_parameters(start.parameters.n_components, data.n_features)
    while data.n_rows // step >= max(LEAST_SAMPLE, least):
        steps.append(step)
        step *= GROWTH
    for step in reversed(steps):
        sample = data.systematic_sample(step)
        start = converge(sample, start, prior, tol=SAMPLE_TOLERANCE, max_iter=SAMPLE_PASSES)
    return start


def _almost_empty(data: WhitenedData, result: FitResult) -> list[ApolarWarning]:
    """Return a warning if there are components without rows."""
    counts = result.parameters.weights * data.weight
    n_empty = int(np.sum(counts < 0.5))
    if not n_empty:
        return []
    message = f"{n_empty} of {len(counts)} components hold less than one row. Ask for fewer components."
    return [EmptyComponentWarning(message)]


def _is_collapsed(data: WhitenedData, result: FitResult) -> bool:
    """Return whether a component has no variance in some direction."""
    smallest = data.family.smallest_variance(result.parameters.covariances)
    return smallest <= 2 * data.family.least_variance


def _disagreeing(sample: WhitenedData, result: FitResult, rivals: list[FitResult]) -> list[ApolarWarning]:
    """Return a warning if another optimum is nearly as likely, and its partition of the rows different."""
    rivals = [rival for rival in rivals if rival.status is not FitStatus.NOT_RUN]
    if not rivals or result.parameters.n_components == 1:
        return []
    weights = sample.row_weights()

    def mean_likelihood_and_labels(parameters: WhitenedParameters) -> tuple[float, Array]:
        responsibilities, densities = sample.row_responsibilities(parameters)
        return float(np.average(densities, weights=weights)), responsibilities.argmax(axis=0)

    best, ours = mean_likelihood_and_labels(result.parameters)
    for rival in rivals:
        likelihood, theirs = mean_likelihood_and_labels(rival.parameters)
        if best - likelihood > NEARLY_EQUAL:
            continue
        index = adjusted_rand_index(ours, theirs)
        if index < DIFFERENT:
            message = (
                f"Good starts disagree: another optimum, only {max(best - likelihood, 0.0):.2g} lower in "
                f"mean log-likelihood, parts the rows differently (adjusted Rand index {index:.2f} between "
                "the two). Components of this form may not be what the data are made of: try another "
                "covariance_type or n_components."
            )
            return [DisagreementWarning(message)]
    return []
