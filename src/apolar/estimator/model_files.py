"""Fitted mixtures as files without code: saved, loaded, and written as checkpoints while a fit runs."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from apolar import __version__
from apolar._core.arrays import Array, as_plain
from apolar._core.checks import check_integer, one_of, positive_number
from apolar._core.files import (
    check_target,
    load_arrays,
    save_arrays,
    stored_numbers,
    stored_strings,
    stored_value,
)
from apolar.em.result import Fit, SearchCost
from apolar.em.whitening import whitening_around
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import constraints, is_path
from apolar.exceptions import CheckpointWarning, warn_user
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import MixtureParameters, NoiseBox, WhitenedParameters
from apolar.mixture.prior import PRIORS, Prior, Strengths
from apolar.mixture.tails import MIN_DOF

__all__ = [
    "Checkpoint",
    "check_writable",
    "load_model",
    "model_from_json",
    "model_to_json",
    "save_model",
    "stored_state",
]

MODEL_FORMAT = "apolar Gaussian mixture"
MODEL_VERSION = 1
WHAT = "a Gaussian mixture of apolar"

# The fields of the fitted state, by what they hold; precisions are computed from covariances.
_SCALARS: dict[str, Any] = {
    "converged": bool,
    "n_iter": int,
    "n_samples_seen": float,
    "lower_bound": float,
    "start": str,
    "message": str,
    "evidence": float,
    "loo": float,
    "loo_standard_error": float,
}
_LISTS: dict[str, Any] = {
    "lower_bounds": float,
    "start_notes": str,
    "rounding_variances": float,
    "shrinkage": float,
    "search": float,
}
# Not in every file: some are unknown after a stream or from moments, and old files lack them.
_OPTIONAL = ("evidence", "loo", "loo_standard_error", "shrinkage", "rounding_variances", "search")
_REQUIRED = (
    *(f"{name}_" for name in (*_SCALARS, *_LISTS) if name not in _OPTIONAL),
    *("weights_", "means_", "covariances_", "n_features_in_"),
)
_NAMES = "feature_names_in_"
NOISE_ARRAYS = ("noise_origin", "noise_edges")

Model = TypeVar("Model")


def save_model(
    model: Any, path: str | os.PathLike[str], state: FittedState | None = None, **changed: Any
) -> None:
    """Write a fitted mixture to a file of arrays, with a version and a checksum, and without code.

    The file is written completely or not at all. Parameters that are arrays are loaded as lists. A generator
    as `random_state` and a callable `init_params` cannot be stored: they are loaded as None and "auto", which
    does not change any prediction. Paths are not stored: `checkpoint` is loaded as None, and a path as
    `warm_start` as False. After `partial_fit`, the mixture is stored and the sums of the stream are not: the
    loaded model continues as after `fit`.

    Parameters
    ----------
    model : GaussianMixture
    path : str or path
    state : FittedState, optional
        By default that of the model; scikit-learn's NotFittedError is raised if it has none.
    **changed
        Parameters that differ from those of the model.
    """
    save_arrays(path, MODEL_FORMAT, MODEL_VERSION, _checked_arrays(model, state, **changed))


def _checked_arrays(model: Any, state: FittedState | None = None, **changed: Any) -> dict[str, Array]:
    """Return a fitted mixture as arrays that can be read again."""
    if state is None:
        check_is_fitted(model, _REQUIRED)
    parameters = model.get_params(deep=False) | changed
    try:
        validate_parameter_constraints(constraints(), parameters, type(model).__name__)
        state = FittedState.of(model) if state is None else state
        arrays = _to_arrays(state, parameters, getattr(model, _NAMES, None))
        # The checks of `load_model`, so that every file that is written can be read.
        _from_arrays(type(model), arrays)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"This {type(model).__name__} cannot be saved: {str(error).rstrip('.')}. "
            "Give it the parameters it was fitted with, as numbers and strings, or fit it again."
        ) from error
    return arrays


def load_model(cls: type[Model], path: str | os.PathLike[str]) -> Model:
    """Read a fitted mixture from a file that `save_model` wrote.

    Parameters
    ----------
    cls : type
        The class of the estimator. The file may be of a subclass: a `StudentMixture` is a `GaussianMixture`.
    path : str or path

    Returns
    -------
    model : instance of cls
        Fitted; its predictions are those of the model that was saved, bit for bit.

    Raises
    ------
    ValueError
        If the file is of another kind or version, is damaged, or holds no valid mixture.
    """
    arrays = load_arrays(path, MODEL_FORMAT, MODEL_VERSION, WHAT, names=["apolar", "parameters", *_REQUIRED])
    return _checked_model(cls, arrays, str(path))


def _checked_model(cls: type[Model], arrays: dict[str, Array], source: str) -> Model:
    """Return the model of the arrays of a file or text, whose errors name the source."""
    try:
        return _from_arrays(_class_of(cls, arrays), arrays)
    # JSON can be nested too deeply for Python, and hold integers that are too large for a float.
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"{source}, written by apolar {str(arrays['apolar'])[:20]}, is not a valid mixture: "
            f"{str(error).rstrip('.')}. Save the model again, with the release that reads it: this is "
            f"{__version__}."
        ) from error


def _class_of(cls: type[Model], arrays: dict[str, Array]) -> type[Model]:
    """Return the class of the mixture of a file: the class that reads it, or one derived from it."""
    names, has_tails = set(json.loads(stored_value(arrays, "parameters", str))), "dof_" in arrays
    for each in (cls, *cls.__subclasses__()):
        known = set(signature(each).parameters)
        if names <= known and ("dof" in known) == has_tails:
            return each
    if not has_tails and "dof" in signature(cls).parameters:
        raise ValueError("it has no degrees of freedom: load it by GaussianMixture.load.")
    return cls


def model_to_json(model: Any) -> str:
    """Return a fitted mixture as JSON text: what `save_model` writes, as lists."""
    content: dict[str, Any] = {"format": MODEL_FORMAT, "version": MODEL_VERSION}
    for name, array in _checked_arrays(model).items():
        # A likelihood that is not known is NaN, which JSON has not.
        is_known = array.dtype.kind != "f" or np.all(np.isfinite(array))
        content[name] = array.tolist() if is_known else None
    content["parameters"] = json.loads(content["parameters"])
    return json.dumps(content, allow_nan=False)


def model_from_json(cls: type[Model], text: str) -> Model:
    """Return the mixture of a text that `model_to_json` wrote, after checking all of it."""
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The text is not {WHAT}: it is not JSON ({error}).") from error
    if not isinstance(content, dict) or content.pop("format", None) != MODEL_FORMAT:
        raise ValueError(f"The text is not {WHAT}: it has no name of a format. Pass what to_json returned.")
    version = content.pop("version", None)
    if version != MODEL_VERSION:
        raise ValueError(
            f"The text has version {version!r}; this library reads {MODEL_VERSION}. Load it with the release "
            "that wrote it."
        )
    missing = sorted({"apolar", "parameters", *_REQUIRED} - set(content))
    if missing:
        raise ValueError(f"The text is not {WHAT}: it has no {', '.join(missing)}.")
    content["parameters"] = json.dumps(content["parameters"])
    arrays = {}
    for name, value in content.items():
        try:
            # An empty list does not say that it would hold strings.
            kind = np.str_ if name == "start_notes_" and not value else None
            arrays[name] = np.asarray(np.nan if value is None else value, kind)
        except ValueError as error:
            raise ValueError(f"The text is not {WHAT}: {name} is ragged.") from error
    return _checked_model(cls, arrays, "The text")


def _to_arrays(state: FittedState, parameters: dict[str, Any], names: Any) -> dict[str, Array]:
    """Return a fitted state, the parameters of an estimator and names of columns as the arrays of a file."""
    mixture = state.parameters
    stored = {name: _storable(name, value) for name, value in parameters.items()}
    # Arrays and numbers of NumPy become lists and numbers.
    text = json.dumps(stored, allow_nan=False, default=lambda value: np.asarray(value).tolist())
    arrays = {
        "apolar": np.array(__version__),
        "parameters": np.array(text),
        "precision": np.array(np.dtype(state.dtype).name),
        "n_features_in_": np.array(mixture.n_features),
        "weights_": mixture.weights,
        "means_": mixture.means,
        "covariances_": np.asarray(mixture.covariances, dtype=np.float64),
    }
    if mixture.dof is not None:
        arrays["dof_"] = mixture.dof
    for name, kind in (_SCALARS | _LISTS).items():
        value = getattr(state, name)
        if value is not None:
            arrays[f"{name}_"] = np.asarray(value, dtype=kind)
    if state.clusters is not None:
        cluster_of = {k: i for i, group in enumerate(state.clusters) for k in group}
        arrays["clusters_"] = np.array([float(cluster_of[k]) for k in range(mixture.n_components)])
    for name in state.stored_shapes(state.family, *mixture.means.shape):
        arrays[f"{name}_"] = np.asarray(getattr(state, name), dtype=np.float64)
    if names is not None:
        arrays[_NAMES] = np.array(list(names), dtype=np.str_)
    if mixture.noise is not None:
        arrays |= dict(zip(NOISE_ARRAYS, (mixture.noise.origin, mixture.noise.edges), strict=True))
    return arrays


def _storable(name: str, value: Any) -> Any:
    """Return the value of a parameter as it is written to a file.

    Files hold no code, and no paths, so that a loaded model reads and writes no file unless the user gives it
    a path.
    """
    if name == "checkpoint" or isinstance(value, np.random.Generator | np.random.RandomState):
        return None
    if name == "warm_start" and is_path(value):
        return False
    if name == "init_params" and callable(value):
        return "auto"
    return {type(value).__name__: asdict(value)} if isinstance(value, Prior) else value


def _from_arrays(cls: type[Model], arrays: dict[str, Array]) -> Model:
    """Return the model of the arrays of a file, after checking all of them."""
    parameters = _read_parameters(cls, stored_value(arrays, "parameters", str))
    known: dict[str, Any] = {
        # The likelihood of a mixture that was made from moments alone is unknown.
        name: stored_value(arrays, f"{name}_", kind, may_be_nan=name == "lower_bound")
        for name, kind in _SCALARS.items()
        if name not in _OPTIONAL or f"{name}_" in arrays
    }
    r = check_integer(parameters["n_components"], "n_components", least=1)
    m = check_integer(stored_value(arrays, "n_features_in_", int), "n_features_in_", least=1)
    positive_number(known["n_samples_seen"], "n_samples_seen_")
    kind = family(parameters["covariance_type"], parameters.get("dof"), parameters.get("n_factors"))
    kind = kind.of_stored(np.shape(arrays["covariances_"]))
    mixture = _read_mixture(arrays, kind, r, m)
    state_type = cls._state_type  # type: ignore[attr-defined]
    shapes = {"rounding_variances": (m,), "search": (4,), "clusters": (r,)}
    shapes |= {"lower_bounds": (arrays["lower_bounds_"].size,)}
    known |= {
        name: stored_numbers(arrays, f"{name}_", shape)
        for name, shape in shapes.items()
        if f"{name}_" in arrays
    }
    for name, shape in state_type.stored_shapes(kind, r, m).items():
        known[name] = _read_posterior(arrays, name, shape)
    known |= {
        "start_notes": stored_strings(arrays, "start_notes_"),
        "lower_bounds": known["lower_bounds"].tolist(),
        "shrinkage": _read_strengths(arrays),
    }
    if "search" in known:
        passes, budget, n_rows, seconds = known["search"].tolist()
        known["search"] = SearchCost(passes, budget, int(n_rows), seconds)
    if "clusters" in known:
        found, cluster_of = np.unique(known["clusters"], return_inverse=True)
        if not np.array_equal(found, np.arange(len(found))):
            raise ValueError("clusters_ must number the clusters 0, 1, 2, ...")
        known["clusters"] = tuple(tuple(np.flatnonzero(cluster_of == k).tolist()) for k in found)
    for name in ("rounding_variances", "shrinkage", "search", "n_iter"):
        if known.get(name) is not None and np.any(np.asarray(known[name]) < 0):
            raise ValueError(f"{name}_ must not be negative.")
    precision = stored_value({"precision": np.array("float64"), **arrays}, "precision", str)
    one_of(precision, "precision", ("float32", "float64"))
    model = cls(**parameters)
    if _NAMES in arrays:
        names = stored_strings(arrays, _NAMES)
        if len(names) != m:
            raise ValueError(f"{_NAMES} must be {m} names; there are {len(names)}.")
        vars(model)[_NAMES] = np.array(names, dtype=object)
    state_type(kind, mixture, precision, **known).set_on(model)
    return model


def _read_strengths(arrays: dict[str, Array]) -> Strengths | None:
    """Return the strengths of the default prior; files of earlier versions hold one number, or three."""
    if "shrinkage_" not in arrays:
        return None
    shape = np.shape(arrays["shrinkage_"])
    stored = stored_numbers(arrays, "shrinkage_", shape if shape in ((), (3,)) else (len(Strengths()),))
    strengths = Strengths(*stored.ravel().tolist())
    if strengths.diagonal > 1:
        raise ValueError("The second number of shrinkage_ is a fraction, of at most 1.")
    return strengths if shape or strengths.common else None


def _read_posterior(arrays: dict[str, Array], name: str, shape: tuple[int, ...]) -> Any:
    """Return numbers of a posterior or of its prior, checked; under a process there are two per weight."""
    stored = arrays.get(f"{name}_")
    if stored is None:
        raise ValueError(f"There is no {name}_.")
    is_process = name == "weight_concentration" and stored.ndim == 2
    numbers = stored_numbers(arrays, f"{name}_", (2, *shape) if is_process else shape)
    if name not in ("mean_prior", "covariance_prior") and np.any(numbers <= 0):
        raise ValueError(f"{name}_ must be positive.")
    return tuple(numbers) if is_process else as_plain(numbers)


def _read_mixture(arrays: dict[str, Array], kind: Family, r: int, m: int) -> MixtureParameters:
    """Return the mixture of a file, checked."""
    weights, means = stored_numbers(arrays, "weights_", (r,)), stored_numbers(arrays, "means_", (r, m))
    noise = _read_noise(arrays, m)
    total = weights.sum() if noise is None else max(weights.sum(), 1.0)
    if np.any(weights < 0) or not np.any(weights) or not np.isclose(total, 1, atol=1e-6):
        raise ValueError("weights_ must not be negative, and must add up to one, or with noise to less.")
    covariances = stored_numbers(arrays, "covariances_", kind.covariance_shape(r, m))
    kind.check_covariances(covariances, "covariances_")
    dof = None if kind.dof is None else stored_numbers(arrays, "dof_", (r,))
    if dof is not None and np.any(dof < MIN_DOF):
        raise ValueError(f"dof_ must be at least {MIN_DOF:g}.")
    mixture = MixtureParameters(weights, means, covariances, noise, dof=dof)
    with np.errstate(all="ignore"):
        inverses = [kind.precisions(covariances)]
        inverses += [] if kind.has_factors else [kind.whiteners(covariances)]
        whitening = whitening_around(mixture, kind)
        whitened = whitening.transform_parameters(mixture)
    if not all(np.all(np.isfinite(inverse)) for inverse in inverses):
        raise ValueError("covariances_ are too small: their inverses overflow.")
    if not (np.isfinite(whitening.log_det) and np.all(np.isfinite(whitened.means))):
        raise ValueError("means_ are too large: their squares overflow.")
    return mixture


def _read_noise(arrays: dict[str, Array], m: int) -> NoiseBox | None:
    """Return the box of the noise component, if the file has one."""
    found = [name for name in NOISE_ARRAYS if name in arrays]
    if not found:
        return None
    if len(found) < len(NOISE_ARRAYS):
        raise ValueError(f"There is only {found[0]}; a noise box needs {' and '.join(NOISE_ARRAYS)}.")
    origin, edges = NOISE_ARRAYS
    shape = (m,) * arrays[edges].ndim or (m,)
    box = NoiseBox(stored_numbers(arrays, origin, (m,)), stored_numbers(arrays, edges, shape))
    with np.errstate(all="ignore"):
        if not (np.isfinite(box.log_volume) and (len(shape) == 2 or np.all(box.edges > 0))):
            raise ValueError("The noise box has no volume.")
    return box


def _read_parameters(cls: type[Any], text: str) -> dict[str, Any]:
    """Return the parameters of a JSON text, checked; those that it lacks have their defaults."""
    stored = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(stored, dict):
        raise ValueError("The parameters must be a JSON object.")
    parameters: dict[str, Any] = cls().get_params(deep=False)
    unknown = sorted(set(stored) - set(parameters))
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameter {unknown[0][:60]!r}.")
    for name, value in stored.items():
        if isinstance(value, dict):
            kind, fields = next(iter(value.items()), ("", None))
            if len(value) != 1 or kind not in PRIORS or not isinstance(fields, dict):
                raise ValueError(f"{name} has an unknown type.")
            value = PRIORS[kind](**fields)
        elif isinstance(value, list) and np.asarray(value).dtype.kind not in "biufU":
            raise ValueError(f"{name} must be an array of numbers or strings.")
        # A value that is never written is not accepted from a file: above all, a path.
        elif _storable(name, value) is not value:
            raise ValueError(f"{name} must be one that files can hold; got {value!r}.")
        parameters[name] = value
    validate_parameter_constraints(constraints(), parameters, cls.__name__)
    return parameters


def _refuse_constant(text: str) -> None:
    raise ValueError(f"The parameters contain {text}.")


# --- checkpoints --------------------------------------------------------------------------------


class Checkpoint:
    """What is called after each pass of a fit, and writes the best mixture of all runs to a file.

    It writes after the first pass, then after each `checkpoint_every`-th if the mixture is better than the
    one in the file, and at the end. If a write fails, it warns once, and tries again when the next is due.

    Parameters
    ----------
    estimator : GaussianMixture
        Its parameters are written with the mixture. Labels and responsibilities as `init_params` are as long
        as the table, and are written as "auto".
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.n_passes, self.has_warned = 0, False
        self.state_of: Callable[[Fit], FittedState] | None = None
        # The best results of the runs that have ended, and of all so far; the mixture in the file.
        self.ended: Fit | None = None
        self.best: Fit | None = None
        self.written: WhitenedParameters | None = None

    def __call__(self, fit: Fit, state_of: Callable[[Fit], FittedState]) -> bool:
        """Record a pass, and write if a write is due; never ask to stop."""
        if state_of is not self.state_of:
            # A new search: likelihoods with and without rounding errors cannot be compared.
            self.state_of, self.n_passes, self.best = state_of, 0, None
        if fit.n_iter == 1:
            self.ended = self.best
        # By likelihood: that of rows left out is known only at the end of a run.
        is_best = self.ended is None or fit.log_likelihood > self.ended.log_likelihood
        best = self.best = fit if is_best or self.ended is None else self.ended
        is_due = self.n_passes % self.estimator.checkpoint_every == 0
        self.n_passes += 1
        if best.parameters is self.written or not is_due:
            return False
        message = (
            f"Checkpoint after pass {self.n_passes}: EM has not converged. To continue, fit the same "
            "rows with the same parameters, this file as checkpoint, and warm_start=True."
        )
        if self.write(replace(state_of(best), start="checkpoint", start_notes=[], message=message)):
            self.written = best.parameters
        return False

    def write(self, state: FittedState) -> bool:
        """Write a mixture; return whether that worked."""
        path, init_params = self.estimator.checkpoint, self.estimator.init_params
        try:
            init_params = init_params if isinstance(init_params, str) else "auto"
            save_model(self.estimator, path, state, init_params=init_params)
        # The disk is full, or the mixture has collapsed so far that its precisions overflow.
        except (OSError, ValueError) as error:
            if not self.has_warned:
                self.has_warned = True
                warn_user(
                    f"The checkpoint {path} could not be written: {error}. The fit continues, and tries "
                    f"again every {self.estimator.checkpoint_every} passes.",
                    CheckpointWarning,
                )
            return False
        return True


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which no checkpoint can be written, before the fit begins."""
    target = check_target(path)
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        # With the errno, OSError makes an error of the same class, such as PermissionError.
        raise OSError(
            error.errno,
            f"The folder {target.parent} of the checkpoint cannot be written to ({error.strerror}): give "
            "checkpoint another path.",
        ) from error


def stored_state(estimator: Any, kind: Family, n_features: int) -> FittedState | None:
    """Return the mixture of the file that a fit resumes from; None without such a file.

    Parameters
    ----------
    estimator : GaussianMixture
        With `warm_start`. If that is a path, it is the file. If it is true, the file is the checkpoint,
        provided that this exists and the estimator has not been fitted.
    kind : Family
    n_features : int

    Returns
    -------
    state : FittedState or None

    Raises
    ------
    FileNotFoundError
        If `warm_start` is a path, and the file does not exist.
    ValueError
        If the file is damaged, or its mixture is not of that family and size.
    """
    is_given = is_path(estimator.warm_start)
    path = estimator.warm_start if is_given else estimator.checkpoint
    has_file = path is not None and os.path.exists(path)
    if not is_given and (not (estimator.warm_start and has_file) or hasattr(estimator, "weights_")):
        return None
    if not has_file:
        raise FileNotFoundError(
            f"There is no file {path!s} to start from. Give warm_start the path of a saved mixture; "
            "warm_start=True continues from the checkpoint if there is one."
        )
    state = FittedState.of(load_model(type(estimator), path))
    found = state.family.name, *state.parameters.means.shape
    asked = kind.name, estimator.n_components, n_features
    if found != asked:
        held, wanted = (
            f"a mixture of n_components={n}, covariance_type={name!r}, {m} columns"
            for name, n, m in (found, asked)
        )
        raise ValueError(
            f"{path!s} holds {held}, but this estimator has {wanted}. Delete the file to start again, "
            "or change the parameters to those of the file."
        )
    return state
