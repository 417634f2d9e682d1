"""Fixed points for expectations under a standard normal distribution."""

from functools import lru_cache

import numpy as np
from scipy.stats import norm, qmc

from apolar._core.arrays import Array, frozen

__all__ = ["normal_points"]

# Tails are cut: a few points cannot represent them.
MIN_TAIL = 1e-3


@lru_cache(maxsize=32)
def normal_points(n_features: int, n_points: int = 128) -> Array:
    """Return points of a Sobol sequence in normal coordinates, shape (n_points, n_features)."""
    uniform = qmc.Sobol(n_features, seed=0).random(n_points)
    return frozen(norm.ppf(np.clip(uniform, MIN_TAIL, 1 - MIN_TAIL)))
