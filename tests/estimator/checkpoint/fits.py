"""Rows that need many passes of EM, and mixtures that are not fitted yet."""

import numpy as np

from apolar import GaussianMixture


def overlapping(n=600, seed=0):
    """Return rows of three components that overlap: EM needs many passes."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((3 * n, 2)) + np.repeat([[0.0, 0], [2, 0], [4, 0]], n, axis=0)


X = overlapping()
# Without a prior, what EM raises is the likelihood.
PARAMETERS = {"init_params": "kmeans", "prior": None, "random_state": 0, "n_threads": 1}


def mixture(n_components=3, **parameters):
    return GaussianMixture(n_components, **PARAMETERS | parameters)


class Unread:
    """Rows that must not be read."""

    def __iter__(self):
        raise AssertionError("the rows were read")
