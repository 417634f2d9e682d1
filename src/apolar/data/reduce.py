"""Sums over rows: the statistic, the preparation of each chunk of rows, and the order of the additions."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from apolar._core.compiled import can_read, is_available
from apolar._core.namespaces import is_device_array, namespace, to_numpy
from apolar._core.threads import submit
from apolar.data.checks import checked_block, checked_weights
from apolar.data.scratch import thread_scratch

if TYPE_CHECKING:
    from apolar.data.rows import Rows


class Statistic(Protocol):
    """A statistic that is summed over rows: its value for many rows is the sum of its values for blocks.

    Several threads may call it at once, and it is pickled for other processes: so it has no state, and takes
    its working memory from `thread_scratch`.
    """

    @property
    def n_working(self) -> int:
        """The number of float64 values of working memory per row, besides the block."""

    def __call__(self, block: Any, weights: Any) -> tuple[Any, ...]:
        """Return the terms of a block and its weights or None: numbers, arrays, or other addable values."""


class BlockTransform(Protocol):
    """A function that makes a block from a chunk of rows as they are stored."""

    @property
    def chunk_rows(self) -> int:
        """The number of rows that a chunk should have."""

    def __call__(self, values: Any, weights: Any, first_row: int, /) -> tuple[Any, Any] | None:
        """Return the block and its weights; None if no row is left in it."""


Preparation = Callable[["Rows", Any], BlockTransform]
"""Takes rows and a statistic, and returns the transform that makes blocks for the statistic from chunks.

Of rows in several partitions, it is called once for each partition, where this is.
"""


@dataclass(frozen=True, eq=False)
class BlockFunction:
    """A function of a block and its weights, with the working memory that it takes per row."""

    function: Callable[[Any, Any], Any]
    n_working: int = 0

    def __call__(self, block: Any, weights: Any) -> Any:
        """Return the function of a block."""
        return self.function(block, weights)


@dataclass(frozen=True)
class Checked:
    """The preparation of blocks of checked values in double precision, without rows of weight zero.

    A block is an ndarray, a CSR matrix if the rows are sparse, or an array of another library, on its device.
    It may be in the working memory of the thread, which the next block of the thread overwrites.

    Attributes
    ----------
    is_finite : bool
        Whether the values have been checked to be finite before.
    chunk_size : int or None
        The number of values of a chunk; by default one that suits the statistic and the device of the rows.
    allows_missing : bool
        Whether values may be NaN, for missing ones.
    """

    is_finite: bool = False
    chunk_size: int | None = None
    allows_missing: bool = False

    def __call__(self, rows: Rows, statistic: Any) -> BlockTransform:
        """Return the transform of the chunks of these rows."""
        if self.chunk_size is not None:
            chunk_rows = max(1, self.chunk_size // rows.n_features)
        else:
            chunk_rows = rows.chunk_rows(statistic.n_working)
        return _CheckedBlocks(rows.n_features, chunk_rows, self.is_finite, self.allows_missing, rows.names)


CHECKED = Checked()


@dataclass(frozen=True)
class _CheckedBlocks:
    n_features: int
    chunk_rows: int
    is_finite: bool
    allows_missing: bool = False
    names: tuple[str, ...] | None = None

    def __call__(self, values: Any, weights: Any, first_row: int) -> tuple[Any, Any] | None:
        block = checked_block(
            *(values, self.n_features, first_row, thread_scratch()),
            finite=self.is_finite,
            allows_missing=self.allows_missing,
            names=self.names,
        )
        weights = checked_weights(weights, block, first_row)
        if weights is not None and not bool(namespace(weights).all(weights > 0)):
            block, weights = block[weights > 0], weights[weights > 0]
        return (block, weights) if block.shape[0] else None


@dataclass(frozen=True)
class AsStored:
    """The preparation that leaves chunks as they are stored, without any check."""

    def __call__(self, rows: Rows, statistic: Any) -> BlockTransform:
        """Return the transform of the chunks of these rows."""
        return _StoredBlocks(rows.chunk_rows(statistic.n_working))


@dataclass(frozen=True)
class _StoredBlocks:
    chunk_rows: int

    def __call__(self, values: Any, weights: Any, _: int) -> tuple[Any, Any] | None:
        return values, weights


@dataclass(frozen=True)
class Whole:
    """The preparation of one block of all rows as they are stored, for the compiled extension.

    Only the weights are checked: for rows of which `is_one_array` is true, and statistics that can tell from
    their sums whether all values are finite.
    """

    def __call__(self, rows: Rows, statistic: Any) -> BlockTransform:  # noqa: ARG002
        """Return the transform of all rows to one block."""
        return _WholeBlock(rows.n_rows or 1)


@dataclass(frozen=True)
class _WholeBlock:
    chunk_rows: int

    def __call__(self, values: Any, weights: Any, first_row: int) -> tuple[Any, Any] | None:
        return values, checked_weights(weights, values, first_row)


def is_one_array(rows: Rows) -> bool:
    """Return whether the compiled extension can read all rows as one array, as they are stored."""
    if not is_available() or not (rows.can_take and rows.in_memory and rows.n_rows):
        return False
    return can_read(rows.take(slice(0, 1))[0])


@dataclass(frozen=True, eq=False)
class RowCount:
    """The number of rows with weight, and their total weight."""

    n_working: int = 0

    def __call__(self, block: Any, weights: Any) -> tuple[Any, Any]:
        """Return the number of rows of a block with weight, and their total weight."""
        if weights is None:
            return block.shape[0], float(block.shape[0])
        host_weights = to_numpy(weights)
        return int(np.count_nonzero(host_weights > 0)), float(host_weights.sum(dtype=np.float64))


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
