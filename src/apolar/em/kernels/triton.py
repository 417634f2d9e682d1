"""Blocks of rows on an NVIDIA GPU whose E-step and predictions are one kernel each, by Triton.

A kernel reads each row once and keeps all intermediate results in registers. Without Triton, or for more
columns and components, `apolar.em.blocks` computes the same.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core import gpu
from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, to_numpy, total
from apolar.data import ArrayRows, Chunk
from apolar.data.rows import add_up
from apolar.em.blocks import Block
from apolar.em.kernels import launch

if TYPE_CHECKING:
    from apolar.em.row_blocks import RowBlocks

# The most columns and components: for more, matrix products are as fast.
MAX_COLUMNS = 64
MAX_COMPONENTS = 32
# For full covariances, the most columns, and the most columns times components, both padded; with more than
# the least number of components, there must be more than a few columns.
MAX_FULL_COLUMNS = 32
MAX_FULL_WIDTH = 256
FEW_FULL_COLUMNS = 8


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
        super().__init__(chunk.weights)
        self.chunk, self.others, self.values = chunk, others, chunk.values

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

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

    def e_step(self, natural: Array) -> tuple[Any, Any]:
        """Return the sufficient statistics and the log-likelihoods, of one mixture by the kernel."""
        whitening = self.others.whitening
        if len(natural) == 1:
            sums = e_step(self.values, self.weights, whitening.centre, whitening.matrix, natural[0])
            if sums is not None:
                return sums
        return self._written.e_step(natural)

    def posteriors(self, natural: Array, what: str) -> Any:
        """Return what one mixture says about each row: by the kernel, or by checked blocks."""
        if what not in launch.ANSWERS:
            return super().posteriors(natural, what)
        whitening = self.others.whitening
        parameters = launch.parameters_of(whitening.centre, whitening.matrix, natural)
        is_sum = what == "sums"
        if parameters is not None:
            answers, check = launch.predict(self.values, self.weights if is_sum else None, parameters, what)
            if float(check) == 0 and not is_sum:
                return gpu.like(answers, self.values)
            if float(check) == 0:
                weight = self.n_rows if self.weights is None else float(total(self.weights))
                return *(float(value) for value in answers), weight
        others = replace(self.others, n_working=self.others.n_working + 2 * len(natural))
        size = others.chunk_rows(ArrayRows(self.values, device_template=self.values[:0, ...]))
        blocks = (others(part) for part in self.chunk.parts(size))
        parts = [block.posteriors(natural, what) for block in blocks if block is not None]
        if is_sum:
            return tuple(add_up(parts) or (0.0, 0.0, 0.0))
        if any(isinstance(part, np.ndarray) for part in parts):
            # Rows with missing values are for the host.
            return np.concatenate([to_numpy(part) for part in parts])
        return namespace(parts[0]).concat(parts)


def e_step(
    block: Any, weights: Any, centre: Array, matrix: Array, natural: Array
) -> tuple[Array, Array] | None:
    """Return the sufficient statistics of rows under one mixture, and the log-likelihood.

    Parameters
    ----------
    block : torch.Tensor or cupy.ndarray, shape (n, n_columns)
    weights : torch.Tensor, cupy.ndarray or None, shape (n,)
    centre, matrix, natural
        As for `launch.parameters_of`.

    Returns
    -------
    sums : tuple or None
        The statistics, shape (n_components, n_stats), and the log-likelihood, shape (1,). None if a
        covariance is singular.
    """
    parameters = launch.parameters_of(centre, matrix, natural)
    if parameters is None:
        return None
    (counts, first, second), log_likelihood = launch.e_step(block, weights, parameters)
    if parameters.is_full:
        i, j = np.triu_indices(len(centre))
        return np.vstack([counts, first, second[i, :, j]]).T, log_likelihood
    scale = np.broadcast_to(matrix, len(centre))[:, None]
    second *= scale**2
    if natural.shape[1] == len(centre) + 2:
        second = second.sum(axis=0, keepdims=True)
    return np.vstack([counts, first * scale, second]).T, log_likelihood


def is_fused(device_template: Any, n_columns: int, n_components: int, is_full: bool = False) -> bool:
    """Return whether there are kernels for rows on this device, with so many columns and components.

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
        is_small = columns <= MAX_FULL_COLUMNS and columns * components <= MAX_FULL_WIDTH
        # Padding would be most of the work.
        is_small = is_small and (n_columns > FEW_FULL_COLUMNS or components == gpu.MIN_OUTER)
    else:
        is_small = n_columns <= MAX_COLUMNS and n_components <= MAX_COMPONENTS
    trial = functools.partial(_counts_rows, is_full=is_full)
    return is_small and gpu.runs_kernel(device_template, "full E-step" if is_full else "E-step", trial)


def _counts_rows(device: Any, is_full: bool) -> bool:
    """Return whether the kernel counts eight rows."""
    import torch

    rows = torch.zeros((8, 2), dtype=torch.float64, device=device)
    natural = np.array([[0.0, 1.0, 1.0, -0.5, 0.0, -0.5] if is_full else [0.0, 1.0, 1.0, -0.5]])
    sums = e_step(rows, None, np.zeros(2), np.eye(2) if is_full else np.ones(()), natural)
    return sums is not None and abs(float(sums[0][0, 0]) - 8) < 1e-9
