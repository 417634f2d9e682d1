"""What is checked of every chunk of rows."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import as_float64, is_device_array, namespace, to_device_of, to_numpy

Error = TypeVar("Error", bound=Exception)


def about_row(error: Error, row: int) -> Error:
    """Return an error that tells in `error.row` which row its message names."""
    vars(error)["row"] = row
    return error


def table_shape(array: Any) -> tuple[int, int]:
    """Return the numbers of rows and columns of a table; refuse what is no table."""
    if array.ndim != 2:
        remedy = "Reshape one column with X.reshape(-1, 1), one row with X.reshape(1, -1)."
        raise ValueError(f"X must be a table, of two dimensions; got shape {tuple(array.shape)}. {remedy}")
    if array.shape[1] == 0:
        raise ValueError(f"X has no columns: its shape is {tuple(array.shape)}.")
    return array.shape[0], array.shape[1]


def numbers_of(values: Array) -> Array:
    """Return an array of Python objects as numbers; refuse strings and dates."""
    if values.dtype.kind != "O" or any(isinstance(value, str | bytes) for value in values.flat):
        raise TypeError(f"{values.dtype} are not numbers")
    return values.astype(np.float64)


def checked_block(
    values: Any,
    n_features: int,
    first: int,
    scratch: Callable[..., Array] | None = None,
    *,
    finite: bool = False,
) -> Any:
    """Return rows as floats, after checking that they are numbers, finite, and as many as before.

    Parameters
    ----------
    values : ndarray, CSR matrix, or array of another library
    n_features : int
    first : int
        The number of the first of them, for messages.
    scratch : callable, optional
        Working memory, where rows of other numbers may be written.
    finite : bool, default=False
        Whether the numbers are known to be finite.

    Returns
    -------
    block : ndarray, CSR matrix, or array of the other library, of float64
    """
    if is_device_array(values):
        block, numbers = as_float64(values), values
    elif values.dtype.kind == "c":
        raise TypeError("X is complex; the methods for data take real numbers.")
    elif sparse.issparse(values):
        block = values.astype(np.float64, copy=False)
        numbers = block.data
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "buif":
            try:
                array = numbers_of(array)
            except (TypeError, ValueError) as error:
                raise about_row(
                    TypeError(f"X must hold numbers; rows from {first} on hold {array.dtype}."), first
                ) from error
        if scratch is None or array.dtype == np.float64:
            block = numbers = np.ascontiguousarray(array, dtype=np.float64)
        else:
            # Fresh pages cost more than the numbers.
            block = numbers = scratch("block", *array.shape)
            block[...] = array
    if block.shape[1] != n_features:
        raise about_row(
            ValueError(f"Rows from {first} on have {block.shape[1]} columns, not {n_features}."), first
        )
    if finite:
        return block
    xp = namespace(numbers)
    # The sum is finite if all are, short of overflow, and far cheaper to test.
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not bool(xp.isfinite(xp.sum(numbers)))
    if suspect and not bool(xp.all(xp.isfinite(numbers))):
        if sparse.issparse(block):
            raise ValueError("X contains NaN or infinity: remove or replace those entries.")
        row, column = np.argwhere(~np.isfinite(to_numpy(block)))[0]
        message = (
            f"X contains NaN or infinity (first in row {first + row}, column {column}): "
            "remove those rows or fill the entries."
        )
        raise about_row(ValueError(message), first + int(row))
    return block


def checked_weights(weights: Any, block: Any, first: int) -> Any:
    """Return the weights of checked rows, where these are and as precise, after checking them."""
    if weights is None:
        return None
    if is_device_array(block):
        array = as_float64(weights) if is_device_array(weights) else to_device_of(weights, block)
    else:
        array = np.asarray(weights)
        if array.dtype.kind not in "buif":
            raise TypeError("sample_weight must hold real numbers.")
    if tuple(array.shape) != (block.shape[0],):
        raise ValueError(f"sample_weight must have shape ({block.shape[0]},); got {tuple(array.shape)}.")
    refuse_bad_weights(array, first)
    return np.asarray(array, dtype=np.float64) if isinstance(array, np.ndarray) else array


def refuse_bad_weights(weights: Any, first: int = 0) -> None:
    """Refuse weights that are no numbers, negative or not finite; `first` is the number of the first."""
    if isinstance(weights, np.ndarray) and weights.dtype.kind not in "buif":
        raise TypeError("sample_weight must hold real numbers.")
    xp = namespace(weights)
    if not bool(xp.all(xp.isfinite(weights))) or bool(xp.any(weights < 0)):
        raise about_row(ValueError(f"sample_weight is negative or not finite, from row {first} on."), first)
