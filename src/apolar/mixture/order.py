"""The canonical order of components, so that equal mixtures are returned as equal arrays."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array, IndexArray

# Weights that agree to this many decimals count as equal.
WEIGHT_DECIMALS = 6


def canonical_order(weights: Array, means: Array) -> IndexArray:
    """Return the order of components by decreasing weight, and by their means where weights are equal.

    Weights that differ only by rounding count as equal; means are compared column by column.

    Parameters
    ----------
    weights : ndarray, shape (n_components,)
    means : ndarray, shape (n_components, n_features)
        In the units of the data.

    Returns
    -------
    order : ndarray of int, shape (n_components,)
    """
    return np.lexsort((*means.T[::-1], -np.round(weights, WEIGHT_DECIMALS)))
