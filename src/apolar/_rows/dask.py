"""Arrays and dataframes of Dask: work is sent to their partitions, and only sums come back."""

from __future__ import annotations

import functools
import pickle
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import dask
import numpy as np
from dask import array as da
from dask.delayed import Delayed
from scipy import sparse

from apolar._arrays import Array, IndexArray
from apolar._namespaces import is_foreign
from apolar._rows.checks import checked_block, checked_weights, numbers_of, table_shape
from apolar._rows.frames import as_frame, frame_values
from apolar._rows.rows import KEPT_SAMPLE, Change, Job, Rows, from_arrays, thinned_positions

# Sums that are added up by one task.
FAN_IN = 8
# After so many passes it is looked up again where the partitions are.
REGROUPED = 10
# A thinned sample of no more rows and numbers than this is fetched: passes over it are then local.
FETCHED_ROWS = 20_000
FETCHED_SAMPLE = 2**18
# Bytes of data inside the graph, which would go to a cluster with every pass, above which they go once. A
# task without data takes no more bytes than this.
MOST_EMBEDDED = 2**16
TASK_SIZE = 2**11


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
        return DaskRows(functools.cache(lambda: _opened(X, sample_weight)), len(names), X, named)
    _, n_features = table_shape(X)
    if np.isnan(n_features):
        raise ValueError("The number of columns of X is not known: call X.compute_chunk_sizes() first.")
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    # Sparse blocks count as such; how many numbers they hold, each partition tells for itself.
    row_size = float(n_features) if sparse.issparse(X._meta) else None
    return DaskRows(functools.cache(lambda: _opened(X, sample_weight)), n_features, X, row_size=row_size)


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
        open_source: Callable[[], _Source],
        n_features: int,
        collection: Any = None,
        names: tuple[str, ...] | None = None,
        row_size: float | None = None,
        changes: tuple[tuple[Change, int | None], ...] = (),
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

    _open_source: Callable[[], _Source]
    _collection: Any
    _changes: tuple[tuple[Change, int | None], ...]

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
        found = self._open_source().summed(self._parcel(job))
        if found is None:
            raise ValueError(self._open_source().why_none())
        return found

    def head(self, job: Callable[[Rows], Any]) -> Any:
        """Return what a job makes of the first partition that has rows."""
        source, parcel = self._open_source(), self._parcel(_Wrapped(job))
        for i in range(len(source.parts)):
            if source.may_have_rows(i):
                found = source.computed([(_done, parcel, i)])[0]
                if found is not None:
                    return found[0]
        raise ValueError(source.why_none())

    def changed(self, change: Change, n_features: int | None = None) -> DaskRows:
        """Return the rows with a change to each chunk, made where they are when they are read."""
        return DaskRows(
            self._open_source,
            self.n_features if n_features is None else n_features,
            row_size=self.row_size,
            changes=(*self._changes, (change, n_features)),
        )

    def thinned(self, step: int) -> Rows:
        """Return one of each `step` rows: the same as of these rows in memory."""
        source = self._open_source()
        n_rows = self.n_rows // step
        n_numbers = n_rows * self.n_features
        is_small = n_rows <= FETCHED_ROWS and n_numbers <= FETCHED_SAMPLE
        if is_small or (n_numbers <= KEPT_SAMPLE and _client(source.parts) is None):
            # Without a cluster, this is where the rows are.
            values, weights = self.take(thinned_positions(0, self.n_rows, step))
            return from_arrays(values, weights)
        starts, parcel = [int(start) for start in source.starts], self._parcel(step)
        if source.held is not None:
            sample = source.held.thinned(parcel, source._places(), starts)
        else:
            sample = source.mapped(_thin, parcel, "thin", starts)
            if n_numbers <= KEPT_SAMPLE:
                # Kept there: to choose from all rows again at each pass might read them from files again.
                sample = list(dask.persist(*sample))
        kept = _Source(sample, None, None, self.n_features)
        return DaskRows(lambda: kept, self.n_features, row_size=self.row_size)

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights; the partitions come here one at a time."""
        source = self._open_source()
        for i in range(len(source.parts)):
            found = source.computed([(_done, self._parcel(_whole), i)])[0]
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
        parcel = self._parcel(None)
        for i, start in enumerate(source.starts):
            chosen = positions[order[cuts[i] : cuts[i + 1]]] - start
            if len(chosen):
                tasks.append((_chosen, parcel, i, chosen))
        if not tasks:
            return np.zeros((0, self.n_features)), np.zeros(0) if source.is_weighted else None
        found = source.computed(tasks)
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        values = _stacked([values for values, _ in found])[back]
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
        parcel = cloudpickle.dumps((function, self.n_features))
        meta = np.zeros((0,) if n_columns is None else (0, n_columns), dtype=dtype)
        if not isinstance(X, da.Array):
            return X.map_partitions(_Answers(parcel), meta=meta)
        lengths = X.chunks[0]
        known = not np.isnan(lengths).any()
        answers = _Answers(parcel, tuple(np.cumsum([0, *lengths[:-1]]).tolist()) if known else None)
        chunks = (lengths,) if n_columns is None else (lengths, (n_columns,))
        dropped = 1 if n_columns is None else None
        return X.map_blocks(answers, dtype=dtype, chunks=chunks, drop_axis=dropped, meta=meta)

    def __repr__(self) -> str:
        # Not the number of rows: that may have to be counted.
        return f"DaskRows(n_features={self.n_features})"

    def _parcel(self, job: Any) -> bytes:
        """Return a job as it is sent: once a pass, and opened by each task for itself.

        Threads would otherwise share its working memory.
        """
        return cloudpickle.dumps((job, self._changes))


class _Source:
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
            found = self.computed([(_counted, b"", i) for i in range(len(self.parts))])
            counts = np.array(found, dtype=np.int64).reshape(-1, 2)
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
        """Return what to tell the user where no row was found."""
        if self.is_weighted and self.counts[:, 0].any():
            return "The weights of the rows are all zero."
        return "X has no rows."

    @functools.cached_property
    def held(self) -> _Held | None:
        """The partitions as they lie in the memory of a cluster, if all of them do."""
        client = _client(self.parts)
        if client is None or _is_inside_a_task():
            # In a task, Dask's own way of waiting gives the thread back.
            return None
        futures = _futures(self.parts, self.collections)
        weights = None if self.weights is None else _futures(self.weights, self.collections)
        if futures is None or (self.weights is not None and weights is None):
            return None
        return _Held(client, futures, weights)

    def summed(self, parcel: bytes) -> list[Any] | None:
        """Return the sums of a job over all partitions, added up as a tree; None of no rows."""
        if self.held is not None:
            return self.held.summed(parcel, self._places())
        token = uuid.uuid4().hex
        layer = self._delayed([(_done, parcel, i) for i in range(len(self.parts))], "sum", token)
        add, depth = dask.delayed(_added, pure=False), 0
        while len(layer) > 1:
            groups = [layer[i : i + FAN_IN] for i in range(0, len(layer), FAN_IN)]
            layer = [
                add(*group, dask_key_name=f"apolar-add-{token}-{depth}-{i}") for i, group in enumerate(groups)
            ]
            depth += 1
        return dask.compute(layer[0])[0] if layer else None

    def computed(self, tasks: list[tuple[Any, ...]]) -> list[Any]:
        """Return the results of tasks (function, parcel, number of the partition, more arguments)."""
        if self.held is not None:
            return self.held.computed(tasks, self._places())
        return list(dask.compute(*self._delayed(tasks, "part", uuid.uuid4().hex)))

    def mapped(self, function: Callable[..., Any], parcel: bytes, name: str, more: list[Any]) -> list[Any]:
        """Return a function of each partition, not yet computed, with one more argument each."""
        tasks = [(function, parcel, i, one) for i, one in enumerate(more)]
        return self._delayed(tasks, name, uuid.uuid4().hex)

    def _places(self) -> list[Place]:
        """Return where each partition is among the rows."""
        n_parts = len(self.parts)
        if self.lengths is None:
            return [(i, None, self.n_features) for i in range(n_parts)]
        firsts = (np.cumsum(self.lengths) - self.lengths).tolist()
        return [(i, firsts[i], self.n_features) for i in range(n_parts)]

    def _delayed(self, tasks: list[tuple[Any, ...]], name: str, token: str) -> list[Any]:
        # One key that all tasks refer to: the job is sent once.
        parcels: dict[bytes, Any] = {}
        places = self._places()
        found = []
        for function, parcel, i, *more in tasks:
            if parcel not in parcels:
                key = f"apolar-job-{token}-{len(parcels)}"
                parcels[parcel] = dask.delayed(parcel, name=key, traverse=False)
            weights = None if self.weights is None else self.weights[i]
            call = dask.delayed(_called, pure=False, traverse=False)
            key = f"apolar-{name}-{token}-{i}"
            arguments = (function, parcels[parcel], self.parts[i], weights, places[i], *more)
            found.append(call(*arguments, dask_key_name=key))
        return found


class _Held:
    """Partitions in the memory of the workers of a cluster: a pass is one task for each thread of a worker.

    Scheduling a task costs some milliseconds, which is more than the work of a pass over few rows.

    Parameters
    ----------
    client : distributed.Client
    futures : list of Future
        The partitions.
    weights : list of Future or None
    """

    def __init__(self, client: Any, futures: list[Any], weights: list[Any] | None) -> None:
        self.client, self.futures, self.weights = client, futures, weights
        self.groups: list[tuple[str | None, list[int]]] = []
        self.bundles: dict[tuple[str | None, tuple[int, ...]], Any] = {}
        self.workers: frozenset[str] = frozenset()
        self.n_passes = 0

    def summed(self, parcel: bytes, places: list[Place]) -> list[Any] | None:
        """Return the sums of a job over all partitions; None of no rows."""
        self._group()
        many = len(self.groups) > FAN_IN
        job = self.client.submit(_same, parcel, pure=False) if many else parcel
        layer = []
        for worker, members in self.groups:
            where = _at(worker)
            bundle = self._bundle(worker, members, places, where)
            layer.append(self.client.submit(_of_bundle, job, bundle, pure=False, **where))
        made = list(layer)
        while len(layer) > FAN_IN:
            groups = [layer[i : i + FAN_IN] for i in range(0, len(layer), FAN_IN)]
            layer = [self.client.submit(_added, *group, pure=False) for group in groups]
            made += layer
        return _added(*self._gathered(layer, made))

    def _gathered(self, wanted: list[Any], made: list[Any]) -> list[Any]:
        """Return results; what was made for them is given up, whatever happens."""
        try:
            return list(self.client.gather(wanted))
        finally:
            # One that failed would keep what it worked on, by the trace of its error.
            for future in made:
                future.release()

    def computed(self, tasks: list[tuple[Any, ...]], places: list[Place]) -> list[Any]:
        """Return the results of tasks (function, parcel, number of the partition, more arguments)."""
        self._group()
        home = {i: group for group in self.groups for i in group[1]}
        shared: dict[int, tuple[Any, list[int]]] = {}
        for number, task in enumerate(tasks):
            group = home[task[2]]
            shared.setdefault(id(group), (group, []))[1].append(number)
        futures = []
        for (worker, members), numbers in shared.values():
            where = _at(worker)
            calls = [(members.index(tasks[number][2]), *tasks[number][3:]) for number in numbers]
            bundle, (function, parcel) = self._bundle(worker, members, places, where), tasks[numbers[0]][:2]
            futures.append(
                self.client.submit(_on_bundle, function, parcel, bundle, calls, pure=False, **where)
            )
        found: list[Any] = [None] * len(tasks)
        results = self._gathered(futures, futures)
        for (_, numbers), several in zip(shared.values(), results, strict=True):
            for number, one in zip(numbers, several, strict=True):
                found[number] = one
        return found

    def thinned(self, parcel: bytes, places: list[Place], starts: list[int]) -> list[Any]:
        """Return some of the rows, kept on the workers: one partition for each group."""
        self._group()
        found = []
        for worker, members in self.groups:
            where = _at(worker)
            bundle, own = self._bundle(worker, members, places, where), [starts[i] for i in members]
            future = self.client.submit(_thin_bundle, parcel, bundle, own, pure=False, **where)
            found.append(Delayed(future.key, {future.key: future}))
        return found

    def _bundle(
        self, worker: str | None, members: list[int], places: list[Place], where: dict[str, Any]
    ) -> Any:
        """Return some partitions as one: a pass then names few things, however many partitions there are."""
        key = (worker, tuple(members))
        if key not in self.bundles:
            weights = [] if self.weights is None else [self.weights[i] for i in members]
            parts = [self.futures[i] for i in members]
            chosen = [places[i] for i in members]
            self.bundles[key] = self.client.submit(_Bundle, chosen, *parts, *weights, pure=False, **where)
        return self.bundles[key]

    def _group(self) -> None:
        """Deal the partitions out to the threads of the workers: as many to each, most where they lie."""
        self.n_passes += 1
        n_threads = dict(self.client.nthreads())
        workers = frozenset(n_threads)
        if workers == self.workers and self.n_passes % REGROUPED:
            return
        self.workers = workers
        threads = [worker for worker, n in sorted(n_threads.items()) for _ in range(n)]
        if not threads:
            # They are on their way back: the scheduler knows when.
            self.groups = [(None, list(range(len(self.futures))))]
            return
        most = -(-len(self.futures) // len(threads))
        dealt: list[list[int]] = [[] for _ in threads]
        holders = self.client.who_has(self.futures)
        left = []
        for i, future in enumerate(self.futures):
            near = [t for t, worker in enumerate(threads) if worker in holders.get(future.key, ())]
            slot = min(near, key=lambda t: len(dealt[t]), default=None)
            if slot is None or len(dealt[slot]) >= most:
                left.append(i)
            else:
                dealt[slot].append(i)
        for i in left:
            dealt[min(range(len(threads)), key=lambda t: len(dealt[t]))].append(i)
        self.groups = [(worker, members) for worker, members in zip(threads, dealt, strict=True) if members]
        known = {(worker, tuple(members)) for worker, members in self.groups}
        self.bundles = {key: bundle for key, bundle in self.bundles.items() if key in known}


def _at(worker: str | None) -> dict[str, Any]:
    """Return where a task is best done."""
    return {} if worker is None else {"workers": [worker], "allow_other_workers": True}


def _futures(parts: list[Any], collections: tuple[Any, ...]) -> list[Any] | None:
    """Return the futures that delayed values stand for, theirs or of what they are parts of; None if not."""
    from distributed import futures_of

    known = {future.key: future for future in (*futures_of(parts), *futures_of(list(collections)))}
    found = [known.get(part.key) for part in parts]
    return None if any(one is None for one in found) else found


def _opened(X: Any, sample_weight: Any) -> _Source:
    """Return the partitions of a collection with their weights."""
    is_array = isinstance(X, da.Array)
    lengths = _known_lengths(X.chunks[0]) if is_array else None
    n_features = X.shape[1] if is_array else len(X.columns)
    source = _Source(_partitions(X), None, lengths, n_features)
    if sample_weight is not None:
        weights = _weight_partitions(sample_weight, source)
        source = _Source(source.parts, weights, source.lengths, n_features)
    # Data that are in the graph itself go to a cluster once, not with every pass; they were in memory here.
    client = _client(source.parts)
    if client is not None:
        nbytes = X.nbytes if is_array else np.nan
        embedded = _embedded(source.parts)
        if embedded > MOST_EMBEDDED and not nbytes > 2 * embedded:
            source.parts = _sent(source.parts)
        if source.weights is not None and _embedded(source.weights) > MOST_EMBEDDED:
            source.weights = _sent(source.weights)
        source.collections = tuple(one for one in (X, sample_weight) if hasattr(one, "__dask_graph__"))
    return source


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
    found = X.to_delayed()
    return list(found.ravel() if isinstance(found, np.ndarray) else found)


def _weight_partitions(sample_weight: Any, source: _Source) -> list[Any]:
    """Return the weights of the rows of each partition."""
    given = sample_weight
    if not hasattr(given, "__dask_graph__"):
        lengths = source.counts[:, 0]
        given = np.asarray(given)
        _check_length(given.shape, int(lengths.sum()))
        return _partitions(da.from_array(given, chunks=(tuple(lengths.tolist()),)))
    if getattr(given, "ndim", None) != 1:
        raise ValueError("sample_weight must be of one dimension: an array or a series of Dask.")
    known = _known_lengths(given.chunks[0]) if isinstance(given, da.Array) else None
    if source.lengths is not None and known is not None:
        _check_length((int(known.sum()),), int(source.lengths.sum()))
        return _partitions(given.rechunk((tuple(source.lengths.tolist()),)))
    found = _partitions(given)
    if len(found) == len(source.parts):
        # Whether they have as many rows is checked in each partition.
        return found
    if known is None:
        # A copy: the sizes would be written into the array of the user.
        is_array = isinstance(given, da.Array)
        given = given.copy().compute_chunk_sizes() if is_array else given.to_dask_array(lengths=True)
    lengths = source.counts[:, 0]
    _check_length((int(given.shape[0]),), int(lengths.sum()))
    return _partitions(given.rechunk((tuple(lengths.tolist()),)))


def _check_length(shape: tuple[int, ...], n_rows: int) -> None:
    if shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},); got {shape}.")


def _client(parts: list[Any]) -> Any:
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
    text = cloudpickle.dumps(graph, protocol=5, buffer_callback=buffers.append)
    return sum(one.raw().nbytes for one in buffers) + max(0, len(text) - TASK_SIZE * len(graph))


# --- where the rows are -----------------------------------------------------------------------


Place = tuple[int, int | None, int]
"""The number of a partition, that of its first row if known, and how many columns it must have."""


def _called(
    function: Callable[..., Any], parcel: bytes, part: Any, weights: Any, place: Place, *more: Any
) -> Any:
    """Return a function of a parcel and the rows of a partition."""
    number, first, n_features = place
    try:
        rows = _local(part, weights, number, first, n_features)
        return function(parcel, rows, *more)
    except (TypeError, ValueError) as error:
        if first is not None or type(error) not in (TypeError, ValueError) or " row" not in str(error):
            raise
        # Nobody knows how many rows there are before these.
        raise type(error)(f"{error} Rows are counted from the first of partition {number}.") from error


class _Bundle:
    """Some partitions on one worker: the same memory as theirs, under one name.

    It counts as small where memory is counted: the partitions are counted already.
    """

    def __init__(self, places: list[Place], *partitions: Any) -> None:
        n = len(places)
        self.places, self.parts = places, partitions[:n]
        self.weights = partitions[n:] or (None,) * n


def _of_bundle(parcel: bytes, bundle: _Bundle) -> list[Any] | None:
    """Return the sums of the job of a parcel over some partitions."""
    return _added(
        *(
            _called(_done, parcel, part, own, place)
            for part, own, place in zip(bundle.parts, bundle.weights, bundle.places, strict=True)
        )
    )


def _on_bundle(
    function: Callable[..., Any], parcel: bytes, bundle: _Bundle, calls: list[tuple[Any, ...]]
) -> list[Any]:
    """Return a function of some of the partitions, by their place in the bundle, with more arguments each."""
    return [
        _called(function, parcel, bundle.parts[i], bundle.weights[i], bundle.places[i], *more)
        for i, *more in calls
    ]


def _thin_bundle(parcel: bytes, bundle: _Bundle, starts: list[int]) -> tuple[Any, Any]:
    """Return one of each `step` rows of some partitions, in one piece, and their weights."""
    found = _on_bundle(_thin, parcel, bundle, list(enumerate(starts)))
    values = _stacked([values for values, _ in found])
    return values, None if found[0][1] is None else np.concatenate([weights for _, weights in found])


def _same(value: Any) -> Any:
    return value


def _local(part: Any, weights: Any, number: int, first: int | None, n_features: int) -> Rows:
    """Return the rows of a partition, in memory."""
    if isinstance(part, tuple):
        part, weights = part
    values = _values(part, first or 0)
    if values.ndim != 2 or values.shape[1] != n_features:
        raise ValueError(f"Partition {number} of X has shape {values.shape}, not {n_features} columns.")
    if weights is not None:
        weights = np.asarray(weights)
        if weights.shape != (values.shape[0],):
            raise ValueError(
                f"Partition {number} has {values.shape[0]} rows, and its sample_weight is of shape "
                f"{weights.shape}: give X and sample_weight the same partitions."
            )
        weights = checked_weights(weights, values, first or 0)
    return from_arrays(values, weights, is_part=True, first_row=first or 0)


def _values(part: Any, first: int) -> Any:
    """Return a partition as an array or a CSR matrix."""
    if sparse.issparse(part):
        return part.tocsr()
    if isinstance(part, np.ma.MaskedArray):
        if np.ma.is_masked(part):
            raise ValueError("X has masked entries: drop those rows, or fill them with X.filled(value).")
        return part.data
    if is_foreign(part):
        raise TypeError(
            f"The blocks of X are of {type(part).__module__.partition('.')[0]}: a cluster works with those "
            "of NumPy. Pass X.map_blocks(numpy.asarray)."
        )
    frame = as_frame(part)
    if frame is not None:
        return frame_values(frame, slice(None))
    if getattr(part, "dtype", np.dtype(float)).kind == "O":
        try:
            return numbers_of(part)
        except (TypeError, ValueError) as error:
            raise TypeError(f"X must hold numbers; rows from {first} on hold {part.dtype}.") from error
    return part


def _done(parcel: bytes, rows: Rows) -> Any:
    """Return what the job of a parcel makes of rows; None of none."""
    job, changes = pickle.loads(parcel)
    return job(_with_changes(rows, changes)) if rows.n_rows else None


def _with_changes(rows: Rows, changes: tuple[tuple[Change, int | None], ...]) -> Rows:
    for change, n_features in changes:
        rows = rows.changed(change, n_features)
    return rows


def _whole(rows: Rows) -> tuple[Any, Any]:
    """Return all rows in one piece, and their weights."""
    return next(iter(rows.read(rows.n_rows or 1)))


def _counted(_: bytes, rows: Rows) -> tuple[int, int]:
    """Return the number of rows, and of those with weight."""
    assert rows.n_rows is not None
    return rows.n_rows, rows.n_rows if (kept := _with_weight(rows)) is None else len(kept)


def _with_weight(rows: Rows) -> Array | None:
    """Return the numbers of the rows that have weight; None if there are no weights."""
    assert rows.take is not None
    weights = rows.take(slice(None))[1]
    return None if weights is None else np.flatnonzero(weights > 0)


def _chosen(parcel: bytes, rows: Rows, positions: IndexArray) -> tuple[Any, Any]:
    """Return some of the rows with weight, by their numbers, and their weights."""
    assert rows.take is not None
    kept = _with_weight(rows)
    values, weights = rows.take(positions if kept is None else kept[positions])
    return _whole(_with_changes(from_arrays(values, weights), pickle.loads(parcel)[1]))


def _thin(parcel: bytes, rows: Rows, start: int) -> tuple[Any, Any]:
    """Return one of each `step` rows, the first of which has the number `start`, and their weights."""
    step = pickle.loads(parcel)[0]
    kept = _with_weight(rows)
    n_rows = rows.n_rows if kept is None else len(kept)
    assert n_rows is not None
    positions = thinned_positions(start, start + n_rows, step)
    if len(positions):
        return _chosen(parcel, rows, positions)
    assert rows.take is not None
    return rows.take(slice(0, 0))


def _added(*parts: list[Any] | None) -> list[Any] | None:
    """Return lists added up, member by member; None stands for nothing."""
    total: list[Any] | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else [old + new for old, new in zip(total, part, strict=True)]
    return total


def _stacked(parts: list[Any]) -> Any:
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


class _Wrapped:
    """A job whose result may be None, in a list."""

    def __init__(self, job: Callable[[Rows], Any]) -> None:
        self.job = job

    def __call__(self, rows: Rows) -> list[Any]:
        return [self.job(rows)]


class _Answers:
    """A function of the checked rows of a partition."""

    def __init__(self, parcel: bytes, firsts: tuple[int, ...] | None = None) -> None:
        self.parcel, self.firsts = parcel, firsts
        # What Dask calls it.
        self.__name__ = "answers"

    def __call__(self, part: Any, block_id: tuple[int, ...] | None = None) -> Any:
        first = 0 if self.firsts is None or block_id is None else int(self.firsts[block_id[0]])
        function, n_features = pickle.loads(self.parcel)
        try:
            block = checked_block(_values(part, first), n_features, first)
        except ValueError as error:
            if self.firsts is not None:
                raise
            raise ValueError(f"{error} Rows are counted from the first of their partition.") from error
        return function(block)
