"""A mixture as the attributes of a fitted estimator, in single or double precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters


def as_parameters(attributes: Mapping[str, Any]) -> MixtureParameters:
    """Return fitted attributes as a mixture, in double precision."""
    names = ("weights_", "means_", "covariances_")
    return MixtureParameters(*(np.asarray(attributes[name], dtype=np.float64) for name in names))


def exact_parameters(attributes: Mapping[str, Any]) -> MixtureParameters:
    """Return the mixture that fitted attributes were rounded from, unless somebody has set others since."""
    public, exact = as_parameters(attributes), attributes.get("_exact")
    return exact if exact is not None and _rounds_to(exact, public) else public


def _rounds_to(exact: MixtureParameters, public: MixtureParameters) -> bool:
    """Return whether a mixture, in single precision, is another one."""
    with np.errstate(over="ignore", under="ignore"):
        pairs = zip(vars(exact).values(), vars(public).values(), strict=True)
        return all(np.array_equal(np.asarray(a, dtype=np.float32), b) for a, b in pairs)


def fitted_attributes(kind: Family, parameters: MixtureParameters, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return a mixture as fitted attributes of a floating type.

    Beside those of single precision, `_exact` keeps what they were rounded from: covariances that are nearly
    singular need it. Squares that leave the range of single precision stay in double precision.
    """
    found = {
        "weights_": parameters.weights,
        "means_": parameters.means,
        "covariances_": parameters.covariances,
        "precisions_": kind.precisions(parameters.covariances),
        "precisions_cholesky_": kind.whiteners(parameters.covariances),
    }
    if dtype == np.float32:
        with np.errstate(over="ignore", under="ignore"):
            single = {name: np.asarray(value).astype(np.float32)[()] for name, value in found.items()}
        spreads = [
            kind.diagonals(np.asarray(single[name])) for name in found if name not in ("weights_", "means_")
        ]
        in_range = all(np.all(np.isfinite(value)) for value in single.values())
        if in_range and all(np.all(value > 0) for value in spreads):
            return single | {"_exact": parameters}
    # A single variance is a NumPy number, not an array without axes.
    return {name: np.asarray(value)[()] for name, value in found.items()} | {"_exact": None}
