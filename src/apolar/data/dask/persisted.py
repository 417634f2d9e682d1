"""Partitions that are persisted on a cluster: a pass is one task for each thread of a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask.delayed import Delayed

from apolar.data.dask.tasks import (
    PartitionGroup,
    PartitionInfo,
    apply_to_group,
    identity,
    reduce_group,
    sample_group,
)
from apolar.data.reduce import add_up

# The number of sums that one task adds up.
FAN_IN = 8
# After this many passes, the partitions are assigned to the workers again: the cluster may have moved them.
PASSES_PER_ASSIGNMENT = 10


class PersistedPartitions:
    """Partitions in the memory of the workers of a cluster, in one group for each thread of a worker.

    A pass is then one task per group. One task per partition would cost more than the arithmetic where the
    partitions are small: scheduling a task takes milliseconds.

    Parameters
    ----------
    client : distributed.Client
    futures : list of Future
        The partitions.
    weights : list of Future or None
    """

    def __init__(self, client: Any, futures: list[Any], weights: list[Any] | None) -> None:
        self.client, self.futures, self.weights = client, futures, weights
        self.assignments: list[tuple[str | None, list[int]]] = []
        self.groups: dict[tuple[str | None, tuple[int, ...]], Any] = {}
        self.workers: frozenset[str] = frozenset()
        self.n_passes = 0

    def reduce(self, payload: bytes, infos: list[PartitionInfo]) -> list[Any] | None:
        """Return the sums of a pickled statistic over all partitions; None for no rows."""
        self._assign()
        if len(self.assignments) > FAN_IN:
            # Many tasks share the payload: as a future it is sent from here once.
            shared_payload = self.client.submit(identity, payload, pure=False)
        else:
            shared_payload = payload
        layer = [
            self.client.submit(
                reduce_group, shared_payload, self._group(worker, members, infos), pure=False, **_hint(worker)
            )
            for worker, members in self.assignments
        ]
        submitted = list(layer)
        while len(layer) > FAN_IN:
            batches = [layer[i : i + FAN_IN] for i in range(0, len(layer), FAN_IN)]
            layer = [self.client.submit(add_up, batch, pure=False) for batch in batches]
            submitted += layer
        return add_up(self._gather(layer, submitted))

    def compute(
        self,
        function: Callable[..., Any],
        payload: bytes,
        calls: list[tuple[Any, ...]],
        infos: list[PartitionInfo],
    ) -> list[Any]:
        """Return the results of a function, one per call: the index of a partition, further arguments."""
        self._assign()
        group_of = {i: group for group, (_, members) in enumerate(self.assignments) for i in members}
        calls_by_group: dict[int, list[int]] = {}
        for position, (i, *_) in enumerate(calls):
            calls_by_group.setdefault(group_of[i], []).append(position)
        futures = []
        for group, positions in calls_by_group.items():
            worker, members = self.assignments[group]
            group_calls = [
                (members.index(calls[position][0]), *calls[position][1:]) for position in positions
            ]
            arguments = (function, payload, self._group(worker, members, infos), group_calls)
            futures.append(self.client.submit(apply_to_group, *arguments, pure=False, **_hint(worker)))
        results: list[Any] = [None] * len(calls)
        gathered = self._gather(futures, futures)
        for positions, group_results in zip(calls_by_group.values(), gathered, strict=True):
            for position, result in zip(positions, group_results, strict=True):
                results[position] = result
        return results

    def systematic_sample(self, payload: bytes, infos: list[PartitionInfo], starts: list[int]) -> list[Any]:
        """Return a sample of the rows that stays on the workers: one partition for each group."""
        self._assign()
        partitions = []
        for worker, members in self.assignments:
            group, group_starts = self._group(worker, members, infos), [starts[i] for i in members]
            future = self.client.submit(
                sample_group, payload, group, group_starts, pure=False, **_hint(worker)
            )
            partitions.append(Delayed(future.key, {future.key: future}))
        return partitions

    def _gather(self, futures: list[Any], submitted: list[Any]) -> list[Any]:
        """Return the results of some futures, and release all that were submitted, also after an error."""
        try:
            return list(self.client.gather(futures))
        finally:
            # A failed task that is not released keeps its partitions in memory, through its traceback.
            for future in submitted:
                future.release()

    def _group(self, worker: str | None, members: list[int], infos: list[PartitionInfo]) -> Any:
        """Return the future of a group of partitions: tasks then have one input, however many these are."""
        key = (worker, tuple(members))
        if key not in self.groups:
            weights = [] if self.weights is None else [self.weights[i] for i in members]
            parts = [self.futures[i] for i in members]
            group_infos = [infos[i] for i in members]
            self.groups[key] = self.client.submit(
                PartitionGroup, group_infos, *parts, *weights, pure=False, **_hint(worker)
            )
        return self.groups[key]

    def _assign(self) -> None:
        """Assign the partitions evenly to the threads of the workers, if possible where they are stored."""
        self.n_passes += 1
        n_threads = dict(self.client.nthreads())
        workers = frozenset(n_threads)
        if self.assignments and workers == self.workers and self.n_passes % PASSES_PER_ASSIGNMENT:
            return
        self.workers = workers
        threads = [worker for worker, n in sorted(n_threads.items()) for _ in range(n)]
        if not threads:
            # No worker is connected, as while they restart: the scheduler waits for one.
            self.assignments = [(None, list(range(len(self.futures))))]
            return
        max_members = -(-len(self.futures) // len(threads))
        members_of_thread: list[list[int]] = [[] for _ in threads]
        holders = self.client.who_has(self.futures)
        unassigned = []
        for i, future in enumerate(self.futures):
            local = [t for t, worker in enumerate(threads) if worker in holders.get(future.key, ())]
            thread = min(local, key=lambda t: len(members_of_thread[t]), default=None)
            if thread is None or len(members_of_thread[thread]) >= max_members:
                unassigned.append(i)
            else:
                members_of_thread[thread].append(i)
        for i in unassigned:
            min(members_of_thread, key=len).append(i)
        self.assignments = [
            (worker, members) for worker, members in zip(threads, members_of_thread, strict=True) if members
        ]
        current = {(worker, tuple(members)) for worker, members in self.assignments}
        self.groups = {key: group for key, group in self.groups.items() if key in current}


def _hint(worker: str | None) -> dict[str, Any]:
    """Return the options of a task that is best run on this worker, and may run on others."""
    return {} if worker is None else {"workers": [worker], "allow_other_workers": True}


def persisted_futures(parts: list[Any], collections: tuple[Any, ...]) -> list[Any] | None:
    """Return the futures of partitions, their own or those of the collections; None if one has no future."""
    from distributed import futures_of

    by_key = {future.key: future for future in (*futures_of(parts), *futures_of(list(collections)))}
    futures = [by_key.get(part.key) for part in parts]
    return None if any(future is None for future in futures) else futures
