"""Blocks for a kernel, with a NumPy reference instead of the kernel, on arrays of another library."""

import array_api_strict
import numpy as np
import pytest

import apolar
from apolar._core import gpu
from apolar.em import kernel_block
from mixtures import pairs

X, _ = apolar.datasets.make_example(1, 1500, random_state=0)
W = np.random.default_rng(1).uniform(0.2, 2.0, len(X))


def logits_of(block, parameters):
    """Return rows in the kernel's coordinates, their quadratics, and logits in base 2, by NumPy."""
    z = np.array(np.from_dlpack(block)) - parameters.arrays[0][: parameters.n_columns]
    columns, components = slice(parameters.n_columns), slice(parameters.n_components)
    if parameters.is_full:
        _, whitening, constants, roots, offsets = parameters.arrays
        z = z @ whitening[columns, columns]
        y = np.einsum("ni,ikj->nkj", z, roots[columns, components]) + offsets[components]
        return z, z[:, :, None] * z[:, None, :], constants[components] - np.sum(y**2, axis=2)
    _, constants, linear, quadratic = (array[..., components] for array in parameters.arrays)
    return z, z**2, constants[components] + z @ linear[columns] + z**2 @ quadratic[columns]


def e_step_reference(block, weights, parameters):
    """Return what the kernel of the E-step returns, by NumPy."""
    z, quadratics, logits = logits_of(block, parameters)
    largest = logits.max(axis=1)
    responsibilities = 2.0 ** (logits - largest[:, None])
    sums = responsibilities.sum(axis=1)
    row_weights = np.ones(len(z)) if weights is None else np.from_dlpack(weights)
    responsibilities *= (row_weights / sums)[:, None]
    pattern = "nk,nij->ikj" if parameters.is_full else "nk,ni->ik"
    second = np.einsum(pattern, responsibilities, quadratics)
    log_likelihood = np.atleast_1d(row_weights @ (largest + np.log2(sums))) * np.log(2)
    return [responsibilities.sum(axis=0), z.T @ responsibilities, second], log_likelihood


def prediction_reference(block, weights, parameters, what):
    """Return what the kernel of predictions returns, by NumPy."""
    _, _, logits = logits_of(block, parameters)
    if not np.all(np.isfinite(logits)):
        return array_api_strict.asarray(np.zeros(len(logits))), np.nan
    density = np.log(2) * np.logaddexp2.reduce(logits, axis=1)
    certainty = np.log(2) * logits.max(axis=1) - density
    row_weights = np.ones(len(logits)) if weights is None else np.from_dlpack(weights)
    answers = {
        "labels": logits.argmax(axis=1),
        "probabilities": np.exp(np.log(2) * logits - density[:, None]),
        "densities": density,
        "sums": np.array([row_weights @ density, row_weights @ certainty]),
    }
    return array_api_strict.asarray(answers[what]), 0.0


@pytest.fixture
def calls(monkeypatch):
    """Return the names of the kernels that were called, and the shapes of the blocks."""
    made = []

    def counting(name, function):
        def called(block, *arguments):
            made.append((name, tuple(block.shape)))
            return function(block, *arguments)

        return called

    monkeypatch.setattr(kernel_block, "e_step", counting("e_step", e_step_reference))
    monkeypatch.setattr(kernel_block, "predict", counting("predict", prediction_reference))
    monkeypatch.setattr(kernel_block, "is_fused", lambda template, *_: template is not None)
    monkeypatch.setattr(gpu, "like", lambda answers, _: answers)
    monkeypatch.setattr("apolar.em.problem.KEPT_NUMBERS", 0)
    return made


def fitted(name, rows, weights=None):
    model = apolar.GaussianMixture(3, covariance_type=name, means_init=X[:3])
    return model.fit(rows, sample_weight=weights)


@pytest.mark.parametrize(
    ("name", "weights"),
    pairs(["spherical", "tied_spherical", "diag", "tied_diag", "full", "tied"], [None, W, W, None]),
)
def test_each_pass_of_a_fit_is_one_call(name, weights, calls):
    on_device, on_host = (fitted(name, rows, weights) for rows in (array_api_strict.asarray(X), X))
    np.testing.assert_allclose(on_device.means_, on_host.means_, rtol=1e-6, atol=1e-6)
    assert set(calls) == {("e_step", X.shape)}
    assert len(calls) >= on_device.n_iter_


@pytest.mark.parametrize("name", ["spherical", "diag", "full"])
def test_predictions_are_one_call_each(name, calls):
    model = fitted(name, X)
    rows = array_api_strict.asarray(X)
    for method in ("predict", "predict_proba", "score_samples"):
        ours, expected = np.from_dlpack(getattr(model, method)(rows)), getattr(model, method)(X)
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)
        assert ours.dtype == expected.dtype
    np.testing.assert_allclose(model.score(rows), model.score(X), rtol=1e-12)
    np.testing.assert_allclose(model.icl(rows), model.icl(X), rtol=1e-12)
    assert calls == [("predict", X.shape)] * 5


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples", "score"])
def test_rows_that_the_kernel_cannot_answer(method, calls, monkeypatch):
    ask = getattr(fitted("diag", X), method)
    rows = X.copy()
    rows[777, 3] = np.inf
    with pytest.raises(ValueError, match="row 777, column 3"), np.errstate(invalid="ignore"):
        ask(array_api_strict.asarray(rows))
    rows[777, 3] = np.nan
    ours, expected = ask(array_api_strict.asarray(rows)), ask(rows)
    np.testing.assert_allclose(np.asarray(ours), expected, rtol=1e-12)
    assert type(ours) is type(expected) if method == "score" else hasattr(ours, "__array_namespace__")
    assert len(calls) == 2
    counts = np.round(X).astype(np.int64)
    ours = np.asarray(ask(array_api_strict.asarray(counts)))
    np.testing.assert_allclose(ours, ask(counts), rtol=1e-12, atol=1e-30)
    assert len(calls) == 2
    # Densities that overflow.
    rows[777] = 1e200
    with np.errstate(all="ignore"):
        ours = np.asarray(ask(array_api_strict.asarray(rows)))
        monkeypatch.setattr(kernel_block, "is_fused", lambda *_: False)
        expected = np.asarray(ask(array_api_strict.asarray(rows)))
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-30)
    assert len(calls) == 3


def test_a_singular_covariance_needs_no_kernel(calls, monkeypatch):
    monkeypatch.setattr(kernel_block, "parameters_of", lambda *_: None)
    on_device, on_host = (fitted("full", rows) for rows in (array_api_strict.asarray(X), X))
    np.testing.assert_allclose(on_device.means_, on_host.means_, rtol=1e-6, atol=1e-6)
    assert calls == []
