"""Sums over rows: as they are stored, by the compiled extension or a Triton kernel, or in checked blocks.

A kernel of an NVIDIA GPU reads rows once, and checks them as it sums. Without Triton, or for more columns,
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
from apolar._core.namespaces import namespace, total
from apolar.data import Chunk, Rows, on_checked
from apolar.data.chunks import check_weights
from apolar.data.rows import add_up
from apolar.tensor.monomials import monomial_variables

# The most columns, and the most directions of third moments: for more, matrix products are as fast.
FUSED_COLUMNS = 64
FUSED_DIRECTIONS = 16


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


def sum_rows(
    rows: Rows,
    statistic: Callable[..., Any],
    n_threads: int = 1,
    *,
    is_compiled: bool = False,
    n_working: int = 0,
    n_directions: int = 0,
    **checks: bool,
) -> list[Any]:
    """Return the sums of a statistic over rows: by one call where a kernel reads all of them, or by blocks.

    Parameters
    ----------
    rows : Rows
    statistic : callable
        Takes a block, which may be a `StoredBlock`, its weights, and the number of threads that may work on
        it. It returns a tuple, or None for a `StoredBlock` that has to be checked.
    n_threads : int, default=1
    is_compiled : bool, default=False
        Whether the compiled extension computes the statistic for so many columns.
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
    if is_compiled and rows.is_one_array:
        sums = rows.reduce(
            lambda chunk: statistic(chunk.values, _weights_of(chunk), n_threads), chunk_rows=rows.n_rows
        )
        # Where they are not finite, a value is looked for that is not: that of a row of weight zero is no
        # error.
        if all(np.all(np.isfinite(value)) for value in sums):
            return sums
    of_checked = on_checked(statistic, **checks)
    chunk_rows = functools.partial(Rows.chunk_rows, n_working=n_working)
    template = rows.device_template
    if not is_fused(template, rows.n_features, n_directions) or not gpu.reads_dtype_of(template):
        return rows.reduce(of_checked, n_threads, chunk_rows)
    part_rows = chunk_rows(rows)

    def of_stored(chunk: Chunk) -> Any:
        if chunk.values.shape[1] != chunk.n_features or not gpu.reads_dtype_of(chunk.values):
            return of_checked(chunk)
        weights = _weights_of(chunk)
        if weights is not None and not bool(namespace(weights).any(weights > 0)):
            return None
        sums = statistic(StoredBlock(chunk.values), weights)
        return sums or add_up(of_checked(part) for part in chunk.parts(part_rows))

    return rows.reduce(of_stored, n_threads, gpu.MAX_ROWS)


def _weights_of(chunk: Chunk) -> Any:
    return check_weights(chunk.weights, chunk.values, chunk.first_row)


def second_sums(
    block: StoredBlock, weights: Any, shift: Array | None, *, is_full: bool
) -> tuple[Any, ...] | None:
    """Return the weighted sums of 1, x, and x x^t or the squares of x, with x the rows minus the shift.

    Parameters
    ----------
    block : StoredBlock
    weights : array or None, shape (n,)
    shift : ndarray, shape (n_features,), or None
    is_full : bool
        Whether to sum x x^t, or only its diagonal.

    Returns
    -------
    sums : tuple, or None
        The sum of the weights, the number of rows with weight, and the sums, on the host; None if one is not
        finite.
    """
    n_columns = block.values.shape[1]
    columns = gpu.power_of_two_above(n_columns, gpu.MIN_INNER)
    centre = gpu.pad(np.zeros(n_columns) if shift is None else shift, columns)
    n_sums = columns + (columns * columns if is_full else columns)
    grid = gpu.Grid(32, 1, 16) if is_full and columns <= 32 else gpu.Grid(64, 2, 16)
    sums = _launch_sums(
        _kernels()[0], grid, block, weights, [centre], n_sums, PADDED=columns, IS_FULL=is_full
    )
    if not np.all(np.isfinite(sums)):
        return None
    first, second = sums[:n_columns], sums[columns:]
    if is_full:
        second = second.reshape(columns, columns)[:, :n_columns]
    return (*block.count(weights), first, second[:n_columns])


def third_sums(block: StoredBlock, weights: Any, centre: Array, basis: Array) -> tuple[Array, Array]:
    """Return the weighted sums of |z|^2 y and of y y y, with z the rows minus the centre, and y = z basis.

    Parameters
    ----------
    block : StoredBlock
    weights : array or None, shape (n,)
    centre : ndarray, shape (n_features,)
    basis : ndarray, shape (n_features, n_directions)

    Returns
    -------
    square_times : ndarray, shape (n_directions,)
    third : ndarray, shape (n_monomials(n_directions, 3),)
    """
    n_columns, n_directions = basis.shape
    columns = gpu.power_of_two_above(n_columns, gpu.MIN_INNER)
    directions = gpu.power_of_two_above(n_directions, gpu.MIN_OUTER)
    parameters = [gpu.pad(centre, columns), gpu.pad(basis, columns, directions)]
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
    return sums[:n_directions], third[tuple(monomial_variables(n_directions, 3).T)]


def _kernels() -> tuple[Any, Any]:
    """Return the kernels of second and of third powers."""
    from apolar.moments.triton_sums import second_kernel, third_kernel

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
    is_small = n_columns <= FUSED_COLUMNS and n_directions <= FUSED_DIRECTIONS
    return is_small and gpu.runs_kernel(device_template, "sums of powers", _trial)


def _trial(device: Any) -> bool:
    """Return whether the kernels are right about eight rows."""
    import torch

    rows = torch.ones((8, 2), dtype=torch.float64, device=device)
    block = StoredBlock(rows)
    second = second_sums(block, None, None, is_full=True)
    _, third = third_sums(block, None, np.zeros(2), np.eye(2))
    return second is not None and bool(np.all(second[3] == 8)) and bool(np.all(third == 8))
