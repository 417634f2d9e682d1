"""Full covariances of one volume and shape, with axes of their own (mclust's EEV)."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.own_axes import OwnAxes
from apolar.mixture.families.parts import positive
from apolar.mixture.families.tied_diagonal import TiedDiagonal


class EEV(OwnAxes):
    """Components that are rotated copies of one another."""

    name = code = "EEV"
    words = "of the same size and shape, each turned in its own way"

    @property
    def without_correlations(self) -> Family:
        return TiedDiagonal()

    def axes_maximising(self, scatter: Array, divisor: Array, near: Array | None) -> tuple[Array, Array]:
        values, axes = np.linalg.eigh(scatter)
        pooled = positive(np.maximum(values, 0.0).sum(axis=-2, keepdims=True))
        variances = pooled / divisor.sum(axis=-1)[..., None, None]
        return axes, np.broadcast_to(variances, values.shape)
