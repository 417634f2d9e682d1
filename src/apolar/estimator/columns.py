"""The warning of constant columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.exceptions import ColumnWarning, listed
from apolar.moments.covariance import is_constant

__all__ = ["warn_of_constant_columns"]


def warn_of_constant_columns(
    mean: Array, variances: Array, names: Sequence[Any] | None, used: str, *, stacklevel: int
) -> None:
    """Warn once of all constant columns, unless no column varies.

    Parameters
    ----------
    mean, variances : ndarray, shape (n_features,)
        Of the columns.
    names : sequence of str or None
    used : str
        What is done with them.
    stacklevel : int
        Of the caller, as of `warnings.warn`.
    """
    constant = np.flatnonzero(is_constant(mean, variances)).tolist()
    if not constant or len(constant) == len(mean):
        return
    called = [str(i) if names is None else repr(str(names[i])) for i in constant]
    columns, are = ("Columns", "are") if len(constant) > 1 else ("Column", "is")
    warnings.warn(
        f"{columns} {listed(called)} {are} constant. {used} Remove constant columns from X.",
        ColumnWarning,
        stacklevel=stacklevel + 1,
    )
