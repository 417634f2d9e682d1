"""Rows that come in chunks, from an iterable of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.namespaces import namespace, to_numpy
from apolar.data.arrays import take_both
from apolar.data.checks import numbers_of, refuse_bad_weights
from apolar.data.dataframes import as_frame
from apolar.data.rows import Rows


def is_table(value: Any) -> bool:
    """Return whether a member of a list is a chunk of rows, not a row."""
    first = value[0] if isinstance(value, tuple) and len(value) == 2 else value
    return sparse.issparse(first) or getattr(first, "ndim", 0) == 2 or as_frame(first) is not None


def is_pair(chunk: Any) -> bool:
    """Return whether a chunk is a pair of a table and its weights or None."""
    return isinstance(chunk, tuple) and len(chunk) == 2 and is_table(chunk)


class ChunkRows(Rows):
    """The rows of an iterable of chunks; those of weight zero are as if they were not there.

    Parameters
    ----------
    chunks : iterable of tables, or of pairs of a table and its weights
        One that starts again each time can be read again.
    open_chunk : callable
        Takes a chunk and returns its rows.
    """

    def __init__(self, chunks: Iterable[Any], open_chunk: Callable[[Any], Rows]) -> None:
        self._chunks, self._open_chunk = chunks, open_chunk
        self._rest = iter(chunks)
        # One that gives the same iterator each time can be read once as well.
        self.rereadable = self._rest is not chunks and iter(chunks) is not self._rest
        head = next(self._rest, None)
        if head is None:
            raise ValueError("X has no data: it is an iterable without chunks.")
        # The chunks that have been taken from what can be read only once, and are still to be read.
        self._taken = [head]
        self._is_past_first_block = False
        self._first = open_chunk(head)
        self._is_weighted = _has_weights(head)
        self.row_size, self.names = self._first.row_size, self._first.names
        self.device_template = self._first.device_template
        # The members of a list stay as they are; others may be written over while they are worked on.
        self._keep = _as_numbers if isinstance(chunks, list | tuple) else _copied

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self._first.n_features

    @property
    def n_rows(self) -> None:
        """The number of rows, which only reading to the end tells."""
        return None

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of the chunks, at most `size` at a time."""
        n_rows, n_weighted = 0, 0
        for number, chunk in enumerate(self._chunks if self.rereadable else self._remaining()):
            rows = self._open_chunk(chunk)
            self._check_chunk(number, rows)
            if _has_weights(chunk) != self._is_weighted:
                raise ValueError("Some chunks have weights and others have none: give all of them weights.")
            for values, weights in rows.read(size):
                first_row = n_rows
                n_rows += values.shape[0]
                if weights is not None:
                    refuse_bad_weights(weights, first_row)
                    chosen = np.flatnonzero(to_numpy(weights) > 0)
                    if not len(chosen):
                        continue
                    if len(chosen) < values.shape[0]:
                        values, weights = take_both(values, weights, chosen)
                n_weighted += values.shape[0]
                yield self._keep(values), None if weights is None else self._keep(weights)
                self._is_past_first_block = True
        if n_rows and not n_weighted:
            raise ValueError("The weights of the rows are all zero.")

    def _remaining(self) -> Iterator[Any]:
        """Yield the chunks of what can be read only once.

        Those up to the first block of rows can be had again: `first` looks at it before all are read.
        """
        yield from tuple(self._taken)
        for chunk in self._rest:
            if not self._is_past_first_block:
                self._taken.append(chunk)
            yield chunk

    def _check_chunk(self, number: int, rows: Rows) -> None:
        """Refuse a chunk that is not like the first."""
        first = self._first
        if rows.n_features != first.n_features:
            raise ValueError(
                f"Chunk {number} has {rows.n_features} columns, not {first.n_features} as the first has."
            )
        is_elsewhere = rows.device_template is not None
        if is_elsewhere != (first.device_template is not None) or rows.is_sparse != first.is_sparse:
            raise TypeError(
                f"Chunk {number} is of another kind than the first: give all of them in one form."
            )
        if rows.names is not None and first.names is not None and rows.names != first.names:
            raise ValueError(
                f"Chunk {number} has other columns than the first, or in another order: "
                f"{', '.join(rows.names)[:200]}; {', '.join(first.names)[:200]}."
            )


def _has_weights(chunk: Any) -> bool:
    return is_pair(chunk) and chunk[1] is not None


def _as_numbers(values: Any) -> Any:
    is_objects = isinstance(values, np.ndarray) and values.dtype.kind == "O"
    return numbers_of(values) if is_objects else values


def _copied(values: Any) -> Any:
    """Return a chunk that is ours."""
    if isinstance(values, np.ndarray):
        return numbers_of(values) if values.dtype == object else values.copy()
    return values.copy() if sparse.issparse(values) else namespace(values).asarray(values, copy=True)
