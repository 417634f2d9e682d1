"""Which kinds of tables are accepted, and the rows of each: a table of sources."""

from __future__ import annotations

import copy
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.checks import as_array
from apolar._core.namespaces import detach, is_dask, is_device_array, namespace
from apolar.data.chunks import objects_to_float64, require_numbers
from apolar.data.rows import ArrayRows, Rows

# Rows that are taken from a file at a time: each may load many more pages than it fills.
TAKEN_ROWS = 256


@dataclass(frozen=True)
class SourceKind:
    """A kind of table.

    Attributes
    ----------
    recognises : callable
        Takes X and returns whether it is of this kind.
    open : callable
        Takes X, and returns the rows.
    fits_scikit_learn : bool
        Whether scikit-learn can check such a table: in memory, and of a kind that it knows.
    """

    recognises: Callable[[Any], bool]
    open: Callable[[Any], Rows]
    fits_scikit_learn: bool = False


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
    rows = source_kind(X).open(X)
    if sample_weight is None:
        return rows
    if rows is X:
        raise ValueError("These rows have been opened already: give their weights to on_device.")
    return rows.with_weights(sample_weight)


def source_kind(X: Any) -> SourceKind:
    """Return the kind of a table: the first in `SOURCES` that recognises it."""
    for kind in SOURCES.values():
        if kind.recognises(X):
            return kind
    raise TypeError(
        "X must be an array, a sparse matrix, a dataframe, or an iterable of chunks of rows; "
        f"got {type(X).__name__}."
    )


def _open_in_memory(X: Any) -> Rows:
    names = None
    if is_dataframe(X):
        X, names = read_dataframe(X)
    elif not sparse.issparse(X):
        X = as_array(X)
    X = require_numbers(X)
    return ArrayRows(X.tocsr() if sparse.issparse(X) else X, names=names)


def _is_table(value: Any) -> bool:
    """Return whether an element of a list is a chunk of rows, not a single row."""
    first = value[0] if isinstance(value, tuple) and len(value) == 2 else value
    return sparse.issparse(first) or getattr(first, "ndim", 0) == 2 or is_dataframe(first)


def _is_in_memory(X: Any) -> bool:
    if isinstance(X, list | tuple):
        return not (X and _is_table(X[0]))
    return sparse.issparse(X) or is_dataframe(X) or hasattr(X, "__array__")


# --- dataframes, and data sets of files ------------------------------------------------


def is_dataframe(X: Any) -> bool:
    """Return whether X is a dataframe; raise TypeError for a lazy one."""
    kind = type(X).__name__
    if kind == "LazyFrame":
        raise TypeError("X is a lazy table: call .collect() on it first.")
    if not (hasattr(X, "columns") or hasattr(X, "__dataframe__")):
        return False
    import narwhals

    return kind == "RecordBatch" or narwhals.dependencies.is_into_dataframe(X)


def column_labels(X: Any) -> list[Any]:
    """Return the labels of the columns of a dataframe, which are strings or not."""
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def read_dataframe(X: Any, positions: Sequence[int] | None = None) -> tuple[Array, tuple[str, ...] | None]:
    """Return the values of a dataframe, NaN where they are missing, and the names of its columns.

    The names are None unless they are all strings. `positions` are the columns that are read; all by default.
    """
    import narwhals

    if type(X).__name__ == "RecordBatch":
        import pyarrow

        X = pyarrow.Table.from_batches([X])
    labels = column_labels(X)
    if len(set(labels)) < len(labels):
        # Columns are told apart by their numbers.
        numbers = [f"{i}" for i in range(len(labels))]
        X = X.rename_columns(numbers) if hasattr(X, "rename_columns") else X.set_axis(numbers, axis=1)
    frame = narwhals.from_native(X, eager_only=True)
    columns = []
    for position in range(len(labels)) if positions is None else positions:
        label, column = labels[position], frame[:, position]
        try:
            columns.append(_numbers(column))
        except (TypeError, ValueError) as error:
            dtype = getattr(column.to_native(), "dtype", column.dtype)
            message = f"Column {label!r} holds {dtype}, not numbers: drop it or encode it first."
            raise TypeError(message) from error
    names = tuple(labels) if all(isinstance(label, str) for label in labels) else None
    return np.column_stack(columns) if columns else np.empty(frame.shape), names


@contextmanager
def naming_text_columns(X: Any) -> Iterator[None]:
    """Name the column of a dataframe that holds no numbers, where another library refuses the whole.

    That library adds up X to look for NaN: whether the sum overflows does not matter.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (TypeError, ValueError):
        if is_dataframe(X):
            read_dataframe(X)
        raise


def _numbers(column: Any) -> Array:
    """Return a column as numbers, NaN where a value is missing."""
    import narwhals

    if column.dtype == narwhals.Boolean and column.null_count():
        column = column.cast(narwhals.Float64)
    values = np.asarray(column.to_numpy())
    return values if values.dtype.kind in "buifc" else objects_to_float64(values)


class DatasetRows(Rows):
    """The rows of a data set of files that pyarrow reads.

    Parameters
    ----------
    dataset : pyarrow Dataset or ParquetFile
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.names = tuple(getattr(dataset, "schema_arrow", dataset.schema).names)
        if not self.names:
            raise ValueError("The data set has no columns.")
        self.n_features = len(self.names)
        metadata = getattr(dataset, "metadata", None)
        self._n_rows = int(dataset.count_rows() if metadata is None else metadata.num_rows)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._n_rows

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks of at most `size` rows, read from the files."""
        if hasattr(self.dataset, "iter_batches"):
            batches = self.dataset.iter_batches(batch_size=size)
        else:
            # By default pyarrow reads many batches and files ahead, which takes memory.
            batches = self.dataset.to_batches(batch_size=size, batch_readahead=2, fragment_readahead=1)
        for batch in batches:
            yield read_dataframe(batch)[0], None


def is_dataset(X: Any) -> bool:
    """Return whether X is a Dataset or a ParquetFile of pyarrow."""
    is_known = type(X).__name__ == "ParquetFile" or (hasattr(X, "count_rows") and hasattr(X, "schema"))
    return type(X).__module__.startswith("pyarrow.") and is_known


# --- arrays that are mapped from a file ----------------------------------------------


def _mapping_of(X: Any) -> Any:
    """Return the memory map that X is, or is a view of; something else if there is none."""
    while isinstance(X, np.ndarray) and not isinstance(X, np.memmap):
        X = X.base
    return X


class MappedFileRows(ArrayRows):
    """The rows of an array that is mapped from a file; pages that have been read are released.

    The operating system may keep them in its page cache, but they do not count as memory of this process.
    `in_memory` is False, so that nothing that grows with the number of rows is stored besides them.

    Parameters
    ----------
    array : ndarray
        A memory map, or a view of one.
    """

    in_memory = False

    def __init__(self, array: Array) -> None:
        super().__init__(array)
        mapping = _mapping_of(array)
        file = getattr(mapping, "_mmap", None)
        # Pages of a private map (mode "c") are not released: what was written to them would be lost.
        can_release = hasattr(file, "madvise") and getattr(mapping, "mode", "c") != "c"
        self._file: mmap.mmap | None = file if can_release else None

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights or None, and release the pages of recent chunks."""
        for chunk in super().read(size):
            yield chunk
            # Pages that threads still read come back from the cache of the system.
            self._release_pages()

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None."""
        if isinstance(positions, slice):
            return super().take(positions)
        values = np.empty((len(positions), self.n_features), dtype=self.values.dtype)
        for start in range(0, len(positions), TAKEN_ROWS):
            some = positions[start : start + TAKEN_ROWS]
            values[start : start + len(some)] = self.values[some]
            self._release_pages()
        return values, None if self.weights is None else self.weights[positions]

    def _release_pages(self) -> None:
        if self._file is not None:
            self._file.madvise(mmap.MADV_DONTNEED)


# --- iterables of chunks --------------------------------------------------------------


class ChunkRows(Rows):
    """The rows of an iterable of chunks; rows of weight zero are skipped.

    Parameters
    ----------
    chunks : iterable of tables, or of pairs of a table and its weights
        Rereadable if it returns a new iterator each time, as a list does and a generator does not.
    """

    def __init__(self, chunks: Iterable[Any]) -> None:
        self._chunks, self._iterator = chunks, iter(chunks)
        # An object whose __iter__ returns the same iterator each time can be read only once, too.
        self.rereadable = self._iterator is not chunks and iter(chunks) is not self._iterator
        first_chunk = next(self._iterator, None)
        if first_chunk is None:
            raise ValueError("X has no data: it is an iterable without chunks.")
        # The chunks of an iterator up to the first block of rows: `first` reads it before all rows are read.
        self._buffered = [first_chunk]
        self._is_buffering = not self.rereadable
        # Known when all rows have been read once.
        self._n_rows: int | None = None
        self._first = _open_chunk(first_chunk)
        self.row_size, self.names = self._first.row_size, self._first.names
        self.n_features, self.device_template = self._first.n_features, self._first.device_template

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of the chunks, at most `size` at a time."""
        # The elements of a list do not change; other iterables may reuse the memory of a chunk for the next.
        copies = not isinstance(self._chunks, list | tuple)
        n_rows = 0
        chunks = self._chunks if self.rereadable else chain(tuple(self._buffered), self._iterator)
        for index, chunk in enumerate(chunks):
            if self._is_buffering and index >= len(self._buffered):
                self._buffered.append(chunk)
            rows = _open_chunk(chunk, n_rows)
            self._check_chunk(index, rows)
            for values, weights in rows.read(size):
                n_rows += values.shape[0]
                self._check_length(n_rows, is_least=True)
                yield (_copy(values), _copy(weights)) if copies else (values, weights)
                self._is_buffering = False
        self._check_length(n_rows)
        self._n_rows = n_rows

    def _check_length(self, n_rows: int, *, is_least: bool = False) -> None:
        """Raise ValueError if a pass has another number of rows, or more, than an earlier one."""
        if self._n_rows is None or n_rows == self._n_rows or (is_least and n_rows < self._n_rows):
            return
        later = "more" if is_least else n_rows
        raise ValueError(
            f"X had {self._n_rows} rows in one pass over its chunks and {later} in a later one: an iterable "
            "must yield the same rows each time. Pass a list of chunks, or an object whose __iter__ starts "
            "again from the first."
        )

    def with_weights(self, sample_weight: Any) -> Rows:  # noqa: ARG002
        """Raise ValueError: the number of rows is not known."""
        raise ValueError("With chunks, give the weights with them: an iterable of pairs (X, sample_weight).")

    def _check_chunk(self, index: int, rows: Rows) -> None:
        """Raise an error for a chunk whose kind or columns differ from those of the first."""
        first = self._first
        check_same_columns(rows, first.n_features, first.names, f"Chunk {index}")
        if (rows.weights is None) != (first.weights is None):
            raise ValueError("Some chunks have weights and others have none: give all of them weights.")
        of_chunk, of_first = ((each.device_template is None, each.is_sparse) for each in (rows, first))
        if of_chunk != of_first:
            raise TypeError(f"Chunk {index} differs in type from the first: give all chunks the same type.")


def _open_chunk(chunk: Any, first_row: int = 0) -> Rows:
    """Return the rows of a chunk, or of a pair of one and its weights."""
    weights = None
    if isinstance(chunk, tuple) and len(chunk) == 2 and _is_table(chunk):
        chunk, weights = chunk
    elif isinstance(chunk, list | tuple):
        chunk = np.asarray(chunk)
    rows = source_kind(chunk).open(chunk)
    rows.first_row = first_row
    return rows if weights is None else rows.with_weights(weights)


def _copy(values: Any) -> Any:
    if values is None or isinstance(values, np.ndarray) or sparse.issparse(values):
        return copy.deepcopy(values)
    return namespace(values).asarray(values, copy=True)


def check_same_columns(rows: Rows, n_features: int, names: tuple[str, ...] | None, part: str) -> None:
    """Raise ValueError for a part of a table that has other columns than the table."""
    if rows.n_features != n_features:
        raise ValueError(f"{part} of X has {rows.n_features} columns, not {n_features}.")
    if rows.names is not None and names is not None and rows.names != names:
        raise ValueError(
            f"{part} of X has other columns than X, or in another order: {', '.join(rows.names)[:200]}; "
            f"{', '.join(names)[:200]}. Select them by name in each part, as in "
            "X.map_partitions(lambda part: part[names])."
        )


SOURCES: dict[str, SourceKind] = {
    "mapped file": SourceKind(
        lambda X: isinstance(_mapping_of(X), np.memmap), lambda X: MappedFileRows(require_numbers(X))
    ),
    "array": SourceKind(
        lambda X: isinstance(X, np.ndarray),
        lambda X: ArrayRows(require_numbers(as_array(X))),
        fits_scikit_learn=True,
    ),
    "rows": SourceKind(lambda X: isinstance(X, Rows), lambda X: X),
    "dask": SourceKind(is_dask, lambda X: import_module("apolar.data.dask").from_dask(X)),
    "device array": SourceKind(is_device_array, lambda X: ArrayRows(require_numbers(detach(X)))),
    "data set": SourceKind(is_dataset, DatasetRows),
    "in memory": SourceKind(_is_in_memory, _open_in_memory, fits_scikit_learn=True),
    "chunks": SourceKind(
        lambda X: isinstance(X, Iterable) and not isinstance(X, str | bytes | dict), ChunkRows
    ),
}
"""All kinds of tables. A new one is a file with its `Rows`, and a line here, before more general ones."""
