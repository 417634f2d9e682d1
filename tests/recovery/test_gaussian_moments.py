"""Moments of Gaussian mixtures, their derivatives and sampling errors."""

import numpy as np
import pytest

from apolar.mixture.families import family as family_of
from apolar.mixture.parameters import MixtureParameters
from apolar.recovery.gaussian_moments import (
    Parametrisation,
    component_moments,
    powers_up_to,
    sampling_covariance,
)
from recovery.moment_problems import drawn, random_mixture

FAMILIES = ("spherical", "diag", "full", "tied")


def monomials(X, order):
    """Return the monomials of rows, shape (n_monomials, n_samples)."""
    return np.array([np.prod(X**powers, axis=1) for powers in powers_up_to(X.shape[1], order)])


def test_moments_are_those_of_the_normal_distribution():
    mixture = random_mixture("full", 2, 1, np.random.default_rng(0))
    mean, matrix = mixture.means[0], mixture.covariances[0]
    moments = component_moments(mixture, 4)[0]

    def moment(*powers):
        return moments[np.flatnonzero(np.all(powers_up_to(2, 4) == powers, axis=1))[0]]

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
    vector, kept = parametrisation.vector(mixture), np.arange(1, len(powers_up_to(3, 4)))
    _, derivatives = parametrisation.moments(vector, 4, kept)
    step = 1e-6
    for column, direction in enumerate(np.eye(len(vector)) * step):
        forward, _ = parametrisation.moments(vector + direction, 4, kept)
        backward, _ = parametrisation.moments(vector - direction, 4, kept)
        difference = (forward - backward) / (2 * step)
        # Rounding of the moments, divided by the step.
        tolerance = 1e-15 * np.abs(forward).max() / step * 10 + 1e-7
        np.testing.assert_allclose(derivatives[:, column], difference, atol=tolerance)
    assert family_of(family).n_parameters(2, 3) == len(vector) - 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mixture_survives_its_parameters(family):
    mixture = random_mixture(family, 3, 1, np.random.default_rng(2))
    parametrisation = Parametrisation(family, 1, 3)
    again = parametrisation.mixture(parametrisation.vector(mixture))
    np.testing.assert_allclose(again.covariances, mixture.covariances, rtol=1e-12)
    np.testing.assert_allclose(again.means, mixture.means)


def test_sampling_errors_are_those_of_rows():
    rng = np.random.default_rng(3)
    mixture = random_mixture("diag", 2, 2, rng, separation=2.0)
    kept = np.arange(1, len(powers_up_to(2, 2)))
    expected = sampling_covariance(mixture, 2, kept)
    observed = np.cov(monomials(drawn(mixture, 100_000, rng), 2)[kept])
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # Correlations of 100,000 rows, of products with long tails: about one per cent.
    np.testing.assert_allclose(observed / scale, expected / scale, atol=0.05)


def test_sampling_errors_of_the_mean_square_of_columns():
    rng, n_averaged = np.random.default_rng(4), 3
    mixture = random_mixture("spherical", 3, 2, rng, separation=2.0)
    means = mixture.means * [1, 1, 0]
    powers = powers_up_to(3, 3)
    kept = np.flatnonzero((powers[:, -1] % 2 == 0) & (powers.sum(axis=1) > 0))
    centred = MixtureParameters(mixture.weights, means, mixture.covariances)
    expected = sampling_covariance(centred, 3, kept, n_averaged)
    matrices = mixture.covariances[:, :1, :1] * np.eye(5)
    wide = MixtureParameters(mixture.weights, means[:, [0, 1, 2, 2, 2]], matrices)
    X = drawn(wide, 200_000, rng)
    root = np.sqrt(np.mean(X[:, 2:] ** 2, axis=1))
    observed = np.cov(monomials(np.column_stack([X[:, :2], root]), 3)[kept])
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # Correlations of 200,000 rows, of products with long tails: about one per cent.
    np.testing.assert_allclose(observed / scale, expected / scale, atol=0.05)
