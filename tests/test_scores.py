"""Scores of clusterings and models."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from apolar import scores

labels = st.lists(st.integers(0, 4), min_size=2, max_size=40)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(labels, st.integers(0, 2**31))
def test_the_index_is_that_of_scikit_learn_and_the_error_rate_ignores_names(true, seed):
    rng = np.random.default_rng(seed)
    predicted = rng.integers(0, 4, len(true))
    assert scores.adjusted_rand_index(true, predicted) == pytest.approx(adjusted_rand_score(true, predicted))
    names = rng.permutation(10)
    assert scores.error_rate(true, names[predicted]) == scores.error_rate(true, predicted)
    assert scores.error_rate(true, true) == 0
    assert scores.adjusted_rand_index(true, true) == 1


def test_the_error_rate_takes_the_best_matching():
    assert scores.error_rate(["x", "x", "y", "y", "z"], [2, 2, 0, 0, 1]) == 0
    assert scores.error_rate([0, 0, 1, 1], [0, 1, 2, 3]) == 0.5


@pytest.mark.parametrize(("true", "predicted"), [([], []), ([1, 2], [1]), ([[1]], [[1]])])
def test_labels_that_do_not_fit_are_refused(true, predicted):
    with pytest.raises(ValueError, match="abels"):
        scores.error_rate(true, predicted)


def test_criteria_have_both_signs_under_names_of_their_own():
    assert scores.mclust_bic(-100.0, 5, 50) == pytest.approx(-200 - 5 * np.log(50))
    assert scores.lower_is_better_bic(-100.0, 5, 50) == -scores.mclust_bic(-100.0, 5, 50)
    assert scores.lower_is_better_aic(-100.0, 5) == 210
    sure, unsure = np.eye(2)[[0, 1]], np.full((2, 2), 0.5)
    assert scores.lower_is_better_icl(10.0, sure) == 10
    assert scores.lower_is_better_icl(10.0, unsure) == pytest.approx(10 + 4 * np.log(2))
    with pytest.raises(ValueError, match="n_samples"):
        scores.mclust_bic(-1.0, 1, 0)


def test_the_error_rate_where_clusters_share_classes():
    rng = np.random.default_rng(0)
    for _ in range(20):
        true, predicted = rng.integers(0, 4, 60), rng.integers(0, 3, 60)
        counts = scores.confusion(true, predicted)
        by_cluster = 1 - sum(counts[:, k].max() for k in range(counts.shape[1])) / 60
        by_class = 1 - sum(counts[k].max() for k in range(counts.shape[0])) / 60
        rate = scores.majority_error_rate(true, predicted)
        assert rate == pytest.approx(max(by_cluster, by_class))
        assert rate <= scores.error_rate(true, predicted) + 1e-12
    assert scores.majority_error_rate([1, 1, 2], ["b", "b", "a"]) == 0
