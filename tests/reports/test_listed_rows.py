"""Rows that a reader should look at, as the page lists them."""

import re
from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pytest

import apolar
from apolar.reports import Provenance, report_page
from apolar.reports.analysis import analyse, describe
from apolar.reports.listed_rows import choose_rows, outlying_rows, row_words
from apolar.reports.scoring import LIMITS, nameless

NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def flowers():
    iris = apolar.datasets.load_iris()
    labels = np.array(iris.target_names)[iris.target]
    return iris.data, analyse(iris.data, NAMES, 3, labels=labels, covariance_type="spherical", seed=0)


def part(page, start, end):
    return page.partition(start)[2].partition(end)[0]


def numbers_in(text):
    return [int(number) for number in re.findall(r'data-row="(\d+)"', text)]


def test_rows_in_doubt_typical_rows_and_labels_are_on_the_page(flowers, monkeypatch):
    X, analysis = flowers
    page = report_page(analysis, X, Provenance("iris.csv", "", 0, row_numbers=2 * np.arange(150)))
    order = np.argsort(analysis.certainty, kind="stable")[: np.count_nonzero(analysis.certainty < 0.9)]
    assert 5 < len(order) < 15
    doubtful = part(page, '<table id="doubtful">', "</table>")
    assert numbers_in(doubtful) == (1 + 2 * order).tolist()
    shown = np.array(re.findall(r"<td>(0\.\d\d)</td>", doubtful), dtype=float).reshape(-1, 2)
    expected = np.sort(nameless(analysis.model).predict_proba(X[order]), axis=1)[:, :0:-1]
    np.testing.assert_allclose(shown, expected, atol=0.0051)
    setosa = int(analysis.model.means_[:, 2].argmin())
    for k in range(3):
        card = part(page, f'data-of="cluster-{k + 1}"', "</section>")
        members = np.flatnonzero(analysis.predicted == k)
        distances = ((X[members] - analysis.model.means_[k]) ** 2).sum(axis=1)
        typical = members[np.argsort(distances, kind="stable")[:3]]
        assert numbers_in(card) == (1 + 2 * typical).tolist()
        # Setosa is apart; the others are in doubt with each other.
        other = "none in doubt" if k == setosa else f"mostly with cluster {4 - k - setosa}"
        assert other in card
    first, *lines = unquote(part(page, "data:text/csv;charset=utf-8,", '"')).splitlines()
    assert first == "row,cluster,probability"
    saved = np.array([line.split(",") for line in lines], dtype=float)
    np.testing.assert_array_equal(saved[:, :2].T, [1 + 2 * np.arange(150), analysis.predicted + 1])
    np.testing.assert_allclose(saved[:, 2], analysis.certainty, rtol=1e-5)
    monkeypatch.setattr("apolar.reports.listed_rows.LIMITS", replace(LIMITS, labelled_rows=149))
    assert "data:text/csv" not in report_page(analysis, X, Provenance("iris.csv", "", 0))


def test_rows_of_a_picture_have_words_and_rings(flowers):
    X, analysis = flowers
    words = row_words(analysis, np.arange(150), np.arange(1, 151))
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
    assert outlying_rows(analysis, X, np.arange(150)) == []
    more = np.vstack([X, [[5.8, 3.0, -40.0, 1.2], [5.8, 300.0, np.nan, 1.2]]])
    first, second = outlying_rows(describe(analysis.model, more, NAMES), more, np.arange(1, 153))
    assert (first["row"], first["column"], first["value"]) == (152, "b", 300.0)
    assert (second["row"], second["column"], second["value"]) == (151, "c", -40.0)
    k = second["cluster"]
    expected = (-40 - analysis.model.means_[k, 2]) / analysis.deviations[k, 2]
    assert second["deviations"] == pytest.approx(expected)
