"""Sums of powers of rows on an NVIDIA GPU as one kernel each, by Triton.

A kernel reads rows as they are stored, once, and checks them as it sums. Without Triton, or for more columns,
the statistics compute the same from checked blocks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core import gpu
from apolar._core.arrays import Array
from apolar._core.namespaces import DeviceCopies, namespace, total
from apolar.data import Chunk, Rows, on_checked
from apolar.data.rows import add_up
from apolar.data.weights import check_weights
from apolar.tensor.monomials import monomial_variables

# The most columns, and the most directions of third moments: for more, matrix products are as fast.
MAX_COLUMNS = 64
MAX_DIRECTIONS = 16


@dataclass(frozen=True, eq=False)
class StoredBlock:
    """Rows as they are stored on a GPU, not checked yet.

    Attributes
    ----------
    values : torch.Tensor or cupy.ndarray, shape (n, n_features)
    """

    values: Any

    def count(self, weights: Any) -> tuple[Any, Any]:
        """Return the sum of the weights, and the number of rows with weight."""
        if weights is None:
            n_rows = self.values.shape[0]
            return n_rows, n_rows
        return total(weights), total(namespace(weights).astype(weights > 0, weights.dtype))


def reduce_rows(
    rows: Rows,
    statistic: Callable[[Any, Any], Any],
    n_threads: int = 1,
    n_working: int = 0,
    n_directions: int = 0,
    **checks: bool,
) -> list[Any]:
    """Return the sums of a statistic over rows: by its kernel on a GPU, else over checked blocks.

    Parameters
    ----------
    rows : Rows
    statistic : callable
        Takes a block, which may be a `StoredBlock`, and its weights. It returns a tuple, or None for a
        `StoredBlock` that has to be checked.
    n_threads : int, default=1
    n_working : int, default=0
        The number of values of working memory per row.
    n_directions : int, default=0
        The number of directions of third moments, if the statistic has any.
    **checks : bool
        Options of `Chunk.check`.

    Returns
    -------
    sums : list
    """
    of_checked = on_checked(statistic, **checks)

    chunk_rows = functools.partial(Rows.chunk_rows, n_working=n_working)
    template = rows.device_template
    if not is_fused(template, rows.n_features, n_directions) or not gpu.reads_dtype_of(template):
        return rows.reduce(of_checked, n_threads, chunk_rows)
    part_rows = chunk_rows(rows)

    def of_stored(chunk: Chunk) -> Any:
        if chunk.values.shape[1] != chunk.n_features or not gpu.reads_dtype_of(chunk.values):
            return of_checked(chunk)
        weights = check_weights(chunk.weights, chunk.values, chunk.first_row)
        if weights is not None and not bool(namespace(weights).any(weights > 0)):
            return None
        sums = statistic(StoredBlock(chunk.values), weights)
        return sums or add_up(of_checked(part) for part in chunk.parts(part_rows))

    return rows.reduce(of_stored, n_threads, gpu.MAX_ROWS)


def second_sums(
    block: StoredBlock, weights: Any, shift: Array | None, *, is_full: bool, grid: gpu.Grid | None = None
) -> list[Array] | None:
    """Return the weighted sums of x, and of x x^t or the squares of x, with x the rows minus the shift.

    Parameters
    ----------
    block : StoredBlock
    weights : array or None, shape (n,)
    shift : ndarray, shape (n_features,), or None
    is_full : bool
        Whether to sum x x^t, or only its diagonal.
    grid : gpu.Grid, optional

    Returns
    -------
    sums : list of ndarray, or None
        On the host; None if one is not finite.
    """
    n_columns = block.values.shape[1]
    columns = gpu.power_of_two_above(n_columns, gpu.MIN_INNER)
    centre = gpu.pad(np.zeros(n_columns) if shift is None else shift, columns)
    n_sums = columns + (columns * columns if is_full else columns)
    if grid is None:
        grid = gpu.Grid(32, 1, 16) if is_full and columns <= 32 else gpu.Grid(64, 2, 16)
    sums = _launch_sums(
        _kernels()[0], grid, block, weights, [centre], n_sums, PADDED=columns, IS_FULL=is_full
    )
    if not np.all(np.isfinite(sums)):
        return None
    first, second = sums[:n_columns], sums[columns:]
    if is_full:
        return [first, second.reshape(columns, columns)[:n_columns, :n_columns]]
    return [first, second[:n_columns]]


def signal_sums(
    block: StoredBlock, weights: Any, shift: DeviceCopies | None, directions: DeviceCopies
) -> tuple[Any, Any]:
    """Return what `apolar.moments.signal.SignalSums` sums."""
    *basis, offset = directions.values
    centre = offset if shift is None else shift.values + offset
    square_times, third = third_sums(block, weights, centre, np.array(basis).T)
    compact = third[tuple(monomial_variables(len(basis), 3).T)]
    return square_times, compact


def third_sums(
    block: StoredBlock, weights: Any, centre: Array, basis: Array, grid: gpu.Grid | None = None
) -> tuple[Array, Array]:
    """Return the weighted sums of |z|^2 y and of y y y, with z the rows minus the centre, and y = z basis.

    Parameters
    ----------
    block : StoredBlock
    weights : array or None, shape (n,)
    centre : ndarray, shape (n_features,)
    basis : ndarray, shape (n_features, n_directions)
    grid : gpu.Grid, optional

    Returns
    -------
    square_times : ndarray, shape (n_directions,)
    third : ndarray, shape (n_directions, n_directions, n_directions)
    """
    n_columns, n_directions = basis.shape
    columns = gpu.power_of_two_above(n_columns, gpu.MIN_INNER)
    directions = gpu.power_of_two_above(n_directions, gpu.MIN_OUTER)
    parameters = [gpu.pad(centre, columns), gpu.pad(basis, columns, directions)]
    if grid is None:
        grid = gpu.Grid(32, 1, 16, 128) if directions == gpu.MIN_OUTER else gpu.Grid(64, 4, 4)
    sums = _launch_sums(
        _kernels()[1],
        grid,
        block,
        weights,
        parameters,
        directions + directions**3,
        PADDED=columns,
        N_DIRECTIONS=directions,
    )
    third = sums[directions:].reshape(directions, directions, directions)
    real = slice(n_directions)
    return sums[real], third[real, real, real]


def _kernels() -> tuple[Any, Any]:
    """Return the kernels of second and of third powers."""
    from apolar.moments.kernels.triton_sums import second_kernel, third_kernel

    return second_kernel, third_kernel


def _launch_sums(
    kernel: Any,
    grid: gpu.Grid,
    block: StoredBlock,
    weights: Any,
    parameters: list[Array],
    n_sums: int,
    **sizes: Any,
) -> Array:
    """Return the sums of a kernel over all programs, shape (n_sums,), on the host."""
    values = gpu.tensor_of(block.values)
    sums = gpu.empty(values, grid.n_programs(values), n_sums)
    gpu.launch(kernel, grid, values, weights, parameters, [sums], **sizes)
    return np.asarray(sums.sum(dim=0).cpu())


def is_fused(device_template: Any, n_columns: int, n_directions: int = 0) -> bool:
    """Return whether there are kernels for rows on this device, with so many columns and directions.

    Parameters
    ----------
    device_template : array or None
        An empty array of the same library, and on the same device, as the rows.
    n_columns, n_directions : int
    """
    is_small = n_columns <= MAX_COLUMNS and n_directions <= MAX_DIRECTIONS
    return is_small and gpu.runs_kernel(device_template, "sums of powers", _trial)


def _trial(device: Any) -> bool:
    """Return whether the kernels are right about eight rows."""
    import torch

    rows = torch.ones((8, 2), dtype=torch.float64, device=device)
    block = StoredBlock(rows)
    second = second_sums(block, None, None, is_full=True)
    _, third = third_sums(block, None, np.zeros(2), np.eye(2))
    return second is not None and bool(np.all(second[1] == 8)) and bool(np.all(third == 8))
