"""Rows of data from whatever holds them, in chunks of float64 with their weights."""

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apolar._arrays import Array

# Numbers in a chunk: small enough for the cache, large enough for BLAS.
CHUNK_SIZE = 2**18


@dataclass(frozen=True, eq=False)
class Rows:
    """A table, read a chunk of rows at a time.

    Attributes
    ----------
    n_features : int
    n_rows : int or None
        None if only reading to the end tells.
    rereadable : bool
        Whether `blocks` may be called more than once.
    read : callable
        Takes the number of rows of a chunk and yields pairs (X, weights or
        None), unchecked.
    take : callable or None
        Takes an array of row numbers and returns those rows and their weights
        or None, unchecked; None if rows can only be read in order.
    """

    n_features: int
    n_rows: int | None
    rereadable: bool
    read: Callable[[int], Iterator[tuple[Any, Any]]]
    take: Callable[[Any], tuple[Any, Any]] | None = None

    def blocks(self, width: int | None = None) -> Iterator[tuple[Array, Array | None]]:
        """Yield checked chunks: float64 rows (a CSR matrix if sparse), and their weights.

        Parameters
        ----------
        width : int, optional
            Numbers of working memory a row; by default the number of features.
        """
        first, empty = 0, True
        size = self.chunk_rows(width)
        for values, raw_weights in self.read(size):
            block = _checked_block(values, self.n_features, first)
            weights = _checked_weights(raw_weights, block.shape[0], first)
            first += block.shape[0]
            if weights is not None and not np.all(weights > 0):
                # Rows of weight zero are as if they were not there.
                block, weights = block[weights > 0], weights[weights > 0]
            if block.shape[0]:
                empty = False
                yield block, weights
        if empty:
            raise ValueError("X has no rows." if first == 0 else "The weights of the rows are all zero.")

    def chunk_rows(self, width: int | None = None) -> int:
        """Return the number of rows of a chunk."""
        return max(1, CHUNK_SIZE // max(width or 1, self.n_features))


class Scratch:
    """Working memory that is used again from chunk to chunk: fresh pages cost more than arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}

    def __call__(self, name: str, *shape: int) -> Array:
        """Return an array of that shape, with whatever is in it."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            buffer = self._buffers[name] = np.empty(size)
        return buffer[:size].reshape(shape)


Statistic = Callable[[Any, Array | None], tuple[Any, ...]]
"""Takes a chunk and its weights and returns numbers and arrays that add up."""


def mapped(
    chunks: Iterable[tuple[Any, Any]], function: Callable[[Any, Any], Any], threads: int = 1
) -> Iterator[Any]:
    """Yield a function of each chunk and its weights, in order, computed by several threads."""
    if threads == 1:
        yield from itertools.starmap(function, chunks)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Any]] = deque()
        for values, weights in chunks:
            waiting.append(pool.submit(function, values, weights))
            # A few ahead, so that nobody waits, and memory stays bounded.
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def gathered(rows: Rows, positions: Any) -> tuple[Array, Array | None]:
    """Return some rows by their numbers, in ascending order, as float64, and their weights."""
    if rows.take is not None:
        values, weights = rows.take(positions)
        return _dense(values), None if weights is None else np.asarray(weights, dtype=np.float64)
    parts: list[Array] = []
    part_weights: list[Array] = []
    first = 0
    for values, weights in rows.read(rows.chunk_rows()):
        inside = positions[(positions >= first) & (positions < first + values.shape[0])] - first
        parts.append(_dense(values[inside]))
        if weights is not None:
            part_weights.append(np.asarray(weights, dtype=np.float64)[inside])
        first += values.shape[0]
    return np.concatenate(parts), np.concatenate(part_weights) if part_weights else None


def _dense(values: Any) -> Array:
    return np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64)


def summed(rows: Rows, statistic: Statistic, width: int | None = None) -> list[Any]:
    """Return a statistic of the rows, summed over chunks.

    Parameters
    ----------
    rows : Rows
    statistic : callable
    width : int, optional
        Numbers of working memory a row.

    Returns
    -------
    sums : list
    """
    blocks = rows.blocks(width)
    sums = list(statistic(*next(blocks)))
    for block, weights in blocks:
        for i, part in enumerate(statistic(block, weights)):
            sums[i] = sums[i] + part
    return sums


def open_rows(X: Any, sample_weight: Any = None) -> Rows:
    """Return the rows of a table.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, or iterable of these
        Of shape (n_samples, n_features): a NumPy array or memory map, what
        NumPy makes an array of, a SciPy sparse matrix, a table of pandas,
        polars or pyarrow, or an iterable of chunks, each one of these or a
        pair of one and its weights.
    sample_weight : array_like, shape (n_samples,), optional

    Returns
    -------
    rows : Rows
    """
    if isinstance(X, Rows):
        return X
    if sparse.issparse(X):
        _table_shape(X)
        matrix = X.tocsr()
        return _sliced(matrix.shape, lambda part: matrix[part], sample_weight)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("X has masked entries: drop those rows, or fill them with X.filled(value).")
    if isinstance(X, np.ndarray):
        return _sliced(_table_shape(X), lambda part: X[part], sample_weight)
    frame = _dataframe(X)
    if frame is not None:
        return _sliced(frame.shape, lambda part: _frame_values(frame, part), sample_weight)
    if isinstance(X, list | tuple) and not (X and _is_table(X[0])):
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise ValueError("X is ragged: its rows have different lengths.") from error
        return _sliced(_table_shape(array), lambda part: array[part], sample_weight)
    if isinstance(X, Iterable) and not isinstance(X, str | bytes | dict):
        return _chunked(X, sample_weight)
    raise TypeError(
        "X must be an array, a sparse matrix, a dataframe, or an iterable of chunks of rows; "
        f"got {type(X).__name__}."
    )


def _table_shape(array: Any) -> tuple[int, int]:
    if array.ndim != 2:
        remedy = "Reshape one column with X.reshape(-1, 1), one row with X.reshape(1, -1)."
        raise ValueError(f"X must be a table, of two dimensions; got shape {array.shape}. {remedy}")
    return array.shape[0], array.shape[1]


def _sliced(shape: tuple[int, int], rows: Callable[[Any], Any], sample_weight: Any) -> Rows:
    n_rows, n_features = shape
    if n_features == 0:
        raise ValueError(f"X has no columns: its shape is ({n_rows}, {n_features}).")
    weights = None
    if sample_weight is not None:
        weights = np.asarray(sample_weight)
        if weights.shape != (n_rows,):
            raise ValueError(f"sample_weight must have shape ({n_rows},); got {weights.shape}.")

    def read(size: int) -> Iterator[tuple[Any, Any]]:
        for start in range(0, n_rows, size):
            part = slice(start, min(start + size, n_rows))
            yield rows(part), None if weights is None else weights[part]

    def take(positions: Any) -> tuple[Any, Any]:
        return rows(positions), None if weights is None else weights[positions]

    return Rows(n_features, n_rows, True, read, take)


def _is_table(value: Any) -> bool:
    """Return whether a member of a list is a chunk of rows, not a row."""
    first = value[0] if isinstance(value, tuple) and len(value) == 2 else value
    return sparse.issparse(first) or getattr(first, "ndim", 0) == 2 or _dataframe(first) is not None


def _chunked(X: Iterable[Any], sample_weight: Any) -> Rows:
    if sample_weight is not None:
        raise ValueError("With chunks, give the weights with them: an iterable of pairs (X, sample_weight).")
    rereadable = iter(X) is not X
    source = iter(X)
    head = next(source, None)
    if head is None:
        raise ValueError("X has no data: it is an iterable without chunks.")
    first = _chunk_rows(head)

    def read(size: int) -> Iterator[tuple[Any, Any]]:
        chunks = X if rereadable else itertools.chain([head], source)
        for chunk in chunks:
            yield from _chunk_rows(chunk).read(size)

    return Rows(first.n_features, None, rereadable, read)


def _chunk_rows(chunk: Any) -> Rows:
    if isinstance(chunk, tuple) and len(chunk) == 2 and _is_table(chunk):
        return open_rows(chunk[0], chunk[1])
    if isinstance(chunk, list | tuple):
        chunk = np.asarray(chunk)
    return open_rows(chunk)


def _dataframe(X: Any) -> Any:
    """Return a pandas table as it is, one of polars or pyarrow as narwhals sees it, or None."""
    kind = type(X).__name__
    if kind == "LazyFrame":
        raise TypeError("X is a lazy table: call .collect() on it first.")
    if kind == "RecordBatch":
        import pyarrow

        X = pyarrow.Table.from_batches([X])
    if not hasattr(X, "columns") and not hasattr(X, "__dataframe__"):
        return None
    if hasattr(X, "iloc"):
        return X
    if hasattr(X, "rename_columns") and len(set(X.column_names)) < len(X.column_names):
        X = X.rename_columns([f"{i}: {name}" for i, name in enumerate(X.column_names)])
    import narwhals

    try:
        frame = narwhals.from_native(X, eager_only=True)
    except TypeError:
        return None
    return frame if hasattr(frame, "columns") else None


def _frame_values(frame: Any, part: Any) -> Array:
    columns = []
    # By position: names may be numbers, or repeated.
    for i in range(frame.shape[1]):
        is_pandas = hasattr(frame, "iloc")
        column = frame.iloc[part, i] if is_pandas else frame[part, i]
        name = frame.columns[i]
        if (column.isna().any()) if is_pandas else column.null_count():
            raise ValueError(f"Column {name!r} has missing values: drop those rows or fill them first.")
        try:
            values = np.asarray(column.to_numpy())
            columns.append(values if values.dtype.kind in "buifc" else _numbers(values))
        except (TypeError, ValueError) as error:
            kind = f"Column {name!r} holds {column.dtype}, not numbers"
            raise TypeError(f"{kind}: drop it or encode it first.") from error
    return np.column_stack(columns)


def _numbers(values: Array) -> Array:
    """Return an array of Python objects as numbers; texts and dates are none."""
    if values.dtype.kind != "O" or any(isinstance(value, str | bytes) for value in values.flat):
        raise TypeError(f"{values.dtype} are not numbers")
    return values.astype(np.float64)


def _checked_block(values: Any, n_features: int, first: int) -> Any:
    """Return rows as float64, after checking that they are numbers, finite, and as many as before."""
    if values.dtype.kind == "c":
        raise TypeError("X is complex; the methods for data take real numbers.")
    if sparse.issparse(values):
        block = values.astype(np.float64)
        numbers = block.data
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "buif":
            try:
                array = _numbers(array)
            except (TypeError, ValueError) as error:
                raise TypeError(f"X must hold numbers; rows from {first} on hold {array.dtype}.") from error
        block = numbers = np.ascontiguousarray(array, dtype=np.float64)
    if block.shape[1] != n_features:
        raise ValueError(f"Rows from {first} on have {block.shape[1]} columns, not {n_features}.")
    # The sum is finite if all are, short of overflow, and far cheaper to test.
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not np.isfinite(numbers.sum())
    if suspect and not np.all(np.isfinite(numbers)):
        if sparse.issparse(block):
            raise ValueError("X contains NaN or infinity: remove or replace those entries.")
        row, column = np.argwhere(~np.isfinite(block))[0]
        raise ValueError(
            f"X contains NaN or infinity (first in row {first + row}, column {column}): "
            "remove those rows or fill the entries."
        )
    return block


def _checked_weights(weights: Any, n_rows: int, first: int) -> Array | None:
    if weights is None:
        return None
    array = np.asarray(weights)
    if array.dtype.kind not in "buif":
        raise TypeError("sample_weight must hold real numbers.")
    if array.shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},); got {array.shape}.")
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError(f"sample_weight is negative or not finite, from row {first} on.")
    return np.asarray(array, dtype=np.float64)
