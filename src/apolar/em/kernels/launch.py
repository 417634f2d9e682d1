"""The kernels of the E-step and of predictions: their parameters, and their launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core import gpu
from apolar._core.arrays import Array

LOG2_E = float(np.log2(np.e))
# The constant of components that only fill up the padding: their density is zero.
NO_DENSITY = -1e300
# What predictions write, by the number of the kernel's constant.
ANSWERS = ("labels", "probabilities", "densities", "sums")


@dataclass(frozen=True, eq=False)
class DeviceParameters:
    """The parameters of one mixture, as the kernels read them.

    Rows minus `centre` are z, in the units of the data; for full covariances they are whitened as well.

    Attributes
    ----------
    arrays : list of ndarray
        In the order in which the kernel reads them. Logits are in base 2.
    n_columns, n_components : int
        Without the padding.
    padded_columns, padded_components : int
    is_full : bool
        Whether components have covariances of any form, not only diagonal ones.
    """

    arrays: list[Array]
    n_columns: int
    n_components: int
    padded_columns: int
    padded_components: int
    is_full: bool

    @property
    def width(self) -> int:
        """The number of parameters, and of second sums, per column."""
        return self.padded_components * (self.padded_columns if self.is_full else 1)

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes that a kernel is compiled for."""
        names = {"PADDED": self.padded_columns, "N_COMPONENTS": self.padded_components}
        return {**names, "WIDTH": self.width, "IS_FULL": self.is_full}

    @property
    def grid(self) -> gpu.Grid:
        """How the E-step divides rows: wide tables and many components take more registers, and warps."""
        width = self.padded_columns * self.padded_components
        if self.is_full:
            return gpu.Grid(16, 1, 8) if width <= 128 else gpu.Grid(16, 4, 4)
        if width <= 256:
            return gpu.Grid(32, 1, 12, 160) if width <= 128 else gpu.Grid(32, 1, 16)
        return gpu.Grid(16, 1, 16) if width <= 512 else gpu.Grid(64, 4, 4)

    @property
    def prediction_grid(self) -> gpu.Grid:
        """How predictions divide rows."""
        if self.is_full:
            is_small = self.padded_columns * self.padded_components <= 128
            return gpu.Grid(16, 1, 8) if is_small else gpu.Grid(16, 2, 4)
        return gpu.Grid(64, 2, 16)


def parameters_of(centre: Array, matrix: Array, natural: Array) -> DeviceParameters | None:
    """Return the parameters of a mixture; None if one of its covariances is singular.

    Parameters
    ----------
    centre : ndarray, shape (n_columns,)
    matrix : ndarray
        Whitened rows are (x - centre) times this number, diagonal, or matrix. If it is a matrix, covariances
        are full ones.
    natural : ndarray, shape (n_components, n_stats)
        In whitened coordinates.
    """
    n_columns, n_components = len(centre), len(natural)
    columns = gpu.power_of_two_above(n_columns, gpu.MIN_INNER)
    components = gpu.power_of_two_above(n_components, gpu.MIN_OUTER)
    linear, quadratic = natural[:, 1 : 1 + n_columns], natural[:, 1 + n_columns :]
    sizes = n_columns, n_components, columns, components
    if matrix.ndim < 2:
        # The scale is part of the parameters: one multiplication less per value.
        scale = np.broadcast_to(matrix, n_columns)
        quadratic = np.broadcast_to(quadratic, linear.shape) * scale**2
        arrays = [
            gpu.pad(centre, columns),
            gpu.pad(natural[:, 0] * LOG2_E, components, fill=NO_DENSITY),
            gpu.pad((linear * scale).T * LOG2_E, columns, components),
            gpu.pad(quadratic.T * LOG2_E, columns, components),
        ]
        return DeviceParameters(arrays, *sizes, is_full=False)
    i, j = np.triu_indices(n_columns)
    precisions = np.zeros((n_components, n_columns, n_columns))
    # Off the diagonal, natural parameters are those of both triangles.
    precisions[:, i, j] = -quadratic
    precisions = precisions + np.swapaxes(precisions, 1, 2)
    # A noise component has a constant alone, and no precisions.
    is_gaussian = np.any(natural[:, 1:] != 0, axis=1)
    roots, means = np.zeros_like(precisions), np.zeros_like(linear)
    try:
        roots[is_gaussian] = np.linalg.cholesky(precisions[is_gaussian])
        # With precisions L L^t, the whitened means are L^t S l = L^-1 l.
        means[is_gaussian] = np.linalg.solve(roots[is_gaussian], linear[is_gaussian, :, None])[..., 0]
    except np.linalg.LinAlgError:
        return None
    constants = natural[:, 0] + 0.5 * np.einsum("ki,ki->k", means, means)
    if not (np.all(np.isfinite(constants)) and np.all(np.isfinite(roots))):
        return None
    unit = np.sqrt(0.5 * LOG2_E)
    arrays = [
        gpu.pad(centre, columns),
        gpu.pad(matrix, columns, columns),
        gpu.pad(constants * LOG2_E, components, fill=NO_DENSITY),
        gpu.pad(np.moveaxis(roots, 0, 1) * unit, columns, components, columns),
        gpu.pad(-means * unit, components, columns),
    ]
    return DeviceParameters(arrays, *sizes, is_full=True)


def e_step(block: Any, weights: Any, parameters: DeviceParameters) -> tuple[list[Array], Array]:
    """Return the sums of 1, z and quadratics under the responsibilities of rows, and their log-likelihood.

    Parameters
    ----------
    block : torch.Tensor or cupy.ndarray, shape (n, n_columns)
    weights : torch.Tensor, cupy.ndarray or None, shape (n,)
    parameters : DeviceParameters

    Returns
    -------
    sums : list of ndarray
        Of 1, shape (n_components,), of z, shape (n_columns, n_components), and of squares of z, shape
        (n_columns, n_components), or of z z^t, shape (n_columns, n_components, n_columns).
    log_likelihood : ndarray, shape (1,)
    """
    from apolar.em.kernels.triton_kernels import e_step_kernel

    columns, components = parameters.padded_columns, parameters.padded_components
    block, grid = gpu.tensor_of(block), parameters.grid
    n_sums = 1 + components * (1 + columns) + columns * parameters.width
    stats = gpu.empty(block, grid.n_programs(block), n_sums)
    gpu.launch(e_step_kernel, grid, block, weights, parameters.arrays, [stats], **parameters.sizes)
    total = np.asarray(stats.sum(dim=0).cpu())
    log_likelihood, counts, first, second = np.split(total, np.cumsum([1, components, components * columns]))
    shape = (columns, components, columns) if parameters.is_full else (columns, components)
    # Without the padding.
    real = (slice(parameters.n_columns), slice(parameters.n_components), slice(parameters.n_columns))
    sums = [
        counts[real[1]],
        first.reshape(columns, components)[real[:2]],
        second.reshape(shape)[real[: len(shape)]],
    ]
    return sums, log_likelihood / LOG2_E


def predict(block: Any, weights: Any, parameters: DeviceParameters, what: str) -> tuple[Any, Any]:
    """Return an answer for each row, or sums over all, and a number that is zero if all is finite, else NaN.

    Parameters
    ----------
    block : torch.Tensor or cupy.ndarray, shape (n, n_columns)
        Of single or double precision.
    weights : torch.Tensor, cupy.ndarray or None, shape (n,)
        Only for sums.
    parameters : DeviceParameters
    what : {"labels", "probabilities", "densities", "sums"}
        The sums are those of log-densities and of the logarithms of the largest responsibilities.

    Returns
    -------
    answer : torch.Tensor
        Of shape (n,), (n, n_components) for probabilities, or (2,) for sums.
    check : torch.Tensor, shape ()
    """
    from apolar.em.kernels.triton_kernels import predict_kernel

    block, grid = gpu.tensor_of(block), parameters.prediction_grid
    n_rows, n_programs = block.shape[0], grid.n_programs(block)
    shapes = {"probabilities": (n_rows, parameters.n_components), "sums": (n_programs, 2)}
    out = gpu.empty(block, *shapes.get(what, (n_rows,)), is_integer=what == "labels")
    checks = gpu.empty(block, n_programs)
    given = parameters.sizes | {"WHAT": ANSWERS.index(what)}
    numbers = [parameters.n_components]
    gpu.launch(predict_kernel, grid, block, weights, parameters.arrays, [out, checks], *numbers, **given)
    return out.sum(dim=0) if what == "sums" else out, checks.sum()
