"""Families in which each component has axes of its own, and all have the same shape."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families.parts import positive
from apolar.mixture.families.rotated_parts import RotatedParts


class OwnAxes(RotatedParts):
    """Covariances of one shape: their axes are those of the scatter of each component, in its order."""

    def axes_of(self, covariances: Array) -> tuple[Array, Array]:
        values, axes = np.linalg.eigh(covariances)
        return axes, positive(values)
