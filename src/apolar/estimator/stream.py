"""A mixture that is fitted to a stream: first to all rows so far, then by stepwise EM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from apolar._core.settings import SETTINGS
from apolar._core.threads import one_blas_thread
from apolar.data import Rows, fetch_rows, open_rows
from apolar.data.chunks import stack_rows
from apolar.em.left_out import best_strengths
from apolar.em.problem import Problem
from apolar.em.whitening import Whitening, whitening_around
from apolar.estimator.fit import best_solution, problem_of, warm_start_of
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import (
    allows_rounding,
    check_parameters,
    float_type,
    n_threads_of,
    open_input,
    with_column_names,
)
from apolar.exceptions import ColumnError
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import AdaptivePrior, Prior
from apolar.moments.sketch import MAX_SKETCH_COLUMNS, MomentSketch
from apolar.recovery.family_mixtures import family_mixture
from apolar.recovery.from_moments import spherical_mixture
from apolar.search.given import requested_candidates
from apolar.search.moment_starts import moment_method, whitened_mixture
from apolar.search.search import Candidates


@dataclass(frozen=True, eq=False)
class FirstRows:
    """The rows of a stream, as long as they are few: with each batch, all of them are fitted.

    Attributes
    ----------
    rows : Rows or None
    searched : float
        The weight of the rows when starts were last searched for.
    """

    rows: Rows | None = None
    searched: float = 0.0


@dataclass(frozen=True, eq=False)
class Sums:
    """What is kept of a stream of many rows, for stepwise EM.

    Attributes
    ----------
    whitening : Whitening
    stats : SufficientStats or None
        The sums of all rows, under the responsibilities that each had when it came; None if they are those of
        the mixture.
    prior : Prior or None
    method : str
        The family whose moments are kept.
    sketch : MomentSketch or None
        The moments of all rows, while they are known and can be those of a mixture.
    compared : float
        The weight of the rows when their moments were last tried.
    """

    whitening: Whitening
    stats: SufficientStats | None
    prior: Prior | None
    method: str = "spherical"
    sketch: MomentSketch | None = None
    compared: float = 0.0


def update_from_batch(estimator: Any, X: Any, sample_weight: Any) -> None:
    """Update an estimator from a batch of a stream, and set its fitted attributes.

    Parameters
    ----------
    estimator : GaussianMixture
        If it has a stream or a fitted mixture, the batch continues that; otherwise a new stream begins.
    X : rows
        One batch, in memory.
    sample_weight : array_like or None
    """
    family, prior = check_parameters(estimator)
    if family.has_factors:
        raise ValueError(
            f"A stream cannot be followed with covariance_type={estimator.covariance_type!r}: use fit, which "
            "reads rows from where they are, or 'diag'."
        )
    is_new = not hasattr(estimator, "weights_")
    rows = open_input(estimator, X, sample_weight, reset=is_new, is_batch=True)
    if rows.is_distributed:
        raise ValueError(
            "partial_fit takes a batch in memory: call it for each partition, X.partitions[i].compute(), "
            "or use fit, which reads all of them where they are."
        )
    if rows.n_rows is None:
        raise ValueError("partial_fit takes one batch at a time: call it for each chunk.")
    stream = vars(estimator).get("_stream", FirstRows())
    last = None if is_new else FittedState.of(estimator)
    if last is not None and last.parameters.n_components != estimator.n_components:
        raise ValueError(
            f"The mixture has {last.parameters.n_components} components, and a stream cannot change to "
            f"n_components={estimator.n_components}: start a new one."
        )
    if last is not None and "_stream" not in vars(estimator):
        # The covariances of the fit have been shrunk already.
        prior = None if prior is None else prior.conjugate
        stream = Sums(whitening_around(last.parameters, last.family), None, prior)
    with one_blas_thread(), with_column_names(estimator):
        if isinstance(stream, FirstRows):
            state, stream = _fit_first(estimator, stream, rows, last, family, prior)
        else:
            assert last is not None
            state, stream = _step(estimator, last, stream, rows)
    assert state.lower_bound is not None
    # Set last, so that a batch that fails leaves the estimator as it was.
    replace(
        state,
        dtype=float_type(X),
        converged=False,
        n_iter=1 + (0 if last is None else last.n_iter or 0),
        lower_bounds=[*([] if last is None else last.lower_bounds or []), state.lower_bound],
        start="stream",
        start_notes=[],
        message="The mixture follows a stream: each call of partial_fit moves it.",
    ).set_on(estimator)
    estimator._stream = stream


# --- the first rows -----------------------------------------------------------------------------


def _fit_first(
    estimator: Any,
    first: FirstRows,
    batch: Rows,
    last: FittedState | None,
    family: Family,
    prior: Prior | None,
) -> tuple[FittedState, FirstRows | Sums]:
    """Return the fit of all rows so far, and what to keep of them."""
    rows = _stack(first.rows, batch)
    problem, n_components = problem_of(estimator, rows, family, estimator.noise), int(estimator.n_components)
    first = replace(first, rows=rows)
    n_enough = SETTINGS.stream_rows_per_parameter * n_components * (problem.n_features + 1)
    has_enough = problem.n_rows >= max(SETTINGS.stream_rows, n_enough)
    # A new start each time the rows have doubled, and before they are dropped: that from a few may be poor.
    if last is None or has_enough or problem.weight >= 2 * first.searched:
        first, last = replace(first, searched=problem.weight), None
    settings = estimator
    if not isinstance(estimator.init_params, str):
        # Labels and responsibilities are those of other rows.
        settings = clone(estimator).set_params(init_params="auto")

    def start(problem: Problem, prior: Prior | None) -> Candidates:
        if last is None:
            return replace(requested_candidates(settings, problem, None, prior, None), keeps_order=False)
        warm = warm_start_of(last, problem)
        return Candidates(lambda _: [warm], keeps_order=False)

    is_continued = last is not None and last.is_rounded
    solution = best_solution(estimator, problem, prior, start, is_continued=is_continued)
    state, fit = solution.state(np.float64), solution.fit
    if not has_enough:
        return state, first
    assert fit.stats is not None
    sums = Sums(solution.problem.whitening, fit.stats, prior, compared=problem.weight)
    method = moment_method(family, n_components, problem.n_features, problem.n_rows)
    if method is None and n_components <= problem.n_features <= MAX_SKETCH_COLUMNS:
        method = "spherical"
    # With noise, the moments of all rows are not those of the components.
    if method is None or estimator.noise or problem.is_incomplete:
        return state, sums
    sketch = MomentSketch(problem.n_features, covariance_type=method).update(rows)
    return state, replace(sums, method=method, sketch=sketch)


def _stack(first: Rows | None, batch: Rows) -> Rows:
    """Return rows and those of a batch, copied, as one array."""
    given = [batch] if first is None else [first, batch]
    parts = [fetch_rows(rows, np.arange(rows.n_rows or 0)) for rows in given]
    weights = None
    if any(weight is not None for _, weight in parts):
        weights = np.concatenate([np.ones(v.shape[0]) if w is None else w for v, w in parts])
    return open_rows(stack_rows([values for values, _ in parts]), weights)


# --- stepwise EM --------------------------------------------------------------------------------


def _step(estimator: Any, last: FittedState, sums: Sums, rows: Rows) -> tuple[FittedState, Sums]:
    """Return the mixture and the sums after a batch, whose statistics are mixed into them: stepwise EM."""
    batch = _problem_of_batch(estimator, last, sums, rows)
    whitening, prior = batch.whitening, batch.prior_for(sums.prior)
    inside, weight = whitening.transform_parameters(last.parameters), estimator.n_samples_seen_
    before = batch.family.stats_of(inside, weight, prior) if sums.stats is None else sums.stats
    stats, likelihood = batch.e_step(inside[None])
    total = weight + batch.weight
    rate = (batch.weight / total) ** SETTINGS.forgetting
    mixed = before * ((1 - rate) * total / weight) + stats[0] * (rate * total / batch.weight)
    if stats.dof_slopes is not None:
        # Earlier derivatives are those at other degrees of freedom.
        mixed = replace(mixed, dof_slopes=stats[0].dof_slopes * (rate * total / batch.weight))
    sketch, compared = sums.sketch, sums.compared
    if sketch is not None:
        # Where values are missing, the moments of all rows are no longer known.
        part = MomentSketch(rows.n_features, covariance_type=sums.method)
        sketch = None if batch.is_incomplete else sketch + part.update(rows)
    if sketch is not None and total >= 2 * compared:
        compared, rival = total, _mixture_of_moments(batch, sketch, sums.method, inside.n_components)
        # The mixture of the moments of all rows seen, if the batch is clearly more likely under it.
        least = float(likelihood[0]) + SETTINGS.clearly_better
        if rival is not None and float(batch.e_step(rival[None])[1][0]) > least:
            mixed = batch.family.stats_of(rival, total, prior)
    strengths = last.shrinkage
    if isinstance(prior, AdaptivePrior) and strengths is not None:
        # The more rows there are, the less may be shared.
        near = batch.few, mixed, prior, strengths, inside, total, float(likelihood[0])
        strengths, _ = best_strengths(*near)
        prior = prior.of_strengths(strengths)
    updated = batch.m_step(mixed, prior, inside, total)
    if batch.is_rounded:
        likelihood = batch.exact.e_step(inside[None])[1]
    state = replace(
        last,
        parameters=whitening.inverse_transform_parameters(updated, batch.noise),
        n_samples_seen=total,
        lower_bound=float(likelihood[0]) / batch.weight + whitening.log_det,
        shrinkage=strengths,
        # Not known for a stream, whose rows are gone.
        evidence=None,
        loo=None,
        loo_standard_error=None,
    )
    return state, replace(sums, stats=mixed, sketch=sketch, compared=compared)


def _problem_of_batch(estimator: Any, last: FittedState, sums: Sums, rows: Rows) -> Problem:
    """Return a batch, which is checked, in the coordinates of the stream."""
    threads = n_threads_of(estimator)
    try:
        is_incomplete = Problem(rows, last.family, threads=threads).is_incomplete
    except ColumnError:
        # A column without any value in this batch has some in others.
        is_incomplete = True
    measurement = estimator.reg_covar or 0.0
    if allows_rounding(estimator) and last.is_rounded:
        measurement = np.asarray(last.rounding_variances)
    return Problem(
        rows,
        last.family,
        sums.whitening,
        threads,
        measurement=measurement,
        noise=last.parameters.noise,
        available_covariance=sums.whitening.covariance if is_incomplete else None,
    )


def _mixture_of_moments(
    batch: Problem, sketch: MomentSketch, method: str, n_components: int
) -> WhitenedParameters | None:
    """Return the mixture of the moments of all rows seen, by the method of the family."""
    units = np.ones(batch.n_features)
    try:
        if method == "spherical":
            return whitened_mixture(batch, spherical_mixture(sketch.central(), n_components), units)
        central, rng = sketch.central(), np.random.default_rng(0)
        return whitened_mixture(batch, family_mixture(central, n_components, method, rng), units)
    except (ValueError, np.linalg.LinAlgError):
        return None
