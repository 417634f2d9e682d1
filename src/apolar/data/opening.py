"""Which kinds of tables are accepted, and the rows of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.namespaces import detached, is_dask, is_device_array, namespace, to_device_of
from apolar.data.checks import refuse_bad_weights, table_shape
from apolar.data.chunks import ChunkRows, is_pair, is_table
from apolar.data.dataframes import (
    DataframeRows,
    DatasetRows,
    as_frame,
    dataset_columns,
    dataset_rows,
    is_dataset,
)
from apolar.data.derived import WeightedRows
from apolar.data.disk import MappedFileRows, memory_map
from apolar.data.rows import ArrayRows, Rows


def open_rows(X: Any, sample_weight: Any = None) -> Rows:
    """Return the rows of a table; rows of weight zero are skipped.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, or iterable of these
        Of shape (n_samples, n_features): a NumPy array or memory map, nested
        lists of numbers, a SciPy sparse matrix, a table of pandas, polars or
        pyarrow, a data set of files of pyarrow, an array of torch or CuPy, an
        array or dataframe of Dask, or an iterable of chunks. A chunk is one
        of these, or a pair of one and its weights.
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
    rows = _local_rows(X, sample_weight)
    if sample_weight is None:
        return rows
    weights = detached(sample_weight) if is_device_array(sample_weight) else np.asarray(sample_weight)
    if bool(namespace(weights).all(weights > 0)):
        return rows
    return WeightedRows(rows, weights)


def _local_rows(X: Any, sample_weight: Any) -> Rows:
    """Return the rows of a table in memory, in files, or in chunks; those of weight zero are included."""
    if sparse.issparse(X):
        shape = table_shape(X)
        return ArrayRows(X.tocsr(), _weights(sample_weight, shape[0]))
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("X has masked entries: drop those rows, or fill them with X.filled(value).")
    if isinstance(X, np.ndarray):
        weights = _weights(sample_weight, table_shape(X)[0])
        mapping = memory_map(X)
        return ArrayRows(X, weights) if mapping is None else MappedFileRows(X, mapping, weights)
    if is_device_array(X):
        X = detached(X)
        weights = _weights(sample_weight, table_shape(X)[0])
        if weights is not None and not is_device_array(weights):
            weights = to_device_of(weights, X)
        return ArrayRows(X, weights, device_template=X[:0, :])
    if is_dataset(X):
        names, n_rows = dataset_columns(X), dataset_rows(X)
        if not names:
            raise ValueError("The data set has no columns.")
        return DatasetRows(X, names, n_rows, _weights(sample_weight, n_rows))
    frame = as_frame(X)
    if frame is not None:
        if frame.shape[1] == 0:
            raise ValueError(f"X has no columns: its shape is {tuple(frame.shape)}.")
        return DataframeRows(frame, _weights(sample_weight, frame.shape[0]))
    if isinstance(X, list | tuple) and not (X and is_table(X[0])):
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise ValueError("X is ragged: its rows have different lengths.") from error
        return ArrayRows(array, _weights(sample_weight, table_shape(array)[0]))
    if isinstance(X, Iterable) and not isinstance(X, str | bytes | dict):
        if sample_weight is not None:
            raise ValueError(
                "With chunks, give the weights with them: an iterable of pairs (X, sample_weight)."
            )
        return ChunkRows(X, _chunk_rows)
    raise TypeError(
        "X must be an array, a sparse matrix, a dataframe, or an iterable of chunks of rows; "
        f"got {type(X).__name__}."
    )


def _weights(sample_weight: Any, n_rows: int) -> Any:
    """Return the weights of `n_rows` rows as a checked array, or None."""
    if sample_weight is None:
        return None
    weights = detached(sample_weight) if is_device_array(sample_weight) else np.asarray(sample_weight)
    if tuple(weights.shape) != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},); got {tuple(weights.shape)}.")
    refuse_bad_weights(weights)
    return weights


def _chunk_rows(chunk: Any) -> Rows:
    """Return the rows of a chunk, or of a pair of one and its weights."""
    if is_pair(chunk):
        return _local_rows(chunk[0], chunk[1])
    if isinstance(chunk, list | tuple):
        chunk = np.asarray(chunk)
    return _local_rows(chunk, None)
