"""Moments of rows on a device, with a NumPy reference instead of the kernels."""

import array_api_strict
import numpy as np
import pytest

import apolar
from apolar.data import open_rows
from apolar.moments import device_sums
from apolar.moments.covariance import row_moments

X, _ = apolar.datasets.make_example(1, 3000, random_state=0)
W = np.random.default_rng(1).uniform(0.2, 2.0, len(X))
W[::10] = 0


def second_reference(kernel, grid, values, weights, parameters, n_sums, **sizes):
    """Return what the kernels sum, by NumPy."""
    del grid
    n_columns, padded = values.shape[1], sizes["PADDED"]
    z = np.array(np.from_dlpack(values)) - parameters[0][:n_columns]
    z = np.pad(z, [(0, 0), (0, padded - n_columns)])
    weighted = z if weights is None else np.from_dlpack(weights)[:, None] * z
    if kernel == "third":
        y, weighted_y = z @ parameters[1], weighted @ parameters[1]
        sums = [np.sum(z**2, axis=1) @ weighted_y, np.einsum("ni,nj,nk->ijk", y, y, weighted_y)]
    elif sizes["IS_FULL"]:
        sums = [weighted.sum(axis=0), z.T @ weighted]
    else:
        sums = [weighted.sum(axis=0), np.sum(z * weighted, axis=0)]
    flat = np.concatenate([part.ravel() for part in sums])
    assert len(flat) == n_sums
    return flat


@pytest.fixture
def calls(monkeypatch):
    """Return the names of the kernels that were called."""
    made = []

    def counting(kernel, *arguments, **sizes):
        made.append(kernel)
        return second_reference(kernel, *arguments, **sizes)

    monkeypatch.setattr(device_sums, "_launch_sums", counting)
    monkeypatch.setattr(device_sums, "_kernels", lambda: ("second", "third"))
    monkeypatch.setattr(device_sums, "is_fused", lambda template, *_: template is not None)
    return made


@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_moments_are_those_of_the_host(weights, shift, calls):
    rows = open_rows(array_api_strict.asarray(X + shift), weights)
    host_rows = open_rows(X + shift, weights)
    for has_covariance in (True, False):
        ours, expected = (row_moments(r, has_covariance=has_covariance) for r in (rows, host_rows))
        for name in ("weight", "n_rows", "mean", "variances", "covariance")[: 4 + has_covariance]:
            np.testing.assert_allclose(getattr(ours, name), getattr(expected, name), rtol=1e-9, atol=1e-10)
    assert calls == ["second", "second"]


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_a_mixture_takes_two_passes(weights, calls):
    # So many columns that not all third moments are taken.
    rows = np.hstack([X, np.random.default_rng(0).standard_normal((len(X), 14))])
    ours = apolar.mixture_from_moments(array_api_strict.asarray(rows), 4, sample_weight=weights)
    expected = apolar.mixture_from_moments(rows, 4, sample_weight=weights)
    np.testing.assert_allclose(ours.means, expected.means, atol=1e-8)
    np.testing.assert_allclose(ours.variances, expected.variances, atol=1e-8)
    assert calls == ["second", "third"]


def test_what_the_kernels_do_not_read(calls):
    bad = X.copy()
    bad[777, 3] = np.inf
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="row 777, column 3"):
        row_moments(open_rows(array_api_strict.asarray(bad)))
    n_calls = len(calls)
    with pytest.raises(ValueError, match="weights of the rows are all zero"):
        row_moments(open_rows(array_api_strict.asarray(X), np.zeros(len(X))))
    counts = np.round(X).astype(np.int64)
    ours, expected = (row_moments(open_rows(x)) for x in (array_api_strict.asarray(counts), counts))
    np.testing.assert_allclose(ours.variances, expected.variances)
    assert len(calls) == n_calls <= 1
