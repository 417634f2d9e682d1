"""Rows of data from whatever holds them, in chunks, and sums over them."""

from __future__ import annotations

import contextvars
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import (
    free_memory,
    is_device_array,
    namespace,
    positions_to_device_of,
    to_device_of,
    to_numpy,
)
from apolar.data.checks import checked_block, checked_weights
from apolar.data.scratch import Scratch

# Numbers in a chunk: small enough for the cache, large enough for BLAS.
CHUNK_SIZE = 2**18
# On a device with memory of its own a chunk is as large as this part of what is free allows, for numbers of
# eight bytes, but no larger than that many numbers.
DEVICE_PART = 16
DEVICE_CHUNK_SIZE = 2**28
# Sparse rows of more columns than this are never made dense to be kept.
DENSE_COLUMNS = 256
# A thinned sample of rows that are not in memory is kept if it is no more numbers than this.
KEPT_SAMPLE = 2**25
# How many times the rows of a chunk are read at once to take a sample of them.
MOST_AT_ONCE = 8


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
    row_size : float or None
        Numbers that a row takes in memory, where that is not the number of
        features: sparse rows hold fewer.
    in_memory : bool
        Whether the rows are in memory, so that what grows with their number
        may be kept beside them.
    like : array or None
        For arrays of another library, one of no rows: it tells library and
        device.
    names : tuple of str or None
        The names of the columns, if they have some.
    is_part : bool
        Whether these are some of the rows of a table: none at all is then no
        mistake.
    first_row : int
        The number of the first of them in the whole table, for messages.
    answers_to_host : bool
        Whether the rows come from the host, and what is said of each of them
        is to go back there.
    """

    n_features: int
    n_rows: int | None
    rereadable: bool
    read: Callable[[int], Iterator[tuple[Any, Any]]]
    take: Callable[[Any], tuple[Any, Any]] | None = None
    row_size: float | None = None
    in_memory: bool = False
    device_template: Any = None
    names: tuple[str, ...] | None = None
    is_part: bool = False
    first_row: int = 0
    answers_to_host: bool = False

    @property
    def is_distributed(self) -> bool:
        """Whether the rows are elsewhere, and work is better sent to them than they to the work."""
        return False

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return self.row_size is not None

    def lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
        """Return a function of each part of rows that are elsewhere, not yet computed, in one array."""
        raise NotImplementedError

    def total(self, job: Job) -> list[Any]:
        """Return what a job makes of the rows: things that add up, so that it can be done by parts."""
        found = job(self)
        if found is None:
            raise ValueError("X has no rows.")
        return found

    def head(self, job: Callable[[Rows], Any]) -> Any:
        """Return what a job makes of the first rows; it need not read the others."""
        return job(self)

    def changed(self, change: Change) -> Rows:
        """Return the rows with a change to each chunk, of the same shape.

        Parameters
        ----------
        change : callable
            Takes a chunk and its weights and returns the new ones.
        """

        def read(size: int) -> Iterator[tuple[Any, Any]]:
            return itertools.starmap(change, self.read(size))

        return Rows(
            self.n_features,
            self.n_rows,
            self.rereadable,
            read,
            row_size=self.row_size,
            device_template=self.device_template,
            is_part=self.is_part,
            answers_to_host=self.answers_to_host,
        )

    def systematic_sample(self, step: int) -> Rows:
        """Return one of each `step` rows, always the same, at places that are not regular."""
        if self.take is not None and self.n_rows is not None:
            small = self.n_rows // step * (self.row_size or self.n_features) <= KEPT_SAMPLE
            if self.in_memory or small:
                values, weights = self.take(sample_positions(0, self.n_rows, step, self.device_template))
                return from_arrays(values, weights, device_template=self.device_template)

        def read(size: int) -> Iterator[tuple[Any, Any]]:
            first = 0
            # Not too many at once: those that are left out take memory while they are read.
            for values, weights in self.read(size * min(step, MOST_AT_ONCE)):
                last = first + values.shape[0]
                positions = sample_positions(first, last, step, self.device_template)
                first = last
                if positions.shape[0]:
                    yield (
                        take_rows(values, positions),
                        None if weights is None else take_rows(weights, positions),
                    )

        return Rows(
            self.n_features,
            None if self.n_rows is None else sample_size(self.n_rows, step),
            self.rereadable,
            read,
            row_size=self.row_size,
            device_template=self.device_template,
            is_part=self.is_part,
        )

    def on_host(self) -> Rows:
        """Return the rows as arrays of NumPy, a chunk at a time."""
        if self.device_template is None:
            return self
        return replace(self.changed(_brought), take=self.take and self._taken_to_host, device_template=None)

    def _taken_to_host(self, positions: Any) -> tuple[Any, Any]:
        assert self.take is not None
        return _brought(*self.take(positions))

    def blocks(
        self, width: int | None = None, chunk_rows: int | None = None, *, checked: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Yield checked chunks and their weights, each to be used before the next is asked for.

        Chunks are float64, whatever is stored: NumPy arrays, CSR matrices if sparse, or arrays of another
        library, where they are.

        Parameters
        ----------
        width : int, optional
            Numbers of working memory a row; by default those of the row itself.
        chunk_rows : int, optional
            The rows of a chunk; by default as many as are good.
        checked : bool, default=False
            Whether the numbers have been checked to be finite before.
        """
        # Each chunk is written over the one before.
        scratch = Scratch()
        first, empty = self.first_row, True
        for values, raw_weights in self.read(chunk_rows or self.chunk_rows(width)):
            block = checked_block(values, self.n_features, first, scratch, finite=checked)
            weights = checked_weights(raw_weights, block, first)
            first += block.shape[0]
            if weights is not None and not bool(namespace(weights).all(weights > 0)):
                # Rows of weight zero are as if they were not there.
                block, weights = block[weights > 0], weights[weights > 0]
            if block.shape[0]:
                empty = False
                yield block, weights
        if empty and not self.is_part:
            raise ValueError(
                "X has no rows." if first == self.first_row else "The weights of the rows are all zero."
            )

    def chunk_rows(self, width: int | None = None, chunk_size: int = CHUNK_SIZE) -> int:
        """Return the number of rows of a chunk, for so many numbers of working memory a row."""
        if self.device_template is not None:
            free = free_memory(self.device_template)
            if free is not None:
                chunk_size = max(chunk_size, min(DEVICE_CHUNK_SIZE, free // (8 * DEVICE_PART)))
        own = self.n_features if self.row_size is None else max(1.0, self.row_size)
        return max(1, int(chunk_size // max(width or 1, own)))


Job = Callable[[Rows], list[Any] | None]
"""Takes rows and returns numbers and arrays that add up over parts of them; None of no rows."""

Change = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Divided:
    """The change that divides each column by its unit.

    Here, and not where it is used: it goes to workers, which are not to load all that goes with starts.
    """

    units: Array

    def __call__(self, values: Any, weights: Any) -> tuple[Any, Any]:
        """Return the chunk, changed, and its weights."""
        if sparse.issparse(values):
            return sparse.csr_matrix(values.multiply(1 / self.units)), weights
        if is_device_array(values):
            return values / to_device_of(self.units, values), weights
        return np.asarray(values, dtype=np.float64) / self.units, weights


def _brought(values: Any, weights: Any) -> tuple[Any, Any]:
    bring = to_numpy if is_device_array(values) else _as_is
    return bring(values), None if weights is None else to_numpy(weights)


def _as_is(values: Any) -> Any:
    return values


def from_arrays(
    values: Any,
    weights: Any,
    *,
    device_template: Any = None,
    names: tuple[str, ...] | None = None,
    is_part: bool = False,
    first_row: int = 0,
) -> Rows:
    """Return the rows of an array or a CSR matrix in memory, with weights or None, all of right shape."""
    n_rows, n_features = values.shape

    def read(size: int) -> Iterator[tuple[Any, Any]]:
        for start in range(0, n_rows, size):
            part = slice(start, min(start + size, n_rows))
            # With all its axes: the array API asks for that.
            yield (
                _csr_rows(values, part) if sparse.issparse(values) else values[part, :],
                None if weights is None else weights[part],
            )

    def take(positions: Any) -> tuple[Any, Any]:
        return take_rows(values, positions), None if weights is None else take_rows(weights, positions)

    row_size = 1 + 1.5 * values.nnz / max(n_rows, 1) if sparse.issparse(values) else None
    return Rows(
        n_features, n_rows, True, read, take, row_size, True, device_template, names, is_part, first_row
    )


def without_weightless(rows: Rows, weights: Any) -> Rows:
    """Return the rows that have weight: the others are as if they were not there.

    Parameters
    ----------
    rows : Rows
        With these weights.
    weights : array or None
        Checked.
    """
    if weights is None or bool(namespace(weights).all(weights > 0)):
        return rows
    kept = np.flatnonzero(to_numpy(weights) > 0)
    if not len(kept):
        raise ValueError("The weights of the rows are all zero.")

    def read(size: int) -> Iterator[tuple[Any, Any]]:
        for values, own in rows.read(size):
            chosen = np.flatnonzero(to_numpy(own) > 0)
            if len(chosen):
                yield take_rows(values, chosen), take_rows(own, chosen)

    def take(positions: Any) -> tuple[Any, Any]:
        assert rows.take is not None
        return rows.take(kept[to_numpy(positions) if is_device_array(positions) else positions])

    return replace(rows, n_rows=len(kept), read=read, take=rows.take and take)


def stacked(parts: list[Any]) -> Any:
    """Return chunks of rows in one piece: arrays, or CSR matrices."""
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def _csr_rows(matrix: Any, part: slice) -> Any:
    """Return rows of a CSR matrix that share its memory: SciPy would copy them."""
    starts = matrix.indptr[part.start : part.stop + 1]
    inside = slice(int(starts[0]), int(starts[-1]))
    shape = (part.stop - part.start, matrix.shape[1])
    return sparse.csr_matrix((matrix.data[inside], matrix.indices[inside], starts - starts[0]), shape=shape)


def take_rows(values: Any, positions: Any) -> Any:
    """Return some rows of an array: by their numbers, or a slice."""
    if isinstance(values, np.ndarray) or sparse.issparse(values):
        return values[positions]
    if isinstance(positions, slice):
        return values[positions, ...]
    return namespace(values).take(values, positions_to_device_of(positions, values), axis=0)


def sample_positions(start: int, stop: int, step: int, device_template: Any = None) -> Any:
    """Return the rows from `start` to `stop`, counted from there, of a sample of one of each `step` rows.

    The place among each `step` rows follows the golden ratio: spread evenly, and without a period. The
    numbers are an array like the one given, or one of NumPy.
    """
    xp = np if device_template is None else namespace(device_template)
    where = {} if device_template is None else {"device": device_template.device}
    group = xp.arange(start // step, -(-stop // step), dtype=xp.int64, **where)
    place = (((group * 2654435769) & 0xFFFFFFFF) * step) >> 32
    positions = group * step + place
    return positions[(positions >= start) & (positions < stop)] - start


def sample_size(n_rows: int, step: int) -> int:
    """Return how many rows a sample of one of each `step` has."""
    last = n_rows // step * step
    return n_rows // step + len(sample_positions(last, n_rows, step))


Statistic = Callable[[Any, Any], tuple[Any, ...]]
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
            # In the context of the caller: what it does about overflow holds for the threads too.
            waiting.append(pool.submit(contextvars.copy_context().run, function, values, weights))
            # A few ahead, so that nobody waits, and memory stays bounded.
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def fetch_rows(rows: Rows, positions: Array) -> tuple[Any, Array | None]:
    """Return some rows by their numbers, in ascending order, on the host, and their weights.

    As float64; sparse rows of many columns stay sparse.
    """
    if rows.take is not None:
        values, weights = rows.take(positions)
        return _kept(values), None if weights is None else np.asarray(to_numpy(weights), dtype=np.float64)
    parts: list[Any] = []
    part_weights: list[Array] = []
    first = 0
    for values, weights in rows.read(rows.chunk_rows()):
        inside = positions[(positions >= first) & (positions < first + values.shape[0])] - first
        parts.append(_kept(take_rows(values, inside)))
        if weights is not None:
            part_weights.append(np.asarray(to_numpy(take_rows(weights, inside)), dtype=np.float64))
        first += values.shape[0]
    return stacked(parts), np.concatenate(part_weights) if part_weights else None


def _kept(values: Any) -> Any:
    if sparse.issparse(values):
        values = values.astype(np.float64)
        return values if values.shape[1] > DENSE_COLUMNS else values.toarray()
    return np.asarray(to_numpy(values), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Sum:
    """The job that sums a statistic over chunks."""

    statistic: Statistic
    width: int | None = None
    checked: bool = False

    def __call__(self, rows: Rows) -> list[Any] | None:
        """Return the sums, on the host."""
        return added_up(self.statistic(*block) for block in rows.blocks(self.width, checked=self.checked))


def added_up(parts: Iterable[tuple[Any, ...]]) -> list[Any] | None:
    """Return sums of numbers and arrays, on the host; None of no parts."""
    sums: list[Any] | None = None
    for part in parts:
        sums = list(part) if sums is None else [old + new for old, new in zip(sums, part, strict=True)]
    return None if sums is None else [to_numpy(value) if is_device_array(value) else value for value in sums]


def summed(rows: Rows, statistic: Statistic, width: int | None = None, *, checked: bool = False) -> list[Any]:
    """Return a statistic of the rows, summed over chunks.

    Parameters
    ----------
    rows : Rows
    statistic : callable
    width : int, optional
        Numbers of working memory a row.
    checked : bool, default=False
        Whether the numbers have been checked to be finite before.

    Returns
    -------
    sums : list
    """
    return rows.total(Sum(statistic, width, checked))
