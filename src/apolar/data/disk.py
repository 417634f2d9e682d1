"""Arrays that are mapped from a file: read without keeping the file in memory."""

from __future__ import annotations

import itertools
import mmap
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from apolar._core.arrays import Array
from apolar.data.rows import ArrayRows

# After this many bytes have been read, their pages are released.
RELEASED_BYTES = 2**24
# The pages of this many such ranges, the last ones, are released again each time.
N_RECENT_RANGES = 32


def _enclosing_range(ranges: Collection[tuple[int, int]]) -> tuple[int, int]:
    """Return the smallest range of addresses that contains all ranges."""
    lows, highs = zip(*ranges, strict=True) if ranges else ((0,), (0,))
    return min(lows), max(highs)


def memory_map(array: Array) -> np.memmap | None:
    """Return the memory map that an array is, or is a view of; None if there is none."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return base
        base = base.base
    return None


class MappedFileRows(ArrayRows):
    """The rows of an array that is mapped from a file; pages that have been read are released.

    The operating system may keep them in its page cache, but they do not count as memory of this process.
    `in_memory` is False, so that nothing that grows with the number of rows is stored beside them.

    Parameters
    ----------
    array : ndarray
    mapping : numpy.memmap
        The memory map that the array is a view of.
    weights : array, shape (n_rows,), or None
    """

    in_memory = False

    def __init__(self, array: Array, mapping: np.memmap, weights: Any = None) -> None:
        super().__init__(array, weights)
        file = getattr(mapping, "_mmap", None)
        # Pages of a private map (mode "c") are not released: what was written to them would be lost.
        can_release = isinstance(file, mmap.mmap) and mapping.mode != "c" and hasattr(file, "madvise")
        self._file: mmap.mmap | None = file if can_release else None
        self._address = 0 if self._file is None else np.frombuffer(self._file, dtype=np.uint8).ctypes.data

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights or None, and release the pages of earlier chunks."""
        # Threads may use a chunk after its pages were released, which loads them again: so the pages of
        # recent ranges are released more than once.
        recent_ranges: deque[tuple[int, int]] = deque(maxlen=N_RECENT_RANGES)
        block_ranges: list[tuple[int, int]] = []
        n_bytes = 0
        for block, weights in super().read(size):
            yield block, weights
            block_ranges.append(byte_bounds(block))
            n_bytes += block.nbytes
            if n_bytes > RELEASED_BYTES:
                recent_ranges.append(_enclosing_range(block_ranges))
                self._release_pages(*_enclosing_range(recent_ranges))
                block_ranges, n_bytes = [], 0
        self._release_pages(*_enclosing_range([*recent_ranges, *block_ranges]))

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None."""
        if isinstance(positions, slice) or self._file is None:
            return super().take(positions)
        values = np.empty((len(positions), self.n_features), dtype=self.values.dtype)
        # One section of the file at a time: rows that are spread over it load many more pages than they fill.
        section = positions // max(1, RELEASED_BYTES // max(1, self.n_features * self.values.itemsize))
        edges = [0, *(np.flatnonzero(np.diff(section)) + 1).tolist(), len(positions)]
        for start, stop in itertools.pairwise(edges):
            section_positions = positions[start:stop]
            values[start:stop] = self.values[section_positions]
            if len(section_positions):
                first, last = int(section_positions.min()), int(section_positions.max())
                self._release_pages(*byte_bounds(self.values[first : last + 1]))
        return values, None if self.weights is None else self.weights[positions]

    def _release_pages(self, low: int, high: int) -> None:
        """Release the pages that lie completely between two addresses."""
        if self._file is None:
            return
        page = mmap.PAGESIZE
        start = -(-max(low - self._address, 0) // page) * page
        stop = min(high - self._address, len(self._file)) // page * page
        if stop > start:
            self._file.madvise(mmap.MADV_DONTNEED, start, stop - start)
