"""Some columns given the others, for many rows: beside `conditional`, `impute`, and a linear regression."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from apolar import GaussianMixture
from apolar.mixture.families import family
from estimator.clusters import example, fitted

X, _ = example()


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_spherical", "VVE"])
def test_it_is_the_mean_and_the_deviation_of_the_conditional_mixture(name):
    model = fitted(X, name)
    found = model.regress([2, 0], X[:6, [2, 0]])
    assert found.columns == (1, 3)
    for row in range(6):
        alone = model.conditional([2, 0], X[row, [2, 0]])
        mean = alone.weights_ @ alone.means_
        matrices = family(alone.covariance_type).matrices(alone.covariances_, 3, 2)
        second = alone.weights_ @ (alone.means_**2 + np.diagonal(matrices, axis1=1, axis2=2))
        # Rounding, of columns of a few units.
        np.testing.assert_allclose(found.mean[row], mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.deviations[row] ** 2, second - mean**2, rtol=1e-8)


def test_it_is_what_impute_puts_in_place_of_missing_values():
    model = fitted(X, "full")
    holed = X.copy()
    holed[:, [0, 3]] = np.nan
    # Known values may be missing too.
    holed[::5, 1] = np.nan
    found = model.regress([1, 2], holed[:, [1, 2]])
    np.testing.assert_allclose(found.mean, model.impute(holed)[:, [0, 3]], rtol=1e-12)
    assert np.all(found.deviations > 0)


def test_of_one_component_it_is_the_linear_regression():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 3))
    model = GaussianMixture(1, prior=None).fit(rows)
    line = LinearRegression().fit(rows[:, :2], rows[:, 2])
    found = model.regress([0, 1], rows[:, :2])
    np.testing.assert_allclose(found.mean[:, 0], line.predict(rows[:, :2]), rtol=1e-6, atol=1e-8)
    residuals = rows[:, 2] - line.predict(rows[:, :2])
    np.testing.assert_allclose(found.deviations[:, 0], residuals.std(), rtol=1e-6)


def test_columns_by_name_chunks_and_single_columns():
    table = pd.DataFrame(X, columns=list("abcd"))
    model = fitted(table, "diag")
    found = model.regress(["d", "a"], table[["d", "a"]])
    np.testing.assert_allclose(found.mean, model.regress([3, 0], X[:, [3, 0]]).mean, rtol=1e-12)
    chunks = model.regress(["d", "a"], iter(np.array_split(X[:, [3, 0]], 4)))
    np.testing.assert_allclose(chunks.mean, found.mean, rtol=1e-12)
    one = model.regress("b", X[:, 1])
    assert one.mean.shape == (len(X), 3)
    np.testing.assert_allclose(one.mean, model.regress("b", X[:, [1]]).mean, rtol=1e-12)
    assert model.regress("b", X[:, [1]].astype(np.float32)).mean.dtype == np.float32
    with pytest.raises(ValueError, match="feature names should match"):
        model.regress(["d", "a"], table[["a", "d"]])


def test_what_makes_no_sense_is_refused():
    model = fitted(X)
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.regress([0, 1], X)
    with pytest.raises(ValueError, match="leave at least one"):
        model.regress([0, 1, 2, 3], X)
    with pytest.raises(ValueError, match="infin"):
        model.regress([0], np.array([np.inf, 1.0]))
    with pytest.raises(NotFittedError):
        GaussianMixture().regress([0], X[:, 0])
