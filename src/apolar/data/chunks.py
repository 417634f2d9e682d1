"""Rows of an iterable of chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.namespaces import namespace, to_numpy
from apolar.data.arrays import take_both
from apolar.data.checks import objects_to_float64, refuse_bad_weights
from apolar.data.dataframes import as_frame
from apolar.data.rows import Rows


def is_table(value: Any) -> bool:
    """Return whether an element of a list is a chunk of rows, not a single row."""
    first = value[0] if isinstance(value, tuple) and len(value) == 2 else value
    return sparse.issparse(first) or getattr(first, "ndim", 0) == 2 or as_frame(first) is not None


def is_pair(chunk: Any) -> bool:
    """Return whether a chunk is a pair of a table and its weights or None."""
    return isinstance(chunk, tuple) and len(chunk) == 2 and is_table(chunk)


class ChunkRows(Rows):
    """The rows of an iterable of chunks; rows of weight zero are skipped.

    Parameters
    ----------
    chunks : iterable of tables, or of pairs of a table and its weights
        Rereadable if it returns a new iterator each time, as a list does and a generator does not.
    open_chunk : callable
        Takes a chunk and returns its rows.
    """

    def __init__(self, chunks: Iterable[Any], open_chunk: Callable[[Any], Rows]) -> None:
        self._chunks, self._open_chunk = chunks, open_chunk
        self._iterator = iter(chunks)
        # An object whose __iter__ returns the same iterator each time can be read only once, too.
        self.rereadable = self._iterator is not chunks and iter(chunks) is not self._iterator
        first_chunk = next(self._iterator, None)
        if first_chunk is None:
            raise ValueError("X has no data: it is an iterable without chunks.")
        # Chunks that were taken from the iterator before its rows are read for good.
        self._buffered = [first_chunk]
        self._is_past_first_block = False
        self._first = open_chunk(first_chunk)
        self._is_weighted = _has_weights(first_chunk)
        self.row_size, self.names = self._first.row_size, self._first.names
        self.device_template = self._first.device_template
        # The elements of a list do not change; other iterables may reuse the memory of a chunk for the next.
        self._secure = _numeric if isinstance(chunks, list | tuple) else _copy

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
        for index, chunk in enumerate(self._chunks if self.rereadable else self._remaining()):
            rows = self._open_chunk(chunk)
            self._check_chunk(index, rows)
            if _has_weights(chunk) != self._is_weighted:
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
                yield self._secure(values), None if weights is None else self._secure(weights)
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


def _has_weights(chunk: Any) -> bool:
    return is_pair(chunk) and chunk[1] is not None


def _numeric(values: Any) -> Any:
    """Return an array of Python objects as float64, others as they are."""
    is_objects = isinstance(values, np.ndarray) and values.dtype.kind == "O"
    return objects_to_float64(values) if is_objects else values


def _copy(values: Any) -> Any:
    """Return numeric values that share no memory with the chunk they come from."""
    if isinstance(values, np.ndarray):
        return objects_to_float64(values) if values.dtype.kind == "O" else values.copy()
    return values.copy() if sparse.issparse(values) else namespace(values).asarray(values, copy=True)
