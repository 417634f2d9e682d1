"""Partitions that are in the memory of a cluster: a pass is one task for each thread of a worker."""

from __future__ import annotations

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

# Sums that are added up by one task.
FAN_IN = 8
# After so many passes it is looked up again where the partitions are.
REGROUPED = 10


class PersistedPartitions:
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
        self.assignments: list[tuple[str | None, list[int]]] = []
        self.groups: dict[tuple[str | None, tuple[int, ...]], Any] = {}
        self.workers: frozenset[str] = frozenset()
        self.n_passes = 0

    def reduce(self, payload: bytes, infos: list[PartitionInfo]) -> list[Any] | None:
        """Return the sums of the statistic of a payload over all partitions; None of no rows."""
        self._assign()
        many = len(self.assignments) > FAN_IN
        sent = self.client.submit(identity, payload, pure=False) if many else payload
        layer = []
        for worker, members in self.assignments:
            where = _at(worker)
            group = self._partition_group(worker, members, infos, where)
            layer.append(self.client.submit(reduce_group, sent, group, pure=False, **where))
        submitted = list(layer)
        while len(layer) > FAN_IN:
            several = [layer[i : i + FAN_IN] for i in range(0, len(layer), FAN_IN)]
            layer = [self.client.submit(add_up, futures, pure=False) for futures in several]
            submitted += layer
        return add_up(self._fetched(layer, submitted))

    def _fetched(self, wanted: list[Any], submitted: list[Any]) -> list[Any]:
        """Return results; what was submitted for them is given up, whatever happens."""
        try:
            return list(self.client.gather(wanted))
        finally:
            # One that failed would keep what it worked on, by the trace of its error.
            for future in submitted:
                future.release()

    def compute(self, tasks: list[tuple[Any, ...]], infos: list[PartitionInfo]) -> list[Any]:
        """Return the results of tasks (function, payload, number of the partition, further arguments)."""
        self._assign()
        home = {i: assignment for assignment in self.assignments for i in assignment[1]}
        by_assignment: dict[int, tuple[Any, list[int]]] = {}
        for number, task in enumerate(tasks):
            assignment = home[task[2]]
            by_assignment.setdefault(id(assignment), (assignment, []))[1].append(number)
        futures = []
        for (worker, members), numbers in by_assignment.values():
            where = _at(worker)
            calls = [(members.index(tasks[number][2]), *tasks[number][3:]) for number in numbers]
            group = self._partition_group(worker, members, infos, where)
            function, payload = tasks[numbers[0]][:2]
            futures.append(
                self.client.submit(apply_to_group, function, payload, group, calls, pure=False, **where)
            )
        results: list[Any] = [None] * len(tasks)
        fetched = self._fetched(futures, futures)
        for (_, numbers), group_results in zip(by_assignment.values(), fetched, strict=True):
            for number, result in zip(numbers, group_results, strict=True):
                results[number] = result
        return results

    def systematic_sample(self, payload: bytes, infos: list[PartitionInfo], starts: list[int]) -> list[Any]:
        """Return some of the rows, kept on the workers: one partition for each group."""
        self._assign()
        partitions = []
        for worker, members in self.assignments:
            where = _at(worker)
            group = self._partition_group(worker, members, infos, where)
            group_starts = [starts[i] for i in members]
            future = self.client.submit(sample_group, payload, group, group_starts, pure=False, **where)
            partitions.append(Delayed(future.key, {future.key: future}))
        return partitions

    def _partition_group(
        self, worker: str | None, members: list[int], infos: list[PartitionInfo], where: dict[str, Any]
    ) -> Any:
        """Return some partitions as one: a pass then names few things, however many partitions there are."""
        key = (worker, tuple(members))
        if key not in self.groups:
            weights = [] if self.weights is None else [self.weights[i] for i in members]
            parts = [self.futures[i] for i in members]
            chosen = [infos[i] for i in members]
            self.groups[key] = self.client.submit(
                PartitionGroup, chosen, *parts, *weights, pure=False, **where
            )
        return self.groups[key]

    def _assign(self) -> None:
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
            self.assignments = [(None, list(range(len(self.futures))))]
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
        self.assignments = [
            (worker, members) for worker, members in zip(threads, dealt, strict=True) if members
        ]
        known = {(worker, tuple(members)) for worker, members in self.assignments}
        self.groups = {key: group for key, group in self.groups.items() if key in known}


def _at(worker: str | None) -> dict[str, Any]:
    """Return where a task is best done."""
    return {} if worker is None else {"workers": [worker], "allow_other_workers": True}


def futures_behind(parts: list[Any], collections: tuple[Any, ...]) -> list[Any] | None:
    """Return the futures that delayed values stand for, theirs or of what they are parts of; None if not."""
    from distributed import futures_of

    known = {future.key: future for future in (*futures_of(parts), *futures_of(list(collections)))}
    futures = [known.get(part.key) for part in parts]
    return None if any(future is None for future in futures) else futures
