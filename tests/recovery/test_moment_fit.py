"""Moments of Gaussian mixtures, their derivatives and sampling errors."""

import itertools

import numpy as np
import pytest

from apolar.mixture.families import family as family_of
from apolar.mixture.parameters import MixtureParameters
from apolar.recovery.moment_fit import (
    Parametrisation,
    component_moments,
    powers_up_to,
    sampling_covariance,
)
from recovery.moment_problems import drawn, random_mixture


def test_moments_are_those_of_the_normal_distribution():
    mixture = random_mixture("full", 2, 3, np.random.default_rng(0))
    # Gauss's rule of five nodes is exact up to degree nine.
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    z = np.array(list(itertools.product(nodes, nodes)))
    weights = np.outer(weights, weights).ravel() / (2 * np.pi)
    powers = powers_up_to(2, 4)
    for mean, matrix, moments in zip(
        mixture.means, mixture.covariances, component_moments(mixture, 4), strict=True
    ):
        x = mean + z @ np.linalg.cholesky(matrix).T
        expected = weights @ np.prod(x[:, None] ** powers, axis=2)
        np.testing.assert_allclose(moments, [*expected, 0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", ["spherical", "diag", "full", "tied"])
def test_parameters_give_the_mixture_and_its_moments_derivatives(family):
    parametrisation = Parametrisation(family, 2, 3)
    vector = parametrisation.vector(random_mixture("full", 3, 2, np.random.default_rng(1)))
    np.testing.assert_allclose(parametrisation.vector(parametrisation.mixture(vector))[2:], vector[2:])
    assert family_of(family).n_parameters(2, 3) == len(vector) - 1
    kept, step = np.arange(1, len(powers_up_to(3, 4))), 1e-6
    _, derivatives = parametrisation.moments(vector, 4, kept)
    for column, direction in enumerate(np.eye(len(vector)) * step):
        forward, _ = parametrisation.moments(vector + direction, 4, kept)
        backward, _ = parametrisation.moments(vector - direction, 4, kept)
        difference = (forward - backward) / (2 * step)
        # Rounding of the moments, divided by the step.
        tolerance = 1e-15 * np.abs(forward).max() / step * 10 + 1e-7
        np.testing.assert_allclose(derivatives[:, column], difference, atol=tolerance)


@pytest.mark.parametrize("n_averaged", [None, 3])
def test_sampling_errors_are_those_of_rows(n_averaged):
    rng = np.random.default_rng(4)
    mixture = random_mixture("spherical", 3, 2, rng, separation=2.0)
    mixture.means[:, 2] = 0
    powers = powers_up_to(3, 3)
    kept = np.flatnonzero((powers[:, -1] % 2 == 0) & (powers.sum(axis=1) > 0))
    expected = sampling_covariance(mixture, 3, kept, n_averaged)
    # The last column, or the root mean square of three such columns.
    columns = [0, 1] + [2] * (n_averaged or 1)
    matrices = mixture.covariances[:, :1, :1] * np.eye(len(columns))
    X = drawn(MixtureParameters(mixture.weights, mixture.means[:, columns], matrices), 200_000, rng)
    seen = np.column_stack([X[:, :2], np.sqrt(np.mean(X[:, 2:] ** 2, axis=1))])
    observed = np.cov([np.prod(seen**row, axis=1) for row in powers[kept]])
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # Correlations of 200,000 rows, of products with long tails: about one per cent.
    np.testing.assert_allclose(observed / scale, expected / scale, atol=0.05)
