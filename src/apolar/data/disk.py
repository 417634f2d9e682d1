"""Arrays that are mapped from a file: read without keeping it in memory."""

from __future__ import annotations

import itertools
import mmap
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from apolar._core.arrays import Array
from apolar.data.rows import ArrayRows

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


class MappedFileRows(ArrayRows):
    """The rows of an array that is mapped from a file: pages that were read are given back.

    The system may keep them, and reads them again from its own memory if there is room; but they are not
    ours. Nothing that grows with the number of rows is kept beside them.

    Parameters
    ----------
    array : ndarray
    mapping : numpy.memmap
        What it is a view of.
    weights : array or None
    """

    in_memory = False

    def __init__(self, array: Array, mapping: np.memmap, weights: Any = None) -> None:
        super().__init__(array, weights)
        file = getattr(mapping, "_mmap", None)
        # A private copy (mode "c") would lose what was written to it.
        is_shared = isinstance(file, mmap.mmap) and mapping.mode != "c" and hasattr(file, "madvise")
        self._file: mmap.mmap | None = file if is_shared else None
        self._start = 0 if self._file is None else np.frombuffer(self._file, dtype=np.uint8).ctypes.data

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks; what lies behind is given back."""
        # Threads may come to a block after it was given back, and bring it in again: so what lies some way
        # back is given back once more.
        stretches: deque[tuple[int, int]] = deque(maxlen=STRETCHES)
        blocks: list[tuple[int, int]] = []
        n_bytes = 0
        for block, weights in super().read(size):
            yield block, weights
            blocks.append(byte_bounds(block))
            n_bytes += block.nbytes
            if n_bytes > BEHIND:
                stretches.append(_around(blocks))
                self._give_back(*_around(stretches))
                blocks, n_bytes = [], 0
        self._give_back(*_around([*stretches, *blocks]))

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return some rows and their weights."""
        if isinstance(positions, slice) or self._file is None:
            return super().take(positions)
        values = np.empty((len(positions), self.n_features), dtype=self.values.dtype)
        # A stretch of the file at a time: rows all over it bring in many pages each.
        stretch = positions // max(1, BEHIND // max(1, self.n_features * self.values.itemsize))
        edges = [0, *(np.flatnonzero(np.diff(stretch)) + 1).tolist(), len(positions)]
        for start, stop in itertools.pairwise(edges):
            group = positions[start:stop]
            values[start:stop] = self.values[group]
            if len(group):
                self._give_back(*byte_bounds(self.values[int(group.min()) : int(group.max()) + 1]))
        return values, None if self.weights is None else self.weights[positions]

    def _give_back(self, first: int, last: int) -> None:
        """Give the pages between two addresses back to the system."""
        if self._file is None:
            return
        page = mmap.PAGESIZE
        low = -(-max(first - self._start, 0) // page) * page
        high = min(last - self._start, len(self._file)) // page * page
        if high > low:
            self._file.madvise(mmap.MADV_DONTNEED, low, high - low)
