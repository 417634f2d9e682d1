"""Arrays and dataframes of Dask: statistics are computed where the partitions are, only sums come back."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cloudpickle
import dask
import numpy as np
from dask import array as da
from dask.utils import parse_bytes
from scipy import sparse

from apolar._core.arrays import IndexArray
from apolar.data.arrays import sample_positions, stack_chunks, take_both
from apolar.data.checks import check_values, check_weights, table_shape
from apolar.data.rows import CHUNK_SIZE, MAX_SAMPLE_VALUES, ArrayRows, RowFunction, Rows, add_up
from apolar.data.sources import source_kind

# The number of sums that one task adds up, and of partitions per thread that are too few to be merged.
FAN_IN = 8
# A graph of more bytes per task than this contains data, not only tasks that make them.
MAX_TASK_BYTES = 2**11


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
    if isinstance(X, da.Array):
        _, n_features = table_shape(X)
        if np.isnan(n_features):
            raise ValueError("The number of columns of X is not known: call X.compute_chunk_sizes() first.")
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        # This marks the rows as sparse; how many values their blocks store is known only where these are.
        row_size = float(n_features) if sparse.issparse(X._meta) else None
        return DaskRows(
            lambda: open_partitions(X, sample_weight, n_features), n_features, X, row_size=row_size
        )
    # The class is asked, not X: a Delayed has every attribute.
    if not (hasattr(type(X), "map_partitions") and hasattr(type(X), "ndim")):
        raise TypeError(
            f"X must be an array or a dataframe of Dask; got {type(X).__name__}. Make one with "
            "dask.array.from_delayed or dask.dataframe.from_delayed."
        )
    if X.ndim != 2:
        raise ValueError("X must be a table, of two dimensions; got a series. Pass X.to_frame().")
    if not len(X.columns):
        raise ValueError("X has no columns.")
    names = tuple(X.columns) if all(isinstance(name, str) for name in X.columns) else None
    n_features = len(X.columns)
    return DaskRows(lambda: open_partitions(X, sample_weight, n_features, names), n_features, X, names)


class DaskRows(Rows):
    """Rows in the partitions of a Dask collection, computed by the current scheduler.

    Rows of weight zero are not counted in `n_rows`, and have no position in `take`.

    Parameters
    ----------
    open_partitions : callable
        Returns the partitions; called once, when they are needed.
    n_features : int
    collection : dask array or dataframe, optional
        The collection that `map_lazily` maps over; None for a sample.
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
        self._partitions = functools.cache(open_partitions)
        self._n_features, self._collection = n_features, collection
        self.names, self.row_size = names, row_size

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self._n_features

    @property
    def n_rows(self) -> int:
        """The number of rows with weight; without known chunk sizes, one pass counts them."""
        return int(self._partitions().counts[:, 1].sum())

    def reduce(
        self, function: RowFunction, n_threads: int = 1, chunk_rows: int | Callable[[Rows], int] | None = None
    ) -> list[Any]:
        """Return the sums of what a function returns for chunks, where they are; Dask divides the work.

        The sums of the partitions are added in a tree, in their order.
        """
        del n_threads
        partitions, add = self._partitions(), dask.delayed(add_up, pure=False)
        layer = partitions.apply(functools.partial(_reduce_rows, function=function, chunk_rows=chunk_rows))
        while len(layer) > FAN_IN:
            layer = [add(layer[i : i + FAN_IN]) for i in range(0, len(layer), FAN_IN)]
        sums = add_up(dask.compute(*layer))
        if sums is None:
            raise ValueError(partitions.message_if_empty())
        return sums

    def first(self, function: RowFunction) -> Any:
        """Return a function of the first chunk, of the first partition that has one."""
        partitions = self._partitions()
        of_rows = functools.partial(_first_result, function=function)
        for i in range(len(partitions.parts)):
            (result,) = dask.compute(*partitions.apply(of_rows, [(i,)]))
            if result is not None:
                return result
        raise ValueError(partitions.message_if_empty())

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows, the same as if these rows were in memory."""
        partitions = self._partitions()
        n_values = self.n_rows // step * self.n_features
        # A cluster keeps a sample where the rows are, unless it is at most one chunk.
        if n_values <= (MAX_SAMPLE_VALUES if _client() is None else CHUNK_SIZE):
            return ArrayRows(*self.take(sample_positions(0, self.n_rows, step)))
        calls = [(i, start, step) for i, start in enumerate(partitions.starts.tolist())]
        parts = partitions.apply(_sample_rows, calls)
        sample = Partitions(parts, self.n_features, partitions.is_weighted)
        if n_values <= MAX_SAMPLE_VALUES:
            # Otherwise each pass would compute all rows again, or read them from files, to sample them.
            sample.parts = list(dask.persist(*parts))
            sample = sample.merge()
        return DaskRows(lambda: sample, self.n_features, row_size=self.row_size)

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights; the partitions are fetched one at a time."""
        partitions = self._partitions()
        for i in range(len(partitions.parts)):
            (pair,) = dask.compute(*partitions.apply(_values_and_weights, [(i,)]))
            yield from ArrayRows(*pair).read(size)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions among those with weight, and their weights or None."""
        partitions = self._partitions()
        if isinstance(positions, slice):
            positions = np.arange(self.n_rows)[positions]
        order = np.argsort(positions, kind="stable")
        ascending, starts = np.asarray(positions)[order], partitions.starts
        local = np.split(ascending, np.searchsorted(ascending, starts[1:]))
        calls = [(i, local[i] - starts[i]) for i in range(len(local)) if len(local[i])]
        # Without positions, the first partition shows the type of the rows.
        pairs = dask.compute(*partitions.apply(_take_rows, calls or [(0, local[0])]))
        return take_both(*stack_chunks(pairs), np.argsort(order))

    def map_lazily(self, function: Callable[[Any], Any], n_columns: int | None, dtype: Any) -> Any:
        """Return a function of the checked rows of each partition, as a Dask array that is not computed yet.

        The function returns an array of this dtype: one value per row, or `n_columns` values if these are
        not None.
        """
        X, n_features = self._collection, self.n_features

        def of_rows(rows: ArrayRows) -> Any:
            return function(check_values(rows.values, n_features, rows.first_row, allows_missing=True)[0])

        task = PartitionTask(of_rows, n_features, self.names)
        meta = np.zeros((0,) if n_columns is None else (0, n_columns), dtype=dtype)
        if not isinstance(X, da.Array):
            return X.map_partitions(task, meta=meta)
        first_rows = _first_rows(_known_lengths(X), X.numblocks[0])

        def of_block(block: Any, block_id: tuple[int, ...]) -> Any:
            return task(block, block_id[0], first_rows[block_id[0]])

        chunks = X.chunks[:1] if n_columns is None else (X.chunks[0], (n_columns,))
        drop_axis = 1 if n_columns is None else None
        return X.map_blocks(of_block, dtype=dtype, chunks=chunks, drop_axis=drop_axis, meta=meta)


# --- the partitions of a collection ------------------------------------------------


@dataclass(eq=False)
class Partitions:
    """The partitions of a Dask collection.

    Attributes
    ----------
    parts : list
        Of Delayed arrays or dataframes; or of pairs of one and its weights or None.
    n_features : int
    is_weighted : bool
        Whether the user gave weights.
    lengths : ndarray of int, shape (n_partitions,), or None
        The number of rows of each partition; None if it is not known yet.
    names : tuple of str or None
        The names of the columns that partitions must have, if they are dataframes.
    """

    parts: list[Any]
    n_features: int
    is_weighted: bool = False
    lengths: IndexArray | None = None
    names: tuple[str, ...] | None = None
    # Not functools.cached_property: before Python 3.12 all instances share its lock, which would be held
    # while a cluster counts, and fits in several threads of a worker would deadlock.
    _counts: IndexArray | None = None

    @property
    def counts(self) -> IndexArray:
        """The number of rows of each partition, and of those with weight, shape (n_partitions, 2)."""
        if self._counts is None:
            if self.lengths is None or self.is_weighted:
                self._counts = np.array(dask.compute(*self.apply(_count_rows)), dtype=np.int64)
                self.lengths = self._counts[:, 0]
            else:
                self._counts = np.stack([self.lengths, self.lengths], axis=1)
        return self._counts

    @property
    def starts(self) -> IndexArray:
        """The position of the first row of each partition, among the rows with weight."""
        return np.cumsum(self.counts[:, 1]) - self.counts[:, 1]

    def message_if_empty(self) -> str:
        """Return the error message for partitions without any row to sum over."""
        if self.is_weighted and self.counts[:, 0].any():
            return "The weights of the rows are all zero."
        return "X has no rows."

    def apply(self, function: Callable[..., Any], calls: list[tuple[Any, ...]] | None = None) -> list[Any]:
        """Return a function of the rows of partitions, not computed yet.

        A call is the index of a partition, and further arguments of the function. By default, there is one
        call for each partition.
        """
        task = dask.delayed(PartitionTask(function, self.n_features, self.names), pure=False, traverse=False)
        parts = self._numbered_parts()
        return [task(*parts[i], *arguments) for i, *arguments in calls or [(i,) for i in range(len(parts))]]

    def _numbered_parts(self) -> list[tuple[Any, int, int | None]]:
        """Return each partition, its index, and the index of its first row if that is known."""
        n_parts = len(self.parts)
        return list(zip(self.parts, range(n_parts), _first_rows(self.lengths, n_parts), strict=True))

    def merge(self) -> Partitions:
        """Return partitions that a cluster holds as one for each thread of its workers, in their order.

        Scheduling a task takes longer than the arithmetic of a small partition. Few partitions are left as
        they are, and so are those that would become larger than Dask's own chunks.
        """
        n_merged = max(1, sum(_client().nthreads().values()))
        if len(self.parts) <= FAN_IN * n_merged:
            return self
        lengths = self.counts[:, 0] if self.lengths is None else self.lengths
        if 8 * self.n_features * lengths.sum() > n_merged * parse_bytes(dask.config.get("array.chunk-size")):
            return self
        task = PartitionTask(_values_and_weights, self.n_features, self.names)
        join, parts = dask.delayed(_merge, pure=False), self._numbered_parts()
        groups = np.array_split(np.arange(len(parts)), n_merged)
        merged = dask.persist(*(join(task, [parts[i] for i in group]) for group in groups))
        n_rows = np.array([lengths[group].sum() for group in groups])
        return Partitions(list(merged), self.n_features, self.is_weighted, n_rows)


def open_partitions(
    X: Any, sample_weight: Any, n_features: int, names: tuple[str, ...] | None = None
) -> Partitions:
    """Return the partitions of an array or a dataframe and their weights, merged if that saves time."""
    parts, is_held = _parts(X)
    rows = Partitions(parts, n_features, lengths=_known_lengths(X), names=names)
    if sample_weight is not None:
        weights, _ = _parts(_aligned_weights(sample_weight, rows))
        pairs = list(zip(parts, weights, strict=True))
        rows = Partitions(pairs, n_features, is_weighted=True, lengths=rows.lengths, names=names)
    return rows.merge() if is_held else rows


def _parts(X: Any) -> tuple[list[Any], bool]:
    """Return the partitions of a collection, and whether a cluster holds them, or what they are made of.

    If the data are inside the graph, they are sent to the cluster now, and not again in every pass.
    """
    # This optimises the graph once.
    delayed = X.to_delayed()
    parts = list(getattr(delayed, "flat", delayed))
    if _client() is None:
        return parts, False
    from distributed import futures_of

    if len(futures_of(X)) >= len(parts):
        return parts, True
    graph = dict(parts[0].__dask_graph__())
    n_bytes = X.nbytes if isinstance(X, da.Array) else np.nan
    # A graph that only makes the data is smaller than they are.
    max_bytes = MAX_TASK_BYTES * len(graph) if np.isnan(n_bytes) else n_bytes / 2
    if len(cloudpickle.dumps(graph)) <= max_bytes:
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
    if not hasattr(sample_weight, "__dask_graph__"):
        sample_weight = da.from_array(np.asarray(sample_weight), chunks=-1)
    elif getattr(sample_weight, "ndim", None) != 1:
        raise ValueError("sample_weight must be of one dimension: an array or a series of Dask.")
    elif not isinstance(sample_weight, da.Array):
        sample_weight = sample_weight.to_dask_array()
    is_known = _known_lengths(sample_weight) is not None
    if sample_weight.numblocks[0] == len(rows.parts) and not (is_known and rows.lengths is not None):
        # Each task checks that its weights have the length of its partition.
        return sample_weight
    if not is_known:
        # compute_chunk_sizes writes into the array it is called on: the user's stays as it is.
        sample_weight = sample_weight.copy().compute_chunk_sizes()
    lengths = rows.counts[:, 0].tolist()
    if sample_weight.shape != (sum(lengths),):
        raise ValueError(f"sample_weight must have shape ({sum(lengths)},); got {sample_weight.shape}.")
    return sample_weight.rechunk((tuple(lengths),))


def _known_lengths(X: Any) -> IndexArray | None:
    """Return the number of rows of each partition, or None if it is not known."""
    is_known = isinstance(X, da.Array) and not np.isnan(X.chunks[0]).any()
    return np.array(X.chunks[0], dtype=np.int64) if is_known else None


def _first_rows(lengths: IndexArray | None, n_partitions: int) -> list[Any]:
    """Return the index of the first row of each partition, or None for each."""
    return [None] * n_partitions if lengths is None else (np.cumsum(lengths) - lengths).tolist()


# --- functions that run where a partition is ---------------------------------------


@dataclass(frozen=True, eq=False)
class PartitionTask:
    """A function of the rows of a partition and further arguments, called where the partition is.

    `n_features` and `names` are the expected number of columns and, if known, their names.
    """

    # Dask makes the keys of its tasks from this name; without it, from the text of all fields.
    __name__ = "apolar-rows"

    function: Callable[..., Any]
    n_features: int
    names: tuple[str, ...] | None

    def __call__(
        self, part: Any, index: int | None = None, first_row: int | None = None, *arguments: Any
    ) -> Any:
        """Return the function of a partition; its index and its first row are for messages."""
        try:
            return self.function(self._rows(part, index, first_row or 0), *arguments)
        except (TypeError, ValueError) as error:
            if first_row is not None or getattr(error, "row", None) is None:
                raise
            # The number of rows in the partitions before this one is not known.
            partition = "their partition" if index is None else f"partition {index}"
            raise type(error)(f"{error} Rows are counted from the first of {partition}.") from error

    def _rows(self, part: Any, index: int | None, first_row: int) -> ArrayRows:
        """Return the rows of a partition, after checking their columns and weights."""
        part, weights = part if isinstance(part, tuple) else (part, None)
        rows = source_kind(part).open(part, None)
        if rows.device_template is not None:
            library = type(part).__module__.partition(".")[0]
            raise TypeError(
                f"The blocks of X are of {library}: a cluster works with those of NumPy. Pass "
                "X.map_blocks(numpy.asarray)."
            )
        if rows.n_features != self.n_features:
            raise ValueError(f"Partition {index} of X has {rows.n_features} columns, not {self.n_features}.")
        if rows.names is not None and self.names is not None and rows.names != self.names:
            raise ValueError(
                "A partition of X has other columns than X, or in another order: "
                f"{', '.join(rows.names)[:200]}; {', '.join(self.names)[:200]}. Select them by name in each "
                "partition: X.map_partitions(lambda part: part[names])."
            )
        values, _ = rows.take(slice(None))
        if values.dtype.kind == "O":
            values, _ = check_values(values, self.n_features, first_row, allows_missing=True)
        if weights is not None:
            if np.shape(weights) != (rows.n_rows,):
                raise ValueError(
                    f"Partition {index} has {rows.n_rows} rows, and its sample_weight is of shape "
                    f"{np.shape(weights)}: give X and sample_weight the same partitions."
                )
            weights = check_weights(weights, values, first_row)
        return ArrayRows(values, weights, first_row=first_row)


def _reduce_rows(rows: ArrayRows, function: RowFunction, chunk_rows: Any) -> list[Any] | None:
    """Return the sums over a partition; None for no rows."""
    return add_up(result for _, result in rows.results(function, 1, chunk_rows))


def _first_result(rows: ArrayRows, function: RowFunction) -> Any:
    """Return what a function returns for the first chunk with a result; None for no rows."""
    results = rows.results(function, 1, max(1, CHUNK_SIZE // rows.n_features))
    return next((result for _, result in results if result is not None), None)


def _values_and_weights(rows: ArrayRows) -> tuple[Any, Any]:
    return rows.values, rows.weights


def _merge(task: PartitionTask, numbered_parts: list[tuple[Any, ...]]) -> tuple[Any, Any]:
    """Return the rows and the weights of several partitions as those of one."""
    return stack_chunks(task(*part) for part in numbered_parts)


def _weighted_positions(rows: ArrayRows) -> IndexArray:
    return np.arange(rows.n_rows) if rows.weights is None else np.flatnonzero(rows.weights > 0)


def _count_rows(rows: ArrayRows) -> tuple[int, int]:
    """Return the number of rows, and of those with weight."""
    return rows.n_rows, len(_weighted_positions(rows))


def _take_rows(rows: ArrayRows, positions: IndexArray) -> tuple[Any, Any]:
    """Return the rows at some positions among those with weight, and their weights or None."""
    return rows.take(_weighted_positions(rows)[positions])


def _sample_rows(rows: ArrayRows, start: int, step: int) -> tuple[Any, Any]:
    """Return one of every `step` rows with weight; `start` is the position of the first in all partitions."""
    _, n_weighted = _count_rows(rows)
    return _take_rows(rows, sample_positions(start, start + n_weighted, step))
