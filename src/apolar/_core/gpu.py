"""Kernels for NVIDIA GPUs, by Triton: where they run, and what all of them need to be launched."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace

# The most rows per launch: their number fits into 32 bits.
MAX_LAUNCH_ROWS = 2**28
# The least sizes of the sides of a matrix product that a kernel computes.
MIN_INNER = 16
MIN_OUTER = 8

# The devices on which a kernel was tried, and whether it worked.
_tried: dict[tuple[str, str], bool] = {}


def runs_kernel(device_template: Any, name: str, trial: Callable[[Any], bool]) -> bool:
    """Return whether a kernel runs on the device of an array: it is tried there once.

    Not every version of Triton supports double precision on every device.

    Parameters
    ----------
    device_template : array or None
        An empty array of the library, and on the device, of the rows.
    name : str
        Of the kernel.
    trial : callable
        Takes the device, launches the kernel there, and returns whether its result is right.
    """
    library = type(device_template).__module__.partition(".")[0]
    is_on_gpu = library == "cupy" or (library == "torch" and device_template.device.type == "cuda")
    if not (is_on_gpu and find_spec("triton")):
        return False
    import torch

    device = device_template.device if library == "torch" else f"cuda:{device_template.device.id}"
    key = (str(device), name)
    if key not in _tried:
        try:
            _tried[key] = bool(trial(device))
        except torch.cuda.OutOfMemoryError:
            # The kernel itself may work: it is tried again next time.
            return False
        except Exception:
            _tried[key] = False
    return _tried[key]


def reads_dtype_of(array: Any) -> bool:
    """Return whether kernels read the dtype of an array without conversion."""
    return str(array.dtype).rpartition(".")[2] in ("float32", "float64")


def tensor_of(array: Any) -> Any:
    """Return an array of another library as a tensor of single or double precision, in the same memory."""
    import torch

    tensor = torch.from_dlpack(array)
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.double()


def like(tensor: Any, array: Any) -> Any:
    """Return a tensor as an array of the library of another array; it shares its memory."""
    if isinstance(array, type(tensor)):
        return tensor
    return namespace(array).from_dlpack(tensor)


def power_of_two_above(size: int, least: int) -> int:
    """Return the least power of two that is at least `size` and `least`."""
    return max(least, 1 << (size - 1).bit_length())


def pad(array: Array, *shape: int, fill: float = 0.0) -> Array:
    """Return an array with entries appended along each axis, up to a shape."""
    out = np.full(shape, fill)
    out[tuple(slice(0, length) for length in array.shape)] = array
    return out


@dataclass(frozen=True)
class Grid:
    """How the rows of a launch are divided among programs.

    Attributes
    ----------
    rows : int
        Rows per block, a power of two.
    warps : int
        Warps per program.
    programs : int
        The most programs per multiprocessor; each takes several blocks, in their order.
    registers : int, default=255
        The most registers per thread: with fewer, more programs run at the same time.
    """

    rows: int
    warps: int
    programs: int
    registers: int = 255

    def n_programs(self, block: Any) -> int:
        """Return the number of programs for a block of rows."""
        n_blocks = -(-block.shape[0] // self.rows)
        return max(1, min(n_blocks, self.programs * _multiprocessors(block.device)))


def launch(
    kernel: Any,
    grid: Grid,
    block: Any,
    weights: Any,
    parameters: list[Array],
    outputs: list[Any],
    *numbers: int,
    **sizes: Any,
) -> None:
    """Launch a kernel on the device of the rows.

    Parameters
    ----------
    kernel : triton.JITFunction
        Takes rows, weights, parameters, outputs, the number of rows, the strides, other numbers, and sizes.
    grid : Grid
    block : torch.Tensor, shape (n_rows, n_columns)
    weights : torch.Tensor, cupy.ndarray or None, shape (n_rows,)
    parameters : list of ndarray
        Copied to the device as one array.
    outputs : list of torch.Tensor
        On the device.
    numbers : int
    sizes
        What the kernel is compiled for.
    """
    import torch

    device = block.device
    flat = torch.from_numpy(np.concatenate([np.ravel(part) for part in parameters])).to(device)
    # Triton launches on the current device.
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        kernel[(grid.n_programs(block),)](
            block,
            block if weights is None else torch.from_dlpack(weights).contiguous(),
            flat,
            *outputs,
            block.shape[0],
            block.stride(0),
            block.stride(1),
            *numbers,
            N_COLUMNS=block.shape[1],
            WEIGHTED=weights is not None,
            BLOCK=grid.rows,
            num_warps=grid.warps,
            num_stages=1,
            maxnreg=grid.registers,
            **sizes,
        )


def empty(block: Any, *shape: int, is_integer: bool = False) -> Any:
    """Return an array of double precision, or of integers, on the device of a tensor, not initialised."""
    import torch

    dtype = torch.int64 if is_integer else torch.float64
    return torch.empty(shape, dtype=dtype, device=block.device)


@functools.cache
def _multiprocessors(device: Any) -> int:
    if device.type != "cuda":
        # Triton's interpreter runs on the host.
        return 1
    import torch

    return int(torch.cuda.get_device_properties(device).multi_processor_count)
