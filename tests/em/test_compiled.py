"""Fits and predictions by the compiled kernels are those by NumPy, for every family, wherever they run."""

import os
import threading

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import apolar
from apolar._core import compiled
from apolar._core.namespaces import Scratch
from apolar._core.threads import default_threads
from apolar.data import open_rows
from apolar.em.blocks import CompiledBlock, StatsBlock, write_row_stats
from apolar.em.problem import Problem
from apolar.mixture.families import FAMILIES
from kernel_sums import TARGETS, needs_kernels, use_for_a_test
from mixtures import pairs

# Fits of few rows and few iterations, which warn: their results are compared with each other.
pytestmark = [needs_kernels, pytest.mark.filterwarnings("ignore::apolar.ApolarWarning")]

NAMES = ("spherical", "tied_spherical", "diag", "tied_diag", "full", "tied")
X, _ = apolar.datasets.make_example(1, 3000, random_state=0)
W = np.random.default_rng(1).uniform(0.2, 2.0, len(X))


@pytest.fixture
def without_kernels(monkeypatch):
    """Return a function that calls another one without the extension."""

    def call(function):
        with monkeypatch.context() as patch:
            patch.setattr(compiled, "kernels", None)
            return function()

    return call


@pytest.fixture
def small_parts(monkeypatch):
    """Let few rows be many parts, and every part worth a thread."""
    monkeypatch.setattr(compiled, "PART_ROWS", 64)
    monkeypatch.setattr(compiled, "WORK_PER_THREAD", 1)


@pytest.mark.parametrize(("name", "dtype"), pairs(NAMES, [np.float64, np.float32, np.float32, np.float64]))
@pytest.mark.parametrize("target", TARGETS)
def test_a_block_computes_what_a_block_of_numpy_does(name, target, dtype):
    family, values = FAMILIES[name], X.astype(dtype)
    data = Problem(open_rows(values, W), family)
    batch = [family.m_step(data.hard_stats((np.arange(len(X)) * s) % 7 % 4, 4), None) for s in (1, 3)]
    natural = np.stack([family.natural(parameters) for parameters in batch])
    # Hard assignment is by distances: without quadratics.
    distances = natural[0].copy()
    distances[:, 1 + X.shape[1] :] = 0.0
    given = np.random.default_rng(2).uniform(0, 1, (3, len(X)))
    written = write_row_stats(values, family, data.whitening, Scratch())
    row_map = compiled.RowMap.of(data.whitening.centre, data.whitening.matrix)
    scale = np.abs(written).sum(axis=1)
    for _ in use_for_a_test(target):
        for weights in (None, W):
            blocks = CompiledBlock(values, weights, family, row_map), StatsBlock(written, weights)
            (sums, likelihoods), (wanted, of_numpy) = (block.e_step(natural) for block in blocks)
            # The rows of a batch, in the order of its mixtures.
            assert np.max(np.abs(sums - wanted) / scale) < 1e-12
            np.testing.assert_allclose(likelihoods, of_numpy, rtol=1e-12)
            for ask in (lambda block: block.nearest_stats(distances), lambda block: block.stats(given)):
                ours, theirs = (ask(block) for block in blocks)
                assert np.max(np.abs(ours - theirs) / scale) < 1e-12
            # Logits of some tens have errors of some 1e-14, and so have the logarithms of responsibilities.
            np.testing.assert_allclose(
                *(block.logits(natural[0]) for block in blocks), rtol=1e-11, atol=1e-11
            )
            for what in ("labels", "probabilities", "densities", "sums"):
                ours, theirs = (block.posteriors(natural[0], what) for block in blocks)
                atol = 1e-11 if what == "densities" else 1e-30
                np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=atol, err_msg=what)


def unaligned(array):
    copy = np.empty(array.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(array.shape)
    copy[...] = array
    return copy


def test_rows_and_weights_that_cannot_be_read_are_copied():
    family = FAMILIES["diag"]
    data = Problem(open_rows(X), family)
    natural = data.natural(family.m_step(data.hard_stats(np.arange(len(X)) % 3, 3), None))[None]
    expected = CompiledBlock(X, W, family).e_step(natural)[0]
    for values in (unaligned(X), X.astype(">f8"), X.astype(object)):
        assert not compiled.can_read(values)
        np.testing.assert_array_equal(CompiledBlock(values, W, family).e_step(natural)[0], expected)
    for weights in (unaligned(W), W.astype(">f8"), W.tolist()):
        np.testing.assert_array_equal(CompiledBlock(X, weights, family).e_step(natural)[0], expected)
    assert CompiledBlock(X, W, family).weights is W
    assert np.shares_memory(CompiledBlock(X[::-1], None, family).values, X)


@pytest.mark.parametrize("name", NAMES)
def test_fits_and_predictions_are_those_of_numpy(name, without_kernels):
    def fit():
        model = apolar.GaussianMixture(4, covariance_type=name, random_state=0, init_params="kmeans")
        return model.fit(X, sample_weight=W)

    def answers():
        methods = ("predict", "predict_proba", "score_samples", "score", "bic", "aic")
        return [getattr(model, method)(new) for method in methods]

    model, by_numpy, new = fit(), without_kernels(fit), 1.5 * X
    # EM stops a few hundredths of a standard error from the maximum: here, at 1e-3 of a deviation.
    assert np.max(np.abs(model.means_ - by_numpy.means_) / X.std(axis=0)) < 1e-3
    assert model.score(X, sample_weight=W) == pytest.approx(by_numpy.score(X, sample_weight=W), abs=1e-5)
    expected = without_kernels(answers)
    for ours, theirs in zip(answers(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    # A chunk of one row, and of a length that is no multiple of a vector.
    for n_rows in (1, 13):
        ours = model.predict_proba(new[:n_rows])
        np.testing.assert_allclose(ours, expected[1][:n_rows], rtol=1e-10, atol=1e-12)


def fitted(n_threads=None, seed=0):
    """Return a fit of few iterations, in many parts where parts are small."""
    return apolar.GaussianMixture(
        4, random_state=seed, init_params="kmeans", n_threads=n_threads, max_iter=8, tol=0
    ).fit(X, sample_weight=W)


def numbers_of(model):
    return [*(model.weights_, model.means_, model.covariances_), model.predict_proba(X), model.score(X)]


@pytest.mark.usefixtures("small_parts")
def test_several_threads_fit_at_the_same_time():
    expected = {seed: numbers_of(fitted(2, seed)) for seed in range(3)}
    start, found, errors = threading.Barrier(6), [], []

    def fit(seed):
        try:
            start.wait(60)
            found.append((seed, numbers_of(fitted(2, seed))))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=fit, args=(i % 3,), daemon=True) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors
    assert len(found) == 6
    for seed, numbers in found:
        for number, wanted in zip(numbers, expected[seed], strict=True):
            np.testing.assert_array_equal(number, wanted)


def sums_in_threads(n_threads=3):
    row_map = compiled.RowMap.of(np.zeros(X.shape[1]))
    return compiled.stats_under(X, W, row_map, None, compiled.FULL, n_threads)


def test_workers_of_joblib_use_the_kernels_with_their_share_of_the_processors():
    # Functions of the library: workers do not import the tests.
    row_map = compiled.RowMap.of(np.zeros(X.shape[1]))
    arguments = (X, W, row_map, None, compiled.FULL)
    calls = [(compiled.kernels_in_use,), (default_threads,), (os.getpid,), (compiled.stats_under, *arguments)]
    with joblib.Parallel(n_jobs=2, backend="loky") as parallel:
        kernels, n_threads, process, sums = parallel(joblib.delayed(f)(*given) for f, *given in calls)
    assert kernels == compiled.kernels_in_use()
    assert 1 <= n_threads <= max(1, (os.cpu_count() or 1) // 2)
    assert process != os.getpid()
    np.testing.assert_array_equal(sums, sums_in_threads(1))


def test_blas_limits_are_limits_of_the_kernels():
    with threadpool_limits(1, user_api="blas"):
        assert default_threads() == 1
