"""Variational inference: scikit-learn's numbers, and what its class does not have."""

import warnings
from functools import partial

import numpy as np
import pytest
import sklearn.mixture
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import apolar
from apolar import BayesianGaussianMixture, GaussianMixture

NAMES = ("full", "tied", "diag", "spherical")
TYPES = ("dirichlet_process", "dirichlet_distribution")
ATTRIBUTES = [
    "weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_", "weight_concentration_",
    "mean_precision_", "degrees_of_freedom_", "weight_concentration_prior_", "mean_precision_prior_",
    "mean_prior_", "degrees_of_freedom_prior_", "covariance_prior_", "lower_bounds_", "lower_bound_",
    "n_iter_", "converged_",
]  # fmt: skip


RNG = np.random.default_rng(0)
CENTRES = np.array([[10.0, 0, -5], [18, 0, -5], [10, 12, -5], [10, 0, -1]])
X = CENTRES[np.arange(600) % 4] + RNG.normal(size=(600, 3)) * [1, 2, 0.5]
START = RNG.dirichlet(np.ones(6), size=600)


class FromStart(sklearn.mixture.BayesianGaussianMixture):
    def _initialize_parameters(self, rows, *_, **__):
        self._initialize(rows, START)


def fit(kind="full", rows=X, **parameters):
    known = {"covariance_type": kind, "random_state": 0, "max_iter": 500, "n_threads": 1} | parameters
    return BayesianGaussianMixture(6, **known).fit(rows)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("prior_type", TYPES)
@pytest.mark.parametrize("prior", ["default", "given"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_from_the_same_start_each_pass_is_that_of_scikit_learn(kind, prior_type, prior):
    parameters = {"covariance_type": kind, "weight_concentration_prior_type": prior_type, "max_iter": 40}
    if prior == "given":
        covariance = {"full": np.cov(X.T), "tied": np.eye(3), "diag": [1.0, 2.0, 3.0], "spherical": 0.7}[kind]
        parameters |= {
            "mean_prior": [1.0, 2.0, 3.0],
            "mean_precision_prior": 0.3,
            "weight_concentration_prior": 1e-3,
            "degrees_of_freedom_prior": 4.5,
            "covariance_prior": covariance,
            "reg_covar": 0.1,
        }
    theirs = FromStart(n_components=6, **parameters).fit(X)
    ours = BayesianGaussianMixture(n_components=6, init_params=START, **parameters).fit(X)
    # Some are of later versions than others.
    for name in filter(partial(hasattr, theirs), ATTRIBUTES):
        expected = np.asarray(getattr(theirs, name))
        if name.startswith("lower"):
            expected = expected.ravel()  # tied: an array of one number
        np.testing.assert_allclose(getattr(ours, name), expected, rtol=1e-6, atol=1e-9, err_msg=name)
    for method in ("predict_proba", "score_samples"):
        expected = getattr(theirs, method)(X)
        np.testing.assert_allclose(getattr(ours, method)(X), expected, rtol=1e-6, atol=1e-9, err_msg=method)
    assert ours.score(X) == pytest.approx(theirs.score(X))


def test_components_that_are_not_needed_are_empty_and_the_heaviest_come_first():
    model = fit(weight_concentration_prior=1e-3)
    assert (model.weights_ > 0.01).sum() == 4
    assert apolar.scores.adjusted_rand_index(np.arange(600) % 4, model.predict(X)) > 0.9
    best = fit(n_init=5, weight_concentration_prior=1e-3)
    assert best.lower_bound_ >= model.lower_bound_ - 1e-3
    assert model.weights_[0] == model.weights_.max()


def test_row_weights_are_counts():
    counts = np.random.default_rng(1).integers(1, 4, size=len(X))
    weighted = BayesianGaussianMixture(6, init_params=START, max_iter=300)
    repeated = clone(weighted).set_params(init_params=np.repeat(START, counts, axis=0))
    weighted.fit(X, sample_weight=counts)
    repeated.fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-6)
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_)


@pytest.mark.parametrize("kind", NAMES)
def test_all_sources_of_rows_give_the_same_posterior(kind):
    expected = fit(kind, init_params=START)
    model = fit(kind, sparse.csr_array(X), init_params=START)
    np.testing.assert_allclose(model.means_, expected.means_, rtol=1e-6)
    chunks = fit(kind, [X[:200], X[200:]], init_params=START, n_threads=2)
    assert chunks.lower_bound_ == pytest.approx(expected.lower_bound_)
    single = fit(kind, X.astype(np.float32), init_params=START)
    assert single.means_.dtype == single.predict_proba(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.means_, expected.means_, rtol=1e-3, atol=1e-3)


def test_a_warm_start_continues():
    whole = fit(init_params=START)
    parts = BayesianGaussianMixture(6, init_params=START, max_iter=1, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        n_passes = next(n for n in range(1, 500) if parts.fit(X).converged_)
    assert n_passes == whole.n_iter_
    np.testing.assert_allclose(parts.means_, whole.means_, rtol=1e-6)


def test_the_mixture_of_the_means_has_what_the_posterior_has_not():
    model = fit()
    plain = model.to_gaussian_mixture()
    assert type(plain) is GaussianMixture
    np.testing.assert_array_equal(plain.means_, model.means_)
    assert plain.bic(X) > 0
    assert plain.marginal([0, 1]).means_.shape == (6, 2)
    assert str(model.summary(X)).startswith("6 clusters in 600 rows")
    assert model.sample(5)[0].shape == (5, 3)
    for name in ("bic", "loo_samples", "partial_fit", "standard_errors", "marginal"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"no {name}: .*to_gaussian_mixture"):
            getattr(model, name)
    table = apolar.datasets.load_iris()
    named = BayesianGaussianMixture(2, max_iter=500, random_state=0)
    pandas = pytest.importorskip("pandas")
    named.fit(pandas.DataFrame(table.data, columns=["a", "b", "c", "d"]))
    assert named.to_gaussian_mixture().marginal("b").means_.shape == (2, 1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"covariance_type": "VEV"}, "use GaussianMixture"),
        ({"warm_start": "a.npz"}, "cannot start from a file"),
        ({"degrees_of_freedom_prior": 2.0}, "greater than 2, but got 2.000"),
        ({"mean_prior": [0.0]}, r"'means' should have the shape of \(3,\)"),
        ({"covariance_prior": np.eye(2)}, "'full covariance_prior' should have the shape"),
        ({"covariance_prior": -np.eye(3)}, "covariance_prior must be positive definite"),
        ({"weight_concentration_prior": 0.0}, "weight_concentration_prior"),
        ({"weight_concentration_prior_type": "stick"}, "weight_concentration_prior_type"),
        ({"n_components": 601}, "at least as many rows"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        BayesianGaussianMixture(**({"n_components": 2} | parameters)).fit(X)


def test_missing_values_are_refused():
    rows = X.copy()
    rows[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        fit(rows=rows)
    with pytest.raises(ValueError, match="NaN"):
        fit(rows=[rows[:300], rows[300:]])
    with pytest.raises(ValueError, match="NaN"):
        fit().predict(rows)
