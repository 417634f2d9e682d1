"""Full covariances of one shape and orientation, with volumes of their own (mclust's VEE)."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import (
    MIN_VOLUME,
    MIN_WEIGHT,
    NEAR_ROUNDS,
    VOLUME_ROUNDS,
    VOLUME_TOLERANCE,
)
from apolar.mixture.families.base import Family
from apolar.mixture.families.triangular_parts import TriangularParts
from apolar.mixture.families.vei import VEI


class VEE(TriangularParts):
    """Components that are copies of one another, each of its own size."""

    name = code = "VEE"
    words = "stretched in any direction, all in the same way but each with its own size"

    @property
    def without_correlations(self) -> Family:
        return VEI()

    def covariances_estimated(self, scatter: Array, divisor: Array, near: Array | None) -> Array:
        n_features = scatter.shape[-1]
        if near is None:
            volumes, rounds = np.ones_like(divisor), VOLUME_ROUNDS
        else:
            volumes, rounds = np.exp(self.log_det(near, n_features) / n_features), NEAR_ROUNDS
        for _ in range(rounds):
            # Up to a factor: it is floored relative to its size, as it is singular if rows are few.
            relative = volumes / volumes.max(axis=-1, keepdims=True)
            common = (scatter / relative[..., None, None]).sum(axis=-3)
            size = np.abs(self.diagonals(common)).mean(axis=-1)[..., None, None]
            common = self.floored(common / np.maximum(size, MIN_WEIGHT))
            common = common / np.exp(self.log_det(common, n_features) / n_features)[..., None, None]
            before = volumes
            volumes = self.trace_ratio(scatter, common[..., None, :, :]) / (n_features * divisor)
            least = np.maximum(MIN_VOLUME * volumes.max(axis=-1, keepdims=True), MIN_WEIGHT)
            volumes = np.maximum(volumes, least)
            if np.all(np.abs(volumes - before) <= VOLUME_TOLERANCE * volumes):
                break
        return volumes[..., None, None] * common[..., None, :, :]
