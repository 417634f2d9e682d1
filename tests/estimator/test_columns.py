"""The warning of constant columns."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import apolar
from apolar.exceptions import ColumnWarning


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
