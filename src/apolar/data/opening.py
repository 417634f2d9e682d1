"""What a table can be, and how its rows are read."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.namespaces import detached, is_dask, is_device_array, namespace, to_device_of, to_numpy
from apolar.data.checks import numbers_of, refuse_bad_weights, table_shape
from apolar.data.dataframes import (
    as_frame,
    dataset_batches,
    dataset_columns,
    dataset_rows,
    frame_values,
    is_dataset,
)
from apolar.data.disk import from_memory_map, memory_map
from apolar.data.rows import Rows, from_arrays, take_rows, without_weightless


def open_rows(X: Any, sample_weight: Any = None) -> Rows:
    """Return the rows of a table; those of weight zero are as if they were not there.

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
        from apolar.data.dask.rows import from_dask

        return from_dask(X, sample_weight)
    rows = _opened(X, sample_weight)
    if sample_weight is None:
        return rows
    weights = detached(sample_weight) if is_device_array(sample_weight) else np.asarray(sample_weight)
    return without_weightless(rows, weights)


def _opened(X: Any, sample_weight: Any) -> Rows:
    """Return the rows of a table that is in memory, in files, or in chunks, all of them."""
    if sparse.issparse(X):
        shape = table_shape(X)
        return from_arrays(X.tocsr(), _weights(sample_weight, shape[0]))
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("X has masked entries: drop those rows, or fill them with X.filled(value).")
    if isinstance(X, np.ndarray):
        weights = _weights(sample_weight, table_shape(X)[0])
        mapping = memory_map(X)
        return from_arrays(X, weights) if mapping is None else from_memory_map(X, mapping, weights)
    if is_device_array(X):
        X = detached(X)
        weights = _weights(sample_weight, table_shape(X)[0])
        if weights is not None and not is_device_array(weights):
            weights = to_device_of(weights, X)
        return from_arrays(X, weights, device_template=X[:0, :])
    if is_dataset(X):
        return _from_dataset(X, sample_weight)
    frame = as_frame(X)
    if frame is not None:
        names = tuple(frame.columns) if all(isinstance(name, str) for name in frame.columns) else None
        return _sliced(frame.shape, functools.partial(frame_values, frame), sample_weight, names)
    if isinstance(X, list | tuple) and not (X and is_table(X[0])):
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


def _weights(sample_weight: Any, n_rows: int) -> Any:
    """Return the weights of as many rows, or None."""
    if sample_weight is None:
        return None
    weights = detached(sample_weight) if is_device_array(sample_weight) else np.asarray(sample_weight)
    if tuple(weights.shape) != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},); got {tuple(weights.shape)}.")
    refuse_bad_weights(weights)
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


def is_table(value: Any) -> bool:
    """Return whether a member of a list is a chunk of rows, not a row."""
    first = value[0] if isinstance(value, tuple) and len(value) == 2 else value
    return sparse.issparse(first) or getattr(first, "ndim", 0) == 2 or as_frame(first) is not None


def _chunked(X: Iterable[Any], sample_weight: Any) -> Rows:
    if sample_weight is not None:
        raise ValueError("With chunks, give the weights with them: an iterable of pairs (X, sample_weight).")
    source = iter(X)
    # One that gives the same iterator each time can be read once as well.
    rereadable = source is not X and iter(X) is not source
    head = next(source, None)
    if head is None:
        raise ValueError("X has no data: it is an iterable without chunks.")
    first = _chunk_rows(head)
    first_weighted = _is_weighted(head)
    # The members of a list stay as they are; others may be written over while they are worked on.
    own = _unchanged if isinstance(X, list | tuple) else _copied

    def read(size: int) -> Iterator[tuple[Any, Any]]:
        chunks = X if rereadable else itertools.chain([head], source)
        n_rows, n_weighted = 0, 0
        for number, chunk in enumerate(chunks):
            rows = _chunk_rows(chunk)
            _check_chunk(number, rows, first)
            if _is_weighted(chunk) != first_weighted:
                raise ValueError("Some chunks have weights and others have none: give all of them weights.")
            for values, weights in rows.read(size):
                n_rows += values.shape[0]
                if weights is None:
                    n_weighted += values.shape[0]
                    yield own(values), None
                    continue
                refuse_bad_weights(weights, n_rows - values.shape[0])
                chosen = np.flatnonzero(to_numpy(weights) > 0)
                n_weighted += len(chosen)
                if len(chosen) == values.shape[0]:
                    yield own(values), own(weights)
                elif len(chosen):
                    yield own(take_rows(values, chosen)), own(take_rows(weights, chosen))
        if n_rows and not n_weighted:
            raise ValueError("The weights of the rows are all zero.")

    return Rows(
        first.n_features,
        None,
        rereadable,
        read,
        row_size=first.row_size,
        device_template=first.device_template,
        names=first.names,
    )


def _check_chunk(number: int, rows: Rows, first: Rows) -> None:
    """Refuse a chunk that is not like the first."""
    if rows.n_features != first.n_features:
        raise ValueError(
            f"Chunk {number} has {rows.n_features} columns, not {first.n_features} as the first has."
        )
    if (rows.device_template is None) != (first.device_template is None) or rows.is_sparse != first.is_sparse:
        raise TypeError(f"Chunk {number} is of another kind than the first: give all of them in one form.")
    if rows.names is not None and first.names is not None and rows.names != first.names:
        raise ValueError(
            f"Chunk {number} has other columns than the first, or in another order: "
            f"{', '.join(rows.names)[:200]}; {', '.join(first.names)[:200]}."
        )


def _unchanged(values: Any) -> Any:
    is_objects = isinstance(values, np.ndarray) and values.dtype.kind == "O"
    return numbers_of(values) if is_objects else values


def _copied(values: Any) -> Any:
    """Return a chunk that is ours."""
    if isinstance(values, np.ndarray):
        return numbers_of(values) if values.dtype == object else values.copy()
    return values.copy() if sparse.issparse(values) else namespace(values).asarray(values, copy=True)


def _is_weighted(chunk: Any) -> bool:
    return isinstance(chunk, tuple) and len(chunk) == 2 and is_table(chunk) and chunk[1] is not None


def _chunk_rows(chunk: Any) -> Rows:
    if isinstance(chunk, tuple) and len(chunk) == 2 and is_table(chunk):
        return _opened(chunk[0], chunk[1])
    if isinstance(chunk, list | tuple):
        chunk = np.asarray(chunk)
    return _opened(chunk, None)
