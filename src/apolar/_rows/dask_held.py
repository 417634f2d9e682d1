"""Partitions that are in the memory of a cluster: a pass is one task for each thread of a worker."""

from __future__ import annotations

from typing import Any

from dask.delayed import Delayed

from apolar._rows.dask_tasks import Bundle, Place, added, of_bundle, on_bundle, same, thin_bundle

# Sums that are added up by one task.
FAN_IN = 8
# After so many passes it is looked up again where the partitions are.
REGROUPED = 10


class Held:
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
        job = self.client.submit(same, parcel, pure=False) if many else parcel
        layer = []
        for worker, members in self.groups:
            where = _at(worker)
            bundle = self._bundle(worker, members, places, where)
            layer.append(self.client.submit(of_bundle, job, bundle, pure=False, **where))
        made = list(layer)
        while len(layer) > FAN_IN:
            groups = [layer[i : i + FAN_IN] for i in range(0, len(layer), FAN_IN)]
            layer = [self.client.submit(added, *group, pure=False) for group in groups]
            made += layer
        return added(*self._gathered(layer, made))

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
                self.client.submit(on_bundle, function, parcel, bundle, calls, pure=False, **where)
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
            future = self.client.submit(thin_bundle, parcel, bundle, own, pure=False, **where)
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
            self.bundles[key] = self.client.submit(Bundle, chosen, *parts, *weights, pure=False, **where)
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


def futures_behind(parts: list[Any], collections: tuple[Any, ...]) -> list[Any] | None:
    """Return the futures that delayed values stand for, theirs or of what they are parts of; None if not."""
    from distributed import futures_of

    known = {future.key: future for future in (*futures_of(parts), *futures_of(list(collections)))}
    found = [known.get(part.key) for part in parts]
    return None if any(one is None for one in found) else found
