"""Chunks of rows, what is checked of them (numbers, columns, missing values, weights), and parts of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import (
    as_float64,
    detach,
    is_dask,
    is_device_array,
    namespace,
    thread_scratch,
    to_device_of,
    to_host,
    to_numpy,
)
from apolar.exceptions import RowError

# The largest mean weight of a row: larger weights are divided.
MAX_MEAN_WEIGHT = 2.0**40
# The largest total weight where weights are not scaled; the smallest is its reciprocal.
MAX_TOTAL_WEIGHT = 1e250


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows, as they are stored or checked.

    Attributes
    ----------
    values : ndarray, CSR matrix or array of another library, shape (n, n_features)
    weights : array, shape (n,), or None
    first_row : int
        The index of the first row, for messages.
    n_features : int
        The number of columns that is expected.
    names : tuple of str or None
        The names of the columns.
    has_missing : bool
        Whether values are missing; known only after `check`.
    """

    values: Any
    weights: Any
    first_row: int
    n_features: int
    names: tuple[str, ...] | None = None
    has_missing: bool = False

    def check(self, *, allows_missing: bool = False, is_finite: bool = False) -> Chunk | None:
        """Return the rows in double precision after checking them, without rows of weight zero.

        The values may be in the working memory of the thread, which its next chunk overwrites.

        Parameters
        ----------
        allows_missing : bool, default=False
            Whether values of dense rows may be NaN, for missing ones.
        is_finite : bool, default=False
            Whether the values have been checked before.

        Returns
        -------
        chunk : Chunk or None
            None if no row is left.
        """
        values = _in_double_precision(self.values)
        has_missing = not (is_finite or _is_finite(values))
        if has_missing:
            self._refuse_not_finite(values, allows_missing=allows_missing)
        weights = self.weights
        if weights is not None:
            weights = check_weights(weights, values, self.first_row)
            if not bool(namespace(weights).all(weights > 0)):
                values, weights = values[weights > 0], weights[weights > 0]
        if not values.shape[0]:
            return None
        return replace(self, values=values, weights=weights, has_missing=has_missing)

    def _refuse_not_finite(self, values: Any, *, allows_missing: bool) -> None:
        """Raise an error about the first value that is infinite or, unless values may be missing, NaN."""
        if sparse.issparse(values):
            raise ValueError(
                "X contains NaN or infinity: remove or replace those entries. In sparse rows, no value can "
                "be missing."
            )
        values = to_numpy(values)
        infinite = np.isinf(values)
        refused = np.argwhere(infinite if allows_missing else ~np.isfinite(values))
        if not len(refused):
            return
        row, column = refused[0]
        named = column if self.names is None else repr(self.names[column])
        message = (
            f"X contains NaN or infinity (first in row {{row}}, column {named}): "
            "remove those rows or fill the entries."
        )
        if not np.any(infinite):
            message += " GaussianMixture takes NaN as missing, and its method impute fills them."
        raise RowError(self.first_row + int(row), message)

    def parts(self, size: int) -> Iterator[Chunk]:
        """Yield chunks of at most `size` of these rows."""
        for start in range(0, self.values.shape[0], size):
            values, weights = take_both(self.values, self.weights, slice(start, start + size))
            yield replace(self, values=values, weights=weights, first_row=self.first_row + start)


RowFunction = Callable[[Chunk], Any]
"""A function of a chunk of rows, called by several threads and sent to other processes: it has no state.

It returns None if no row counts, and never a view of the chunk, whose memory may be reused.
"""


def on_checked(
    function: Callable[[Any, Any], Any], *, allows_missing: bool = False, is_finite: bool = False
) -> RowFunction:
    """Return the function of chunks that checks them, and calls a function of their values and weights."""

    def call(chunk: Chunk) -> Any:
        checked = chunk.check(allows_missing=allows_missing, is_finite=is_finite)
        return None if checked is None else function(checked.values, checked.weights)

    return call


def require_table(shape: tuple[int, ...]) -> None:
    """Raise ValueError for a shape without two dimensions, or no columns."""
    if len(shape) != 2:
        remedy = "Reshape one column with X.reshape(-1, 1), one row with X.reshape(1, -1)."
        raise ValueError(f"X must be a two-dimensional table; got shape {tuple(shape)}. {remedy}")
    if shape[1] == 0:
        raise ValueError(f"X has no columns: its shape is {tuple(shape)}.")


def require_numbers(array: Any) -> Any:
    """Return a table of numbers, Python objects as float64; raise an error for anything else."""
    require_table(array.shape)
    kind = getattr(array.dtype, "kind", "f")
    if kind == "c":
        raise TypeError("X is complex; the methods for data take real numbers.")
    if kind in "buif":
        return array
    try:
        return objects_to_float64(array)
    except (TypeError, ValueError) as error:
        raise TypeError(f"X must hold numbers, not {array.dtype}.") from error


def _in_double_precision(values: Any) -> Any:
    """Return rows as float64; converted ones of NumPy are in the working memory of the thread."""
    if not isinstance(values, np.ndarray):
        return as_float64(values)
    if values.dtype == np.float64:
        return np.ascontiguousarray(values)
    # New memory costs more than to convert.
    block = thread_scratch()("block", *values.shape)
    block[...] = values
    return block


def objects_to_float64(values: Array) -> Array:
    """Return an array of Python objects as float64; raise TypeError for strings and for other dtypes."""
    if values.dtype.kind != "O" or any(isinstance(value, str | bytes) for value in values.flat):
        raise TypeError(f"{values.dtype} are not numbers")
    # The missing value of pandas has no conversion to a number.
    known = [np.nan if type(value).__name__ == "NAType" else value for value in values.flat]
    return np.array(known, dtype=object).reshape(values.shape).astype(np.float64)


def _is_finite(values: Any) -> bool:
    """Return whether all stored values are finite."""
    stored = values.data if sparse.issparse(values) else values
    xp = namespace(stored)
    # One sum is cheaper than a test of each value. It is not finite if a value is not, or if it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(xp.isfinite(xp.sum(stored))) or bool(xp.all(xp.isfinite(stored)))


# --- weights --------------------------------------------------------------------------


def check_weights(weights: Any, block: Any, first_row: int = 0) -> Any:
    """Return the weights of rows as float64, on their device, after checking them.

    Parameters
    ----------
    weights : array_like, shape (n,), or None
    block : array, shape (n, n_features)
        The rows.
    first_row : int, default=0
        The index of the first row, for messages.
    """
    if weights is None:
        return None
    if not is_device_array(weights):
        weights = np.asarray(weights)
        if weights.dtype.kind not in "buif":
            raise TypeError("sample_weight must hold real numbers.")
    if tuple(weights.shape) != (block.shape[0],):
        raise ValueError(f"sample_weight must have shape ({block.shape[0]},); got {tuple(weights.shape)}.")
    on_its_device = detach(weights) if is_device_array(block) else to_host(weights)
    weights = as_float64(to_device_of(on_its_device, block))
    xp = namespace(weights)
    if not bool(xp.all(xp.isfinite(weights))) or bool(xp.any(weights < 0)):
        raise RowError(first_row, "sample_weight is negative or not finite, from row {row} on.")
    return weights


def check_total_weight(weight: float) -> None:
    """Raise ValueError if the total weight overflows or underflows."""
    if not 1 / MAX_TOTAL_WEIGHT < weight < MAX_TOTAL_WEIGHT:
        raise ValueError(
            f"sample_weight adds up to {weight:.3g}, too large or too small for sums: multiply all weights "
            "by one number, so that they add up to about the number of rows."
        )


def as_counts(sample_weight: Any) -> Any:
    """Return weights on the scale of counts of rows: multiplied by one factor, if their mean is below one.

    The prior is worth a number of rows: it would dominate weights that sum to one. Weights of mean one or
    more stay as they are, so that weight two is the same as a repeated row. Very large weights are divided,
    so that sums of their squares do not overflow. Invalid weights are returned as they are: they are refused
    when rows and weights are read.

    Parameters
    ----------
    sample_weight : array_like, dask array or dask series, shape (n_samples,), or None

    Returns
    -------
    weights : array, dask array or dask series, shape (n_samples,), or None
    """
    if sample_weight is None or getattr(sample_weight, "ndim", 1) != 1:
        return sample_weight
    if is_dask(sample_weight):
        return sample_weight * _factor(sample_weight.sum().compute(), (sample_weight > 0).sum().compute())
    weights = sample_weight if is_device_array(sample_weight) else np.asarray(sample_weight)
    if weights.ndim != 1 or not weights.shape[0] or getattr(weights.dtype, "kind", "f") not in "buif":
        return weights
    weights, xp = as_float64(weights), namespace(weights)
    largest = float(xp.max(weights))
    if not 0 < largest < np.inf:
        return weights
    # Divided by the largest first: the sum of the weights themselves may overflow.
    relative = weights / largest
    n_weighted, total = float(xp.sum(as_float64(weights > 0))), float(xp.sum(relative))
    factor = _factor(total * largest, n_weighted)
    if factor == 1:
        return weights
    return relative * (n_weighted / total * (1 if factor > 1 else MAX_MEAN_WEIGHT))


def counted_rows(total: float, n_weighted: int) -> float:
    """Return how many rows weights stand for, on the scale of `as_counts`.

    Parameters
    ----------
    total : float
        The sum of the weights.
    n_weighted : int
        The number of positive weights.
    """
    return total * _factor(total, n_weighted)


def _factor(total: float, n_weighted: float) -> float:
    """Return the factor for weights of this sum; `n_weighted` of them are positive."""
    if not total > 0:
        return 1.0
    if total < n_weighted * (1 - 1e-12):
        return float(n_weighted / total)
    return min(1.0, float(n_weighted * MAX_MEAN_WEIGHT / total))


# --- rows of arrays of any library, and of sparse matrices ------------------------------


def take_rows(values: Any, positions: Any) -> Any:
    """Return the rows of an array at some positions; a slice of consecutive rows shares its memory."""
    if not isinstance(positions, slice):
        if not is_device_array(values):
            return values[positions]
        return namespace(values).take(values, to_device_of(positions, values), axis=0)
    # The array API standard requires ends within the array, and an index for every axis.
    start, stop, _ = positions.indices(values.shape[0])
    if not sparse.issparse(values):
        return values[start:stop, ...]
    # Indexing a SciPy matrix would copy the rows.
    row_ends = values.indptr[start : stop + 1]
    stored = slice(int(row_ends[0]), int(row_ends[-1]))
    arrays = values.data[stored], values.indices[stored], row_ends - row_ends[0]
    return sparse.csr_matrix(arrays, shape=(stop - start, values.shape[1]))


def row_squares(block: Any) -> Any:
    """Return the squared norm of each row."""
    if sparse.issparse(block):
        return np.asarray(block.multiply(block).sum(axis=1)).ravel()
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->i", block, block)
    # This needs no temporary array of squares.
    return namespace(block).linalg.vector_norm(block, axis=1) ** 2


def take_both(values: Any, weights: Any, positions: Any) -> tuple[Any, Any]:
    """Return the rows of an array at some positions, and their weights or None."""
    return take_rows(values, positions), None if weights is None else take_rows(weights, positions)


def stack_rows(blocks: list[Any]) -> Any:
    """Return blocks of rows, NumPy arrays or CSR matrices, as one."""
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def stack_chunks(chunks: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return chunks of rows on the host, with their weights or None, as one."""
    values, weights = zip(*chunks, strict=True)
    return stack_rows(list(values)), None if weights[0] is None else np.concatenate(weights)


def sample_positions(start: int, stop: int, step: int, device_template: Any = None) -> Any:
    """Return the positions of a systematic sample: one row of every `step` consecutive rows.

    The position within each group of `step` rows follows multiples of the golden ratio: evenly spread, but
    without a period that the data could share.

    Parameters
    ----------
    start, stop : int
        Only the rows from `start` to `stop` are considered; they may begin and end within a group.
    step : int
    device_template : array, optional
        An array whose library and device the positions have; by default, they are a NumPy array.

    Returns
    -------
    positions : array of int64, shape (n_sampled,)
        Counted from `start`, ascending.
    """
    like = np.empty(0) if device_template is None else device_template
    xp = namespace(like)
    group = xp.arange(start // step, -(-stop // step), dtype=xp.int64, device=like.device)
    # The fractional part of group times the golden ratio, in fixed point with 32 bits, times step.
    within_group = (((group * 2654435769) & 0xFFFFFFFF) * step) >> 32
    positions = group * step + within_group
    return positions[(positions >= start) & (positions < stop)] - start
