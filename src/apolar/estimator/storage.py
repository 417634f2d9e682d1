"""Fitted models as files without code: parameters as JSON, fitted attributes as arrays."""

from __future__ import annotations

import json
import os
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apolar import __version__
from apolar._core.arrays import Array
from apolar._core.checks import check_integer, one_of, positive_number
from apolar._core.files import load_arrays, save_arrays, stored_numbers, stored_value
from apolar.em.whitening import whitening_around
from apolar.estimator.attributes import exact_parameters, parameter_attributes
from apolar.estimator.parameters import PARAMETERS
from apolar.mixture.families import Family, family
from apolar.mixture.noise import NoiseBox
from apolar.mixture.parameters import MixtureParameters
from apolar.mixture.prior import PRIORS, Prior

__all__ = ["load_model", "save_model"]

FORMAT = "apolar Gaussian mixture"
VERSION = 1

# The fitted attributes that are stored. Precisions are computed from covariances, so that the two agree.
_NUMBERS = ("weights_", "means_", "covariances_", "lower_bounds_")
_SCALARS: dict[str, type] = {
    "converged_": bool,
    "n_iter_": int,
    "n_features_in_": int,
    "n_samples_seen_": float,
    "lower_bound_": float,
    "start_": str,
    "message_": str,
}
# Stored if it is known. It is not after a stream, of a mixture from moments, and in files of older versions.
_OPTIONAL: dict[str, type] = {"evidence_": float}
# May be NaN: the likelihood of a mixture that was made from moments alone is unknown.
_PERHAPS_UNKNOWN = ("lower_bound_",)
_STRINGS = ("start_notes_",)
_NAMES = "feature_names_in_"
# The floating type of the attributes; files of older versions lack it, and are of float64.
_PRECISION = "precision"
# The variances of rounding errors; files of older versions lack them, and are of fits without.
_ROUNDING = "rounding_variances_"
# By how many rows covariances were shrunk; files of older versions lack it, and are of fits without.
_SHRINKAGE = "shrinkage_"
# The box of the noise component; files of mixtures without noise lack it.
_NOISE = ("noise_origin", "noise_edges")

Model = TypeVar("Model")


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted mixture to a file of arrays, with a version and a checksum, and without code.

    The file is written completely or not at all. Parameters that are arrays are loaded as lists. A generator
    as `random_state` and a callable `init_params` cannot be stored: they are loaded as None and "auto", which
    does not change any prediction. Paths are not stored: `checkpoint` is loaded as None, and a path as
    `warm_start` as False. After `partial_fit`, the mixture is stored and the sums of the stream are not: the
    loaded model continues as after `fit`.

    Parameters
    ----------
    model : GaussianMixture
        Fitted; otherwise scikit-learn's NotFittedError is raised.
    path : str or path
    """
    check_is_fitted(model, [*_NUMBERS, *_SCALARS, *_STRINGS])
    try:
        arrays = _arrays(model)
        # The checks of `load_model`, so that every file that is written can be read.
        _restored(type(model), arrays)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"This {type(model).__name__} cannot be saved: {str(error).rstrip('.')}. "
            "Give it the parameters it was fitted with, as numbers and strings, or fit it again."
        ) from error
    save_arrays(path, FORMAT, VERSION, arrays)


def load_model(cls: type[Model], path: str | os.PathLike[str]) -> Model:
    """Read a fitted mixture from a file that `save_model` wrote.

    Parameters
    ----------
    cls : type
        The class of the estimator: GaussianMixture.
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
    names = ["apolar", "parameters", *_NUMBERS, *_SCALARS, *_STRINGS]
    arrays = load_arrays(path, FORMAT, VERSION, "a Gaussian mixture of apolar", names=names)
    try:
        return _restored(cls, arrays)
    # JSON can be nested too deeply for Python, and hold integers that are too large for a float.
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"{path}, written by apolar {str(arrays['apolar'])[:20]}, holds no sound mixture: "
            f"{str(error).rstrip('.')}. Save the model again, with the release that reads it: this is "
            f"{__version__}."
        ) from error


def _arrays(model: Any) -> dict[str, Array]:
    """Return a fitted model as the arrays of a file."""
    parameters = {name: _plain(name, value) for name, value in model.get_params(deep=False).items()}
    arrays = {
        "apolar": np.array(__version__),
        "parameters": np.array(json.dumps(parameters, allow_nan=False)),
    }
    # Of attributes in single precision, the values before rounding are stored.
    mixture = exact_parameters(vars(model))
    for name in _NUMBERS:
        value = getattr(mixture, name[:-1], None)
        arrays[name] = np.asarray(getattr(model, name) if value is None else value, dtype=np.float64)
    arrays[_PRECISION] = np.array(np.asarray(model.means_).dtype.name)
    for name, kind in (_SCALARS | _OPTIONAL).items():
        if name in _SCALARS or hasattr(model, name):
            arrays[name] = np.array(kind(getattr(model, name)))
    for name in (*_STRINGS, _NAMES):
        if hasattr(model, name):
            arrays[name] = np.array(list(getattr(model, name)), dtype=np.str_)
    if hasattr(model, _ROUNDING):
        arrays[_ROUNDING] = np.asarray(getattr(model, _ROUNDING), dtype=np.float64)
    if hasattr(model, _SHRINKAGE):
        arrays[_SHRINKAGE] = np.array(float(getattr(model, _SHRINKAGE)))
    if mixture.noise is not None:
        arrays |= dict(zip(_NOISE, (mixture.noise.origin, mixture.noise.edges), strict=True))
    return arrays


def _restored(cls: type[Model], arrays: dict[str, Array]) -> Model:
    """Return the model of the arrays of a file, after checking all of them."""
    parameters = _parameters(cls, stored_value(arrays, "parameters", str))
    attributes: dict[str, Any] = {
        name: stored_value(arrays, name, kind, may_be_nan=name in _PERHAPS_UNKNOWN)
        for name, kind in (_SCALARS | _OPTIONAL).items()
        if name in _SCALARS or name in arrays
    }
    missing = [name for name in _NOISE if name not in arrays]
    if len(missing) == 1:
        raise ValueError(f"{missing[0]} is missing.")
    r = check_integer(parameters["n_components"], "n_components", least=1)
    m = check_integer(attributes["n_features_in_"], "n_features_in_", least=1)
    check_integer(attributes["n_iter_"], "n_iter_", least=0)
    positive_number(attributes["n_samples_seen_"], "n_samples_seen_")
    weights = stored_numbers(arrays, "weights_", (r,))
    noise = _checked_noise(arrays, m)
    total = weights.sum() if noise is None else max(weights.sum(), 1.0)
    if np.any(weights < 0) or not np.isclose(total, 1, atol=1e-6):
        raise ValueError("weights_ must not be negative, and must add up to one, or with noise to less.")
    if not np.any(weights > 0):
        raise ValueError("weights_ are all zero.")
    means = stored_numbers(arrays, "means_", (r, m))
    kind = family(parameters["covariance_type"])
    mixture = MixtureParameters(weights, means, _checked_covariances(arrays, kind, r, m), noise)
    with np.errstate(all="ignore"):
        whitening = whitening_around(mixture, kind)
        whitened = whitening.transform_parameters(mixture)
    if not (np.isfinite(whitening.log_det) and np.all(np.isfinite(whitened.means))):
        raise ValueError("means_ are too large: their squares overflow.")
    precision = stored_value(arrays, _PRECISION, str) if _PRECISION in arrays else "float64"
    one_of(precision, _PRECISION, ("float32", "float64"))
    attributes |= parameter_attributes(kind, mixture, np.dtype(precision))
    n_bounds = arrays["lower_bounds_"].size
    attributes["lower_bounds_"] = stored_numbers(arrays, "lower_bounds_", (n_bounds,)).tolist()
    attributes[_ROUNDING] = np.zeros(m)
    if _ROUNDING in arrays:
        attributes[_ROUNDING] = stored_numbers(arrays, _ROUNDING, (m,))
        if np.any(attributes[_ROUNDING] < 0):
            raise ValueError(f"{_ROUNDING} must not be negative.")
    attributes[_SHRINKAGE] = stored_value(arrays, _SHRINKAGE, float) if _SHRINKAGE in arrays else 0.0
    if attributes[_SHRINKAGE] < 0:
        raise ValueError(f"{_SHRINKAGE} must not be negative.")
    for name in _STRINGS:
        attributes[name] = _strings(arrays[name], name)
    if _NAMES in arrays:
        names = _strings(arrays[_NAMES], _NAMES)
        if len(names) != m:
            raise ValueError(f"{_NAMES} must be {m} names; there are {len(names)}.")
        attributes[_NAMES] = np.array(names, dtype=object)
    model = cls(**parameters)
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def _checked_covariances(arrays: dict[str, Array], kind: Family, r: int, m: int) -> Array:
    """Return the covariances, checked to be valid for the family and to have inverses."""
    covariances = stored_numbers(arrays, "covariances_", kind.covariance_shape(r, m))
    kind.check_covariances(covariances, "covariances_")
    with np.errstate(all="ignore"):
        precisions, whiteners = kind.precisions(covariances), kind.whiteners(covariances)
    if not (np.all(np.isfinite(precisions)) and np.all(np.isfinite(whiteners))):
        raise ValueError("covariances_ are too small: their inverses overflow.")
    return covariances


def _checked_noise(arrays: dict[str, Array], m: int) -> NoiseBox | None:
    """Return the box of the noise component, if the file has one."""
    if _NOISE[0] not in arrays:
        return None
    shape = (m, m) if arrays[_NOISE[1]].ndim == 2 else (m,)
    box = NoiseBox(stored_numbers(arrays, _NOISE[0], (m,)), stored_numbers(arrays, _NOISE[1], shape))
    with np.errstate(all="ignore"):
        is_sound = np.isfinite(box.log_volume) and (len(shape) == 2 or np.all(box.edges > 0))
    if not is_sound:
        raise ValueError("The box of the noise has no volume.")
    return box


def _strings(array: Array, name: str) -> list[str]:
    if array.dtype.kind != "U" or array.ndim != 1:
        raise ValueError(f"{name} must be a list of strings.")
    return [str(string) for string in array.tolist()]


# --- parameters as text -----------------------------------------------------------------------


def _plain(name: str, value: Any) -> Any:
    """Return a parameter as a value that JSON can hold."""
    value = PARAMETERS[name].stored(value) if name in PARAMETERS else value
    if isinstance(value, dict):
        return {key: _plain(key, entry) for key, entry in value.items()}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    plain = np.asarray(value).tolist()
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The parameter {name} cannot be written as text: {error}.") from error
    return plain


def _parameters(cls: type[Any], text: str) -> dict[str, Any]:
    """Return the parameters of a JSON text, checked; those that it lacks have their defaults."""
    stored = json.loads(text, parse_constant=_refused_constant)
    if not isinstance(stored, dict):
        raise ValueError("The parameters are no table of names and values.")
    parameters: dict[str, Any] = cls().get_params(deep=False)
    unknown = sorted(set(stored) - set(parameters))
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameter {unknown[0][:60]!r}.")
    parameters |= {name: _decoded(value, name) for name, value in stored.items()}
    for name, value in parameters.items():
        PARAMETERS[name].check(value, name)
        # A value that is never written is not accepted from a file: above all, a path.
        if not isinstance(value, Prior):
            one_of(value, name, (PARAMETERS[name].stored(value),))
    return parameters


def _decoded(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        kind, fields = next(iter(value.items()), ("", None))
        if len(value) != 1 or kind not in PRIORS or not isinstance(fields, dict):
            raise ValueError(f"{name} is of no known kind.")
        return PRIORS[kind](**fields)
    if isinstance(value, list) and np.asarray(value).dtype.kind not in "biufU":
        raise ValueError(f"{name} must be an array of numbers or strings.")
    return value


def _refused_constant(text: str) -> None:
    raise ValueError(f"The parameters contain {text}.")
