"""Starts that are given: labels, responsibilities, parameters, callables, and warm starts."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import apolar
from apolar import GaussianMixture
from estimator.clusters import example, fitted


def test_labels_responsibilities_and_callables_are_starts():
    X, labels = example()
    by_labels = fitted(X, init_params=np.array(["b", "c", "a"])[labels])
    assert by_labels.start_ == "given"
    # In the order of the sorted labels: a is the third cluster.
    np.testing.assert_allclose(by_labels.means_[0], X[labels == 2].mean(axis=0), atol=0.3)
    by_responsibilities = fitted(X, init_params=np.eye(3)[labels])
    np.testing.assert_allclose(by_responsibilities.means_[2], by_labels.means_[0], atol=1e-4)

    def third(X, n_components, random_state):
        assert isinstance(random_state, np.random.RandomState)
        return np.arange(len(X)) % n_components

    assert fitted(X, init_params=third).start_ == "third"
    by_moments = fitted(X, "spherical", init_params=lambda X, r, s: apolar.mixture_from_moments(X, r))
    assert by_moments.score(X) == pytest.approx(fitted(X, "spherical").score(X), abs=1e-6)


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_diag", "spherical", "VEE", "EVE"])
def test_parameters_are_starts_and_keep_their_order(name):
    X, labels = example()
    best = fitted(X, name)
    order = [2, 0, 1]
    tied = name.startswith("tied")
    precisions = best.precisions_ if tied else best.precisions_[order]
    model = fitted(
        X, name, weights_init=best.weights_[order], means_init=best.means_[order], precisions_init=precisions
    )
    np.testing.assert_allclose(model.means_, best.means_[order], atol=1e-4)
    only_means = fitted(X, name, means_init=best.means_[order])
    np.testing.assert_allclose(only_means.means_, best.means_[order], atol=1e-3)
    only_weights = fitted(X, name, weights_init=[0.2, 0.3, 0.5], init_params=labels)
    assert only_weights.score(X) == pytest.approx(best.score(X), abs=1e-4)


def test_a_warm_start_goes_on():
    X, _ = example()
    model = GaussianMixture(3, random_state=0, warm_start=True, max_iter=2, init_params="random")
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        first = model.fit(X).score(X)
    model.set_params(max_iter=500).fit(X)
    assert model.start_ == "warm start"
    assert model.score(X) > first
    assert model.converged_


def test_no_passes_give_the_start():
    X, labels = example()
    model = GaussianMixture(3, init_params=labels, max_iter=0, prior=None, covariance_type="diag").fit(X)
    np.testing.assert_allclose(model.means_, [X[labels == k].mean(axis=0) for k in range(3)])


def test_rows_of_weight_zero_take_their_labels_with_them():
    X, labels = example(200)
    weights = np.where(np.arange(200) < 20, 0.0, 1.0)
    expected = fitted(X[20:], init_params=labels[20:])
    for start in (labels, np.eye(3)[labels], lambda X, r, s: labels):
        model = GaussianMixture(3, init_params=start, tol=1e-8).fit(X, sample_weight=weights)
        np.testing.assert_allclose(np.sort(model.weights_), np.sort(expected.weights_), atol=1e-6)


def test_a_warm_start_of_another_family_or_table_starts_afresh():
    X, _ = example()
    model = GaussianMixture(3, warm_start=True, random_state=0).fit(X)
    model.set_params(covariance_type="diag").fit(X)
    assert model.start_ != "warm start"
    model.fit(X[:, :2])
    assert model.means_.shape == (3, 2)
    with pytest.raises(ValueError, match="fit it again"):
        model.set_params(covariance_type="tied").predict(X[:, :2])


def test_a_fitted_mixture_may_be_what_a_callable_returns():
    X, _ = example()
    model = fitted(
        X, init_params=lambda X, r, s: GaussianMixture(r, covariance_type="tied", random_state=s).fit(X)
    )
    assert model.converged_
    with pytest.raises(ValueError, match="got NoneType"):
        GaussianMixture(3, init_params=lambda X, r, s: None).fit(X)


@pytest.mark.parametrize(("n_components", "n_columns"), [(2, 6), (3, 5)])
def test_a_returned_mixture_of_another_shape_is_refused(n_components, n_columns):
    X, _ = apolar.datasets.make_example(1, 300, random_state=0)
    smaller = apolar.mixture_from_moments(X[:, :n_columns], n_components)
    with pytest.raises(ValueError, match=r"What init_params returned has means of shape"):
        GaussianMixture(3, init_params=lambda *_: smaller, random_state=0).fit(X)
