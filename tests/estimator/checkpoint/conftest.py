"""The path of a checkpoint, and the models it held."""

import pytest

from apolar import GaussianMixture
from apolar.estimator import model_files


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
