"""What users pass as a tensor: the tensor itself, an array, or a polynomial."""

from typing import Any

import numpy as np

from apolar._core.checks import numeric_array
from apolar.tensor.symmetric import SymmetricTensor


def as_tensor(value: Any) -> SymmetricTensor:
    """Return what the user passed as a symmetric tensor."""
    if isinstance(value, SymmetricTensor):
        return value
    if isinstance(value, np.ndarray | list | tuple):
        numeric_array(value, "tensor")  # refused under the name that the user knows
        return SymmetricTensor.from_dense(value)
    return SymmetricTensor.from_polynomial(value)
