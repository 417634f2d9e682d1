"""What a table can be, and how its rows are read."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from apolar._namespaces import beside, detached, is_foreign
from apolar._rows.checks import table_shape
from apolar._rows.disk import from_memory_map, memory_map
from apolar._rows.frames import (
    as_frame,
    dataset_batches,
    dataset_columns,
    dataset_rows,
    frame_values,
    is_dataset,
)
from apolar._rows.rows import Rows, from_arrays


def open_rows(X: Any, sample_weight: Any = None) -> Rows:
    """Return the rows of a table.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, or iterable of these
        Of shape (n_samples, n_features): a NumPy array or memory map, what
        NumPy makes an array of, a SciPy sparse matrix, a table of pandas,
        polars or pyarrow, a data set of files of pyarrow, an array of torch
        or CuPy, an array or dataframe of Dask, or an iterable of chunks,
        each one of these or a pair of one and its weights.
    sample_weight : array_like, shape (n_samples,), optional

    Returns
    -------
    rows : Rows
    """
    if isinstance(X, Rows):
        if sample_weight is not None:
            raise ValueError("These rows have been opened already: give their weights to on_device.")
        return X
    if is_dask(X):
        from apolar._rows.dask import from_dask

        return from_dask(X, sample_weight)
    if sparse.issparse(X):
        shape = table_shape(X)
        return from_arrays(X.tocsr(), _weights(sample_weight, shape[0]))
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("X has masked entries: drop those rows, or fill them with X.filled(value).")
    if isinstance(X, np.ndarray):
        weights = _weights(sample_weight, table_shape(X)[0])
        mapping = memory_map(X)
        return from_arrays(X, weights) if mapping is None else from_memory_map(X, mapping, weights)
    if is_foreign(X):
        X = detached(X)
        weights = _weights(sample_weight, table_shape(X)[0])
        if weights is not None and not is_foreign(weights):
            weights = beside(weights, X)
        return from_arrays(X, weights, like=X[:0, :])
    if is_dataset(X):
        return _from_dataset(X, sample_weight)
    frame = as_frame(X)
    if frame is not None:
        names = tuple(frame.columns) if all(isinstance(name, str) for name in frame.columns) else None
        return _sliced(frame.shape, functools.partial(frame_values, frame), sample_weight, names)
    if isinstance(X, list | tuple) and not (X and _is_table(X[0])):
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise ValueError("X is ragged: its rows have different lengths.") from error
        return from_arrays(array, _weights(sample_weight, table_shape(array)[0]))
    if isinstance(X, Iterable) and not isinstance(X, str | bytes | dict):
        return _chunked(X, sample_weight)
    raise TypeError(
        "X must be an array, a sparse matrix, a dataframe, or an iterable of chunks of rows; "
        f"got {type(X).__name__}."
    )


def is_dask(X: Any) -> bool:
    """Return whether X is an array or a dataframe of Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def _weights(sample_weight: Any, n_rows: int) -> Any:
    """Return the weights of as many rows, or None."""
    if sample_weight is None:
        return None
    weights = detached(sample_weight) if is_foreign(sample_weight) else np.asarray(sample_weight)
    if tuple(weights.shape) != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},); got {tuple(weights.shape)}.")
    return weights


def _sliced(
    shape: tuple[int, int],
    rows: Callable[[Any], Any],
    sample_weight: Any,
    names: tuple[str, ...] | None,
) -> Rows:
    n_rows, n_features = shape
    if n_features == 0:
        raise ValueError(f"X has no columns: its shape is ({n_rows}, {n_features}).")
    weights = _weights(sample_weight, n_rows)

    def read(size: int) -> Iterator[tuple[Any, Any]]:
        for start in range(0, n_rows, size):
            part = slice(start, min(start + size, n_rows))
            yield rows(part), None if weights is None else weights[part]

    def take(positions: Any) -> tuple[Any, Any]:
        return rows(positions), None if weights is None else weights[positions]

    return Rows(n_features, n_rows, True, read, take, in_memory=True, names=names)


def _from_dataset(dataset: Any, sample_weight: Any) -> Rows:
    names, n_rows = dataset_columns(dataset), dataset_rows(dataset)
    if not names:
        raise ValueError("The data set has no columns.")
    weights = _weights(sample_weight, n_rows)

    def read(size: int) -> Iterator[tuple[Any, Any]]:
        first = 0
        for values in dataset_batches(dataset, size):
            last = first + len(values)
            yield values, None if weights is None else weights[first:last]
            first = last

    return Rows(len(names), n_rows, True, read, names=names)


def _is_table(value: Any) -> bool:
    """Return whether a member of a list is a chunk of rows, not a row."""
    first = value[0] if isinstance(value, tuple) and len(value) == 2 else value
    return sparse.issparse(first) or getattr(first, "ndim", 0) == 2 or as_frame(first) is not None


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

    return Rows(
        first.n_features, None, rereadable, read, row_size=first.row_size, like=first.like, names=first.names
    )


def _chunk_rows(chunk: Any) -> Rows:
    if isinstance(chunk, tuple) and len(chunk) == 2 and _is_table(chunk):
        return open_rows(chunk[0], chunk[1])
    if isinstance(chunk, list | tuple):
        chunk = np.asarray(chunk)
    return open_rows(chunk)
