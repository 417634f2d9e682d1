"""The parameters of one mixture or of a batch, its noise component, and the statistics they come from."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np

from apolar._core.arrays import Array, IndexArray

__all__ = [
    "MIN_NOISE",
    "N_NOISE_PARAMETERS",
    "AnyParameters",
    "MixtureParameters",
    "NoiseBox",
    "Parameters",
    "SufficientStats",
    "WhitenedParameters",
    "append_noise",
    "batch",
    "canonical_order",
    "noise_weights",
]

# Weights that agree to this many decimals count as equal.
WEIGHT_DECIMALS = 6
# The least weight of the noise: it is one minus the other weights, and known up to rounding.
MIN_NOISE = 1e-15
# As in mclust, the weight of the noise and its volume count as parameters.
N_NOISE_PARAMETERS = 2


@dataclass(frozen=True, eq=False)
class NoiseBox:
    """The box over which noise is spread evenly, in the units of the data [banfield1993].

    Rows outside of it have the same density of noise as those inside: it is the volume that matters, and the
    box itself only for drawing rows.

    Attributes
    ----------
    origin : ndarray, shape (n_features,)
        A corner.
    edges : ndarray, shape (n_features,) or (n_features, n_features)
        The lengths of the edges along the columns, or the edges themselves, one per row.
    """

    origin: Array
    edges: Array

    @functools.cached_property
    def log_volume(self) -> float:
        """The logarithm of the volume: in many columns the volume itself may overflow."""
        if self.edges.ndim == 1:
            return float(np.log(self.edges).sum())
        return float(np.linalg.slogdet(self.edges)[1])

    def sample(self, n_samples: int, rng: np.random.Generator | np.random.RandomState) -> Array:
        """Return rows that are spread evenly over the box."""
        parts = rng.uniform(size=(n_samples, len(self.origin)))
        return self.origin + (parts * self.edges if self.edges.ndim == 1 else parts @ self.edges)

    def rescaled(self, units: Array) -> NoiseBox:
        """Return the box for columns multiplied by `units`, shape (n_features,)."""
        return NoiseBox(self.origin * units, self.edges * units)


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
        components share one covariance. With long tails, the scale matrices.
    dof : ndarray, shape (..., n_components), or None
        Degrees of freedom of components with long tails; of a start, None if they are not known.
    """

    weights: Array
    means: Array
    covariances: Array
    dof: Array | None = field(default=None, kw_only=True)

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
        dof = None if self.dof is None else self.dof[index]
        return type(self)(self.weights[index], self.means[index], self.covariances[index], dof=dof)

    @property
    def is_finite(self) -> bool:
        """Whether no parameter is NaN or infinite."""
        arrays = self.weights, self.means, self.covariances, self.dof
        return all(a is None or bool(np.isfinite(a).all()) for a in arrays)


@dataclass(frozen=True, eq=False)
class MixtureParameters(Parameters):
    """Parameters in the units of the data.

    Attributes
    ----------
    weights, means, covariances : ndarray
        As in `Parameters`. With noise, the weights add up to one minus that of the noise.
    noise : NoiseBox or None
        Where the noise component is, if there is one.
    """

    noise: NoiseBox | None = None


class WhitenedParameters(Parameters):
    """Parameters in whitened coordinates, in which EM runs: see `apolar.em.whitening`."""


AnyParameters = TypeVar("AnyParameters", bound=Parameters)


def batch(mixtures: Sequence[AnyParameters]) -> AnyParameters:
    """Return mixtures of the same shape as a batch, along a new leading axis."""
    dof = [mixture.dof for mixture in mixtures if mixture.dof is not None]
    return type(mixtures[0])(
        np.array([mixture.weights for mixture in mixtures]),
        np.array([mixture.means for mixture in mixtures]),
        np.array([mixture.covariances for mixture in mixtures]),
        dof=np.array(dof) if dof else None,
    )


def canonical_order(weights: Array, means: Array) -> IndexArray:
    """Return the order of components by decreasing weight, and by their means where weights are equal.

    Weights that differ only by rounding count as equal; means are compared column by column.

    Parameters
    ----------
    weights : ndarray, shape (n_components,)
    means : ndarray, shape (n_components, n_features)
        In the units of the data.

    Returns
    -------
    order : ndarray of int, shape (n_components,)
    """
    return np.lexsort((*means.T[::-1], -np.round(weights, WEIGHT_DECIMALS)))


def noise_weights(weights: Array) -> Array:
    """Return the weight of the noise next to components of these weights, shape (..., n_components)."""
    return np.maximum(1.0 - weights.sum(axis=-1), MIN_NOISE)


def append_noise(natural: Array, weights: Array, noise: NoiseBox | None, log_det: float) -> Array:
    """Return natural parameters with those of the noise component appended, if there is one.

    The logit of the noise is the same for all rows, so that blocks and kernels treat it as a component like
    any other.

    Parameters
    ----------
    natural : ndarray, shape (..., n_components, n_stats)
    weights : ndarray, shape (..., n_components)
        Of the components; that of the noise is one minus their sum.
    noise : NoiseBox or None
    log_det : float
        Of the whitening: less it, the log-density of the noise is that in whitened coordinates.

    Returns
    -------
    natural : ndarray, shape (..., n_components + 1, n_stats)
        As given without a noise component.
    """
    if noise is None:
        return natural
    of_noise = np.zeros_like(natural[..., :1, :])
    of_noise[..., 0, 0] = np.log(noise_weights(weights)) + (-noise.log_volume - log_det)
    return np.concatenate([natural, of_noise], axis=-2)


@dataclass(frozen=True, eq=False)
class SufficientStats:
    """Sums over rows, weighted by responsibilities, of the row statistics (1, x, quadratics of x).

    The statistics of two sets of rows add up, and so do those of two components that are merged.

    Attributes
    ----------
    array : ndarray, shape (..., n_components, n_stats)
        The sums in the order of the row statistics; see `Family.n_stats`. Leading axes are those of a batch
        of mixtures.
    n_features : int
        The number of columns of x.
    dof_slopes : ndarray, shape (..., n_components), or None
        The derivatives of the log-likelihood by the degrees of freedom, of components with long tails.
    """

    array: Array
    n_features: int
    dof_slopes: Array | None = None

    @property
    def counts(self) -> Array:
        """The sums of responsibilities, shape (..., n_components): the number of rows of each component."""
        return self.array[..., 0]

    @property
    def first(self) -> Array:
        """The sums of x, shape (..., n_components, n_features)."""
        return self.array[..., 1 : 1 + self.n_features]

    @property
    def second(self) -> Array:
        """The sums of the quadratics of x, shape (..., n_components, n_quadratics)."""
        return self.array[..., 1 + self.n_features :]

    def __getitem__(self, index: Any) -> SufficientStats:
        """Return the statistics of some mixtures of a batch, or of some components."""
        slopes = None if self.dof_slopes is None else self.dof_slopes[index]
        return SufficientStats(self.array[index], self.n_features, slopes)

    def __add__(self, other: SufficientStats) -> SufficientStats:
        """Return the statistics of the rows of both."""
        both = self.dof_slopes, other.dof_slopes
        slopes = None if both[0] is None or both[1] is None else both[0] + both[1]
        return SufficientStats(self.array + other.array, self.n_features, slopes)

    def __mul__(self, factor: float) -> SufficientStats:
        """Return the statistics of rows whose weights are multiplied by a factor."""
        slopes = None if self.dof_slopes is None else self.dof_slopes * factor
        return SufficientStats(self.array * factor, self.n_features, slopes)
