"""Rows of data, wherever they are: read in chunks, taken by their numbers, changed, sampled, and summed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import free_memory, to_numpy
from apolar.data.arrays import row_slice, sample_positions, stacked, take_both
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

# Numbers in a chunk: small enough for the cache, large enough for BLAS.
CHUNK_SIZE = 2**18
# On a device with memory of its own a chunk is as large as this part of what is free allows, for numbers of
# eight bytes, but no larger than that many numbers.
DEVICE_PART = 16
DEVICE_CHUNK_SIZE = 2**28
# Sparse rows of more columns than this are never made dense to be kept.
DENSE_COLUMNS = 256
# A systematic sample of rows that are not in memory is kept if it is no more numbers than this.
KEPT_SAMPLE = 2**25

RowTransform = Callable[[Any, Any], tuple[Any, Any]]
"""Takes a chunk of rows and its weights, and returns as many rows of as many columns, and their weights."""


class Rows(ABC):
    """A table whose rows are read a chunk at a time.

    Attributes
    ----------
    n_features : int
    n_rows : int or None
        None if only reading to the end tells.
    rereadable : bool
        Whether the rows can be read more than once.
    can_take : bool
        Whether rows can be taken by their numbers; if not, they can only be read in order.
    row_size : float or None
        Numbers that a row takes in memory, where that is not the number of features: sparse rows hold fewer.
    in_memory : bool
        Whether the rows are in memory, so that what grows with their number may be kept beside them.
    device_template : array or None
        For arrays of another library, one of no rows: it tells library and device.
    names : tuple of str or None
        The names of the columns, if they have some.
    is_part : bool
        Whether these are some of the rows of a table: none at all is then no mistake.
    first_row : int
        The number of the first of them in the whole table, for messages.
    returns_to_host : bool
        Whether the rows come from the host, and results for each of them are to go back there.
    is_distributed : bool
        Whether the rows are elsewhere, and work is better sent to them than they to the work.
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
        """The number of rows; None if only reading to the end tells."""

    @abstractmethod
    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks of at most `size` rows, and their weights or None, unchecked."""

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return some rows, by their numbers or a slice, and their weights or None, unchecked."""
        raise NotImplementedError(f"{type(self).__name__} can only be read in order.")

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return self.row_size is not None

    def chunk_rows(self, n_working: int = 0, chunk_size: int | None = None) -> int:
        """Return the number of rows of a chunk, for so many numbers of working memory per row."""
        chunk_size = CHUNK_SIZE if chunk_size is None else chunk_size
        if self.device_template is not None:
            free = free_memory(self.device_template)
            if free is not None:
                chunk_size = max(chunk_size, min(DEVICE_CHUNK_SIZE, free // (8 * DEVICE_PART)))
        row_size = self.n_features if self.row_size is None else max(1.0, self.row_size)
        return max(1, int(chunk_size // max(n_working, row_size)))

    # --- sums ---------------------------------------------------------------------

    def reduce(self, statistic: Statistic, prepare: Preparation = CHECKED, n_threads: int = 1) -> list[Any]:
        """Return a statistic of the rows, summed over blocks of them, where the rows are.

        Blocks are added in their order: the result does not depend on the number of threads.

        Parameters
        ----------
        statistic : Statistic
        prepare : callable, default=CHECKED
            How blocks are made of chunks: by default of checked numbers in double precision.
        n_threads : int, default=1

        Returns
        -------
        sums : list of numbers and arrays
            On the host.
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
            Takes a block and its weights. What it returns is not None, and no part of the block.
        prepare : callable, default=CHECKED
        n_threads : int, default=1
        """
        transform = prepare(self, function)
        size = transform.chunk_rows
        # A device has threads of its own.
        if n_threads > 1 and (self.device_template is not None or 0 < (self.n_rows or 0) <= size):
            n_threads = 1
        n_read = 0

        def numbered_chunks() -> Iterator[tuple[Any, Any, int]]:
            nonlocal n_read
            for values, weights in self.read(size):
                first_row = self.first_row + n_read
                n_read += values.shape[0]
                yield values, weights, first_row

        def of_chunk(values: Any, weights: Any, first_row: int) -> Any:
            # Both in the thread: making the block is work as well.
            prepared = transform(values, weights, first_row)
            return None if prepared is None else function(*prepared)

        is_empty = True
        for result in map_in_threads(of_chunk, numbered_chunks(), n_threads):
            if result is not None:
                is_empty = False
                yield result
        if is_empty and not self.is_part:
            raise ValueError("The weights of the rows are all zero." if n_read else "X has no rows.")

    def first(self, function: Callable[[Any, Any], Any], prepare: Preparation | None = None) -> Any:
        """Return a function, never None, of the first block and its weights; other rows are not read.

        Rows that can be read only once can still be read from the first on. By default the block is of
        checked numbers, and small wherever the rows are.
        """
        return next(self.map_blocks(BlockFunction(function), prepare or Checked(chunk_size=CHUNK_SIZE)), None)

    def count(self) -> tuple[int, float]:
        """Return the number of rows that have weight, and their weight."""
        if not self.is_distributed and self.n_rows is not None:
            # All rows have weights, or none: without them nothing is to be read.
            first = next(self.read(1), None)
            if first is not None and first[1] is None:
                return self.n_rows, float(self.n_rows)
        n_rows, weight = self.reduce(RowCount(), AsStored())
        return int(n_rows), float(weight)

    # --- other rows of these -------------------------------------------------------

    def map(self, transform: RowTransform) -> Rows:
        """Return the rows with each chunk changed, as it is read, where it is; its shape stays as it is."""
        from apolar.data.derived import TransformedRows

        return TransformedRows(self, transform)

    def systematic_sample(self, step: int) -> Rows:
        """Return one of each `step` rows, always the same, at places that are not regular."""
        if self.can_take and self.n_rows is not None:
            is_small = self.n_rows // step * (self.row_size or self.n_features) <= KEPT_SAMPLE
            if self.in_memory or is_small:
                positions = sample_positions(0, self.n_rows, step, self.device_template)
                return ArrayRows(*self.take(positions), device_template=self.device_template)
        from apolar.data.derived import SampledRows

        return SampledRows(self, step)

    def on_host(self) -> Rows:
        """Return the rows as arrays of NumPy, a chunk at a time."""
        from apolar.data.derived import HostRows

        return self if self.device_template is None else HostRows(self)

    def map_lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
        """Return a function of each part of rows that are elsewhere, not yet computed, in one array."""
        raise NotImplementedError(f"{type(self).__name__} is not distributed.")


class ArrayRows(Rows):
    """The rows of an array of any library, or of a CSR matrix, in memory.

    Parameters
    ----------
    values : ndarray, CSR matrix or array of another library, shape (n_rows, n_features)
    weights : array or None, shape (n_rows,)
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
        """Yield chunks that share the memory of the array."""
        for start in range(0, self.n_rows, size):
            part = slice(start, min(start + size, self.n_rows))
            yield row_slice(self.values, part), None if self.weights is None else self.weights[part]

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return some rows and their weights."""
        return take_both(self.values, self.weights, positions)


def fetch_rows(rows: Rows, positions: Array) -> tuple[Any, Array | None]:
    """Return some rows by their numbers, in ascending order, on the host, and their weights.

    As float64; sparse rows of many columns stay sparse.
    """
    if rows.can_take:
        values, weights = rows.take(positions)
        return _on_host(values), None if weights is None else np.asarray(to_numpy(weights), dtype=np.float64)
    parts: list[Any] = []
    part_weights: list[Array] = []
    first = 0
    for values, weights in rows.read(rows.chunk_rows()):
        inside = positions[(positions >= first) & (positions < first + values.shape[0])] - first
        first += values.shape[0]
        chosen, chosen_weights = take_both(values, weights, inside)
        parts.append(_on_host(chosen))
        if chosen_weights is not None:
            part_weights.append(np.asarray(to_numpy(chosen_weights), dtype=np.float64))
    return stacked(parts), np.concatenate(part_weights) if part_weights else None


def _on_host(values: Any) -> Any:
    if sparse.issparse(values):
        values = values.astype(np.float64)
        return values if values.shape[1] > DENSE_COLUMNS else values.toarray()
    return np.asarray(to_numpy(values), dtype=np.float64)
