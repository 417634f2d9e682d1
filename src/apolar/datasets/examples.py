"""The two simulated mixtures of the paper's section 4."""

from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import one_of
from apolar.mixture import SphericalMixture

# Parameters printed in [khouja2022moments, section 4.1]; the weights are made to add up to one.
_EXAMPLES = {
    1: (
        [0.2782, 0.0139, 0.3324, 0.3756],
        [[-5, -9, 8, 8, 2, 5], [-7, 6, -1, 6, -8, -10], [-4, -10, -5, 1, 5, 4], [-6, 6, 5, 4, -1, -1]],
        [1.5, 2.5, 5.0, 15.0],
    ),
    2: (
        [0.0930, 0.2151, 0.6918],
        [[7, -4, -4, -6, -4], [2, -4, -6, -10, -3], [4, -4, -5, 6, 1]],
        [5.0, 10.0, 15.0],
    ),
}


def example_mixture(number: int) -> SphericalMixture:
    """Return the mixture of the paper's example 1 (4 components in R^6) or 2 (3 in R^5)."""
    one_of(number, "number", (1, 2))
    weights, means, variances = _EXAMPLES[number]
    return SphericalMixture(
        np.array(weights) / sum(weights), np.array(means, dtype=float), np.array(variances)
    )


def make_example(number: int, n_samples: int = 1000, random_state: Any = None) -> tuple[Array, Array]:
    """Return rows drawn from the paper's example 1 or 2, and their components.

    Parameters
    ----------
    number : {1, 2}
    n_samples : int, default=1000
    random_state : int, Generator or None

    Returns
    -------
    X : ndarray, shape (n_samples, n_features)
    labels : ndarray of int, shape (n_samples,)

    Examples
    --------
    >>> from apolar.datasets import make_example
    >>> X, labels = make_example(1, random_state=0)
    >>> X.shape
    (1000, 6)
    """
    return example_mixture(number).sample(n_samples, random_state)
