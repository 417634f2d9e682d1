"""A fitted model, and a file that holds it."""

import pytest

from apolar.estimator.model_files import save_model
from estimator.storage.models import fit


@pytest.fixture(scope="module")
def model():
    return fit()


@pytest.fixture
def path(tmp_path, model):
    save_model(model, tmp_path / "a.model")
    return tmp_path / "a.model"
