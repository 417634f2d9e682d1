"""Blocks for a kernel, with a NumPy reference in place of the kernel, on arrays of another library."""

import array_api_strict
import numpy as np
import pytest

import apolar
from apolar.data import open_rows
from apolar.em.kernels import triton
from apolar.em.whitened import WhitenedData
from apolar.mixture.families import FAMILIES

X, _ = apolar.datasets.make_example(1, 3000, random_state=0)
W = np.random.default_rng(1).uniform(0.2, 2.0, len(X))


def reference(block, weights, centre, scale, constants, linear, quadratic):
    """Return what the kernel returns, by NumPy."""
    z = (np.from_dlpack(block) - centre) * scale
    squares = z**2 if quadratic.shape[1] > 1 else np.sum(z**2, axis=1, keepdims=True)
    logits = constants + z @ linear.T + squares @ quadratic.T
    largest = logits.max(axis=1)
    responsibilities = np.exp(logits - largest[:, None])
    sums = responsibilities.sum(axis=1)
    row_weights = np.ones(len(z)) if weights is None else np.from_dlpack(weights)
    responsibilities *= (row_weights / sums)[:, None]
    row_stats = np.column_stack([np.ones(len(z)), z, squares])
    log_likelihood = np.atleast_1d(row_weights @ (largest + np.log(sums)))
    return tuple(
        array_api_strict.asarray(array) for array in (responsibilities.T @ row_stats, log_likelihood)
    )


@pytest.fixture
def calls(monkeypatch):
    """Return the shapes of the blocks that the reference was called with."""
    shapes = []

    def counting(block, *arguments, **keywords):
        shapes.append(tuple(block.shape))
        return reference(block, *arguments, **keywords)

    monkeypatch.setattr(triton, "e_step", counting)
    monkeypatch.setattr(triton, "is_fused", lambda template, *_: template is not None)
    monkeypatch.setattr("apolar.em.whitened.KEPT_ROW_STATS", 0)
    return shapes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["spherical", "tied_spherical", "diag", "tied_diag", "full"])
def test_the_e_step_of_one_mixture_is_one_call(name, weighted, calls):
    family, weights = FAMILIES[name], W if weighted else None
    on_host = WhitenedData(open_rows(X, weights), family)
    on_device = WhitenedData(open_rows(array_api_strict.asarray(X), weights), family, on_host.whitening)
    start = family.m_step(on_host.hard_stats(np.arange(len(X)) % 3, 3), None)
    stats, likelihood = on_device.e_step(start[None])
    expected, expected_likelihood = on_host.e_step(start[None])
    np.testing.assert_allclose(stats.array, expected.array, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(likelihood, expected_likelihood, rtol=1e-10, atol=1e-8)
    assert calls == ([] if name == "full" else [X.shape])
    # Sums other than the E-step of one mixture do not use the kernel.
    nearest = [data.nearest_stats(start.means).array for data in (on_device, on_host)]
    np.testing.assert_allclose(*nearest, atol=1e-8)
    assert len(calls) <= 1


def test_rows_fetched_to_the_host_do_not_use_the_kernel(calls):
    model = apolar.GaussianMixture(4, covariance_type="spherical", random_state=0).fit(X)
    errors = model.standard_errors(array_api_strict.asarray(X))
    np.testing.assert_allclose(errors.means, model.standard_errors(X).means, rtol=1e-8)
    assert calls == []


def test_a_block_for_the_kernel_does_what_every_block_does(calls):
    family = FAMILIES["diag"]
    on_host = WhitenedData(open_rows(X), family)
    on_device = WhitenedData(open_rows(array_api_strict.asarray(X)), family, on_host.whitening)
    natural = family.natural(family.m_step(on_host.hard_stats(np.arange(len(X)) % 3, 3), None))
    block, _ = triton.KernelBlocks(on_device._prepare, len(X))(on_device.rows.values, None, 0)
    np.testing.assert_allclose(
        np.from_dlpack(block.logits(natural)), on_host.row_logits(natural, slice(None))
    )
    by_label = np.arange(len(X)) % 3 == np.arange(3)[:, None]
    stats = block.stats(block.to_device(by_label))
    expected = on_host.hard_stats(np.arange(len(X)) % 3, 3).array
    np.testing.assert_allclose(np.from_dlpack(stats), expected, atol=1e-8)
    assert calls == []
