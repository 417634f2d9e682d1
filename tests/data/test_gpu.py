"""On an NVIDIA GPU: the same results as on the host, with and without the kernel, for torch and CuPy."""

import numpy as np
import pytest
from sklearn.base import clone

import apolar
from apolar._core.namespaces import to_numpy
from apolar.data.rows import MAX_DEVICE_CHUNK_SIZE
from apolar.em import kernel_block
from apolar.moments import device_sums as sums

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]

X, _ = apolar.datasets.make_example(1, 200_000, random_state=0)
W = np.random.default_rng(1).uniform(0.2, 2.0, len(X))
KINDS = ["spherical", "tied_spherical", "diag", "tied_diag", "full", "tied"]


def tensor(array):
    return torch.tensor(array, device="cuda")


def cupy_array(array):
    return pytest.importorskip("cupy").asarray(array)


LIBRARIES = {"torch": tensor, "cupy": cupy_array}
each_library = pytest.mark.parametrize("array", LIBRARIES.values(), ids=LIBRARIES.keys())


def fitted(rows, kind="spherical", sample_weight=None):
    model = apolar.GaussianMixture(4, covariance_type=kind, random_state=0)
    return model.fit(rows, sample_weight=sample_weight)


def assert_same(model, expected, tol=1e-8):
    np.testing.assert_allclose(model.weights_, expected.weights_, rtol=0, atol=tol)
    np.testing.assert_allclose(model.means_, expected.means_, rtol=0, atol=10 * tol)
    np.testing.assert_allclose(model.covariances_, expected.covariances_, rtol=0, atol=100 * tol)
    assert model.n_iter_ == expected.n_iter_


@pytest.mark.parametrize("kind", ["spherical", "diag", "full"])
def test_a_fit_with_long_tails_is_that_of_the_host(kind):
    rows = X[:100_000] + np.random.default_rng(0).standard_t(3, (100_000, X.shape[1]))
    model = apolar.StudentMixture(4, covariance_type=kind, random_state=0)
    ours, expected = (clone(model).fit(each) for each in (tensor(rows), rows))
    assert_same(ours, expected, 1e-6)
    np.testing.assert_allclose(to_numpy(ours.dof_), expected.dof_, rtol=1e-6)
    ours_new, new = ours.score_samples(tensor(rows[:500])), expected.score_samples(rows[:500])
    np.testing.assert_allclose(to_numpy(ours_new), new, rtol=1e-8)


@each_library
@pytest.mark.parametrize(("kind", "weighted"), list(zip(KINDS, [False, True] * 3, strict=True)))
def test_a_fit_is_that_of_the_host(array, kind, weighted):
    weights = W if weighted else None
    model = fitted(array(X), kind, None if weights is None else array(weights))
    # Where EM converges slowly, rounding changes where it stops.
    assert_same(model, fitted(X, kind, weights), 1e-6 if kind == "tied" else 1e-8)


@pytest.mark.parametrize("kind", ["spherical", "diag", "full", "tied"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_library
def test_predictions_are_one_kernel_and_stay_on_the_device(array, kind, dtype, monkeypatch):
    rows = X.astype(dtype)
    model, made, predicted = fitted(X, kind), [], kernel_block.predict

    def counting(block, weights, parameters, what):
        made.append(what)
        return predicted(block, weights, parameters, what)

    monkeypatch.setattr(kernel_block, "predict", counting)
    for method in ("predict", "predict_proba", "score_samples"):
        on_device, expected = array(rows), getattr(model, method)(rows)
        ours = getattr(model, method)(on_device)
        assert (type(ours), ours.device) == (type(on_device), on_device.device)
        assert to_numpy(ours).dtype == expected.dtype
        # In single precision, predictions are rounded to it at the end.
        tol = 1e-6 if expected.dtype == np.float32 else 1e-11
        np.testing.assert_allclose(to_numpy(ours), expected, rtol=tol, atol=tol)
    weights = W if kind == "diag" else None
    device_weights = None if weights is None else array(weights)
    ours, expected = model.icl(array(rows), device_weights), model.icl(rows, weights)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)
    assert made == ["labels", "probabilities", "densities", "sums"]


@pytest.mark.parametrize("kind", ["spherical", "full"])
def test_what_is_not_finite_is_named(kind):
    bad, model = X.copy(), fitted(X[:5000], kind)
    bad[777, 3] = np.inf
    for method in (model.predict, model.predict_proba, model.score_samples, model.score, fitted):
        with pytest.raises(ValueError, match="row 777, column 3"):
            method(tensor(bad))


@each_library
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_are_one_kernel_each(array, weighted, monkeypatch):
    made, launched = [], sums._launch_sums

    def counting(kernel, *arguments, **sizes):
        made.append(kernel.fn.__name__)
        return launched(kernel, *arguments, **sizes)

    monkeypatch.setattr(sums, "_launch_sums", counting)
    weights = W if weighted else None
    mixture = apolar.mixture_from_moments(array(X), 4, sample_weight=array(W) if weighted else None)
    expected = apolar.mixture_from_moments(X, 4, sample_weight=weights)
    np.testing.assert_allclose(mixture.means, expected.means, atol=1e-9)
    # Its first call tries the kernels.
    assert made[-2:] == ["second_kernel", "third_kernel"]


@pytest.mark.parametrize("max_bytes", [None, 1_000_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_the_host(max_bytes, weighted):
    weights = W if weighted else None
    rows = apolar.on_device(X, "cuda", weights, max_bytes=max_bytes)
    assert rows.in_memory == (max_bytes is None)
    model, expected = fitted(rows), fitted(X, sample_weight=weights)
    assert_same(model, expected)
    np.testing.assert_array_equal(model.predict(rows), expected.predict(X))


def test_memory_of_the_device_stays_bounded():
    rows = apolar.on_device(np.repeat(X, 20, axis=0), "cuda", max_bytes=2**24)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    fitted(rows)
    # The numbers of a chunk, in double precision; rows left out take all of it.
    assert torch.cuda.max_memory_allocated() < 8 * MAX_DEVICE_CHUNK_SIZE
