"""Rows that a reader should look at."""

from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pytest

import apolar
from apolar.plots.clusters import posteriors_of
from apolar.reports.analysis import analyse, describe
from apolar.reports.limits import LIMITS
from apolar.reports.listed_rows import (
    choose_rows,
    doubtful_rows,
    labels_link,
    outlying_rows,
    row_words,
)
from apolar.reports.scoring import nameless

NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def flowers():
    iris = apolar.datasets.load_iris()
    labels = np.array(iris.target_names)[iris.target]
    return iris.data, analyse(iris.data, NAMES, 3, labels=labels, covariance_type="spherical", seed=0)


def test_the_rows_most_in_doubt(flowers):
    X, analysis = flowers
    numbers = np.arange(150) * 2
    listed = doubtful_rows(analysis, X, numbers)
    n_listed = min(15, np.count_nonzero(1 - analysis.uncertainty < 0.9))
    assert len(listed) == n_listed > 5
    order = np.argsort(-analysis.uncertainty, kind="stable")[:n_listed]
    assert [row["row"] for row in listed] == (numbers[order] + 1).tolist()
    posteriors = nameless(analysis.model).predict_proba(X[order])
    for row, probabilities in zip(listed, posteriors, strict=True):
        assert (row["cluster"], row["second"]) == tuple(np.argsort(-probabilities)[:2])
        assert row["probability"] == pytest.approx(probabilities.max())
        assert row["second_probability"] == pytest.approx(np.sort(probabilities)[-2])


def test_words_of_a_row(flowers):
    X, analysis = flowers
    positions = np.array([0, int(analysis.uncertainty.argmax())])
    first, doubtful = row_words(
        analysis, positions, posteriors_of(nameless(analysis.model), X[positions]), None
    )
    cluster = analysis.predicted[0] + 1
    assert first == f"row 1: cluster {cluster} ({1 - analysis.uncertainty[0]:.2f}); class setosa"
    assert doubtful.count("cluster ") == 2


def test_rings_are_the_rows_that_do_not_match(flowers):
    X, analysis = flowers
    shown = choose_rows(analysis, X, [0, 1], 1000, None)
    assert shown.n_disagreeing == np.count_nonzero(shown.disagrees) == round(150 * analysis.truth.error_rate)
    few = choose_rows(analysis, X, [0, 1], 60, None)
    assert len(few.values) == 60
    assert few.remarks == ["Shown: 60 of 150 rows, small clusters thinned less."]


def test_outliers_say_where_they_are(flowers):
    X, analysis = flowers
    assert outlying_rows(analysis, X, None) == []
    more = np.vstack([X, [[5.8, 3.0, -40.0, 1.2], [5.8, 300.0, np.nan, 1.2]]])
    listed = outlying_rows(describe(analysis.model, more, NAMES), more, None)
    assert [(row["row"], row["column"], row["value"]) for row in listed] == [
        (152, "b", 300.0),
        (151, "c", -40.0),
    ]
    assert listed[0]["deviations"] > 0 > listed[1]["deviations"]
    expected = (-40 - analysis.model.means_[listed[1]["cluster"], 2]) / analysis.deviations[
        listed[1]["cluster"], 2
    ]
    assert listed[1]["deviations"] == pytest.approx(expected)


def test_labels_of_few_rows_are_on_the_page_and_of_many_are_not(flowers, monkeypatch):
    _, analysis = flowers
    head, _, text = labels_link(analysis, None).partition(",")
    assert head == "data:text/csv;charset=utf-8"
    first, *lines = unquote(text).splitlines()
    assert first == "row,cluster,probability"
    saved = np.array([line.split(",") for line in lines], dtype=float)
    np.testing.assert_array_equal(saved[:, :2], np.column_stack([np.arange(150), analysis.predicted]) + 1)
    np.testing.assert_allclose(saved[:, 2], 1 - analysis.uncertainty, rtol=1e-5)
    monkeypatch.setattr("apolar.reports.listed_rows.LIMITS", replace(LIMITS, labelled_rows=149))
    assert labels_link(analysis, None) == ""
