"""Full covariances of one shape, with volumes and axes of their own (mclust's VEV)."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.own_axes import OwnAxes
from apolar.mixture.families.parts import volumes_and_shape
from apolar.mixture.families.vei import VEI


class VEV(OwnAxes):
    """Components of one shape, each with its own size and turned in its own way."""

    name = code = "VEV"
    words = "of the same shape, each with its own size and turned in its own way"

    @property
    def without_correlations(self) -> Family:
        return VEI()

    def axes_maximising(self, scatter: Array, divisor: Array, near: Array | None) -> tuple[Array, Array]:
        values, axes = np.linalg.eigh(scatter)
        volumes, shape = volumes_and_shape(values, divisor)
        return axes, volumes[..., None] * shape[..., None, :]
