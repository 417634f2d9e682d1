"""Rows of data, wherever they are stored: read in chunks, mapped, summed, selected and sampled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.compiled import can_read
from apolar._core.namespaces import (
    as_float64,
    free_memory,
    is_device_array,
    namespace,
    to_device_of,
    to_host,
    to_numpy,
)
from apolar._core.threads import map_in_threads
from apolar.data.chunks import (
    Chunk,
    RowFunction,
    check_weights,
    sample_positions,
    stack_chunks,
    take_both,
    take_rows,
)
from apolar.exceptions import RowError

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
NO_ROWS = "X has no rows, or the weights of the rows are all zero."

RowsPerChunk = int | Callable[["Rows"], int] | None
"""The number of rows of a chunk, or a function of rows that returns it; by default `Rows.chunk_rows`."""

RowTransform = Callable[[Any, Any], tuple[Any, Any]]
"""Takes a chunk of rows and its weights or None, and returns a chunk of the same shape and its weights."""


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
    is_one_array : bool
        Whether the compiled extension can read all rows as one array, as they are stored.
    is_distributed : bool
        Whether the rows are in the partitions of a Dask collection: functions are called there.
    names : tuple of str or None
        The names of the columns, if they are all strings.
    weights : array, shape (n_rows,), or None
        None also for rows that are read with their weights.
    first_row : int
        The index of the first row in the table, for messages.
    """

    n_features: int
    rereadable: bool = True
    can_take: bool = False
    in_memory: bool = False
    row_size: float | None = None
    device_template: Any = None
    returns_to_host: bool = False
    is_one_array: bool = False
    is_distributed: bool = False
    names: tuple[str, ...] | None = None
    weights: Any = None
    first_row: int = 0

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None if it is known only after reading them."""
        return None

    @abstractmethod
    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks of at most `size` rows, and their weights or None, unchecked."""

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at positions, ascending or a slice, and their weights or None, unchecked."""
        raise NotImplementedError(f"{type(self).__name__} can only be read in order.")

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return self.row_size is not None

    @property
    def is_wide(self) -> bool:
        """Whether the rows are sparse, with too many columns to make them dense."""
        return self.is_sparse and self.n_features > DENSE_COLUMNS

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
        free = None if self.device_template is None else free_memory(self.device_template)
        if free is not None:
            chunk_size = max(chunk_size, min(MAX_DEVICE_CHUNK_SIZE, free // (8 * DEVICE_MEMORY_PARTS)))
        row_size = self.n_features if self.row_size is None else max(1.0, self.row_size)
        return max(1, int(chunk_size // max(n_working, row_size)))

    # --- functions of chunks, and their sums ---------------------------------------

    def reduce(self, function: RowFunction, n_threads: int = 1, chunk_rows: RowsPerChunk = None) -> list[Any]:
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
        sums = add_up(self.results(function, n_threads, self.size_of_chunks(chunk_rows), adds=True))
        if sums is None:
            raise ValueError(NO_ROWS)
        return sums

    def first(self, function: RowFunction) -> Any:
        """Return a function of the first chunk that has one, which is small on a device as well.

        Rows that can be read only once can still be read completely afterwards.
        """
        return next(self.map(function, chunk_rows=max(1, CHUNK_SIZE // self.n_features)))

    def map(
        self, function: RowFunction, n_threads: int = 1, chunk_rows: RowsPerChunk = None
    ) -> Iterator[Any]:
        """Yield what a function returns for each chunk that it has something of, in order.

        Parameters are those of `reduce`. A ValueError is raised if there is nothing.
        """
        results = self.results(function, n_threads, self.size_of_chunks(chunk_rows), adds=False)
        known = (result for result in results if result is not None)
        first = next(known, None)
        if first is None:
            raise ValueError(NO_ROWS)
        yield first
        yield from known

    def size_of_chunks(self, chunk_rows: RowsPerChunk) -> Any:
        """Return the number of rows of a chunk; for distributed rows, the function that says it."""
        if self.is_distributed or isinstance(chunk_rows, int):
            return chunk_rows
        return self.chunk_rows() if chunk_rows is None else chunk_rows(self)

    def results(self, function: RowFunction, n_threads: int, size: int, *, adds: bool) -> Iterator[Any]:
        """Yield what a function returns for each chunk of at most `size` rows.

        Rows in other places than here may yield sums of several chunks, if the caller `adds` what it gets.
        """
        del adds
        # A single chunk needs no threads, and a device runs in parallel by itself.
        is_alone = self.device_template is not None or 0 < (self.n_rows or 0) <= size
        n_threads = 1 if is_alone else n_threads

        def chunks() -> Iterator[tuple[Chunk]]:
            first_row = self.first_row
            for values, weights in self.read(size):
                yield (Chunk(values, weights, first_row, self.n_features, self.names),)
                first_row += values.shape[0]

        def result_of(chunk: Chunk) -> Any:
            # The chunk is checked by the thread, too: to convert and check it takes time.
            try:
                return function(chunk)
            except RowError as error:
                error.row = self.source_row(error.row)
                raise

        return map_in_threads(result_of, chunks(), n_threads)

    def count(self) -> tuple[int, float]:
        """Return the number of rows with weight, and their total weight."""
        known = None if self.is_distributed or self.weights is not None else self.n_rows
        n_rows, weight = self.reduce(_count) if known is None else (known, known)
        return int(n_rows), float(weight)

    # --- derived rows --------------------------------------------------------------

    def with_weights(self, sample_weight: Any) -> Rows:
        """Return rows that have no weights with some, which are checked; rows of weight zero are left out."""
        weights = check_weights(sample_weight, np.empty((self.n_rows or 0, 0)), self.first_row)
        return WeightedRows(self, weights)

    def transform(self, transform: RowTransform) -> Rows:
        """Return the rows with a transform applied to each chunk when it is read, where it is stored."""
        return TransformedRows(self, transform)

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows: always the same ones, without a regular spacing."""
        if self.can_take and self.n_rows is not None:
            is_small = self.n_rows // step * (self.row_size or self.n_features) <= MAX_SAMPLE_VALUES
            if self.in_memory or is_small:
                positions = sample_positions(0, self.n_rows, step, self.device_template)
                return ArrayRows(*self.take(positions))
        return SampledRows(self, step)

    def on_host(self) -> Rows:
        """Return the rows such that their chunks are NumPy arrays or CSR matrices on the host."""
        if self.device_template is None:
            return self
        rows = TransformedRows(self, lambda values, weights: (to_host(values), to_host(weights)))
        rows.device_template, rows.returns_to_host = None, False
        return rows

    def send_back(self, answers: Any) -> Any:
        """Return answers for rows as an array of the library of the rows, where these came from."""
        if self.device_template is None or self.returns_to_host:
            return to_host(answers)
        return to_device_of(answers, self.device_template)

    def map_lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
        """Return a function of the chunk of each partition of distributed rows as one lazy Dask array."""
        raise NotImplementedError(f"{type(self).__name__} is not distributed.")


class ArrayRows(Rows):
    """The rows of an array of any library, or of a CSR matrix, in memory.

    Parameters
    ----------
    values : ndarray, CSR matrix, or array of another library, shape (n_rows, n_features)
    weights : array, shape (n_rows,), or None
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
        names: tuple[str, ...] | None = None,
        first_row: int = 0,
    ) -> None:
        self.values, self.weights, self.names, self.first_row = values, weights, names, first_row
        self.n_features = int(values.shape[1])
        if sparse.issparse(values):
            # The end of the row, and for each stored value an index of half its size.
            self.row_size = 1 + 1.5 * values.nnz / max(values.shape[0], 1)
        elif not isinstance(values, np.ndarray) and is_device_array(values):
            self.device_template = values[:0, ...]
        self.is_one_array = self.in_memory and self.n_rows > 0 and can_read(values)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks that share the memory of the array, and their weights or None."""
        for start in range(0, self.n_rows, size):
            yield take_both(self.values, self.weights, slice(start, start + size))

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None."""
        return take_both(self.values, self.weights, positions)

    def with_weights(self, sample_weight: Any) -> Rows:
        """Return the rows with weights, which are checked; rows of weight zero are left out."""
        weights = check_weights(sample_weight, self.values, self.first_row)
        if not bool(namespace(weights).all(weights > 0)):
            return WeightedRows(self, weights)
        self.weights = weights
        return self


# What derived rows have in common with those that they are computed from.
_SHARED = ("n_features", "names", "weights", "first_row", "row_size", "rereadable", "can_take",
           "device_template", "returns_to_host")  # fmt: skip


class DerivedRows(Rows):
    """Rows that are computed from other rows as these are read.

    Parameters
    ----------
    source : Rows
    """

    def __init__(self, source: Rows) -> None:
        self.source = source
        for name in _SHARED:
            setattr(self, name, getattr(source, name))

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None if it is known only after reading them."""
        return self.source.n_rows

    @abstractmethod
    def _derive(self, start: int, values: Any, weights: Any) -> tuple[Any, Any]:
        """Return what becomes of a chunk, and of its weights; `start` is the position of its first row."""

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield what becomes of each chunk that has some rows left, and their weights or None."""
        start = 0
        for values, weights in self.source.read(size):
            derived = self._derive(start, values, weights)
            start += values.shape[0]
            if derived[0].shape[0]:
                yield derived


class TransformedRows(DerivedRows):
    """Rows with a function applied to each chunk, where this is, by the thread that works on it.

    Parameters
    ----------
    source : Rows
    apply : callable
        Takes a chunk and its weights, and returns a chunk of the same shape and its weights.
    """

    def __init__(self, source: Rows, apply: RowTransform) -> None:
        super().__init__(source)
        self.apply, self.is_distributed = apply, source.is_distributed

    def _derive(self, start: int, values: Any, weights: Any) -> tuple[Any, Any]:  # noqa: ARG002 (alike anywhere)
        return self.apply(values, weights)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the transformed rows at some positions, and their weights or None."""
        return self.apply(*self.source.take(positions))

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows, transformed."""
        sample = self.source.systematic_sample(step).transform(self.apply)
        sample.device_template, sample.returns_to_host = self.device_template, self.returns_to_host
        return sample

    def results(self, function: RowFunction, n_threads: int, size: int, *, adds: bool) -> Iterator[Any]:
        """Yield what a function returns for each transformed chunk."""
        apply = self.apply

        def call(chunk: Chunk) -> Any:
            values, weights = apply(chunk.values, chunk.weights)
            return function(replace(chunk, values=values, weights=weights))

        return self.source.results(call, n_threads, size, adds=adds)


@dataclass(frozen=True, eq=False)
class Divided:
    """The transform that divides each column by its unit.

    Attributes
    ----------
    units : ndarray, shape (n_features,)
    """

    units: Array

    def __call__(self, values: Any, weights: Any) -> tuple[Any, Any]:
        """Return the divided chunk, and its weights."""
        if sparse.issparse(values):
            return sparse.csr_matrix(values.multiply(1 / self.units)), weights
        return as_float64(values) / to_device_of(self.units, values), weights


class WeightedRows(DerivedRows):
    """The rows with weight, selected while all rows are read in order.

    Parameters
    ----------
    source : Rows
        In memory, or in files, as their number has to be known.
    weights : array, shape (n_rows,)
        Checked ones, that replace those of the rows; rows of weight zero are left out.
    """

    def __init__(self, source: Rows, weights: Any) -> None:
        super().__init__(source)
        self.weights, self.in_memory = weights, source.in_memory
        self._positions = np.flatnonzero(to_numpy(weights) > 0)

    @property
    def n_rows(self) -> int:
        """The number of rows with weight."""
        return len(self._positions)

    def source_row(self, row: int) -> int:
        """Return the index of a row among all rows, those of weight zero included."""
        return self.source.source_row(self.first_row + int(self._positions[row - self.first_row]))

    def _derive(self, start: int, values: Any, weights: Any) -> tuple[Any, Any]:  # noqa: ARG002 (replaced)
        own = self.weights[start : start + values.shape[0]]
        return take_both(values, own, np.flatnonzero(to_numpy(own) > 0))

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions among those with weight, and their weights."""
        source_positions = self._positions[to_host(positions)]
        return self.source.take(source_positions)[0], take_rows(self.weights, source_positions)


class SampledRows(DerivedRows):
    """One of every `step` rows, selected while all rows are read in order.

    Parameters
    ----------
    source : Rows
    step : int
    """

    def __init__(self, source: Rows, step: int) -> None:
        super().__init__(source)
        self.step, self.can_take = step, False

    @property
    def n_rows(self) -> int | None:
        """The number of rows of the sample; None if it is known only after reading all."""
        n_rows = self.source.n_rows
        if n_rows is None:
            return None
        last_group = n_rows // self.step
        return last_group + len(sample_positions(last_group * self.step, n_rows, self.step))

    def _derive(self, start: int, values: Any, weights: Any) -> tuple[Any, Any]:
        places = start, start + values.shape[0], self.step
        return take_both(values, weights, sample_positions(*places, self.device_template))


# --- functions of chunks -----------------------------------------------------------


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
        return _small_on_host(*rows.take(positions))

    def select(chunk: Chunk) -> tuple[Any, Array | None]:
        first, last = np.searchsorted(positions, chunk.first_row + np.array([0, chunk.values.shape[0]]))
        local = positions[first:last] - chunk.first_row
        return _small_on_host(*take_both(chunk.values, chunk.weights, local))

    return stack_chunks(rows.map(select))


def _small_on_host(values: Any, weights: Any) -> tuple[Any, Array | None]:
    """Return rows on the host as float64, dense unless they have many columns, and their weights."""
    if sparse.issparse(values) and values.shape[1] <= DENSE_COLUMNS:
        values = values.toarray()
    return as_float64(to_host(values)), check_weights(to_host(weights), values)


def _count(chunk: Chunk) -> tuple[int, float]:
    if chunk.weights is None:
        return chunk.values.shape[0], float(chunk.values.shape[0])
    weights = to_numpy(chunk.weights)
    return int(np.count_nonzero(weights > 0)), float(weights.sum(dtype=np.float64))


def add_up(terms: Iterable[Iterable[Any] | None]) -> list[Any] | None:
    """Return the sums of tuples, element by element, in order and on the host.

    None stands for the terms of no rows: it adds nothing, and is the sum of no tuples.
    """
    sums: list[Any] | None = None
    for term in terms:
        if term is not None:
            sums = list(term) if sums is None else [old + new for old, new in zip(sums, term, strict=True)]
    return None if sums is None else list(map(to_host, sums))
