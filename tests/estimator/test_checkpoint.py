"""Checkpoints: what they hold on the way and at the end, how fits go on from them, and what is refused."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from apolar import GaussianMixture
from apolar.estimator import model_files


def overlapping(n=600, seed=0):
    """Return rows of three components that overlap: EM needs many passes."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((3 * n, 2)) + np.repeat([[0.0, 0], [2, 0], [4, 0]], n, axis=0)


X = overlapping()
# Without a prior, what EM raises is the likelihood.
PARAMETERS = {"init_params": "kmeans", "prior": None, "random_state": 0, "n_threads": 1}


def mixture(n_components=3, **parameters):
    return GaussianMixture(n_components, **PARAMETERS | parameters)


class Unread:
    """Rows that must not be read."""

    def __iter__(self):
        raise AssertionError("the rows were read")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.npz"


@pytest.fixture
def files(monkeypatch):
    """The models that the checkpoint holds, read after each write."""
    models, save = [], model_files.save_model

    def saved(model, path, *state, **changed):
        save(model, path, *state, **changed)
        models.append(GaussianMixture.load(path))

    monkeypatch.setattr(model_files, "save_model", saved)
    return models


def test_the_file_is_a_model_on_the_way(path, files):
    model = mixture(checkpoint=path).fit(pd.DataFrame(X, columns=["a", "b"]))
    *passes, last = files
    numbers = [file.n_iter_ for file in passes]
    assert numbers[0] == 1
    assert all(number % 5 == 1 for number in numbers)
    assert len(numbers) > 0.5 * model.n_iter_ / 5
    for file in passes:
        assert not file.converged_
        assert "Checkpoint after pass" in file.message_
        assert "warm_start=True" in file.message_
        assert len(file.lower_bounds_) == file.n_iter_
        assert list(file.feature_names_in_) == ["a", "b"]
        assert np.all(np.diff(file.weights_) <= 0)
    assert np.all(np.diff([file.lower_bound_ for file in files]) >= 0)
    scored = passes[1].score(pd.DataFrame(X, columns=["a", "b"]))
    assert passes[1].lower_bound_ == pytest.approx(scored, abs=1e-9)
    # At the end it is what `save` writes.
    assert last.converged_
    assert (last.n_iter_, last.start_, last.message_) == (model.n_iter_, model.start_, model.message_)
    np.testing.assert_array_equal(last.means_, model.means_)
    assert last.lower_bounds_ == model.lower_bounds_
    assert os.listdir(path.parent) == [path.name]
    # It changes nothing in the fit.
    np.testing.assert_array_equal(model.means_, mixture().fit(X).means_)


def test_several_runs_keep_the_best(path, files):
    model = mixture(init_params="random", n_init=3, checkpoint=path, checkpoint_every=1).fit(X[::3])
    # A pass that is worse than what there was, as at the begin of a run, is not written.
    assert np.any(np.diff([file.n_iter_ for file in files]) > 1)
    assert np.all(np.diff([file.lower_bound_ for file in files]) >= -1e-12)
    assert files[-1].lower_bound_ == model.lower_bound_


def test_a_fit_that_stops_at_max_iter_leaves_its_end(path):
    # Even where the warning is an error, as it is here.
    with pytest.raises(ConvergenceWarning):
        mixture(checkpoint=path, max_iter=8).fit(X)
    assert "max_iter" in GaussianMixture.load(path).message_


@pytest.mark.parametrize(
    ("error", "last"), [(OSError("No space left on device"), 3), (ValueError("too small"), 10**6)]
)
def test_a_write_that_fails_is_warned_of_once_and_the_fit_goes_on(path, monkeypatch, error, last):
    calls, save = [], model_files.save_model

    def fails(model, path, *state, **changed):
        calls.append(path)
        if 2 <= len(calls) <= last:
            raise error
        save(model, path, *state, **changed)

    monkeypatch.setattr(model_files, "save_model", fails)
    with pytest.warns(UserWarning, match=f"fit.npz could not be written: {error}.*continues") as caught:
        model = mixture(checkpoint=path).fit(X)
    assert len(caught) == 1
    assert model.converged_
    assert len(calls) > 4
    assert GaussianMixture.load(path).converged_ == (last == 3)


def test_a_loaded_model_writes_no_files(path, tmp_path):
    model = mixture(checkpoint=path, checkpoint_every=2, warm_start=True).fit(X)
    assert GaussianMixture.load(path).warm_start is True
    mixture(warm_start=path, checkpoint=pathlib.Path(path)).fit(X).save(tmp_path / "saved.npz")
    for loaded in (GaussianMixture.load(path), GaussianMixture.load(tmp_path / "saved.npz")):
        assert loaded.checkpoint is None
        assert loaded.warm_start is False
        before = path.read_bytes()
        loaded.fit(X)
        assert path.read_bytes() == before
    assert model.checkpoint == path


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
    with pytest.warns(ConvergenceWarning, match="interrupted: this is the best mixture so far"):
        model.fit(rows)
    assert not model.converged_
    before = GaussianMixture.load(path)
    np.testing.assert_array_equal(before.means_, model.means_)
    assert 1 < before.n_iter_ < 40
    assert model.fit(rows).start_ == "warm start"
    assert model.lower_bounds_[0] == pytest.approx(before.lower_bound_, abs=1e-9)


def test_a_path_is_a_warm_start(path):
    model = mixture().fit(X)
    order = [2, 0, 1]
    for name in ("weights_", "means_", "covariances_"):
        setattr(model, name, getattr(model, name)[order])
    model.save(path)
    for place in (path, str(path)):
        again = mixture(2, warm_start=False).fit(X).set_params(n_components=3, warm_start=place).fit(X)
        assert again.start_ == "warm start"
        # In the order of the file, as with a start that is given; also if something else has been fitted.
        np.testing.assert_allclose(again.means_, model.means_, atol=0.1)
    # A fit that was killed ends in the order in which it would have ended.
    went_on = mixture(warm_start=True, checkpoint=path).fit(X)
    assert went_on.start_ == "warm start"
    assert np.all(np.diff(went_on.weights_) <= 0)


def test_a_place_that_cannot_be_written_is_refused_before_the_rows_are_read(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no folder .*missing to save fit.npz to: make it"):
        mixture(checkpoint=tmp_path / "missing" / "fit.npz").fit(Unread())
    with pytest.raises(IsADirectoryError, match="is a folder: give the path of a file in it"):
        mixture(checkpoint=tmp_path).fit(Unread())

    def refused(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(PermissionError, match=r"cannot be written to \(Permission denied\): give checkpoint"):
        mixture(checkpoint=tmp_path / "fit.npz").fit(Unread())
    assert os.listdir(tmp_path) == []


def test_a_path_without_a_file_is_refused(tmp_path):
    for place in (tmp_path / "none.npz", str(tmp_path / "none.npz"), ""):
        with pytest.raises(FileNotFoundError, match="no file .* to start from.* warm_start=True continues"):
            mixture(warm_start=place).fit(X)


@pytest.mark.parametrize(
    ("parameters", "columns", "in_file", "asked"),
    [
        ({"n_components": 2}, 2, "n_components=3", "n_components=2"),
        ({"covariance_type": "VVI"}, 2, "covariance_type='full'", "covariance_type='diag'"),
        ({}, 1, "2 columns", "1 columns"),
    ],
)
def test_a_file_of_another_mixture_is_refused(path, parameters, columns, in_file, asked):
    mixture(max_iter=0).fit(X).save(path)
    before = path.read_bytes()
    message = f"fit.npz holds .*{in_file}.*, but this estimator has .*{asked}.*Delete the file .* or change"
    for start in ({"warm_start": path}, {"warm_start": True, "checkpoint": path}):
        with pytest.raises(ValueError, match=message):
            mixture(**start, **parameters).fit(X[:, :columns])
    assert path.read_bytes() == before


def test_a_damaged_file_is_not_passed_over(path):
    mixture(max_iter=0).fit(X).save(path)
    part = path.read_bytes()[:-40]
    path.write_bytes(part)
    for start in ({"warm_start": path}, {"warm_start": True, "checkpoint": path}):
        with pytest.raises(ValueError, match="is damaged"):
            mixture(**start).fit(X)
    assert path.read_bytes() == part
    # Unless nobody asks for what is in it.
    assert mixture(checkpoint=path).fit(X).converged_
    assert GaussianMixture.load(path).converged_
