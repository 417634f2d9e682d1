"""Checks of X and sample_weight: by scikit-learn, or here where scikit-learn would load or refuse X."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from apolar._core.arrays import Array
from apolar._core.namespaces import is_dask, namespace, to_numpy
from apolar.data import Rows, open_rows
from apolar.data.opening import source_kind
from apolar.data.weights import as_counts
from apolar.exceptions import ColumnError

__all__ = ["float_type", "in_single_precision", "opened", "with_column_names", "with_weight"]


def opened(
    estimator: Any,
    X: Any,
    sample_weight: Any = None,
    *,
    reset: bool,
    once: bool = False,
    min_rows: int = 1,
    is_batch: bool = False,
) -> Rows:
    """Return the rows of X, checked.

    Parameters
    ----------
    estimator : estimator
    X : rows of any source
    sample_weight : array_like or None
    reset : bool
        Whether to set the number and the names of the features of the estimator, or to compare them.
    once : bool, default=False
        Whether rows that can be read only once are accepted.
    min_rows : int, default=1
        The fewest rows that are accepted.
    is_batch : bool, default=False
        Whether X is one of several batches: its weights are then not scaled, so that they have the same
        meaning in all of them.

    Returns
    -------
    rows : Rows
    """
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a lazy table: call .collect() on it first.")
    if not _fits_scikit_learn(X):
        sample_weight = sample_weight if is_batch else as_counts(sample_weight)
        rows = _opened_unloaded(estimator, X, sample_weight, reset=reset, once=once)
        # Distributed rows would have to be counted; no rows at all are refused where they are read.
        if not rows.is_distributed and rows.n_rows and rows.n_rows < min_rows:
            raise ValueError(
                f"Found array with {rows.n_rows} sample(s) while a minimum of {min_rows} is required by "
                f"{type(estimator).__name__}."
            )
        return rows
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn adds up X to look for NaN
        X = validate_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype="numeric",
            reset=reset,
            ensure_all_finite="allow-nan",  # missing values
            ensure_min_samples=min_rows,
        )
    if sample_weight is None:
        return open_rows(X)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    weights = weights if is_batch else as_counts(weights)
    if np.all(weights > 0):
        return open_rows(X, weights)
    if not np.any(weights > 0):
        raise ValueError("The weights of the rows are all zero.")
    # Rows of weight zero are left out.
    return open_rows(X[weights > 0], weights[weights > 0])


def _opened_unloaded(estimator: Any, X: Any, sample_weight: Any, *, reset: bool, once: bool) -> Rows:
    """Return the rows of a source that scikit-learn would load into memory, or refuse."""
    rows = open_rows(X, sample_weight)
    if not (rows.rereadable or once):
        raise ValueError(
            "X can be read only once, and EM reads it many times: pass a list of chunks or an object "
            "whose __iter__ starts again, or use partial_fit."
        )
    if reset:
        estimator.n_features_in_ = rows.n_features
    elif rows.n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if rows.names is not None:
        _check_names(estimator, rows.names, reset=reset)
    elif reset:
        estimator.__dict__.pop("feature_names_in_", None)
    return rows


def _check_names(estimator: Any, names: tuple[str, ...], *, reset: bool) -> None:
    """Set the names of the columns, or compare them with those of the fit."""
    if reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
        return
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and tuple(known) != names:
        raise ValueError(
            "The feature names should match those that were passed during fit: "
            f"{', '.join(map(str, known))[:200]}; got {', '.join(names)[:200]}."
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


def with_weight(sample_weight: Any) -> Array | None:
    """Return which rows have a weight above zero; None if all have, or if the weights are of Dask."""
    if sample_weight is None or is_dask(sample_weight):
        return None
    weights = to_numpy(as_counts(sample_weight))
    is_list = weights.ndim == 1 and weights.dtype.kind in "buif"
    return weights > 0 if is_list and not np.all(weights > 0) else None


def float_type(X: Any) -> np.dtype[Any]:
    """Return the floating type of results from X: float32 if all of its columns are, else float64."""
    if isinstance(X, Rows):
        X = X.device_template
    kinds = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", []))
    is_single = bool(kinds) and all(_name(kind) == "float32" for kind in kinds)
    return np.dtype(np.float32 if is_single else np.float64)


def _name(dtype: Any) -> str:
    # Without the byte order, and without the name of the library that torch and others put before it.
    return dtype.name if isinstance(dtype, np.dtype) else str(dtype).rpartition(".")[2].lower()


def in_single_precision(array: Any) -> Any:
    """Return an array of any library in float32."""
    if isinstance(array, np.ndarray) or is_dask(array):
        return array.astype(np.float32)
    xp = namespace(array)
    return xp.astype(array, xp.float32)


def _fits_scikit_learn(X: Any) -> bool:
    """Return whether scikit-learn can check X: it would load some tables into memory, and refuse others."""
    try:
        return source_kind(X).fits_scikit_learn
    except TypeError:
        # scikit-learn has the usual words for numbers and strings; it would take a dict for a number.
        return not isinstance(X, dict)
