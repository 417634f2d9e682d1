"""One call of `fit`: from rows to the attributes of the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import fits_in_memory, random_generator
from apolar.data import Rows
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus, in_canonical_order
from apolar.em.rounding import has_rounding
from apolar.estimator.fitted import FittedState, is_fitted_as
from apolar.estimator.inputs import float_type
from apolar.estimator.parameters import allows_rounding, check_columns, is_path, n_threads_of
from apolar.estimator.predict import predictor_of
from apolar.estimator.progress import (
    FitProgress,
    NotConvergedWarning,
    warn_of_constant_columns,
    warn_of_far_rows,
)
from apolar.estimator.rounding import RoundingProblem, fit_beyond_rounding
from apolar.estimator.search import best_fit
from apolar.estimator.storage import Checkpoint, stored_state
from apolar.exceptions import SkippedStartWarning, warn_user
from apolar.mixture.families import Family
from apolar.mixture.prior import Prior
from apolar.search.given import ResolvedStart, has_given_parameters, resolved_start

__all__ = ["CHECKED_ROWS", "fit_rows"]

# Up to this many rows, the likelihood of the fitted mixture is computed once more, in the units of X.
RECOMPUTED_ROWS = 10_000
# How many rows, at most, are used to check that EM ended at a maximum, to compare partitions, and to see
# with which resolution columns are recorded.
CHECKED_ROWS = 10_000


def fit_rows(
    estimator: Any, X: Any, rows: Rows, family: Family, prior: Prior | None, has_weight: Array | None
) -> None:
    """Fit an estimator to rows, and set its attributes.

    Parameters
    ----------
    estimator : GaussianMixture
    X : object
        The rows as the user gave them, for callables and callbacks.
    rows : Rows
    family : Family
    prior : Prior or None
    has_weight : ndarray of bool or None
        Which rows of X have a weight above zero; None if all have.
    """
    check_columns(estimator, rows.n_features)
    _check_memory(estimator, rows, family)
    stored = stored_state(estimator, family, rows.n_features)
    n_threads = n_threads_of(estimator)
    data = Problem(rows, family, threads=n_threads, noise=estimator.reg_covar or 0.0)
    data.refuse_rows_out_of_reach()
    if estimator.noise:
        data = with_noise_component(data, estimator.noise)
    if data.n_rows < estimator.n_components:
        raise ValueError(
            f"n_components = {estimator.n_components} components need at least as many rows; got "
            f"n_samples = {data.n_rows}. Ask for fewer components."
        )
    problem = RoundingProblem(data, data.subsample(CHECKED_ROWS, np.random.default_rng(0)), prior)
    search = _Search(estimator, X, problem, stored, has_weight)
    if allows_rounding(estimator) and estimator.max_iter > 0:
        is_continued = _continues_rounded(estimator, data, stored)
        result, problem = fit_beyond_rounding(problem, search, is_continued=is_continued)
    else:
        result = search(problem)
    _check_not_collapsed(estimator, result)
    search.state(result, problem).set_on(estimator)
    if estimator.reg_covar or problem.is_rounded or data.n_rows <= RECOMPUTED_ROWS:
        # EM computes the density with the noise of the rows, and before parameters are rounded in the
        # transform to the units of the data; this is the density of the mixture as it is returned.
        likelihood = predictor_of(estimator).likelihood(rows, n_threads)
        estimator.lower_bound_ = likelihood.log_likelihood / likelihood.weight
    search.end()
    vars(estimator).pop("_stream", None)
    _warn(estimator, result)
    if not estimator.noise:
        warn_of_far_rows(data.far_rows, has_weight)
    if data.scale is not None and not rows.is_sparse:  # words that no row has are constant columns
        names = getattr(estimator, "feature_names_in_", None)
        used = "Criteria such as BIC count their parameters."
        warn_of_constant_columns(data.scale.mean, data.scale.variances, names, used)
    search.progress.end(estimator.message_)


class _Search:
    """The searches of one fit, whose passes are reported together.

    Parameters
    ----------
    estimator : GaussianMixture
    X : object
        The rows as the user gave them.
    problem : RoundingProblem
        The first that is solved.
    stored : FittedState or None
        The mixture of the file that the fit resumes from.
    has_weight : ndarray of bool or None
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        problem: RoundingProblem,
        stored: FittedState | None,
        has_weight: Array | None,
    ) -> None:
        self.estimator, self.X, self.problem = estimator, X, problem
        self.stored, self.has_weight, self.dtype = stored, has_weight, float_type(X)
        weight, log_det = problem.data.weight, problem.data.whitening.log_det
        self.progress = FitProgress(estimator, X, weight, log_det, self.state)
        self.keeps_order = False
        self.checkpoint: Checkpoint | None = None

    def state(self, result: Fit, problem: RoundingProblem | None = None) -> FittedState:
        """Return the fitted state of a result, by default one of the problem that is being solved."""
        return FittedState.of_fit(result, (problem or self.problem).data, self.dtype)

    def __call__(self, problem: RoundingProblem, given: Fit | None = None) -> Fit:
        """Return the best mixture, its components in order, from the start of the fit or a given one."""
        estimator, self.problem = self.estimator, problem
        start = self._start() if given is None else ResolvedStart.fixed(given, keeps_order=self.keeps_order)
        self.keeps_order = start.keeps_order
        if estimator.checkpoint is not None:
            # A new one for each search: likelihoods with and without rounding errors cannot be compared.
            self.checkpoint = Checkpoint(estimator, self.state, self._ordered)
        result = best_fit(
            problem.data,
            problem.prior,
            start,
            tol=estimator.tol,
            max_iter=estimator.max_iter,
            rng=random_generator(estimator.random_state),
            sample=problem.sample,
            callback=self._callback,
        )
        return self._ordered(result)

    def _start(self) -> ResolvedStart:
        data, prior = self.problem.data, self.problem.prior
        warm_start = _warm_start(self.estimator, data, self.stored)
        return warm_start or resolved_start(self.estimator, data, self.X, prior, self.has_weight)

    def _ordered(self, result: Fit) -> Fit:
        data = self.problem.data
        return result if self.keeps_order else in_canonical_order(result, data.family, data.whitening)

    def _callback(self, result: Fit) -> bool:
        if self.checkpoint is not None:
            self.checkpoint(result)
        return self.progress(result)

    def end(self) -> None:
        """Write the fitted mixture to the checkpoint, if there is one."""
        if self.checkpoint is not None:
            self.checkpoint.write(FittedState.of(self.estimator))


def _check_memory(estimator: Any, rows: Rows, family: Family) -> None:
    """Refuse covariances that do not fit into memory, before the rows are read."""
    m = rows.n_features
    n_numbers = 4 * m**2 + 4 * int(estimator.n_components) * family.n_stats(m)
    if not family.is_axis_aligned:
        what = f"{estimator.covariance_type!r} covariances of {m} columns"
        fits_in_memory(n_numbers, what, "use 'diag' or 'spherical', or fewer columns")


def _is_warm(estimator: Any, data: Problem) -> bool:
    """Return whether a fit starts where the last one of the estimator ended."""
    is_fitted = is_fitted_as(estimator, data.family, estimator.n_components, data.n_features)
    return bool(estimator.warm_start) and is_fitted


def _continues_rounded(estimator: Any, data: Problem, stored: FittedState | None) -> bool:
    """Return whether a warm start continues a fit to rows that were known up to their rounding errors."""
    if stored is not None:
        return stored.is_rounded
    return _is_warm(estimator, data) and FittedState.of(estimator).is_rounded


def _warm_start(estimator: Any, data: Problem, stored: FittedState | None) -> ResolvedStart | None:
    """Return the start from a file or from the last fit, if the estimator asks for one and there is one."""
    earlier, last = -np.inf, stored
    if last is None:
        if not _is_warm(estimator, data):
            return None
        last = FittedState.of(estimator)
        is_same = last.n_samples_seen == data.weight and has_rounding(data) == last.is_rounded
        is_same = is_same and (last.parameters.noise is not None) == data.whitening.has_noise_component
        if is_same and last.lower_bounds:
            earlier = (last.lower_bounds[-1] - data.whitening.log_det) * data.weight
    start = Fit(
        data.whitening.transform_parameters(last.parameters),
        "warm start",
        strength=last.shrinkage or None,
        is_from_all_rows=True,
        earlier=earlier,
    )
    # A fit that resumes from its checkpoint orders its components as the first one would have; other warm
    # starts keep the order of the mixture that they start from.
    is_resumed = stored is not None and not is_path(estimator.warm_start)
    is_given = not (isinstance(estimator.init_params, str) or callable(estimator.init_params))
    keeps_order = has_given_parameters(estimator) or is_given or not is_resumed
    return ResolvedStart.fixed(start, keeps_order=keeps_order)


def _check_not_collapsed(estimator: Any, result: Fit) -> None:
    """Refuse a collapsed component where the user asked for no regularisation, as scikit-learn does."""
    is_final = result.status is FitStatus.CONVERGED
    if result.is_collapsed and is_final and estimator.reg_covar == 0:
        raise ValueError(
            "Fitting the mixture model failed because some components have ill-defined empirical "
            "covariance (for instance caused by singleton or collapsed samples). Try to decrease the "
            "number of components, increase reg_covar, or scale the input data. reg_covar=None, the "
            "default, keeps components from collapsing by a prior."
        )


def _warn(estimator: Any, result: Fit) -> None:
    """Issue the warnings of a result."""
    if result.status is FitStatus.MAX_ITER and estimator.max_iter > 0:
        warn_user(estimator.message_, NotConvergedWarning)
    if isinstance(estimator.init_params, str) and estimator.init_params == "moments":
        for reason in result.skipped:
            warn_user(reason, SkippedStartWarning)
    for warning in result.warnings:
        warn_user(warning)
