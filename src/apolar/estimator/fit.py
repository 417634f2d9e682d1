"""One call of `fit`: from rows to the attributes of the estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import fits_in_memory, random_generator
from apolar._core.settings import SETTINGS
from apolar.data import Rows
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus, in_canonical_order
from apolar.em.row_scale import refuse_rows_out_of_reach
from apolar.estimator.fit_warnings import is_collapsed, warnings_of
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
from apolar.estimator.storage import Checkpoint, stored_state
from apolar.exceptions import DisagreementWarning, SkippedStartWarning, warn_user
from apolar.mixture.families import Family
from apolar.mixture.prior import Prior
from apolar.search.given import has_given_parameters, requested_candidates
from apolar.search.search import Candidates, best_fit

__all__ = ["fit_rows"]


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
    check_memory(family, int(estimator.n_components), rows.n_features)
    stored = stored_state(estimator, family, rows.n_features)
    n_threads = n_threads_of(estimator)
    data = Problem(rows, family, threads=n_threads, measurement=estimator.reg_covar or 0.0)
    refuse_rows_out_of_reach(data.rows, data.whitening, data.far_rows)
    if estimator.noise:
        data = with_noise_component(data, estimator.noise)
    if data.n_rows < estimator.n_components:
        raise ValueError(
            f"n_components = {estimator.n_components} components need at least as many rows; got "
            f"n_samples = {data.n_rows}. Ask for fewer components."
        )
    solver = _Solver(estimator, X, data, prior, stored, has_weight)
    is_continued = _continues_rounded(estimator, data, stored)
    result = (
        solver.beyond_rounding(is_continued=is_continued) if allows_rounding(estimator) else solver.solve()
    )
    _check_not_collapsed(estimator, result)
    solver.state(result).set_on(estimator)
    if estimator.reg_covar or solver.data.is_rounded or data.n_rows <= SETTINGS.sample_rows:
        # EM computes the density with the noise of the rows, and before parameters are rounded in the
        # transform to the units of the data; this is the density of the mixture as it is returned.
        likelihood = predictor_of(estimator).likelihood(rows, n_threads)
        estimator.lower_bound_ = likelihood.log_likelihood / likelihood.weight
    solver.end()
    vars(estimator).pop("_stream", None)
    _warn(estimator, result)
    if not estimator.noise:
        warn_of_far_rows(data.far_rows, has_weight)
    if data.scale is not None and not rows.is_sparse:  # words that no row has are constant columns
        names = getattr(estimator, "feature_names_in_", None)
        used = "Criteria such as BIC count their parameters."
        warn_of_constant_columns(data.scale.mean, data.scale.variances, names, used)
    solver.progress.end(estimator.message_)


class _Solver:
    """The searches of one fit, whose passes are reported together.

    Parameters
    ----------
    estimator : GaussianMixture
    X : object
        The rows as the user gave them.
    data : Problem
    prior : Prior or None
    stored : FittedState or None
        The mixture of the file that the fit resumes from.
    has_weight : ndarray of bool or None

    Attributes
    ----------
    data : Problem
        The one that is being solved: as given, or with the rounding errors of the rows.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        data: Problem,
        prior: Prior | None,
        stored: FittedState | None,
        has_weight: Array | None,
    ) -> None:
        self.estimator, self.X, self.stored, self.has_weight = estimator, X, stored, has_weight
        self.plain, self.plain_prior, self.data = data, prior, data
        # To check that EM ended at a maximum, to compare partitions, and for the resolution of the columns.
        self.sample = data.subsample(SETTINGS.sample_rows, np.random.default_rng(0))
        self.dtype = float_type(X)
        self.progress = FitProgress(estimator, X, data.weight, data.whitening.log_det, self.state)
        self.keeps_order = False
        self.checkpoint: Checkpoint | None = None

    def state(self, result: Fit) -> FittedState:
        """Return the fitted state of a result."""
        return FittedState.of_fit(result, self.data, self.dtype)

    def beyond_rounding(self, *, is_continued: bool) -> Fit:
        """Return the best mixture that has no component narrower than the rounding errors of the rows.

        Where values repeat because they are rounded, as in integers, the likelihood grows without bound as a
        component becomes flat in a column, and flat components say nothing about clusters. If the best
        mixture has one, the search is repeated for rows that are known up to their rounding errors only. If
        there is an optimum without flat components near what that finds, the rounding errors are not needed,
        and that is the result. Rows without repeated values are fitted once, as they are.

        Parameters
        ----------
        is_continued : bool
            Whether the start is from a fit to rows that were known up to their rounding errors.
        """
        result = None if is_continued else self.solve()
        if result is not None and result.status is FitStatus.STOPPED:
            return result
        variances = self.sample.rounding_variances()
        if not np.any(variances):
            return self.solve() if result is None else result
        if result is not None and not self.plain.is_narrower(result.parameters, variances):
            return result
        rounded = self.solve(variances=variances)
        if rounded.status is not FitStatus.CONVERGED:
            return rounded
        solved = self.data
        start = replace(rounded, status=FitStatus.NOT_RUN, is_from_all_rows=True)
        result = self.solve(Candidates(lambda _: [start], keeps_order=self.keeps_order))
        is_flat = self.plain.is_narrower(result.parameters, variances)
        if result.status is not FitStatus.CONVERGED or is_flat:
            self.data = solved
            return rounded
        # The starts disagreed in the search; this run had only one.
        disagreement = [each for each in rounded.warnings if isinstance(each, DisagreementWarning)]
        return replace(result, warnings=(*result.warnings, *disagreement))

    def solve(self, start: Candidates | None = None, variances: Array | None = None) -> Fit:
        """Return the best mixture, its components in order, from a given start or that of the fit."""
        estimator, sample = self.estimator, self.sample
        self.data, prior = self.plain, self.plain_prior
        if variances is not None:
            self.data, sample = (each.replace(measurement=variances) for each in (self.plain, sample))
            prior = self.data.prior_for(prior)
        if start is None:
            warm = _warm_start(estimator, self.data, self.stored)
            start = warm or requested_candidates(estimator, self.data, self.X, prior, self.has_weight)
        self.keeps_order = start.keeps_order
        if estimator.checkpoint is not None:
            # A new one for each search: likelihoods with and without rounding errors cannot be compared.
            self.checkpoint = Checkpoint(estimator, self.state, self._ordered)
        result, candidates = best_fit(
            self.data,
            prior,
            start,
            tol=estimator.tol,
            max_iter=estimator.max_iter,
            rng=random_generator(estimator.random_state),
            sample=sample,
            callback=self._report,
        )
        result = replace(
            result,
            warnings=tuple(warnings_of(self.data, prior, result, candidates, sample)),
            is_collapsed=is_collapsed(self.data, result),
        )
        return self._ordered(result)

    def _ordered(self, result: Fit) -> Fit:
        data = self.data
        return result if self.keeps_order else in_canonical_order(result, data.family, data.whitening)

    def _report(self, result: Fit) -> bool:
        if self.checkpoint is not None:
            self.checkpoint(result)
        return self.progress(result)

    def end(self) -> None:
        """Write the fitted mixture to the checkpoint, if there is one."""
        if self.checkpoint is not None:
            self.checkpoint.write(FittedState.of(self.estimator))


def check_memory(family: Family, n_components: int, n_features: int) -> None:
    """Refuse covariances that do not fit into memory, before the rows are read."""
    if not family.is_axis_aligned:
        n_numbers = 4 * n_features**2 + 4 * n_components * family.n_stats(n_features)
        what = f"{family.name!r} covariances of {n_features} columns"
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


def _warm_start(estimator: Any, data: Problem, stored: FittedState | None) -> Candidates | None:
    """Return the start from a file or from the last fit, if the estimator asks for one and there is one."""
    earlier, last = -np.inf, stored
    if last is None:
        if not _is_warm(estimator, data):
            return None
        last = FittedState.of(estimator)
        is_same = last.n_samples_seen == data.weight and data.is_rounded == last.is_rounded
        is_same = is_same and (last.parameters.noise is not None) == data.has_noise
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
    return Candidates(lambda _: [start], keeps_order=keeps_order)


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
