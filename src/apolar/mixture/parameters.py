"""The parameters of one mixture or of a batch, in the units of the data or in whitened coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.noise import NoiseBox

__all__ = ["AnyParameters", "MixtureParameters", "Parameters", "WhitenedParameters", "batch"]


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a mixture, or of a batch of mixtures along leading axes.

    Attributes
    ----------
    weights : ndarray, shape (..., n_components)
    means : ndarray, shape (..., n_components, n_features)
    covariances : ndarray
        Of a shape that depends on the family: (..., n_components) spherical,
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
        """Return the parameters of some mixtures of a batch."""
        return type(self)(self.weights[index], self.means[index], self.covariances[index])

    @property
    def is_finite(self) -> bool:
        """Whether no parameter is NaN or infinite."""
        return all(bool(np.isfinite(a).all()) for a in (self.weights, self.means, self.covariances))


@dataclass(frozen=True, eq=False)
class MixtureParameters(Parameters):
    """Parameters in the units of the data.

    Attributes
    ----------
    weights, means, covariances : ndarray
        As in `Parameters`. Beside noise, the weights add up to one less that of the noise.
    noise : NoiseBox or None
        Where the noise component is, if there is one.
    """

    noise: NoiseBox | None = None


class WhitenedParameters(Parameters):
    """Parameters in whitened coordinates, in which EM runs: see `apolar.em.whitening`."""


AnyParameters = TypeVar("AnyParameters", bound=Parameters)


def batch(mixtures: Sequence[AnyParameters]) -> AnyParameters:
    """Return mixtures of the same shape as a batch, along a new leading axis."""
    return type(mixtures[0])(
        np.stack([mixture.weights for mixture in mixtures]),
        np.stack([mixture.means for mixture in mixtures]),
        np.stack([mixture.covariances for mixture in mixtures]),
    )
