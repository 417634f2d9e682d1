"""Validation of chunks of rows and of their weights."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import as_float64, is_device_array, namespace, to_device_of, to_numpy

Error = TypeVar("Error", bound=Exception)


def about_row(error: type[Error], message: str, row: int) -> Error:
    """Return an error about a row.

    Parameters
    ----------
    error : type
    message : str
        With `{row}` where it names the row.
    row : int
        Its index, which becomes the attribute `row` of the error.
    """
    about = error(message.replace("{row}", str(row)))
    vars(about).update(row=row, message=message)
    return about


def renumber_error(error: Error, row: int) -> Error:
    """Return an error about a row with another index of that row."""
    return about_row(type(error), vars(error)["message"], row)


def table_shape(array: Any) -> tuple[int, int]:
    """Return the numbers of rows and columns; raise ValueError for other dimensions, and for no columns."""
    if array.ndim != 2:
        remedy = "Reshape one column with X.reshape(-1, 1), one row with X.reshape(1, -1)."
        raise ValueError(f"X must be a table, of two dimensions; got shape {tuple(array.shape)}. {remedy}")
    if array.shape[1] == 0:
        raise ValueError(f"X has no columns: its shape is {tuple(array.shape)}.")
    return array.shape[0], array.shape[1]


def objects_to_float64(values: Array) -> Array:
    """Return an array of Python objects as float64; raise TypeError for strings and for other dtypes."""
    if values.dtype.kind != "O" or any(isinstance(value, str | bytes) for value in values.flat):
        raise TypeError(f"{values.dtype} are not numbers")
    # The missing value of pandas has no conversion to a number.
    known = [np.nan if type(value).__name__ == "NAType" else value for value in values.flat]
    return np.array(known, dtype=object).reshape(values.shape).astype(np.float64)


def check_values(
    values: Any,
    n_features: int,
    first: int,
    scratch: Callable[..., Array] | None = None,
    *,
    is_finite: bool = False,
    allows_missing: bool = False,
    names: tuple[str, ...] | None = None,
) -> tuple[Any, bool]:
    """Return rows as float64, after checking that they are real, finite, and of the expected columns.

    Parameters
    ----------
    values : ndarray, CSR matrix, or array of another library, shape (n, n_features)
    n_features : int
        The expected number of columns.
    first : int
        The index of the first row, for messages.
    scratch : callable, optional
        Working memory that rows of another dtype are converted into.
    is_finite : bool, default=False
        Whether the values are known to be finite: they are then not checked again.
    allows_missing : bool, default=False
        Whether dense rows may have NaN, for missing values.
    names : tuple of str, optional
        Of the columns, for messages.

    Returns
    -------
    block : ndarray, CSR matrix, or array of the other library, of float64, shape (n, n_features)
    has_missing : bool
        Whether values are missing.
    """
    if is_device_array(values):
        block, stored = as_float64(values), values
    elif values.dtype.kind == "c":
        raise TypeError("X is complex; the methods for data take real numbers.")
    elif sparse.issparse(values):
        block = values.astype(np.float64, copy=False)
        stored = block.data
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "buif":
            try:
                array = objects_to_float64(array)
            except (TypeError, ValueError) as error:
                message = f"X must hold numbers; rows from {{row}} on hold {array.dtype}."
                raise about_row(TypeError, message, first) from error
        if scratch is None or array.dtype == np.float64:
            block = stored = np.ascontiguousarray(array, dtype=np.float64)
        else:
            # Newly allocated memory costs more than the conversion.
            block = stored = scratch("block", *array.shape)
            block[...] = array
    if block.shape[1] != n_features:
        message = f"Rows from {{row}} on have {block.shape[1]} columns, not {n_features}."
        raise about_row(ValueError, message, first)
    if is_finite:
        return block, False
    xp = namespace(stored)
    # One sum is cheaper than a test of each value. It is not finite if a value is not, or if it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        is_suspect = not bool(xp.isfinite(xp.sum(stored)))
    if is_suspect and not bool(xp.all(xp.isfinite(stored))):
        if sparse.issparse(block):
            raise ValueError(
                "X contains NaN or infinity: remove or replace those entries. In sparse rows, no value can "
                "be missing."
            )
        _refuse_not_finite(to_numpy(block), first, names, allows_missing=allows_missing)
        return block, True
    return block, False


def _refuse_not_finite(
    values: Array, first: int, names: tuple[str, ...] | None, *, allows_missing: bool
) -> None:
    """Raise an error about the first value that is infinite or, unless values may be missing, NaN."""
    infinite = np.isinf(values)
    has_infinite = bool(np.any(infinite))
    if allows_missing and not has_infinite:
        return
    row, column = np.argwhere(infinite if allows_missing else ~np.isfinite(values))[0]
    named = column if names is None else repr(names[column])
    message = (
        f"X contains NaN or infinity (first in row {{row}}, column {named}): "
        "remove those rows or fill the entries."
    )
    if not has_infinite:
        message += " GaussianMixture takes NaN as missing, and its method impute fills them."
    raise about_row(ValueError, message, first + int(row))


def check_weights(weights: Any, block: Any, first: int) -> Any:
    """Return the weights of a checked block as float64, on its device, after checking them."""
    if weights is None:
        return None
    if is_device_array(block):
        array = as_float64(weights) if is_device_array(weights) else to_device_of(weights, block)
    else:
        array = to_numpy(weights) if is_device_array(weights) else np.asarray(weights)
        if array.dtype.kind not in "buif":
            raise TypeError("sample_weight must hold real numbers.")
    if tuple(array.shape) != (block.shape[0],):
        raise ValueError(f"sample_weight must have shape ({block.shape[0]},); got {tuple(array.shape)}.")
    refuse_bad_weights(array, first)
    return np.asarray(array, dtype=np.float64) if isinstance(array, np.ndarray) else array


def refuse_bad_weights(weights: Any, first: int = 0) -> None:
    """Raise an error for weights that are not real, negative or not finite; `first` is the first row."""
    if isinstance(weights, np.ndarray) and weights.dtype.kind not in "buif":
        raise TypeError("sample_weight must hold real numbers.")
    xp = namespace(weights)
    if not bool(xp.all(xp.isfinite(weights))) or bool(xp.any(weights < 0)):
        raise about_row(ValueError, "sample_weight is negative or not finite, from row {row} on.", first)
