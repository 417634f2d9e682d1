"""One call of `fit`: from rows to the attributes of the estimator."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import fits_in_memory, random_generator
from apolar.data import Rows
from apolar.em.lbfgs import LBFGSHistory
from apolar.em.result import FitResult, FitStatus, in_canonical_order
from apolar.em.whitened import WhitenedData
from apolar.estimator.attributes import exact_parameters, result_attributes
from apolar.estimator.checkpoint import Checkpoint, resumed
from apolar.estimator.inputs import float_type
from apolar.estimator.parameters import is_path
from apolar.estimator.predict import Predictor
from apolar.estimator.progress import NotConvergedWarning, Progress
from apolar.estimator.search import best_fit
from apolar.exceptions import SkippedStartWarning
from apolar.mixture.families import Family
from apolar.mixture.prior import Prior
from apolar.starts.resolve import ResolvedStart, has_given_parameters, resolved_start

__all__ = ["fit_rows", "is_fitted_as", "n_threads_of"]

# Up to so many rows, the likelihood of the mixture that is returned is computed once more, in the units of X.
RECOMPUTED_ROWS = 10_000
# The objectives that a fit which did not converge leaves for a warm start.
TRACE = 3
# What a fit leaves for the next one, beside the public attributes.
_LEFT_FOR_NEXT = ("_stream", "_curvature", "_trace")


def fit_rows(
    estimator: Any, X: Any, rows: Rows, family: Family, prior: Prior | None, kept: Array | None
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
    kept : ndarray of bool or None
        Which rows of X have weight, where not all do.
    """
    _check_memory(estimator, rows, family)
    stored = resumed(estimator, family, rows.n_features)
    n_threads = n_threads_of(estimator)
    data = WhitenedData(rows, family, threads=n_threads, noise=estimator.reg_covar or 0.0)
    data.refuse_rows_out_of_reach()
    if data.n_rows < estimator.n_components:
        raise ValueError(
            f"n_components = {estimator.n_components} components need at least as many rows; got "
            f"n_samples = {data.n_rows}. Ask for fewer components."
        )
    start = _warm_start(estimator, data, stored) or resolved_start(estimator, data, X, prior, kept)
    dtype = float_type(X)

    def ordered(result: FitResult) -> FitResult:
        return result if start.keeps_order else in_canonical_order(result, family, data.whitening)

    def attributes_of(result: FitResult) -> dict[str, Any]:
        return result_attributes(result, data, dtype)

    progress = Progress(estimator, X, data.weight, data.whitening.log_det, attributes_of)
    checkpoint = None
    if estimator.checkpoint is not None:
        checkpoint = Checkpoint(estimator, attributes_of, ordered)

    def callback(result: FitResult) -> bool:
        if checkpoint is not None:
            checkpoint(result)
        return progress(result)

    result = best_fit(
        data,
        prior,
        start,
        tol=estimator.tol,
        max_iter=estimator.max_iter,
        rng=random_generator(estimator.random_state),
        callback=callback,
    )
    _check_not_collapsed(estimator, result)
    result = ordered(result)
    attributes = attributes_of(result)
    if estimator.reg_covar or data.n_rows <= RECOMPUTED_ROWS:
        # The density of the mixture that is returned: without the noise that `reg_covar` stands for, and
        # after the rounding on the way from whitened coordinates to the units of the data.
        likelihood = Predictor.of(family, exact_parameters(attributes)).likelihood(rows, n_threads)
        attributes["lower_bound_"] = likelihood.log_likelihood / likelihood.weight
    for name, value in attributes.items():
        setattr(estimator, name, value)
    if checkpoint is not None:
        checkpoint.end(attributes)
    _leave_for_next(estimator, data, result)
    _warn(estimator, result)
    progress.end(estimator.message_, {})


def n_threads_of(estimator: Any) -> int:
    """Return the number of threads of an estimator: by default one per processor."""
    if estimator.n_threads is not None:
        return int(estimator.n_threads)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def is_fitted_as(estimator: Any, family: Family, n_components: int, n_features: int) -> bool:
    """Return whether an estimator holds a fitted mixture of that family and size."""
    if not hasattr(estimator, "weights_") or estimator.means_.shape != (n_components, n_features):
        return False
    return np.shape(estimator.covariances_) == family.covariance_shape(n_components, n_features)


def _check_memory(estimator: Any, rows: Rows, family: Family) -> None:
    """Refuse covariances that this machine cannot hold, before the work begins."""
    m = rows.n_features
    n_numbers = 4 * m**2 + 4 * estimator.n_components * family.n_stats(m)
    if not family.is_axis_aligned:
        what = f"covariance_type={estimator.covariance_type!r} of {m} columns"
        fits_in_memory(n_numbers, what, "use 'diag' or 'spherical', or fewer columns")


def _warm_start(
    estimator: Any, data: WhitenedData, stored: tuple[Any, LBFGSHistory | None] | None
) -> ResolvedStart | None:
    """Return the start from a file or from the last fit, if the estimator asks for one and there is one."""
    r, m = estimator.n_components, data.n_features
    if stored is not None:
        parameters, curvature = stored
        earlier: tuple[float, ...] = ()
    elif estimator.warm_start and is_fitted_as(estimator, data.family, r, m):
        parameters = estimator._parameters()
        saved = vars(estimator).get("_curvature")
        curvature = None if saved is None else LBFGSHistory.of(*saved)
        earlier = _earlier(estimator, data)
    else:
        return None
    start = FitResult(
        data.whitening.transform_parameters(parameters),
        "warm start",
        curvature=curvature,
        is_from_all_rows=True,
        earlier=earlier,
    )
    # A fit that was killed ends in the order in which it would have ended; others keep the order they had.
    was_killed = stored is not None and not is_path(estimator.warm_start)
    is_own_start = isinstance(estimator.init_params, str) or callable(estimator.init_params)
    keeps_order = has_given_parameters(estimator) or not is_own_start or not was_killed
    return ResolvedStart.fixed(start, keeps_order=keeps_order)


def _earlier(estimator: Any, data: WhitenedData) -> tuple[float, ...]:
    """Return the last objectives of the fit that a warm start continues, on rows of the same weight."""
    weight, values = vars(estimator).get("_trace", (0.0, ()))
    return values if estimator.warm_start and weight == data.weight else ()


def _leave_for_next(estimator: Any, data: WhitenedData, result: FitResult) -> None:
    """Keep what a warm start needs: a fit of few passes cannot tell by itself that it has converged."""
    earlier = _earlier(estimator, data)
    for name in _LEFT_FOR_NEXT:
        vars(estimator).pop(name, None)
    if result.status is FitStatus.MAX_ITER:
        estimator._trace = data.weight, (*earlier, *result.history)[-TRACE:]
        if result.curvature is not None and result.curvature.pairs:
            estimator._curvature = result.curvature.arrays()


def _check_not_collapsed(estimator: Any, result: FitResult) -> None:
    """Refuse a collapsed component where the user asked for no regularisation, as scikit-learn does."""
    is_final = result.status is FitStatus.CONVERGED
    if result.is_collapsed and is_final and estimator.reg_covar == 0:
        raise ValueError(
            "Fitting the mixture model failed because some components have ill-defined empirical "
            "covariance (for instance caused by singleton or collapsed samples). Try to decrease the "
            "number of components, increase reg_covar, or scale the input data. reg_covar=None, the "
            "default, keeps components from collapsing by a prior."
        )


def _warn(estimator: Any, result: FitResult) -> None:
    """Warn of what the user should know."""
    if result.status is FitStatus.MAX_ITER and estimator.max_iter > 0:
        warnings.warn(estimator.message_, NotConvergedWarning, stacklevel=5)
    if isinstance(estimator.init_params, str) and estimator.init_params == "moments":
        for remark in result.skipped:
            warnings.warn(remark, SkippedStartWarning, stacklevel=5)
    for warning in result.warnings:
        warnings.warn(warning, stacklevel=5)
