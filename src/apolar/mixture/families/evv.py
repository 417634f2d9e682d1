"""Full covariances of one volume (mclust's EVV)."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.evi import EVI
from apolar.mixture.families.triangular_parts import TriangularParts


class EVV(TriangularParts):
    """Components stretched in any direction, each in its own way, all of the same volume."""

    name = code = "EVV"
    words = "stretched in any direction, each in its own way, all of the same volume"

    @property
    def without_correlations(self) -> Family:
        return EVI()

    def covariances_estimated(self, scatter: Array, divisor: Array, near: Array | None) -> Array:
        n_features, extra = scatter.shape[-1], (..., None, None)
        # Without a prior, the scatter of a component of few rows has no determinant to speak of.
        scatter = self.floored(scatter / divisor[extra]) * divisor[extra]
        roots = np.exp(self.log_det(scatter, n_features) / n_features)
        volume = roots.sum(axis=-1) / divisor.sum(axis=-1)
        return scatter * (volume[..., None] / roots)[..., None, None]
