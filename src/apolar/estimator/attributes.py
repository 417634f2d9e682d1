"""Fitted parameters as the attributes of an estimator, in single or double precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apolar.em.result import FitResult, FitStatus
from apolar.em.whitened import WhitenedData
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters

__all__ = ["exact_parameters", "parameter_attributes", "public_parameters", "result_attributes"]


def public_parameters(attributes: Mapping[str, Any]) -> MixtureParameters:
    """Return the mixture of fitted attributes, in double precision."""
    names = ("weights_", "means_", "covariances_")
    return MixtureParameters(*(np.asarray(attributes[name], dtype=np.float64) for name in names))


def exact_parameters(attributes: Mapping[str, Any]) -> MixtureParameters:
    """Return the mixture that fitted attributes were rounded from, unless somebody has set others since."""
    public, exact = public_parameters(attributes), attributes.get("_exact")
    return exact if exact is not None and _rounds_to(exact, public) else public


def _rounds_to(exact: MixtureParameters, public: MixtureParameters) -> bool:
    """Return whether a mixture, in single precision, is another one."""
    with np.errstate(over="ignore", under="ignore"):
        pairs = zip(vars(exact).values(), vars(public).values(), strict=True)
        return all(np.array_equal(np.asarray(a, dtype=np.float32), b) for a, b in pairs)


def parameter_attributes(
    family: Family, parameters: MixtureParameters, dtype: np.dtype[Any]
) -> dict[str, Any]:
    """Return a mixture as fitted attributes of a floating type: the one place where they are made.

    Beside those of single precision, `_exact` keeps what they were rounded from: covariances that are nearly
    singular need it. Squares that leave the range of single precision stay in double precision.

    Parameters
    ----------
    family : Family
    parameters : MixtureParameters
    dtype : dtype
        float32 or float64.

    Returns
    -------
    attributes : dict
        weights_, means_, covariances_, precisions_, precisions_cholesky_ and _exact.
    """
    attributes = {
        "weights_": parameters.weights,
        "means_": parameters.means,
        "covariances_": parameters.covariances,
        "precisions_": family.precisions(parameters.covariances),
        "precisions_cholesky_": family.whiteners(parameters.covariances),
    }
    if dtype == np.float32:
        with np.errstate(over="ignore", under="ignore"):
            single = {name: np.asarray(value).astype(np.float32)[()] for name, value in attributes.items()}
        names = ("covariances_", "precisions_", "precisions_cholesky_")
        spreads = [family.diagonals(np.asarray(single[name])) for name in names]
        in_range = all(np.all(np.isfinite(value)) for value in single.values())
        if in_range and all(np.all(value > 0) for value in spreads):
            return single | {"_exact": parameters}
    # A single variance is a NumPy number, not an array without axes.
    return {name: np.asarray(value)[()] for name, value in attributes.items()} | {"_exact": None}


def result_attributes(result: FitResult, data: WhitenedData, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return a result of EM, whitened as the data are, as the attributes of a fitted estimator."""
    parameters = data.whitening.inverse_transform_parameters(result.parameters)
    # The density of a row in the units of the data is that in whitened coordinates times |det A|.
    offset = data.whitening.log_det
    return parameter_attributes(data.family, parameters, dtype) | {
        "converged_": result.status is FitStatus.CONVERGED,
        "n_iter_": result.n_iter,
        "lower_bound_": result.log_likelihood / data.weight + offset,
        "lower_bounds_": [value / data.weight + offset for value in result.history],
        "n_features_in_": data.n_features,
        "n_samples_seen_": data.weight,
        "start_": result.start,
        "start_notes_": list(result.skipped),
        "message_": result.status.value,
    }
