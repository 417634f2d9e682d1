"""Arrays of other libraries: the same results as for NumPy, returned as arrays of that library."""

import array_api_strict
import numpy as np
import pytest

import apolar
from apolar._core.namespaces import to_numpy
from mixtures import distance, pairs

X, LABELS = apolar.datasets.make_example(1, 1500, random_state=0)
W = np.random.default_rng(1).uniform(0.2, 2.0, len(X))


def strict(array):
    return array_api_strict.asarray(np.array(array))


def torch_tensor(array):
    return pytest.importorskip("torch").from_numpy(np.array(array))


LIBRARIES = {"strict": strict, "torch": torch_tensor}
each_library = pytest.mark.parametrize("array", LIBRARIES.values(), ids=LIBRARIES.keys())


def fitted(rows, kind="spherical", sample_weight=None, **kwargs):
    model = apolar.GaussianMixture(4, covariance_type=kind, random_state=0, **kwargs)
    return model.fit(rows, sample_weight=sample_weight)


def assert_same(model, expected, tol=1e-9):
    np.testing.assert_allclose(model.weights_, expected.weights_, atol=tol)
    np.testing.assert_allclose(model.means_, expected.means_, atol=tol * 10)
    np.testing.assert_allclose(model.covariances_, expected.covariances_, atol=tol * 100)
    assert abs(model.lower_bound_ - expected.lower_bound_) < tol


@pytest.mark.parametrize(
    ("array", "kind"),
    pairs(LIBRARIES.values(), ["spherical", "tied_spherical", "diag", "tied_diag", "full", "tied"]),
)
def test_a_fit_is_that_of_numpy(array, kind):
    assert_same(fitted(array(X), kind), fitted(X, kind), 1e-8)


@each_library
def test_results_are_arrays_of_the_library(array):
    rows, model = array(X), fitted(X, "full")
    for method in ("predict", "predict_proba", "score_samples"):
        result = getattr(model, method)(rows)
        assert type(result) is type(rows)
        np.testing.assert_allclose(to_numpy(result), getattr(model, method)(X), rtol=1e-9, atol=1e-12)
    for method in ("score", "bic", "aic", "icl"):
        np.testing.assert_allclose(getattr(model, method)(rows), getattr(model, method)(X), rtol=1e-12)
    ours, expected = model.score(rows, sample_weight=array(W)), model.score(X, sample_weight=W)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


@each_library
@pytest.mark.parametrize("form", ["equivariant", "paper"])
def test_moments_are_those_of_numpy(array, form):
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((2000, 300)) + 3 * rng.standard_normal((3, 300))[rng.integers(0, 3, 2000)]
    cases = [(X, 4, None, 1e-7), (X, 4, W, 1e-7)]
    if form == "equivariant":
        cases += [(wide, 3, None, 1e-6), (1e-6 * X, 4, None, 1e-10)]
    for rows, n, weights, tol in cases:
        expected = apolar.mixture_from_moments(rows, n, form=form, sample_weight=weights)
        given = None if weights is None else array(weights)
        ours = apolar.mixture_from_moments(array(rows), n, form=form, sample_weight=given)
        assert distance(ours, expected) < tol
    assert apolar.n_components_from_spectrum(array(X)).n_components == 4


@each_library
def test_other_dtypes_are_converted_to_double_precision(array):
    for shift in (0, 1e4):  # also far from zero
        narrow = (X + shift).astype(np.float32)
        assert_same(fitted(array(narrow)), fitted(narrow.astype(np.float64)), 1e-7)
    with pytest.raises(TypeError, match="complex"):
        fitted(array(X + 1j))
    integers = np.round(X).astype(np.int32)
    assert_same(fitted(array(integers)), fitted(integers.astype(np.float64)), 1e-7)


def test_tensors_of_torch_that_record_gradients_and_those_that_are_refused():
    torch = pytest.importorskip("torch")
    rows = torch.tensor(X, requires_grad=True)
    assert_same(fitted(rows), fitted(X))
    assert not fitted(X).predict_proba(rows).requires_grad
    half = torch.tensor(X, dtype=torch.bfloat16)
    assert_same(fitted(half), fitted(half.double().numpy()))
    for rows in (torch.tensor(X[:50]).to_sparse(), torch.empty((50, 3), device="meta")):
        with pytest.raises(TypeError, match="dense tensor"):
            fitted(rows)
