"""The order of components: the same for every mixture that is returned."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array, IndexArray

# Decimals to which the weights of components that count as equally heavy agree.
EQUAL_WEIGHTS = 6


def canonical_order(weights: Array, means: Array) -> IndexArray:
    """Return the order of components: the heaviest first; of equals, the one with the lower first column.

    Weights that differ by rounding only count as equal.

    Parameters
    ----------
    weights : ndarray, shape (n_components,)
    means : ndarray, shape (n_components, n_features)
        In the units of the data.

    Returns
    -------
    order : ndarray of int, shape (n_components,)
    """
    return np.lexsort((*means.T[::-1], -np.round(weights, EQUAL_WEIGHTS)))
