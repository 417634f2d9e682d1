"""The path of a checkpoint, and the models it held."""

import pytest

import apolar
from apolar import GaussianMixture
from apolar.estimator import checkpoint


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.npz"


@pytest.fixture
def files(monkeypatch):
    """The models that the checkpoint holds, read after each write."""
    models = []

    def saved(model, path):
        apolar.estimator.storage.save_model(model, path)
        models.append(GaussianMixture.load(path))

    monkeypatch.setattr(checkpoint, "save_model", saved)
    return models
