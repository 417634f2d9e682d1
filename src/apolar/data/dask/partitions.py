"""The partitions of a Dask collection and their weights: functions of each, and sums over all of them."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable
from typing import Any

import cloudpickle
import dask
import numpy as np
from dask import array as da

from apolar._core.arrays import IndexArray
from apolar.data.dask.persisted import FAN_IN, PersistedPartitions, persisted_futures
from apolar.data.dask.tasks import PartitionInfo, apply_to_partition, count_rows, reduce_partition
from apolar.data.reduce import add_up

# Data inside the graph would be sent to a cluster in every pass: above this many bytes they are sent once,
# and persisted there.
MAX_EMBEDDED_BYTES = 2**16
# The pickled size of a task without data is below this many bytes.
TASK_BYTES = 2**11

PartitionCall = tuple[Any, ...]
"""The index of a partition, and further arguments of the function that is applied to it."""


class Partitions:
    """The partitions of a Dask collection and their weights.

    Attributes
    ----------
    parts : list of Delayed
        Arrays or dataframes; or pairs of an array and its weights.
    weights : list of Delayed or None
    lengths : ndarray of int, shape (n_partitions,), or None
        The number of rows of each partition; None if it is not known yet.
    n_features : int
    collections : tuple of Dask collections
        Those the partitions and weights belong to: they may be persisted on a cluster already.
    names : tuple of str or None
        The names of the columns that partitions must have, if they are dataframes.
    """

    def __init__(
        self,
        parts: list[Any],
        weights: list[Any] | None,
        lengths: IndexArray | None,
        n_features: int,
        collections: tuple[Any, ...] = (),
        names: tuple[str, ...] | None = None,
    ) -> None:
        self.parts, self.weights, self.lengths, self.n_features = parts, weights, lengths, n_features
        self.collections, self.names = collections, names
        # Not functools.cached_property: before Python 3.12 all instances share its lock, which would be held
        # while a cluster works, and fits in several threads of a worker would deadlock.
        self._counts: IndexArray | None = None
        self._persisted: PersistedPartitions | None = None
        self._is_persisted: bool | None = None

    @property
    def counts(self) -> IndexArray:
        """The number of rows of each partition, and of those with weight, shape (n_partitions, 2)."""
        if self._counts is None:
            if self.lengths is None or self.weights is not None:
                pairs = self.compute(count_rows, b"", [(i,) for i in range(len(self.parts))])
                self._counts = np.array(pairs, dtype=np.int64).reshape(-1, 2)
                self.lengths = self._counts[:, 0]
            else:
                self._counts = np.stack([self.lengths, self.lengths], axis=1)
        return self._counts

    @property
    def starts(self) -> IndexArray:
        """The position of the first row of each partition, among the rows with weight."""
        ends = np.cumsum(self.counts[:, 1])
        return ends - self.counts[:, 1]

    @property
    def is_weighted(self) -> bool:
        """Whether the user gave weights."""
        return self.weights is not None

    def may_have_rows(self, i: int) -> bool:
        """Return whether a partition has rows, or its length is not known."""
        return self.lengths is None or bool(self.lengths[i] > 0)

    def message_if_empty(self) -> str:
        """Return the error message for partitions without any row to sum over."""
        if self.is_weighted and self.counts[:, 0].any():
            return "The weights of the rows are all zero."
        return "X has no rows."

    @property
    def persisted(self) -> PersistedPartitions | None:
        """The partitions in the memory of a cluster; None unless all of them are persisted there."""
        if self._is_persisted is None:
            self._persisted = self._find_persisted()
            self._is_persisted = self._persisted is not None
        return self._persisted

    def _find_persisted(self) -> PersistedPartitions | None:
        client = client_of(self.parts)
        if client is None or _is_inside_a_task():
            # Inside a task, dask.compute lets other tasks use the thread while it waits; a client does not.
            return None
        futures = persisted_futures(self.parts, self.collections)
        weights = None if self.weights is None else persisted_futures(self.weights, self.collections)
        if futures is None or (self.weights is not None and weights is None):
            return None
        return PersistedPartitions(client, futures, weights)

    def reduce(self, payload: bytes) -> list[Any] | None:
        """Return the sums of a pickled statistic over all partitions, added in a tree; None for no rows."""
        if self.persisted is not None:
            return self.persisted.reduce(payload, self.infos())
        token = uuid.uuid4().hex
        layer = self._delayed(reduce_partition, payload, [(i,) for i in range(len(self.parts))], "sum", token)
        add, depth = dask.delayed(add_up, pure=False), 0
        while len(layer) > 1:
            groups = [layer[i : i + FAN_IN] for i in range(0, len(layer), FAN_IN)]
            layer = [
                add(group, dask_key_name=f"apolar-add-{token}-{depth}-{i}") for i, group in enumerate(groups)
            ]
            depth += 1
        return dask.compute(layer[0])[0] if layer else None

    def compute(self, function: Callable[..., Any], payload: bytes, calls: list[PartitionCall]) -> list[Any]:
        """Return the results of a function, one for each call."""
        if self.persisted is not None:
            return self.persisted.compute(function, payload, calls, self.infos())
        return list(dask.compute(*self._delayed(function, payload, calls, "part", uuid.uuid4().hex)))

    def delayed(self, function: Callable[..., Any], payload: bytes, calls: list[PartitionCall]) -> list[Any]:
        """Return the results of a function, one for each call, not computed yet."""
        return self._delayed(function, payload, calls, "delayed", uuid.uuid4().hex)

    def infos(self) -> list[PartitionInfo]:
        """Return the index, the first row and the columns of each partition."""
        firsts: list[Any] = [None] * len(self.parts)
        if self.lengths is not None:
            firsts = (np.cumsum(self.lengths) - self.lengths).tolist()
        return [(i, first, self.n_features, self.names) for i, first in enumerate(firsts)]

    def _delayed(
        self,
        function: Callable[..., Any],
        payload: bytes,
        calls: list[PartitionCall],
        name: str,
        token: str,
    ) -> list[Any]:
        # All tasks refer to the payload by one key, so that it is sent once.
        shared_payload = dask.delayed(payload, name=f"apolar-payload-{token}", traverse=False)
        infos = self.infos()
        apply = dask.delayed(apply_to_partition, pure=False, traverse=False)
        results = []
        for i, *arguments in calls:
            weights = None if self.weights is None else self.weights[i]
            arguments = [function, shared_payload, self.parts[i], weights, infos[i], *arguments]
            results.append(apply(*arguments, dask_key_name=f"apolar-{name}-{token}-{i}"))
        return results


def dask_partitions(X: Any, sample_weight: Any, names: tuple[str, ...] | None = None) -> Partitions:
    """Return the partitions of an array or a dataframe of Dask, and their weights.

    Parameters
    ----------
    X : dask array or dask dataframe, shape (n_samples, n_features)
        Of one chunk of columns.
    sample_weight : dask array, dask series or array_like, shape (n_samples,), or None
    names : tuple of str, optional
        The names of the columns of a dataframe.

    Returns
    -------
    partitions : Partitions
    """
    is_array = isinstance(X, da.Array)
    parts, weights = _partitions(X), None
    lengths = _known_lengths(X.chunks[0]) if is_array else None
    n_features = X.shape[1] if is_array else len(X.columns)
    if sample_weight is not None:
        unweighted = Partitions(parts, None, lengths, n_features, names=names)
        weights = _weight_partitions(sample_weight, unweighted)
        # Counted where the weights had to be split.
        lengths = unweighted.lengths
    if client_of(parts) is None:
        return Partitions(parts, weights, lengths, n_features, names=names)
    embedded = _embedded_bytes(parts)
    # Data that are much larger than what the graph holds are made by its tasks, and may not fit into memory.
    is_made_by_tasks = is_array and X.nbytes > 2 * embedded
    if embedded > MAX_EMBEDDED_BYTES and not is_made_by_tasks:
        parts = _persist(parts)
    if weights is not None and _embedded_bytes(weights) > MAX_EMBEDDED_BYTES:
        weights = _persist(weights)
    collections = tuple(source for source in (X, sample_weight) if hasattr(source, "__dask_graph__"))
    return Partitions(parts, weights, lengths, n_features, collections, names)


def _persist(parts: list[Any]) -> list[Any]:
    """Return partitions in the memory of the cluster."""
    with warnings.catch_warnings():
        # Dask warns of large graphs because they are usually sent again and again; this one is sent once.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return list(dask.persist(*parts))


def _known_lengths(chunks: tuple[Any, ...]) -> IndexArray | None:
    return None if np.isnan(chunks).any() else np.array(chunks, dtype=np.int64)


def _partitions(X: Any) -> list[Any]:
    """Return the partitions of an array or a dataframe; to_delayed optimises their graph once."""
    delayed = X.to_delayed()
    return list(delayed.ravel() if isinstance(delayed, np.ndarray) else delayed)


def _weight_partitions(sample_weight: Any, rows: Partitions) -> list[Any]:
    """Return the weights of the rows of each partition."""
    if not hasattr(sample_weight, "__dask_graph__"):
        lengths = rows.counts[:, 0]
        weights = np.asarray(sample_weight)
        _check_length(weights.shape, int(lengths.sum()))
        return _partitions(da.from_array(weights, chunks=(tuple(lengths.tolist()),)))
    if getattr(sample_weight, "ndim", None) != 1:
        raise ValueError("sample_weight must be of one dimension: an array or a series of Dask.")
    is_array = isinstance(sample_weight, da.Array)
    weight_lengths = _known_lengths(sample_weight.chunks[0]) if is_array else None
    if rows.lengths is not None and weight_lengths is not None:
        _check_length((int(weight_lengths.sum()),), int(rows.lengths.sum()))
        return _partitions(sample_weight.rechunk((tuple(rows.lengths.tolist()),)))
    partitions = _partitions(sample_weight)
    if len(partitions) == len(rows.parts):
        # Each task checks that its weights have the length of its partition.
        return partitions
    if weight_lengths is None:
        # compute_chunk_sizes writes into the array it is called on: the user's stays as it is.
        sample_weight = (
            sample_weight.copy().compute_chunk_sizes()
            if is_array
            else sample_weight.to_dask_array(lengths=True)
        )
    lengths = rows.counts[:, 0]
    _check_length((int(sample_weight.shape[0]),), int(lengths.sum()))
    return _partitions(sample_weight.rechunk((tuple(lengths.tolist()),)))


def _check_length(shape: tuple[int, ...], n_rows: int) -> None:
    if shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},); got {shape}.")


def client_of(parts: list[Any]) -> Any:
    """Return the client of the cluster that computes these partitions; None if there is no cluster."""
    scheduler = dask.base.get_scheduler(collections=parts[:1])
    client = getattr(scheduler, "__self__", None)
    return client if hasattr(client, "scatter") else None


def _is_inside_a_task() -> bool:
    """Return whether this code runs in a task on a worker of a cluster."""
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _embedded_bytes(parts: list[Any]) -> int:
    """Return about how many bytes of data the graph of the partitions contains."""
    graph = dict(parts[0].__dask_graph__()) if parts else {}
    buffers: list[Any] = []
    # Pickled out of band, arrays are not copied.
    pickled = cloudpickle.dumps(graph, protocol=5, buffer_callback=buffers.append)
    return sum(buffer.raw().nbytes for buffer in buffers) + max(0, len(pickled) - TASK_BYTES * len(graph))
