"""Arrays and dataframes of Dask: work is sent to their partitions, and only sums come back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import dask
import numpy as np
from dask import array as da
from scipy import sparse

from apolar.data.arrays import sample_positions, stacked
from apolar.data.checks import table_shape
from apolar.data.dask.partitions import Partitions, client_of, opened_partitions
from apolar.data.dask.tasks import (
    PartitionFunction,
    all_rows,
    first_of_partition,
    sample_partition,
    take_from_partition,
)
from apolar.data.reduce import CHECKED, Preparation, Statistic
from apolar.data.rows import KEPT_SAMPLE, ArrayRows, Rows

# A systematic sample of no more rows and numbers than this is fetched: passes over it are then local.
FETCHED_ROWS = 20_000
FETCHED_SAMPLE = 2**18


def from_dask(X: Any, sample_weight: Any = None) -> DaskRows:
    """Return the rows of an array or a dataframe of Dask. Nothing is computed yet.

    Parameters
    ----------
    X : dask array or dask dataframe, shape (n_samples, n_features)
        Chunk sizes need not be known.
    sample_weight : dask array, dask series or array_like, shape (n_samples,), optional

    Returns
    -------
    rows : DaskRows
    """
    # Of the class: what is delayed has every attribute.
    kind = type(X)
    if not isinstance(X, da.Array) and not (hasattr(kind, "map_partitions") and hasattr(kind, "ndim")):
        raise TypeError(
            f"X must be an array or a dataframe of Dask; got {type(X).__name__}. Make one with "
            "dask.array.from_delayed or dask.dataframe.from_delayed."
        )
    if not isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError("X must be a table, of two dimensions; got a series. Pass X.to_frame().")
        names = tuple(X.columns)
        if not names:
            raise ValueError("X has no columns.")
        named = names if all(isinstance(name, str) for name in names) else None
        return DaskRows(functools.cache(lambda: opened_partitions(X, sample_weight)), len(names), X, named)
    _, n_features = table_shape(X)
    if np.isnan(n_features):
        raise ValueError("The number of columns of X is not known: call X.compute_chunk_sizes() first.")
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    # Sparse blocks count as such; how many numbers they hold, each partition tells for itself.
    row_size = float(n_features) if sparse.issparse(X._meta) else None
    return DaskRows(
        functools.cache(lambda: opened_partitions(X, sample_weight)), n_features, X, row_size=row_size
    )


class DaskRows(Rows):
    """Rows in the partitions of a Dask collection, on the scheduler that is current.

    Rows of weight zero are not counted in `n_rows`, and `take` does not see them.

    Parameters
    ----------
    open_partitions : callable
        Returns the partitions; they are not looked at before they are needed.
    n_features : int
    collection : dask array or dataframe, optional
        What `map_lazily` maps over.
    names : tuple of str, optional
    row_size : float, optional
    """

    can_take = True
    is_distributed = True

    def __init__(
        self,
        open_partitions: Callable[[], Partitions],
        n_features: int,
        collection: Any = None,
        names: tuple[str, ...] | None = None,
        row_size: float | None = None,
    ) -> None:
        self._open_partitions, self._n_features, self._collection = open_partitions, n_features, collection
        self.names, self.row_size = names, row_size

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self._n_features

    @functools.cached_property
    def n_rows(self) -> int:
        """The number of rows with weight. Where chunk sizes are not known, one pass counts them."""
        return int(self._open_partitions().counts[:, 1].sum())

    def reduce(self, statistic: Statistic, prepare: Preparation = CHECKED, n_threads: int = 1) -> list[Any]:  # noqa: ARG002
        """Return a statistic of the rows, summed where they are; Dask has threads of its own."""
        partitions = self._open_partitions()
        # Pickled once for each pass, and opened by each task for itself.
        sums = partitions.reduce(cloudpickle.dumps((statistic, prepare)))
        if sums is None:
            raise ValueError(partitions.why_none())
        return sums

    def first(self, function: Callable[[Any, Any], Any], prepare: Preparation | None = None) -> Any:
        """Return a function of the first block of the first partition that has rows."""
        partitions, payload = self._open_partitions(), cloudpickle.dumps((function, prepare))
        for i in range(len(partitions.parts)):
            if partitions.may_have_rows(i):
                result = partitions.compute([(first_of_partition, payload, i)])[0]
                if result is not None:
                    return result
        raise ValueError(partitions.why_none())

    def systematic_sample(self, step: int) -> Rows:
        """Return one of each `step` rows: the same as of these rows in memory."""
        partitions = self._open_partitions()
        n_rows = self.n_rows // step
        n_numbers = n_rows * self.n_features
        is_small = n_rows <= FETCHED_ROWS and n_numbers <= FETCHED_SAMPLE
        if is_small or (n_numbers <= KEPT_SAMPLE and client_of(partitions.parts) is None):
            # Without a cluster, this is where the rows are.
            return ArrayRows(*self.take(sample_positions(0, self.n_rows, step)))
        starts, payload = [int(start) for start in partitions.starts], cloudpickle.dumps(step)
        if partitions.persisted is not None:
            parts = partitions.persisted.systematic_sample(payload, partitions.infos(), starts)
        else:
            parts = partitions.delayed(sample_partition, payload, "sample", starts)
            if n_numbers <= KEPT_SAMPLE:
                # Kept there: to choose from all rows again at each pass might read them from files again.
                parts = list(dask.persist(*parts))
        sample = Partitions(parts, None, None, self.n_features)
        return DaskRows(lambda: sample, self.n_features, row_size=self.row_size)

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights; the partitions come here one at a time."""
        partitions = self._open_partitions()
        for i in range(len(partitions.parts)):
            yield from ArrayRows(*partitions.compute([(all_rows, b"", i)])[0]).read(size)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return some of the rows with weight, by their numbers or a slice, and their weights or None."""
        partitions = self._open_partitions()
        if isinstance(positions, slice):
            positions = np.arange(self.n_rows)[positions]
        positions = np.asarray(positions)
        order = np.argsort(positions, kind="stable")
        cuts = np.searchsorted(positions[order], np.append(partitions.starts, self.n_rows))
        tasks: list[tuple[Any, ...]] = []
        for i, start in enumerate(partitions.starts):
            chosen = positions[order[cuts[i] : cuts[i + 1]]] - start
            if len(chosen):
                tasks.append((take_from_partition, b"", i, chosen))
        if not tasks:
            return np.zeros((0, self.n_features)), np.zeros(0) if partitions.is_weighted else None
        pieces = partitions.compute(tasks)
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        values = stacked([values for values, _ in pieces])[back]
        weights = None if pieces[0][1] is None else np.concatenate([weights for _, weights in pieces])[back]
        return values, weights

    def map_lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
        """Return a function of the rows of each partition, a Dask array that is not computed yet.

        Parameters
        ----------
        function : callable
            Takes checked rows, and returns as many numbers, or rows of numbers.
        n_columns : int or None
            Of what it returns; None for numbers.
        dtype : dtype

        Returns
        -------
        results : dask array, shape (n_samples,) or (n_samples, n_columns)
        """
        X = self._collection
        if X is None:
            raise NotImplementedError("Only rows as they were given can be mapped over.")
        payload = cloudpickle.dumps((function, self.n_features))
        meta = np.zeros((0,) if n_columns is None else (0, n_columns), dtype=dtype)
        if not isinstance(X, da.Array):
            return X.map_partitions(PartitionFunction(payload), meta=meta)
        lengths = X.chunks[0]
        known = not np.isnan(lengths).any()
        first_rows = tuple(np.cumsum([0, *lengths[:-1]]).tolist()) if known else None
        mapped = PartitionFunction(payload, first_rows)
        chunks = (lengths,) if n_columns is None else (lengths, (n_columns,))
        dropped = 1 if n_columns is None else None
        return X.map_blocks(mapped, dtype=dtype, chunks=chunks, drop_axis=dropped, meta=meta)

    def __repr__(self) -> str:
        # Not the number of rows: that may have to be counted.
        return f"DaskRows(n_features={self.n_features})"
