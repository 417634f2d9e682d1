"""Array types, and the rules by which user input becomes an array."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""A real or complex array: float64 or complex128."""

IndexArray = NDArray[np.intp]


def working_dtype(*arrays: Array) -> np.dtype[Any]:
    """Return complex128 if any of the arrays is complex, float64 otherwise."""
    if any(np.iscomplexobj(array) for array in arrays):
        return np.dtype(np.complex128)
    return np.dtype(np.float64)


def unit_rows(vectors: Array) -> Array:
    """Return the rows divided by their norms; a row of zeros becomes the first axis."""
    norms = np.linalg.norm(vectors, axis=1)
    units = vectors / np.where(norms > 0, norms, 1)[:, None]
    units[norms == 0, 0] = 1
    return units


def frozen(array: Array) -> Array:
    """Return the array itself, marked read-only, so that values stay values."""
    array.setflags(write=False)
    return array
