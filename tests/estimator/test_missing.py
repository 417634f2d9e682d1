"""Rows with missing values through the estimator, and the imputer: every source of rows, start and method."""

from dataclasses import replace

import array_api_strict
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.utils.estimator_checks import parametrize_with_checks

import apolar
from apolar import GaussianMixture, MixtureImputer
from apolar._core.settings import SETTINGS
from apolar.datasets import load_iris
from apolar.exceptions import ColumnError
from apolar.scores import adjusted_rand_index
from apolar.search.starts import STARTS
from mixtures import each_family

NAMES = ["a", "b", "c", "d"]


def rows_of_clusters(n_rows=400, seed=0, fraction=0.1):
    """Return rows of three clusters, the same with missing values, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n_rows)
    means = np.array([[0.0, 0, 0, 0], [8, 0, 8, 0], [0, 8, 8, 8]])
    X = 50 + means[labels] + rng.normal(size=(n_rows, 4)) @ np.triu(np.full((4, 4), 0.6))
    incomplete = np.where(rng.random(X.shape) < fraction, np.nan, X)
    return X, incomplete, labels


X, Z, Y = rows_of_clusters()


def fitted(rows, **parameters):
    sample_weight = parameters.pop("sample_weight", None)
    return GaussianMixture(3, random_state=0, **parameters).fit(rows, sample_weight=sample_weight)


@pytest.fixture(scope="module")
def expected():
    return fitted(Z)


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_spherical", "VVE"])
def test_clusters_are_those_of_the_complete_rows(name):
    complete, model = fitted(X, covariance_type=name), fitted(Z, covariance_type=name)
    assert adjusted_rand_index(Y, model.predict(Z)) > adjusted_rand_index(Y, complete.predict(X)) - 0.02
    assert model.converged_
    assert model.lower_bound_ == pytest.approx(model.score(Z), rel=1e-9)
    # What is lost, of 400 rows, is less than a tenth of a deviation of the clusters.
    np.testing.assert_allclose(model.means_, complete.means_, atol=0.25)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.filterwarnings("ignore::apolar.exceptions.EmptyComponentWarning")
def test_every_start_takes_missing_values(start, expected):
    model = fitted(Z, init_params=start)
    assert model.converged_
    # Random responsibilities lead to poor optima, with missing values and without.
    assert model.score(Z) > expected.score(Z) - (3.0 if start == "random" else 0.5)


def test_moments_step_aside_where_few_rows_are_whole():
    sparse_rows = rows_of_clusters(200, fraction=0.6)[1]
    assert any("rows have no missing value" in note for note in fitted(sparse_rows).start_notes_)
    with pytest.warns(apolar.ApolarWarning, match="rows have no missing value"):
        fitted(sparse_rows, init_params="moments", max_iter=2000)


HOLED = pd.DataFrame(Z, columns=NAMES)
# Beside those of tests/data/test_sources.py: tables in which a missing value is something else than NaN.
SOURCES = {
    "object": Z.astype(object),
    "masked": np.ma.masked_invalid(Z),
    "nullable": HOLED.astype("Float64"),
    "polars": pl.DataFrame({name: pl.Series(column).fill_nan(None) for name, column in HOLED.items()}),
    "arrow": pa.table({name: pa.array(c, from_pandas=True) for name, c in HOLED.items()}),
    "chunks of several kinds": [Z[:100], HOLED.iloc[100:350], Z[350:]],
    "strict": array_api_strict.asarray(Z),
    "dask": da.from_array(Z, chunks=(200, 4)),
    "dask dataframe": dd.from_pandas(HOLED, npartitions=3),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same(source, expected):
    rows = SOURCES[source]
    # To the tolerance of EM, 1e-3 for all rows together; sums are in another order.
    assert fitted(rows).lower_bound_ == pytest.approx(expected.lower_bound_, abs=1e-4)
    for method in ("predict_proba", "score_samples", "impute"):
        ours, of_array = np.asarray(getattr(expected, method)(rows)), getattr(expected, method)(Z)
        np.testing.assert_allclose(ours, of_array, rtol=1e-9, atol=1e-9, err_msg=method)
    assert expected.bic(rows) == pytest.approx(expected.bic(Z), rel=1e-10)


def test_rows_and_columns_without_values():
    empty = Z.copy()
    empty[7] = np.nan
    model = fitted(empty)
    np.testing.assert_allclose(model.predict_proba(empty)[7], model.weights_, rtol=1e-10)
    assert model.score_samples(empty)[7] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(model.impute(empty)[7], model.weights_ @ model.means_, rtol=1e-10)
    empty[:, 2] = np.nan
    with pytest.raises(ColumnError, match="Column 'c' of X has no observed value"):
        fitted(pd.DataFrame(empty, columns=NAMES))
    with pytest.raises(ValueError, match="infinity"):
        fitted(np.where(np.isnan(Z), np.inf, Z))
    stored = sparse.csr_array(Z)
    with pytest.raises(ValueError, match="NaN"):
        fitted(stored)


def test_a_stream_with_missing_values(monkeypatch):
    short = replace(SETTINGS, stream_rows=300, stream_rows_per_parameter=1)
    monkeypatch.setattr("apolar.estimator.stream.SETTINGS", short)
    batches = [rows_of_clusters(200, seed)[1] for seed in range(6)]
    batches[4] = np.where(np.arange(4) == 3, np.nan, batches[4])
    model = GaussianMixture(3, random_state=0)
    for batch in batches:
        model.partial_fit(batch)
    assert model.n_samples_seen_ == 1200
    assert adjusted_rand_index(Y, model.predict(Z)) > 0.95
    # A stream that begins without missing values, and goes on with some.
    model = GaussianMixture(3, random_state=0).partial_fit(X).partial_fit(Z)
    assert adjusted_rand_index(Y, model.predict(Z)) > 0.95
    assert adjusted_rand_index(Y, fitted(X).partial_fit(Z).predict(Z)) > 0.95


@pytest.mark.parametrize("name", ["full", "tied_spherical"])
def test_standard_errors(name):
    with_all = fitted(X, covariance_type=name).standard_errors(X).means
    ours = fitted(Z, covariance_type=name).standard_errors(Z).means
    assert np.all((ours > 0.98 * with_all) & (ours < 1.5 * with_all))
    # By central differences of the exact gradient, also where nothing is missing but one value.
    one = X.copy()
    one[0, 0] = np.nan
    nearly = fitted(one, covariance_type=name, tol=1e-6).standard_errors(one)
    np.testing.assert_allclose(nearly.means, with_all, rtol=0.05)
    if name != "full":
        model = fitted(Z[:200], covariance_type=name)
        errors = model.bootstrap(Z[:200], n_resamples=20).standard_errors()
        assert np.all(errors.means < 3 * model.standard_errors(Z[:200]).means)


def test_draws(expected):
    model = expected
    draws = model.impute(Z, n_draws=3)
    assert draws.shape == (3, *Z.shape)
    seen = ~np.isnan(Z)
    np.testing.assert_array_equal(draws[:, seen], np.broadcast_to(Z[seen], (3, seen.sum())))
    assert np.all(np.isfinite(draws))
    assert np.all(draws[0][~seen] != draws[1][~seen])
    np.testing.assert_array_equal(draws, model.impute(Z, n_draws=3))
    errors, drawn_errors = model.impute(Z)[~seen] - X[~seen], draws[0][~seen] - X[~seen]
    # A draw has the error of the expected value, and its own: twice the variance.
    assert 1.5 < np.mean(drawn_errors**2) / np.mean(errors**2) < 2.6
    with pytest.raises(ValueError, match="n_draws must be at least 1"):
        model.impute(Z, n_draws=0)
    with pytest.raises(TypeError, match="sparse"):
        model.impute(sparse.csr_array(X))


def test_draws_are_from_the_conditional_mixture(expected):
    row = np.array([X[0, 0], np.nan, X[0, 2], np.nan])
    given = expected.conditional([0, 2], row[[0, 2]])
    draws = expected.impute(np.tile(row, (20_000, 1)), n_draws=1)[0][:, [1, 3]]
    mean = given.weights_ @ given.means_
    offsets = given.means_ - mean
    each = given.covariances_ + offsets[:, :, None] * offsets[:, None]
    covariance = np.tensordot(given.weights_, each, axes=1)
    # Of 20,000 draws, errors are below 1% of the variances.
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.05 * np.sqrt(np.diag(covariance)).max())
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.05 * np.diag(covariance).max())


@pytest.mark.parametrize("value", [1e155, -1e200, np.finfo(float).max])
def test_a_missing_value_beside_one_too_large_to_square(value):
    model = fitted(Z)
    # Patterns of few rows and of many are completed by different code.
    for n_rows in (1, 40):
        rows = np.tile([value, np.nan, 50.0, np.nan], (n_rows, 1))
        seen = ~np.isnan(rows)
        for imputed in (model.impute(rows), *model.impute(rows, n_draws=2)):
            assert np.all(np.isfinite(imputed))
            np.testing.assert_array_equal(imputed[seen], rows[seen])
        regression = model.regress([0, 2], rows[:, [0, 2]])
        assert np.all(np.isfinite(regression.mean))
        assert np.all(np.isfinite(regression.deviations))
    conditional = model.conditional([0, 2], [value, 50.0])
    assert np.all(np.isfinite(conditional.means_))
    assert conditional.weights_.sum() == pytest.approx(1)


@each_family
def test_marginal_times_conditional_is_the_density(name):
    def frame(values, names=NAMES):
        return pd.DataFrame(values, columns=list(names))

    model = fitted(frame(X), covariance_type=name)
    known = [X[3, 2], X[3, 0]]
    marginal, conditional = model.marginal(["c", 0]), model.conditional([2, "a"], known)
    rows = X[:50].copy()
    rows[:, [2, 0]] = known
    of_known = marginal.score_samples(frame([known], "ca"))
    parts = of_known + conditional.score_samples(frame(rows[:, [1, 3]], "bd"))
    np.testing.assert_allclose(parts, model.score_samples(frame(rows)), rtol=1e-9)
    rows[:, [1, 3]] = np.nan
    assert model.score_samples(frame(rows))[0] == pytest.approx(of_known[0])
    assert list(conditional.feature_names_in_) == ["b", "d"]
    expected = conditional.weights_ @ conditional.means_
    np.testing.assert_allclose(model.impute(frame(rows))[0, [1, 3]], expected)
    assert conditional.sample(10)[0].shape == (10, 2)
    assert model.marginal("b").means_.shape == (3, 1)


def test_columns_that_are_not_there(expected):
    for columns, message in (
        ("a", "no column 'a'"),
        (4, "there is no 4"),
        ([], "at least"),
        ([1, 1], "twice"),
    ):
        with pytest.raises(ValueError, match=message):
            expected.marginal(columns)
    with pytest.raises(ValueError, match="2 numbers"):
        expected.conditional([0, 1], [1.0])
    with pytest.raises(ValueError, match="All columns"):
        expected.conditional([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])


IRIS = load_iris()
RNG = np.random.default_rng(0)
MISSING = RNG.random(IRIS.data.shape) < 0.15
INCOMPLETE = np.where(MISSING, np.nan, IRIS.data)


@parametrize_with_checks([MixtureImputer(1, covariance_type="diag", max_iter=50)])
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_what_is_observed_is_kept_and_draws_differ_by_seed():
    imputer = MixtureImputer(3, random_state=0)
    out = imputer.fit_transform(INCOMPLETE)
    np.testing.assert_array_equal(out[~MISSING], INCOMPLETE[~MISSING])
    assert np.all(np.isfinite(out))
    np.testing.assert_array_equal(out, imputer.mixture_.impute(INCOMPLETE))
    assert imputer.transform(INCOMPLETE.astype(np.float32)).dtype == np.float32
    imputer.set_params(sample_posterior=True)
    one, same, other = (
        imputer.set_params(random_state=seed).fit(INCOMPLETE).transform(INCOMPLETE) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert np.all(one[MISSING] != other[MISSING])


def test_indicators_and_names():
    frame = pd.DataFrame(INCOMPLETE, columns=IRIS.feature_names)
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


@pytest.mark.filterwarnings("ignore::apolar.ApolarWarning")
@pytest.mark.parametrize("name", ["full", "diag", "spherical", "tied_diag"])
def test_values_that_are_missing_only_in_a_row_far_from_all_others(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2)) + 5 * rng.integers(0, 2, (200, 1))
    X[7] = [1e9, np.nan]
    model = GaussianMixture(2, covariance_type=name, random_state=0).fit(X)
    assert np.isfinite(model.lower_bound_)
    assert np.count_nonzero(model.predict(X) == model.predict(X)[7]) == 1
    assert np.all(np.isfinite(model.impute(X)))
