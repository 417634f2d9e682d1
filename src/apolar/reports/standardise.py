"""Columns divided by units, and criteria of such columns in the units of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.data import open_rows
from apolar.exceptions import ColumnError
from apolar.moments.available import available_moments
from apolar.moments.covariance import column_moments, is_constant
from apolar.reports.scoring import CHUNK
from apolar.scores import CRITERIA
from apolar.selection import Selection, select
from apolar.selection.result import reason


def column_statistics(X: Array, names: Sequence[str]) -> tuple[Array, Array, Array]:
    """Return means and variances of the columns, and the number of missing values of each."""
    rows = open_rows(X)
    moments = column_moments(rows, allows_missing=True)
    if not np.any(np.isnan(moments.mean)):
        return moments.mean, moments.variances, np.zeros(rows.n_features, dtype=np.int64)
    try:
        available = available_moments(rows)
    except ColumnError as error:
        raise error.with_name(names) from error
    n_missing = np.rint(available.weight - available.counts).astype(np.int64)
    return available.mean, available.variances, n_missing


class StandardisedRows:
    """Rows with each column divided by its unit, a chunk at a time; can be read again."""

    def __init__(self, X: Array, units: Array) -> None:
        self.X, self.units = X, units

    def __iter__(self) -> Iterator[Array]:
        for start in range(0, len(self.X), CHUNK):
            yield self.X[start : start + CHUNK] / self.units


def divide_columns(X: Array, units: Array) -> Any:
    """Return rows with each column divided by its unit; of a memory map, a chunk at a time."""
    if np.all(units == 1):
        return X
    return StandardisedRows(X, units) if isinstance(X, np.memmap) else X / units


def column_deviations(mean: Array, variances: Array, names: Sequence[str]) -> Array:
    """Return the standard deviation of each column; refuse constant columns."""
    constant = np.flatnonzero(is_constant(mean, variances))
    if len(constant):
        raise ColumnError(names[constant[0]], "is constant: it cannot be standardised. Leave it out.")
    return np.sqrt(variances)


def select_in_units(
    X: Array,
    n_components: Sequence[int],
    covariance_type: Any,
    criterion: str,
    *,
    units: Array,
    n_missing: Array,
    **parameters: Any,
) -> Selection:
    """Choose among mixtures of rows whose columns are divided by units.

    Parameters
    ----------
    X : ndarray, shape (n_samples, n_features)
    n_components : sequence of int
    covariance_type : str, sequence of str or None
    criterion : str
    units : ndarray, shape (n_features,)
    n_missing : ndarray of int, shape (n_features,)
        The number of missing values of each column, which have no density.
    **parameters
        Of `select`.

    Returns
    -------
    selection : Selection
        Its mixtures are those of the divided columns; its table and reason are in the units of X, as other
        criteria of the same rows are.
    """
    selection = select(divide_columns(X, units), n_components, covariance_type, criterion, **parameters)
    if np.all(units == 1):
        return selection
    log_units = float(np.log(units) @ (len(X) - n_missing))
    table = tuple(
        replace(
            row,
            log_likelihood=row.log_likelihood - log_units,
            **{name: getattr(row, name) + 2 * log_units for name in CRITERIA},
        )
        for row in selection.table
    )
    ranked = sorted(
        (row for row in table if row.is_fitted), key=lambda row: (getattr(row, criterion), row.n_parameters)
    )
    numbers = tuple(dict.fromkeys(row.n_components for row in table))
    return replace(selection, table=table, reason=reason(ranked, numbers, criterion, selection.note))
