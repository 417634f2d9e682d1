"""Random mixtures, and how far two mixtures are apart."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import apolar
from apolar.mixture.families import FAMILIES

# By scikit-learn's names, in the order of the table.
FAMILY_NAMES = list(dict.fromkeys(family.name for family in FAMILIES.values()))
each_family = pytest.mark.parametrize("name", FAMILY_NAMES)


def pairs(first, *others):
    """Return tuples that cover each value of some lists at least once, instead of their product."""
    most = max(map(len, (first, *others)))
    return list(itertools.islice(zip(*map(itertools.cycle, (first, *others)), strict=True), most))


def matrices_of(model):
    """Return the covariance matrices of a fitted mixture, shape (n_components, n_features, n_features)."""
    kind = FAMILIES[model.covariance_type]
    return kind.matrices(np.asarray(model.covariances_), *model.means_.shape)


def random_mixture(n_components, n_features, seed, *, spread=5.0):
    """Return a mixture whose means are in general position."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(n_components, 5.0))
    means = spread * rng.standard_normal((n_components, n_features)) + 3
    return apolar.SphericalMixture(weights, means, rng.uniform(0.5, 2, n_components))


def distance(one, two):
    """Return the largest difference of matched parameters, relative to the spread of the first mixture."""
    if one.means.shape != two.means.shape:
        return np.inf
    apart = np.linalg.norm(one.means[:, None] - two.means, axis=2)
    i, j = linear_sum_assignment(apart)
    centre = one.weights @ one.means
    scale = np.sqrt(one.weights @ np.sum((one.means - centre) ** 2, axis=1) + one.weights @ one.variances)
    return max(
        apart[i, j].max() / scale,
        np.abs(one.weights[i] - two.weights[j]).max(),
        np.abs(one.variances[i] - two.variances[j]).max() / scale**2,
    )
