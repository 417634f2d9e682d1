"""Sums of powers of rows on NVIDIA GPUs, by kernels that read rows as they are stored, once."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core import gpu
from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, total
from apolar.tensor.monomials import monomial_variables

# The most columns, and the most directions of third moments: for more, matrix products are as fast.
FUSED_COLUMNS = 64
FUSED_DIRECTIONS = 16


def second_sums(values: Any, weights: Any, centre: Array, *, is_full: bool) -> tuple[Any, ...]:
    """Return the weighted sums of 1, z, and z z^t or the squares of z, with z the rows minus the centre.

    Parameters
    ----------
    values : torch.Tensor or cupy.ndarray, shape (n, n_features)
        Not checked.
    weights : array or None, shape (n,)
    centre : ndarray, shape (n_features,)
    is_full : bool
        Whether to sum z z^t, or only its diagonal.

    Returns
    -------
    sums : tuple
        The sum of the weights, the number of rows with weight, and the sums, on the host.
    """
    n_rows, n_columns = values.shape
    columns = gpu.power_of_two_above(n_columns, gpu.MIN_INNER)
    n_sums = columns + (columns * columns if is_full else columns)
    grid = gpu.Grid(32, 1, 16) if is_full and columns <= 32 else gpu.Grid(64, 2, 16)
    parameters = [gpu.pad(centre, columns)]
    sums = _launch_sums(
        _kernels()[0], grid, values, weights, parameters, n_sums, PADDED=columns, IS_FULL=is_full
    )
    first, second = sums[:n_columns], sums[columns:]
    if is_full:
        second = second.reshape(columns, columns)[:, :n_columns]
    weight: Any = n_rows
    if weights is not None:
        weight, n_rows = total(weights), total(namespace(weights).astype(weights > 0, weights.dtype))
    return weight, n_rows, first, second[:n_columns]


def third_sums(values: Any, weights: Any, centre: Array, basis: Array) -> tuple[Array, Array]:
    """Return the weighted sums of |z|^2 y and of y y y, with z the rows minus the centre, and y = z basis.

    Parameters
    ----------
    values : torch.Tensor or cupy.ndarray, shape (n, n_features)
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
        values,
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
    values: Any,
    weights: Any,
    parameters: list[Array],
    n_sums: int,
    **sizes: Any,
) -> Array:
    """Return the sums of a kernel over all programs, shape (n_sums,), on the host."""
    tensor = gpu.tensor_of(values)
    sums = gpu.empty(tensor, grid.n_programs(tensor), n_sums)
    gpu.launch(kernel, grid, tensor, weights, parameters, [sums], **sizes)
    return np.asarray(sums.sum(dim=0).cpu())


def is_fused(device_template: Any, n_columns: int, n_directions: int = 0) -> bool:
    """Return whether there are kernels for rows on this device, with this many columns and directions.

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
    second = second_sums(rows, None, np.zeros(2), is_full=True)[3]
    _, third = third_sums(rows, None, np.zeros(2), np.eye(2))
    return bool(np.all(second == 8)) and bool(np.all(third == 8))
