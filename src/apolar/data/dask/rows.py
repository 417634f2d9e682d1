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

from apolar.data.checks import table_shape
from apolar.data.dask.partitions import Partitions, client_of, opened_partitions
from apolar.data.dask.tasks import Answers, Wrapped, chosen_rows, done, sample_partition, whole
from apolar.data.rows import KEPT_SAMPLE, Change, Job, Rows, from_arrays, sample_positions, stacked

# A thinned sample of no more rows and numbers than this is fetched: passes over it are then local.
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
    open_source : callable
        Returns the partitions; they are not looked at before they are needed.
    n_features : int
    collection : dask array or dataframe, optional
        What `lazily` maps over.
    names : tuple of str, optional
    row_size : float, optional
    changes : tuple of callable
        What is done to each chunk, in this order.
    """

    def __init__(
        self,
        open_source: Callable[[], Partitions],
        n_features: int,
        collection: Any = None,
        names: tuple[str, ...] | None = None,
        row_size: float | None = None,
        changes: tuple[Change, ...] = (),
    ) -> None:
        attributes = {
            "n_features": n_features,
            "rereadable": True,
            "row_size": row_size,
            "in_memory": False,
            "like": None,
            "names": names,
            "is_part": False,
            "first_row": 0,
            "_open_source": open_source,
            "_collection": collection,
            "_changes": changes,
        }
        # Frozen, as all rows are.
        self.__dict__.update(attributes)

    _open_source: Callable[[], Partitions]
    _collection: Any
    _changes: tuple[Change, ...]

    @property
    def is_distributed(self) -> bool:
        """Whether the rows are elsewhere: they are."""
        return True

    @functools.cached_property
    def n_rows(self) -> int:
        """The number of rows with weight. Where chunk sizes are not known, one pass counts them."""
        return int(self._open_source().counts[:, 1].sum())

    def total(self, job: Job) -> list[Any]:
        """Return what a job makes of the rows, added up where they are."""
        found = self._open_source().summed(self._payload(job))
        if found is None:
            raise ValueError(self._open_source().why_none())
        return found

    def head(self, job: Callable[[Rows], Any]) -> Any:
        """Return what a job makes of the first partition that has rows."""
        source, payload = self._open_source(), self._payload(Wrapped(job))
        for i in range(len(source.parts)):
            if source.may_have_rows(i):
                found = source.computed([(done, payload, i)])[0]
                if found is not None:
                    return found[0]
        raise ValueError(source.why_none())

    def changed(self, change: Change) -> DaskRows:
        """Return the rows with a change to each chunk, made where they are when they are read."""
        return DaskRows(
            self._open_source,
            self.n_features,
            row_size=self.row_size,
            changes=(*self._changes, change),
        )

    def systematic_sample(self, step: int) -> Rows:
        """Return one of each `step` rows: the same as of these rows in memory."""
        source = self._open_source()
        n_rows = self.n_rows // step
        n_numbers = n_rows * self.n_features
        is_small = n_rows <= FETCHED_ROWS and n_numbers <= FETCHED_SAMPLE
        if is_small or (n_numbers <= KEPT_SAMPLE and client_of(source.parts) is None):
            # Without a cluster, this is where the rows are.
            values, weights = self.take(sample_positions(0, self.n_rows, step))
            return from_arrays(values, weights)
        starts, payload = [int(start) for start in source.starts], self._payload(step)
        if source.persisted is not None:
            sample = source.persisted.systematic_sample(payload, source._infos(), starts)
        else:
            sample = source.mapped(sample_partition, payload, "thin", starts)
            if n_numbers <= KEPT_SAMPLE:
                # Kept there: to choose from all rows again at each pass might read them from files again.
                sample = list(dask.persist(*sample))
        kept = Partitions(sample, None, None, self.n_features)
        return DaskRows(lambda: kept, self.n_features, row_size=self.row_size)

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights; the partitions come here one at a time."""
        source = self._open_source()
        for i in range(len(source.parts)):
            found = source.computed([(done, self._payload(whole), i)])[0]
            if found is not None:
                yield from from_arrays(*found).read(size)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return some of the rows with weight, by their numbers or a slice, and their weights or None."""
        source = self._open_source()
        if isinstance(positions, slice):
            positions = np.arange(self.n_rows)[positions]
        positions = np.asarray(positions)
        order = np.argsort(positions, kind="stable")
        cuts = np.searchsorted(positions[order], np.append(source.starts, self.n_rows))
        tasks: list[tuple[Any, ...]] = []
        payload = self._payload(None)
        for i, start in enumerate(source.starts):
            chosen = positions[order[cuts[i] : cuts[i + 1]]] - start
            if len(chosen):
                tasks.append((chosen_rows, payload, i, chosen))
        if not tasks:
            return np.zeros((0, self.n_features)), np.zeros(0) if source.is_weighted else None
        found = source.computed(tasks)
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        values = stacked([values for values, _ in found])[back]
        weights = None if found[0][1] is None else np.concatenate([weights for _, weights in found])[back]
        return values, weights

    def lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
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
        answers : dask array, shape (n_samples,) or (n_samples, n_columns)
        """
        X = self._collection
        if X is None or self._changes:
            raise NotImplementedError("Only rows as they were given can be mapped over.")
        payload = cloudpickle.dumps((function, self.n_features))
        meta = np.zeros((0,) if n_columns is None else (0, n_columns), dtype=dtype)
        if not isinstance(X, da.Array):
            return X.map_partitions(Answers(payload), meta=meta)
        lengths = X.chunks[0]
        known = not np.isnan(lengths).any()
        answers = Answers(payload, tuple(np.cumsum([0, *lengths[:-1]]).tolist()) if known else None)
        chunks = (lengths,) if n_columns is None else (lengths, (n_columns,))
        dropped = 1 if n_columns is None else None
        return X.map_blocks(answers, dtype=dtype, chunks=chunks, drop_axis=dropped, meta=meta)

    def __repr__(self) -> str:
        # Not the number of rows: that may have to be counted.
        return f"DaskRows(n_features={self.n_features})"

    def _payload(self, job: Any) -> bytes:
        """Return a job as it is sent: once a pass, and opened by each task for itself.

        Threads would otherwise share its working memory.
        """
        return cloudpickle.dumps((job, self._changes))
