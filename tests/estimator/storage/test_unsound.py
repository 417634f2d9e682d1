"""A sound checksum over arrays that are no mixture, or no sketch."""

import numpy as np
import pytest

import apolar
from apolar import GaussianMixture
from apolar._core.files import load_arrays, save_arrays
from apolar.estimator.model_files import load_model
from estimator.storage.models import X, rewrite_arrays, rewrite_parameters


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights_": [0.5, 0.3, 0.2]}, "weights_ must be float64 of shape"),
        ({"weights_": [1.5, -0.5]}, "must not be negative"),
        ({"weights_": [0.5, 0.6]}, "add up to one"),
        ({"weights_": [np.nan, 0.5]}, "NaN"),
        ({"weights_": ["a", "b"]}, "weights_ must be float64"),
        ({"means_": np.zeros((3, 2))}, r"means_ must be float64 of shape \(2, 3\)"),
        ({"means_": np.full((2, 3), np.inf)}, "infinity"),
        ({"means_": [[0.0, 0, 0], [1e308, 0, 0]]}, "means_ are too large: their squares overflow"),
        ({"weights_": [0.0, 0.0], "noise_origin": np.zeros(3), "noise_edges": np.ones(3)}, "weights_"),
        ({"noise_origin": np.zeros(3)}, "noise_origin alone"),
        ({"noise_edges": np.ones(3)}, "noise_edges alone"),
        ({"covariances_": np.ones((2, 3))}, r"covariances_ must be float64 of shape \(2, 3, 3\)"),
        ({"covariances_": np.ones((2, 3, 3)) - 0.1 * np.eye(3)}, "positive definite"),
        ({"covariances_": -np.stack([np.eye(3)] * 2)}, "positive definite"),
        ({"covariances_": np.stack([np.eye(3) + np.eye(3, k=1) / 2] * 2)}, "symmetric"),
        ({"covariances_": 1e-310 * np.stack([np.eye(3)] * 2)}, "overflow"),
        ({"n_features_in_": 4}, "means_ must be float64"),
        # Covariances of so many columns would be 8 TB: the shape is refused before.
        ({"n_features_in_": 10**6, "means_": np.zeros((2, 10**6))}, "covariances_ must be float64"),
        ({"n_features_in_": -1}, "at least 1"),
        ({"n_iter_": -1}, "at least 0"),
        ({"n_samples_seen_": 0.0}, "above zero"),
        ({"n_iter_": 1.5}, "n_iter_ must be a single int"),
        ({"converged_": 1}, "converged_ must be a single bool"),
        ({"lower_bound_": np.inf}, "must be finite"),
        ({"lower_bounds_": np.zeros((2, 2))}, "lower_bounds_ must be float64"),
        ({"rounding_variances_": np.zeros(2)}, "rounding_variances_ must be float64"),
        ({"rounding_variances_": np.array([0.0, -1, 0])}, "must not be negative"),
        ({"message_": ["a", "b"]}, "message_ must be a single str"),
        ({"start_notes_": [1, 2]}, "list of strings"),
        ({"feature_names_in_": ["a", "b"]}, "must be 3 names"),
        ({"parameters": 3}, "parameters must be a single str"),
        ({"parameters": "{"}, "Expecting"),
        ({"parameters": "[]"}, "JSON object"),
        ({"parameters": '{"tol": NaN}'}, "contain NaN"),
        ({"parameters": '{"means_init": ' + "[" * 50_000}, "recursion depth"),
    ],
)
def test_files_that_hold_no_mixture_are_refused(path, changes, message):
    rewrite_arrays(path, **changes)
    with pytest.raises(ValueError, match=f"is not a valid mixture: .*{message}.* Save the model again"):
        load_model(GaussianMixture, path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"__class__": "os.system"}, "no parameter '__class__'"),
        ({"n_components": 3}, "weights_ must be float64"),
        ({"n_components": "2"}, "n_components"),
        ({"n_components": 10**400}, "weights_"),
        ({"covariance_type": "other"}, "covariance_type must be one of"),
        ({"covariance_type": ["full"]}, "covariance_type must be one of"),
        ({"covariance_type": "diag"}, "covariances_ must be float64"),
        ({"init_params": "other"}, "init_params"),
        ({"init_params": [[1], 2]}, "inhomogeneous"),
        ({"init_params": [{"a": 1}]}, "numbers or strings"),
        ({"tol": -1}, "tol"),
        ({"prior": "weak"}, "prior"),
        ({"prior": {"Prior": {"shrinkage": -1}}}, "above zero"),
        ({"prior": {"Prior": {"shrinkage": None}}}, "shrinkage must be a number"),
        ({"prior": {"Prior": {"power": 1}}}, "unexpected keyword"),
        ({"prior": {"os.system": {}}}, "unknown type"),
        ({"random_state": "seed"}, "random_state"),
        ({"warm_start": "yes"}, "warm_start must be one that"),
        ({"verbose": "yes"}, "verbose"),
        ({"means_init": "zeros"}, "means_init"),
        ({"n_threads": 0}, "n_threads"),
    ],
)
def test_parameters_that_no_model_has_are_refused(path, changes, message):
    rewrite_parameters(path, **changes)
    with pytest.raises(ValueError, match=f"is not a valid mixture: .*{message}"):
        load_model(GaussianMixture, path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_features": 0}, "at least 1"),
        ({"n_features": 4}, "first must be float64"),
        ({"n_features": "4"}, "single int"),
        ({"n_rows": 0}, "do not fit together"),
        ({"weight": 0.0}, "do not fit together"),
        ({"third": np.zeros(3)}, "third must be float64"),
        ({"second": np.full((3, 3), np.nan)}, "NaN"),
        ({"frame": np.ones((3, 2)), "third": np.zeros(4)}, "orthonormal"),
    ],
)
def test_files_that_hold_no_sketch_are_refused(path, changes, message):
    apolar.MomentSketch(3).update(X).save(path)
    arrays = load_arrays(path, "apolar moment sketch", 3, "a sketch")
    save_arrays(path, "apolar moment sketch", 3, arrays | {k: np.asarray(v) for k, v in changes.items()})
    with pytest.raises(ValueError, match=f"not a sound moment sketch: .*{message}.* Make the sketch again"):
        apolar.MomentSketch.load(path)
