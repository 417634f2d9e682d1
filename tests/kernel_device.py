"""Where tests run kernels: on a GPU, or on the host by Triton's interpreter."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"

if not HAS_GPU:
    # Read when Triton is imported, and its kernels.
    os.environ["TRITON_INTERPRET"] = "1"
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        pytest.skip("Triton's interpreter converts arrays of one entry to numbers", allow_module_level=True)
pytest.importorskip("triton")

# As it does before that version of NumPy.
interpreted = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning")
