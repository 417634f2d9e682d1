"""The kernels of sums of powers by themselves: what they sum is what NumPy sums.

On a machine without a GPU, Triton's interpreter runs them.
"""

import numpy as np
import pytest

from apolar._core.namespaces import DeviceCopies, to_numpy
from apolar.data import open_rows
from apolar.moments import device_sums
from apolar.moments.covariance import SecondMoments
from apolar.moments.device_sums import StoredBlock
from apolar.moments.signal import SignalSums
from kernel_device import DEVICE, interpreted, torch

pytestmark = interpreted

SIZES = [(1, 101), (3, 7), (16, 101), (17, 64)]
# Sums of a hundred terms in another order.
TOLERANCE = 1e-12


def blocks(n_columns, n_rows, weighted, dtype=np.float32):
    """Return rows of the host in double precision, the same as stored on the device, and both weights."""
    rng = np.random.default_rng(n_columns)
    values = (rng.standard_normal((n_rows, n_columns)) + 3).astype(dtype)
    weights = rng.uniform(0, 2, n_rows) if weighted else None
    if weighted:
        weights[::5] = 0
    tensor = torch.tensor(values, device=DEVICE)
    stored = StoredBlock(tensor)
    return (
        values.astype(np.float64),
        stored,
        weights,
        None if weights is None else torch.tensor(weights, device=DEVICE),
    )


def assert_same_sums(statistic, n_columns, n_rows, weighted):
    values, stored, weights, device_weights = blocks(n_columns, n_rows, weighted)
    if weighted:
        values, weights = values[weights > 0], weights[weights > 0]
    for ours, expected in zip(statistic(stored, device_weights), statistic(values, weights), strict=True):
        np.testing.assert_allclose(
            to_numpy(ours), expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).max()
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize(("n_columns", "n_rows"), SIZES)
def test_second_moments(is_full, n_columns, n_rows, weighted):
    assert_same_sums(SecondMoments(None, is_full), n_columns, n_rows, weighted)
    assert_same_sums(
        SecondMoments(DeviceCopies(np.full(n_columns, 2.5)), is_full), n_columns, n_rows, weighted
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(("n_columns", "n_directions"), [(3, 1), (16, 7), (17, 9)])
def test_signal_sums(n_columns, n_directions, shifted, weighted):
    rng = np.random.default_rng(n_directions)
    basis = np.linalg.qr(rng.standard_normal((n_columns, n_directions)))[0]
    shift = DeviceCopies(np.full(n_columns, 2.0)) if shifted else None
    offset = np.full(n_columns, 1.0 if shifted else 3.0)
    statistic = SignalSums(
        shift,
        DeviceCopies(np.vstack([basis.T, offset])),
        DeviceCopies((basis.T @ offset)[:, None]),
        float(offset @ offset),
    )
    assert_same_sums(statistic, n_columns, 101, weighted)


@pytest.mark.parametrize("is_full", [True, False])
def test_rows_that_are_not_finite_are_named(is_full, monkeypatch):
    monkeypatch.setattr(device_sums, "is_fused", lambda *_: True)
    _, stored, _, _ = blocks(6, 101, False)
    stored.values[77, 3] = np.inf
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="row 77, column 3"):
        device_sums.sum_rows(open_rows(stored.values), SecondMoments(None, is_full))


def test_squares_that_overflow_are_infinite(monkeypatch):
    monkeypatch.setattr(device_sums, "is_fused", lambda *_: True)
    values, stored, _, _ = blocks(2, 101, False, np.float64)
    values *= 1e160
    stored.values[...] = torch.tensor(values)
    with np.errstate(all="ignore"):
        assert SecondMoments(None, True)(stored, None) is None
        sums = device_sums.sum_rows(open_rows(stored.values), SecondMoments(None, True))
    assert sums[:2] == [101, 101]
    np.testing.assert_allclose(to_numpy(sums[2]), values.sum(axis=0), rtol=1e-12)
    assert np.all(np.isinf(to_numpy(sums[3])))
