"""Blocks of rows on an NVIDIA GPU whose E-step and predictions are one kernel each, by Triton.

A kernel reads each row once and keeps all intermediate results in registers. Without Triton, or for more
columns and components, `apolar.em.blocks` computes the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core import gpu
from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, total
from apolar.data import ArrayRows, BlockTransform, thread_scratch
from apolar.data.checks import checked_weights
from apolar.data.reduce import add_up
from apolar.em.blocks import Block, StatsBlock, weights_to_device_of
from apolar.em.kernels import launch

if TYPE_CHECKING:
    from apolar.em.row_stats import RowStats

# The most columns and components: for more, matrix products are as fast.
MAX_COLUMNS = 64
MAX_COMPONENTS = 32
# For full covariances, the most columns, and the most columns times components, both padded; with more than
# the least number of components, there must be more than a few columns.
MAX_FULL_COLUMNS = 32
MAX_FULL_WIDTH = 256
FEW_FULL_COLUMNS = 8


@dataclass(frozen=True, eq=False)
class KernelBlocks:
    """The transform of chunks of rows on a GPU to blocks whose E-step and predictions are one kernel.

    Attributes
    ----------
    preparation : RowStats
    chunk_rows : int
    make_others : callable
        Returns the transform of chunks that a kernel cannot read, and of those that have to be checked.
    """

    preparation: RowStats
    chunk_rows: int
    make_others: Callable[[], BlockTransform]

    def __call__(self, values: Any, weights: Any, first_row: int) -> tuple[Any, Any] | None:
        """Return a block and its weights."""
        if not self.preparation.is_checked:
            if values.shape[1] != self.preparation.whitening.centre.size or not gpu.reads_dtype_of(values):
                return self.make_others()(values, weights, first_row)
            weights = checked_weights(weights, values, first_row)
        block = KernelBlock(values, self.preparation, self.make_others, first_row)
        return block, weights_to_device_of(weights, values)


class KernelBlock(Block):
    """Rows as they are stored on a GPU, which a kernel reads once.

    Parameters
    ----------
    values : torch.Tensor or cupy.ndarray, shape (n_rows, n_features)
    preparation : RowStats
    make_others : callable
        Returns the transform of parts of these rows that checks them: the kernel only sees that something is
        not finite.
    first_row : int
        The index of the first row.
    """

    def __init__(
        self,
        values: Any,
        preparation: RowStats,
        make_others: Callable[[], BlockTransform],
        first_row: int,
    ) -> None:
        self.values, self.preparation, self.scratch = values, preparation, thread_scratch()
        self.make_others, self.first_row = make_others, first_row

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

    @functools.cached_property
    def _written(self) -> StatsBlock:
        return StatsBlock(self.preparation.written(self.values, self.scratch), self.scratch)

    def logits(self, natural: Array) -> Any:
        """Return natural parameters times row statistics, which are computed first."""
        return self._written.logits(natural)

    def stats(self, responsibilities: Any) -> Any:
        """Return the row statistics, which are computed first, summed under responsibilities."""
        return self._written.stats(responsibilities)

    def to_device(self, values: Array) -> Any:
        """Return an array of the host on the device of the block."""
        return self._written.to_device(values)

    def e_step(self, natural: Array, weights: Any) -> tuple[Any, Any]:
        """Return the sufficient statistics of one mixture, and its log-likelihood, by the kernel."""
        whitening, (mixture,) = self.preparation.whitening, natural
        if whitening.matrix.ndim == 2:
            sums = full_e_step(self.values, weights, whitening.centre, whitening.matrix, mixture)
            if sums is not None:
                return sums
            return self._written.e_step(natural, weights)
        scale = np.broadcast_to(whitening.matrix, whitening.centre.shape)
        return aligned_e_step(self.values, weights, whitening.centre, scale, mixture)

    def labels(self, natural: Array) -> Any:
        """Return the most probable component of each row, by the kernel."""
        return self._answers(natural, "labels", lambda block: block.labels(natural))

    def probabilities(self, natural: Array) -> Any:
        """Return the responsibilities, shape (n_rows, n_components), by the kernel."""
        return self._answers(natural, "probabilities", lambda block: block.probabilities(natural))

    def log_densities(self, natural: Array) -> Any:
        """Return the log-density of each row, in whitened coordinates, by the kernel."""
        return self._answers(natural, "densities", lambda block: block.log_densities(natural))

    def _answers(self, natural: Array, what: str, of_block: Callable[[Block], Any]) -> Any:
        """Return an answer for each row by the kernel, or by a function of checked blocks."""
        parameters = self._parameters(natural)
        if parameters is not None:
            answers, check = launch.predicted(self.values, None, parameters, what)
            if float(check) == 0:
                return gpu.like(answers, self.values)
        parts = list(self._parts(lambda block, _: of_block(block), None))
        return namespace(parts[0]).concat(parts)

    def density_sums(self, natural: Array, weights: Any) -> tuple[Any, Any, Any]:
        """Return the sums of log-densities, certainties and weights, by the kernel."""
        parameters = self._parameters(natural)
        if parameters is not None:
            sums, check = launch.predicted(self.values, weights, parameters, "sums")
            if float(check) == 0:
                density, certainty = (float(value) for value in sums)
                return density, certainty, self.n_rows if weights is None else total(weights)
        parts = self._parts(lambda block, weights: block.density_sums(natural, weights), weights)
        density, certainty, weight = add_up(parts) or (0.0, 0.0, 0.0)
        return density, certainty, weight

    def _parameters(self, natural: Array) -> launch.Parameters | None:
        """Return the parameters of one mixture for the kernel; None if a covariance is singular."""
        whitening = self.preparation.whitening
        if whitening.matrix.ndim == 2:
            return launch.full_parameters(whitening.centre, whitening.matrix, natural)
        scale = np.broadcast_to(whitening.matrix, whitening.centre.shape)
        return launch.aligned_parameters(whitening.centre, scale, natural)

    def _parts(self, function: Callable[[Any, Any], Any], weights: Any) -> Iterator[Any]:
        """Yield a function of blocks of these rows that are made, and checked, without the kernel."""
        others, first_row = self.make_others(), self.first_row
        for values, part_weights in ArrayRows(self.values, weights).read(others.chunk_rows):
            prepared = others(values, part_weights, first_row)
            first_row += values.shape[0]
            if prepared is not None:
                yield function(*prepared)


def aligned_e_step(
    block: Any, weights: Any, centre: Array, scale: Array, natural: Array
) -> tuple[Array, Array]:
    """Return the sufficient statistics of rows under a spherical or diagonal mixture, and the log-likelihood.

    Parameters
    ----------
    block : torch.Tensor or cupy.ndarray, shape (n, n_columns)
    weights : torch.Tensor, cupy.ndarray or None, shape (n,)
    centre, scale : ndarray, shape (n_columns,)
        Whitened rows are (x - centre) scale.
    natural : ndarray, shape (n_components, 1 + n_columns + n_quadratics)
        In whitened coordinates; one quadratic, of |z|^2, or one per column.

    Returns
    -------
    stats : ndarray, shape (n_components, 1 + n_columns + n_quadratics)
    log_likelihood : ndarray, shape (1,)
    """
    parameters = launch.aligned_parameters(centre, scale, natural)
    (counts, first, second), log_likelihood = launch.e_step(block, weights, parameters)
    second *= scale[:, None] ** 2
    if natural.shape[1] == len(centre) + 2:
        second = second.sum(axis=0, keepdims=True)
    return np.vstack([counts, first * scale[:, None], second]).T, log_likelihood


def full_e_step(
    block: Any, weights: Any, centre: Array, whitening: Array, natural: Array
) -> tuple[Array, Array] | None:
    """Return the sufficient statistics of rows under a mixture of full covariances, and the log-likelihood.

    Parameters
    ----------
    block : torch.Tensor or cupy.ndarray, shape (n, n_columns)
    weights : torch.Tensor, cupy.ndarray or None, shape (n,)
    centre : ndarray, shape (n_columns,)
    whitening : ndarray, shape (n_columns, n_columns)
        Whitened rows are (x - centre) whitening.
    natural : ndarray, shape (n_components, 1 + n_columns + n_pairs)
        In whitened coordinates.

    Returns
    -------
    sums : tuple or None
        The statistics, shape (n_components, 1 + n_columns + n_pairs), and the log-likelihood, shape (1,).
        None if a covariance is singular.
    """
    parameters = launch.full_parameters(centre, whitening, natural)
    if parameters is None:
        return None
    (counts, first, second), log_likelihood = launch.e_step(block, weights, parameters)
    i, j = np.triu_indices(len(centre))
    return np.vstack([counts, first, second[i, :, j]]).T, log_likelihood


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
    return is_small and gpu.runs_kernel(
        device_template, "full E-step" if is_full else "E-step", _full_trial if is_full else _aligned_trial
    )


def _aligned_trial(device: Any) -> bool:
    """Return whether the kernel counts eight rows."""
    import torch

    rows = torch.zeros((8, 2), dtype=torch.float64, device=device)
    stats, _ = aligned_e_step(rows, None, np.zeros(2), np.ones(2), np.array([[0.0, 1.0, 1.0, -0.5]]))
    return abs(float(stats[0, 0]) - 8) < 1e-9


def _full_trial(device: Any) -> bool:
    """Return whether the kernel counts eight rows."""
    import torch

    rows = torch.zeros((8, 2), dtype=torch.float64, device=device)
    natural = np.array([[0.0, 1.0, 1.0, -0.5, 0.0, -0.5]])
    sums = full_e_step(rows, None, np.zeros(2), np.eye(2), natural)
    return sums is not None and abs(float(sums[0][0, 0]) - 8) < 1e-9
