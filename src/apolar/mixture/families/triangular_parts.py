"""Families of matrices that share the volume alone, or all but the volume."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families.base import Family
from apolar.mixture.families.full import Full
from apolar.mixture.families.parts import PartlyShared, contrasts
from apolar.mixture.families.tied import Tied


class TriangularParts(PartlyShared, Full):
    """Covariances whose shape and orientation are both shared or both not.

    Around covariances L L^t the coordinates are those of S = L T T^t L^t with T triangular, as without
    sharing; its diagonal is exp(volume) times one of product one.
    """

    @property
    def untied(self) -> Family:
        return Full()

    @property
    def tied(self) -> Family:
        return Tied()

    def covariance_information(self, counts: Array, n_features: int, root: Array) -> Array:
        counts, of_volume, of_shape = self.information_of_variances(counts, n_features)
        of_angles = np.broadcast_to(counts, (len(counts), self._n_angles(n_features)))
        return self.joined(of_volume, of_shape, of_angles)

    def covariance_retraction(self, root: Array, tangents: Array) -> Array:
        return super().covariance_retraction(root, self._untied_tangents(root, tangents))

    def _untied_tangents(self, root: Array, tangents: Array) -> Array:
        """Return the tangent vectors of the same covariances without sharing, shape (n_components, n)."""
        n_components, n_features = root.shape[:2]
        volumes, _, lower = self.parts_of(tangents, n_components, n_features)
        is_diagonal = _is_diagonal(n_features)
        untied = np.empty((n_components, len(is_diagonal)))
        untied[:, is_diagonal] = self.log_deviations(tangents, n_components, n_features)
        untied[:, ~is_diagonal] = np.exp(volumes) * lower
        return untied

    def covariance_gradient(self, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
        n_components, n_features = root.shape[:2]
        untied = self._untied_tangents(root, tangents)
        gradient = super().covariance_gradient(root, untied, scatter, divisor)
        is_diagonal = _is_diagonal(n_features)
        by_deviation, by_lower = gradient[:, is_diagonal], gradient[:, ~is_diagonal]
        volumes = self.parts_of(tangents, n_components, n_features)[0]
        by_volume = by_deviation.sum(axis=1) + (by_lower * untied[:, ~is_diagonal]).sum(axis=1)
        return self.joined(
            by_volume[:, None], by_deviation @ contrasts(n_features), np.exp(volumes) * by_lower
        )


def _is_diagonal(n_features: int) -> Array:
    """Return which entries of a triangle are on its diagonal."""
    rows, columns = np.triu_indices(n_features)
    return rows == columns
