"""Numbers and names of clusters, noise, and the rows that are shown of each."""

import numpy as np

from apolar.plots.clusters import numbered_clusters
from apolar.scores import error_rate
from plots.reading import three_clusters


def test_a_class_and_a_cluster_without_a_common_row_do_not_match():
    # The best matching takes class 0 with "a"; what is left, class 1 and "b", have nothing in common.
    labels, predicted = [0] * 7 + [1], ["a"] * 5 + ["b"] * 2 + ["a"]
    clusters = numbered_clusters(labels, predicted, None, 8)
    assert clusters.names == ["class 0", "class 1", "extra b"]
    np.testing.assert_array_equal(np.bincount(clusters.true, minlength=3), [7, 1, 0])
    np.testing.assert_array_equal(np.bincount(clusters.found), [6, 0, 2])
    assert np.mean(clusters.wrong) == error_rate(labels, predicted) == 3 / 8


def test_names_of_classes():
    _, labels = three_clusters()
    names = ["setosa", "versicolor", "virginica"]
    assert numbered_clusters(labels, None, names, 60).names == names
    assert numbered_clusters(labels, None, dict(enumerate(names)), 60).names == names
    assert numbered_clusters(np.array(names)[labels], None, None, 60).names == names
    assert numbered_clusters(10**9 + labels, None, None, 60).names[0] == "class 1000000000"
    assert numbered_clusters(None, labels.astype(float), None, 60).names[0] == "cluster 1"
    assert numbered_clusters(None, None, None, 60).names == []
    # Labels of minus and plus one are classes: the first is no noise.
    clusters = numbered_clusters(np.array([-1, 1, -1]), None, None, 3)
    assert [words for words, _ in clusters.legend()] == ["class -1 (2)", "class 1 (1)"]


def test_clusters_of_a_mixture_keep_their_numbers_and_classes_take_them():
    # Components 2 and 0 match classes "a" and "b"; component 1 is empty, and class "c" has no cluster.
    labels = ["a"] * 5 + ["b"] * 4 + ["c"] * 2
    predicted = np.array([2, 2, 2, 2, 0, 0, 0, 0, 0, 2, 2])
    clusters = numbered_clusters(labels, predicted, None, 11, 3)
    assert clusters.names == ["cluster 1: b", "cluster 2", "cluster 3: a", "c"]
    np.testing.assert_array_equal(clusters.found, predicted)
    np.testing.assert_array_equal(clusters.true, [2] * 5 + [0] * 4 + [3] * 2)
    assert np.flatnonzero(clusters.wrong).tolist() == [4, 9, 10]
    assert clusters.component_numbers == {0: 0, 1: 1, 2: 2}
    assert numbered_clusters(None, predicted, None, 11, 3).names == ["cluster 1", "cluster 2", "cluster 3"]


def test_rows_of_noise_are_in_no_cluster():
    labels = np.array([0, 0, 1, 1, 1, -1])
    predicted = np.array([1, 1, 0, 0, -1, 0])
    clusters = numbered_clusters(labels, predicted, None, 6)
    np.testing.assert_array_equal(clusters.true, labels)
    np.testing.assert_array_equal(clusters.found, [0, 0, 1, 1, -1, 1])
    # A row that is called noise is in no wrong cluster; noise that is called a cluster is.
    np.testing.assert_array_equal(clusters.wrong, [False] * 5 + [True])
    assert clusters.names == ["class 0", "class 1"]
    assert clusters.legend()[-2][0] == "noise (1, found 1)"
    assert numbered_clusters(None, predicted, {0: "a", 1: "b"}, 6).names == ["a", "b"]
