"""The path of a checkpoint, and the models it held."""

import pytest

from apolar import GaussianMixture
from apolar.estimator import storage


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.npz"


@pytest.fixture
def files(monkeypatch):
    """The models that the checkpoint holds, read after each write."""
    models, save = [], storage.save_model

    def saved(model, path):
        save(model, path)
        models.append(GaussianMixture.load(path))

    monkeypatch.setattr(storage, "save_model", saved)
    return models
