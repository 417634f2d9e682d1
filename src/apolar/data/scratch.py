"""Working memory for blocks of rows."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace


class Scratch:
    """Working memory that is used again from block to block: fresh pages cost more than arithmetic.

    Its operations write NumPy arrays there; arrays of other libraries have their own ways.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}

    def __call__(self, name: str, *shape: int) -> Array:
        """Return an array of that shape, with whatever is in it."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            buffer = self._buffers[name] = np.empty(size)
        return buffer[:size].reshape(shape)

    def empty_like(self, name: str, array: Any, *shape: int) -> Any:
        """Return an array of that shape, of the library and on the device of another."""
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
        """Return the product of two arrays, number by number."""
        if isinstance(a, np.ndarray):
            return np.multiply(a, b, out=self(name, *np.broadcast_shapes(a.shape, b.shape)))
        return a * b

    def max(self, name: str, array: Any, axis: int) -> Any:
        """Return the largest numbers along an axis."""
        if isinstance(array, np.ndarray):
            return np.max(array, axis=axis, out=self(name, *_without(array.shape, axis)))
        return namespace(array).max(array, axis=axis)

    def sum(self, name: str, array: Any, axis: int) -> Any:
        """Return the sums along an axis."""
        if isinstance(array, np.ndarray):
            return np.sum(array, axis=axis, out=self(name, *_without(array.shape, axis)))
        return namespace(array).sum(array, axis=axis)


_local = threading.local()


def thread_scratch() -> Scratch:
    """Return the working memory of this thread, for what is not needed any more when it is used again."""
    if not hasattr(_local, "scratch"):
        _local.scratch = Scratch()
    return _local.scratch


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
