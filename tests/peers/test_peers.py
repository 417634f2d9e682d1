"""Projects built on scikit-learn's mixture, with ours in its place; skipped where they are not installed."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import apolar

# Their configuration does not turn warnings into errors.
pytestmark = pytest.mark.filterwarnings("ignore")


def failed(estimator):
    """Return the names of scikit-learn's checks that an estimator does not pass."""
    results = check_estimator(estimator, on_fail=None)
    assert len(results) > 30
    return {result["check_name"] for result in results if result["status"] == "failed"}


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [
        ("sklego.mixture.gmm_classifier", "GMMClassifier", {}),
        ("sklego.mixture.gmm_classifier", "GMMClassifier", {"n_components": 2, "covariance_type": "diag"}),
        ("sklego.mixture.gmm_outlier_detector", "GMMOutlierDetector", {"threshold": 0.9}),
        ("sklego.mixture.gmm_outlier_detector", "GMMOutlierDetector", {"threshold": 2, "method": "stddev"}),
        ("sklego.naive_bayes", "GaussianMixtureNB", {}),
    ],
)
def test_scikit_lego_fails_no_check_that_it_passed(module, name, parameters, monkeypatch):
    home = pytest.importorskip(module)
    kind = getattr(home, name)
    before = failed(kind(**parameters))
    monkeypatch.setattr(home, "GaussianMixture", apolar.GaussianMixture)
    assert failed(kind(**parameters)) <= before


def test_scikit_lego_classifies(monkeypatch):
    home = pytest.importorskip("sklego.mixture.gmm_classifier")
    monkeypatch.setattr(home, "GaussianMixture", apolar.GaussianMixture)
    bunch = apolar.datasets.load_iris()
    model = home.GMMClassifier(n_components=2, covariance_type="full", random_state=0).fit(
        bunch.data, bunch.target
    )
    assert {type(mixture) for mixture in model.gmms_.values()} == {apolar.GaussianMixture}
    assert np.mean(model.predict(bunch.data) == bunch.target) > 0.95


def test_pyod_detects_outliers(monkeypatch):
    home = pytest.importorskip("pyod.models.gmm")
    monkeypatch.setattr(home, "GaussianMixture", apolar.GaussianMixture)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((190, 2)), rng.uniform(-8, 8, (10, 2))])
    detector = home.GMM(n_components=1, contamination=0.05, random_state=0).fit(X)
    assert isinstance(detector.detector_, apolar.GaussianMixture)
    assert detector.labels_.sum() == 10
    assert detector.labels_[190:].mean() > 0.7
    np.testing.assert_allclose(detector.decision_function(X), detector.decision_scores_)
