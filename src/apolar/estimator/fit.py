"""From rows to a fitted mixture: starts, EM, and what there is to say about the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array
from apolar.em.lbfgs import LBFGSHistory
from apolar.em.loop import Callback, Fit, FitStatus, converge
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
from apolar.starts import Candidate, Started

# Rows on which the end of EM is checked to be a maximum, and on which partitions are compared.
CHECKED_ROWS = 10_000
# On the way to the optimum on many rows EM sees a part of them first, each time this factor more, from this
# many on and so many a parameter; for that, so many passes must be allowed. The optimum on some rows is not
# approached closely.
GROWTH = 5
LEAST_SAMPLE = 20_000
ROWS_A_PARAMETER = 200
FEWEST_PASSES = 50
SAMPLE_TOLERANCE = 0.1
SAMPLE_PASSES = 200
# Up to so many rows each of several candidates is run to its end.
FEW_ROWS = 20_000
# Optima whose log-likelihoods differ by less than this a row are nearly equal; partitions whose adjusted
# Rand index is below this are different.
NEARLY_EQUAL = 0.15
# Log-likelihoods that differ by less than this, relative to themselves, are equal but for rounding.
ROUNDING = 1e-12
DIFFERENT = 0.5


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fitted mixture.

    Attributes
    ----------
    fit : Fit
        In the frame of the table.
    start : str
        The name of the start that won.
    warnings : tuple of ApolarWarning
        What the user should know.
    notes : tuple of str
        What stepped aside on the way.
    is_collapsed : bool
        Whether a variance is at its floor: without a prior the likelihood has no maximum there.
    """

    fit: Fit
    start: str
    warnings: tuple[ApolarWarning, ...]
    notes: tuple[str, ...]
    is_collapsed: bool


def fitted(
    data: WhitenedData,
    prior: Prior | None,
    start: Callable[[np.random.Generator], Started],
    *,
    n_init: int,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> Outcome:
    """Return the best mixture of several starts.

    Parameters
    ----------
    table : Table
    prior : Prior or None
    start : callable
        Takes a generator, returns candidates and notes.
    n_init : int
        How often to start.
    tol : float
        The log-likelihood that may be left to gain.
    max_iter : int
        The most passes of each run.
    rng : numpy.random.Generator
    watcher : callable, optional

    Returns
    -------
    outcome : Outcome
    """
    best: tuple[Fit, Candidate] | None = None
    warnings: list[ApolarWarning] = []
    notes: list[str] = []
    rivals: list[Candidate] = []
    sample = data.subsample(CHECKED_ROWS, np.random.default_rng(0))
    for _ in range(n_init):
        candidates, new_notes = start(rng)
        notes += [note for note in new_notes if note not in notes]
        rivals += candidates
        contenders = [candidates[0], *(other for other in candidates[1:] if other.is_contender)]
        for candidate, parameters, curvature in _approached_all(data, contenders, prior, max_iter):
            fit = converge(
                data,
                parameters,
                prior,
                tol=tol,
                max_iter=max_iter,
                callback=callback,
                checked_on=sample,
                curvature=curvature,
                earlier=candidate.earlier,
            )
            if best is None or _is_better(fit, best[0]):
                best = fit, candidate
            is_stopped = fit.status is FitStatus.STOPPED
            if is_stopped:
                break
        if is_stopped:
            break
    assert best is not None
    fit, winner = best
    warnings += _almost_empty(data, fit)
    is_collapsed = _is_collapsed(data, fit)
    if is_collapsed:
        remedy = "Use the default prior in place of prior=None, a" if prior is None else "A"
        message = (
            "A component has collapsed: its variance is zero in some direction, and the likelihood has no "
            f"maximum. {remedy}sk for fewer components, or remove columns that depend on others."
        )
        warnings.append(CollapsedWarning(message))
    warnings += _disagreeing(sample, fit, [rival for rival in rivals if rival is not winner])
    return Outcome(fit, winner.name, tuple(warnings), tuple(notes), is_collapsed)


def _is_better(fit: Fit, other: Fit) -> bool:
    """Return whether a fit is better by more than rounding: of equals the first is kept."""
    return fit.log_likelihood > other.log_likelihood + ROUNDING * abs(other.log_likelihood)


def _approached_all(
    data: WhitenedData, candidates: list[Candidate], prior: Prior | None, max_iter: int
) -> list[tuple[Candidate, WhitenedParameters, LBFGSHistory | None]]:
    """Return from where candidates are to go on on all rows, and what is known of the curvature there.

    If the rows are many, one of several candidates is enough: the one that is best on a large part of them.
    """
    known = [
        (one, one.parameters, one.curvature if one.fit is None else one.fit.curvature) for one in candidates
    ]
    if max_iter < FEWEST_PASSES or (len(known) == 1 and candidates[0].is_from_all_rows):
        return known
    runs = [_approached(data, parameters, prior, curvature) for _, parameters, curvature in known]
    ended = [fit for fit in runs if fit is not None]
    if not ended:
        # Each is run to its end, as none is known to be the best before: of many rows only two.
        return known if len(known) < 3 or data.n_rows <= FEW_ROWS else [known[0], known[-1]]
    best = int(np.argmax([fit.log_likelihood for fit in ended]))
    return [(candidates[best], ended[best].parameters, ended[best].curvature)]


def _approached(
    data: WhitenedData, parameters: WhitenedParameters, prior: Prior | None, curvature: LBFGSHistory | None
) -> Fit | None:
    """Return where EM on more and more of the rows leads; None if the rows are too few for that.

    This is near the optimum on all rows, for a part of the cost of getting there.
    """
    fit = None
    steps = []
    step = GROWTH
    least = ROWS_A_PARAMETER * data.family.n_parameters(parameters.n_components, data.n_features)
    while data.n_rows // step >= max(LEAST_SAMPLE, least):
        steps.append(step)
        step *= GROWTH
    for step in reversed(steps):
        sample = data.systematic_sample(step)
        fit = converge(
            sample, parameters, prior, tol=SAMPLE_TOLERANCE, max_iter=SAMPLE_PASSES, curvature=curvature
        )
        parameters, curvature = fit.parameters, fit.curvature
    return fit


def _almost_empty(data: WhitenedData, fit: Fit) -> list[ApolarWarning]:
    """Return a warning on components without rows."""
    counts = fit.parameters.weights * data.weight
    n_empty = int(np.sum(counts < 0.5))
    if not n_empty:
        return []
    message = f"{n_empty} of {len(counts)} components hold less than one row. Ask for fewer components."
    return [EmptyComponentWarning(message)]


def _is_collapsed(data: WhitenedData, fit: Fit) -> bool:
    """Return whether a component is without spread in some direction."""
    smallest = data.family.smallest_variance(fit.parameters.covariances)
    return smallest <= 2 * data.family.least_variance


def _disagreeing(sample: WhitenedData, fit: Fit, rivals: list[Candidate]) -> list[ApolarWarning]:
    """Return a warning if another optimum, of nearly the same likelihood, parts the rows differently."""
    rivals = [rival for rival in rivals if rival.fit is not None]
    if not rivals or fit.parameters.n_components == 1:
        return []
    weights = sample.row_weights()

    def seen(parameters: WhitenedParameters) -> tuple[float, Array]:
        posteriors, densities = sample.row_responsibilities(parameters)
        return float(np.average(densities, weights=weights)), posteriors.argmax(axis=0)

    best, ours = seen(fit.parameters)
    for rival in rivals:
        likelihood, theirs = seen(rival.parameters)
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
