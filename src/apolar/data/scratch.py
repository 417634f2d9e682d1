"""Working memory that is reused from block to block."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace


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

    def matmul(self, name: str, a: Any, b: Any) -> Any:
        """Return the product of two matrices."""
        if isinstance(b, np.ndarray):
            return np.matmul(a, b, out=self(name, a.shape[0], b.shape[1]))
        return a @ b

    def subtract(self, name: str, a: Any, b: Any) -> Any:
        """Return the difference of two arrays, in the shape of the first."""
        if isinstance(a, np.ndarray):
            return np.subtract(a, b, out=self(name, *a.shape))
        return a - b

    def multiply(self, name: str, a: Any, b: Any) -> Any:
        """Return the elementwise product of two arrays."""
        if isinstance(a, np.ndarray):
            return np.multiply(a, b, out=self(name, *np.broadcast_shapes(a.shape, b.shape)))
        return a * b

    def max(self, name: str, array: Any, axis: int) -> Any:
        """Return the maxima along an axis."""
        if isinstance(array, np.ndarray):
            return np.max(array, axis=axis, out=self(name, *_without_axis(array.shape, axis)))
        return namespace(array).max(array, axis=axis)

    def sum(self, name: str, array: Any, axis: int) -> Any:
        """Return the sums along an axis."""
        if isinstance(array, np.ndarray):
            return np.sum(array, axis=axis, out=self(name, *_without_axis(array.shape, axis)))
        return namespace(array).sum(array, axis=axis)


_local = threading.local()


def thread_scratch() -> Scratch:
    """Return the working memory of this thread; an array in it is valid until its name is used again."""
    if not hasattr(_local, "scratch"):
        _local.scratch = Scratch()
    return _local.scratch


def _without_axis(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
