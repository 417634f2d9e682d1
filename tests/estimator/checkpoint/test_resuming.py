"""Fits that are killed or interrupted go on from the file."""

import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from apolar import GaussianMixture
from estimator.checkpoint.fits import X, mixture

SCRIPT = """
import os, sys, time
import numpy as np
from apolar import GaussianMixture

rows, path, n_passes = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Chunks:
    X = np.load(rows)

    def __iter__(self):
        # When so many passes are in the file, it hangs in the middle of the rows.
        yield self.X[:700]
        if os.path.exists(path) and GaussianMixture.load(path).n_iter_ >= n_passes:
            time.sleep(600)
        yield self.X[700:]

GaussianMixture(
    3, init_params="kmeans", prior=None, random_state=0, n_threads=1, checkpoint=path, warm_start=True
).fit(Chunks())
"""


def test_a_fit_that_is_killed_goes_on(path, tmp_path):
    chunks = [X[:700], X[700:]]
    whole = mixture().fit(chunks)
    n_passes = 3 * whole.n_iter_ // 4
    assert n_passes > 30
    np.save(tmp_path / "rows.npy", X)
    arguments = [str(tmp_path / "rows.npy"), str(path), str(n_passes)]
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not (path.exists() and GaussianMixture.load(path).n_iter_ >= n_passes):
            assert child.poll() is None, child.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode != 0
    left = GaussianMixture.load(path)
    assert not left.converged_
    assert left.lower_bound_ < whole.lower_bound_
    model = mixture(checkpoint=path, warm_start=True).fit(chunks)
    assert (model.start_, model.converged_) == ("warm start", True)
    assert model.n_iter_ < 0.6 * whole.n_iter_
    # Each of the two may leave tol to gain.
    assert model.lower_bound_ * len(X) == pytest.approx(whole.lower_bound_ * len(X), abs=2 * whole.tol)
    np.testing.assert_allclose(model.weights_, whole.weights_, atol=0.02)
    assert GaussianMixture.load(path).converged_


def test_the_same_object_goes_on_after_an_interrupt(path):
    class Interrupted(list):
        left = 40

        def __iter__(self):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return super().__iter__()

    rows = Interrupted([X[:700], X[700:]])
    model = mixture(checkpoint=path, warm_start=True, checkpoint_every=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows)
    before = GaussianMixture.load(path)
    assert 1 < before.n_iter_ < 40
    assert model.fit(rows).start_ == "warm start"
    assert model.lower_bounds_[0] == pytest.approx(before.lower_bound_, abs=1e-9)


def test_a_finished_file_is_finished_soon(path):
    first = mixture(checkpoint=path, warm_start=True).fit(X)
    again = mixture(checkpoint=path, warm_start=True, n_init=3).fit(X)
    assert first.start_ == "kmeans"
    assert again.start_ == "warm start"
    assert again.n_iter_ < first.n_iter_ / 2
    # Without warm_start it is replaced.
    afresh = mixture(checkpoint=path, max_iter=1, init_params="random")
    with pytest.warns(ConvergenceWarning):
        afresh.fit(X)
    assert afresh.start_ == "random"
    assert GaussianMixture.load(path).start_ == "random"


def test_a_path_is_a_warm_start(tmp_path):
    model = mixture().fit(X)
    order = [2, 0, 1]
    for name in ("weights_", "means_", "covariances_"):
        setattr(model, name, getattr(model, name)[order])
    model.save(tmp_path / "model.npz")
    for place in (tmp_path / "model.npz", str(tmp_path / "model.npz")):
        again = mixture(warm_start=place).fit(X)
        assert again.start_ == "warm start"
        # In the order of the file, as with a start that is given; also if something else has been fitted.
        np.testing.assert_allclose(again.means_, model.means_, atol=0.1)
        again.set_params(n_components=2, warm_start=False).fit(X)
        again.set_params(n_components=3, warm_start=place).fit(X)
        assert again.start_ == "warm start"
    # A fit that was killed ends in the order in which it would have ended.
    went_on = mixture(warm_start=True, checkpoint=tmp_path / "model.npz").fit(X)
    assert went_on.start_ == "warm start"
    assert np.all(np.diff(went_on.weights_) <= 0)


def test_a_fitted_mixture_wins_over_the_file(path):
    mixture(2).fit(X).save(path)
    model = mixture(warm_start=True).fit(X)
    model.set_params(checkpoint=path).fit(X)
    assert model.start_ == "warm start"
    assert GaussianMixture.load(path).n_components == 3
    # One of another family starts afresh, as without a file.
    assert model.set_params(covariance_type="diag").fit(X).start_ == "kmeans"
