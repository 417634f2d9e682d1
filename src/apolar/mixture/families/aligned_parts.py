"""Axis-aligned families that share a part of the covariances."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.diagonal import Diagonal
from apolar.mixture.families.parts import PartlyShared, contrasts
from apolar.mixture.families.tied_diagonal import TiedDiagonal


class AlignedParts(PartlyShared, Diagonal):
    """Diagonal covariances with volumes or shapes in common."""

    @property
    def untied(self) -> Family:
        return Diagonal()

    @property
    def tied(self) -> Family:
        return TiedDiagonal()

    @property
    def without_correlations(self) -> Family:
        return self

    def covariance_information(self, counts: Array, n_features: int, root: Array) -> Array:
        counts, of_volume, of_shape = self.information_of_variances(counts, n_features)
        return self.joined(of_volume, of_shape, np.zeros((len(counts), 0)))

    def covariance_retraction(self, root: Array, tangents: Array) -> Array:
        return root**2 * np.exp(2 * self.log_deviations(tangents, *root.shape))

    def covariance_gradient(self, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
        by_column = scatter / self.covariance_retraction(root, tangents) - divisor[:, None]
        of_shape = by_column @ contrasts(root.shape[1])
        return self.joined(by_column.sum(axis=1)[:, None], of_shape, np.zeros((len(root), 0)))
