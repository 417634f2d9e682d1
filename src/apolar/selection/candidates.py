"""Candidates of a selection, each fitted by the estimator."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

from apolar._core.threads import one_blas_thread
from apolar.estimator import GaussianMixture
from apolar.estimator.inputs import open_input
from apolar.estimator.parameters import n_threads_of
from apolar.estimator.predict import predictor_of
from apolar.exceptions import CollapsedWarning, ColumnWarning, FarRowsWarning
from apolar.mixture.families import family
from apolar.mixture.noise import N_NOISE_PARAMETERS
from apolar.selection.result import Row

__all__ = ["fit_candidate"]

# Exceptions by which a fit reports that a candidate cannot be fitted; others are errors of the program.
FAILURES = (ValueError, ArithmeticError, MemoryError)


def fit_candidate(
    X: Any, sample_weight: Any, settings: dict[str, Any], kind: str, n_components: int
) -> tuple[Row, GaussianMixture | None]:
    """Return the row of a candidate, and its model; None if it failed.

    Parameters
    ----------
    X, sample_weight : object
        As given to `select`.
    settings : dict
        The parameters of the estimator that all candidates share.
    kind : str
    n_components : int

    Returns
    -------
    row : Row
    model : GaussianMixture or None
    """
    begun = time.perf_counter()
    model = GaussianMixture(**settings).set_params(covariance_type=kind, n_components=n_components)
    failed = None
    with warnings.catch_warnings(record=True) as caught, one_blas_thread():
        warnings.simplefilter("always")
        for category in (ColumnWarning, FarRowsWarning):  # `select` has warned of them, once
            warnings.simplefilter("ignore", category)
        rows = open_input(model, X, sample_weight, reset=True)
        n_parameters = family(kind).n_parameters(n_components, rows.n_features)
        n_parameters += N_NOISE_PARAMETERS if model.noise else 0
        try:
            model.fit(X, sample_weight=sample_weight)
        except FAILURES as error:
            failed = str(error)
    said = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    row = Row(kind, n_components, n_parameters, warnings=said, failed=failed)
    if failed is None:
        collapses = (warning for warning in caught if issubclass(warning.category, CollapsedWarning))
        failed = next((str(warning.message) for warning in collapses), None)
        row = replace(row, converged=model.converged_, start=model.start_, failed=failed)
    if failed is None:
        with one_blas_thread():
            likelihood = predictor_of(model).likelihood(rows, n_threads_of(model))
        # By the names of fields of Row.
        criteria: dict[str, Any] = likelihood.criteria(n_parameters, model.evidence_)
        row = replace(row, log_likelihood=likelihood.log_likelihood, n_samples=likelihood.weight, **criteria)
    return replace(row, seconds=time.perf_counter() - begun), model if failed is None else None
