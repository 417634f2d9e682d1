"""The partitions of a Dask collection with their weights, and what is summed over them."""

from __future__ import annotations

import functools
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import cloudpickle
import dask
import numpy as np
from dask import array as da

from apolar._core.arrays import IndexArray
from apolar.data.dask.persisted import FAN_IN, PersistedPartitions, futures_behind
from apolar.data.dask.tasks import PartitionInfo, apply_to_partition, count_rows, reduce_partition
from apolar.data.reduce import add_up

# Bytes of data inside the graph, which would go to a cluster with every pass, above which they go once. A
# task without data takes no more bytes than this.
MOST_EMBEDDED = 2**16
TASK_SIZE = 2**11


class Partitions:
    """The partitions, their weights, and what is known of their lengths.

    Attributes
    ----------
    parts : list of Delayed
        Arrays or dataframes; or pairs of an array and its weights.
    weights : list of Delayed or None
    lengths : ndarray of int or None
        How many rows each partition has, if that is known.
    n_features : int
    """

    def __init__(
        self, parts: list[Any], weights: list[Any] | None, lengths: IndexArray | None, n_features: int
    ) -> None:
        self.parts, self.weights, self.lengths, self.n_features = parts, weights, lengths, n_features
        # What the partitions are of: they may be in the memory of a cluster already.
        self.collections: tuple[Any, ...] = ()

    @functools.cached_property
    def counts(self) -> IndexArray:
        """How many rows each partition has, and how many with weight, shape (n_partitions, 2)."""
        if self.lengths is None or self.weights is not None:
            pairs = self.compute([(count_rows, b"", i) for i in range(len(self.parts))])
            counts = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            self.lengths = counts[:, 0]
            return counts
        return np.stack([self.lengths, self.lengths], axis=1)

    @property
    def starts(self) -> IndexArray:
        """The number of the first row of each partition, among those with weight."""
        ends = np.cumsum(self.counts[:, 1])
        return ends - self.counts[:, 1]

    @property
    def is_weighted(self) -> bool:
        """Whether the user gave weights."""
        return self.weights is not None

    def may_have_rows(self, i: int) -> bool:
        """Return whether a partition has rows, or might have some."""
        return self.lengths is None or bool(self.lengths[i] > 0)

    def why_none(self) -> str:
        """Return the message for the user where there is no row."""
        if self.is_weighted and self.counts[:, 0].any():
            return "The weights of the rows are all zero."
        return "X has no rows."

    @functools.cached_property
    def persisted(self) -> PersistedPartitions | None:
        """The partitions as they lie in the memory of a cluster, if all of them do."""
        client = client_of(self.parts)
        if client is None or _is_inside_a_task():
            # In a task, Dask's own way of waiting gives the thread back.
            return None
        futures = futures_behind(self.parts, self.collections)
        weights = None if self.weights is None else futures_behind(self.weights, self.collections)
        if futures is None or (self.weights is not None and weights is None):
            return None
        return PersistedPartitions(client, futures, weights)

    def reduce(self, payload: bytes) -> list[Any] | None:
        """Return the sums of the statistic of a payload, added up as a tree; None of no rows."""
        if self.persisted is not None:
            return self.persisted.reduce(payload, self.infos())
        token = uuid.uuid4().hex
        layer = self._delayed([(reduce_partition, payload, i) for i in range(len(self.parts))], "sum", token)
        add, depth = dask.delayed(add_up, pure=False), 0
        while len(layer) > 1:
            groups = [layer[i : i + FAN_IN] for i in range(0, len(layer), FAN_IN)]
            layer = [
                add(group, dask_key_name=f"apolar-add-{token}-{depth}-{i}") for i, group in enumerate(groups)
            ]
            depth += 1
        return dask.compute(layer[0])[0] if layer else None

    def compute(self, tasks: list[tuple[Any, ...]]) -> list[Any]:
        """Return the results of tasks (function, payload, number of the partition, further arguments)."""
        if self.persisted is not None:
            return self.persisted.compute(tasks, self.infos())
        return list(dask.compute(*self._delayed(tasks, "part", uuid.uuid4().hex)))

    def delayed(
        self, function: Callable[..., Any], payload: bytes, name: str, arguments: list[Any]
    ) -> list[Any]:
        """Return a function of each partition, not yet computed, with one further argument each."""
        tasks = [(function, payload, i, argument) for i, argument in enumerate(arguments)]
        return self._delayed(tasks, name, uuid.uuid4().hex)

    def infos(self) -> list[PartitionInfo]:
        """Return where each partition is among the rows."""
        n_parts = len(self.parts)
        if self.lengths is None:
            return [(i, None, self.n_features) for i in range(n_parts)]
        firsts = (np.cumsum(self.lengths) - self.lengths).tolist()
        return [(i, firsts[i], self.n_features) for i in range(n_parts)]

    def _delayed(self, tasks: list[tuple[Any, ...]], name: str, token: str) -> list[Any]:
        # One key that all tasks refer to: the payload is sent once.
        payloads: dict[bytes, Any] = {}
        infos = self.infos()
        apply = dask.delayed(apply_to_partition, pure=False, traverse=False)
        calls = []
        for function, payload, i, *arguments in tasks:
            if payload not in payloads:
                key = f"apolar-job-{token}-{len(payloads)}"
                payloads[payload] = dask.delayed(payload, name=key, traverse=False)
            weights = None if self.weights is None else self.weights[i]
            call = (function, payloads[payload], self.parts[i], weights, infos[i], *arguments)
            calls.append(apply(*call, dask_key_name=f"apolar-{name}-{token}-{i}"))
        return calls


def opened_partitions(X: Any, sample_weight: Any) -> Partitions:
    """Return the partitions of a collection with their weights."""
    is_array = isinstance(X, da.Array)
    lengths = _known_lengths(X.chunks[0]) if is_array else None
    n_features = X.shape[1] if is_array else len(X.columns)
    opened = Partitions(_partitions(X), None, lengths, n_features)
    if sample_weight is not None:
        weights = _weight_partitions(sample_weight, opened)
        opened = Partitions(opened.parts, weights, opened.lengths, n_features)
    # Data that are in the graph itself go to a cluster once, not with every pass; they were in memory here.
    client = client_of(opened.parts)
    if client is not None:
        nbytes = X.nbytes if is_array else np.nan
        embedded = _embedded(opened.parts)
        if embedded > MOST_EMBEDDED and not nbytes > 2 * embedded:
            opened.parts = _sent(opened.parts)
        if opened.weights is not None and _embedded(opened.weights) > MOST_EMBEDDED:
            opened.weights = _sent(opened.weights)
        opened.collections = tuple(given for given in (X, sample_weight) if hasattr(given, "__dask_graph__"))
    return opened


def _sent(parts: list[Any]) -> list[Any]:
    """Return partitions that are kept where the work is done."""
    with warnings.catch_warnings():
        # That they are large is known: they go once.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return list(dask.persist(*parts))


def _known_lengths(chunks: tuple[Any, ...]) -> IndexArray | None:
    return None if np.isnan(chunks).any() else np.array(chunks, dtype=np.int64)


def _partitions(X: Any) -> list[Any]:
    """Return the partitions of an array or dataframe; their graph is optimised here, once."""
    delayed = X.to_delayed()
    return list(delayed.ravel() if isinstance(delayed, np.ndarray) else delayed)


def _weight_partitions(sample_weight: Any, rows: Partitions) -> list[Any]:
    """Return the weights of the rows of each partition."""
    given = sample_weight
    if not hasattr(given, "__dask_graph__"):
        lengths = rows.counts[:, 0]
        given = np.asarray(given)
        _check_length(given.shape, int(lengths.sum()))
        return _partitions(da.from_array(given, chunks=(tuple(lengths.tolist()),)))
    if getattr(given, "ndim", None) != 1:
        raise ValueError("sample_weight must be of one dimension: an array or a series of Dask.")
    known = _known_lengths(given.chunks[0]) if isinstance(given, da.Array) else None
    if rows.lengths is not None and known is not None:
        _check_length((int(known.sum()),), int(rows.lengths.sum()))
        return _partitions(given.rechunk((tuple(rows.lengths.tolist()),)))
    partitions = _partitions(given)
    if len(partitions) == len(rows.parts):
        # Whether they have as many rows is checked in each partition.
        return partitions
    if known is None:
        # A copy: the sizes would be written into the array of the user.
        is_array = isinstance(given, da.Array)
        given = given.copy().compute_chunk_sizes() if is_array else given.to_dask_array(lengths=True)
    lengths = rows.counts[:, 0]
    _check_length((int(given.shape[0]),), int(lengths.sum()))
    return _partitions(given.rechunk((tuple(lengths.tolist()),)))


def _check_length(shape: tuple[int, ...], n_rows: int) -> None:
    if shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},); got {shape}.")


def client_of(parts: list[Any]) -> Any:
    """Return the client of the cluster that the work will go to, or None."""
    scheduler = dask.base.get_scheduler(collections=parts[:1])
    client = getattr(scheduler, "__self__", None)
    return client if hasattr(client, "scatter") else None


def _is_inside_a_task() -> bool:
    """Return whether a worker of a cluster is running this."""
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _embedded(parts: list[Any]) -> int:
    """Return about how many bytes of data are in the graph of partitions."""
    graph = dict(parts[0].__dask_graph__()) if parts else {}
    buffers: list[Any] = []
    # Out of band, arrays are not copied.
    pickled = cloudpickle.dumps(graph, protocol=5, buffer_callback=buffers.append)
    return sum(buffer.raw().nbytes for buffer in buffers) + max(0, len(pickled) - TASK_SIZE * len(graph))
