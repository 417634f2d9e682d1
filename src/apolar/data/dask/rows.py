"""Arrays and dataframes of Dask: statistics are computed where the partitions are, only sums come back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import dask
import numpy as np
from dask import array as da
from scipy import sparse

from apolar.data.arrays import sample_positions, stack_rows
from apolar.data.checks import table_shape
from apolar.data.dask.partitions import Partitions, client_of, dask_partitions
from apolar.data.dask.tasks import (
    PartitionFunction,
    all_rows,
    first_of_partition,
    sample_partition,
    take_from_partition,
)
from apolar.data.reduce import CHECKED, Preparation, Statistic
from apolar.data.rows import MAX_SAMPLE_VALUES, ArrayRows, Rows

# A systematic sample of at most this many rows, and values, is fetched: passes over it are then local.
FETCHED_ROWS = 20_000
FETCHED_VALUES = 2**18


def from_dask(X: Any, sample_weight: Any = None) -> DaskRows:
    """Return the rows of an array or a dataframe of Dask, without computing anything.

    Parameters
    ----------
    X : dask array or dask dataframe, shape (n_samples, n_features)
        Chunk sizes need not be known.
    sample_weight : dask array, dask series or array_like, shape (n_samples,), optional

    Returns
    -------
    rows : DaskRows
    """
    # The class is asked, not X: a Delayed has every attribute.
    is_dataframe = hasattr(type(X), "map_partitions") and hasattr(type(X), "ndim")
    if not isinstance(X, da.Array) and not is_dataframe:
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
        string_names = names if all(isinstance(name, str) for name in names) else None
        open_partitions = functools.cache(lambda: dask_partitions(X, sample_weight, string_names))
        return DaskRows(open_partitions, len(names), X, string_names)
    _, n_features = table_shape(X)
    if np.isnan(n_features):
        raise ValueError("The number of columns of X is not known: call X.compute_chunk_sizes() first.")
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    # This marks the rows as sparse; how many values their blocks store is known only where these are.
    row_size = float(n_features) if sparse.issparse(X._meta) else None
    open_partitions = functools.cache(lambda: dask_partitions(X, sample_weight))
    return DaskRows(open_partitions, n_features, X, row_size=row_size)


class DaskRows(Rows):
    """Rows in the partitions of a Dask collection, computed by the current scheduler.

    Rows of weight zero are not counted in `n_rows`, and have no position in `take`.

    Parameters
    ----------
    open_partitions : callable
        Returns the partitions, always the same; not called before they are needed.
    n_features : int
    collection : dask array or dataframe, optional
        The collection that `map_lazily` maps over.
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
        # Not functools.cached_property: before Python 3.12 all instances share its lock, which would be held
        # while a cluster counts, and fits in several threads of a worker would deadlock.
        self._n_rows: int | None = None

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self._n_features

    @property
    def n_rows(self) -> int:
        """The number of rows with weight; without known chunk sizes, one pass counts them."""
        if self._n_rows is None:
            self._n_rows = int(self._open_partitions().counts[:, 1].sum())
        return self._n_rows

    def reduce(self, statistic: Statistic, prepare: Preparation = CHECKED, n_threads: int = 1) -> list[Any]:  # noqa: ARG002
        """Return a statistic of the rows, summed where they are; `n_threads` is left to Dask."""
        partitions = self._open_partitions()
        # Pickled once per pass; each task unpickles its own copy.
        sums = partitions.reduce(cloudpickle.dumps((statistic, prepare)))
        if sums is None:
            raise ValueError(partitions.message_if_empty())
        return sums

    def first(self, function: Callable[[Any, Any], Any], prepare: Preparation | None = None) -> Any:
        """Return a function of the first block of the first partition that has rows."""
        partitions, payload = self._open_partitions(), cloudpickle.dumps((function, prepare))
        for i in range(len(partitions.parts)):
            if partitions.may_have_rows(i):
                result = partitions.compute(first_of_partition, payload, [(i,)])[0]
                if result is not None:
                    return result
        raise ValueError(partitions.message_if_empty())

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows, the same as if these rows were in memory."""
        partitions = self._open_partitions()
        n_rows = self.n_rows // step
        n_values = n_rows * self.n_features
        is_small = n_rows <= FETCHED_ROWS and n_values <= FETCHED_VALUES
        if is_small or (n_values <= MAX_SAMPLE_VALUES and client_of(partitions.parts) is None):
            # Without a cluster, the tasks run in this process, or next to it.
            return ArrayRows(*self.take(sample_positions(0, self.n_rows, step)))
        starts, payload = [int(start) for start in partitions.starts], cloudpickle.dumps(step)
        if partitions.persisted is not None:
            parts = partitions.persisted.systematic_sample(payload, partitions.infos(), starts)
        else:
            parts = partitions.delayed(sample_partition, payload, list(enumerate(starts)))
            if n_values <= MAX_SAMPLE_VALUES:
                # Otherwise each pass would compute all rows again, or read them from files, to sample them.
                parts = list(dask.persist(*parts))
        sample = Partitions(parts, None, None, self.n_features)
        return DaskRows(lambda: sample, self.n_features, row_size=self.row_size)

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights; the partitions are fetched one at a time."""
        partitions = self._open_partitions()
        for i in range(len(partitions.parts)):
            values, weights = partitions.compute(all_rows, b"", [(i,)])[0]
            yield from ArrayRows(values, weights).read(size)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions among those with weight, and their weights or None."""
        partitions = self._open_partitions()
        if isinstance(positions, slice):
            positions = np.arange(self.n_rows)[positions]
        positions = np.asarray(positions)
        order = np.argsort(positions, kind="stable")
        cuts = np.searchsorted(positions[order], np.append(partitions.starts, self.n_rows))
        calls: list[tuple[Any, ...]] = []
        for i, start in enumerate(partitions.starts):
            local_positions = positions[order[cuts[i] : cuts[i + 1]]] - start
            if len(local_positions):
                calls.append((i, local_positions))
        if not calls:
            return np.zeros((0, self.n_features)), np.zeros(0) if partitions.is_weighted else None
        blocks = partitions.compute(take_from_partition, b"", calls)
        inverse = np.empty(len(order), dtype=np.intp)
        inverse[order] = np.arange(len(order))
        values = stack_rows([values for values, _ in blocks])[inverse]
        if blocks[0][1] is None:
            return values, None
        return values, np.concatenate([weights for _, weights in blocks])[inverse]

    def map_lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
        """Return a function of the rows of each partition, as a Dask array that is not computed yet.

        Parameters
        ----------
        function : callable
            Takes a block of checked rows, and returns an array of one value, or one row, per row.
        n_columns : int or None
            The number of columns of that array; None if it is one-dimensional.
        dtype : dtype
            The type of that array.

        Returns
        -------
        results : dask array, shape (n_samples,) or (n_samples, n_columns)
        """
        X = self._collection
        if X is None:
            raise NotImplementedError(
                "Only the rows of a Dask collection itself can be mapped lazily, not a sample of them."
            )
        payload = cloudpickle.dumps((function, self.n_features, self.names))
        meta = np.zeros((0,) if n_columns is None else (0, n_columns), dtype=dtype)
        if not isinstance(X, da.Array):
            return X.map_partitions(PartitionFunction(payload), meta=meta)
        lengths = X.chunks[0]
        are_known = not np.isnan(lengths).any()
        first_rows = tuple(np.cumsum([0, *lengths[:-1]]).tolist()) if are_known else None
        chunks = (lengths,) if n_columns is None else (lengths, (n_columns,))
        return X.map_blocks(
            PartitionFunction(payload, first_rows),
            dtype=dtype,
            chunks=chunks,
            drop_axis=1 if n_columns is None else None,
            meta=meta,
        )

    def __repr__(self) -> str:
        # Without the number of rows, which may have to be counted first.
        return f"DaskRows(n_features={self.n_features})"
