"""Which block of EM a chunk of rows becomes: for a kernel, as it is stored, or with its row statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core import gpu
from apolar._core.arrays import Array
from apolar._core.namespaces import is_device_array, thread_scratch
from apolar.data import CHUNK_SIZE, Chunk, Rows
from apolar.data.chunks import check_weights
from apolar.data.rows import DENSE_COLUMNS
from apolar.em import kernel_block
from apolar.em.blocks import (
    Block,
    RawBlock,
    StatsBlock,
    as_float64_rows,
    dense_block,
    weights_to_device_of,
    write_row_stats,
)
from apolar.em.missing import incomplete_block
from apolar.em.whitening import Whitening
from apolar.mixture.families import Family

__all__ = ["RowBlocks", "is_compiled"]

# Numbers per chunk of row statistics: 8 MB per thread. Larger than for other sums, as EM makes a dozen calls
# per chunk, and threads wait for each other between calls.
STATS_CHUNK_SIZE = 2**20
# The fewest rows per chunk.
MIN_CHUNK_ROWS = 64


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """The function of a chunk of rows that returns its block, called where the rows are.

    Attributes
    ----------
    family : Family
    whitening : Whitening
    measurement : float or ndarray, shape (n_features,)
        The variance of the measurement error of each row, which counts where values are missing.
    is_incomplete : bool
        Whether values of the rows may be missing.
    has_noise : bool
        Whether there is a noise component: no value may be missing.
    n_threads : int, default=1
        For a block of all rows, which the extension reads.
    squares : ndarray or None
        The squared length of each row in whitened coordinates, if they are stored.
    is_checked : bool
        Whether the rows have been checked already; if not, each chunk is checked, and values may be missing.
    is_written : bool
        Whether blocks must hold the statistics of each row: they are then of type `StatsBlock`.
    n_working : int
        The numbers of working memory per row, besides the row statistics.
    n_fused : int
        The number of components of the one mixture that a kernel of a GPU computes with; zero for other
        purposes.
    """

    family: Family
    whitening: Whitening
    measurement: float | Array = 0.0
    is_incomplete: bool = False
    has_noise: bool = False
    n_threads: int = 1
    squares: Array | None = None
    is_checked: bool = True
    is_written: bool = False
    n_working: int = 0
    n_fused: int = 0

    def reduce(self, rows: Rows, function: Callable[[Block], Any], n_threads: int) -> list[Any]:
        """Return the sums of a function of the blocks of rows, computed where they are."""
        return rows.reduce(self._then(function, rows), n_threads, self.chunk_rows)

    def map(self, rows: Rows, function: Callable[[Block], Any], n_threads: int) -> Iterator[Any]:
        """Yield a function of each block of rows, in order."""
        # Answers for the host are on the device first, which takes memory: in chunks of the usual size.
        others = replace(self, n_fused=0) if rows.returns_to_host else self
        return rows.map(self._then(function, rows), n_threads, others.chunk_rows)

    def _then(self, function: Callable[[Block], Any], rows: Rows) -> Callable[[Chunk], Any]:
        # Either chunks are read by several threads, or the only one is.
        is_whole = rows.is_distributed or rows.is_one_array
        blocks = self if is_whole else replace(self, n_threads=1)

        def call(chunk: Chunk) -> Any:
            block = blocks(chunk)
            return None if block is None else function(block)

        return call

    def chunk_rows(self, rows: Rows) -> int:
        """Return the number of rows of a chunk."""
        template = rows.device_template
        if (
            template is not None
            and self._is_fused(template, rows.n_features)
            and gpu.reads_dtype_of(template)
        ):
            return gpu.MAX_LAUNCH_ROWS
        if not (self.is_written or self.is_incomplete) and is_compiled(rows, self.family):
            if self.is_checked and rows.is_one_array:
                return rows.n_rows or 1
            return max(MIN_CHUNK_ROWS, CHUNK_SIZE // rows.n_features)
        has_stats = self.is_written or not (self.family.is_spherical and rows.is_wide)
        n_stats = self.family.row_family.n_stats(rows.n_features) if has_stats else 0
        n_working = (1 + (self.family.n_factors or 0)) * self.n_working
        return max(MIN_CHUNK_ROWS, rows.chunk_rows(n_stats + n_working, STATS_CHUNK_SIZE))

    def __call__(self, chunk: Chunk) -> Block | None:
        """Return the block of a chunk, which holds its weights; None if no row counts."""
        if is_device_array(chunk.values) and self._is_fused(chunk.values[:0, ...], chunk.n_features):
            is_readable = chunk.values.shape[1] == chunk.n_features and gpu.reads_dtype_of(chunk.values)
            if self.is_checked or is_readable:
                return self._kernel_block(chunk)
        if not self.is_checked:
            checked = chunk.check(allows_missing=True)
            if checked is None:
                return None
            chunk = checked
        values, whitening = chunk.values, self.whitening
        is_incomplete = self.is_incomplete or chunk.has_missing
        if is_incomplete:
            values = as_float64_rows(values)
        weights = weights_to_device_of(chunk.weights, values)
        if isinstance(values, np.ndarray) and not self.is_checked:
            values = whitening.within_reach(values)
        if is_incomplete:
            known = self.family, whitening, self.measurement
            return incomplete_block(values, weights, *known, has_noise=self.has_noise)
        if self.is_written:
            row_stats = write_row_stats(values, self.family, whitening, thread_scratch())
            return StatsBlock(row_stats, weights)
        if self.family.is_spherical and sparse.issparse(values) and values.shape[1] > DENSE_COLUMNS:
            stored = self.squares
            squares = None if stored is None else stored[chunk.first_row :][: values.shape[0]]
            return RawBlock(values, weights, whitening, squares)
        return dense_block(values, weights, self.family, whitening, self.n_threads)

    def _is_fused(self, template: Any, n_features: int) -> bool:
        """Return whether a kernel of the GPU of an array has been asked for, and there is one."""
        if not self.n_fused or self.is_written or self.family.has_factors:
            return False
        return kernel_block.is_fused(template, n_features, self.n_fused, not self.family.is_axis_aligned)

    def _kernel_block(self, chunk: Chunk) -> Block:
        """Return the block of rows on a GPU for its kernel, which sees whether all is finite."""
        weights = chunk.weights
        if not self.is_checked:
            weights = check_weights(weights, chunk.values, chunk.first_row)
        weights = weights_to_device_of(weights, chunk.values)
        return kernel_block.KernelBlock(replace(chunk, weights=weights), replace(self, n_fused=0))


def is_compiled(rows: Rows, family: Family) -> bool:
    """Return whether the extension sums these rows: dense ones of the host, for a family that it knows."""
    is_dense = rows.device_template is None and not rows.is_sparse
    return is_dense and family.has_compiled_sums
