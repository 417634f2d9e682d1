"""Rows of data, wherever they are stored: read in chunks, mapped, summed, selected and sampled."""

from __future__ import annotations

import contextvars
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core import compiled
from apolar._core.arrays import Array
from apolar._core.namespaces import free_memory, is_device_array, namespace, to_numpy
from apolar._core.threads import submit
from apolar.data.arrays import row_slice, sample_positions, stack_chunks, take_both, thread_scratch
from apolar.data.checks import check_values, check_weights, renumber_error

# The number of values in a chunk: small enough for the cache, large enough for BLAS.
CHUNK_SIZE = 2**18
# On a device with its own memory, a chunk takes one of this many parts of the free memory, but has no more
# values than the maximum.
DEVICE_MEMORY_PARTS = 16
MAX_DEVICE_CHUNK_SIZE = 2**28
# Sparse rows of more columns than this are never stored as dense arrays.
DENSE_COLUMNS = 256
# A systematic sample of rows that are not in memory is stored if it has at most this many values.
MAX_SAMPLE_VALUES = 2**25

RowTransform = Callable[[Any, Any], tuple[Any, Any]]
"""Takes a chunk of rows and its weights or None, and returns a chunk of the same shape and its weights."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows, as they are stored or checked.

    Attributes
    ----------
    values : ndarray, CSR matrix or array of another library, shape (n, n_features)
    weights : array, shape (n,), or None
    first_row : int
        The index of the first row, for messages.
    n_features : int
        The number of columns that is expected.
    names : tuple of str or None
        The names of the columns.
    has_missing : bool
        Whether values are missing; known only after `check`.
    """

    values: Any
    weights: Any
    first_row: int
    n_features: int
    names: tuple[str, ...] | None = None
    has_missing: bool = False

    def check(self, *, allows_missing: bool = False, is_finite: bool = False) -> Chunk | None:
        """Return the rows in double precision after checking them, without rows of weight zero.

        The values may be in the working memory of the thread, which its next chunk overwrites.

        Parameters
        ----------
        allows_missing : bool, default=False
            Whether values of dense rows may be NaN, for missing ones.
        is_finite : bool, default=False
            Whether the values have been checked before.

        Returns
        -------
        chunk : Chunk or None
            None if no row is left.
        """
        values, has_missing = check_values(
            *(self.values, self.n_features, self.first_row, thread_scratch()),
            is_finite=is_finite,
            allows_missing=allows_missing,
            names=self.names,
        )
        weights = check_weights(self.weights, values, self.first_row)
        if weights is not None and not bool(namespace(weights).all(weights > 0)):
            values, weights = values[weights > 0], weights[weights > 0]
        if not values.shape[0]:
            return None
        return replace(self, values=values, weights=weights, has_missing=has_missing)

    def parts(self, size: int) -> Iterator[Chunk]:
        """Yield chunks of at most `size` of these rows."""
        for start in range(0, self.values.shape[0], size):
            part = slice(start, min(start + size, self.values.shape[0]))
            weights = None if self.weights is None else self.weights[part]
            values = row_slice(self.values, part)
            yield replace(self, values=values, weights=weights, first_row=self.first_row + start)


RowFunction = Callable[[Chunk], Any]
"""A function of a chunk of rows, called by several threads and sent to other processes: it has no state.

It returns None if no row counts, and never a view of the chunk, whose memory may be reused.
"""


def on_checked(
    function: Callable[[Any, Any], Any], *, allows_missing: bool = False, is_finite: bool = False
) -> RowFunction:
    """Return the function of chunks that checks them, and calls a function of their values and weights."""

    def call(chunk: Chunk) -> Any:
        checked = chunk.check(allows_missing=allows_missing, is_finite=is_finite)
        return None if checked is None else function(checked.values, checked.weights)

    return call


class Rows(ABC):
    """The rows of a table, which are read in chunks.

    Attributes
    ----------
    n_features : int
    n_rows : int or None
        None if the number is known only after reading all rows.
    rereadable : bool
        Whether the rows can be read more than once.
    can_take : bool
        Whether rows can be selected by position; if not, they can only be read in order.
    in_memory : bool
        Whether the rows are in memory, so that arrays of one entry per row may be stored as well.
    row_size : float or None
        For sparse rows, the memory of a row in units of a float64; None for dense rows.
    device_template : array or None
        For rows of another array library, an array of no rows that shows the library and the device.
    returns_to_host : bool
        Whether the rows come from the host, so that results per row are returned there.
    is_distributed : bool
        Whether the rows are in the partitions of a Dask collection: functions are called there.
    names : tuple of str or None
        The names of the columns, if they are all strings.
    first_row : int
        The index of the first row in the table, for messages.
    """

    rereadable: bool = True
    can_take: bool = False
    in_memory: bool = False
    row_size: float | None = None
    device_template: Any = None
    returns_to_host: bool = False
    is_distributed: bool = False
    names: tuple[str, ...] | None = None
    first_row: int = 0

    @property
    @abstractmethod
    def n_features(self) -> int:
        """The number of columns."""

    @property
    @abstractmethod
    def n_rows(self) -> int | None:
        """The number of rows; None if it is known only after reading them."""

    @abstractmethod
    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks of at most `size` rows, and their weights or None, unchecked."""

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions (indices or a slice), and their weights or None, unchecked."""
        raise NotImplementedError(f"{type(self).__name__} can only be read in order.")

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return self.row_size is not None

    @property
    def is_one_array(self) -> bool:
        """Whether the compiled extension can read all rows as one array, as they are stored."""
        if compiled.kernels is None or not (self.can_take and self.in_memory and self.n_rows):
            return False
        return compiled.can_read(self.take(slice(0, 1))[0])

    def source_row(self, row: int) -> int:
        """Return the index that a row has for the user, who counts skipped rows as well."""
        return row

    def chunk_rows(self, n_working: int = 0, chunk_size: int | None = None) -> int:
        """Return the number of rows of a chunk of `chunk_size` values.

        Parameters
        ----------
        n_working : int, default=0
            The number of values of working memory per row.
        chunk_size : int, optional
            By default CHUNK_SIZE. On a device with its own memory, a chunk may be larger.
        """
        chunk_size = CHUNK_SIZE if chunk_size is None else chunk_size
        if self.device_template is not None:
            free = free_memory(self.device_template)
            if free is not None:
                chunk_size = max(chunk_size, min(MAX_DEVICE_CHUNK_SIZE, free // (8 * DEVICE_MEMORY_PARTS)))
        row_size = self.n_features if self.row_size is None else max(1.0, self.row_size)
        return max(1, int(chunk_size // max(n_working, row_size)))

    # --- functions of chunks, and their sums ---------------------------------------

    def reduce(
        self, function: RowFunction, n_threads: int = 1, chunk_rows: int | Callable[[Rows], int] | None = None
    ) -> list[Any]:
        """Return the sums over the rows of what a function returns for chunks of them, where they are.

        The terms are added in the order of the chunks: the result does not depend on the number of threads.

        Parameters
        ----------
        function : callable
            Takes a `Chunk`, and returns a tuple of numbers, arrays, or other addable values, or None.
        n_threads : int, default=1
        chunk_rows : int or callable, optional
            The number of rows of a chunk, or a function of these rows, or of those of a partition, that
            returns it; by default `Rows.chunk_rows`.

        Returns
        -------
        sums : list
            On the host.
        """
        sums = add_up(self.map(function, n_threads, chunk_rows))
        assert sums is not None
        return sums

    def map(
        self, function: RowFunction, n_threads: int = 1, chunk_rows: int | Callable[[Rows], int] | None = None
    ) -> Iterator[Any]:
        """Yield what a function returns for each chunk, in order; parameters are those of `reduce`."""
        is_empty, n_read = True, 0
        for n_rows, result in self.results(function, n_threads, chunk_rows):
            n_read += n_rows
            if result is not None:
                is_empty = False
                yield result
        if is_empty:
            raise ValueError("The weights of the rows are all zero." if n_read else "X has no rows.")

    def results(
        self, function: RowFunction, n_threads: int = 1, chunk_rows: int | Callable[[Rows], int] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of rows of each chunk, and what a function returns for it, which may be None."""
        given = Rows.chunk_rows if chunk_rows is None else chunk_rows
        size = given(self) if callable(given) else given
        # A device runs in parallel by itself, and a single chunk needs no threads.
        if n_threads > 1 and (self.device_template is not None or 0 < (self.n_rows or 0) <= size):
            n_threads = 1

        def chunks() -> Iterator[tuple[Chunk]]:
            first_row = self.first_row
            for values, weights in self.read(size):
                yield (Chunk(values, weights, first_row, self.n_features, self.names),)
                first_row += values.shape[0]

        def result_of(chunk: Chunk) -> tuple[int, Any]:
            # The chunk is checked by the thread, too: to convert and check it takes time.
            try:
                return chunk.values.shape[0], function(chunk)
            except (TypeError, ValueError) as error:
                row = getattr(error, "row", None)
                if row is None or self.source_row(row) == row:
                    raise
                raise renumber_error(error, self.source_row(row)) from error

        return map_in_threads(result_of, chunks(), n_threads)

    def first(self, function: RowFunction) -> Any:
        """Return a function of the first chunk that has one, which is small on a device as well.

        Rows that can be read only once can still be read completely afterwards.
        """
        return next(self.map(function, chunk_rows=max(1, CHUNK_SIZE // self.n_features)))

    def count(self) -> tuple[int, float]:
        """Return the number of rows with weight, and their total weight."""
        if not self.is_distributed and self.n_rows is not None:
            # Either all chunks have weights or none has: without weights, one row is enough to know.
            first_chunk = next(self.read(1), None)
            if first_chunk is not None and first_chunk[1] is None:
                return self.n_rows, float(self.n_rows)
        n_rows, weight = self.reduce(_count)
        return int(n_rows), float(weight)

    # --- derived rows --------------------------------------------------------------

    def transform(self, transform: RowTransform) -> Rows:
        """Return the rows with a transform applied to each chunk when it is read, where it is stored."""
        from apolar.data.derived import TransformedRows

        return TransformedRows(self, transform)

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows: always the same ones, without a regular spacing."""
        if self.can_take and self.n_rows is not None:
            is_small = self.n_rows // step * (self.row_size or self.n_features) <= MAX_SAMPLE_VALUES
            if self.in_memory or is_small:
                positions = sample_positions(0, self.n_rows, step, self.device_template)
                return ArrayRows(*self.take(positions), device_template=self.device_template)
        from apolar.data.derived import SelectedRows

        return SelectedRows(self, step=step)

    def on_host(self) -> Rows:
        """Return the rows such that their chunks are NumPy arrays or CSR matrices on the host."""
        from apolar.data.derived import HostRows

        return self if self.device_template is None else HostRows(self)

    def map_lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
        """Return a function of each partition of distributed rows as one Dask array, not computed yet."""
        raise NotImplementedError(f"{type(self).__name__} is not distributed.")


class ArrayRows(Rows):
    """The rows of an array of any library, of a CSR matrix, or of a dataframe, in memory.

    Parameters
    ----------
    values : ndarray, CSR matrix, array of another library, or FrameValues, shape (n_rows, n_features)
    weights : array, shape (n_rows,), or None
    device_template : array, optional
    names : tuple of str, optional
    first_row : int, default=0
    """

    can_take = True
    in_memory = True

    def __init__(
        self,
        values: Any,
        weights: Any = None,
        *,
        device_template: Any = None,
        names: tuple[str, ...] | None = None,
        first_row: int = 0,
    ) -> None:
        self.values, self.weights, self.device_template = values, weights, device_template
        self.names, self.first_row = names, first_row
        if sparse.issparse(values):
            # The end of the row, and for each stored value an index of half its size.
            self.row_size = 1 + 1.5 * values.nnz / max(values.shape[0], 1)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self.values.shape[1])

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks that share the memory of the array, and their weights or None."""
        for start in range(0, self.n_rows, size):
            part = slice(start, min(start + size, self.n_rows))
            yield row_slice(self.values, part), None if self.weights is None else self.weights[part]

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None."""
        return take_both(self.values, self.weights, positions)


def _count(chunk: Chunk) -> tuple[int, float]:
    if chunk.weights is None:
        return chunk.values.shape[0], float(chunk.values.shape[0])
    weights = to_numpy(chunk.weights)
    return int(np.count_nonzero(weights > 0)), float(weights.sum(dtype=np.float64))


def fetch_rows(rows: Rows, positions: Array) -> tuple[Any, Array | None]:
    """Return the rows at some positions, and their weights or None, on the host as float64.

    Parameters
    ----------
    rows : Rows
    positions : ndarray of int, shape (n,)
        In ascending order.

    Returns
    -------
    values : ndarray or CSR matrix, shape (n, n_features)
        Sparse if the rows are, and have many columns.
    weights : ndarray, shape (n,), or None
    """
    if rows.can_take:
        return _on_host(*rows.take(positions))
    parts = []
    start = 0
    for values, weights in rows.read(rows.chunk_rows()):
        stop = start + values.shape[0]
        local = positions[(positions >= start) & (positions < stop)] - start
        parts.append(_on_host(*take_both(values, weights, local)))
        start = stop
    return stack_chunks(parts)


def _on_host(values: Any, weights: Any) -> tuple[Any, Array | None]:
    if sparse.issparse(values):
        values = values.astype(np.float64)
        values = values if values.shape[1] > DENSE_COLUMNS else values.toarray()
    else:
        values = np.asarray(to_numpy(values), dtype=np.float64)
    return values, None if weights is None else np.asarray(to_numpy(weights), dtype=np.float64)


def map_in_threads(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], n_threads: int
) -> Iterator[Any]:
    """Yield a function of each tuple of arguments, in their order, computed by `n_threads` threads."""
    if n_threads == 1:
        for call_arguments in arguments:
            yield function(*call_arguments)
        return
    pending: deque[Future[Any]] = deque()
    try:
        for call_arguments in arguments:
            # NumPy keeps np.errstate in the context: without the context of the caller, threads would warn.
            pending.append(submit(contextvars.copy_context().run, function, *call_arguments))
            # Never more calls than threads at a time.
            if len(pending) >= n_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for call in pending:
            call.cancel()
        wait(pending)


def add_up(terms: Iterable[Iterable[Any] | None]) -> list[Any] | None:
    """Return the sums of tuples, element by element, in order and on the host.

    None stands for the terms of no rows: it adds nothing, and is the sum of no tuples.
    """
    sums: list[Any] | None = None
    for term in terms:
        if term is not None:
            sums = list(term) if sums is None else [old + new for old, new in zip(sums, term, strict=True)]
    return None if sums is None else [to_numpy(value) if is_device_array(value) else value for value in sums]
