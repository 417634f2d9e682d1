"""The E-step of spherical and diagonal mixtures as one kernel for NVIDIA GPUs, by Triton.

It reads each row once and keeps all intermediate results in registers. Without Triton, or for other families,
`apolar.em.blocks` computes the same.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array
from apolar.data import thread_scratch
from apolar.em.blocks import Block, StatsBlock, weights_to_device_of

if TYPE_CHECKING:
    from apolar.em.row_stats import RowStats

# The most columns and components: for more, matrix products are as fast.
MOST_COLUMNS = 64
MOST_COMPONENTS = 32
# Rows per block, warps per block, and programs per multiprocessor.
BLOCK_ROWS = 64
WARPS = 2
PROGRAMS = 16
# The most rows per call.
MOST_ROWS = 2**28


@dataclass(frozen=True, eq=False)
class KernelBlocks:
    """Blocks of rows on a GPU whose E-step is one kernel."""

    preparation: RowStats
    chunk_rows: int

    def __call__(self, values: Any, weights: Any, _: int) -> tuple[Any, Any]:
        """Return a block and its weights."""
        return KernelBlock(values, self.preparation), weights_to_device_of(weights, values)


class KernelBlock(Block):
    """Rows as they are stored on a GPU, which the E-step of one mixture reads once.

    Parameters
    ----------
    values : torch.Tensor or cupy.ndarray, shape (n_rows, n_features)
    preparation : RowStats
    """

    def __init__(self, values: Any, preparation: RowStats) -> None:
        self.values, self.preparation, self.scratch = values, preparation, thread_scratch()

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
        whitening, (parameters,) = self.preparation.whitening, natural
        n_features = whitening.centre.size
        return e_step(
            self.values,
            weights,
            whitening.centre,
            np.broadcast_to(whitening.matrix, n_features),
            constants=parameters[:, 0],
            linear=parameters[:, 1 : 1 + n_features],
            quadratic=parameters[:, 1 + n_features :],
        )


def is_fused(device_template: Any, n_columns: int, n_components: int) -> bool:
    """Return whether there is a kernel for rows on this device, with so many columns and components.

    Parameters
    ----------
    device_template : array or None
        An empty array of the same library, and on the same device, as the rows.
    n_columns, n_components : int
    """
    library = type(device_template).__module__.partition(".")[0]
    if not (library == "cupy" or (library == "torch" and device_template.device.type == "cuda")):
        return False
    if n_columns > MOST_COLUMNS or n_components > MOST_COMPONENTS:
        return False
    return _works(str(device_template.device))


def reads_dtype_of(device_template: Any) -> bool:
    """Return whether the kernel reads the dtype of an array without conversion."""
    return str(device_template.dtype).rpartition(".")[2] in ("float32", "float64")


def e_step(
    block: Any,
    weights: Any,
    centre: Array,
    scale: Array,
    constants: Array,
    linear: Array,
    quadratic: Array,
) -> tuple[Any, Any]:
    """Return the sufficient statistics of rows on a GPU, and their log-likelihood, both on that GPU.

    With z = (x - centre) scale, the logarithm of a component's weighted density is constant + linear . z +
    quadratic . z^2, or quadratic |z|^2 if `quadratic` has one column.

    Parameters
    ----------
    block : torch.Tensor or cupy.ndarray, shape (n, n_columns)
    weights : torch.Tensor, cupy.ndarray or None, shape (n,)
    centre, scale : ndarray, shape (n_columns,)
    constants : ndarray, shape (n_components,)
    linear : ndarray, shape (n_components, n_columns)
    quadratic : ndarray, shape (n_components, n_columns) or (n_components, 1)

    Returns
    -------
    stats : torch.Tensor of float64, shape (n_components, 1 + n_columns + n_quadratics)
        Sums of 1, z, and z^2 or |z|^2 under the responsibilities.
    log_likelihood : torch.Tensor of float64, shape (1,)
    """
    import torch

    # An array of another library shares its memory with the tensor.
    block = torch.from_dlpack(block)
    weights = None if weights is None else torch.from_dlpack(weights)
    if block.dtype not in (torch.float32, torch.float64):
        block = block.double()
    n_rows, n_columns = block.shape
    n_components, n_quadratics = quadratic.shape
    by_column = n_quadratics > 1 or n_columns == 1
    padded = max(16, 1 << (n_columns - 1).bit_length())
    n_padded = max(8, 1 << (n_components - 1).bit_length())
    device = block.device
    # Components of the padding have density zero.
    natural = np.zeros((1 + n_columns + n_quadratics, n_padded))
    natural[0] = -1e300
    natural[0, :n_components] = constants
    natural[1 : 1 + n_columns, :n_components] = linear.T
    natural[1 + n_columns :, :n_components] = quadratic.T
    flat = torch.from_numpy(np.concatenate([centre, scale, natural.ravel()])).to(device)
    with torch.cuda.device(device):
        n_programs = min(PROGRAMS * _multiprocessors(device.index or 0), -(-n_rows // BLOCK_ROWS))
        stats = torch.empty(
            (n_programs, n_padded, 1 + padded + (padded if by_column else 1)),
            dtype=torch.float64,
            device=device,
        )
        likelihood = torch.empty((n_programs,), dtype=torch.float64, device=device)
        _kernel()[(n_programs,)](
            block,
            block if weights is None else weights.contiguous(),
            flat,
            stats,
            likelihood,
            n_rows,
            block.stride(0),
            block.stride(1),
            N_COLUMNS=n_columns,
            PADDED=padded,
            N_COMPONENTS=n_padded,
            BY_COLUMN=by_column,
            WEIGHTED=weights is not None,
            BLOCK=BLOCK_ROWS,
            num_warps=WARPS,
        )
    total = stats.sum(dim=0)[:n_components]
    # Without the padding.
    parts = [total[:, :1], total[:, 1 : 1 + n_columns], total[:, 1 + padded : 1 + padded + n_quadratics]]
    return torch.cat(parts, dim=1), likelihood.sum().reshape(1)


# The devices on which the kernel was tried, and whether it worked.
_tried: dict[str, bool] = {}


def _works(device: str) -> bool:
    """Return whether the kernel compiles and runs on a device: not every Triton supports double precision."""
    if device not in _tried:
        if _kernel() is None:
            return False
        import torch

        try:
            rows = torch.zeros((8, 2), dtype=torch.float64, device=device if "cuda" in device else "cuda")
            ones = np.ones((1, 2))
            stats, _ = e_step(rows, None, np.zeros(2), np.ones(2), np.zeros(1), ones, ones[:, :1])
            _tried[device] = bool(abs(float(stats[0, 0]) - 8) < 1e-9)
        except torch.cuda.OutOfMemoryError:
            # The kernel itself may work: it is tried again next time.
            return False
        except Exception:
            _tried[device] = False
    return _tried[device]


@functools.cache
def _multiprocessors(index: int) -> int:
    import torch

    return int(torch.cuda.get_device_properties(index).multi_processor_count)


@functools.cache
def _kernel() -> Any:
    """Return the kernel, or None if Triton is not installed."""
    try:
        from apolar.em.kernels.triton_e_step import e_step_kernel
    except ImportError:
        return None
    return e_step_kernel
