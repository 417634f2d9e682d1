"""Moments weighted by their sampling errors: derivatives, covariance, and the gain in accuracy."""

import numpy as np
import pytest

import apolar
from apolar.moments.signal import signal_moments
from apolar.recovery import weighted
from apolar.recovery.equivariant import equivariant_mixture
from mixtures import distance, random_mixture


def point_of(mixture, n_signal):
    """Return a mixture, in its first coordinates, as a point of the fit."""
    return weighted._Point(
        np.log(mixture.weights), mixture.means[:, :n_signal].copy(), np.log(mixture.variances)
    )


def flat(point):
    return np.concatenate([point.log_weights, point.offsets.ravel(), point.log_variances])


@pytest.mark.parametrize("n_components", [2, 3, 5])
def test_the_derivatives_of_the_moments(n_components):
    point = point_of(random_mixture(n_components, 6, seed=1, spread=1.0), n_components - 1)
    derivatives = weighted._moments(point)[1]
    for index in range(derivatives.shape[1]):
        step = np.zeros(derivatives.shape[1])
        step[index] = 1e-5
        difference = weighted._moments(point.plus(step))[0] - weighted._moments(point.plus(-step))[0]
        np.testing.assert_allclose(derivatives[:, index], difference / 2e-5, rtol=1e-6, atol=1e-7)


def test_the_gradient_of_the_fit():
    point = point_of(random_mixture(3, 5, seed=2, spread=1.0), 2)
    observed = weighted._moments(point)[0] + 0.1
    problem = weighted._WeightedSquares(observed, weighted._covariance(point, 3), 100, centre=0.3)
    _, gradient, _ = problem(point)
    for index in range(len(gradient)):
        step = np.zeros(len(gradient))
        step[index] = 1e-5
        difference = problem(point.plus(step))[0] - problem(point.plus(-step))[0]
        np.testing.assert_allclose(gradient[index], difference / 2e-5, rtol=1e-5, atol=1e-5)


def test_moments_and_covariance_are_those_of_drawn_rows():
    mixture = random_mixture(3, 5, seed=3, spread=1.0)
    # The means have no component in the noise directions.
    flattened = apolar.SphericalMixture(
        mixture.weights, np.column_stack([mixture.means[:, :2], np.zeros((3, 3))]), mixture.variances
    )
    X, _ = flattened.sample(400_000, 0)
    y, q = X[:, :2], np.mean(X[:, 2:] ** 2, axis=1)
    monomials = weighted._monomials(2)
    rows = np.prod(y[:, None] ** monomials.powers, axis=2) * q[:, None] ** monomials.noise
    point = point_of(flattened, 2)
    covariance = weighted._covariance(point, n_noise=3)
    deviations = np.sqrt(np.diag(covariance))
    # Each mean is within five standard errors.
    assert np.all(np.abs(rows.mean(axis=0) - weighted._moments(point)[0]) < 5 * deviations / np.sqrt(len(X)))
    drawn = np.cov(rows.T)
    np.testing.assert_allclose(
        drawn / np.outer(deviations, deviations), covariance / np.outer(deviations, deviations), atol=0.05
    )


def test_the_moments_of_the_data_are_those_of_its_rows():
    X, _ = apolar.datasets.make_example(2, 500, random_state=0)
    signal = signal_moments(X, 2, None, np.random.default_rng(0))
    z = X - X.mean(axis=0)
    y = z @ signal.basis
    q = (np.sum(z**2, axis=1) - np.sum(y**2, axis=1)) / 3
    monomials = weighted._monomials(2)
    rows = np.prod((y / 2.0)[:, None] ** monomials.powers, axis=2) * (q / 4.0)[:, None] ** monomials.noise
    np.testing.assert_allclose(weighted._observed(signal, 2.0), rows.mean(axis=0), atol=1e-9)


@pytest.mark.parametrize(("example", "n_components"), [(1, 4), (2, 3)])
def test_weights_bring_the_mixture_nearer_to_the_truth(example, n_components):
    truth = apolar.datasets.example_mixture(example)
    errors = []
    for seed in range(20):
        X, _ = apolar.datasets.make_example(example, 10_000, random_state=seed)
        errors.append(
            [
                distance(truth, apolar.mixture_from_moments(X, n_components, refine=refine))
                for refine in (False, True)
            ]
        )
    plain, refined = np.median(errors, axis=0)
    assert refined < 0.95 * plain


def test_a_sketch_gives_what_its_rows_give():
    X, _ = apolar.datasets.make_example(1, 3000, random_state=4)
    sketch = apolar.MomentSketch(6)
    sketch.update(X)
    assert distance(apolar.mixture_from_moments(X, 4), apolar.mixture_from_moments(sketch, 4)) < 1e-8


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_better_than_the_start(seed):
    X, _ = apolar.datasets.make_example(1, 1000, random_state=seed)
    signal = signal_moments(X, 3, None, np.random.default_rng(0))
    start = equivariant_mixture(signal)
    fitted = weighted.weighted_mixture(signal, start)
    observed = weighted._observed(signal, 1.0)

    def point(mixture):
        offsets = (mixture.means - signal.mean) @ signal.basis
        return weighted._Point(np.log(mixture.weights), offsets, np.log(mixture.variances))

    covariance = weighted._covariance(point(start), 3)
    problem = weighted._WeightedSquares(observed, covariance, 1000, np.log(signal.mean_variance))
    assert problem(point(fitted))[0] < problem(point(start))[0]


def test_one_component_and_many_are_left_as_they_are():
    mixture = random_mixture(weighted.MAX_SIGNAL + 2, 14, seed=0)
    X, _ = mixture.sample(2000, 0)
    for n_components in (1, weighted.MAX_SIGNAL + 2):
        plain = apolar.mixture_from_moments(X, n_components, refine=False)
        assert distance(plain, apolar.mixture_from_moments(X, n_components)) == 0


def test_data_of_no_spherical_mixture_keep_the_exact_solution():
    iris = apolar.datasets.load_iris()
    X = iris.data / iris.data.std(axis=0)
    plain = apolar.mixture_from_moments(X, 3, refine=False)
    assert distance(plain, apolar.mixture_from_moments(X, 3)) == 0
