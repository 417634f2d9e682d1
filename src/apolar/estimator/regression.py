"""The expected values of some columns given the others, for many rows at a time."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.threads import one_blas_thread
from apolar.data import Rows, on_checked, open_rows
from apolar.em.completion import Completion, as_float64_rows
from apolar.estimator.inputs import float_type

__all__ = ["Regression", "regression"]


@dataclass(frozen=True, eq=False)
class Regression:
    """What a mixture says of some columns, given the values of the others, row by row.

    Attributes
    ----------
    columns : tuple of int
        The columns that are described, by number.
    mean : ndarray, shape (n_samples, n_columns)
        Their expected values.
    deviations : ndarray, shape (n_samples, n_columns)
        Their standard deviations around these: of components that disagree too.
    """

    columns: tuple[int, ...]
    mean: Array
    deviations: Array


def regression(estimator: Any, given: list[int], values: Any, completion: Completion) -> Regression:
    """Return the regression of a fitted mixture on some of its columns.

    Parameters
    ----------
    estimator : GaussianMixture
    given : list of int
        The columns that are known.
    values : rows of any source but Dask and sparse matrices, shape (n_samples, n_known)
    completion : Completion
        By the mixture.
    """
    n_features = estimator.n_features_in_
    others = [column for column in range(n_features) if column not in given]
    if not others:
        raise ValueError("All columns are given: leave at least one to be described.")
    if len(given) == 1 and np.ndim(values) == 1 and not hasattr(values, "columns"):
        values = np.asarray(values).reshape(-1, 1)
    rows = open_rows(values)
    if rows.is_distributed or rows.is_sparse:
        raise TypeError("values must be dense, and not of Dask: call regress for each partition.")
    if rows.n_features != len(given):
        raise ValueError(f"values must have the {len(given)} columns that are given; got {rows.n_features}.")
    _check_names(estimator, given, rows.names)

    def described(block: Any, _: Any) -> Array:
        known = as_float64_rows(block)
        full = np.full((len(known), n_features), np.nan)
        full[:, given] = known
        of_rows = completion.expected(full), np.sqrt(completion.variances(full))
        return np.stack([part[:, others] for part in of_rows])

    working = functools.partial(Rows.chunk_rows, n_working=4 * n_features)
    with one_blas_thread():
        parts = list(rows.on_host().map(on_checked(described, allows_missing=True), chunk_rows=working))
    mean, deviations = np.concatenate(parts, axis=1).astype(float_type(values), copy=False)
    return Regression(tuple(others), mean, deviations)


def _check_names(estimator: Any, given: list[int], names: tuple[str, ...] | None) -> None:
    """Refuse a table whose columns are not those that are given, by name."""
    known = getattr(estimator, "feature_names_in_", None)
    if known is None or names is None:
        return
    expected = [str(known[column]) for column in given]
    if list(names) != expected:
        raise ValueError(
            f"The columns that are given are {', '.join(expected)[:200]}; those of values are "
            f"{', '.join(names)[:200]}."
        )
