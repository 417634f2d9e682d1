"""The preparation of blocks for EM: row statistics as arrays, rows as they are stored, or a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core import gpu
from apolar._core.arrays import Array
from apolar._core.compiled import RowMap
from apolar._core.namespaces import as_float64, is_device_array
from apolar.data import BlockTransform, Rows, Scratch, thread_scratch
from apolar.data.checks import MissingValueError, checked_block, checked_weights
from apolar.data.reduce import is_one_array
from apolar.data.rows import DENSE_COLUMNS
from apolar.em.blocks import RawBlock, StatsBlock, squares_about, weights_to_device_of
from apolar.em.e_step import EStep, LogDensity, RowAnswers
from apolar.em.kernels import compiled, triton
from apolar.em.missing import IncompleteBlocks
from apolar.em.whitening import Whitening
from apolar.mixture.families import Family

# Numbers per chunk: 8 MB per thread. Larger than for other sums, as EM makes a dozen calls per chunk, and
# threads wait for each other between calls.
CHUNK_SIZE = 2**20
# Numbers per chunk of rows that the extension reads but that are not all in memory, or not checked yet.
COMPILED_CHUNK_SIZE = 2**18
# The fewest rows per chunk.
MIN_ROWS = 64
# Rows are read as they are stored if their centre is at most this many deviations from zero.
NEAR = 30.0

NOISE_AND_MISSING = (
    "A noise component needs complete rows, and values are missing (NaN). Fit without noise, leave those "
    "rows out, or fill them in first (MixtureImputer)."
)


@dataclass(frozen=True, eq=False)
class RowStats:
    """The preparation of blocks for EM. It is sent to where the rows are, such as the workers of a cluster.

    Attributes
    ----------
    family : Family
    whitening : Whitening
    squares : ndarray or None
        The squared length of each row in whitened coordinates, if they are stored.
    is_checked : bool
        Whether the rows have been checked already; if not, each chunk is checked.
    is_written : bool
        Whether blocks must hold the statistics of each row: they are then of type `StatsBlock`.
    n_threads : int
        For a block of all rows, which the extension makes.
    """

    family: Family
    whitening: Whitening
    squares: Array | None = None
    is_checked: bool = True
    is_written: bool = False
    n_threads: int = 1

    def __call__(self, rows: Rows, statistic: Any) -> BlockTransform:
        """Return the transform of chunks of these rows to blocks, for a statistic."""
        incomplete = IncompleteBlocks(
            self.family, self.whitening, _chunk_rows(rows, statistic.n_working), self.is_checked
        )
        if self.whitening.is_incomplete:
            return incomplete
        complete = self._complete_blocks(rows, statistic)
        return complete if self.is_checked or rows.is_sparse else _OrIncomplete(complete, incomplete)

    def _complete_blocks(self, rows: Rows, statistic: Any) -> BlockTransform:
        """Return the transform of chunks without missing values."""
        n_stats = self.family.n_stats(rows.n_features)
        if not self.is_written and self._has_kernel(rows, statistic):
            # Rows of other dtypes are converted, and answers for the host are on the device first, which
            # takes memory: in chunks of the usual size.
            takes_memory = not gpu.reads_dtype_of(rows.device_template) or (
                isinstance(statistic, RowAnswers) and statistic.to_host
            )

            def others() -> _Blocks:
                chunk_rows = _chunk_rows(rows, n_stats + statistic.n_working)
                return _Blocks(self, rows.n_features, chunk_rows, is_raw=False)

            return triton.KernelBlocks(self, others().chunk_rows if takes_memory else gpu.MAX_ROWS, others)
        if not self.is_written and is_compiled(rows, self.family):
            row_map = compiled.whitening_map(self.whitening)
            if self.is_checked and is_one_array(rows):
                return compiled.CompiledBlocks(self.family, row_map, rows.n_rows or 1, self.n_threads)
            chunk_rows = max(MIN_ROWS, COMPILED_CHUNK_SIZE // rows.n_features)
            if self.is_checked:
                return compiled.CompiledBlocks(self.family, row_map, chunk_rows)
            return _CheckedCompiledBlocks(self, row_map, chunk_rows)
        if not self.is_written and reads_as_stored(rows, self.family, self.whitening):
            return _Blocks(self, rows.n_features, _chunk_rows(rows, statistic.n_working), is_raw=True)
        chunk_rows = _chunk_rows(rows, n_stats + statistic.n_working)
        return _Blocks(self, rows.n_features, chunk_rows, is_raw=False)

    def _has_kernel(self, rows: Rows, statistic: Any) -> bool:
        """Return whether there is a kernel for a statistic of these rows."""
        if isinstance(statistic, EStep):
            n_mixtures, n_components, _ = statistic.natural.shape
            if n_mixtures != 1 or not self.is_checked:
                return False
        elif isinstance(statistic, LogDensity | RowAnswers):
            n_components = len(statistic.natural)
        else:
            return False
        is_full = not self.family.is_axis_aligned
        return triton.is_fused(rows.device_template, rows.n_features, n_components, is_full)

    def written(self, values: Any, scratch: Scratch) -> Any:
        """Return the statistics of rows, shape (n_stats, n_rows), in working memory."""
        if is_device_array(values):
            # Arrays of NumPy are converted as the whitening writes them.
            values = as_float64(values)
        n_features = values.shape[1]
        row_stats = scratch.empty_like("row stats", values, self.family.n_stats(n_features), values.shape[0])
        row_stats[0, ...] = 1.0
        whitened = row_stats[1 : 1 + n_features, ...]
        self.whitening.write(values, whitened)
        self.family.write_quadratics(whitened, row_stats[1 + n_features :, ...])
        return row_stats


def _chunk_rows(rows: Rows, n_working: int) -> int:
    return max(MIN_ROWS, rows.chunk_rows(n_working, CHUNK_SIZE))


@dataclass(frozen=True, eq=False)
class _OrIncomplete:
    """The transform of chunks that are checked, of which some may have missing values."""

    complete: BlockTransform
    incomplete: IncompleteBlocks

    @property
    def chunk_rows(self) -> int:
        return self.complete.chunk_rows

    def __call__(self, values: Any, weights: Any, first_row: int) -> tuple[Any, Any] | None:
        try:
            return self.complete(values, weights, first_row)
        except MissingValueError:
            if is_device_array(values):
                raise
            if self.incomplete.whitening.has_noise_component:
                raise ValueError(NOISE_AND_MISSING) from None
            return self.incomplete(values, weights, first_row)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The transform of chunks of rows to blocks."""

    preparation: RowStats
    n_features: int
    chunk_rows: int
    is_raw: bool

    def __call__(self, values: Any, weights: Any, first_row: int) -> tuple[Any, Any]:
        whitening, scratch = self.preparation.whitening, thread_scratch()
        if not self.preparation.is_checked:
            values = checked_block(values, self.n_features, first_row)
            weights = checked_weights(weights, values, first_row)
            if isinstance(values, np.ndarray):
                values = whitening.within_reach(values)
        if not self.is_raw:
            row_stats = self.preparation.written(values, scratch)
            return StatsBlock(row_stats, scratch), weights_to_device_of(weights, row_stats)
        # Sparse rows may be of small integers, whose squares would overflow.
        values = values.astype(np.float64, copy=False)
        stored = self.preparation.squares
        squares = (
            squares_about(values, whitening) if stored is None else stored[first_row:][: values.shape[0]]
        )
        return RawBlock(values, squares, whitening, scratch), weights_to_device_of(weights, squares)


@dataclass(frozen=True, eq=False)
class _CheckedCompiledBlocks:
    """The transform of chunks of rows to blocks for the extension, after checks of the rows."""

    preparation: RowStats
    row_map: RowMap
    chunk_rows: int

    def __call__(self, values: Any, weights: Any, first_row: int) -> tuple[Any, Any]:
        checked = checked_block(values, len(self.row_map.centre), first_row, thread_scratch())
        weights = checked_weights(weights, checked, first_row)
        checked = self.preparation.whitening.within_reach(checked)
        return compiled.CompiledBlock(checked, self.preparation.family, self.row_map), weights


@dataclass(frozen=True, eq=False)
class KeptWhitenedRows:
    """The preparation of blocks from stored rows in whitened coordinates, for the extension."""

    family: Family
    n_threads: int = 1

    def __call__(self, rows: Rows, statistic: Any) -> BlockTransform:  # noqa: ARG002
        """Return the transform of all stored rows to one block."""
        row_map = RowMap.identity(rows.n_features)
        return compiled.CompiledBlocks(self.family, row_map, rows.n_rows or 1, self.n_threads)


@dataclass(frozen=True, eq=False)
class KeptRowStats:
    """The preparation of blocks from stored row statistics, whose rows have shape (n_rows, n_stats)."""

    def __call__(self, rows: Rows, statistic: Any) -> BlockTransform:
        """Return the transform of chunks of stored statistics to blocks."""
        return _KeptBlocks(max(4 * MIN_ROWS, CHUNK_SIZE // (rows.n_features + statistic.n_working)))


@dataclass(frozen=True, eq=False)
class _KeptBlocks:
    chunk_rows: int

    def __call__(self, values: Any, weights: Any, _: int) -> tuple[Any, Any]:
        return StatsBlock(values.T, thread_scratch()), weights


def is_compiled(rows: Rows, family: Family) -> bool:
    """Return whether the extension sums these rows: dense ones of the host, for a family that it knows."""
    is_dense = rows.device_template is None and not rows.is_sparse
    return is_dense and compiled.has_kernel(family, rows.n_features)


def is_wide(rows: Rows) -> bool:
    """Return whether rows are sparse, with too many columns to make them dense."""
    return rows.is_sparse and rows.n_features > DENSE_COLUMNS


def reads_as_stored(rows: Rows, family: Family, whitening: Whitening) -> bool:
    """Return whether the E-step can read rows as they are stored, without a copy in whitened coordinates."""
    if not family.is_spherical or rows.device_template is not None or rows.is_distributed:
        return False
    if is_wide(rows):
        return True
    if not (rows.can_take and rows.in_memory and rows.n_rows):
        return False
    first = rows.take(slice(0, 1))[0]
    is_dense = isinstance(first, np.ndarray) and first.dtype == np.float64
    # Sums about zero lose digits by cancellation: the square of this ratio.
    is_near = float(np.max(np.abs(whitening.centre))) < NEAR * float(whitening.inverse)
    return is_dense and is_near
