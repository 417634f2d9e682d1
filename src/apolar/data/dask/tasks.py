"""What is done where the rows of a Dask collection are: with one partition, or several on a worker."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array, IndexArray
from apolar._core.namespaces import is_device_array
from apolar.data.arrays import sample_positions, stacked
from apolar.data.checks import about_row, checked_block, checked_weights, numbers_of
from apolar.data.dataframes import as_frame, frame_values
from apolar.data.reduce import add_up
from apolar.data.rows import ArrayRows

PartitionInfo = tuple[int, int | None, int]
"""The number of a partition, that of its first row if known, and how many columns it must have."""


def apply_to_partition(
    function: Callable[..., Any],
    payload: bytes,
    part: Any,
    weights: Any,
    info: PartitionInfo,
    *arguments: Any,
) -> Any:
    """Return a function of a payload, the rows of a partition, and further arguments."""
    number, first, n_features = info
    try:
        return function(payload, _partition_rows(part, weights, number, first, n_features), *arguments)
    except (TypeError, ValueError) as error:
        if first is not None or getattr(error, "row", None) is None:
            raise
        # It is not known how many rows there are before these.
        raise type(error)(f"{error} Rows are counted from the first of partition {number}.") from error


class PartitionGroup:
    """Some partitions on one worker: the same memory as theirs, under one name.

    Dask counts it as small: the memory of the partitions is counted with them already.

    Parameters
    ----------
    infos : list of PartitionInfo
    *partitions
        The partitions, and after them their weights, if they have some.
    """

    def __init__(self, infos: list[PartitionInfo], *partitions: Any) -> None:
        n = len(infos)
        self.infos, self.parts = infos, partitions[:n]
        self.weights = partitions[n:] or (None,) * n


def reduce_group(payload: bytes, group: PartitionGroup) -> list[Any] | None:
    """Return the sums of the statistic of a payload over some partitions; None of no rows."""
    return add_up(
        apply_to_partition(reduce_partition, payload, part, weights, info)
        for part, weights, info in zip(group.parts, group.weights, group.infos, strict=True)
    )


def apply_to_group(
    function: Callable[..., Any], payload: bytes, group: PartitionGroup, calls: list[tuple[Any, ...]]
) -> list[Any]:
    """Return a function of some partitions of a group, by their place in it, with further arguments each."""
    return [
        apply_to_partition(function, payload, group.parts[i], group.weights[i], group.infos[i], *arguments)
        for i, *arguments in calls
    ]


def sample_group(payload: bytes, group: PartitionGroup, starts: list[int]) -> tuple[Any, Any]:
    """Return one of each `step` rows of some partitions, in one piece, and their weights."""
    samples = apply_to_group(sample_partition, payload, group, list(enumerate(starts)))
    values = stacked([values for values, _ in samples])
    return values, None if samples[0][1] is None else np.concatenate([weights for _, weights in samples])


def identity(value: Any) -> Any:
    """Return a value as it is: sent once, it is then a future that many tasks share."""
    return value


def _partition_rows(part: Any, weights: Any, number: int, first: int | None, n_features: int) -> ArrayRows:
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
    return ArrayRows(values, weights, is_part=True, first_row=first or 0)


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
            raise about_row(
                TypeError(f"X must hold numbers; rows from {first} on hold {part.dtype}."), first
            ) from error
    return part


def reduce_partition(payload: bytes, rows: ArrayRows) -> list[Any] | None:
    """Return the sums of the statistic of a payload over a partition; None of no rows."""
    statistic, prepare = pickle.loads(payload)
    return add_up(rows.map_blocks(statistic, prepare))


def first_of_partition(payload: bytes, rows: ArrayRows) -> Any:
    """Return the function of a payload of the first block of a partition; None of no rows."""
    function, prepare = pickle.loads(payload)
    return rows.first(function, prepare)


def all_rows(_: bytes, rows: ArrayRows) -> tuple[Any, Any]:
    """Return the rows of a partition, and their weights."""
    return rows.values, rows.weights


def count_rows(_: bytes, rows: ArrayRows) -> tuple[int, int]:
    """Return the number of rows, and of those with weight."""
    kept = _weighted_positions(rows)
    return rows.n_rows, rows.n_rows if kept is None else len(kept)


def _weighted_positions(rows: ArrayRows) -> Array | None:
    """Return the numbers of the rows that have weight; None if there are no weights."""
    return None if rows.weights is None else np.flatnonzero(rows.weights > 0)


def take_from_partition(_: bytes, rows: ArrayRows, positions: IndexArray) -> tuple[Any, Any]:
    """Return some of the rows with weight, by their numbers among these, and their weights."""
    kept = _weighted_positions(rows)
    return rows.take(positions if kept is None else kept[positions])


def sample_partition(payload: bytes, rows: ArrayRows, start: int) -> tuple[Any, Any]:
    """Return one of each `step` rows, the first of which has the number `start`, and their weights."""
    step = pickle.loads(payload)
    kept = _weighted_positions(rows)
    n_rows = rows.n_rows if kept is None else len(kept)
    return take_from_partition(payload, rows, sample_positions(start, start + n_rows, step))


class PartitionFunction:
    """A function of the checked rows of each partition, as Dask maps it over an array or a dataframe.

    Parameters
    ----------
    payload : bytes
        The function and the number of columns, pickled.
    first_rows : tuple of int, optional
        The number of the first row of each partition, if known.
    """

    def __init__(self, payload: bytes, first_rows: tuple[int, ...] | None = None) -> None:
        self.payload, self.first_rows = payload, first_rows
        # What Dask calls it.
        self.__name__ = "answers"

    def __call__(self, part: Any, block_id: tuple[int, ...] | None = None) -> Any:
        """Return the function of a partition."""
        first = 0 if self.first_rows is None or block_id is None else int(self.first_rows[block_id[0]])
        function, n_features = pickle.loads(self.payload)
        try:
            block = checked_block(_values(part, first), n_features, first)
        except ValueError as error:
            if self.first_rows is not None or getattr(error, "row", None) is None:
                raise
            raise ValueError(f"{error} Rows are counted from the first of their partition.") from error
        return function(block)
