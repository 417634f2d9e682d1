"""Sums over rows: what is summed, what is made of each chunk of rows first, and how the parts are added."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from apolar._core.namespaces import is_device_array, namespace, to_numpy
from apolar.data.checks import checked_block, checked_weights
from apolar.data.scratch import thread_scratch

if TYPE_CHECKING:
    from apolar.data.rows import Rows


class Statistic(Protocol):
    """What is summed over rows: of a block of them these numbers and arrays, together their sums.

    It may be called by several threads at once, and goes to other processes: what it needs to work with comes
    from `thread_scratch`.
    """

    @property
    def n_working(self) -> int:
        """How many numbers of working memory it takes per row, besides the block."""

    def __call__(self, block: Any, weights: Any) -> tuple[Any, ...]:
        """Return numbers, arrays or others that add up, of a block and the weights of its rows or None."""


class BlockTransform(Protocol):
    """What a block is made by, of a chunk of rows as they are stored.

    Attributes
    ----------
    chunk_rows : int
        How many rows a chunk is to have.
    """

    @property
    def chunk_rows(self) -> int:
        """How many rows a chunk is to have."""

    def __call__(self, values: Any, weights: Any, first_row: int, /) -> tuple[Any, Any] | None:
        """Return the block and its weights; None if there is nothing in it to be summed."""


Preparation = Callable[["Rows", Any], BlockTransform]
"""Takes the rows, wherever a part of them is, and the statistic, and returns how its blocks are made."""


@dataclass(frozen=True, eq=False)
class BlockFunction:
    """Any function of a block and its weights, with the working memory that it takes per row."""

    function: Callable[[Any, Any], Any]
    n_working: int = 0

    def __call__(self, block: Any, weights: Any) -> Any:
        """Return the function of a block."""
        return self.function(block, weights)


@dataclass(frozen=True)
class Checked:
    """The preparation of blocks of numbers in double precision, checked, without rows of weight zero.

    A block is an ndarray, a CSR matrix if the rows are sparse, or an array of another library, where it is.
    It may be in the working memory of the thread: the next block is written over it.

    Attributes
    ----------
    is_finite : bool
        Whether the numbers have been checked to be finite before.
    chunk_size : int or None
        The numbers of a chunk; by default as many as are good where the rows are.
    """

    is_finite: bool = False
    chunk_size: int | None = None

    def __call__(self, rows: Rows, statistic: Any) -> BlockTransform:
        """Return how blocks are made of these rows."""
        if self.chunk_size is not None:
            chunk_rows = max(1, self.chunk_size // rows.n_features)
        else:
            chunk_rows = rows.chunk_rows(statistic.n_working)
        return _CheckedBlocks(rows.n_features, chunk_rows, self.is_finite)


CHECKED = Checked()


@dataclass(frozen=True)
class _CheckedBlocks:
    n_features: int
    chunk_rows: int
    is_finite: bool

    def __call__(self, values: Any, weights: Any, first_row: int) -> tuple[Any, Any] | None:
        block = checked_block(values, self.n_features, first_row, thread_scratch(), finite=self.is_finite)
        weights = checked_weights(weights, block, first_row)
        if weights is not None and not bool(namespace(weights).all(weights > 0)):
            # Rows of weight zero are as if they were not there.
            block, weights = block[weights > 0], weights[weights > 0]
        return (block, weights) if block.shape[0] else None


@dataclass(frozen=True)
class AsStored:
    """The preparation that leaves chunks as they are stored, unchecked."""

    def __call__(self, rows: Rows, statistic: Any) -> BlockTransform:
        """Return how blocks are made of these rows."""
        return _StoredBlocks(rows.chunk_rows(statistic.n_working))


@dataclass(frozen=True)
class _StoredBlocks:
    chunk_rows: int

    def __call__(self, values: Any, weights: Any, _: int) -> tuple[Any, Any] | None:
        return values, weights


@dataclass(frozen=True, eq=False)
class RowCount:
    """The statistic of the number of rows that have weight, and their weight."""

    n_working: int = 0

    def __call__(self, block: Any, weights: Any) -> tuple[Any, Any]:
        """Return the number of rows of a block that have weight, and their weight."""
        if weights is None:
            return block.shape[0], float(block.shape[0])
        numbers = to_numpy(weights)
        return int(np.count_nonzero(numbers > 0)), float(numbers.sum(dtype=np.float64))


def map_in_threads(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], n_threads: int
) -> Iterator[Any]:
    """Yield a function of each tuple of arguments, in their order, computed by several threads."""
    if n_threads == 1:
        for some in arguments:
            yield function(*some)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: deque[Future[Any]] = deque()
        for some in arguments:
            # In the context of the caller: what it does about overflow holds for the threads too.
            waiting.append(pool.submit(contextvars.copy_context().run, function, *some))
            # A few ahead, so that no thread waits, and memory stays bounded.
            if len(waiting) > 2 * n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def add_up(parts: Iterable[Iterable[Any] | None]) -> list[Any] | None:
    """Return tuples of numbers and arrays added up, member by member, in order and on the host.

    None stands for no rows: it adds nothing, and is what no parts add up to.
    """
    sums: list[Any] | None = None
    for part in parts:
        if part is not None:
            sums = list(part) if sums is None else [old + new for old, new in zip(sums, part, strict=True)]
    return None if sums is None else [to_numpy(value) if is_device_array(value) else value for value in sums]
