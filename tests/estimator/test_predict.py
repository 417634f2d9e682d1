"""What a fitted mixture gives: samples, criteria, standard errors, a file."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from apolar import GaussianMixture
from estimator.clusters import each_family, example, fitted


@each_family
def test_samples_have_the_parameters_of_the_mixture(name):
    X, _ = example()
    model = fitted(X, name)
    rows, labels = model.sample(40_000)
    assert np.all(np.diff(labels) >= 0)
    again = GaussianMixture(3, covariance_type=name, means_init=model.means_).fit(rows)
    np.testing.assert_allclose(again.weights_, model.weights_, atol=0.02)
    np.testing.assert_allclose(again.covariances_, model.covariances_, atol=0.12)


def test_criteria_agree_with_their_definitions():
    X, _ = example()
    model = fitted(X, "spherical")
    log_likelihood, n_parameters = model.score_samples(X).sum(), 3 * 6 - 1
    assert model.n_parameters_ == n_parameters
    assert model.bic(X) == pytest.approx(n_parameters * np.log(len(X)) - 2 * log_likelihood)
    assert model.aic(X) == pytest.approx(2 * n_parameters - 2 * log_likelihood)
    assert model.icl(X) >= model.bic(X)


def test_an_unfitted_mixture_says_so():
    of_rows = [(name, example()) for name in ("predict", "predict_proba", "score_samples", "bic")]
    others = [("sample", [3]), ("overlap", []), ("marginal", [0]), ("summary", [])]
    for method, arguments in (*of_rows, ("standard_errors", example()), *others):
        with pytest.raises(NotFittedError):
            getattr(GaussianMixture(), method)(*arguments[:1])


@pytest.mark.parametrize("weights", [-np.ones(400), np.zeros(400), [1, 2]])
def test_scores_check_their_weights(weights):
    X, _ = example()
    model = fitted(X)
    for method in (model.score, model.bic):
        with pytest.raises(ValueError, match="[Ww]eight"):
            method(X, sample_weight=weights)
