"""Moments of Gaussian mixtures, their derivatives and sampling errors."""

import numpy as np
import pytest

from apolar.recovery.gaussian_moments import (
    Mixture,
    Parametrisation,
    mixture_moments,
    monomial_table,
    sampling_covariance,
)
from recovery.moment_problems import drawn, random_mixture

FAMILIES = ("spherical", "diag", "full", "tied")


def test_moments_are_those_of_the_normal_distribution():
    mixture = random_mixture("full", 2, 1, np.random.default_rng(0))
    mean, matrix = mixture.means[0], mixture.matrices[0]
    moments, table = mixture_moments(mixture, 4), monomial_table(2, 4)

    def moment(*powers):
        return moments[table.find(np.array(powers))]

    assert moment(0, 0) == 1
    assert moment(1, 1) == pytest.approx(mean[0] * mean[1] + matrix[0, 1])
    assert moment(3, 0) == pytest.approx(mean[0] ** 3 + 3 * mean[0] * matrix[0, 0])
    expected = (
        mean[0] ** 2 * mean[1] ** 2
        + matrix[0, 0] * mean[1] ** 2
        + matrix[1, 1] * mean[0] ** 2
        + 4 * matrix[0, 1] * mean[0] * mean[1]
        + matrix[0, 0] * matrix[1, 1]
        + 2 * matrix[0, 1] ** 2
    )
    assert moment(2, 2) == pytest.approx(expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_derivatives_are_those_of_differences(family):
    mixture = random_mixture("full", 3, 2, np.random.default_rng(1))
    parametrisation = Parametrisation(family, 2, 3)
    vector, kept = parametrisation.vector(mixture), np.arange(1, len(monomial_table(3, 4)))
    _, derivatives = parametrisation.moments(vector, 4, kept)
    step = 1e-6
    for column, direction in enumerate(np.eye(len(vector)) * step):
        forward, _ = parametrisation.moments(vector + direction, 4, kept)
        backward, _ = parametrisation.moments(vector - direction, 4, kept)
        difference = (forward - backward) / (2 * step)
        # Rounding of the moments, divided by the step.
        tolerance = 1e-15 * np.abs(forward).max() / step * 10 + 1e-7
        np.testing.assert_allclose(derivatives[:, column], difference, atol=tolerance)
    assert parametrisation.n_free == len(vector) - 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mixture_survives_its_parameters(family):
    mixture = random_mixture(family, 3, 1, np.random.default_rng(2))
    parametrisation = Parametrisation(family, 1, 3)
    again = parametrisation.mixture(parametrisation.vector(mixture))
    np.testing.assert_allclose(again.matrices, mixture.matrices, rtol=1e-12)
    np.testing.assert_allclose(again.means, mixture.means)


def test_sampling_errors_are_those_of_rows():
    rng = np.random.default_rng(3)
    mixture = random_mixture("diag", 2, 2, rng, separation=2.0)
    kept = np.arange(1, len(monomial_table(2, 2)))
    expected = sampling_covariance(mixture, 2, kept)
    observed = np.cov(monomial_table(2, 2).values(drawn(mixture, 100_000, rng))[:, kept].T)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # Correlations of 100,000 rows, of products with long tails: about one per cent.
    np.testing.assert_allclose(observed / scale, expected / scale, atol=0.05)


def test_sampling_errors_of_the_mean_square_of_columns():
    rng, n_averaged = np.random.default_rng(4), 3
    mixture = random_mixture("spherical", 3, 2, rng, separation=2.0)
    means = mixture.means * [1, 1, 0]
    table = monomial_table(3, 3)
    kept = np.flatnonzero((table.exponents[:, -1] % 2 == 0) & (table.exponents.sum(axis=1) > 0))
    expected = sampling_covariance(Mixture(mixture.weights, means, mixture.covariances), 3, kept, n_averaged)
    wide = Mixture(mixture.weights, means[:, [0, 1, 2, 2, 2]], mixture.covariances[:, [0] * 5])
    X = drawn(wide, 200_000, rng)
    root = np.sqrt(np.mean(X[:, 2:] ** 2, axis=1))
    observed = np.cov(table.values(np.column_stack([X[:, :2], root]))[:, kept].T)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # Correlations of 200,000 rows, of products with long tails: about one per cent.
    np.testing.assert_allclose(observed / scale, expected / scale, atol=0.05)
