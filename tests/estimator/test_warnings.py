"""What a fit warns of: constant columns, few rows, and far rows, which do not set the scale of the others."""

import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets
from sklearn.base import clone

import apolar
from apolar import GaussianMixture, StudentMixture
from apolar.datasets import load_olive
from apolar.exceptions import (
    ColumnWarning,
    DisagreementWarning,
    FarRowsWarning,
    FewRowsWarning,
    LongTailsWarning,
)
from apolar.selection import select
from mixtures import pairs


@pytest.fixture
def rows():
    X, _ = apolar.datasets.make_example(2, 200, random_state=0)
    return X


def column_warnings(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [warning for warning in caught if issubclass(warning.category, ColumnWarning)]


def test_fit_warns_once_of_constant_columns_and_uses_them(rows):
    n, m = rows.shape
    frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(m)])
    frame = frame.assign(id=np.arange(n), flat=1.0, flat2=2.0)
    model = apolar.GaussianMixture(2, random_state=0)
    (warning,) = column_warnings(lambda: model.fit(frame))
    assert str(warning.message).startswith("Columns 'flat' and 'flat2' are constant. ")
    assert warning.filename == __file__
    assert model.n_features_in_ == m + 3
    # Rows of any source.
    X = frame.to_numpy()
    (warning,) = column_warnings(lambda: apolar.GaussianMixture(2, random_state=0).fit([X[:100], X[100:]]))
    assert str(warning.message).startswith(f"Columns {m + 1} and {m + 2} are constant. ")


def test_where_nothing_is_said(rows):
    flat = np.column_stack([rows, np.ones(len(rows))])
    model = apolar.GaussianMixture(2, random_state=0)
    # Streams, and what fills in values.
    imputer = apolar.MixtureImputer(n_components=2, random_state=0)
    calls = (
        (model.fit, rows),
        (model.fit, np.ones(rows.shape)),
        (clone(model).partial_fit, flat),
        (imputer.fit, flat),
    )
    for call, X in calls:
        assert not column_warnings(lambda call=call, X=X: call(X))


def two_clusters(n, m, mixing=None, seed=0):
    """Return rows of two clusters, and the columns mixed by a matrix if that is given."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, m)) + 5 * np.eye(m)[np.arange(n) % 2]
    return rows if mixing is None else rows @ mixing


def warned(model, X, category=FewRowsWarning, **kwargs):
    """Return the messages of a class that a fit issues."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, **kwargs)
    return [str(warning.message) for warning in caught if warning.category is category]


def test_fewer_rows_than_parameters():
    X = two_clusters(40, 6)
    assert warned(GaussianMixture(2, random_state=0), X) == []  # shrunk as far as rows left out suggest
    (message,) = warned(GaussianMixture(2, prior="conjugate", random_state=0), X)
    assert message.startswith("40 rows are fewer than the 55 parameters of this mixture.")
    assert "`select` compares them" in message
    spherical = GaussianMixture(2, covariance_type="tied_spherical", prior="conjugate", random_state=0)
    assert warned(spherical, X) == []
    # The rows that count are those with a weight, and as often as it says.
    weighted = GaussianMixture(2, prior="conjugate", random_state=0)
    assert warned(weighted, X, sample_weight=np.full(40, 2.0)) == []


def test_a_component_of_fewer_rows_than_columns():
    X = np.concatenate([np.random.default_rng(0).standard_normal((300, 6)), 20 + np.eye(6)[:4]])
    (message,) = warned(GaussianMixture(2, prior="conjugate", random_state=0), X)
    assert message.startswith("1 of 2 components holds fewer rows than there are columns: 4 rows, for a")
    # Not of families that estimate no covariance from those rows alone.
    for name in ("tied", "diag", "spherical"):
        plain = GaussianMixture(2, covariance_type=name, prior="conjugate", random_state=0)
        assert warned(plain, X) == []


TABLES = {
    "iris": lambda: datasets.load_iris().data,
    "wine": lambda: datasets.load_wine().data,
    "breast cancer": lambda: datasets.load_breast_cancer().data,
    "diabetes": lambda: datasets.load_diabetes().data,
    "olive": lambda: load_olive().data,
}


@pytest.mark.parametrize(("name", "shared"), pairs(TABLES, ["tied", "diag", "spherical"]))
def test_default_fits_of_ordinary_tables_warn_of_nothing(name, shared):
    X = TABLES[name]()
    with warnings.catch_warnings():
        # As in a script: an error for what the filters of the library let through.
        warnings.resetwarnings()
        warnings.simplefilter("error")
        for about_rows in (DisagreementWarning, LongTailsWarning):
            warnings.simplefilter("ignore", about_rows)
        for kind, number in (("full", 3), (shared, 3)):
            GaussianMixture(number, covariance_type=kind, random_state=0).fit(X)


def test_that_good_starts_disagree_is_shown_on_demand():
    code = """
import sys, warnings, apolar
X = apolar.datasets.load_diabetes().data
apolar.GaussianMixture(6, random_state=0).fit(X)
print("asked", file=sys.stderr)
warnings.simplefilter("default", apolar.exceptions.DisagreementWarning)
apolar.GaussianMixture(6, random_state=0).fit(X)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = ended.stderr.split("asked\n")
    assert before == ""
    assert "Two solutions with nearly equal log-likelihood" in after


@pytest.mark.parametrize("has_tails", [True, False])
def test_long_tails_are_named_where_there_are_some(has_tails):
    rng = np.random.default_rng(0)
    noise = rng.standard_t(3, (800, 2)) if has_tails else rng.standard_normal((800, 2))
    X = np.repeat([[0.0, 0.0], [12.0, 0.0]], 400, axis=0) + noise
    messages = warned(GaussianMixture(2, random_state=0), X, LongTailsWarning)
    assert ["StudentMixture" in message for message in messages] == [True] * has_tails
    assert warned(StudentMixture(2, random_state=0), X, LongTailsWarning) == []


def balls(seed=0, n_rows=100):
    rng = np.random.default_rng(seed)
    return np.vstack([rng.normal(centre, 1, (n_rows, 3)) for centre in (0, 8, -8)])


@pytest.mark.filterwarnings("ignore:1 of 4 components holds")
@pytest.mark.parametrize(
    ("name", "where", "size"),
    [("full", "row", 1e7), ("tied", "cell", 1e3), ("EVE", "row", 1e5), ("EII", "row", 1e3)],
)
def test_clusters_are_found_beside_a_wrong_entry(name, where, size):
    X = balls()
    X[4, slice(None) if where == "row" else 1] = size
    with pytest.warns(FarRowsWarning, match=r"^Row 4 is more than 100 standard deviations .* fit with noise"):
        model = GaussianMixture(4, covariance_type=name, random_state=0).fit(X)
    assert sorted(np.bincount(model.predict(X))) == [1, 99, 100, 100]
    # The component of the row is at the row, and not pulled towards the others.
    np.testing.assert_allclose(model.means_[model.predict(X)[4]], X[4], rtol=1e-6)


def test_far_rows_are_in_every_sample():
    X = balls(n_rows=12_000)
    X[17] = -9999.0
    with pytest.warns(FarRowsWarning, match="^Row 17 "):
        labels = GaussianMixture(4, covariance_type="tied", random_state=0).fit(X).predict(X)
    assert sorted(np.bincount(labels)) == [1, 11_999, 12_000, 12_000]


def test_rare_values_of_a_column_of_integers_are_not_far():
    X = balls()
    # A pixel at the edge of images: nearly always zero.
    X[:, 2] = np.r_[np.zeros(280), np.ones(6), np.full(14, 16)]
    GaussianMixture(3, random_state=0).fit(X)
    X[0, 2] = 999
    with pytest.warns(FarRowsWarning, match="^Row 0 is more than"):
        GaussianMixture(3, random_state=0).fit(X)


def test_rows_are_named_by_their_place_in_X():
    X = balls()
    X[[3, 50, 299], 0] = 1e6
    weights = np.ones(300)
    weights[:2] = 0
    with pytest.warns(FarRowsWarning, match="^Rows 3, 50 and 299 are more than"):
        GaussianMixture(4, covariance_type="diag", random_state=0).fit(X, sample_weight=weights)
    X[:, 1] = np.where(np.arange(300) % 30 == 1, np.nan, X[:, 1])
    with pytest.warns(FarRowsWarning, match="^Rows 3, 50 and 299 are more than"):
        GaussianMixture(4, covariance_type="diag", random_state=0).fit(X)
    assert FarRowsWarning(range(8)).counted_from(1).startswith("Rows 1, 2, 3, 4, 5 and 3 more are")


@pytest.mark.filterwarnings("error::apolar.exceptions.FarRowsWarning")
def test_a_cluster_is_not_far_from_the_others():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, (500, 2)), rng.normal(60, 1, (12, 2))])
    labels = GaussianMixture(2, random_state=0).fit_predict(X)
    assert sorted(np.bincount(labels)) == [12, 500]
    with_noise = np.vstack([X, [[1e6, 1e6]]])
    GaussianMixture(2, noise=True, random_state=0).fit(with_noise)


@pytest.mark.parametrize("fit_or_select", [GaussianMixture(3).fit, partial(select, n_components=[1, 3])])
@pytest.mark.parametrize("size", [1e25, 1e200, 1.7e308])
@pytest.mark.filterwarnings("ignore::apolar.exceptions.FarRowsWarning")
def test_rows_too_far_for_sums_are_refused(size, fit_or_select):
    X = balls()
    X[7, 1] = -size
    with pytest.raises(ValueError, match=r"number 7 of those with weight\) is more than 1e\+20 .* remove it"):
        fit_or_select(X)


@pytest.mark.filterwarnings("ignore::apolar.exceptions.FewRowsWarning")
def test_of_few_rows_in_many_columns_not_all_are_far():
    X = np.random.default_rng(0).standard_normal((4, 2000))
    model = GaussianMixture(1, covariance_type="diag").fit(X)
    np.testing.assert_allclose(model.means_[0], X.mean(axis=0), atol=1e-12)
