"""Which candidates can be compared, and which families contain others."""

from __future__ import annotations

import re

from apolar.em.problem import Problem
from apolar.em.result import MIN_ROWS
from apolar.em.rounding import has_rounding
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters

__all__ = ["NO_MAXIMUM", "contains", "is_regular", "min_component_rows", "too_many_parameters"]

# Without a prior, a component is taken to have collapsed if a variance is below this fraction of that of all
# rows in the same direction.
MIN_VARIANCE = 1e-5
# Several components are compared if there are this many values for each parameter, and in each component for
# those that it does not share: the likelihood of fewer follows single values (`benchmarks/single_gaussian`).
VALUES_PER_PARAMETER = 3
# What is said of a candidate for which no maximum of the likelihood is found.
NO_MAXIMUM = (
    "the likelihood has no maximum: a component would collapse on a few rows. Ask for fewer components, a "
    "covariance_type with fewer parameters, or criterion='evidence', which fits under a prior."
)
# For the orientation: axis-aligned components are a special case of the same orientation, that of any.
_ORIENTATIONS = {"I": "IEV", "E": "EV", "V": "V"}
_PARTS = {"E": "EV", "V": "V"}
_CODE = re.compile("[EV][EVI][EVI]")


def contains(larger: Family, smaller: Family) -> bool:
    """Return whether every mixture of a family is one of another, so that it cannot be more likely.

    Volume, shape and orientation of the larger family are each at least as free. Spherical components have
    the identity as their shape, which is one shape that components can share.
    """
    if larger == smaller:
        return True
    if not all(_CODE.fullmatch(kind.code) for kind in (larger, smaller)):
        return False
    volume, shape, orientation = (smaller.code[i] for i in range(3))
    if larger.code[0] not in _PARTS[volume]:
        return False
    if shape == "I":
        return True
    return larger.code[1] in _PARTS[shape] and larger.code[2] in _ORIENTATIONS[orientation]


def too_many_parameters(kind: Family, n_components: int, n_features: int, n_samples: float) -> str | None:
    """Return why a candidate is not compared, if there are too few values for its parameters."""
    n_parameters = kind.n_parameters(n_components, n_features)
    if n_components == 1 or n_samples * n_features >= VALUES_PER_PARAMETER * n_parameters:
        return None
    return (
        f"{n_parameters} parameters are too many for {n_samples:.6g} rows of {n_features} columns: ask for "
        "fewer components, or a covariance_type with fewer parameters."
    )


def min_component_rows(kind: Family, n_components: int, n_features: int) -> float:
    """Return the rows that a component needs for the parameters of a covariance that it does not share."""
    if n_components == 1 or kind.shares_covariance:
        return MIN_ROWS
    # What one more component adds, without its weight.
    of_two, of_three = (kind.n_parameters(k, n_features) for k in (2, 3))
    return VALUES_PER_PARAMETER * (of_three - of_two - 1) / n_features


def is_regular(data: Problem, parameters: WhitenedParameters) -> bool:
    """Return whether no component of a fit without a prior is empty, or has collapsed or is about to.

    A component whose rows have too few values for its own parameters collapses on them, unless its covariance
    is shared, or is kept from it only by its form or by rounding: such a maximum says nothing about clusters.
    """
    if not parameters.is_finite:
        return False
    min_rows = min_component_rows(data.family, *parameters.means.shape)
    if float(parameters.weights.min()) * data.weight < min_rows:
        return False
    return has_rounding(data) or data.family.smallest_variance(parameters.covariances) > MIN_VARIANCE
