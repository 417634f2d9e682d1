"""The warning of few rows: when it is issued."""

import warnings

import numpy as np
import pytest

from apolar import GaussianMixture
from apolar.exceptions import CollapsedWarning, FewRowsWarning


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


def test_fewer_rows_than_parameters():
    X = clusters(40, 6)
    (message,) = warned(GaussianMixture(2, random_state=0), X)
    assert message.startswith("40 rows are fewer than the 55 parameters of this mixture.")
    assert "`select` compares them" in message
    assert warned(GaussianMixture(2, covariance_type="tied_spherical", random_state=0), X) == []
    # The rows that count are those with a weight, and as often as it says.
    assert warned(GaussianMixture(2, random_state=0), X, sample_weight=np.full(40, 2.0)) == []


def test_a_component_of_fewer_rows_than_columns():
    X = np.concatenate([np.random.default_rng(0).standard_normal((300, 6)), 20 + np.eye(6)[:4]])
    (message,) = warned(GaussianMixture(2, random_state=0), X)
    assert message.startswith("1 of 2 components holds fewer rows than there are columns: 4 rows, for a")
    # Not of families that estimate no covariance from those rows alone.
    for name in ("tied", "diag", "spherical"):
        assert warned(GaussianMixture(2, covariance_type=name, random_state=0), X) == []


def test_other_remedies_come_first():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewRowsWarning)
        with pytest.warns(CollapsedWarning):
            GaussianMixture(2, prior=None, random_state=0).fit(clusters(12, 15))
