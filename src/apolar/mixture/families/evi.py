"""Diagonal covariances of one volume, with shapes of their own (mclust's EVI)."""

from __future__ import annotations

from apolar._core.arrays import Array
from apolar.mixture.families.aligned_parts import AlignedParts
from apolar.mixture.families.parts import geometric_mean, positive


class EVI(AlignedParts):
    """Components stretched along the columns, each in its own proportions, all of the same volume."""

    name = code = "EVI"
    words = "stretched along the columns, each in its own proportions, all of the same volume"

    def covariances_estimated(self, scatter: Array, divisor: Array, near: Array | None) -> Array:
        scatter = positive(scatter)
        roots = geometric_mean(scatter)
        volume = roots.sum(axis=-1) / divisor.sum(axis=-1)
        return scatter * (volume[..., None] / roots)[..., None]
