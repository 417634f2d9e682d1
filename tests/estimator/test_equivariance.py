"""Fits follow shifts, scales, rotations and units; weights, chunks and sparse rows change nothing."""

import numpy as np
import pytest
from scipy import sparse

from apolar import GaussianMixture
from estimator.clusters import each_family, example, fitted


@each_family
def test_whole_fits_follow_shift_and_scale(name):
    X, _ = example()
    model, moved = fitted(X, name), fitted(1e-3 * X + 1e3, name)
    np.testing.assert_allclose(moved.weights_, model.weights_, atol=1e-5)
    np.testing.assert_allclose(moved.means_, 1e-3 * model.means_ + 1e3, rtol=0, atol=1e-7)
    np.testing.assert_allclose(moved.covariances_, 1e-6 * model.covariances_, rtol=1e-3, atol=1e-10)


@pytest.mark.parametrize("name", ["full", "tied", "spherical", "tied_spherical"])
def test_whole_fits_follow_rotations(name):
    X, _ = example()
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((4, 4)))[0]
    model, turned = fitted(X, name), fitted(X @ turn, name)
    np.testing.assert_allclose(turned.weights_, model.weights_, atol=1e-5)
    np.testing.assert_allclose(turned.means_, model.means_ @ turn, atol=1e-4)


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_diag"])
def test_whole_fits_follow_units_of_the_columns(name):
    X, _ = example()
    units = np.array([1e-3, 1.0, 50.0, 1e4])
    model, scaled = fitted(X, name), fitted(X * units, name)
    np.testing.assert_allclose(scaled.means_, model.means_ * units, rtol=1e-3, atol=1e-4 * units.max())
    np.testing.assert_array_equal(scaled.predict(X * units), model.predict(X))


def test_components_are_in_canonical_order_whatever_the_seed():
    X, _ = example(300)
    fits = [GaussianMixture(3, covariance_type="spherical", random_state=seed).fit(X) for seed in range(4)]
    for model in fits[1:]:
        np.testing.assert_allclose(model.means_, fits[0].means_, atol=0.01)


def test_chunks_give_what_the_whole_gives():
    X, _ = example()
    model = fitted(X)
    chunked = fitted([X[:150], X[150:]])
    np.testing.assert_allclose(chunked.means_, model.means_, atol=1e-4)
    np.testing.assert_array_equal(chunked.predict([X[:100], X[100:]]), model.predict(X))
    with pytest.raises(ValueError, match="read only once"):
        fitted(iter([X[:150], X[150:]]))


def test_sparse_rows_are_rows():
    X, _ = example()
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    for form in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        # Sufficient statistics are rounded otherwise, and EM ends within its tolerance of the optimum.
        np.testing.assert_allclose(fitted(form(X)).means_, fitted(X).means_, atol=1e-4)
