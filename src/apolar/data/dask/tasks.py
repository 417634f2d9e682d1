"""What is done where the rows of a Dask collection are: with one partition, or several on a worker."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array, IndexArray
from apolar._core.namespaces import is_device_array
from apolar.data.checks import checked_block, checked_weights, numbers_of
from apolar.data.dataframes import as_frame, frame_values
from apolar.data.rows import Change, Rows, from_arrays, sample_positions, stacked

PartitionInfo = tuple[int, int | None, int]
"""The number of a partition, that of its first row if known, and how many columns it must have."""


def called(
    function: Callable[..., Any], payload: bytes, part: Any, weights: Any, info: PartitionInfo, *more: Any
) -> Any:
    """Return a function of a parcel and the rows of a partition."""
    number, first, n_features = info
    try:
        rows = _local(part, weights, number, first, n_features)
        return function(payload, rows, *more)
    except (TypeError, ValueError) as error:
        if first is not None or type(error) not in (TypeError, ValueError) or " row" not in str(error):
            raise
        # Nobody knows how many rows there are before these.
        raise type(error)(f"{error} Rows are counted from the first of partition {number}.") from error


class PartitionGroup:
    """Some partitions on one worker: the same memory as theirs, under one name.

    It counts as small where memory is counted: the partitions are counted already.
    """

    def __init__(self, infos: list[PartitionInfo], *partitions: Any) -> None:
        n = len(infos)
        self.infos, self.parts = infos, partitions[:n]
        self.weights = partitions[n:] or (None,) * n


def reduce_group(payload: bytes, group: PartitionGroup) -> list[Any] | None:
    """Return the sums of the job of a parcel over some partitions."""
    return added(
        *(
            called(done, payload, part, own, info)
            for part, own, info in zip(group.parts, group.weights, group.infos, strict=True)
        )
    )


def apply_to_group(
    function: Callable[..., Any], payload: bytes, group: PartitionGroup, calls: list[tuple[Any, ...]]
) -> list[Any]:
    """Return a function of some of the partitions, by their place in the bundle, with more arguments each."""
    return [
        called(function, payload, group.parts[i], group.weights[i], group.infos[i], *more)
        for i, *more in calls
    ]


def sample_group(payload: bytes, group: PartitionGroup, starts: list[int]) -> tuple[Any, Any]:
    """Return one of each `step` rows of some partitions, in one piece, and their weights."""
    found = apply_to_group(sample_partition, payload, group, list(enumerate(starts)))
    values = stacked([values for values, _ in found])
    return values, None if found[0][1] is None else np.concatenate([weights for _, weights in found])


def same(value: Any) -> Any:
    """Return a value as it is: sent once, it is then a future that many tasks share."""
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
    if is_device_array(part):
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


def done(payload: bytes, rows: Rows) -> Any:
    """Return what the job of a parcel makes of rows; None of none."""
    job, changes = pickle.loads(payload)
    return job(_with_changes(rows, changes)) if rows.n_rows else None


def _with_changes(rows: Rows, changes: tuple[Change, ...]) -> Rows:
    for change in changes:
        rows = rows.changed(change)
    return rows


def whole(rows: Rows) -> tuple[Any, Any]:
    """Return all rows in one piece, and their weights."""
    return next(iter(rows.read(rows.n_rows or 1)))


def counted(_: bytes, rows: Rows) -> tuple[int, int]:
    """Return the number of rows, and of those with weight."""
    assert rows.n_rows is not None
    return rows.n_rows, rows.n_rows if (kept := _with_weight(rows)) is None else len(kept)


def _with_weight(rows: Rows) -> Array | None:
    """Return the numbers of the rows that have weight; None if there are no weights."""
    assert rows.take is not None
    weights = rows.take(slice(None))[1]
    return None if weights is None else np.flatnonzero(weights > 0)


def chosen_rows(payload: bytes, rows: Rows, positions: IndexArray) -> tuple[Any, Any]:
    """Return some of the rows with weight, by their numbers, and their weights."""
    assert rows.take is not None
    kept = _with_weight(rows)
    values, weights = rows.take(positions if kept is None else kept[positions])
    return whole(_with_changes(from_arrays(values, weights), pickle.loads(payload)[1]))


def sample_partition(payload: bytes, rows: Rows, start: int) -> tuple[Any, Any]:
    """Return one of each `step` rows, the first of which has the number `start`, and their weights."""
    step = pickle.loads(payload)[0]
    kept = _with_weight(rows)
    n_rows = rows.n_rows if kept is None else len(kept)
    assert n_rows is not None
    positions = sample_positions(start, start + n_rows, step)
    if len(positions):
        return chosen_rows(payload, rows, positions)
    assert rows.take is not None
    return rows.take(slice(0, 0))


def added(*parts: list[Any] | None) -> list[Any] | None:
    """Return lists added up, member by member; None stands for nothing."""
    total: list[Any] | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else [old + new for old, new in zip(total, part, strict=True)]
    return total


class Wrapped:
    """A job whose result may be None, in a list."""

    def __init__(self, job: Callable[[Rows], Any]) -> None:
        self.job = job

    def __call__(self, rows: Rows) -> list[Any]:
        """Return the result in a list."""
        return [self.job(rows)]


class Answers:
    """A function of the checked rows of a partition."""

    def __init__(self, payload: bytes, firsts: tuple[int, ...] | None = None) -> None:
        self.payload, self.firsts = payload, firsts
        # What Dask calls it.
        self.__name__ = "answers"

    def __call__(self, part: Any, block_id: tuple[int, ...] | None = None) -> Any:
        """Return the function of a partition."""
        first = 0 if self.firsts is None or block_id is None else int(self.firsts[block_id[0]])
        function, n_features = pickle.loads(self.payload)
        try:
            block = checked_block(_values(part, first), n_features, first)
        except ValueError as error:
            if self.firsts is not None:
                raise
            raise ValueError(f"{error} Rows are counted from the first of their partition.") from error
        return function(block)
