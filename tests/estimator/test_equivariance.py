"""Fits and their evidence follow shifts, scales, rotations and units; the order of rows changes nothing."""

import numpy as np
import pytest

from apolar import GaussianMixture
from apolar.mixture.families import family
from estimator.clusters import each_family, example, fitted

X, _ = example()


@each_family
def test_whole_fits_follow_shifts_and_units(name):
    # Spherical components know one unit for all columns, as do those whose axes are orthogonal.
    has_one_unit = family(name).is_rotated or family(name).is_spherical
    units = np.full(4, 1e-3) if has_one_unit else np.array([1e-3, 1.0, 50.0, 1e4])
    rows = units * (X + 1e3)
    model, moved = fitted(X, name), fitted(rows, name)
    np.testing.assert_allclose(moved.weights_, model.weights_, atol=1e-5)
    np.testing.assert_allclose(moved.means_ / units - 1e3, model.means_, atol=1e-4)
    matrices = [family(name).matrices(each.covariances_, 3, 4) for each in (model, moved)]
    np.testing.assert_allclose(matrices[1] / np.outer(units, units), matrices[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(moved.predict(rows), model.predict(X))
    # EM ends within its tolerance of the optimum.
    shift = len(X) * np.log(units).sum()
    assert moved.evidence_ == pytest.approx(model.evidence_ - shift, abs=1e-2)


@pytest.mark.parametrize("name", ["full", "tied", "spherical", "tied_spherical"])
def test_whole_fits_follow_rotations(name):
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    model, turned = fitted(X, name), fitted(X[rng.permutation(len(X))] @ turn, name)
    np.testing.assert_allclose(turned.weights_, model.weights_, atol=1e-5)
    np.testing.assert_allclose(turned.means_, model.means_ @ turn, atol=1e-4)
    assert turned.evidence_ == pytest.approx(model.evidence_, abs=1e-2)


def test_components_are_in_canonical_order_whatever_the_seed():
    rows, _ = example(300)
    fits = [
        GaussianMixture(3, covariance_type="spherical", random_state=s).fit(rows).means_ for s in range(4)
    ]
    for means in fits[1:]:
        np.testing.assert_allclose(means, fits[0], atol=0.01)
