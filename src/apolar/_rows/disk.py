"""Arrays that are mapped from a file: read without keeping it in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from apolar._arrays import Array
from apolar._rows.rows import Rows, from_arrays

# Bytes that are read before their pages are given back to the system.
BEHIND = 2**26


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
        behind: list[tuple[int, int]] = []
        n_bytes = 0
        for block, block_weights in rows.read(size):
            yield block, block_weights
            behind.append(byte_bounds(block))
            n_bytes += block.nbytes
            if n_bytes > BEHIND:
                give_back(min(low for low, _ in behind), max(high for _, high in behind))
                behind, n_bytes = [], 0
        if behind:
            give_back(min(low for low, _ in behind), max(high for _, high in behind))

    def take(positions: Any) -> tuple[Any, Any]:
        assert rows.take is not None
        if isinstance(positions, slice):
            return rows.take(positions)
        parts, part_weights = [], []
        # A part at a time: rows all over the file bring in a page each.
        for group in np.array_split(positions, max(1, len(positions) * mmap.PAGESIZE // BEHIND)):
            values, group_weights = rows.take(group)
            parts.append(values)
            if group_weights is not None:
                part_weights.append(group_weights)
            if len(group):
                give_back(*byte_bounds(array[int(group[0]) : int(group[-1]) + 1]))
        return np.concatenate(parts), np.concatenate(part_weights) if part_weights else None

    return replace(rows, read=read, take=take)
