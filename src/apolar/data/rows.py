"""Rows of data, wherever they are stored: read in chunks, selected, transformed, sampled, and summed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import free_memory, to_numpy
from apolar.data.arrays import row_slice, sample_positions, stack_rows, take_both
from apolar.data.checks import renumbered
from apolar.data.reduce import (
    CHECKED,
    AsStored,
    BlockFunction,
    Checked,
    Preparation,
    RowCount,
    Statistic,
    add_up,
    map_in_threads,
)

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
    row_size : float or None
        For sparse rows, the memory of a row in units of a float64; None for dense rows.
    in_memory : bool
        Whether the rows are in memory, so that arrays of one entry per row may be stored as well.
    device_template : array or None
        For rows of another array library, an array of no rows that shows the library and the device.
    names : tuple of str or None
        The names of the columns, if they are all strings.
    is_part : bool
        Whether these are the rows of one partition: it may be empty, which is an error for a table.
    first_row : int
        The index of the first row in the table, for messages.
    returns_to_host : bool
        Whether the rows come from the host, so that results per row are returned there.
    is_distributed : bool
        Whether the rows are in the partitions of a Dask collection: statistics are computed there.
    """

    rereadable: bool = True
    can_take: bool = False
    row_size: float | None = None
    in_memory: bool = False
    device_template: Any = None
    names: tuple[str, ...] | None = None
    is_part: bool = False
    first_row: int = 0
    returns_to_host: bool = False
    is_distributed: bool = False

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

    # --- functions of blocks, and their sums --------------------------------------

    def reduce(self, statistic: Statistic, prepare: Preparation = CHECKED, n_threads: int = 1) -> list[Any]:
        """Return a statistic of the rows: the sum of its values for blocks of them, computed where they are.

        The terms are added in the order of the blocks: the result does not depend on the number of threads.

        Parameters
        ----------
        statistic : Statistic
        prepare : callable, default=CHECKED
            How blocks are made from chunks; by default, they are checked values in double precision.
        n_threads : int, default=1

        Returns
        -------
        sums : list
            The sums of the elements that the statistic returns, on the host.
        """
        sums = add_up(self.map_blocks(statistic, prepare, n_threads))
        if sums is None:
            raise ValueError("X has no rows.")
        return sums

    def map_blocks(self, function: Any, prepare: Preparation = CHECKED, n_threads: int = 1) -> Iterator[Any]:
        """Yield a function of each block of rows, in order.

        Parameters
        ----------
        function : Statistic or BlockFunction
            Takes a block and its weights. It must not return None, nor a view of the block, whose memory may
            be reused.
        prepare : callable, default=CHECKED
        n_threads : int, default=1
        """
        transform = prepare(self, function)
        size = transform.chunk_rows
        # A device runs in parallel by itself, and a single chunk needs no threads.
        if n_threads > 1 and (self.device_template is not None or 0 < (self.n_rows or 0) <= size):
            n_threads = 1
        n_read = 0

        def numbered_chunks() -> Iterator[tuple[Any, Any, int]]:
            nonlocal n_read
            for values, weights in self.read(size):
                first_row = self.first_row + n_read
                n_read += values.shape[0]
                yield values, weights, first_row

        def result_of_chunk(values: Any, weights: Any, first_row: int) -> Any:
            # The block is made by the thread, too: to convert and check a chunk takes time.
            try:
                prepared = transform(values, weights, first_row)
            except (TypeError, ValueError) as error:
                row = getattr(error, "row", None)
                if row is None or self.source_row(row) == row:
                    raise
                raise renumbered(error, self.source_row(row)) from error
            return None if prepared is None else function(*prepared)

        is_empty = True
        for result in map_in_threads(result_of_chunk, numbered_chunks(), n_threads):
            if result is not None:
                is_empty = False
                yield result
        if is_empty and not self.is_part:
            raise ValueError("The weights of the rows are all zero." if n_read else "X has no rows.")

    def first(self, function: Callable[[Any, Any], Any], prepare: Preparation | None = None) -> Any:
        """Return a function of the first block and its weights; it must not return None.

        Rows that can be read only once can still be read completely afterwards. By default, the block holds
        checked values, and is small on a device as well.
        """
        return next(self.map_blocks(BlockFunction(function), prepare or Checked(chunk_size=CHUNK_SIZE)), None)

    def count(self) -> tuple[int, float]:
        """Return the number of rows with weight, and their total weight."""
        if not self.is_distributed and self.n_rows is not None:
            # Either all chunks have weights or none has: without weights, one row is enough to know.
            first_chunk = next(self.read(1), None)
            if first_chunk is not None and first_chunk[1] is None:
                return self.n_rows, float(self.n_rows)
        n_rows, weight = self.reduce(RowCount(), AsStored())
        return int(n_rows), float(weight)

    # --- derived rows --------------------------------------------------------------

    def map(self, transform: RowTransform) -> Rows:
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
        from apolar.data.derived import SampledRows

        return SampledRows(self, step)

    def on_host(self) -> Rows:
        """Return the rows such that their chunks are NumPy arrays or CSR matrices on the host."""
        from apolar.data.derived import HostRows

        return self if self.device_template is None else HostRows(self)

    def map_lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
        """Return a function of each partition of distributed rows as one Dask array, not computed yet."""
        raise NotImplementedError(f"{type(self).__name__} is not distributed.")


class ArrayRows(Rows):
    """The rows of an array of any library, or of a CSR matrix, in memory.

    Parameters
    ----------
    values : ndarray, CSR matrix or array of another library, shape (n_rows, n_features)
    weights : array, shape (n_rows,), or None
    device_template : array, optional
    is_part : bool, default=False
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
        is_part: bool = False,
        first_row: int = 0,
    ) -> None:
        self.values, self.weights, self.device_template = values, weights, device_template
        self.is_part, self.first_row = is_part, first_row
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
        values, weights = rows.take(positions)
        return _host_values(values), _host_weights(weights)
    blocks: list[Any] = []
    block_weights: list[Any] = []
    start = 0
    for values, weights in rows.read(rows.chunk_rows()):
        stop = start + values.shape[0]
        block, weights = take_both(
            values, weights, positions[(positions >= start) & (positions < stop)] - start
        )
        start = stop
        blocks.append(_host_values(block))
        block_weights.append(_host_weights(weights))
    return stack_rows(blocks), None if block_weights[0] is None else np.concatenate(block_weights)


def _host_weights(weights: Any) -> Array | None:
    return None if weights is None else np.asarray(to_numpy(weights), dtype=np.float64)


def _host_values(values: Any) -> Any:
    if sparse.issparse(values):
        values = values.astype(np.float64)
        return values if values.shape[1] > DENSE_COLUMNS else values.toarray()
    return np.asarray(to_numpy(values), dtype=np.float64)
