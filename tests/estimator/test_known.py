"""What is known before a fit: components of rows, groups and parameters."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.model_selection import GridSearchCV, KFold

import apolar


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def two_clusters(rng, n=60):
    """Return overlapping clusters of two columns, and their labels."""
    labels = np.repeat([0, 1], n)
    return rng.normal(size=(2 * n, 2)) + 2.0 * labels[:, None], labels


def some_labels(labels, step):
    """Return the labels of one of every few rows."""
    y = np.full(len(labels), -1)
    y[::step] = labels[::step]
    return y


def log_joint(gm, X):
    """Return the logarithms of weighted densities, shape (n_components, n_rows), from the attributes."""
    covariances = np.broadcast_to(gm.covariances_, (gm.n_components, *gm.covariances_.shape[-2:]))
    known = zip(gm.weights_, gm.means_, covariances, strict=True)
    return np.stack([np.log(w) + multivariate_normal(m, c).logpdf(X) for w, m, c in known])


@pytest.mark.parametrize("kind", ["full", "tied", "VEV"])
def test_the_objective_is_the_joint_likelihood_of_rows_labels_and_groups(rng, kind):
    X, labels = two_clusters(rng)
    y, groups, weights = some_labels(labels, 7), np.full(len(X), -1), rng.integers(1, 4, len(X))
    groups[[1, 2, 3, 90]], groups[[5, 14]] = 4, 8  # row 14 has a label: so has row 5
    gm = apolar.GaussianMixture(2, covariance_type=kind, prior=None, random_state=0)
    gm.fit(X, y, sample_weight=weights, groups=groups)
    logs, y = log_joint(gm, X), np.where(groups == 8, y[14], y)
    each = np.where(
        y >= 0, np.take_along_axis(logs, np.maximum(y, 0)[None], axis=0)[0], logsumexp(logs, axis=0)
    )
    is_together = groups == 4
    expected = (weights * each)[~is_together].sum() + logsumexp((weights * logs)[:, is_together].sum(axis=1))
    # Between the last pass and the attributes is one transform of coordinates.
    np.testing.assert_allclose(gm.lower_bounds_[-1] * weights.sum(), expected, rtol=1e-9)
    assert gm.converged_


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (apolar.GaussianMixture, {}),
        (apolar.StudentMixture, {"covariance_type": "diag"}),
        (apolar.GaussianMixture, {"noise": True}),
        (apolar.GaussianMixture, {"init_params": "kmeans"}),
    ],
)
def test_components_have_the_numbers_of_their_labels(rng, cls, options):
    X, labels = two_clusters(rng)
    X += 3.0 * labels[:, None]
    for flip in (False, True):
        y = some_labels(1 - labels if flip else labels, 20)
        gm = cls(2, random_state=0, **options).fit(X, y)
        assert (gm.means_[0, 0] > gm.means_[1, 0]) == flip


def test_labels_help_where_values_are_missing(rng):
    X, labels = two_clusters(rng)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[np.isnan(X).all(axis=1)] = 0.0
    for kind in ("full", "diag"):
        gm = apolar.GaussianMixture(2, covariance_type=kind, random_state=0).fit(X, some_labels(labels, 3))
        # Of clusters of unit variance, 2 sqrt(2) apart, 8% are misplaced with all values; here a fifth lack.
        assert apolar.scores.error_rate(labels, gm.predict(X)) < 0.25
        assert gm.means_[0, 0] < gm.means_[1, 0]


def test_a_few_labels_show_clusters_that_are_apart_in_one_of_many_columns():
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], 150)
    X = rng.standard_normal((300, 40))
    X[:, 0] += 6 * labels
    gm = apolar.GaussianMixture(2, random_state=0).fit(X, some_labels(labels, 15))
    assert apolar.scores.error_rate(labels, gm.predict(X)) < 0.02


def test_equal_rows_may_be_of_different_components():
    # Starts of a search have no more components than rows that differ.
    X, y = np.tile([1.0, 2.0, 3.0], (20, 1)), np.arange(20) % 3 - 1
    gm = apolar.GaussianMixture(2, random_state=0).fit(X, y)
    assert np.isfinite(gm.lower_bound_)
    np.testing.assert_allclose(gm.means_, X[:2])


def test_rows_keep_their_component_in_fit_predict(rng):
    X, labels = two_clusters(rng)
    y = some_labels(labels, 4)
    y[0] = 1
    found = apolar.GaussianMixture(2, random_state=0).fit_predict(X, y)
    np.testing.assert_array_equal(found[y >= 0], y[y >= 0])


def test_a_row_of_weight_two_in_a_group_is_the_row_twice(rng):
    X, _ = two_clusters(rng, 30)
    groups, weights = np.arange(60) // 3, np.ones(60)
    weights[7] = 2
    once = apolar.GaussianMixture(2, prior=None, random_state=0).fit(X, sample_weight=weights, groups=groups)
    rows = np.append(np.arange(60), 7)
    twice = apolar.GaussianMixture(2, prior=None, random_state=0).fit(X[rows], groups=groups[rows])
    # Both are within the tolerance of EM of the optimum.
    assert once.lower_bounds_[-1] * 61 == pytest.approx(twice.lower_bounds_[-1] * 61, abs=2e-3)


def test_fixed_parameters_stay_and_the_others_are_estimated_about_them(rng):
    X = rng.normal(size=(200, 3))
    gm = apolar.GaussianMixture(1, prior=None).fit(X, fixed={"means": np.ones((1, 3))})
    np.testing.assert_allclose(gm.covariances_[0], (X - 1).T @ (X - 1) / 200, rtol=1e-9, atol=1e-12)
    X, _ = two_clusters(rng)
    means, covariances = np.full((2, 2), np.nan), np.full((2, 2, 2), np.nan)
    means[1], covariances[0] = [0.5, 0.0], np.diag([1.0, 2.0])
    fixed = {"means": means, "covariances": covariances, "weights": [0.3, 0.7]}
    gm = apolar.GaussianMixture(2, random_state=0).fit(X, fixed=fixed)
    # Up to the rounding of the change of coordinates.
    np.testing.assert_allclose(gm.means_[1], means[1], atol=1e-10)
    np.testing.assert_allclose(gm.covariances_[0], covariances[0], atol=1e-10)
    np.testing.assert_allclose(gm.weights_, [0.3, 0.7], atol=1e-12)
    assert gm.converged_


def test_without_unknown_rows_y_is_ignored(rng):
    X, labels = two_clusters(rng)
    X += 3.0 * labels[:, None]
    expected = apolar.GaussianMixture(2, random_state=0).fit(X).means_
    for y in (
        labels,
        labels + 5,
        2 * labels - 1,
        labels - 3.5,
        labels - 7,
        list("ab") * 60,
        np.full(120, -1),
    ):
        found = apolar.GaussianMixture(2, random_state=0).fit(X, y).means_
        np.testing.assert_array_equal(found, expected)
    search = GridSearchCV(
        apolar.GaussianMixture(random_state=0),
        {"n_components": [1, 2]},
        cv=KFold(2, shuffle=True, random_state=0),
    )
    assert search.fit(X, 2 * labels - 1).best_params_ == {"n_components": 2}


@pytest.mark.parametrize("unknown", [None, np.nan, -1])
def test_unknown_rows_can_be_marked_in_three_ways(rng, unknown):
    X, labels = two_clusters(rng)
    expected = apolar.GaussianMixture(2, random_state=0).fit(X, some_labels(labels, 9)).means_
    y = [unknown if each < 0 else int(each) for each in some_labels(labels, 9)]
    for given in (y, [[each] for each in y]):
        found = apolar.GaussianMixture(2, random_state=0).fit(X, given).means_
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"y": [0, 1, -1]}, "one entry for each of the 120 rows; got 3"),
        ({"y": [0, 2, -1] * 40}, "0 to 1; got 2"),
        ({"y": ["a", None] * 60}, "0 to 1; got 'a'"),
        ({"y": [0, 1.5, None] * 40}, "got 1.5"),
        ({"groups": [1, 2]}, "groups must have one entry for each of the 120 rows"),
        ({"y": [0, 1, -1, -1] * 30, "groups": [7, 7, -1, -1] * 30}, "Rows 0 and 1 are in one group"),
        ({"fixed": {"mean": 1}}, "weights, means, covariances; got"),
        ({"fixed": {"weights": [0.5, 0.2]}}, r"Divide fixed\['weights'\] by its sum"),
        ({"fixed": {"means": np.zeros((3, 2))}}, r"must have the shape \(2, 2\)"),
        ({"fixed": {"means": [[0, np.nan], [1, 1]]}}, "NaN for all of a component"),
        ({"fixed": {"covariances": -np.ones((2, 2, 2))}}, "not positive definite"),
        ({"fixed": {"means": "centre"}}, r"must hold numbers, in the shape \(2, 2\)"),
    ],
)
def test_what_contradicts_itself_is_refused(rng, known, message):
    X, _ = two_clusters(rng)
    with pytest.raises(ValueError, match=message):
        apolar.GaussianMixture(2).fit(X, known.pop("y", None), **known)


def test_rows_that_are_not_in_memory_are_refused(rng):
    X, labels = two_clusters(rng)
    with pytest.raises(ValueError, match="dense rows in memory"):
        apolar.GaussianMixture(2).fit([X], some_labels(labels, 5))
