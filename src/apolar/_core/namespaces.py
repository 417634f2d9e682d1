"""Arrays of other libraries: their namespace and device, copies to and from NumPy, and working memory."""

from __future__ import annotations

import math
import threading
from typing import Any

import array_api_compat
import numpy as np
from scipy import sparse

from apolar._core.arrays import Array

Namespace = Any
"""A module with the functions of the array API standard."""


def namespace(array: Any) -> Namespace:
    """Return the namespace of an array: NumPy for its own arrays and for SciPy's sparse matrices."""
    if isinstance(array, np.ndarray | np.generic) or sparse.issparse(array):
        return np
    return array_api_compat.array_namespace(array)


def is_device_array(value: Any) -> bool:
    """Return whether a value is an array of another library, for which that library computes.

    False for arrays that are immutable (JAX) or lazy (Dask), and for those on a device without double
    precision (Apple's).
    """
    if isinstance(value, np.ndarray | np.generic | type) or sparse.issparse(value):
        return False
    if array_api_compat.is_torch_array(value):
        return bool(value.device.type != "mps")
    is_other = (
        array_api_compat.is_jax_array(value)
        or array_api_compat.is_dask_array(value)
        or array_api_compat.is_pydata_sparse_array(value)
    )
    return array_api_compat.is_cupy_array(value) or (hasattr(value, "__array_namespace__") and not is_other)


def is_dask(X: Any) -> bool:
    """Return whether X is an array or a dataframe of Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def detach(array: Any) -> Any:
    """Return a tensor without its autograd graph, other arrays as they are; refuse sparse or meta tensors."""
    if not array_api_compat.is_torch_array(array):
        return array
    if str(array.layout) != "torch.strided" or array.device.type == "meta" or array.is_quantized:
        kind = "no numbers" if array.device.type == "meta" else f"a {array.layout} tensor"
        raise TypeError(
            f"X or its weights are {kind}: pass a dense tensor, X.to_dense(), or a SciPy sparse matrix."
        )
    return array.detach()


def to_numpy(array: Any) -> Array:
    """Return an array of any library, on any device, as a NumPy array."""
    if isinstance(array, np.ndarray | np.generic):
        return np.asarray(array)
    if array_api_compat.is_torch_array(array):
        array = array.detach().cpu()
        # NumPy has no bfloat16.
        return np.asarray(array.float() if array.dtype.itemsize == 2 else array)
    if array_api_compat.is_cupy_array(array):
        return np.asarray(array.get())
    try:
        return np.from_dlpack(array)
    except (AttributeError, TypeError, BufferError, RuntimeError):
        return np.asarray(array)


def to_host(value: Any) -> Any:
    """Return an array of another library as one of NumPy, and other values as they are."""
    return to_numpy(value) if is_device_array(value) else value


def to_device_of(values: Any, array: Any) -> Any:
    """Return values of the host on the device of an array: in double precision, or as 64-bit integers."""
    if isinstance(array, np.ndarray) or sparse.issparse(array):
        return np.asarray(values)
    if is_device_array(values):
        return values
    xp = namespace(array)
    # Copied, because some libraries do not accept read-only arrays.
    values = np.array(values)
    dtype = {"i": xp.int64, "c": xp.complex128}.get(values.dtype.kind, xp.float64)
    return xp.asarray(values, dtype=dtype, device=array_api_compat.device(array))


class DeviceCopies:
    """Values of the host that are needed for many blocks: they are copied to the device once.

    Parameters
    ----------
    values : array_like
    """

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)
        # The last copy, and its namespace and device.
        self._last: tuple[Any, Any, Any] = (None, None, None)

    def __reduce__(self) -> tuple[type[DeviceCopies], tuple[Any]]:
        return DeviceCopies, (self.values,)

    def to_device_of(self, array: Any) -> Any:
        """Return the values on the device of an array."""
        if isinstance(array, np.ndarray) or sparse.issparse(array):
            return self.values
        last, place = self._last, (namespace(array), array_api_compat.device(array))
        if last[1:] != place:
            self._last = last = (to_device_of(self.values, array), *place)
        return last[0]


def total(array: Any) -> Any:
    """Return the sum of all entries."""
    return namespace(array).sum(array)


def as_float64(array: Any) -> Any:
    """Return an array of any library in double precision; raise TypeError if one of another is complex."""
    if isinstance(array, np.ndarray) or sparse.issparse(array):
        return array.astype(np.float64, copy=False)
    xp = namespace(array)
    if xp.isdtype(array.dtype, "complex floating"):
        raise TypeError("X is complex; the methods for data take real numbers.")
    return xp.astype(array, xp.float64, copy=False)


def write(function: str, *arguments: Any, out: Any) -> None:
    """Write the result of a function, given by its name in the array API standard, into the array `out`."""
    xp = namespace(out)
    if xp is np or array_api_compat.is_torch_array(out) or array_api_compat.is_cupy_array(out):
        getattr(xp, function)(*arguments, out=out)
    else:
        out[...] = getattr(xp, function)(*arguments)


def write_pairs(x: Any, out: Any) -> None:
    """Write the products x_i x_j, i <= j, of the rows of `x` into the rows of `out`, ordered by i, then j."""
    start, dim = 0, x.shape[0]
    for i in range(dim):
        stop = start + dim - i
        write("multiply", x[i : i + 1, :], x[i:, :], out=out[start:stop, :])
        start = stop


def free_memory(array: Any) -> int | None:
    """Return the free memory of the device of an array in bytes; None if it is the main memory."""
    if array_api_compat.is_torch_array(array) and array.device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(array.device)
        # Memory that torch has reserved but not allocated is available as well.
        reserved = torch.cuda.memory_reserved(array.device) - torch.cuda.memory_allocated(array.device)
        return int(free + reserved)
    if array_api_compat.is_cupy_array(array):
        import cupy

        with array.device:
            free, _ = cupy.cuda.runtime.memGetInfo()
            return int(free + cupy.get_default_memory_pool().free_bytes())
    return None


# --- working memory -----------------------------------------------------------------------


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
