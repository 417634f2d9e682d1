"""Bad parameters, rows and weights are refused with the remedy."""

import numpy as np
import pandas as pd
import pytest

import apolar
from apolar import GaussianMixture
from estimator.clusters import example, fitted


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "'n_components' parameter .* must be an int in the range"),
        ({"n_components": 500}, ValueError, "fewer components"),
        ({"covariance_type": "round"}, ValueError, "'tied_diag'"),
        ({"init_params": "best"}, ValueError, "'overseed'"),
        ({"init_params": np.zeros(3)}, ValueError, "labels of shape"),
        ({"init_params": np.zeros(400)}, ValueError, "1 different labels"),
        ({"init_params": np.ones((400, 2))}, ValueError, "add up to one"),
        ({"init_params": -np.ones((400, 2))}, ValueError, "none negative"),
        ({"init_params": np.tile([1.0, 0.0], (400, 1))}, ValueError, "without rows"),
        ({"init_params": lambda X, r, s: np.zeros(2)}, ValueError, "What init_params returned"),
        ({"tol": -1.0}, ValueError, "tol"),
        ({"reg_covar": np.nan}, ValueError, "reg_covar"),
        ({"reg_covar": 1e300}, ValueError, "reg_covar"),
        ({"prior": "strong"}, ValueError, "'conjugate'"),
        ({"noise": 1.5}, ValueError, r"range \(0.0, 1.0\)"),
        ({"checkpoint": 3}, TypeError, "checkpoint"),
        ({"warm_start": 3}, ValueError, "warm_start"),
        ({"random_state": "seed"}, TypeError, "random_state"),
        ({"weights_init": [0.5, 0.6]}, ValueError, "normalized.* by its sum"),
        ({"means_init": np.zeros((2, 3))}, ValueError, r"shape of \(2, 4\)"),
        ({"precisions_init": -np.eye(4)}, ValueError, r"shape of \(2, 4, 4\)"),
        ({"precisions_init": np.tile(-np.eye(4), (2, 1, 1))}, ValueError, "positive-definite"),
    ],
)
def test_bad_parameters_are_refused_with_the_remedy(parameters, error, message):
    X, _ = example()
    with pytest.raises(error, match=message):
        GaussianMixture(**{"n_components": 2, **parameters}).fit(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros(5), "2D"),
        (np.array([[1.0, np.nan], [2.0, np.nan]]), "Column 1 of X has no observed value"),
        (np.array([[1.0, np.inf]]), "infinity"),
        (np.array([["a", "b"]]), "numeric|convert"),
        (np.array([[1 + 2j, 0]]), "[Cc]omplex"),
        ({"a": [1.0, 2.0]}, "a dataframe, .* got dict"),
    ],
)
def test_bad_rows_are_refused(X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GaussianMixture().fit(X)


@pytest.mark.parametrize("weights", [np.zeros(400), -np.ones(400), np.ones(3), np.full(400, np.nan)])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match="[Ww]eight|NaN"):
        GaussianMixture().fit(example()[0], sample_weight=weights)


def test_an_interrupted_fit_leaves_the_mixture_as_it_was():
    X, _ = example()
    model = fitted(X)
    labels = model.predict(X)

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(init_params=interrupted).fit(X[:, :3])
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.predict(X), labels)


@pytest.mark.filterwarnings("ignore::apolar.exceptions.ColumnWarning")
def test_numbers_out_of_range_and_constant_columns_are_named():
    X, _ = example(100)
    with pytest.raises(ValueError, match="Column 0 of X has .* Divide the column"):
        GaussianMixture(2).fit(X * 1e160)
    with pytest.raises(ValueError, match="Column 2 of X has a deviation of .*e-155"):
        GaussianMixture(2).fit(X * np.where(np.arange(X.shape[1]) == 2, 1e-155, 1))
    rows = np.column_stack([X, np.ones(100)])
    for name in ("full", "diag"):
        model = GaussianMixture(3, covariance_type=name, random_state=0).fit(rows)
        with pytest.raises(ValueError, match="Column 4 is constant"):
            model.standard_errors(rows)


# --- dataframes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("values", ["setosa", pd.Timestamp("2020-01-01"), pd.Categorical(["u", "v"] * 10)])
def test_a_column_that_holds_no_numbers_is_named(values):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"]).assign(c=values)
    fits = (
        apolar.GaussianMixture(2).fit,
        apolar.select,
        apolar.MixtureImputer(2).fit,
        lambda X: apolar.MixtureClassifier().fit(X, [0, 1] * 10),
    )
    for fit in fits:
        with pytest.raises(TypeError, match="Column 'c' holds .*, not numbers: drop it or encode it first"):
            fit(frame)
