"""Which kinds of tables are accepted, and the rows of each: a table of sources."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import detach, is_dask, is_device_array, namespace, to_device_of, to_numpy
from apolar.data.arrays import take_both
from apolar.data.checks import objects_to_float64, refuse_bad_weights, table_shape
from apolar.data.dataframes import DatasetRows, FrameValues, is_dataset
from apolar.data.derived import SelectedRows
from apolar.data.rows import ArrayRows, Rows

# The pages of this many chunks, the last ones, are released after each: threads may still read these chunks.
RECENT_CHUNKS = 32
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
    weights = _as_array(sample_weight)
    return rows if bool(namespace(weights).all(weights > 0)) else SelectedRows(rows, weights)


def source_kind(X: Any) -> SourceKind:
    """Return the kind of a table: the first in `SOURCES` that recognises it."""
    for kind in SOURCES.values():
        if kind.recognises(X):
            return kind
    raise TypeError(
        "X must be an array, a sparse matrix, a dataframe, or an iterable of chunks of rows; "
        f"got {type(X).__name__}."
    )


def _as_array(sample_weight: Any) -> Any:
    return detach(sample_weight) if is_device_array(sample_weight) else np.asarray(sample_weight)


def _weights(sample_weight: Any, n_rows: int) -> Any:
    """Return the weights of `n_rows` rows as a checked array, or None."""
    if sample_weight is None:
        return None
    weights = _as_array(sample_weight)
    if tuple(weights.shape) != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},); got {tuple(weights.shape)}.")
    refuse_bad_weights(weights)
    return weights


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


def _open_array(X: Any, sample_weight: Any) -> Rows:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("X has masked entries: drop those rows, or fill them with X.filled(value).")
    weights = _weights(sample_weight, table_shape(X)[0])
    mapping = _memory_map(X) if X.dtype.kind in "buif" else None
    return ArrayRows(X, weights) if mapping is None else MappedFileRows(X, mapping, weights)


def _open_device_array(X: Any, sample_weight: Any) -> Rows:
    X = detach(X)
    weights = _weights(sample_weight, table_shape(X)[0])
    if weights is not None and not is_device_array(weights):
        weights = to_device_of(weights, X)
    return ArrayRows(X, weights, device_template=X[:0, :])


def _open_dataset(X: Any, sample_weight: Any) -> Rows:
    rows = DatasetRows(X)
    rows.weights = _weights(sample_weight, rows.n_rows)
    return rows


def _open_dataframe(X: Any, sample_weight: Any) -> Rows:
    values = FrameValues.of(X)
    n_rows, _ = table_shape(values)
    return ArrayRows(values, _weights(sample_weight, n_rows), names=values.names)


def _open_array_like(X: Any, sample_weight: Any) -> Rows:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError("X is ragged: its rows have different lengths.") from error
    return ArrayRows(array, _weights(sample_weight, table_shape(array)[0]))


def _open_chunks(X: Any, sample_weight: Any) -> Rows:
    if sample_weight is not None:
        raise ValueError("With chunks, give the weights with them: an iterable of pairs (X, sample_weight).")
    return ChunkRows(X)


def _is_table(value: Any) -> bool:
    """Return whether an element of a list is a chunk of rows, not a single row."""
    first = value[0] if isinstance(value, tuple) and len(value) == 2 else value
    return sparse.issparse(first) or getattr(first, "ndim", 0) == 2 or FrameValues.recognises(first)


def _is_list_of_rows(X: Any) -> bool:
    return isinstance(X, list | tuple) and not (X and _is_table(X[0]))


def _is_iterable(X: Any) -> bool:
    return isinstance(X, Iterable) and not isinstance(X, str | bytes | dict)


SOURCES: dict[str, SourceKind] = {
    "rows": SourceKind(lambda X: isinstance(X, Rows), _open_again),
    "dask": SourceKind(is_dask, _open_dask, skips_weightless=True),
    "sparse": SourceKind(sparse.issparse, _open_sparse, fits_scikit_learn=True),
    "mapped file": SourceKind(
        lambda X: isinstance(X, np.ndarray) and _memory_map(X) is not None, _open_array
    ),
    "array": SourceKind(lambda X: isinstance(X, np.ndarray), _open_array, fits_scikit_learn=True),
    "device array": SourceKind(is_device_array, _open_device_array),
    "data set": SourceKind(is_dataset, _open_dataset),
    "dataframe": SourceKind(FrameValues.recognises, _open_dataframe, fits_scikit_learn=True),
    "list of rows": SourceKind(_is_list_of_rows, _open_array_like, fits_scikit_learn=True),
    "array-like": SourceKind(lambda X: hasattr(X, "__array__"), _open_array_like, fits_scikit_learn=True),
    "chunks": SourceKind(_is_iterable, _open_chunks),
}
"""All kinds of tables. A new one is a file with its `Rows`, and a line here, before more general ones."""


# --- arrays that are mapped from a file ----------------------------------------------


def _memory_map(array: Array) -> np.memmap | None:
    """Return the memory map that an array is, or is a view of; None if there is none."""
    base: Any = array
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return base if isinstance(base, np.memmap) else None


class MappedFileRows(ArrayRows):
    """The rows of an array that is mapped from a file; pages that have been read are released.

    The operating system may keep them in its page cache, but they do not count as memory of this process.
    `in_memory` is False, so that nothing that grows with the number of rows is stored beside them.

    Parameters
    ----------
    array : ndarray
    mapping : numpy.memmap
        The memory map that the array is a view of.
    weights : array, shape (n_rows,), or None
    """

    in_memory = False

    def __init__(self, array: Array, mapping: np.memmap, weights: Any = None) -> None:
        super().__init__(array, weights)
        file = getattr(mapping, "_mmap", None)
        # Pages of a private map (mode "c") are not released: what was written to them would be lost.
        can_release = isinstance(file, mmap.mmap) and mapping.mode != "c" and hasattr(file, "madvise")
        self._file: mmap.mmap | None = file if can_release else None
        self._address = 0 if self._file is None else np.frombuffer(self._file, dtype=np.uint8).ctypes.data

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights or None, and release the pages of recent chunks."""
        recent: deque[Array] = deque(maxlen=RECENT_CHUNKS)
        for block, weights in super().read(size):
            yield block, weights
            recent.append(block)
            self._release_pages(recent)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None."""
        if isinstance(positions, slice):
            return super().take(positions)
        values = np.empty((len(positions), self.n_features), dtype=self.values.dtype)
        for start in range(0, len(positions), TAKEN_ROWS):
            some = positions[start : start + TAKEN_ROWS]
            values[start : start + len(some)] = self.values[some]
            self._release_pages([self.values[some.min() : some.max() + 1]])
        return values, None if self.weights is None else self.weights[positions]

    def _release_pages(self, blocks: Iterable[Array]) -> None:
        """Release the pages that lie completely between the first and the last address of some blocks."""
        if self._file is None:
            return
        lows, highs = zip(*map(byte_bounds, blocks), strict=True)
        page = mmap.PAGESIZE
        start = -(-(min(lows) - self._address) // page) * page
        stop = (max(highs) - self._address) // page * page
        if stop > start:
            self._file.madvise(mmap.MADV_DONTNEED, start, stop - start)


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
        # Chunks that were taken from the iterator before its rows are read for good.
        self._buffered = [first_chunk]
        self._is_past_first_block = False
        self._first, self._is_weighted = _open_chunk(first_chunk)
        self.row_size, self.names = self._first.row_size, self._first.names
        self.device_template = self._first.device_template

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self._first.n_features

    @property
    def n_rows(self) -> None:
        """None: the number of rows is known only after reading all chunks."""
        return None

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of the chunks, at most `size` at a time."""
        n_rows, n_weighted = 0, 0
        # The elements of a list do not change; other iterables may reuse the memory of a chunk for the next.
        copy = not isinstance(self._chunks, list | tuple)
        for index, chunk in enumerate(self._chunks if self.rereadable else self._remaining()):
            rows, is_weighted = _open_chunk(chunk)
            self._check_chunk(index, rows)
            if is_weighted != self._is_weighted:
                raise ValueError("Some chunks have weights and others have none: give all of them weights.")
            for values, weights in rows.read(size):
                first_row = n_rows
                n_rows += values.shape[0]
                if weights is not None:
                    refuse_bad_weights(weights, first_row)
                    positive = np.flatnonzero(to_numpy(weights) > 0)
                    if not len(positive):
                        continue
                    if len(positive) < values.shape[0]:
                        values, weights = take_both(values, weights, positive)
                n_weighted += values.shape[0]
                yield _numbers(values, copy), None if weights is None else _numbers(weights, copy)
                self._is_past_first_block = True
        if n_rows and not n_weighted:
            raise ValueError("The weights of the rows are all zero.")

    def _remaining(self) -> Iterator[Any]:
        """Yield the chunks of an iterable that can be read only once.

        Chunks up to the first block of rows are buffered: `first` reads that block before all rows are read.
        """
        yield from tuple(self._buffered)
        for chunk in self._iterator:
            if not self._is_past_first_block:
                self._buffered.append(chunk)
            yield chunk

    def _check_chunk(self, index: int, rows: Rows) -> None:
        """Raise an error for a chunk of another kind, or of other columns, than the first."""
        first = self._first
        if rows.n_features != first.n_features:
            raise ValueError(
                f"Chunk {index} has {rows.n_features} columns, not {first.n_features} as the first has."
            )
        is_on_device = rows.device_template is not None
        if is_on_device != (first.device_template is not None) or rows.is_sparse != first.is_sparse:
            raise TypeError(f"Chunk {index} is of another kind than the first: give all of them in one form.")
        if rows.names is not None and first.names is not None and rows.names != first.names:
            raise ValueError(
                f"Chunk {index} has other columns than the first, or in another order: "
                f"{', '.join(rows.names)[:200]}; {', '.join(first.names)[:200]}."
            )


def _open_chunk(chunk: Any) -> tuple[Rows, bool]:
    """Return the rows of a chunk, or of a pair of one and its weights, and whether it has weights."""
    if isinstance(chunk, tuple) and len(chunk) == 2 and _is_table(chunk):
        return source_kind(chunk[0]).open(*chunk), chunk[1] is not None
    if isinstance(chunk, list | tuple):
        chunk = np.asarray(chunk)
    return source_kind(chunk).open(chunk, None), False


def _numbers(values: Any, copy: bool) -> Any:
    """Return an array of Python objects as float64, others as they are, or as copies."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return objects_to_float64(values)
    if not copy:
        return values
    is_own = isinstance(values, np.ndarray) or sparse.issparse(values)
    return values.copy() if is_own else namespace(values).asarray(values, copy=True)
