"""What a checkpoint holds on the way and at the end, and what a loaded one does."""

import os
import pathlib

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from apolar import GaussianMixture
from apolar.estimator import model_files
from estimator.checkpoint.fits import X, mixture


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


def test_a_checkpoint_changes_nothing_in_the_fit(path):
    plain, written = mixture().fit(X), mixture(checkpoint=str(path), checkpoint_every=1).fit(X)
    np.testing.assert_array_equal(written.means_, plain.means_)
    assert written.n_iter_ == plain.n_iter_


def test_the_order_of_the_user_is_kept(path, files):
    # The first label has the fewest rows.
    labels = np.repeat([0, 1, 2], [100, 500, 1200])
    model = mixture(init_params=labels, checkpoint=path, max_iter=20)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    assert len(files) >= 4
    for file in files:
        np.testing.assert_allclose(file.means_[0], X[labels == 0].mean(axis=0), atol=0.5)
        # Labels are as long as the table, and are left out.
        assert file.init_params == "auto"


def test_several_runs_keep_the_best(path, files, monkeypatch):
    seen = []
    called = model_files.Checkpoint.__call__

    def recording(self, fit, state_of):
        seen.append(fit)
        return called(self, fit, state_of)

    monkeypatch.setattr(model_files.Checkpoint, "__call__", recording)
    model = mixture(init_params="random", n_init=3, checkpoint=path, checkpoint_every=1).fit(X)
    starts = [i for i, fit in enumerate(seen) if fit.n_iter == 1 and (i == 0 or seen[i - 1] is not fit)]
    assert len(starts) == 3
    # Each run began with something worse than what there was.
    for start in starts[1:]:
        assert seen[start].log_likelihood < max(fit.log_likelihood for fit in seen[:start]) - 10
    assert np.all(np.diff([file.lower_bound_ for file in files]) >= -1e-12)
    assert files[-1].lower_bound_ == model.lower_bound_


def test_a_fit_that_stops_at_max_iter_leaves_its_end(path):
    # Even where the warning is an error, as it is here.
    with pytest.raises(ConvergenceWarning):
        mixture(checkpoint=path, max_iter=8).fit(X)
    assert "max_iter" in GaussianMixture.load(path).message_


def test_only_files_are_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file"):
        mixture(checkpoint=pipe).fit(X)
    with pytest.raises(OSError, match="no regular file"):
        mixture().fit(X).save(pipe)
    assert pipe.is_fifo()
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    mixture(checkpoint=tmp_path / "link.npz").fit(X)
    assert (tmp_path / "link.npz").is_symlink()
    assert GaussianMixture.load(tmp_path / "real.npz").converged_


@pytest.mark.parametrize("error", [OSError("No space left on device"), ValueError("too small")])
@pytest.mark.parametrize("last", [3, 10**6])
def test_a_write_that_fails_is_warned_of_once_and_the_fit_goes_on(path, monkeypatch, error, last):
    calls, save = [], model_files.save_model

    def fails(model, path, *state, **changed):
        calls.append(path)
        if 2 <= len(calls) <= last:
            raise error
        save(model, path, *state, **changed)

    monkeypatch.setattr(model_files, "save_model", fails)
    with pytest.warns(UserWarning, match=f"fit.npz could not be written: {error}.*goes on") as caught:
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
