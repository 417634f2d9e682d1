"""Models that cannot be saved, and places that cannot be written: no file is half written."""

import os
import stat

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from apolar import GaussianMixture, MomentSketch
from apolar.estimator.model_files import load_model, save_model
from estimator.storage.models import X, fit


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(GaussianMixture(2), tmp_path / "a.model")
    half = GaussianMixture(2)
    half.n_features_in_ = 3
    with pytest.raises(NotFittedError):
        save_model(half, tmp_path / "a.model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 3}, r"weights_ must be float64 of shape \(3,\)"),
        ({"covariance_type": "tied"}, "was not fitted with covariance_type=.tied."),
        ({"init_params": np.array([object()])}, "Circular reference|JSON"),
        ({"means_init": [[np.nan] * 3] * 2}, "not JSON compliant"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_a_model_that_could_not_be_read_is_not_saved(tmp_path, parameters, message):
    saved = fit().set_params(**parameters)
    with pytest.raises(ValueError, match=f"cannot be saved: .*{message}.* fit it again"):
        save_model(saved, tmp_path / "a.model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_save_leaves_no_file_and_keeps_the_old_one(path, monkeypatch, error):
    before = path.read_bytes()

    def fails(file, **_arrays):
        file.write(b"half")
        raise error

    monkeypatch.setattr(np, "savez", fails)
    for place in (path, path.with_name("new.model")):
        with pytest.raises(error):
            save_model(fit("diag"), place)
    assert os.listdir(path.parent) == ["a.model"]
    assert path.read_bytes() == before


def test_a_file_is_on_the_disk_before_it_has_its_name(path, model, monkeypatch):
    events = []
    fsync, move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: events.append("fsync") or fsync(file))
    monkeypatch.setattr(os, "replace", lambda *paths: events.append("replace") or move(*paths))
    save_model(model, path)
    assert events == ["fsync", "replace"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of files")
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444])
def test_the_permissions_of_a_file_that_is_replaced_stay(path, model, monkeypatch, mode):
    part_modes, savez = [], np.savez

    def written(file, **arrays):
        part_modes.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        savez(file, **arrays)

    monkeypatch.setattr(np, "savez", written)
    checkpointed = GaussianMixture(2, checkpoint=path, random_state=0)
    for write in (model.save, MomentSketch(3).update(X).save, lambda _: checkpointed.fit(X)):
        path.chmod(mode)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    # Nobody else can read what replaces a file while it is written.
    assert set(part_modes) == {0o600}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_devices_and_pipes_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for endless in ("/dev/zero", tmp_path / "pipe"):
        with pytest.raises(ValueError, match="not a Gaussian mixture of apolar: it is a device or a pipe"):
            GaussianMixture.load(endless)
        with pytest.raises(ValueError, match="not a moment sketch: it is a device or a pipe"):
            MomentSketch.load(endless)
        with pytest.raises(ValueError, match="a device or a pipe"):
            GaussianMixture(2, warm_start=str(endless)).fit(X)


def test_folders_and_missing_files(tmp_path, model):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        save_model(model, tmp_path / "missing" / "a.model")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        save_model(model, tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        load_model(GaussianMixture, tmp_path / "missing.model")
    with pytest.raises((IsADirectoryError, PermissionError)):
        load_model(GaussianMixture, tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]
