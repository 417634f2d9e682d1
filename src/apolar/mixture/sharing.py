"""Local coordinates of covariances that share a part: the volume, the shape or the orientation.

Tangent vectors are arrays of one axis: the volumes come first, then shapes, then orientations; each once if
it is shared, and else once per component. Volumes and shapes change the logarithms of deviations. Where shape
and orientation are both shared, or both not, the coordinates are linear in those without sharing, and an
orientation is the lower triangle of S = L T T^t L^t; else axes are rotated by Cayley transforms.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar._core.settings import SETTINGS
from apolar.mixture.m_steps import axes_of

if TYPE_CHECKING:
    from apolar.mixture.families import Family


@functools.lru_cache(maxsize=64)
def _contrasts(n_features: int) -> Array:
    """Return an orthonormal basis, shape (n_features, n_features - 1), of the vectors whose sum is zero."""
    steps = np.tril(np.ones((n_features, n_features - 1)), -1)
    steps -= steps.mean(axis=0)
    return frozen(np.linalg.qr(steps)[0])


def parts_of(family: Family, tangents: Array, n_components: int, n_features: int) -> list[Array]:
    """Return the parts of tangent vectors of each component: volumes, (n_components, 1), shapes, angles."""
    parts, first = [], 0
    for n, size in family.sizes_of_parts(n_components, n_features):
        part = tangents[first : first + n * size].reshape(n, size)
        parts.append(np.broadcast_to(part, (n_components, size)))
        first += n * size
    return parts


def _join_components(family: Family, *parts: Array) -> Array:
    """Return gradients, or information, of components as those of tangent vectors: added if shared."""
    sizes = family.sizes_of_parts(len(parts[0]), parts[1].shape[1] + 1)
    pairs = zip(sizes, parts, strict=False)
    return np.concatenate([(part.sum(axis=0) if n < len(part) else part).ravel() for (n, _), part in pairs])


def _log_deviations(parts: list[Array]) -> Array:
    """Return the changes of the logarithms of the deviations along the axes of each component."""
    return parts[0] + parts[1] @ _contrasts(parts[1].shape[1] + 1).T


def _is_deviation(family: Family, n_features: int) -> Array:
    """Return which coordinates without sharing are logarithms of deviations."""
    return family.compact(np.eye(n_features) > 0) if family.n_axes == 2 else np.ones(n_features, bool)


def _without_sharing(family: Family, root: Array, tangents: Array) -> Array:
    """Return the tangent vectors of the same covariances without sharing, shape (n_components, n)."""
    n_components, n_features = root.shape[:2]
    parts = parts_of(family, tangents, n_components, n_features)
    is_deviation = _is_deviation(family, n_features)
    free = np.empty((n_components, len(is_deviation)))
    free[:, is_deviation] = _log_deviations(parts)
    if family.n_axes == 2:
        free[:, ~is_deviation] = np.exp(parts[0]) * parts[2]
    return free


def information(family: Family, counts: Array, root: Array) -> Array:
    """Return the Fisher information about the coordinates; `counts` are the rows of each component."""
    n_features, counts = root.shape[1], counts[:, None]
    of_volume, of_shape = 2 * n_features * counts, np.repeat(2 * counts, n_features - 1, axis=1)
    if family.n_axes == 1:
        return _join_components(family, of_volume, of_shape)
    rows, columns = np.triu_indices(n_features, 1)
    of_angles = np.repeat(counts, len(rows), axis=1)
    if family.is_rotated:
        deviations = _axes_of_root(family, root)[1]
        ratios = deviations[:, rows] / deviations[:, columns]
        of_angles = counts * np.maximum((ratios - 1 / ratios) ** 2, SETTINGS.min_angle_information)
    return _join_components(family, of_volume, of_shape, of_angles)


def retraction(family: Family, root: Array, tangents: Array) -> Array:
    """Return the covariances at tangent vectors."""
    if not family.is_rotated:
        return family.retraction(root, _without_sharing(family, root, tangents))
    _, rotations, axes, deviations = _moved_axes(family, root, tangents)
    factors = family.from_units(axes @ rotations * deviations[:, None, :])
    return factors @ np.swapaxes(factors, -1, -2)


def gradient(family: Family, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
    """Return the gradient of -1/2 (divisor log|S| + tr(S^-1 scatter)) in the tangent vectors."""
    if family.is_rotated:
        return _rotated_gradient(family, root, tangents, scatter, divisor)
    n_components, n_features = root.shape[:2]
    free = _without_sharing(family, root, tangents)
    by_free = family.gradient(root, free, scatter, divisor)
    is_deviation = _is_deviation(family, n_features)
    by_deviation = by_free[:, is_deviation]
    by_volume, by_shape = by_deviation.sum(axis=1), by_deviation @ _contrasts(n_features)
    if family.n_axes == 1:
        return _join_components(family, by_volume[:, None], by_shape)
    by_lower, volumes = by_free[:, ~is_deviation], parts_of(family, tangents, n_components, n_features)[0]
    by_volume = by_volume + (by_lower * free[:, ~is_deviation]).sum(axis=1)
    return _join_components(family, by_volume[:, None], by_shape, np.exp(volumes) * by_lower)


# --- axes that are rotated ----------------------------------------------------------------------


def root_along_axes(family: Family, covariances: Array) -> Array:
    """Return L with covariances L L^t whose columns are along the axes."""
    axes, variances = axes_of(family, covariances)
    return family.from_units(axes * np.sqrt(variances)[..., None, :])


def _axes_of_root(family: Family, root: Array) -> tuple[Array, Array]:
    """Return the axes and deviations of each component from `root_along_axes`."""
    factors = root if family.frame is None else family.frame.T @ root
    deviations = np.linalg.norm(factors, axis=-2)
    return factors / deviations[..., None, :], deviations


def _moved_axes(family: Family, root: Array, tangents: Array) -> tuple[Array, Array, Array, Array]:
    """Return half the skew-symmetric generators, rotations, axes and deviations at tangent vectors."""
    n_components, n_features = root.shape[:2]
    axes, deviations = _axes_of_root(family, root)
    parts = parts_of(family, tangents, n_components, n_features)
    half = np.zeros_like(root)
    rows, columns = np.triu_indices(n_features, 1)
    half[:, rows, columns] = 0.5 * parts[2]
    half[:, columns, rows] = -0.5 * parts[2]
    identity = np.eye(n_features)
    rotations = np.linalg.solve(identity - half, identity + half)
    return half, rotations, axes, deviations * np.exp(_log_deviations(parts))


def _rotated_gradient(family: Family, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
    n_features = root.shape[1]
    half, rotations, axes, deviations = _moved_axes(family, root, tangents)
    products = np.swapaxes(axes, -1, -2) @ family.in_units(scatter) @ axes @ rotations
    by_deviation = np.einsum("kij,kij->kj", rotations, products) / deviations**2 - divisor[:, None]
    # With Q = (I - K)^-1 (I + K): dQ = (I - K)^-1 dK (I + Q), and K is skew-symmetric.
    identity = np.eye(n_features)
    by_rotation = products / deviations[:, None, :] ** 2
    by_generator = np.linalg.solve(identity + half, by_rotation @ np.swapaxes(identity + rotations, -1, -2))
    rows, columns = np.triu_indices(n_features, 1)
    by_angle = -0.5 * (by_generator[:, rows, columns] - by_generator[:, columns, rows])
    by_shape = by_deviation @ _contrasts(n_features)
    return _join_components(family, by_deviation.sum(axis=1)[:, None], by_shape, by_angle)
