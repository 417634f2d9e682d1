"""Whether a mixture has the covariance of the data that it comes from."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

import apolar
from apolar.mixture import MixtureStatus, SphericalMixture
from apolar.recovery.validity import covariance_misfit


def test_the_covariance_of_the_mixture_itself_fits():
    mixture = SphericalMixture(
        np.array([0.6, 0.4]), np.array([[0.0, 0.0, 0.0], [3.0, 1.0, -200.0]]), np.array([1.0, 2.0])
    )
    offsets = mixture.means - mixture.weights @ mixture.means
    covariance = (mixture.weights[:, None] * offsets).T @ offsets + 1.4 * np.eye(3)
    assert covariance_misfit(mixture, covariance) < 1e-12
    # Deviations of a component that is a hundred times too wide for a column.
    assert covariance_misfit(mixture, covariance * np.outer([1, 0.01, 1], [1, 0.01, 1])) > 10


def sketch(X):
    return apolar.MomentSketch(X.shape[1]).update(X)


def test_columns_in_mixed_units_are_not_said_to_be_valid():
    X = load_wine().data
    assert apolar.mixture_from_moments(sketch(X), 3).status is MixtureStatus.POOR_FIT
    assert apolar.mixture_from_moments(sketch(X / X.std(axis=0)), 3).status is MixtureStatus.VALID


@pytest.mark.parametrize("n_samples", [300, 3000])
def test_spherical_components_fit(n_samples):
    X, _ = apolar.datasets.make_example(1, n_samples, random_state=1)
    assert apolar.mixture_from_moments(sketch(X), 4).status is MixtureStatus.VALID


def test_few_rows_of_many_columns_are_no_poor_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 25)) + 6 * rng.standard_normal((2, 25))[rng.integers(0, 2, 60)]
    assert apolar.mixture_from_moments(sketch(X), 2).status is MixtureStatus.VALID
