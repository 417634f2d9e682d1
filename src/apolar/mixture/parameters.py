"""Mixtures of Gaussians as arrays, one or a batch of them at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array


@dataclass(frozen=True, eq=False)
class Components:
    """The parameters of a mixture, or of a batch of mixtures along leading axes.

    Attributes
    ----------
    weights : ndarray, shape (..., n_components)
    means : ndarray, shape (..., n_components, n_features)
    covariances : ndarray
        In the shape of their family: (..., n_components) spherical,
        (..., n_components, n_features) diagonal, (..., n_components,
        n_features, n_features) full, and the same without n_components tied.
    """

    weights: Array
    means: Array
    covariances: Array

    @property
    def n_components(self) -> int:
        """The number of components of each mixture."""
        return int(self.weights.shape[-1])

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self.means.shape[-1])

    def __getitem__(self, index: Any) -> Components:
        """Return some mixtures of a batch."""
        return Components(self.weights[index], self.means[index], self.covariances[index])

    @property
    def is_finite(self) -> bool:
        """Whether every number is one."""
        return all(bool(np.all(np.isfinite(a))) for a in (self.weights, self.means, self.covariances))


def batch(mixtures: Sequence[Components]) -> Components:
    """Return mixtures of one shape as a batch."""
    return Components(
        np.stack([c.weights for c in mixtures]),
        np.stack([c.means for c in mixtures]),
        np.stack([c.covariances for c in mixtures]),
    )
