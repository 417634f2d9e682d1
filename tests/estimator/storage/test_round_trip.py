"""What is saved comes back exactly."""

import json
import os

import numpy as np
import pandas as pd
import pytest

from apolar import GaussianMixture, Prior
from apolar._core.files import load_arrays
from apolar.estimator import model_files
from apolar.estimator.inputs import constraints
from apolar.estimator.model_files import load_model, save_model
from estimator.storage.models import KINDS, X, fit, is_same_model, rewrite_arrays


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_is_exact(tmp_path, kind):
    saved = fit(kind)
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert is_same_model(saved, loaded)
    assert loaded.get_params() == saved.get_params()
    assert not hasattr(loaded, "feature_names_in_")
    assert os.listdir(tmp_path) == ["a.model"]
    save_model(loaded, tmp_path / "b.model")
    assert is_same_model(saved, load_model(GaussianMixture, str(tmp_path / "b.model")))


def test_every_parameter_is_checked():
    assert set(constraints()) == set(GaussianMixture().get_params())


def test_names_of_columns_come_back(tmp_path):
    frame = pd.DataFrame(X, columns=["größe", "b", "c"])
    saved = GaussianMixture(2, init_params="kmeans", random_state=0, n_threads=1).fit(frame)
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert loaded.feature_names_in_.dtype == object
    np.testing.assert_array_equal(loaded.feature_names_in_, saved.feature_names_in_)
    np.testing.assert_array_equal(loaded.predict(frame), saved.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"b": "d"}))


def test_parameters_come_back(tmp_path):
    labels = np.repeat([0, 1], 40)
    saved = fit(
        "VVI",
        init_params=labels,
        prior=Prior(shrinkage=np.float32(0.5), scale=0.1),
        tol=np.float64(1e-4),
        max_iter=np.int64(50),
        warm_start=True,
        verbose=False,
    ).set_params(weights_init=np.array([0.1, 0.9]))
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert is_same_model(saved, loaded)
    assert loaded.init_params == labels.tolist()
    assert loaded.prior == saved.prior
    assert (loaded.tol, loaded.max_iter, loaded.weights_init) == (1e-4, 50, [0.1, 0.9])
    assert loaded.set_params(weights_init=None, warm_start=False).fit(X).converged_


def test_what_a_file_cannot_hold_is_left_out(tmp_path):
    saved = fit(init_params=lambda X, r, rng: np.arange(len(X)) % r, random_state=np.random.default_rng(0))
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert is_same_model(saved, loaded)
    assert (loaded.init_params, loaded.random_state) == ("auto", None)


def test_a_stream_goes_on_after_loading(tmp_path):
    saved = GaussianMixture(2, random_state=0, n_threads=1).partial_fit(X)
    save_model(saved, tmp_path / "a.model")
    loaded = load_model(GaussianMixture, tmp_path / "a.model")
    assert is_same_model(saved, loaded)
    assert loaded.partial_fit(X).n_samples_seen_ == 2 * len(X)


def test_a_parameter_that_is_not_named_has_its_default(path):
    arrays = load_arrays(path, model_files.MODEL_FORMAT, model_files.MODEL_VERSION, "a model")
    parameters = json.loads(str(arrays["parameters"]))
    del parameters["n_threads"], parameters["init_params"]
    rewrite_arrays(path, parameters=json.dumps(parameters))
    loaded = load_model(GaussianMixture, path)
    assert (loaded.n_threads, loaded.init_params) == (None, "auto")
