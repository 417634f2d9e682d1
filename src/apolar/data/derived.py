"""Rows derived from other rows: transformed, copied to the host, sampled, or weighted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import as_float64, is_device_array, to_device_of, to_numpy
from apolar.data.arrays import sample_positions, sample_size, take_both, take_rows
from apolar.data.reduce import CHECKED, BlockTransform, Checked, Preparation, Statistic
from apolar.data.rows import CHUNK_SIZE, Rows, RowTransform

# To sample rows, at most this many times the rows of a chunk are read at a time.
MAX_READ_FACTOR = 8


class DerivedRows(Rows):
    """Rows that are computed from other rows as these are read.

    Parameters
    ----------
    source : Rows
    """

    def __init__(self, source: Rows) -> None:
        self.source = source
        self.rereadable, self.row_size = source.rereadable, source.row_size
        self.device_template, self.names, self.is_part = source.device_template, source.names, source.is_part

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self.source.n_features


class TransformedRows(DerivedRows):
    """Rows with a function applied to each chunk; statistics are computed where the rows are.

    Parameters
    ----------
    source : Rows
    transform : callable
        Takes a chunk and its weights, and returns a chunk of the same shape and its weights.
    """

    def __init__(self, source: Rows, transform: RowTransform) -> None:
        super().__init__(source)
        self.transform = transform
        self.can_take, self.is_distributed = source.can_take, source.is_distributed
        self.first_row, self.returns_to_host = source.first_row, source.returns_to_host

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None if it is known only after reading them."""
        return self.source.n_rows

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield transformed chunks and their weights or None."""
        for values, weights in self.source.read(size):
            yield self.transform(values, weights)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the transformed rows at some positions, and their weights or None."""
        return self.transform(*self.source.take(positions))

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows, transformed."""
        return self.source.systematic_sample(step).map(self.transform)

    def reduce(self, statistic: Statistic, prepare: Preparation = CHECKED, n_threads: int = 1) -> list[Any]:
        """Return a statistic of the transformed rows, summed where they are."""
        return self.source.reduce(statistic, _AfterTransform(self.transform, prepare), n_threads)

    def map_blocks(self, function: Any, prepare: Preparation = CHECKED, n_threads: int = 1) -> Iterator[Any]:
        """Yield a function of each block of transformed rows, in order."""
        return self.source.map_blocks(function, _AfterTransform(self.transform, prepare), n_threads)

    def first(self, function: Callable[[Any, Any], Any], prepare: Preparation | None = None) -> Any:
        """Return a function of the first block of transformed rows, and its weights."""
        prepare = prepare or Checked(chunk_size=CHUNK_SIZE)
        return self.source.first(function, _AfterTransform(self.transform, prepare))


@dataclass(frozen=True, eq=False)
class _AfterTransform:
    """A preparation of the chunks that a transform returns."""

    transform: RowTransform
    prepare: Preparation

    def __call__(self, rows: Rows, statistic: Any) -> BlockTransform:
        return _TransformedBlocks(self.transform, self.prepare(rows.map(self.transform), statistic))


@dataclass(frozen=True, eq=False)
class _TransformedBlocks:
    transform: RowTransform
    blocks: BlockTransform

    @property
    def chunk_rows(self) -> int:
        return self.blocks.chunk_rows

    def __call__(self, values: Any, weights: Any, first_row: int) -> tuple[Any, Any] | None:
        return self.blocks(*self.transform(values, weights), first_row)


@dataclass(frozen=True, eq=False)
class Divided:
    """The transform that divides each column by its unit.

    Attributes
    ----------
    units : ndarray, shape (n_features,)
    """

    units: Array

    def __call__(self, values: Any, weights: Any) -> tuple[Any, Any]:
        """Return the divided chunk, and its weights."""
        if sparse.issparse(values):
            return sparse.csr_matrix(values.multiply(1 / self.units)), weights
        if is_device_array(values):
            return as_float64(values) / to_device_of(self.units, values), weights
        return np.asarray(values, dtype=np.float64) / self.units, weights


class HostRows(DerivedRows):
    """Rows of a device, copied to the host a chunk at a time.

    Parameters
    ----------
    source : Rows
    """

    def __init__(self, source: Rows) -> None:
        super().__init__(source)
        self.device_template, self.can_take = None, source.can_take

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None if it is known only after reading them."""
        return self.source.n_rows

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks on the host, and their weights or None."""
        for values, weights in self.source.read(size):
            yield _to_host(values, weights)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None, on the host."""
        return _to_host(*self.source.take(positions))


def _to_host(values: Any, weights: Any) -> tuple[Any, Any]:
    # TransferredRows.take returns rows of the host, which may be sparse.
    return (
        to_numpy(values) if is_device_array(values) else values,
        None if weights is None else to_numpy(weights),
    )


class SampledRows(DerivedRows):
    """One of every `step` rows, selected while all of them are read in order.

    Parameters
    ----------
    source : Rows
    step : int
    """

    def __init__(self, source: Rows, step: int) -> None:
        super().__init__(source)
        self.step = step

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None if it is known only after reading them."""
        return None if self.source.n_rows is None else sample_size(self.source.n_rows, self.step)

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield the sampled rows of each chunk, and their weights or None."""
        start = 0
        # A chunk of the sample needs `step` times as many rows, but those take memory while they are read.
        for values, weights in self.source.read(size * min(self.step, MAX_READ_FACTOR)):
            stop = start + values.shape[0]
            positions = sample_positions(start, stop, self.step, self.device_template)
            start = stop
            if positions.shape[0]:
                yield take_both(values, weights, positions)


class WeightedRows(DerivedRows):
    """Rows with other weights; rows of weight zero are skipped.

    Parameters
    ----------
    source : Rows
        In memory, or in files: their number is known.
    weights : array, shape (n_rows,)
        Of NumPy, or of the library of the rows; checked already.
    """

    def __init__(self, source: Rows, weights: Any) -> None:
        super().__init__(source)
        self.can_take, self.in_memory = source.can_take, source.in_memory
        self.returns_to_host = source.returns_to_host
        self.weights = weights
        self._weighted_positions = np.flatnonzero(to_numpy(weights) > 0)
        if not len(self._weighted_positions):
            raise ValueError("The weights of the rows are all zero.")

    @property
    def n_rows(self) -> int:
        """The number of rows with weight."""
        return len(self._weighted_positions)

    def source_row(self, row: int) -> int:
        """Return the index of a row among all rows, those of weight zero included."""
        return self.source.source_row(int(self._weighted_positions[row - self.first_row]))

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield the rows with weight of each chunk, and their weights."""
        start = 0
        for values, _ in self.source.read(size):
            stop = start + values.shape[0]
            weights = self.weights[start:stop]
            start = stop
            positive = np.flatnonzero(to_numpy(weights) > 0)
            if len(positive) == values.shape[0]:
                yield values, weights
            elif len(positive):
                yield take_both(values, weights, positive)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions among those with weight, and their weights."""
        positions = to_numpy(positions) if is_device_array(positions) else positions
        source_positions = self._weighted_positions[positions]
        return self.source.take(source_positions)[0], take_rows(self.weights, source_positions)
