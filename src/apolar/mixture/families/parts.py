"""Families in which components share a part of their covariances: the volume, the shape or the orientation.

A covariance is S_k = v_k D_k A_k D_k^t: its volume v_k is a number, its shape A_k diagonal of determinant
one, its orientation D_k orthogonal [celeux1995]. The three letters of mclust's code say which of them are
equal in all components.
"""

from __future__ import annotations

import abc
import functools

import numpy as np

from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.constants import MIN_PART, MIN_SCATTER, VOLUME_ROUNDS, VOLUME_TOLERANCE
from apolar.mixture import compiled_steps
from apolar.mixture.families.base import MIN_COUNT, Family
from apolar.mixture.families.spherical import Spherical
from apolar.mixture.families.tied_spherical import TiedSpherical


@functools.lru_cache(maxsize=64)
def contrasts(n_features: int) -> Array:
    """Return an orthonormal basis, shape (n_features, n_features - 1), of the vectors whose sum is zero."""
    steps = np.tril(np.ones((n_features, n_features - 1)), -1)
    steps -= steps.mean(axis=0)
    return frozen(np.linalg.qr(steps)[0])


class PartlyShared(Family):
    """Covariances of which a part is shared, stored per component.

    To be named as a base class before the one that stores a covariance: `class VEI(PartlyShared, Diagonal)`.
    Tangent vectors are arrays of one axis: the volumes come first, then shapes, then orientations; each once
    if it is shared, and else once per component.
    """

    @property
    def has_one_volume(self) -> bool:
        """Whether all components have the same volume."""
        return self.code[0] == "E"

    @property
    def has_one_shape(self) -> bool:
        """Whether all components have the same shape."""
        return self.code[1] == "E"

    @property
    def has_one_orientation(self) -> bool:
        """Whether all components have the same orientation; that of axis-aligned ones is the identity."""
        return self.code[2] != "V"

    @property
    def as_spherical(self) -> Family:
        return TiedSpherical() if self.has_one_volume else Spherical()

    @property
    @abc.abstractmethod
    def tied(self) -> Family:
        """The family of the same storage whose components share the whole covariance."""

    def _n_angles(self, n_features: int) -> int:
        """Return the number of parameters of an orientation."""
        return 0 if self.code[2] == "I" else n_features * (n_features - 1) // 2

    def _sizes(self, n_components: int, n_features: int) -> tuple[tuple[int, int], ...]:
        """Return how many volumes, shapes and orientations there are, and the coordinates of each."""
        return (
            (1 if self.has_one_volume else n_components, 1),
            (1 if self.has_one_shape else n_components, n_features - 1),
            (1 if self.has_one_orientation else n_components, self._n_angles(n_features)),
        )

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return sum(n * size for n, size in self._sizes(n_components, n_features))

    def covariance_coordinates(self, n_components: int, n_features: int) -> IndexArray:
        parts, first = [], 0
        for n, size in self._sizes(n_components, n_features):
            positions = first + np.arange(n * size).reshape(n, size)
            parts.append(np.broadcast_to(positions, (n_components, size)))
            first += n * size
        return np.concatenate(parts, axis=1)

    def projected(self, covariances: Array, weights: Array) -> Array:
        extra = (..., *(None,) * self.n_axes)
        return self.covariances_maximising(weights[extra] * covariances, weights)

    def floor(self, covariances: Array, least: Array, weights: Array) -> Array:
        raised = super().floor(covariances, least, weights)
        if np.array_equal(raised, covariances):
            return covariances
        # Raised ones are outside of the family. Its nearest may be too small again: then volumes grow.
        nearest = self.projected(raised, weights)
        factors = np.maximum(self.relative_variances(least, nearest).max(axis=-1), 1.0)
        if self.has_one_volume:
            factors = factors.max(axis=-1, keepdims=True)
        return nearest * factors[(..., *(None,) * self.n_axes)]

    def covariances_maximising(self, scatter: Array, divisor: Array, near: Array | None = None) -> Array:
        known = compiled_steps.maximising(self, scatter, divisor, near)
        if known is not None:
            return known
        # An empty component must not have any influence on the others.
        divisor = np.maximum(divisor, MIN_PART * divisor.sum(axis=-1, keepdims=True))
        return self.covariances_estimated(scatter, divisor, near)

    @abc.abstractmethod
    def covariances_estimated(self, scatter: Array, divisor: Array, near: Array | None) -> Array:
        """Return `covariances_maximising`, by NumPy."""

    def parts_of(self, tangents: Array, n_components: int, n_features: int) -> tuple[Array, Array, Array]:
        """Return the parts of tangent vectors: of volumes, (n_components, 1), shapes and orientations."""
        parts, first = [], 0
        for n, size in self._sizes(n_components, n_features):
            part = tangents[first : first + n * size].reshape(n, size)
            parts.append(np.broadcast_to(part, (n_components, size)))
            first += n * size
        return parts[0], parts[1], parts[2]

    def joined(self, volumes: Array, shapes: Array, orientations: Array) -> Array:
        """Return gradients, or information, of components as those of tangent vectors: added if shared."""
        n_components, n_features = len(volumes), shapes.shape[1] + 1
        parts = []
        sizes = self._sizes(n_components, n_features)
        for (n, size), part in zip(sizes, (volumes, shapes, orientations), strict=True):
            if size:
                parts.append((part.sum(axis=0) if n < n_components else part).ravel())
        return np.concatenate(parts)

    def log_deviations(self, tangents: Array, n_components: int, n_features: int) -> Array:
        """Return the changes of the logarithms of the deviations along the axes of each component."""
        volumes, shapes, _ = self.parts_of(tangents, n_components, n_features)
        return volumes + shapes @ contrasts(n_features).T

    def information_of_variances(self, counts: Array, n_features: int) -> tuple[Array, Array, Array]:
        """Return counts, and the information of the rows of each component about its volume and its shape."""
        counts = np.maximum(counts, MIN_COUNT)[:, None]
        return counts, 2 * n_features * counts, np.broadcast_to(2 * counts, (len(counts), n_features - 1))


def volumes_and_shape(scatter: Array, divisor: Array) -> tuple[Array, Array]:
    """Return volumes v_k, and one shape a, for variances v_k a; both up to a factor.

    They maximise the sum over components of -1/2 (divisor log|S| + tr(S^-1 scatter)), by alternation: it
    converges to the only maximum.

    Parameters
    ----------
    scatter : ndarray, shape (..., n_components, n_features)
    divisor : ndarray, shape (..., n_components)

    Returns
    -------
    volumes : ndarray, shape (..., n_components)
    shape : ndarray, shape (..., n_features)
    """
    scatter = positive(scatter)
    volumes = geometric_mean(scatter / divisor[..., None])
    # With this factor volumes do not grow or shrink from round to round.
    total = divisor.sum(axis=-1)[..., None]
    for _ in range(VOLUME_ROUNDS):
        shape = (scatter / volumes[..., None]).sum(axis=-2) / total
        before, volumes = volumes, (scatter / shape[..., None, :]).mean(axis=-1) / divisor
        if np.all(np.abs(volumes - before) <= VOLUME_TOLERANCE * volumes):
            break
    return volumes, shape


def geometric_mean(values: Array) -> Array:
    """Return the geometric mean over the last axis."""
    return np.exp(np.log(values).mean(axis=-1))


def min_scatter(scatter: Array) -> Array:
    """Return the least variances of components, shape (..., n_components, n_features), relative to them."""
    least = MIN_SCATTER * scatter.max(axis=(-2, -1), keepdims=True)
    # Of rows that do not vary at all, a number of which squares and inverses are in the range of doubles.
    return np.maximum(least, np.sqrt(np.finfo(float).tiny))


def positive(scatter: Array) -> Array:
    """Return variances of components, shape (..., n_components, n_features), raised above zero."""
    return np.maximum(scatter, min_scatter(scatter))
