"""The warning of few rows: when it is issued, and which family it names."""

import re
import warnings

import numpy as np
import pytest

from apolar import GaussianMixture, select
from apolar.estimator import few_rows
from apolar.exceptions import CollapsedWarning, FewRowsWarning
from apolar.mixture.families import FAMILIES
from estimator.clusters import each_family, example


def clusters(n, m, mixing=None, seed=0):
    """Return rows of two clusters, and the columns mixed by a matrix if that is given."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, m)) + 5 * np.eye(m)[np.arange(n) % 2]
    return rows if mixing is None else rows @ mixing


def warned(model, X, **kwargs):
    """Return the messages of the class that a fit issues."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, **kwargs)
    return [str(warning.message) for warning in caught if warning.category is FewRowsWarning]


@each_family
def test_ordinary_rows_are_not_few(name):
    X, _ = example(200)
    # Warnings are errors in tests.
    GaussianMixture(3, covariance_type=name, random_state=0).fit(X)


def test_fewer_rows_than_parameters():
    X = clusters(40, 6)
    (message,) = warned(GaussianMixture(2, random_state=0), X)
    assert message.startswith("40 rows are fewer than the 55 parameters of this mixture.")
    assert "covariance_type='tied_spherical' has a higher evidence" in message
    assert warned(GaussianMixture(2, covariance_type="tied_spherical", random_state=0), X) == []
    # The rows that count are those with a weight, and as often as it says.
    assert warned(GaussianMixture(2, random_state=0), X, sample_weight=np.full(40, 2.0)) == []


def test_the_family_of_correlated_columns_is_named():
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    X = clusters(40, 6, turn * np.geomspace(0.1, 10, 6) @ turn.T)
    (message,) = warned(GaussianMixture(2, random_state=0), X)
    assert "covariance_type='tied' has a higher evidence" in message
    gain = float(message.rsplit(" ", 1)[1].rstrip("."))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        full, tied = (
            GaussianMixture(2, covariance_type=kind, random_state=0).fit(X) for kind in ("full", "tied")
        )
    # The other family was run to a loose tolerance.
    assert gain == pytest.approx(tied.evidence_ - full.evidence_, abs=0.3)
    for prior, words in (("default", "the fit relies on its prior"), (None, "without a prior it may")):
        tied = GaussianMixture(2, covariance_type="tied", prior=prior, random_state=0)
        (message,) = warned(tied, X[:30])
        assert f"Of the families tried, this one has the highest evidence: {words}" in message


def test_fewer_rows_than_columns_say_nothing_of_correlations():
    X = clusters(12, 15)
    for name in ("full", "tied"):
        (message,) = warned(GaussianMixture(2, covariance_type=name, random_state=0), X)
        assert "say nothing of correlations: of the families without them, " in message
        named = re.search(r"covariance_type='(\w+)' has the highest evidence", message)[1]
        assert FAMILIES[named].is_axis_aligned


def test_a_component_of_fewer_rows_than_columns():
    X = np.concatenate([np.random.default_rng(0).standard_normal((300, 6)), 20 + np.eye(6)[:4]])
    (message,) = warned(GaussianMixture(2, random_state=0), X)
    assert message.startswith("Of 2, 1 component holds fewer rows than there are columns: 4 rows, for a")
    # Not of families that estimate no covariance from those rows alone.
    for name in ("tied", "diag", "spherical"):
        assert warned(GaussianMixture(2, covariance_type=name, random_state=0), X) == []


@pytest.mark.parametrize("name", ["full", "tied"])
def test_one_component_is_compared_once_with_each_form(name, monkeypatch):
    tried, start_under = [], few_rows._start_under

    def noted_start(data, *rest):
        tried.append(data.family.name)
        return start_under(data, *rest)

    monkeypatch.setattr(few_rows, "_start_under", noted_start)
    assert warned(GaussianMixture(1, covariance_type=name), clusters(13, 4))
    assert tried == ["diag", "spherical"]


def test_rows_that_are_many_or_elsewhere_get_no_family(monkeypatch):
    X = clusters(40, 6)
    advice = "Try a covariance_type of fewer parameters, or fewer components."
    assert warned(GaussianMixture(2, random_state=0), [X[:20], X[20:]])[0].endswith(advice)
    monkeypatch.setattr(few_rows, "MOST_NUMBERS", 40 * 28 - 1)
    assert warned(GaussianMixture(2, random_state=0), X)[0].endswith(advice)
    # Only those that fit are tried.
    monkeypatch.setattr(few_rows, "MOST_NUMBERS", 40 * 28)
    assert "covariance_type='tied_spherical'" in warned(GaussianMixture(2, random_state=0), X)[0]


def test_other_remedies_come_first():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewRowsWarning)
        with pytest.warns(CollapsedWarning):
            GaussianMixture(2, prior=None, random_state=0).fit(clusters(12, 15))


def test_selections_keep_it_in_the_table():
    X = clusters(40, 6)
    selection = select(X, (1, 2), ("full", "spherical"), random_state=0)
    few = {
        (row.covariance_type, row.n_components)
        for row in selection.table
        if any("fewer than the" in text for text in row.warnings)
    }
    assert few == {("full", 2)}
