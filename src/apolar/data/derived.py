"""Rows derived from other rows: transformed, copied to the host, or selected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import as_float64, is_device_array, to_device_of, to_numpy
from apolar.data.arrays import sample_positions, sample_size, take_both, take_rows
from apolar.data.rows import Chunk, RowFunction, Rows, RowTransform

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
        self.rereadable, self.row_size, self.names = source.rereadable, source.row_size, source.names
        self.device_template, self.first_row = source.device_template, source.first_row
        self.can_take, self.returns_to_host = source.can_take, source.returns_to_host

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self.source.n_features

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None if it is known only after reading them."""
        return self.source.n_rows


class TransformedRows(DerivedRows):
    """Rows with a function applied to each chunk, where this is.

    Parameters
    ----------
    source : Rows
    transform : callable
        Takes a chunk and its weights, and returns a chunk of the same shape and its weights.
    """

    def __init__(self, source: Rows, transform: RowTransform) -> None:
        super().__init__(source)
        self.apply, self.is_distributed = transform, source.is_distributed

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield transformed chunks and their weights or None."""
        for values, weights in self.source.read(size):
            yield self.apply(values, weights)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the transformed rows at some positions, and their weights or None."""
        return self.apply(*self.source.take(positions))

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows, transformed."""
        return self.source.systematic_sample(step).transform(self.apply)

    def reduce(
        self, function: RowFunction, n_threads: int = 1, chunk_rows: int | Callable[[Rows], int] | None = None
    ) -> list[Any]:
        """Return the sums over the transformed rows of what a function returns, where they are."""
        return self.source.reduce(self._after_transform(function), n_threads, chunk_rows)

    def results(
        self, function: RowFunction, n_threads: int = 1, chunk_rows: int | Callable[[Rows], int] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield what a function returns for each transformed chunk; threads transform, too."""
        return self.source.results(self._after_transform(function), n_threads, chunk_rows)

    def first(self, function: RowFunction) -> Any:
        """Return a function of the first transformed chunk that has one."""
        return self.source.first(self._after_transform(function))

    def _after_transform(self, function: RowFunction) -> RowFunction:
        apply = self.apply

        def call(chunk: Chunk) -> Any:
            values, weights = apply(chunk.values, chunk.weights)
            return function(replace(chunk, values=values, weights=weights))

        return call


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
        self.device_template, self.returns_to_host = None, False

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks on the host, and their weights or None."""
        for values, weights in self.source.read(size):
            yield _to_host(values), _to_host(weights)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None, on the host."""
        values, weights = self.source.take(positions)
        return _to_host(values), _to_host(weights)


def _to_host(values: Any) -> Any:
    # Rows that are sent to a device are taken from the host.
    return to_numpy(values) if is_device_array(values) else values


class SelectedRows(DerivedRows):
    """One of every `step` rows, or those with weight, selected while all rows are read in order.

    Parameters
    ----------
    source : Rows
        With weights: in memory, or in files, as their number has to be known.
    weights : array, shape (n_rows,), optional
        Checked ones, that replace those of the rows; rows of weight zero are left out.
    step : int, default=1
    """

    def __init__(self, source: Rows, weights: Any = None, step: int = 1) -> None:
        super().__init__(source)
        self.weights, self.step = weights, step
        if weights is None:
            self.can_take = False
            return
        self.in_memory = source.in_memory
        self._weighted_positions = np.flatnonzero(to_numpy(weights) > 0)
        if not len(self._weighted_positions):
            raise ValueError("The weights of the rows are all zero.")

    @property
    def n_rows(self) -> int | None:
        """The number of selected rows; None if it is known only after reading all."""
        if self.weights is not None:
            return len(self._weighted_positions)
        return None if self.source.n_rows is None else sample_size(self.source.n_rows, self.step)

    def source_row(self, row: int) -> int:
        """Return the index of a row among all rows, those of weight zero included."""
        if self.weights is None:
            return row
        return self.source.source_row(int(self._weighted_positions[row - self.first_row]))

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield the selected rows of each chunk, and their weights or None."""
        start = 0
        # A chunk of the sample needs `step` times as many rows, but those take memory while they are read.
        for values, weights in self.source.read(size * min(self.step, MAX_READ_FACTOR)):
            stop = start + values.shape[0]
            if self.weights is None:
                positions = sample_positions(start, stop, self.step, self.device_template)
            else:
                weights = self.weights[start:stop]
                positions = np.flatnonzero(to_numpy(weights) > 0)
            start = stop
            if positions.shape[0] == values.shape[0]:
                yield values, weights
            elif positions.shape[0]:
                yield take_both(values, weights, positions)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions among those with weight, and their weights."""
        positions = to_numpy(positions) if is_device_array(positions) else positions
        source_positions = self._weighted_positions[positions]
        return self.source.take(source_positions)[0], take_rows(self.weights, source_positions)
