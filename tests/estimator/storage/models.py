"""Fitted models, whether two are equal, and files with some arrays changed."""

import json

import numpy as np

from apolar import GaussianMixture
from apolar._core.files import load_arrays, save_arrays
from apolar.estimator import model_files
from mixtures import FAMILY_NAMES

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.standard_normal((40, 3)) * [1, 2, 0.5] + shift for shift in (0, 3)])
NEW = RNG.standard_normal((200, 3)) * 3
KINDS = tuple(FAMILY_NAMES)


def fit(kind="full", **parameters):
    parameters = {"init_params": "kmeans", "random_state": 0, "n_threads": 1} | parameters
    return GaussianMixture(2, covariance_type=kind, **parameters).fit(X)


def is_same_model(first, second):
    """Whether two models are equal, types and all, and say the same of rows, bit for bit."""
    names = {name for name in vars(first) if name.endswith("_")}
    assert names == {name for name in vars(second) if name.endswith("_")} >= {"weights_", "message_"}
    for name in names:
        a, b = getattr(first, name), getattr(second, name)
        assert type(a) is type(b), name
        np.testing.assert_array_equal(a, b, err_msg=name)
        if isinstance(a, list):
            assert [type(value) for value in a] == [type(value) for value in b]
    for method in ("predict", "predict_proba", "score_samples"):
        assert getattr(first, method)(NEW).tobytes() == getattr(second, method)(NEW).tobytes()
    return True


def rewrite_arrays(path, **changes):
    """Rewrite a model file with some arrays changed, under a checksum that fits."""
    arrays = load_arrays(path, model_files.MODEL_FORMAT, model_files.MODEL_VERSION, "a model")
    for name, value in changes.items():
        arrays[name] = np.asarray(value)
    save_arrays(path, model_files.MODEL_FORMAT, model_files.MODEL_VERSION, arrays)


def rewrite_parameters(path, **changes):
    arrays = load_arrays(path, model_files.MODEL_FORMAT, model_files.MODEL_VERSION, "a model")
    rewrite_arrays(path, parameters=json.dumps(json.loads(str(arrays["parameters"])) | changes))
