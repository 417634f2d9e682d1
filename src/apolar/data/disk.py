"""Arrays that are mapped from a file: read without keeping it in memory."""

from __future__ import annotations

import itertools
import mmap
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from apolar._core.arrays import Array
from apolar.data.rows import Rows, from_arrays

# Stretches of so many bytes whose pages are given back again and again.
STRETCHES = 32
# Bytes that are read before their pages are given back to the system.
BEHIND = 2**24


def _around(bounds: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the least and the largest address of all."""
    lows, highs = zip(*bounds, strict=True) if bounds else ((0,), (0,))
    return min(lows), max(highs)


def memory_map(array: Array) -> np.memmap | None:
    """Return the memory map that an array is a view of, if it is one."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return base
        base = base.base
    return None


def from_memory_map(array: Array, mapping: np.memmap, weights: Any) -> Rows:
    """Return the rows of a mapped array. Pages that were read are given back, so that memory is bounded.

    The system may keep them, and reads them again from its own memory if there is room; but they are not
    ours. Nothing that grows with the number of rows is kept beside them.
    """
    rows = replace(from_arrays(array, weights), in_memory=False)
    mapped = getattr(mapping, "_mmap", None)
    # A private copy (mode "c") would lose what was written to it.
    if not isinstance(mapped, mmap.mmap) or mapping.mode == "c" or not hasattr(mapped, "madvise"):
        return rows
    start = np.frombuffer(mapped, dtype=np.uint8).ctypes.data

    def give_back(first: int, last: int) -> None:
        """Give back the pages between two addresses."""
        page = mmap.PAGESIZE
        low = -(-max(first - start, 0) // page) * page
        high = min(last - start, len(mapped)) // page * page
        if high > low:
            mapped.madvise(mmap.MADV_DONTNEED, low, high - low)

    def read(size: int) -> Iterator[tuple[Any, Any]]:
        # Threads may come to a block after it was given back, and bring it in again: so what lies some way
        # back is given back once more.
        stretches: deque[tuple[int, int]] = deque(maxlen=STRETCHES)
        blocks: list[tuple[int, int]] = []
        n_bytes = 0
        for block, block_weights in rows.read(size):
            yield block, block_weights
            blocks.append(byte_bounds(block))
            n_bytes += block.nbytes
            if n_bytes > BEHIND:
                stretches.append(_around(blocks))
                give_back(*_around(stretches))
                blocks, n_bytes = [], 0
        give_back(*_around([*stretches, *blocks]))

    def take(positions: Any) -> tuple[Any, Any]:
        assert rows.take is not None
        if isinstance(positions, slice):
            return rows.take(positions)
        values = np.empty((len(positions), array.shape[1]), dtype=array.dtype)
        # A stretch of the file at a time: rows all over it bring in many pages each.
        stretch = positions // max(1, BEHIND // max(1, array.shape[1] * array.itemsize))
        edges = [0, *(np.flatnonzero(np.diff(stretch)) + 1).tolist(), len(positions)]
        for start, stop in itertools.pairwise(edges):
            group = positions[start:stop]
            values[start:stop] = array[group]
            if len(group):
                give_back(*byte_bounds(array[int(group.min()) : int(group.max()) + 1]))
        return values, None if weights is None else weights[positions]

    return replace(rows, read=read, take=take)
