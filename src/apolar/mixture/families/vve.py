"""Full covariances with the same axes (mclust's VVE)."""

from __future__ import annotations

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.common_axes import CommonAxes
from apolar.mixture.families.diagonal import Diagonal


class VVE(CommonAxes):
    """Components stretched along the same axes, each in its own way."""

    name = code = "VVE"
    words = "stretched along the same axes, each in its own way"

    @property
    def without_correlations(self) -> Family:
        return Diagonal()

    def variances_maximising(self, scatter: Array, divisor: Array) -> Array:
        return scatter / divisor[..., None]

    def plane_factors(self, along: Array, divisor: Array) -> Array:
        return divisor
