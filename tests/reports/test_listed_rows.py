"""Rows that a reader should look at."""

from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pytest

import apolar
from apolar.reports.analysis import analyse, describe
from apolar.reports.listed_rows import (
    choose_rows,
    doubtful_rows,
    labels_link,
    nearest_clusters,
    outlying_rows,
    row_words,
    typical_rows,
)
from apolar.reports.scoring import LIMITS, nameless

NAMES = ("a", "b", "c", "d")
NUMBERS = np.arange(1, 151)


@pytest.fixture(scope="module")
def flowers():
    iris = apolar.datasets.load_iris()
    labels = np.array(iris.target_names)[iris.target]
    return iris.data, analyse(iris.data, NAMES, 3, labels=labels, covariance_type="spherical", seed=0)


def test_the_rows_most_in_doubt(flowers):
    X, analysis = flowers
    numbers = np.arange(150) * 2
    listed = doubtful_rows(analysis, numbers)
    n_listed = min(15, np.count_nonzero(analysis.certainty < 0.9))
    assert len(listed) == n_listed > 5
    order = np.argsort(analysis.certainty, kind="stable")[:n_listed]
    assert [row["row"] for row in listed] == numbers[order].tolist()
    posteriors = nameless(analysis.model).predict_proba(X[order])
    for row, probabilities in zip(listed, posteriors, strict=True):
        assert (row["cluster"], row["second"]) == tuple(np.argsort(-probabilities)[:2])
        assert row["probability"] == pytest.approx(probabilities.max())
        assert row["second_probability"] == pytest.approx(np.sort(probabilities)[-2])


def test_rows_of_a_picture_have_words_and_rings(flowers):
    X, analysis = flowers
    words = row_words(analysis, np.arange(150), NUMBERS)
    cluster = analysis.predicted[0] + 1
    assert words[0] == f"row 1: cluster {cluster} ({analysis.certainty[0]:.2f}); class setosa"
    assert words[analysis.certainty.argmin()].count("cluster ") == 2
    # Rings are the rows that do not match.
    assert np.count_nonzero(analysis.disagrees) == round(150 * analysis.truth.error_rate)
    positions, values, remarks = choose_rows(analysis, X, [0, 1], 60)
    np.testing.assert_array_equal(values, X[positions])
    assert len(positions) == 60
    assert remarks == ["Shown: 60 of 150 rows, small clusters thinned less."]


def test_outliers_say_where_they_are(flowers):
    X, analysis = flowers
    assert outlying_rows(analysis, X, NUMBERS) == []
    more = np.vstack([X, [[5.8, 3.0, -40.0, 1.2], [5.8, 300.0, np.nan, 1.2]]])
    first, second = outlying_rows(describe(analysis.model, more, NAMES), more, np.arange(1, 153))
    assert (first["row"], first["column"], first["value"]) == (152, "b", 300.0)
    assert (second["row"], second["column"], second["value"]) == (151, "c", -40.0)
    assert first["deviations"] > 0 > second["deviations"]
    k = second["cluster"]
    expected = (-40 - analysis.model.means_[k, 2]) / analysis.deviations[k, 2]
    assert second["deviations"] == pytest.approx(expected)


def test_typical_rows_are_nearest_to_the_centre(flowers):
    X, analysis = flowers
    model = analysis.model
    for k, positions in enumerate(typical_rows(analysis, X)):
        members = np.flatnonzero(analysis.predicted == k)
        distances = ((X[members] - model.means_[k]) ** 2).sum(axis=1)
        assert positions == members[np.argsort(distances, kind="stable")[:3]].tolist()


def test_the_cluster_that_rows_in_doubt_may_belong_to(flowers):
    _, analysis = flowers
    found = nearest_clusters(analysis)
    # Setosa is apart; the others are in doubt with each other.
    small = int(analysis.model.means_[:, 2].argmin())
    others = [k for k in range(3) if k != small]
    assert found[small] is None
    assert [found[k] for k in others] == others[::-1]


def test_labels_of_few_rows_are_on_the_page_and_of_many_are_not(flowers, monkeypatch):
    _, analysis = flowers
    head, _, text = labels_link(analysis, NUMBERS).partition(",")
    assert head == "data:text/csv;charset=utf-8"
    first, *lines = unquote(text).splitlines()
    assert first == "row,cluster,probability"
    saved = np.array([line.split(",") for line in lines], dtype=float)
    np.testing.assert_array_equal(saved[:, :2], np.column_stack([NUMBERS, analysis.predicted + 1]))
    np.testing.assert_allclose(saved[:, 2], analysis.certainty, rtol=1e-5)
    monkeypatch.setattr("apolar.reports.listed_rows.LIMITS", replace(LIMITS, labelled_rows=149))
    assert labels_link(analysis, NUMBERS) == ""
