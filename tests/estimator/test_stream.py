"""Batches of a stream: what they teach, and what a bad one leaves."""

import numpy as np
import pytest

import apolar
from apolar import GaussianMixture
from estimator.clusters import example


def test_a_stream_learns_what_the_whole_says():
    X, labels = apolar.datasets.make_example(1, 3000, random_state=0)
    model = GaussianMixture(4, random_state=0)
    for start in range(0, len(X), 500):
        model.partial_fit(X[start : start + 500])
    assert model.n_samples_seen_ == len(X)
    whole = GaussianMixture(4, random_state=0).fit(X)
    assert model.score(X) > whole.score(X) - 0.01
    assert apolar.scores.error_rate(labels, model.predict(X)) < 0.01
    whole.partial_fit(X[:1000])
    assert whole.n_samples_seen_ == len(X) + 1000


@pytest.mark.parametrize(
    "parameters", [{}, {"covariance_type": "EVE"}, {"noise": True}, {"init_params": "kmeans"}]
)
def test_the_first_batch_is_a_fit(parameters):
    X, _ = example()
    for rows in (X, np.round(3 * X)):
        fits = [GaussianMixture(3, random_state=0, **parameters) for _ in range(2)]
        first, whole = fits[0].partial_fit(rows), fits[1].fit(rows)
        np.testing.assert_array_equal(first.covariances_, whole.covariances_)
        np.testing.assert_array_equal(first.rounding_variances_, whole.rounding_variances_)
        assert (first.lower_bound_, first.evidence_) == (whole.lower_bound_, whole.evidence_)


def test_a_bad_batch_leaves_a_stream_as_it_was():
    X, _ = example()
    model = GaussianMixture(3, random_state=0).partial_fit(X)
    means = model.means_.copy()
    for bad in (np.full((5, 4), np.inf), X[:, :3], X[:0]):
        with pytest.raises(ValueError, match="X|NaN|features|sample"):
            model.partial_fit(bad)
        np.testing.assert_array_equal(model.means_, means)
    assert model.n_samples_seen_ == len(X)


@pytest.mark.parametrize("name", ["diag", "full"])
def test_next_to_noise_a_stream_refuses_missing_values(name):
    X, _ = example()
    model = GaussianMixture(3, covariance_type=name, noise=True, random_state=0).fit(X)
    batch, means = X[:60].copy(), model.means_.copy()
    batch[::7, 0] = np.nan
    with pytest.raises(ValueError, match="noise component needs complete rows"):
        model.partial_fit(batch)
    np.testing.assert_array_equal(model.means_, means)


@pytest.mark.parametrize("name", ["spherical", "full"])
def test_moments_of_the_family_put_a_stream_right_that_began_badly(name):
    # The first rows come from one place only; moments of all rows show the other places. Spherical moments
    # do not see them where deviations differ.
    rng = np.random.default_rng(4)
    means = np.array([[0, 0, 0, 0, 0], [6, 0, 0, 0, 0], [0, 0, 7, 0, 0]])
    labels = rng.choice(3, 20_000, p=[0.4, 0.3, 0.3])
    X = means[labels] + rng.standard_normal((20_000, 5))
    X = X if name == "spherical" else X * [1, 30, 1, 50, 0.1]
    first = np.flatnonzero(labels == 0)[:2000]
    later = X[np.setdiff1d(np.arange(len(X)), first)]
    model = GaussianMixture(3, covariance_type=name, random_state=0).partial_fit(X[first])
    for start in range(0, len(later), 3000):
        model.partial_fit(later[start : start + 3000])
    best = GaussianMixture(3, covariance_type=name, random_state=0).fit(later)
    assert model.score(later) > best.score(later) - 0.05


@pytest.mark.parametrize("name", ["full", "tied", "diag", "spherical", "VVE"])
def test_a_stream_after_a_fit_goes_on_where_it_ended(name):
    X, _ = example(60)
    model = GaussianMixture(3, covariance_type=name, random_state=0).fit(X)
    before = model.covariances_.copy()
    model.partial_fit(X[:1])
    # One row in sixty, by the rule of stepwise EM: (1/61)^0.8 of the way.
    np.testing.assert_allclose(model.covariances_, before, atol=0.15 * np.abs(before).max())


def test_a_stream_changes_neither_its_family_nor_its_number_of_components():
    # With as many components as columns, covariances of "diag" and "tied" have the same shape.
    X, _ = example()
    model = GaussianMixture(X.shape[1], covariance_type="diag", random_state=0).partial_fit(X)
    covariances = model.covariances_.copy()
    for name in ("tied", "full"):
        model.set_params(covariance_type=name)
        with pytest.raises(ValueError, match=f"not fitted with covariance_type='{name}'"):
            model.partial_fit(X)
        np.testing.assert_array_equal(model.covariances_, covariances)
    model.set_params(covariance_type="VVI").partial_fit(X)
    with pytest.raises(ValueError, match="has 4 components, and a stream cannot change to n_components=2"):
        model.set_params(n_components=2).partial_fit(X)
