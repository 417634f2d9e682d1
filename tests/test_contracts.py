"""scikit-learn's contract: its own checks, and every start and family through the estimator."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import apolar
from apolar import BayesianGaussianMixture, GaussianMixture
from apolar.search.starts import STARTS
from mixtures import FAMILY_NAMES, pairs

NAMES = FAMILY_NAMES
SHAPES = {
    "full": (3, 4, 4), "tied": (4, 4), "diag": (3, 4), "tied_diag": (4,), "spherical": (3,),
    "tied_spherical": (), "VEI": (3, 4), "EVI": (3, 4),
} | dict.fromkeys(("VEE", "EVE", "VVE", "EEV", "VEV", "EVV"), (3, 4, 4))  # fmt: skip


def expected_failures(estimator):
    # These two take any estimator with predict_proba for a classifier, and fail in their own code.
    reason = "the check assumes a classifier"
    reasons = {"check_estimator_sparse_array": reason, "check_estimator_sparse_matrix": reason}
    if estimator.n_components > 1:
        # Nine different rows of thirty columns; see below for a table on which the same can be asked.
        reason = "what it compares, to nine digits, is rounding"
        reasons["check_sample_weight_equivalence_on_dense_data"] = reason
        reasons["check_sample_weight_equivalence_on_sparse_data"] = reason
    return reasons


@parametrize_with_checks(
    [GaussianMixture(), BayesianGaussianMixture()], expected_failed_checks=expected_failures
)
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "start"), pairs(NAMES[1:], list(STARTS)))
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn_on_every_family_and_start(name, start):
    model = GaussianMixture(2, covariance_type=name, init_params=start)
    checks = check_estimator(model, on_fail=None, expected_failed_checks=expected_failures(model))
    assert len(checks) > 40
    failed = {check["check_name"]: check["exception"] for check in checks if check["status"] == "failed"}
    assert not failed


@pytest.mark.filterwarnings("ignore::apolar.exceptions.FewRowsWarning")
@pytest.mark.parametrize(("name", "start"), pairs(NAMES, list(STARTS)))
def test_a_row_twice_is_a_row_of_weight_two(rows, name, start):
    rng = np.random.default_rng(0)
    X = rows[0]
    counts = rng.integers(0, 4, size=len(X))
    model = GaussianMixture(3, covariance_type=name, init_params=start, random_state=0, tol=1e-9)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0))
    order = rng.permutation(len(X))
    weighted = clone(model).fit(X[order], sample_weight=counts[order])
    # Additions in another order: their rounding, times the conditioning of the optimum.
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-5, atol=1e-5)
    # The likelihood is not at its own maximum, but at that of the objective with the prior.
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, abs=1e-7)
    assert weighted.n_samples_seen_ == repeated.n_samples_seen_ == counts.sum()
    assert weighted.evidence_ == pytest.approx(repeated.evidence_, abs=1e-2)
    twice = X.repeat(counts, axis=0)
    for criterion in ("bic", "icl"):
        of_weighted = getattr(weighted, criterion)(X, counts)
        assert of_weighted == pytest.approx(getattr(repeated, criterion)(twice), abs=1e-2)


@pytest.fixture(scope="module")
def rows():
    labels = np.arange(240) % 3
    spreads = np.array([0.5, 1, 1.5])[labels, None]
    return 6 * np.eye(4)[labels] + np.random.default_rng(0).standard_normal((240, 4)) * spreads, labels


@pytest.mark.parametrize(("name", "start"), pairs(NAMES, list(STARTS)))
def test_every_start_and_family(rows, name, start):
    X, labels = rows
    model = GaussianMixture(3, covariance_type=name, init_params=start, n_init=2, random_state=0).fit(X)
    for attribute in ("covariances_", "precisions_", "precisions_cholesky_"):
        assert getattr(model, attribute).shape == SHAPES[name]
    assert model.converged_
    assert start == "auto" or model.start_ == start
    # Weights that are equal up to the tolerance of EM are in the order of the means.
    assert np.all(np.diff(model.weights_) <= 1e-6)
    posterior = model.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    np.testing.assert_array_equal(posterior.argmax(axis=1), model.predict(X))
    assert model.score_samples(X).mean() == pytest.approx(model.score(X))
    assert model.score(X) == pytest.approx(model.lower_bound_, abs=1e-9)
    if start not in ("random", "emem", "random_from_data"):  # these may fail, as they do elsewhere
        assert apolar.scores.error_rate(labels, model.predict(X)) < 0.05


def test_weights_are_requested_by_routing():
    with config_context(enable_metadata_routing=True):
        model = GaussianMixture().set_fit_request(sample_weight=True)
        assert model.get_metadata_routing().fit.requests["sample_weight"] is True


class Recorder:
    """A callback of scikit-learn's protocol that stops after some passes."""

    def __init__(self, stop_after):
        self.stop_after, self.tasks, self.scores, self.began, self.ended = stop_after, [], [], 0, 0

    def setup(self, estimator, context):  # noqa: ARG002
        self.began += 1

    def teardown(self, estimator, context):  # noqa: ARG002
        self.ended += 1

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X, fitted_estimator):  # noqa: ARG002
        self.tasks.append(context.task_name)
        if context.task_name == "pass":
            self.scores.append(fitted_estimator.score(X))
        return context.task_name == "pass" and len(self.scores) >= self.stop_after


@pytest.fixture
def callbacks():
    return pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")


def test_callbacks_see_each_pass_and_can_stop(callbacks):
    X, _ = apolar.datasets.make_example(2, 300, random_state=0)
    recorder = Recorder(5)
    model = GaussianMixture(3, init_params="random", random_state=0).set_callbacks(recorder).fit(X)
    assert (recorder.began, recorder.ended) == (1, 1)
    assert recorder.tasks == ["pass"] * 5 + ["fit"]
    assert np.all(np.diff(recorder.scores) > -1e-3)
    assert not model.converged_
    assert "callback" in model.message_
    GaussianMixture(2, random_state=0).set_callbacks(callbacks.ProgressBar()).fit(X)
    # All starts are stopped, wherever the best of the earlier ones ended.
    recorder = Recorder(150)
    GaussianMixture(3, init_params="random", n_init=20, random_state=0).set_callbacks(recorder).fit(X)
    assert recorder.tasks == ["pass"] * 150 + ["fit"]
