"""Spherical mixtures: the weights of moments, and whether a mixture has the covariance of the data."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

import apolar
from apolar.mixture import MixtureStatus
from apolar.recovery.equivariant import MAX_SIGNAL
from mixtures import distance, random_mixture


@pytest.mark.parametrize(("example", "n_components"), [(1, 4), (2, 3)])
def test_weights_bring_the_mixture_nearer_to_the_truth(example, n_components):
    truth = apolar.datasets.example_mixture(example)
    errors = []
    for seed in range(20):
        X, _ = apolar.datasets.make_example(example, 10_000, random_state=seed)
        found = [apolar.mixture_from_moments(X, n_components, refine=refine) for refine in (False, True)]
        errors.append([distance(truth, mixture) for mixture in found])
    plain, refined = np.median(errors, axis=0)
    assert refined < 0.95 * plain


def test_a_sketch_gives_what_its_rows_give():
    X, _ = apolar.datasets.make_example(1, 3000, random_state=4)
    sketch = apolar.MomentSketch(6).update(X)
    assert distance(apolar.mixture_from_moments(X, 4), apolar.mixture_from_moments(sketch, 4)) < 1e-8


def test_one_component_and_many_are_left_as_they_are():
    X, _ = random_mixture(MAX_SIGNAL + 2, 14, seed=0).sample(2000, 0)
    for n_components in (1, MAX_SIGNAL + 2):
        plain = apolar.mixture_from_moments(X, n_components, refine=False)
        assert distance(plain, apolar.mixture_from_moments(X, n_components)) == 0


def test_data_of_no_spherical_mixture_keep_the_exact_solution():
    iris = apolar.datasets.load_iris()
    X = iris.data / iris.data.std(axis=0)
    plain = apolar.mixture_from_moments(X, 3, refine=False)
    assert distance(plain, apolar.mixture_from_moments(X, 3)) == 0


def sketch(X):
    return apolar.MomentSketch(X.shape[1]).update(X)


def test_columns_in_mixed_units_are_not_said_to_be_valid():
    X = load_wine().data
    assert apolar.mixture_from_moments(sketch(X), 3).status is MixtureStatus.POOR_FIT
    assert apolar.mixture_from_moments(sketch(X / X.std(axis=0)), 3).status is MixtureStatus.VALID


def test_spherical_components_fit_and_few_rows_of_many_columns_too():
    X, _ = apolar.datasets.make_example(1, 300, random_state=1)
    assert apolar.mixture_from_moments(sketch(X), 4).status is MixtureStatus.VALID
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 25)) + 6 * rng.standard_normal((2, 25))[rng.integers(0, 2, 60)]
    assert apolar.mixture_from_moments(sketch(X), 2).status is MixtureStatus.VALID
