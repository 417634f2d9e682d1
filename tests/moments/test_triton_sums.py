"""The kernels of sums of powers by themselves: what they sum is what NumPy sums.

On a machine without a GPU, Triton's interpreter runs them.
"""

import numpy as np
import pytest

from apolar._core.namespaces import DeviceCopies, to_numpy
from apolar.data import open_rows
from apolar.moments import device_sums
from apolar.moments.covariance import row_moments
from apolar.moments.sums import PowerSums
from kernel_device import DEVICE, interpreted, torch

pytestmark = interpreted

each_weights = pytest.mark.parametrize("weighted", [False, True])


def blocks(n_columns, n_rows, weighted, dtype=np.float32):
    """Return rows and weights on the host in double precision, and the same as stored on the device."""
    rng = np.random.default_rng(n_columns)
    values = (rng.standard_normal((n_rows, n_columns)) + 3).astype(dtype)
    weights = np.where(np.arange(n_rows) % 5, rng.uniform(0, 2, n_rows), 0.0) if weighted else None
    stored = torch.tensor(values, device=DEVICE)
    if not weighted:
        return (values.astype(np.float64), None), (stored, None)
    kept = values[weights > 0].astype(np.float64), weights[weights > 0]
    return kept, (stored, torch.tensor(weights, device=DEVICE))


def assert_same_sums(ours, expected):
    # Sums of a hundred terms in another order.
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(to_numpy(one), other, rtol=1e-12, atol=1e-12 * np.abs(other).max())


@each_weights
@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize(("n_columns", "n_rows"), [(1, 101), (3, 7), (16, 101), (17, 64)])
def test_second_sums(is_full, n_columns, n_rows, weighted):
    host, stored = blocks(n_columns, n_rows, weighted)
    for centre in (np.zeros(n_columns), np.full(n_columns, 2.5)):
        ours = device_sums.second_sums(*stored, centre, is_full=is_full)
        expected = PowerSums(DeviceCopies(centre), "full" if is_full else "diag")(*host)
        assert_same_sums(ours, expected)


@each_weights
@pytest.mark.parametrize(("n_columns", "n_directions"), [(3, 1), (16, 7), (17, 9)])
def test_third_sums(n_columns, n_directions, weighted):
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((n_columns, n_directions)))[0]
    host, stored = blocks(n_columns, 101, weighted)
    centre = DeviceCopies(np.full(n_columns, 3.0))
    expected = PowerSums(centre, None, 3, DeviceCopies(basis.T))(*host)
    ours = device_sums.third_sums(*stored, centre.values, basis)
    assert_same_sums(ours, (expected[0] @ basis, expected[1]))


@pytest.mark.parametrize("has_covariance", [True, False])
def test_rows_that_are_not_finite_are_named(has_covariance, monkeypatch):
    monkeypatch.setattr(device_sums, "is_fused", lambda *_: True)
    _, (stored, _) = blocks(6, 101, False)
    stored[77, 3] = np.inf
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="row 77, column 3"):
        row_moments(open_rows(stored), has_covariance=has_covariance)


def test_squares_that_overflow_are_infinite(monkeypatch):
    monkeypatch.setattr(device_sums, "is_fused", lambda *_: True)
    (values, _), (stored, _) = blocks(2, 101, False, np.float64)
    stored[...] = torch.tensor(values * 1e160)
    with np.errstate(all="ignore"):
        moments = row_moments(open_rows(stored), has_covariance=True)
    np.testing.assert_allclose(moments.mean, values.mean(axis=0) * 1e160, rtol=1e-12)
    assert not np.any(np.isfinite(moments.covariance))
