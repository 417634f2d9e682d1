"""Sums over chunks of rows: their order, threads, streams and errors; and moments that rest on them."""

import numpy as np
import pytest

from apolar.data import on_checked, open_rows
from apolar.moments.covariance import row_moments

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5000, 4)) * [1, 2, 3, 4] + [0, 1, 0, 5]
W = RNG.integers(0, 3, len(X)).astype(float)


def weighted_sums(block, weights):
    """Return the weight, the weighted sums and the number of the rows of a block."""
    weights = np.ones(len(block)) if weights is None else weights
    return weights.sum(), weights @ block, len(block)


SUMS = on_checked(weighted_sums)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_the_number_of_threads_changes_nothing(n_threads, monkeypatch):
    monkeypatch.setattr("apolar.data.rows.CHUNK_SIZE", 400)
    rows = open_rows(X, W)
    for expected, computed in zip(rows.reduce(SUMS), rows.reduce(SUMS, n_threads=n_threads), strict=True):
        np.testing.assert_array_equal(computed, expected)
    firsts = on_checked(lambda block, _: block[0, 0])
    assert list(open_rows(X).map(firsts, n_threads=n_threads)) == X[::100, 0].tolist()


@pytest.mark.parametrize("before", [[], [X[:0]], [(X[:9], np.zeros(9)), (X[:0], np.zeros(0))]])
def test_looking_at_the_first_rows_of_a_stream_loses_none(before):
    weighted = bool(before) and isinstance(before[0], tuple)
    chunks = [(X[:100], np.ones(100)), (X[100:], np.ones(4900))] if weighted else [X[:100], X[100:]]
    rows = open_rows(iter([*before, *chunks]))
    assert not rows.rereadable
    for _ in range(2):
        assert rows.first(on_checked(lambda block, _: block.shape[0])) == 100
    assert rows.reduce(SUMS)[2] == len(X)


def test_an_error_has_the_index_of_its_row():
    bad = X.copy()
    bad[777, 2] = np.nan
    with pytest.raises(ValueError, match="row 777, column 2") as caught:
        open_rows(bad).reduce(SUMS)
    assert caught.value.row == 777
    assert np.isnan(open_rows(bad).reduce(on_checked(weighted_sums, allows_missing=True))[1][2])


# --- covariances ----------------------------------------------------------------------------------


def test_the_moments_of_divided_rows_follow_from_those_of_the_rows():
    units = np.array([1e-3, 1.0, 1e3, 7.0])
    derived = row_moments(open_rows(X, W), has_covariance=True).divided(units)
    expected = row_moments(open_rows(X / units, W), has_covariance=True)
    for name in ("weight", "n_rows", "mean", "variances", "covariance"):
        np.testing.assert_allclose(getattr(derived, name), getattr(expected, name), rtol=1e-12)


def test_a_column_far_from_zero_keeps_its_digits_beside_wide_ones():
    far = RNG.standard_normal((4000, 2)) * [1e-3, 1e3] + [1e3, 0.0]
    expected = np.cov(far.T, bias=True)
    for has_covariance in (False, True):
        moments = row_moments(open_rows(far), has_covariance=has_covariance)
        np.testing.assert_allclose(moments.variances, np.diag(expected), rtol=1e-9)
