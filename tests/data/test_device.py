"""Rows of the host, sent to a device: here to the host itself, through torch or what stands in for it."""

import importlib.util
import sys
import types

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import apolar

X, _ = apolar.datasets.make_example(1, 1500, random_state=0)
W = np.random.default_rng(1).uniform(0.2, 2.0, len(X))


@pytest.fixture(autouse=True)
def _torch(monkeypatch):
    """Let arrays of another library stand in for tensors where torch is not installed."""
    if importlib.util.find_spec("torch") is not None:
        return
    array = array_api_strict.asarray([1.0])
    tensor, dtype, device = (type(part) for part in (array, array.dtype, array.device))
    size = property(lambda self: np.dtype(str(self).rpartition(".")[2]).itemsize)
    monkeypatch.setattr(dtype, "itemsize", size, raising=False)
    monkeypatch.setattr(device, "type", "cpu", raising=False)
    monkeypatch.setattr(
        tensor, "to", lambda self, *_, **__: array_api_strict.asarray(self, copy=True), raising=False
    )
    monkeypatch.setattr(
        tensor,
        "new_empty",
        lambda self, shape: array_api_strict.empty(shape, dtype=self.dtype),
        raising=False,
    )

    def empty(shape, dtype, device):
        if device != "cpu":
            raise RuntimeError(f"{device} is no device")
        return array_api_strict.empty(shape, dtype=dtype)

    names = {"from_numpy": array_api_strict.asarray, "empty": empty, "float64": array_api_strict.float64}
    module = types.SimpleNamespace(Tensor=type("Tensor", (), {}), __spec__=None, **names)
    monkeypatch.setitem(sys.modules, "torch", module)


def fitted(rows, **kwargs):
    return apolar.GaussianMixture(4, covariance_type="spherical", random_state=0).fit(rows, **kwargs)


@pytest.mark.parametrize(("max_bytes", "weights"), [(None, W), (1, None), (60_000, W)])
def test_rows_are_stored_if_they_fit_and_sent_if_not(max_bytes, weights):
    rows = apolar.on_device(X, "cpu", weights, max_bytes=max_bytes)
    assert rows.in_memory == (max_bytes is None)
    model, expected = fitted(rows), fitted(X, sample_weight=weights)
    np.testing.assert_allclose(model.means_, expected.means_, atol=1e-8)
    labels = model.predict(rows)
    assert isinstance(labels, np.ndarray)
    np.testing.assert_array_equal(labels, expected.predict(X))
    np.testing.assert_allclose(model.score(rows), expected.score(X, sample_weight=weights))
    moments, of_numpy = (apolar.mixture_from_moments(table, 4) for table in (rows, X))
    assert weights is not None or np.allclose(moments.means, of_numpy.means, atol=1e-8)
    assert apolar.MomentSketch(6).update(rows).n_rows == len(X)
    assert rows.systematic_sample(5).count()[0] == len(X) // 5


@pytest.mark.parametrize(
    ("kind", "max_bytes"), [("memory map", None), ("pandas", 1), ("chunks", 1), ("missing values", None)]
)
def test_every_table_of_the_host(kind, max_bytes, tmp_path):
    values = X.astype(np.float32)
    if kind == "missing values":
        values[np.arange(X.size).reshape(X.shape) % 97 == 0] = np.nan
    np.save(tmp_path / "x.npy", values)
    rows, weights = np.load(tmp_path / "x.npy", mmap_mode="r"), W
    if kind == "pandas":
        rows = pd.DataFrame(rows)
    elif kind == "chunks":
        rows, weights = [(rows[:900], W[:900]), (rows[900:], W[900:])], None
    model = fitted(apolar.on_device(rows, "cpu", weights, max_bytes=max_bytes))
    expected = fitted(values.astype(np.float64), sample_weight=W)
    np.testing.assert_allclose(model.means_, expected.means_, atol=1e-6)


def test_what_cannot_be_moved():
    for rows, message in (
        (sparse.csr_array(X), "dense rows"),
        (array_api_strict.asarray(X), "where they are"),
    ):
        with pytest.raises(TypeError, match=message):
            apolar.on_device(rows, "cpu")
    for bad in (X[:9] + 1j, X[:9].astype(str)):
        with pytest.raises(TypeError, match="complex|must hold numbers"):
            fitted(apolar.on_device(bad, "cpu", max_bytes=1))
    with pytest.raises(ValueError, match="no device 'nonsense'"):
        apolar.on_device(X, "nonsense")
    with pytest.raises(ValueError, match="max_bytes"):
        apolar.on_device(X, "cpu", max_bytes=-1)
    with pytest.raises(ValueError, match="give their weights to on_device"):
        fitted(apolar.on_device(X, "cpu"), sample_weight=W)
