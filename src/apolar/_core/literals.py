"""The names that arguments take, as types: editors complete them.

Arguments are of these types or str, as a name in a variable is a str to a checker of types. What they are
checked against are the tables of families, starts, criteria and methods; a test compares them with these.
"""

from typing import Literal

__all__ = ["Constraint", "CovarianceType", "Criterion", "Field", "Method", "PriorName", "StartName"]

CovarianceType = Literal[
    "full", "tied", "diag", "tied_diag", "spherical", "tied_spherical",
    "VVV", "EEE", "VVI", "EEI", "VII", "EII",
    "VEI", "EVI", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "E", "V",
]  # fmt: skip
"""scikit-learn's names of covariance families, and mclust's codes."""

StartName = Literal[
    "auto", "moments", "overseed", "kmeans", "mbhc", "emem", "k-means++", "random_from_data", "random",
]  # fmt: skip
"""Starts of EM."""

Criterion = Literal["bic", "aic", "icl", "evidence"]
"""What `select` compares candidates by."""

PriorName = Literal["default", "conjugate"]
"""Priors of the estimator."""

Method = Literal["auto", "pencil", "spm"]
"""Methods of decomposition."""

Field = Literal["auto", "real", "complex"]
"""Where the points of a decomposition are looked for."""

Constraint = Literal["nonnegative", "orthogonal"]
"""What the terms of a decomposition have to keep to."""
