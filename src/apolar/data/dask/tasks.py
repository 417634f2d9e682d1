"""Functions that run where the partitions of a Dask collection are, of one partition or of a group."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import IndexArray
from apolar._core.namespaces import is_device_array
from apolar.data.arrays import sample_positions, stack_rows
from apolar.data.checks import about_row, checked_block, checked_weights, objects_to_float64
from apolar.data.dataframes import as_frame, frame_values
from apolar.data.reduce import add_up
from apolar.data.rows import ArrayRows

PartitionInfo = tuple[int, int | None, int, tuple[str, ...] | None]
"""The index of a partition, that of its first row or None if unknown, and the expected number of columns and
their names, if these are known."""


def apply_to_partition(
    function: Callable[..., Any],
    payload: bytes,
    part: Any,
    weights: Any,
    info: PartitionInfo,
    *arguments: Any,
) -> Any:
    """Return a function of a payload, the rows of a partition, and further arguments."""
    index, first_row, *_ = info
    try:
        return function(payload, _partition_rows(part, weights, info), *arguments)
    except (TypeError, ValueError) as error:
        if first_row is not None or getattr(error, "row", None) is None:
            raise
        # The number of rows in the partitions before this one is not known.
        raise type(error)(f"{error} Rows are counted from the first of partition {index}.") from error


class PartitionGroup:
    """Partitions on one worker, as a single value: it refers to them and copies nothing.

    Dask measures it as a small object, so that the memory of the partitions is not counted twice.

    Parameters
    ----------
    infos : list of PartitionInfo
    *partitions
        The partitions, followed by the weights of each, if there are weights.
    """

    def __init__(self, infos: list[PartitionInfo], *partitions: Any) -> None:
        n_parts = len(infos)
        self.infos, self.parts = infos, partitions[:n_parts]
        self.weights = partitions[n_parts:] or (None,) * n_parts


def reduce_group(payload: bytes, group: PartitionGroup) -> list[Any] | None:
    """Return the sums of a pickled statistic over a group of partitions; None for no rows."""
    return add_up(
        apply_to_partition(reduce_partition, payload, part, weights, info)
        for part, weights, info in zip(group.parts, group.weights, group.infos, strict=True)
    )


def apply_to_group(
    function: Callable[..., Any], payload: bytes, group: PartitionGroup, calls: list[tuple[Any, ...]]
) -> list[Any]:
    """Return the results of a function, one for each call: a position in the group, further arguments."""
    return [
        apply_to_partition(function, payload, group.parts[i], group.weights[i], group.infos[i], *arguments)
        for i, *arguments in calls
    ]


def sample_group(payload: bytes, group: PartitionGroup, starts: list[int]) -> tuple[Any, Any]:
    """Return one of every `step` rows of a group of partitions, as one array, and their weights or None."""
    samples = apply_to_group(sample_partition, payload, group, list(enumerate(starts)))
    values = stack_rows([values for values, _ in samples])
    return values, None if samples[0][1] is None else np.concatenate([weights for _, weights in samples])


def identity(value: Any) -> Any:
    """Return the value itself: submitted as a task, it makes a future that many tasks can share."""
    return value


def _partition_rows(part: Any, weights: Any, info: PartitionInfo) -> ArrayRows:
    """Return the rows of a partition, with checked weights."""
    index, first_row, n_features, names = info
    first_row = first_row or 0
    if isinstance(part, tuple):
        part, weights = part
    values = _values(part, first_row, names)
    if values.ndim != 2 or values.shape[1] != n_features:
        raise ValueError(f"Partition {index} of X has shape {values.shape}, not {n_features} columns.")
    if weights is not None:
        weights = np.asarray(weights)
        if weights.shape != (values.shape[0],):
            raise ValueError(
                f"Partition {index} has {values.shape[0]} rows, and its sample_weight is of shape "
                f"{weights.shape}: give X and sample_weight the same partitions."
            )
        weights = checked_weights(weights, values, first_row)
    return ArrayRows(values, weights, is_part=True, first_row=first_row)


def _values(part: Any, first_row: int, names: tuple[str, ...] | None) -> Any:
    """Return a partition as an array or a CSR matrix, after checking the names of its columns.

    `first_row` is its first row, for messages.
    """
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
        columns = tuple(map(str, frame.columns))
        if names is not None and len(columns) == len(names) and columns != names:
            raise ValueError(
                "A partition of X has other columns than X, or in another order: "
                f"{', '.join(columns)[:200]}; {', '.join(names)[:200]}. Select them by name in each "
                "partition: X.map_partitions(lambda part: part[names])."
            )
        return frame_values(frame, slice(None))
    if getattr(part, "dtype", np.dtype(float)).kind == "O":
        try:
            return objects_to_float64(part)
        except (TypeError, ValueError) as error:
            message = f"X must hold numbers; rows from {{row}} on hold {part.dtype}."
            raise about_row(TypeError, message, first_row) from error
    return part


def reduce_partition(payload: bytes, rows: ArrayRows) -> list[Any] | None:
    """Return the sums of a pickled statistic over a partition; None for no rows."""
    statistic, prepare = pickle.loads(payload)
    return add_up(rows.map_blocks(statistic, prepare))


def first_of_partition(payload: bytes, rows: ArrayRows) -> Any:
    """Return a pickled function of the first block of a partition; None for no rows."""
    function, prepare = pickle.loads(payload)
    return rows.first(function, prepare)


def all_rows(_: bytes, rows: ArrayRows) -> tuple[Any, Any]:
    """Return the rows of a partition, and their weights or None."""
    return rows.values, rows.weights


def count_rows(_: bytes, rows: ArrayRows) -> tuple[int, int]:
    """Return the number of rows, and of those with weight."""
    weighted = _weighted_positions(rows)
    return rows.n_rows, rows.n_rows if weighted is None else len(weighted)


def _weighted_positions(rows: ArrayRows) -> IndexArray | None:
    """Return the positions of the rows of positive weight; None if the rows have no weights."""
    return None if rows.weights is None else np.flatnonzero(rows.weights > 0)


def take_from_partition(_: bytes, rows: ArrayRows, positions: IndexArray) -> tuple[Any, Any]:
    """Return the rows at some positions among those with weight, and their weights or None."""
    weighted = _weighted_positions(rows)
    return rows.take(positions if weighted is None else weighted[positions])


def sample_partition(payload: bytes, rows: ArrayRows, start: int) -> tuple[Any, Any]:
    """Return one of every `step` rows with weight, and their weights or None.

    `start` is the position of the first row of the partition among all rows with weight.
    """
    step = pickle.loads(payload)
    _, n_weighted = count_rows(payload, rows)
    return take_from_partition(payload, rows, sample_positions(start, start + n_weighted, step))


class PartitionFunction:
    """A function of the checked rows of a partition, to be mapped over an array or a dataframe of Dask.

    Parameters
    ----------
    payload : bytes
        The pickled function, number of columns, and their names or None.
    first_rows : tuple of int, optional
        The index of the first row of each partition, if known.
    """

    def __init__(self, payload: bytes, first_rows: tuple[int, ...] | None = None) -> None:
        self.payload, self.first_rows = payload, first_rows
        # Dask makes the keys of its tasks from this name.
        self.__name__ = "apolar-rows"

    def __call__(self, part: Any, block_id: tuple[int, ...] | None = None) -> Any:
        """Return the function of a partition."""
        first_row = 0 if self.first_rows is None or block_id is None else self.first_rows[block_id[0]]
        function, n_features, names = pickle.loads(self.payload)
        try:
            values = _values(part, first_row, names)
            block = checked_block(values, n_features, first_row, allows_missing=True)
        except (TypeError, ValueError) as error:
            if self.first_rows is not None or getattr(error, "row", None) is None:
                raise
            raise type(error)(f"{error} Rows are counted from the first of their partition.") from error
        return function(block)
