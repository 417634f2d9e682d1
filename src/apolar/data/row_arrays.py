"""Rows of arrays of any library and of sparse matrices: selected, stacked and sampled; working memory."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import is_device_array, namespace, to_device_of


def take_rows(values: Any, positions: Any) -> Any:
    """Return the rows of an array at some positions, given as indices or a slice."""
    if not is_device_array(values):
        return values[positions]
    if isinstance(positions, slice):
        return values[positions, ...]
    return namespace(values).take(values, to_device_of(positions, values), axis=0)


def row_squares(block: Any) -> Any:
    """Return the squared norm of each row."""
    if sparse.issparse(block):
        return np.asarray(block.multiply(block).sum(axis=1)).ravel()
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->i", block, block)
    # This needs no temporary array of squares.
    return namespace(block).linalg.vector_norm(block, axis=1) ** 2


def take_both(values: Any, weights: Any, positions: Any) -> tuple[Any, Any]:
    """Return the rows of an array at some positions, and their weights or None."""
    return take_rows(values, positions), None if weights is None else take_rows(weights, positions)


def row_slice(values: Any, part: slice) -> Any:
    """Return consecutive rows of an array or a CSR matrix that share its memory."""
    if not sparse.issparse(values):
        # The array API standard requires an index for every axis.
        return values[part, :]
    # Indexing a SciPy matrix would copy the rows.
    row_ends = values.indptr[part.start : part.stop + 1]
    stored = slice(int(row_ends[0]), int(row_ends[-1]))
    shape = (part.stop - part.start, values.shape[1])
    return sparse.csr_matrix(
        (values.data[stored], values.indices[stored], row_ends - row_ends[0]), shape=shape
    )


def stack_rows(blocks: list[Any]) -> Any:
    """Return blocks of rows, NumPy arrays or CSR matrices, as one."""
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def stack_chunks(chunks: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return chunks of rows on the host, with their weights or None, as one."""
    values, weights = zip(*chunks, strict=True)
    return stack_rows(list(values)), None if weights[0] is None else np.concatenate(weights)


def sample_positions(start: int, stop: int, step: int, device_template: Any = None) -> Any:
    """Return the positions of a systematic sample: one row of every `step` consecutive rows.

    The position within each group of `step` rows follows multiples of the golden ratio: evenly spread, but
    without a period that the data could share.

    Parameters
    ----------
    start, stop : int
        Only the rows from `start` to `stop` are considered; they may begin and end within a group.
    step : int
    device_template : array, optional
        An array whose library and device the positions have; by default, they are a NumPy array.

    Returns
    -------
    positions : array of int64, shape (n_sampled,)
        Counted from `start`, ascending.
    """
    xp = np if device_template is None else namespace(device_template)
    device = {} if device_template is None else {"device": device_template.device}
    group = xp.arange(start // step, -(-stop // step), dtype=xp.int64, **device)
    # The fractional part of group times the golden ratio, in fixed point with 32 bits, times step.
    within_group = (((group * 2654435769) & 0xFFFFFFFF) * step) >> 32
    positions = group * step + within_group
    return positions[(positions >= start) & (positions < stop)] - start


class Scratch:
    """Named float64 buffers that are reused from block to block.

    For arrays of this size, newly allocated memory costs more than the arithmetic. The operations write their
    result for NumPy arrays into the buffer of the given name, and overwrite the result of the previous call
    with that name. Other array libraries have their own memory pools: for them, a new array is returned.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}

    def __call__(self, name: str, *shape: int) -> Array:
        """Return the buffer as an array of that shape, not initialised."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            buffer = self._buffers[name] = np.empty(size)
        return buffer[:size].reshape(shape)

    def empty_like(self, name: str, array: Any, *shape: int) -> Any:
        """Return an array of that shape, not initialised, of the library and on the device of `array`."""
        if isinstance(array, np.ndarray) or sparse.issparse(array):
            return self(name, *shape)
        xp = namespace(array)
        return xp.empty(shape, dtype=xp.float64, device=array.device)

    def compute(self, function: str, name: str, a: Any, b: Any) -> Any:
        """Return a function of two arrays: "matmul" of matrices, "subtract" or "multiply"."""
        if not isinstance(b, np.ndarray):
            return getattr(namespace(b), function)(a, b)
        is_product = function == "matmul"
        shape = (a.shape[0], b.shape[1]) if is_product else np.broadcast_shapes(a.shape, b.shape)
        return getattr(np, function)(a, b, out=self(name, *shape))


_local = threading.local()


def thread_scratch() -> Scratch:
    """Return the working memory of this thread; an array in it is valid until its name is used again."""
    if not hasattr(_local, "scratch"):
        _local.scratch = Scratch()
    return _local.scratch
