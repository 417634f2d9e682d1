"""Columns that are recorded with a resolution: no component is narrower than their rounding errors."""

import numpy as np
import pytest

from apolar import GaussianMixture, Prior
from apolar.scores import adjusted_rand_index
from estimator.clusters import example
from mixtures import FAMILY_NAMES, matrices_of, pairs

# How many of the rows of one group have the lowest score, by column.
LOWEST = np.array([0.97, 0.95, 0.9, 0.9, 0.9, 0.5])
N_COLUMNS = len(LOWEST)
ERROR = 1 / 12


def scores(n=300, seed=0):
    """Return scores from 1 to 10, and which rows are of the group in which most scores are 1."""
    rng = np.random.default_rng(seed)
    is_low = rng.random(n) < 0.6
    low = np.where(rng.random((n, N_COLUMNS)) < LOWEST, 1, rng.integers(2, 5, (n, N_COLUMNS)))
    high = np.clip(np.round(6 + 2.5 * rng.standard_normal((n, N_COLUMNS))), 1, 10)
    return np.where(is_low[:, None], low, high).astype(float), is_low


def fitted(X, name="diag", n_components=2, *, sample_weight=None, **kwargs):
    model = GaussianMixture(n_components, covariance_type=name, random_state=0, **kwargs)
    return model.fit(X, sample_weight=sample_weight)


def smallest_variance(model):
    """Return the smallest variance of a component in any direction."""
    return np.linalg.eigvalsh(matrices_of(model)).min()


def assert_same(model, other, tolerance=1e-3):
    """Assert that two fits ended at the same optimum, of which EM stops some hundredths of an error short."""
    np.testing.assert_allclose(model.means_, other.means_, atol=tolerance)
    np.testing.assert_allclose(model.covariances_, other.covariances_, atol=10 * tolerance)
    np.testing.assert_allclose(model.rounding_variances_, other.rounding_variances_)


@pytest.mark.parametrize("name", ["diag", "full"])
def test_scores_do_not_collapse(name):
    X, is_low = scores()
    flat = fitted(X, name, prior=Prior())
    model = fitted(X, name)
    assert smallest_variance(flat) < ERROR / 2
    np.testing.assert_allclose(model.rounding_variances_, ERROR)
    # The M-step gives no less than the errors; where EM stops, a variance is within some per cent.
    assert smallest_variance(model) > 0.95 * ERROR
    # Flat components part the rows by whether some score is exactly 1.
    assert adjusted_rand_index(is_low, model.predict(X)) > adjusted_rand_index(is_low, flat.predict(X)) + 0.05
    # The likelihood is that of the mixture as it is returned.
    assert model.lower_bound_ == pytest.approx(model.score(X), rel=1e-9)
    assert model.converged_


# Where a part of the covariances is shared, one component can be narrower for the sake of the others.
@pytest.mark.parametrize("name", ["full", "diag", "tied_spherical"])
def test_components_are_as_wide_as_rounding_errors_in_every_family(name):
    X, _ = scores(300)
    X[:, 2] = np.minimum(X[:, 2], 2)
    model = fitted(X, name, 4)
    errors = np.diag(np.where(np.any(model.rounding_variances_), model.rounding_variances_, 0))
    if name.endswith("spherical"):
        errors = errors.trace() / N_COLUMNS * np.eye(N_COLUMNS)
    assert np.linalg.eigvalsh(matrices_of(model) - errors).min() > -0.05 * ERROR


@pytest.mark.parametrize("kwargs", [{"prior": None}, {"prior": Prior()}, {"reg_covar": 1e-6}])
@pytest.mark.filterwarnings("ignore:A component has collapsed")
def test_nothing_is_added_where_the_user_chose_the_regularisation(kwargs):
    X, _ = scores()
    model = fitted(X, **kwargs)
    np.testing.assert_array_equal(model.rounding_variances_, 0)
    assert smallest_variance(model) < ERROR / 2


@pytest.mark.parametrize(("name", "digits"), pairs(FAMILY_NAMES[::3], [20, 1]))
def test_measurements_are_fitted_as_they_are(name, digits):
    X, _ = example()
    # One decimal is far below the width of these clusters.
    np.testing.assert_array_equal(fitted(np.round(X, digits), name, 3).rounding_variances_, 0)


def test_units_do_not_matter():
    X, _ = scores()
    model = fitted(X)
    units = np.array([1, 0.1, 100, 1, 1e-6, 3])
    rows = 1e3 + X * units
    other = fitted(rows)
    np.testing.assert_allclose(other.rounding_variances_, ERROR * units**2, rtol=1e-6)
    assert adjusted_rand_index(model.predict(X), other.predict(rows)) > 0.99
    single = fitted(rows.astype(np.float32)[:, :4])
    np.testing.assert_allclose(single.rounding_variances_, ERROR * units[:4] ** 2, rtol=1e-4)


def test_a_weight_is_a_row_that_is_there_as_often():
    X, _ = scores()
    distinct, counts = np.unique(X, axis=0, return_counts=True)
    assert_same(fitted(distinct, sample_weight=counts), fitted(X))


def test_a_stream_of_scores():
    X, is_low = scores(700)
    stream = GaussianMixture(2, covariance_type="diag", random_state=0)
    for start in range(0, 600, 200):
        stream.partial_fit(X[start : start + 200])
    whole = fitted(X[:600])
    # The stream goes on from the optimum of the rows before, which may be another one.
    assert stream.score(X[:600]) > whole.score(X[:600]) - 0.1
    assert stream.lower_bound_ == pytest.approx(stream.score(X[:600]), rel=1e-6)
    # After a fit, the stream goes on with the same errors.
    for model in (stream, whole.partial_fit(X[600:])):
        np.testing.assert_allclose(model.rounding_variances_, ERROR)
        assert smallest_variance(model) > 0.95 * ERROR
    assert adjusted_rand_index(is_low, whole.predict(X)) > 0.75


def test_checkpoints_files_and_warm_starts_keep_the_errors(tmp_path):
    X, _ = scores()
    path = tmp_path / "checkpoint.npz"
    whole = fitted(X, checkpoint=path, checkpoint_every=1)
    # The last file is that of the mixture as returned, whatever else was tried.
    stored = GaussianMixture.load(path)
    np.testing.assert_array_equal(stored.means_, whole.means_)
    np.testing.assert_array_equal(stored.rounding_variances_, whole.rounding_variances_)
    assert_same(fitted(X, checkpoint=path, warm_start=True), whole)
    # Rows without a resolution have no errors, wherever the fit starts.
    other = X + 1e-3 * np.random.default_rng(0).standard_normal(X.shape)
    np.testing.assert_array_equal(whole.set_params(warm_start=True).fit(other).rounding_variances_, 0)


def test_standard_errors_of_scores_are_those_of_the_bootstrap():
    X, _ = scores()
    model = fitted(X, tol=1e-6)
    # Both have the rounding errors. Scores are no mixture of Gaussians: standard errors only agree roughly.
    ratio = model.bootstrap(X, n_resamples=30).standard_errors().means / model.standard_errors(X).means
    assert 0.5 < ratio.min() <= ratio.max() < 2
