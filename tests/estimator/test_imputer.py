"""`MixtureImputer`: scikit-learn's contract, and the values it puts in place of missing ones."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from apolar import MixtureImputer
from apolar.datasets import load_iris

IRIS = load_iris()
RNG = np.random.default_rng(0)
MISSING = RNG.random(IRIS.data.shape) < 0.15
Z = np.where(MISSING, np.nan, IRIS.data)


@parametrize_with_checks([MixtureImputer(2, covariance_type="diag", max_iter=50)])
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_errors_are_below_those_of_other_imputers():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 900)
    means, roots = 3 * rng.normal(size=(3, 5)), rng.normal(size=(3, 5, 5))
    X = means[labels] + np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(900, 5)))
    missing = rng.random(X.shape) < 0.1
    holed = np.where(missing, np.nan, X)

    def error(imputer):
        return np.sqrt(np.mean((imputer.fit_transform(holed)[missing] - X[missing]) ** 2))

    ours = error(MixtureImputer(3, random_state=0))
    assert ours < 0.9 * error(IterativeImputer(random_state=0))
    assert ours < 0.9 * error(KNNImputer())


def test_what_is_observed_is_kept_and_draws_differ_by_seed():
    imputer = MixtureImputer(3, random_state=0)
    out = imputer.fit_transform(Z)
    np.testing.assert_array_equal(out[~MISSING], Z[~MISSING])
    assert np.all(np.isfinite(out))
    np.testing.assert_array_equal(out, imputer.mixture_.impute(Z))
    assert imputer.transform(Z.astype(np.float32)).dtype == np.float32
    imputer.set_params(sample_posterior=True)
    one, same, other = (imputer.set_params(random_state=seed).fit(Z).transform(Z) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert np.all(one[MISSING] != other[MISSING])


def test_indicators_and_names():
    frame = pd.DataFrame(Z, columns=IRIS.feature_names)
    frame["empty"] = np.nan
    frame.iloc[:, 1] = IRIS.data[:, 1]
    first = list(IRIS.feature_names)
    imputer = MixtureImputer(2, add_indicator=True, random_state=0).set_output(transform="pandas").fit(frame)
    out = imputer.transform(frame)
    flags = [f"missingindicator_{name}" for name in (first[0], *first[2:], "empty")]
    assert list(out.columns) == [*first, *flags]
    np.testing.assert_array_equal(out[flags[0]], MISSING[:, 0])
    kept = MixtureImputer(2, keep_empty_features=True, random_state=0).fit(frame)
    assert list(kept.get_feature_names_out()) == [*first, "empty"]
    np.testing.assert_array_equal(kept.transform(frame)[:, 4], 0.0)
    assert clone(imputer).get_params() == imputer.get_params()


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(ValueError, match="X has no observed value"):
        MixtureImputer().fit(np.full((5, 2), np.nan))
    with pytest.raises(ValueError, match="infinity"):
        MixtureImputer().fit([[1.0, np.inf], [2.0, 3.0]])


def test_a_pipeline():
    model = make_pipeline(MixtureImputer(3, random_state=0), LogisticRegression(max_iter=1000))
    assert model.fit(Z, IRIS.target).score(Z, IRIS.target) > 0.9
