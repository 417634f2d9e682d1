"""Blocks of rows on an NVIDIA GPU whose E-step and predictions are one kernel each, by Triton.

A kernel reads each row once and keeps all intermediate results in registers. Without Triton, or for more
columns and components, `apolar.em.blocks` computes the same.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core import gpu
from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, to_numpy, total
from apolar.data import ArrayRows, Chunk
from apolar.data.rows import add_up
from apolar.em.blocks import Block
from apolar.mixture.tails import Tails

if TYPE_CHECKING:
    from apolar.em.row_blocks import RowBlocks

LOG2_E = float(np.log2(np.e))
# The constant of components that only fill up the padding: their density is zero.
NO_DENSITY = -1e300
# What predictions write, by the number of the kernel's constant.
ANSWERS = ("labels", "probabilities", "densities", "sums")
# The most columns and components: for more, matrix products are as fast. For full covariances, the most
# columns times components, both padded.
MAX_KERNEL_COLUMNS = 64
MAX_KERNEL_COMPONENTS = 32
MAX_KERNEL_WIDTH = 256


class KernelBlock(Block):
    """Rows as they are stored on a GPU, which a kernel reads once.

    Parameters
    ----------
    chunk : Chunk
    others : RowBlocks
        The function that returns blocks of these rows, checked if need be, for what the kernel cannot
        compute: it only sees that something is not finite.
    """

    def __init__(self, chunk: Chunk, others: RowBlocks) -> None:
        super().__init__(int(chunk.values.shape[0]), chunk.weights)
        self.chunk, self.others, self.values = chunk, others, chunk.values

    @functools.cached_property
    def _written(self) -> Block:
        written = replace(self.others, is_checked=True, is_written=True)(self.chunk)
        assert written is not None
        return written

    def logits(self, natural: Array) -> Any:
        """Return natural parameters times row statistics, which are computed first."""
        return self._written.logits(natural)

    def stats(self, responsibilities: Any) -> Any:
        """Return the row statistics, which are computed first, summed under responsibilities."""
        return self._written.stats(responsibilities)

    def e_step(self, natural: Array, tails: Tails | None = None) -> tuple[Any, Any]:
        """Return the sufficient statistics and the log-likelihoods, of one mixture by the kernel."""
        centre, matrix = self.others.whitening.centre, self.others.whitening.matrix
        known = None if tails is None else tails.flat
        parameters = parameters_of(centre, matrix, natural[0], known) if len(natural) == 1 else None
        if parameters is None:
            return self._written.e_step(natural, tails)
        (counts, first, second, *of_tails), log_likelihood = e_step(self.values, self.weights, parameters)
        if known is not None:
            plain, logs = of_tails
            of_tails = [plain, known.slope_sums(plain, counts, logs)]
        if parameters.is_full:
            i, j = np.triu_indices(len(centre))
            return np.vstack([counts, first, second[i, :, j], *of_tails]).T, log_likelihood
        scale = np.broadcast_to(matrix, len(centre))[:, None]
        second = second * scale**2
        if natural.shape[-1] == len(centre) + 2:
            second = second.sum(axis=0, keepdims=True)
        return np.vstack([counts, first * scale, second, *of_tails]).T, log_likelihood

    def posteriors(self, natural: Array, what: str, tails: Tails | None = None) -> Any:
        """Return what one mixture says about each row: by the kernel, or by checked blocks."""
        if what not in ANSWERS:
            return super().posteriors(natural, what, tails)
        known = self.others.whitening.centre, self.others.whitening.matrix
        parameters = parameters_of(*known, natural, tails)
        is_sum = what == "sums"
        if parameters is not None:
            answers, check = predict(self.values, self.weights if is_sum else None, parameters, what)
            if float(check) == 0 and not is_sum:
                return gpu.like(answers, self.values)
            if float(check) == 0:
                weight = self.n_rows if self.weights is None else float(total(self.weights))
                return *(float(value) for value in answers), weight
        others = replace(self.others, n_working=self.others.n_working + 2 * len(natural))
        size = others.chunk_rows(ArrayRows(self.values))
        blocks = (others(part) for part in self.chunk.parts(size))
        parts = [block.posteriors(natural, what, tails) for block in blocks if block is not None]
        if is_sum:
            return tuple(add_up(parts) or (0.0, 0.0, 0.0))
        if any(isinstance(part, np.ndarray) for part in parts):
            # Rows with missing values are for the host.
            return np.concatenate([to_numpy(part) for part in parts])
        return namespace(parts[0]).concat(parts)


def is_fused(device_template: Any, n_columns: int, n_components: int, is_full: bool = False) -> bool:
    """Return whether there are kernels for rows on this device, with this many columns and components.

    Parameters
    ----------
    device_template : array or None
        An empty array of the same library, and on the same device, as the rows.
    n_columns, n_components : int
    is_full : bool, default=False
        Whether covariances are of any form, not only diagonal ones.
    """
    if is_full:
        columns = gpu.power_of_two_above(n_columns, gpu.MIN_INNER)
        components = gpu.power_of_two_above(n_components, gpu.MIN_OUTER)
        # Padding would be most of the work.
        is_padded = components > gpu.MIN_OUTER and columns >= 2 * n_columns
        is_small = columns * components <= MAX_KERNEL_WIDTH and not is_padded
    else:
        is_small = n_columns <= MAX_KERNEL_COLUMNS and n_components <= MAX_KERNEL_COMPONENTS
    trial = functools.partial(_counts_rows, is_full=is_full)
    return is_small and gpu.runs_kernel(device_template, "full E-step" if is_full else "E-step", trial)


def _counts_rows(device: Any, is_full: bool) -> bool:
    """Return whether the kernel counts eight rows."""
    import torch

    rows = torch.zeros((8, 2), dtype=torch.float64, device=device)
    natural = np.array([[0.0, 1.0, 1.0, -0.5, 0.0, -0.5] if is_full else [0.0, 1.0, 1.0, -0.5]])
    parameters = parameters_of(np.zeros(2), np.eye(2) if is_full else np.ones(()), natural)
    return parameters is not None and abs(float(e_step(rows, None, parameters)[0][0][0]) - 8) < 1e-9


@dataclass(frozen=True, eq=False)
class KernelParameters:
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
    has_tails : bool, default=False
        Whether the numbers of long tails are the last four arrays.
    """

    arrays: list[Array]
    n_columns: int
    n_components: int
    padded_columns: int
    padded_components: int
    is_full: bool
    has_tails: bool = False

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes that a kernel is compiled for: the width is the number of parameters per column."""
        width = self.padded_components * (self.padded_columns if self.is_full else 1)
        names = {"PADDED": self.padded_columns, "N_COMPONENTS": self.padded_components}
        return {**names, "WIDTH": width, "IS_FULL": self.is_full, "HAS_TAILS": self.has_tails}

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


def parameters_of(
    centre: Array, matrix: Array, natural: Array, tails: Tails | None = None
) -> KernelParameters | None:
    """Return the parameters of a mixture; None if one of its covariances is singular.

    Parameters
    ----------
    centre : ndarray, shape (n_columns,)
    matrix : ndarray
        Whitened rows are (x - centre) times this number, diagonal, or matrix. If it is a matrix, covariances
        are full ones.
    natural : ndarray, shape (n_components, n_stats)
        In whitened coordinates.
    tails : Tails, optional
        Of the components; by default they are Gaussian.
    """
    n_columns, n_components = len(centre), len(natural)
    columns = gpu.power_of_two_above(n_columns, gpu.MIN_INNER)
    components = gpu.power_of_two_above(n_components, gpu.MIN_OUTER)
    linear, quadratic = natural[:, 1 : 1 + n_columns], natural[:, 1 + n_columns :]
    sizes, of_tails = (n_columns, n_components, columns, components), list[Array]()
    if tails is not None:
        fills = NO_DENSITY, NO_DENSITY, 1.0, 1.0
        numbers = (tails.numbers * [LOG2_E, LOG2_E, 1.0, 1.0]).T
        of_tails = [gpu.pad(row, components, fill=fill) for row, fill in zip(numbers, fills, strict=True)]
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
        return KernelParameters([*arrays, *of_tails], *sizes, is_full=False, has_tails=bool(of_tails))
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
    return KernelParameters([*arrays, *of_tails], *sizes, is_full=True, has_tails=bool(of_tails))


def e_step(block: Any, weights: Any, parameters: KernelParameters) -> tuple[list[Array], Array]:
    """Return the sums of 1, z and quadratics under the responsibilities of rows, and their log-likelihood.

    Parameters
    ----------
    block : torch.Tensor or cupy.ndarray, shape (n, n_columns)
    weights : torch.Tensor, cupy.ndarray or None, shape (n,)
    parameters : KernelParameters

    Returns
    -------
    sums : list of ndarray
        Of 1, shape (n_components,), of z, shape (n_columns, n_components), and of squares of z, shape
        (n_columns, n_components), or of z z^t, shape (n_columns, n_components, n_columns). With long tails
        these are under responsibilities times factors, and the sums of 1 and log(1 + D / dof) under
        responsibilities follow, shape (n_components,) each.
    log_likelihood : ndarray, shape (1,)
    """
    from apolar.em.triton_rows import e_step_kernel

    columns, components = parameters.padded_columns, parameters.padded_components
    shapes = [(1,), (components,), (columns, components), (columns, components)]
    if parameters.is_full:
        shapes[-1] = (columns, components, columns)
    if parameters.has_tails:
        shapes += [(components,), (components,)]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    block, grid = gpu.tensor_of(block), parameters.grid
    stats = gpu.empty(block, grid.n_programs(block), int(ends[-1]))
    gpu.launch(e_step_kernel, grid, block, weights, parameters.arrays, [stats], **parameters.sizes)
    parts = np.split(np.asarray(stats.sum(dim=0).cpu()), ends[:-1])
    log_likelihood, *sums = (part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
    # Without the padding.
    n, k = parameters.n_columns, parameters.n_components
    counts, first, second, *of_tails = sums
    second = second[:n, :k, :n] if parameters.is_full else second[:n, :k]
    if parameters.has_tails:
        plain, logs = of_tails
        of_tails = [plain[:k], logs[:k] / LOG2_E]
    return [counts[:k], first[:n, :k], second, *of_tails], log_likelihood / LOG2_E


def predict(block: Any, weights: Any, parameters: KernelParameters, what: str) -> tuple[Any, Any]:
    """Return an answer for each row, or sums over all, and a number that is zero if all is finite, else NaN.

    Parameters
    ----------
    block : torch.Tensor or cupy.ndarray, shape (n, n_columns)
        Of single or double precision.
    weights : torch.Tensor, cupy.ndarray or None, shape (n,)
        Only for sums.
    parameters : KernelParameters
    what : {"labels", "probabilities", "densities", "sums"}
        The sums are those of log-densities and of the logarithms of the largest responsibilities.

    Returns
    -------
    answer : torch.Tensor
        Of shape (n,), (n, n_components) for probabilities, or (2,) for sums.
    check : torch.Tensor, shape ()
    """
    from apolar.em.triton_rows import predict_kernel

    block, grid = gpu.tensor_of(block), parameters.prediction_grid
    n_rows, n_programs = block.shape[0], grid.n_programs(block)
    shapes = {"probabilities": (n_rows, parameters.n_components), "sums": (n_programs, 2)}
    out = gpu.empty(block, *shapes.get(what, (n_rows,)), is_integer=what == "labels")
    checks = gpu.empty(block, n_programs)
    given = parameters.sizes | {"WHAT": ANSWERS.index(what)}
    numbers = [parameters.n_components]
    gpu.launch(predict_kernel, grid, block, weights, parameters.arrays, [out, checks], *numbers, **given)
    return out.sum(dim=0) if what == "sums" else out, checks.sum()
