"""The noise component: rows spread evenly over a box, beside the Gaussian components [banfield1993]."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array

__all__ = ["MIN_NOISE", "N_NOISE_PARAMETERS", "NoiseBox", "append_noise", "noise_weights"]

# The least weight of the noise: it is one less the other weights, and known up to rounding.
MIN_NOISE = 1e-15
# As in mclust, the weight of the noise and its volume count as parameters.
N_NOISE_PARAMETERS = 2


@dataclass(frozen=True, eq=False)
class NoiseBox:
    """The box over which noise is spread evenly, in the units of the data.

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


def noise_weights(weights: Array) -> Array:
    """Return the weight of the noise beside components of these weights, shape (..., n_components)."""
    return np.maximum(1.0 - weights.sum(axis=-1), MIN_NOISE)


def append_noise(natural: Array, weights: Array, noise: NoiseBox | None, log_det: float) -> Array:
    """Return natural parameters with those of the noise component appended, if there is one.

    The logit of the noise is the same for all rows, so that blocks and kernels treat it as a component like
    any other.

    Parameters
    ----------
    natural : ndarray, shape (..., n_components, n_stats)
    weights : ndarray, shape (..., n_components)
        Of the components; that of the noise is one less their sum.
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
