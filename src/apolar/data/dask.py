"""Arrays and dataframes of Dask: statistics are computed where the partitions are, only sums come back."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import dask
import numpy as np
from dask import array as da
from dask.utils import parse_bytes
from scipy import sparse

from apolar._core.arrays import IndexArray
from apolar.data.chunks import Chunk, RowFunction, require_table, sample_positions, stack_chunks
from apolar.data.rows import (
    CHUNK_SIZE,
    MAX_SAMPLE_VALUES,
    ArrayRows,
    Rows,
    RowsPerChunk,
    add_up,
)
from apolar.data.sources import check_same_columns, source_kind
from apolar.exceptions import RowError

# The number of sums that one task adds up, and of partitions per thread that are too few to be merged.
FAN_IN = 8
# A graph of more bytes per task than this contains data, not only tasks that make them.
MAX_TASK_BYTES = 2**11


def from_dask(X: Any) -> DaskRows:
    """Return the rows of an array or a dataframe of Dask, without computing anything.

    Parameters
    ----------
    X : dask array or dask dataframe, shape (n_samples, n_features)
        Chunk sizes need not be known.

    Returns
    -------
    rows : DaskRows
    """
    if isinstance(X, da.Array):
        require_table(X.shape)
        n_features = X.shape[1]
        if np.isnan(n_features):
            raise ValueError("The number of columns of X is not known: call X.compute_chunk_sizes() first.")
        X = X.rechunk({1: -1})
        # This marks the rows as sparse; how many values their blocks store is known only where these are.
        row_size = float(n_features) if sparse.issparse(X._meta) else None
        return DaskRows(Partitions(_parts(X), n_features, lengths=_known_lengths(X)), row_size)
    # The class is asked, not X: a Delayed has every attribute.
    if not (hasattr(type(X), "map_partitions") and hasattr(type(X), "ndim")):
        raise TypeError(
            f"X must be an array or a dataframe of Dask; got {type(X).__name__}. Make one with "
            "dask.array.from_delayed or dask.dataframe.from_delayed."
        )
    if X.ndim != 2:
        raise ValueError("X must be a two-dimensional table; got a series. Pass X.to_frame().")
    if not len(X.columns):
        raise ValueError("X has no columns.")
    names = tuple(X.columns) if all(isinstance(name, str) for name in X.columns) else None
    return DaskRows(Partitions(_parts(X), len(X.columns), names))


class DaskRows(Rows):
    """Rows in the partitions of a Dask collection, computed by the current scheduler.

    Rows of weight zero are not counted in `n_rows`, and have no position in `take`.

    Parameters
    ----------
    given : Partitions
        They are read only when they are needed.
    row_size : float, optional
    sample_weight : dask array, dask series or array_like, shape (n_samples,), optional
    """

    can_take = True
    is_distributed = True

    def __init__(self, given: Partitions, row_size: float | None = None, sample_weight: Any = None) -> None:
        self._given, self.row_size = given, row_size
        self.n_features, self.names = given.n_features, given.names
        self._is_weighted = sample_weight is not None
        self._partitions = functools.cache(functools.partial(given.hold, sample_weight))

    def with_weights(self, sample_weight: Any) -> Rows:
        """Return the rows with weights: a Dask array, a Dask series or an array_like, shape (n_samples,)."""
        return DaskRows(self._given, self.row_size, sample_weight)

    @property
    def n_rows(self) -> int:
        """The number of rows with weight; without known chunk sizes, one pass counts them."""
        return int(self._partitions().counts.sum())

    def results(
        self, function: RowFunction, n_threads: int, size: RowsPerChunk, *, adds: bool
    ) -> Iterator[Any]:
        """Yield the results of the partitions, in their order; Dask divides the work.

        The sums of the partitions are added in a tree; other results are fetched one partition at a time.
        """
        del n_threads

        def call(rows: Rows) -> Any:
            results = rows.results(function, 1, rows.size_of_chunks(size), adds=adds)
            return add_up(results) if adds else list(results)

        layer = self._partitions().apply(call)
        if not adds:
            for task in layer:
                yield from task.compute()
            return
        add = dask.delayed(add_up, pure=False)
        while len(layer) > FAN_IN:
            layer = [add(layer[i : i + FAN_IN]) for i in range(0, len(layer), FAN_IN)]
        yield from dask.compute(*layer)

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights; the partitions are fetched one at a time."""
        return self.results(lambda chunk: (chunk.values, chunk.weights), 1, size, adds=False)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at ascending positions among those with weight, and their weights or None."""
        partitions = self._partitions()
        if isinstance(positions, slice):
            positions = np.arange(self.n_rows)[positions]
        starts = partitions.starts
        local = np.split(positions, np.searchsorted(positions, starts[1:]))
        calls = [(i, local[i] - starts[i]) for i in range(len(local)) if len(local[i])]
        # Without positions, the first partition shows the type of the rows.
        tasks = partitions.apply(lambda rows, places: rows.take(places), calls or [(0, local[0])])
        return stack_chunks(dask.compute(*tasks))

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows, the same as if these rows were in memory."""
        n_values = self.n_rows // step * self.n_features
        # A cluster keeps a sample where the rows are, unless it is at most one chunk.
        if n_values <= (MAX_SAMPLE_VALUES if _client() is None else CHUNK_SIZE):
            return ArrayRows(*self.take(sample_positions(0, self.n_rows, step)))

        def sample(rows: Rows, start: int) -> tuple[Any, Any]:
            return rows.take(sample_positions(start, start + (rows.n_rows or 0), step))

        partitions = self._partitions()
        tasks = partitions.apply(sample, list(enumerate(partitions.starts.tolist())))
        if n_values <= MAX_SAMPLE_VALUES:
            # Otherwise each pass would compute all rows again, or read them from files, to sample them.
            tasks = list(dask.persist(*tasks))
        given = Partitions(tasks, self.n_features, is_weighted=partitions.is_weighted)
        return DaskRows(given, self.row_size)

    def map_lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
        """Return a function of the checked chunk of each partition, as a Dask array that is not computed yet.

        No row has weight zero. The function returns an array of this dtype: one value per row, or `n_columns`
        values if these are not None.
        """
        columns = () if n_columns is None else (n_columns,)

        def of_checked(rows: Rows) -> Any:
            values, weights = rows.take(slice(None))
            chunk = Chunk(values, weights, rows.first_row, rows.n_features, rows.names)
            checked = chunk.check(allows_missing=True)
            return np.zeros((0, *columns), dtype) if checked is None else function(checked)

        partitions = self._partitions() if self._is_weighted else self._given
        tasks = partitions.apply(of_checked)
        n_rows = [np.nan] * len(tasks) if partitions.lengths is None else partitions.lengths.tolist()
        blocks = [da.from_delayed(tasks[i], (n, *columns), dtype=dtype) for i, n in enumerate(n_rows)]
        return da.concatenate(blocks)


# --- the partitions of a collection ------------------------------------------------


@dataclass(eq=False)
class Partitions:
    """The partitions of a Dask collection.

    Attributes
    ----------
    parts : list
        Of Delayed arrays or dataframes; or of pairs of one and its weights or None.
    n_features : int
    names : tuple of str or None
        The names of the columns that partitions must have, if they are dataframes.
    lengths : ndarray of int, shape (n_partitions,), or None
        The number of rows of each partition; None if it is not known yet.
    is_weighted : bool
        Whether the user gave weights.
    """

    parts: list[Any]
    n_features: int
    names: tuple[str, ...] | None = None
    lengths: IndexArray | None = None
    is_weighted: bool = False
    # Not functools.cached_property: before Python 3.12 all instances share its lock, which would be held
    # while a cluster counts, and fits in several threads of a worker would deadlock.
    _counts: IndexArray | None = None

    @property
    def counts(self) -> IndexArray:
        """The number of rows with weight of each partition, shape (n_partitions,)."""
        if self._counts is None and not self.is_weighted:
            self._counts = self.lengths
        if self._counts is None:
            tasks = self.apply(lambda rows: (all_rows(rows)[0].shape[0], rows.n_rows))
            self.lengths, self._counts = np.array(dask.compute(*tasks), dtype=np.int64).T
        return self._counts

    @property
    def starts(self) -> IndexArray:
        """The position of the first row of each partition, among the rows with weight."""
        return np.cumsum(self.counts) - self.counts

    def apply(self, function: Callable[..., Any], calls: list[tuple[Any, ...]] | None = None) -> list[Any]:
        """Return a function of the rows of partitions, not computed yet.

        A call is the index of a partition, and further arguments of the function. By default, there is one
        call for each partition.
        """
        call = functools.partial(
            call_on_partition, function=function, n_features=self.n_features, names=self.names
        )
        task = dask.delayed(call, pure=False, traverse=False)
        places: list[Any] = [None] * len(self.parts)
        if self.lengths is not None:
            ends = np.cumsum(self.lengths)
            places = list(map(range, (ends - self.lengths).tolist(), ends.tolist()))
        return [
            task(self.parts[i], i, places[i], *arguments)
            for i, *arguments in calls or [(i,) for i in range(len(self.parts))]
        ]

    def hold(self, sample_weight: Any) -> Partitions:
        """Return the partitions with their weights or None, merged if that saves time.

        Data inside the graph would be sent to a cluster again in every pass: they are sent once.
        """
        parts, is_held = _held_parts(self.parts)
        rows = replace(self, parts=parts)
        if sample_weight is not None:
            weights, _ = _held_parts(_parts(_aligned_weights(sample_weight, rows)))
            # The rows may have been counted to align the weights.
            rows = replace(rows, parts=list(zip(parts, weights, strict=True)), is_weighted=True, _counts=None)
        return rows._merge() if is_held else rows

    def _merge(self) -> Partitions:
        """Return partitions that a cluster holds as one for each thread of its workers, in their order.

        Scheduling a task takes longer than the arithmetic of a small partition. Few partitions are left as
        they are, and so are those that would become larger than Dask's own chunks.
        """
        n_merged = max(1, sum(_client().nthreads().values()))
        if len(self.parts) <= FAN_IN * n_merged:
            return self
        n_values, counts = self.n_features * self.counts.sum(), self.counts
        lengths = np.asarray(self.lengths)
        if 8 * n_values > n_merged * parse_bytes(dask.config.get("array.chunk-size")):
            return self
        join, tasks = dask.delayed(stack_chunks, pure=False), self.apply(all_rows)
        groups = np.array_split(np.arange(len(tasks)), n_merged)
        merged = dask.persist(*(join([tasks[i] for i in group]) for group in groups))
        n_rows, counts = (np.array([each[group].sum() for group in groups]) for each in (lengths, counts))
        return Partitions(list(merged), self.n_features, None, n_rows, self.is_weighted, counts)


def _parts(X: Any) -> list[Any]:
    """Return the partitions of a collection."""
    # This optimises the graph once.
    delayed = X.to_delayed()
    return list(getattr(delayed, "flat", delayed))


def _held_parts(parts: list[Any]) -> tuple[list[Any], bool]:
    """Return partitions, and whether a cluster holds them; data inside the graph are sent to it now."""
    if _client() is None:
        return parts, False
    from distributed import futures_of

    if len(futures_of(parts)) >= len(parts):
        return parts, True
    graph = dict(parts[0].__dask_graph__())
    if len(cloudpickle.dumps(graph)) <= MAX_TASK_BYTES * len(graph):
        return parts, False
    with warnings.catch_warnings():
        # Dask warns of large graphs because they are usually sent again and again; this one is sent once.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return list(dask.persist(*parts)), True


def _client() -> Any:
    """Return the client of the cluster that is the current scheduler; None if there is no cluster."""
    client = getattr(dask.base.get_scheduler(), "__self__", None)
    return client if hasattr(client, "scatter") else None


def _aligned_weights(sample_weight: Any, rows: Partitions) -> Any:
    """Return the weights as a Dask array in the partitions of the rows."""
    sample_weight = da.asarray(sample_weight)
    if sample_weight.ndim != 1:
        raise ValueError("sample_weight must be one-dimensional: an array or a series of Dask.")
    is_known = _known_lengths(sample_weight) is not None
    if sample_weight.numblocks[0] == len(rows.parts) and not (is_known and rows.lengths is not None):
        # Each task checks that its weights have the length of its partition.
        return sample_weight
    if not is_known:
        # compute_chunk_sizes writes into the array it is called on: the user's stays as it is.
        sample_weight = sample_weight.copy().compute_chunk_sizes()
    lengths = rows.counts.tolist()
    if sample_weight.shape != (sum(lengths),):
        raise ValueError(f"sample_weight must have shape ({sum(lengths)},); got {sample_weight.shape}.")
    return sample_weight.rechunk((tuple(lengths),))


def _known_lengths(X: Any) -> IndexArray | None:
    """Return the number of rows of each partition, or None if it is not known."""
    is_known = isinstance(X, da.Array) and not np.isnan(X.chunks[0]).any()
    return np.array(X.chunks[0], dtype=np.int64) if is_known else None


# --- functions that run where a partition is ---------------------------------------


def call_on_partition(
    part: Any,
    index: int,
    place: range | None,
    *arguments: Any,
    function: Callable[..., Any],
    n_features: int,
    names: tuple[str, ...] | None,
) -> Any:
    """Return a function of the rows of a partition and of further arguments.

    Parameters
    ----------
    part : array or dataframe, or a pair of one and its weights
    index : int
        The number of the partition, for messages.
    place : range or None
        The indices of its rows; None if they are not known.
    *arguments
        Of the function, after the rows.
    function : callable
    n_features : int
        The expected number of columns.
    names : tuple of str or None
        The expected names of the columns.
    """
    part, weights = part if isinstance(part, tuple) else (part, None)
    try:
        rows = source_kind(part).open(part)
        check_same_columns(rows, n_features, names, f"Partition {index}")
        if not isinstance(rows, ArrayRows) or rows.device_template is not None:
            library = type(part).__module__.partition(".")[0]
            raise TypeError(
                f"The blocks of X are of {library}: a cluster works with those of NumPy. Pass "
                "X.map_blocks(numpy.asarray)."
            )
        if place is not None and rows.n_rows != len(place):
            raise ValueError(
                f"Partition {index} of X has {rows.n_rows} rows where its chunks say {len(place)}: give "
                "dask.array.from_delayed the true shape, or nan and then call X.compute_chunk_sizes()."
            )
        rows = ArrayRows(_align(rows.values), first_row=0 if place is None else place.start)
        if weights is not None and np.shape(weights) != (rows.n_rows,):
            raise ValueError(
                f"Partition {index} has {rows.n_rows} rows, and its sample_weight is of shape "
                f"{np.shape(weights)}: give X and sample_weight the same partitions."
            )
        return function(rows if weights is None else rows.with_weights(_align(weights)), *arguments)
    except RowError as error:
        if place is not None:
            raise
        # The number of rows in the partitions before this one is not known.
        raise ValueError(f"{error} Rows are counted from the first of partition {index}.") from error


def _align(values: Any) -> Any:
    """Return an array of NumPy that begins at a multiple of the size of a number; others as they are.

    What a cluster sends begins at any byte, and NumPy adds such numbers in other parts: which worker has a
    partition would decide the last digits.
    """
    return np.require(values, requirements="A") if isinstance(values, np.ndarray) else values


def all_rows(rows: Rows) -> tuple[Any, Any]:
    """Return all rows and their weights or None, with those of weight zero."""
    source: Any = getattr(rows, "source", rows)
    return source.values, rows.weights
