"""Full covariances with the same axes and volume (mclust's EVE)."""

from __future__ import annotations

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.common_axes import CommonAxes
from apolar.mixture.families.evi import EVI
from apolar.mixture.families.parts import geometric_mean


class EVE(CommonAxes):
    """Components stretched along the same axes, each in its own proportions, all of the same volume."""

    name = code = "EVE"
    words = "stretched along the same axes, each in its own proportions, all of the same volume"

    @property
    def without_correlations(self) -> Family:
        return EVI()

    def variances_maximising(self, scatter: Array, divisor: Array) -> Array:
        return EVI().covariances_estimated(scatter, divisor, None)

    def plane_factors(self, along: Array, divisor: Array) -> Array:
        return geometric_mean(along)
