"""Which kinds of tables are accepted, and the rows of each: a table of sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class SourceKind:
    """A kind of table.

    Attributes
    ----------
    recognises : callable
        Takes X and returns whether it is of this kind.
    open : callable
        Takes X and its weights or None, and returns the rows.
    fits_scikit_learn : bool
        Whether scikit-learn can check such a table: in memory, and of a kind that it knows.
    skips_weightless : bool
        Whether `open` itself leaves out rows of weight zero.
    """

    recognises: Callable[[Any], bool]
    open: Callable[[Any, Any], Rows]
    fits_scikit_learn: bool = False
    skips_weightless: bool = False


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
    kind = source_kind(X)
    rows = kind.open(X, sample_weight)
    if sample_weight is None or kind.skips_weightless:
        return rows
    weights = detached(sample_weight) if is_device_array(sample_weight) else np.asarray(sample_weight)
    if bool(namespace(weights).all(weights > 0)):
        return rows
    return WeightedRows(rows, weights)


def source_kind(X: Any) -> SourceKind:
    """Return the kind of a table: the first in `SOURCES` that recognises it."""
    for kind in SOURCES.values():
        if kind.recognises(X):
            return kind
    raise TypeError(
        "X must be an array, a sparse matrix, a dataframe, or an iterable of chunks of rows; "
        f"got {type(X).__name__}."
    )


def _open_again(rows: Rows, sample_weight: Any) -> Rows:
    if sample_weight is not None:
        raise ValueError("These rows have been opened already: give their weights to on_device.")
    return rows


def _open_dask(X: Any, sample_weight: Any) -> Rows:
    from apolar.data.dask import from_dask

    return from_dask(X, sample_weight)


def _open_sparse(X: Any, sample_weight: Any) -> Rows:
    # Older versions of SciPy fail to convert what is no matrix, in words of their own.
    n_rows, _ = table_shape(X)
    return ArrayRows(X.tocsr(), _weights(sample_weight, n_rows))


def _is_mapped_file(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.dtype.kind in "buif" and memory_map(X) is not None


def _open_mapped_file(X: Any, sample_weight: Any) -> Rows:
    mapping = memory_map(X)
    assert mapping is not None
    return MappedFileRows(X, mapping, _weights(sample_weight, table_shape(X)[0]))


def _open_array(X: Any, sample_weight: Any) -> Rows:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("X has masked entries: drop those rows, or fill them with X.filled(value).")
    return ArrayRows(X, _weights(sample_weight, table_shape(X)[0]))


def _open_device_array(X: Any, sample_weight: Any) -> Rows:
    X = detached(X)
    weights = _weights(sample_weight, table_shape(X)[0])
    if weights is not None and not is_device_array(weights):
        weights = to_device_of(weights, X)
    return ArrayRows(X, weights, device_template=X[:0, :])


def _open_dataset(X: Any, sample_weight: Any) -> Rows:
    names, n_rows = dataset_columns(X), dataset_rows(X)
    if not names:
        raise ValueError("The data set has no columns.")
    return DatasetRows(X, names, n_rows, _weights(sample_weight, n_rows))


def _open_dataframe(X: Any, sample_weight: Any) -> Rows:
    frame = as_frame(X)
    if frame.shape[1] == 0:
        raise ValueError(f"X has no columns: its shape is {tuple(frame.shape)}.")
    return DataframeRows(frame, _weights(sample_weight, frame.shape[0]))


def _is_list_of_rows(X: Any) -> bool:
    return isinstance(X, list | tuple) and not (X and is_table(X[0]))


def _is_array_like(X: Any) -> bool:
    return hasattr(X, "__array__")


def _open_array_like(X: Any, sample_weight: Any) -> Rows:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError("X is ragged: its rows have different lengths.") from error
    return ArrayRows(array, _weights(sample_weight, table_shape(array)[0]))


def _is_chunks(X: Any) -> bool:
    return isinstance(X, Iterable) and not isinstance(X, str | bytes | dict)


def _open_chunks(X: Any, sample_weight: Any) -> Rows:
    if sample_weight is not None:
        raise ValueError("With chunks, give the weights with them: an iterable of pairs (X, sample_weight).")
    return ChunkRows(X, _chunk_rows)


SOURCES: dict[str, SourceKind] = {
    "rows": SourceKind(lambda X: isinstance(X, Rows), _open_again),
    "dask": SourceKind(is_dask, _open_dask, skips_weightless=True),
    "sparse": SourceKind(sparse.issparse, _open_sparse, fits_scikit_learn=True),
    "mapped file": SourceKind(_is_mapped_file, _open_mapped_file),
    "array": SourceKind(lambda X: isinstance(X, np.ndarray), _open_array, fits_scikit_learn=True),
    "device array": SourceKind(is_device_array, _open_device_array),
    "data set": SourceKind(is_dataset, _open_dataset),
    "dataframe": SourceKind(lambda X: as_frame(X) is not None, _open_dataframe, fits_scikit_learn=True),
    "list of rows": SourceKind(_is_list_of_rows, _open_array_like, fits_scikit_learn=True),
    "array-like": SourceKind(_is_array_like, _open_array_like, fits_scikit_learn=True),
    "chunks": SourceKind(_is_chunks, _open_chunks),
}
"""All kinds of tables. A new one is a file with its `Rows`, and a line here, before more general ones."""


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
        return source_kind(chunk[0]).open(chunk[0], chunk[1])
    if isinstance(chunk, list | tuple):
        chunk = np.asarray(chunk)
    return source_kind(chunk).open(chunk, None)
