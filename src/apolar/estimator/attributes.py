"""The fitted attributes of an estimator, in single or double precision: made, set and read here only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import evidence_of
from apolar.mixture.families import Family, family
from apolar.mixture.noise import noise_weights
from apolar.mixture.parameters import MixtureParameters

__all__ = [
    "exact_parameters",
    "fitted_parameters",
    "is_fitted_as",
    "parameter_attributes",
    "public_parameters",
    "result_attributes",
    "set_parameters",
    "was_rounded",
]


def fitted_parameters(estimator: Any) -> MixtureParameters:
    """Return the mixture of a fitted estimator, in the units of the data and in double precision.

    Raises
    ------
    ValueError
        If `covariance_type` has been changed since the fit.
    """
    if not is_fitted_as(estimator, family(estimator.covariance_type), *estimator.means_.shape):
        raise ValueError(
            f"The mixture was not fitted with covariance_type={estimator.covariance_type!r}: fit it again."
        )
    return exact_parameters(vars(estimator))


def is_fitted_as(estimator: Any, kind: Family, n_components: int, n_features: int) -> bool:
    """Return whether an estimator holds a fitted mixture of that family and size."""
    if not hasattr(estimator, "weights_") or estimator.means_.shape != (n_components, n_features):
        return False
    return np.shape(estimator.covariances_) == kind.covariance_shape(n_components, n_features)


def was_rounded(estimator: Any) -> bool:
    """Return whether the last fit took the rows to be known up to their rounding errors."""
    return bool(np.any(vars(estimator).get("rounding_variances_", 0.0)))


def set_parameters(estimator: Any, parameters: MixtureParameters, dtype: Any = np.float64) -> None:
    """Set the fitted attributes of a mixture, which is of the family of the estimator's `covariance_type`."""
    kind = family(estimator.covariance_type)
    for name, value in parameter_attributes(kind, parameters, np.dtype(dtype)).items():
        setattr(estimator, name, value)


def public_parameters(attributes: Mapping[str, Any]) -> MixtureParameters:
    """Return the mixture of fitted attributes, in double precision."""
    weights, means, covariances = (
        np.asarray(attributes[name], dtype=np.float64) for name in ("weights_", "means_", "covariances_")
    )
    return MixtureParameters(weights, means, covariances, attributes.get("noise_box_"))


def exact_parameters(attributes: Mapping[str, Any]) -> MixtureParameters:
    """Return the mixture that fitted attributes were rounded from; the attributes, if they were set since."""
    public, exact = public_parameters(attributes), attributes.get("_exact")
    return exact if exact is not None and _rounds_to(exact, public) else public


def _rounds_to(exact: MixtureParameters, public: MixtureParameters) -> bool:
    """Return whether a mixture, rounded to single precision, equals another one."""
    with np.errstate(over="ignore", under="ignore"):
        return all(
            np.array_equal(np.asarray(getattr(exact, name), dtype=np.float32), getattr(public, name))
            for name in ("weights", "means", "covariances")
        )


def parameter_attributes(kind: Family, parameters: MixtureParameters, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return a mixture as fitted attributes of a floating type.

    With attributes in single precision, `_exact` holds the mixture before rounding: predictions from nearly
    singular covariances need it. If a value leaves the range of single precision, all attributes are in
    double precision.

    Parameters
    ----------
    kind : Family
    parameters : MixtureParameters
    dtype : dtype
        float32 or float64.

    Returns
    -------
    attributes : dict
        weights_, means_, covariances_, precisions_, precisions_cholesky_, noise_weight_, noise_box_ and
        _exact.
    """
    noise = {
        "noise_weight_": 0.0 if parameters.noise is None else float(noise_weights(parameters.weights)),
        "noise_box_": parameters.noise,
    }
    if not parameters.is_finite:
        raise ValueError(
            "EM ended in parameters that are not finite: components vary by less than rounding errors. "
            "Ask for fewer components, or use the default prior in place of prior=None."
        )
    try:
        whiteners = kind.whiteners(parameters.covariances)
    except np.linalg.LinAlgError:
        raise ValueError(
            "In the units of X, a covariance is singular up to rounding: leave out columns that "
            "hardly vary or nearly repeat others, or give a larger reg_covar."
        ) from None
    attributes = {
        "weights_": parameters.weights,
        "means_": parameters.means,
        "covariances_": parameters.covariances,
        "precisions_": kind.precisions(parameters.covariances),
        "precisions_cholesky_": whiteners,
    }
    if dtype == np.float32:
        with np.errstate(over="ignore", under="ignore"):
            single = {name: np.asarray(value).astype(np.float32)[()] for name, value in attributes.items()}
        names = ("covariances_", "precisions_", "precisions_cholesky_")
        spreads = [kind.diagonals(np.asarray(single[name])) for name in names]
        in_range = all(np.all(np.isfinite(value)) for value in single.values())
        if in_range and all(np.all(value > 0) for value in spreads):
            return single | noise | {"_exact": parameters}
    # The single variance of "tied_spherical" is a NumPy scalar, not an array of no dimensions.
    return {name: np.asarray(value)[()] for name, value in attributes.items()} | noise | {"_exact": None}


def result_attributes(result: Fit, data: Problem, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the fitted attributes of a result of EM on the data."""
    parameters = data.whitening.inverse_transform_parameters(result.parameters)
    # The density of a row in the units of the data is that in whitened coordinates times |det A|.
    offset = data.whitening.log_det
    noise = data.whitening.noise
    return parameter_attributes(data.family, parameters, dtype) | {
        "converged_": result.status is FitStatus.CONVERGED,
        "n_iter_": result.n_iter,
        "lower_bound_": result.log_likelihood / data.weight + offset,
        "lower_bounds_": [value / data.weight + offset for value in result.history],
        "rounding_variances_": noise if isinstance(noise, np.ndarray) else np.zeros(data.n_features),
        "evidence_": evidence_of(data, result) + offset * data.weight,
        "n_features_in_": data.n_features,
        "n_samples_seen_": data.weight,
        "shrinkage_": result.shrinkage,
        "start_": result.start,
        "start_notes_": list(result.skipped),
        "message_": result.status.value,
    }
