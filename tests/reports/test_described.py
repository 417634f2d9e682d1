"""Rows described by a mixture that is already fitted: to these rows, or to others."""

import numpy as np
import pytest

import apolar
from apolar.reports.analysis import analyse, describe
from apolar.reports.scoring import score_chunks, score_table

NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def rows():
    return apolar.datasets.load_iris().data


@pytest.fixture(scope="module")
def model(rows):
    return apolar.GaussianMixture(3, random_state=0).fit(rows)


def test_the_rows_of_the_fit_are_described_as_by_a_fit(rows, model):
    classes = apolar.datasets.load_iris().target
    ours = describe(model, rows, NAMES, labels=classes)
    theirs = analyse(rows, NAMES, 3, labels=classes, seed=0)
    assert ours.likelihood.criteria == pytest.approx(theirs.likelihood.criteria)
    assert ours.truth.ari == theirs.truth.ari
    np.testing.assert_array_equal(ours.predicted, theirs.predicted)
    np.testing.assert_allclose(ours.errors.means, theirs.errors.means, rtol=1e-6)
    assert list(ours.model.feature_names_in_) == list(NAMES)
    assert not hasattr(model, "feature_names_in_")


def test_other_rows_have_no_standard_errors(rows, model):
    analysis = describe(model, np.delete(rows, 7, axis=0), NAMES)
    assert analysis.errors is None
    assert "fitted to" in analysis.no_errors
    assert np.isnan(analysis.likelihood.criteria["evidence"])
    moved = describe(model, rows + 0.01, NAMES)
    assert moved.errors is None


def test_a_missing_value_is_counted(rows, model):
    holed = rows.copy()
    holed[3, 1] = np.nan
    assert describe(model, holed, NAMES).n_missing.tolist() == [0, 1, 0, 0]


def test_rows_beyond_all_numbers_go_to_the_nearest_cluster_and_are_marked(rows, model):
    # The row lies in the direction of the mean of each cluster; the nearest is that of most spread there.
    far = np.vstack([rows[:3], np.full((1, 4), 1e300)])
    (scores,) = score_chunks(model, far)
    assert scores.outliers.tolist() == [False, False, False, True]
    assert np.isnan(scores.posteriors[3]).all()
    assert np.isfinite(scores.posteriors[:3]).all()
    direction = np.ones(4)
    spreads = [direction @ np.linalg.solve(covariance, direction) for covariance in model.covariances_]
    assert scores.predicted[3] == np.argmin(spreads)
    assert np.isfinite(score_table(model, far).uncertainty).all()


def test_a_row_that_is_very_far_is_an_outlier_with_probabilities(model):
    (scores,) = score_chunks(model, np.full((1, 4), 1e6))
    assert scores.outliers.all()
    np.testing.assert_allclose(scores.posteriors.sum(), 1)
