"""Rows of three clusters, and mixtures that are fitted to them."""

import numpy as np

from apolar import GaussianMixture


def example(n=400, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    means = np.array([[0.0, 0, 0, 0], [6, 0, 1, 0], [0, 6, 0, 2]])
    return means[labels] + rng.standard_normal((n, 4)) * np.array([0.6, 1, 1.4])[labels, None], labels


def fitted(X, name="full", n_components=3, **kwargs):
    return GaussianMixture(n_components, covariance_type=name, random_state=0, tol=1e-8, **kwargs).fit(X)
