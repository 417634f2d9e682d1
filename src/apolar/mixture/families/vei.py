"""Diagonal covariances of one shape, with volumes of their own (mclust's VEI)."""

from __future__ import annotations

from apolar._core.arrays import Array
from apolar.mixture.families.aligned_parts import AlignedParts
from apolar.mixture.families.parts import volumes_and_shape


class VEI(AlignedParts):
    """Components stretched along the columns in the same proportions, each of its own size."""

    name = code = "VEI"
    words = "stretched along the columns in the same proportions, each with its own size"

    def covariances_estimated(self, scatter: Array, divisor: Array, near: Array | None) -> Array:
        volumes, shape = volumes_and_shape(scatter, divisor)
        return volumes[..., None] * shape[..., None, :]
