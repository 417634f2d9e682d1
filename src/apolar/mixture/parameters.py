"""The parameters of mixtures as arrays, one mixture or a batch: in the units of the data, or whitened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np

from apolar._core.arrays import Array

__all__ = ["AnyParameters", "MixtureParameters", "Parameters", "WhitenedParameters", "batch"]


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a mixture, or of a batch of mixtures along leading axes.

    Attributes
    ----------
    weights : ndarray, shape (..., n_components)
    means : ndarray, shape (..., n_components, n_features)
    covariances : ndarray
        In the shape of their family: (..., n_components) spherical,
        (..., n_components, n_features) diagonal, (..., n_components,
        n_features, n_features) full, and the same without n_components where
        components share one covariance.
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

    def __getitem__(self, index: Any) -> Self:
        """Return some mixtures of a batch."""
        return type(self)(self.weights[index], self.means[index], self.covariances[index])

    @property
    def is_finite(self) -> bool:
        """Whether no parameter is NaN or infinite."""
        return all(bool(np.all(np.isfinite(a))) for a in (self.weights, self.means, self.covariances))


class MixtureParameters(Parameters):
    """Parameters in the units of the data."""


class WhitenedParameters(Parameters):
    """Parameters in whitened coordinates: those of EM, see `apolar.em.whitening`."""


AnyParameters = TypeVar("AnyParameters", bound=Parameters)


def batch(mixtures: Sequence[AnyParameters]) -> AnyParameters:
    """Return mixtures of one shape as a batch."""
    return type(mixtures[0])(
        np.stack([c.weights for c in mixtures]),
        np.stack([c.means for c in mixtures]),
        np.stack([c.covariances for c in mixtures]),
    )
