"""Rows of the host, sent to a device: here to the host itself, through torch."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import apolar
from apolar.data.device import TransferredRows

torch = pytest.importorskip("torch")

X, _ = apolar.datasets.make_example(1, 120_000, random_state=0)
W = np.random.default_rng(1).uniform(0.2, 2.0, len(X))


def fitted(rows, **kwargs):
    return apolar.GaussianMixture(4, covariance_type="spherical", random_state=0).fit(rows, **kwargs)


@pytest.fixture(scope="module")
def expected():
    return fitted(X)


@pytest.mark.parametrize("max_bytes", [None, 1, 2_000_000])
def test_rows_are_stored_if_they_fit_and_sent_if_not(max_bytes, expected):
    rows = apolar.on_device(X, "cpu", max_bytes=max_bytes)
    assert isinstance(rows, TransferredRows) == (max_bytes is not None)
    model = fitted(rows)
    np.testing.assert_allclose(model.means_, expected.means_, atol=1e-8)
    assert model.n_iter_ == expected.n_iter_
    labels = model.predict(rows)
    assert isinstance(labels, np.ndarray)
    np.testing.assert_array_equal(labels, expected.predict(X))
    np.testing.assert_allclose(model.score(rows), expected.score(X))
    moments = apolar.mixture_from_moments(rows, 4)
    np.testing.assert_allclose(moments.means, apolar.mixture_from_moments(X, 4).means, atol=1e-8)
    assert apolar.MomentSketch(6).update(rows).n_rows == len(X)


@pytest.mark.parametrize("max_bytes", [None, 1])
def test_every_table_of_the_host(max_bytes, tmp_path):
    np.save(tmp_path / "x.npy", X[:20_000].astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    expected = fitted(mapped.astype(np.float64), sample_weight=W[:20_000])
    for rows in (mapped, pd.DataFrame(mapped), [mapped[:7000], mapped[7000:]]):
        weights = W[:20_000] if not isinstance(rows, list) else None
        model = fitted(apolar.on_device(rows, "cpu", weights, max_bytes=max_bytes))
        if weights is not None:
            np.testing.assert_allclose(model.means_, expected.means_, atol=1e-7)
        assert model.n_features_in_ == 6


def test_what_cannot_be_moved():
    with pytest.raises(TypeError, match="dense rows of the host"):
        apolar.on_device(sparse.csr_array(X), "cpu")
    with pytest.raises(TypeError, match="where they are"):
        apolar.on_device(torch.from_numpy(X), "cpu")
    for bad in (X[:9] + 1j, X[:9].astype(str)):
        with pytest.raises(TypeError, match="complex|must hold numbers"):
            fitted(apolar.on_device(bad, "cpu", max_bytes=1))
    with pytest.raises(ValueError, match="no device 'nonsense'"):
        apolar.on_device(X, "nonsense")
    with pytest.raises(ValueError, match="max_bytes"):
        apolar.on_device(X, "cpu", max_bytes=-1)
    rows = apolar.on_device(X, "cpu")
    with pytest.raises(ValueError, match="give their weights to on_device"):
        fitted(rows, sample_weight=W)
