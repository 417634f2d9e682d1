"""Parameters, X and sample_weight: checked by scikit-learn, or here where it would load or refuse X."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import (
    _check_n_features,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from apolar._core.arrays import Array
from apolar._core.namespaces import is_dask, to_numpy
from apolar._core.threads import default_threads
from apolar.data import ArrayRows, Rows, open_rows
from apolar.data.chunks import as_counts, require_numbers
from apolar.data.sources import naming_text_columns, source_kind
from apolar.exceptions import ColumnError
from apolar.mixture.families import UNIVARIATE, Family, family
from apolar.mixture.prior import AdaptivePrior, Prior
from apolar.mixture.tails import MIN_DOF
from apolar.search.starts import STARTS

__all__ = [
    "allows_rounding",
    "check_columns",
    "check_parameters",
    "family_of",
    "float_type",
    "is_path",
    "n_threads_of",
    "open_input",
    "weighted_rows",
    "with_column_names",
]

# --- parameters ---------------------------------------------------------------------------------


def constraints() -> dict[str, Any]:
    """Return what scikit-learn is to check of each parameter of `GaussianMixture`.

    A family is checked by `family`, whose message lists them; labels, responsibilities and given parameters
    later, against the rows.
    """
    counted, whole = (Interval(Integral, least, None, closed="left") for least in (1, 0))
    not_negative, positive = (Interval(Real, 0, None, closed=side) for side in ("left", "neither"))
    return {
        "n_components": [counted],
        "covariance_type": "no_validation",
        "init_params": [StrOptions(set(STARTS)), callable, "array-like"],
        "n_init": [counted],
        "max_iter": [whole],
        "tol": [not_negative],
        "reg_covar": [not_negative, None],
        "prior": [StrOptions({"default", "conjugate"}), Prior, None],
        "random_state": [whole, np.random.RandomState, np.random.Generator, None],
        "warm_start": ["boolean", str, os.PathLike],
        "verbose": ["verbose"],
        "verbose_interval": [counted],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", Real, None],
        "noise": ["boolean", Interval(Real, 0, 1, closed="neither")],
        "n_threads": [counted, None],
        "checkpoint": [str, os.PathLike, None],
        "checkpoint_every": [counted],
        "weight_concentration_prior_type": [StrOptions({"dirichlet_process", "dirichlet_distribution"})],
        "weight_concentration_prior": [positive, None],
        "mean_precision_prior": [positive, None],
        "mean_prior": ["array-like", None],
        "degrees_of_freedom_prior": [positive, None],
        "covariance_prior": ["array-like", positive, None],
        "n_factors": [StrOptions({"auto"}), counted],
        "dof": [StrOptions({"own", "common"}), Interval(Real, MIN_DOF, None, closed="left")],
    }


def check_parameters(estimator: Any) -> tuple[Family, Prior | None]:
    """Return the family and the prior of an estimator, after checking all of its parameters.

    If `reg_covar` is given, it takes the place of the default prior, and there is none.
    """
    validate_parameter_constraints(constraints(), estimator.get_params(deep=False), type(estimator).__name__)
    prior = estimator.prior
    if isinstance(prior, str):
        default = Prior() if prior == "conjugate" else AdaptivePrior()
        prior = default if estimator.reg_covar is None else None
    return family_of(estimator), prior


def family_of(estimator: Any) -> Family:
    """Return the family of an estimator, with the tails and the number of factors of its components."""
    return family(estimator.covariance_type, estimator.dof, estimator.n_factors)


def check_columns(estimator: Any, n_features: int) -> None:
    """Refuse mclust's codes for data of one column if there are several."""
    kind = estimator.covariance_type
    if n_features > 1 and kind in UNIVARIATE:
        raise ValueError(
            f"Covariance type {kind!r} is for data of one column, and there are {n_features}: use "
            f"{UNIVARIATE[kind].name!r} ({UNIVARIATE[kind].code}) for spherical components, or 'full'."
        )
    least = 1 if estimator.n_factors == "auto" else estimator.n_factors
    if family_of(estimator).has_factors and n_features <= least:
        raise ValueError(
            f"Covariance type {kind!r} needs more columns than factors: there are {n_features}, and "
            f"n_factors={estimator.n_factors!r}. Ask for fewer factors, or use 'full'."
        )


def is_path(value: Any) -> bool:
    """Return whether the value of a parameter is a path."""
    return isinstance(value, str | os.PathLike)


def n_threads_of(estimator: Any) -> int:
    """Return the number of threads of an estimator."""
    return default_threads() if estimator.n_threads is None else int(estimator.n_threads)


def allows_rounding(estimator: Any) -> bool:
    """Return whether a fit may take rows to be known up to their rounding errors: with the default prior."""
    is_default = bool(estimator.prior == "default") and estimator.reg_covar is None
    # Where columns vary with few factors, the prior keeps their noise from vanishing.
    return is_default and not family_of(estimator).has_factors


# --- X and sample_weight ------------------------------------------------------------------------


def open_input(
    estimator: Any,
    X: Any,
    sample_weight: Any = None,
    *,
    reset: bool = False,
    is_reread: bool = False,
    is_batch: bool = False,
) -> Rows:
    """Return the rows of X, checked, without those of weight zero.

    Parameters
    ----------
    estimator : estimator
    X : rows of any source
    sample_weight : array_like or None
    reset : bool, default=False
        Whether to set the number and the names of the features of the estimator, or to compare them. A fit
        needs two rows.
    is_reread : bool, default=False
        Whether the rows are read more than once.
    is_batch : bool, default=False
        Whether weights are used as they are: they have the same meaning in all batches.

    Returns
    -------
    rows : Rows
    """
    if not reset:
        check_is_fitted(estimator)
    min_rows = 2 if reset and not is_batch else 1
    if sample_weight is not None and not is_batch:
        sample_weight = as_counts(sample_weight)
    # It would load some tables into memory, and refuse others.
    if not source_kind(X).fits_scikit_learn:
        rows = open_rows(X, sample_weight)
        if is_reread and not rows.rereadable:
            raise ValueError(
                "X can be read only once, and EM reads it many times: pass a list of chunks or an object "
                "whose __iter__ starts again, or use partial_fit."
            )
        _check_unloaded(estimator, rows, min_rows, reset=reset)
        return rows
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    with naming_text_columns(X):
        X = validate_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype="numeric",
            reset=reset,
            ensure_all_finite="allow-nan" if get_tags(estimator).input_tags.allow_nan else True,
            ensure_min_samples=min_rows,
        )
        # scikit-learn leaves categories of pandas as objects
        X = require_numbers(X)
    if sample_weight is None:
        return ArrayRows(X)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    is_weighted = weights > 0
    if not np.any(is_weighted):
        raise ValueError("The weights of the rows are all zero.")
    return ArrayRows(X, weights) if np.all(is_weighted) else ArrayRows(X[is_weighted], weights[is_weighted])


def _check_unloaded(estimator: Any, rows: Rows, min_rows: int, *, reset: bool) -> None:
    """Check rows of a source that scikit-learn would load into memory, or refuse."""
    name = type(estimator).__name__
    # Distributed rows would have to be counted; no rows at all are refused where they are read.
    if not rows.is_distributed and rows.n_rows and rows.n_rows < min_rows:
        raise ValueError(
            f"Found array with {rows.n_rows} sample(s) while a minimum of {min_rows} is required by {name}."
        )
    _check_n_features(estimator, np.empty((0, rows.n_features)), reset=reset)
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        if rows.names is not None:
            estimator.feature_names_in_ = np.array(rows.names, dtype=object)
        return
    known = getattr(estimator, "feature_names_in_", None)
    if rows.names is not None and known is not None and tuple(known) != rows.names:
        raise ValueError(
            "The feature names should match those that were passed during fit: "
            f"{', '.join(map(str, known))[:200]}; got {', '.join(rows.names)[:200]}."
        )


@contextmanager
def with_column_names(estimator: Any) -> Iterator[None]:
    """Let errors about a column, inside this context, name it as X did, if it had names."""
    try:
        yield
    except ColumnError as error:
        names = getattr(estimator, "feature_names_in_", None)
        if names is None:
            raise
        raise error.with_name(list(names)) from error


def weighted_rows(sample_weight: Any) -> Array | None:
    """Return which rows have a weight above zero; None if all have, or if the weights are of Dask."""
    if sample_weight is None or is_dask(sample_weight):
        return None
    weights = to_numpy(sample_weight)
    is_list = weights.ndim == 1 and weights.dtype.kind in "buif"
    return weights > 0 if is_list and not np.all(weights > 0) else None


def float_type(X: Any) -> np.dtype[Any]:
    """Return the floating type of results from X: float32 if all of its columns are, else float64."""
    if isinstance(X, Rows):
        X = X.device_template
    kinds = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", []))
    # Without the byte order, and without the name of the library that torch and others put before it.
    names = [kind.name if isinstance(kind, np.dtype) else str(kind).rpartition(".")[2] for kind in kinds]
    is_single = bool(names) and all(name.lower() == "float32" for name in names)
    return np.dtype(np.float32 if is_single else np.float64)
