"""The best optimum of several starts, and what there is to say about it."""

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

# Rows on which the end of EM is checked to be a maximum, and on which partitions are compared.
CHECKED_ROWS = 10_000
# On the way to the optimum on many rows EM sees a part of them first, each time this factor more, from this
# many on and so many per parameter; for that, so many passes must be allowed. The optimum on some rows is not
# approached closely.
GROWTH = 5
LEAST_SAMPLE = 20_000
ROWS_PER_PARAMETER = 200
FEWEST_PASSES = 50
SAMPLE_TOLERANCE = 0.1
SAMPLE_PASSES = 200
# Up to so many rows each of several candidates is run to its end.
FEW_ROWS = 20_000
# Optima whose log-likelihoods differ by less than this per row are nearly equal; partitions whose adjusted
# Rand index is below this are different.
NEARLY_EQUAL = 0.15
# Log-likelihoods that differ by less than this, relative to themselves, are equal but for rounding.
ROUNDING = 1e-12
DIFFERENT = 0.5


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
        The log-likelihood that may be left to gain.
    max_iter : int
        The most passes of each run.
    rng : numpy.random.Generator
    callback : callable, optional

    Returns
    -------
    result : FitResult
        With all starts that were skipped, and what the user should know.
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
    """Return whether a result is better by more than rounding: of equals the first is kept."""
    return result.log_likelihood > other.log_likelihood + ROUNDING * abs(other.log_likelihood)


def _approached_all(
    data: WhitenedData, candidates: list[FitResult], prior: Prior | None, max_iter: int
) -> list[tuple[FitResult, FitResult]]:
    """Return candidates, each with the start from which it is to go on on all rows.

    If the rows are many, one of several candidates is enough: the one that is best on a large part of them.
    """
    as_they_are = [(candidate, candidate) for candidate in candidates]
    if max_iter < FEWEST_PASSES or (len(candidates) == 1 and candidates[0].is_from_all_rows):
        return as_they_are
    approached = [_approached(data, candidate, prior) for candidate in candidates]
    if approached[0] is candidates[0]:
        # Each is run to its end, as none is known to be the best before: of many rows only two.
        is_few = len(candidates) < 3 or data.n_rows <= FEW_ROWS
        return as_they_are if is_few else [as_they_are[0], as_they_are[-1]]
    best = int(np.argmax([result.log_likelihood for result in approached]))
    return [(candidates[best], approached[best])]


def _approached(data: WhitenedData, start: FitResult, prior: Prior | None) -> FitResult:
    """Return where EM on more and more of the rows leads; the start itself if the rows are too few for that.

    This is near the optimum on all rows, for a part of the cost of getting there.
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
    """Return a warning on components without rows."""
    counts = result.parameters.weights * data.weight
    n_empty = int(np.sum(counts < 0.5))
    if not n_empty:
        return []
    message = f"{n_empty} of {len(counts)} components hold less than one row. Ask for fewer components."
    return [EmptyComponentWarning(message)]


def _is_collapsed(data: WhitenedData, result: FitResult) -> bool:
    """Return whether a component is without spread in some direction."""
    smallest = data.family.smallest_variance(result.parameters.covariances)
    return smallest <= 2 * data.family.least_variance


def _disagreeing(sample: WhitenedData, result: FitResult, rivals: list[FitResult]) -> list[ApolarWarning]:
    """Return a warning if another optimum, of nearly the same likelihood, parts the rows differently."""
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
