"""Runs of plain EM for a batch of mixtures, each by itself: by the extension, or the same by NumPy.

On a table of some hundred rows a step of EM takes the extension microseconds, and Python a hundred times as
long. So a whole run is one call of the extension.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array
from apolar._core.compiled import extension, part_rows
from apolar._core.constants import MAX_FALL, MIN_PART
from apolar._core.threads import run_in_threads
from apolar.em.problem import Problem
from apolar.mixture import compiled_steps
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, batch
from apolar.mixture.prior import Prior

__all__ = ["PlainRuns", "has_kernel", "plain_runs"]

# How the extension says that a run ended by the collapse of a component.
COLLAPSED = 2
# A variance is at its floor if it is above it by no more than this, relative to it: rounding, with a margin.
AT_FLOOR = 1e-6


@dataclass(frozen=True, eq=False)
class PlainRuns:
    """The ends of runs of plain EM.

    Attributes
    ----------
    parameters : WhitenedParameters
        A batch: the mixtures of the last E-steps.
    log_likelihood : ndarray, shape (n_mixtures,)
        Of these mixtures, in whitened coordinates. Minus infinity if a start has no density.
    objective : ndarray, shape (n_mixtures,)
        The log-likelihood plus the logarithm of the prior.
    stats : SufficientStats
        Of the last E-steps.
    n_steps : ndarray of int, shape (n_mixtures,)
        The number of E-steps.
    is_collapsed : ndarray of bool, shape (n_mixtures,)
        Whether a run ended as a component became empty, or the next M-step would have had a variance at its
        floor, or one that is lost in rounding.
    """

    parameters: WhitenedParameters
    log_likelihood: Array
    objective: Array
    stats: SufficientStats
    n_steps: Array
    is_collapsed: Array


def plain_runs(
    data: Problem,
    parameters: WhitenedParameters,
    prior: Prior | None,
    *,
    n_steps: int,
    relative_tol: float,
    n_threads: int = 1,
) -> PlainRuns:
    """Run EM from each mixture of a batch until its objective hardly changes.

    Parameters
    ----------
    data : Problem
    parameters : WhitenedParameters
        The starts: with one leading axis.
    prior : Prior or None
        One that does not adapt to the components.
    n_steps : int
        The most E-steps of a run.
    relative_tol : float
        A run has converged if its objective changes by at most this, relative to one plus its size, in
        whitened coordinates.
    n_threads : int, default=1

    Returns
    -------
    runs : PlainRuns
    """
    if n_steps < 1:
        raise ValueError(f"n_steps must be at least 1; got {n_steps}.")
    if not has_kernel(data):
        return _numpy_runs(data, parameters, prior, n_steps, relative_tol)
    return _compiled_runs(data, parameters, prior, n_steps, relative_tol, n_threads)


def has_kernel(data: Problem) -> bool:
    """Return whether the extension runs EM on these rows: they are stored for it, and have no noise."""
    if compiled_steps.code_of(data.family, data.n_features) is None or data.kept_columns is None:
        return False
    if data.is_incomplete or data.whitening.has_noise_component:
        return False
    return data.whitening.measurement_covariance(data.family) is None


def _compiled_runs(
    data: Problem,
    parameters: WhitenedParameters,
    prior: Prior | None,
    n_steps: int,
    relative_tol: float,
    n_threads: int,
) -> PlainRuns:
    """Return the ends of runs, each by one call of the extension."""
    each, n_features, shape = data.family, data.n_features, parameters.weights.shape
    n_mixtures, n_components = shape
    columns, row_weights = data.kept_columns, data.row_weights()
    assert columns is not None
    terms = None if prior is None else prior.terms(each, n_components, n_features)
    prior_numbers = (0.0, 0.0, 0.0)
    if terms is not None:
        prior_numbers = terms.shrinkage, terms.mean_divisor, float(terms.constant)
    added = compiled_steps.prior_arrays(each, terms, (n_components,), n_features)
    rows = np.ascontiguousarray(columns), np.ascontiguousarray([] if row_weights is None else row_weights)
    frames = compiled_steps.frames_of(each)
    # Copies, in which the extension writes the ends.
    weights, means, covariances = (
        np.array(array, np.float64, order="C")
        for array in (parameters.weights, parameters.means, parameters.covariances)
    )
    n_stats = each.n_stats(n_features)
    stats = np.zeros((*shape, n_stats))
    results = np.tile([-np.inf, -np.inf, 0.0], (n_mixtures, 1))
    statuses = np.zeros(n_mixtures, np.int64)
    known = (compiled_steps.code_of(each, n_features), n_features, n_components, each.min_variance)
    numbers = (part_rows(len(rows[0].T), n_components * n_stats), n_steps, relative_tol)
    left = deque(range(n_mixtures))

    def run_those_left() -> None:
        while left:
            try:
                i = left.popleft()
            except IndexError:  # another thread took the last one
                return
            # A slice, as a covariance that is a number would not be an array.
            out = (weights[i], means[i], covariances[i : i + 1], stats[i], results[i])
            statuses[i] = extension().plain_run(
                *(*rows, *added, *frames, *out, *known, *prior_numbers, *numbers)
            )

    run_in_threads(run_those_left, min(n_threads, n_mixtures))
    return PlainRuns(
        parameters=WhitenedParameters(weights, means, covariances),
        log_likelihood=results[:, 0],
        objective=results[:, 1],
        stats=SufficientStats(stats, n_features),
        n_steps=results[:, 2].astype(np.int64),
        is_collapsed=statuses == COLLAPSED,
    )


@dataclass(eq=False)
class _Run:
    """A run by NumPy: the mixture of the last E-step, and what that gave."""

    parameters: WhitenedParameters
    stats: Array
    log_likelihood: float = -np.inf
    objective: float = -np.inf
    n_steps: int = 0
    is_collapsed: bool = False


def _numpy_runs(
    data: Problem,
    parameters: WhitenedParameters,
    prior: Prior | None,
    n_steps: int,
    relative_tol: float,
) -> PlainRuns:
    """Return the ends of runs, by steps of NumPy."""
    runs = []
    for i in range(len(parameters.weights)):
        with np.errstate(all="ignore"):
            runs.append(_numpy_run(data, parameters[i], prior, n_steps, relative_tol))
    return PlainRuns(
        parameters=batch([run.parameters for run in runs]),
        log_likelihood=np.array([run.log_likelihood for run in runs]),
        objective=np.array([run.objective for run in runs]),
        stats=SufficientStats(np.stack([run.stats for run in runs]), data.n_features),
        n_steps=np.array([run.n_steps for run in runs]),
        is_collapsed=np.array([run.is_collapsed for run in runs]),
    )


def _numpy_run(
    data: Problem, start: WhitenedParameters, prior: Prior | None, n_steps: int, relative_tol: float
) -> _Run:
    each, now = data.family, start
    run = _Run(start, np.zeros((start.n_components, data.n_stats)))
    for step in range(1, n_steps + 1):
        if not now.is_finite or not each.smallest_variance(now.covariances) > 0:
            run.is_collapsed = True
            return run
        stats, log_likelihood = data.e_step(now[None])
        value, before = float((log_likelihood + each.log_prior(now[None], prior))[0]), run.objective
        # The first step may bring a start to the family; later ones do not fall, unless rounding decides.
        if not np.isfinite(value) or (step > 2 and value < before - MAX_FALL * (1 + abs(value))):
            run.is_collapsed = True
            return run
        run.parameters, run.stats = now, stats.array[0]
        run.log_likelihood, run.objective, run.n_steps = float(log_likelihood[0]), value, step
        if abs(value - before) <= relative_tol * (1 + abs(value)):
            return run
        counts = stats[0].counts
        if not counts.min() > MIN_PART * counts.sum():
            run.is_collapsed = True
            return run
        if step == n_steps:
            return run
        now = each.m_step(stats[0], prior, now)
        if _is_at_floor(each, stats[0], prior, now):
            run.is_collapsed = True
            return run
    return run


def _is_at_floor(
    each: Family, stats: SufficientStats, prior: Prior | None, parameters: WhitenedParameters
) -> bool:
    """Return whether a variance of an M-step is at its floor, or not finite."""
    estimates = [parameters]
    if each.code in ("VEE", "EVV"):
        # These give any scatter a volume that others have: one that is flat shows without that.
        estimates.append(family("full" if each.code == "EVV" else "tied").m_step(stats, prior))
    least = (1 + AT_FLOOR) * each.min_variance
    return not all(one.is_finite and each.smallest_variance(one.covariances) > least for one in estimates)
