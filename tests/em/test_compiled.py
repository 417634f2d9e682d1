"""Fits and predictions by the compiled kernels are those by NumPy, for every family, wherever they run."""

import os
import threading

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import apolar
from apolar._core import compiled
from apolar._core.threads import default_threads
from kernel_sums import needs_kernels

# Fits of few rows and few iterations, which warn: their results are compared with each other.
pytestmark = [needs_kernels, pytest.mark.filterwarnings("ignore::apolar.ApolarWarning")]

NAMES = ("spherical", "tied_spherical", "diag", "tied_diag", "full", "tied")
X, _ = apolar.datasets.make_example(1, 1500, random_state=0)
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


def unaligned(array):
    copy = np.empty(array.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("convert", [unaligned, lambda a: a.astype(">f8"), lambda a: a.astype(object)])
def test_rows_and_weights_that_the_kernels_cannot_read_are_copied(convert):
    model, expected = (apolar.GaussianMixture(3, covariance_type="diag", means_init=X[:3]) for _ in range(2))
    model.fit(convert(X), sample_weight=convert(W))
    # BLAS, which finds the scale, may add in another order, and EM stop a little earlier.
    np.testing.assert_allclose(model.means_, expected.fit(X, sample_weight=W).means_, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_fits_and_predictions_are_those_of_numpy(name, without_kernels):
    def fit():
        model = apolar.GaussianMixture(4, covariance_type=name, random_state=0, init_params="kmeans")
        return model.fit(X, sample_weight=W)

    def answers():
        methods = ("predict", "predict_proba", "score_samples", "score", "bic", "icl")
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
