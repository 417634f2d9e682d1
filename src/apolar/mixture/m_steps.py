"""M-steps of covariances that share a part: the volume, the shape or the orientation.

A covariance is S_k = v_k D_k A_k D_k^t: its volume v_k is a number, its shape A_k diagonal of determinant
one, its orientation D_k orthogonal [celeux1995]. The functions return the covariances at which the sum over
components of -1/2 (divisor log|S| + tr(S^-1 scatter)) is largest, as `Family.estimate`; the extension has the
same in `src/kernels`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from apolar._core.arrays import Array
from apolar._core.compiled import joint_rotation, rotate_planes
from apolar._core.constants import (
    MIN_CONTRAST,
    MIN_SCATTER,
    MIN_SINE,
    MIN_VOLUME,
    MIN_WEIGHT,
    NEAR_ROUNDS,
    NEAR_SWEEPS,
    SWEEPS,
    VOLUME_ROUNDS,
    VOLUME_TOLERANCE,
)

if TYPE_CHECKING:
    from apolar.mixture.families import Family


def covariances_of_one_volume(family: Family, scatter: Array, divisor: Array, near: Array | None) -> Array:  # noqa: ARG001
    """Return covariances of one volume (EVI, EVV)."""
    n_features = scatter.shape[-1]
    if family.n_axes == 1:
        scatter = above_zero(scatter)
    else:
        # Without a prior, the scatter of a component of few rows has no determinant to speak of.
        scatter = family.floored(scatter / family.each(divisor)) * family.each(divisor)
    roots = np.exp(family.log_det(scatter, n_features) / n_features)
    volume = roots.sum(axis=-1) / divisor.sum(axis=-1)
    return scatter * family.each(volume[..., None] / roots)


def multiples_of_one(family: Family, scatter: Array, divisor: Array, near: Array | None) -> Array:
    """Return multiples of one covariance (VEI, VEE), by alternation: it converges to the only maximum."""
    n_features, axis = scatter.shape[-1], -1 - family.n_axes
    if family.n_axes == 1:
        scatter, near = above_zero(scatter), None
    if near is None:
        volumes, rounds = np.ones_like(divisor), VOLUME_ROUNDS
    else:
        volumes, rounds = np.exp(family.log_det(near, n_features) / n_features), NEAR_ROUNDS
    for _ in range(rounds):
        # Up to a factor: it is floored relative to its size, as it is singular if rows are few.
        relative = volumes / volumes.max(axis=-1, keepdims=True)
        common = (scatter / family.each(relative)).sum(axis=axis)
        size = np.abs(family.diagonals(common)).mean(axis=-1)
        common = family.floored(common / family.each(np.maximum(size, MIN_WEIGHT)))
        common = common / family.each(np.exp(family.log_det(common, n_features) / n_features))
        before = volumes
        volumes = family.trace_ratio(scatter, np.expand_dims(common, axis)) / (n_features * divisor)
        if family.n_axes == 2:
            least = np.maximum(MIN_VOLUME * volumes.max(axis=-1, keepdims=True), MIN_WEIGHT)
            volumes = np.maximum(volumes, least)
        if np.all(np.abs(volumes - before) <= VOLUME_TOLERANCE * volumes):
            break
    return family.each(volumes) * np.expand_dims(common, axis)


def rotated_variances(family: Family, scatter: Array, divisor: Array, near: Array | None) -> Array:
    """Return matrices that share the shape (EEV, VEV) or the axes (EVE, VVE), but not both."""
    inside = family.in_units(scatter)
    if "orientation" not in family.shared:
        values, axes = np.linalg.eigh(inside)
        variances = _variances_along(family, values, divisor)
    else:
        axes = np.empty((*scatter.shape[:-3], 1, *scatter.shape[-2:]))
        variances = np.empty(scatter.shape[:-1])
        for i in np.ndindex(*scatter.shape[:-3]):
            if near is None:
                traces = np.maximum(np.trace(inside[i], axis1=-2, axis2=-1), MIN_WEIGHT)
                means = inside[i].sum(axis=0), (inside[i] / traces[:, None, None]).sum(axis=0)
                starts, n_sweeps = [np.linalg.eigh(mean)[1] for mean in means], SWEEPS
            else:
                starts, n_sweeps = [axes_of(family, near[i])[0][0]], NEAR_SWEEPS
            ends = [_rotate(family, inside[i], divisor[i], start, n_sweeps) for start in starts]
            # Where the variances are the best for the axes, the objective is minus this, up to a constant.
            costs = [float(divisor[i] @ np.log(of_end).sum(axis=-1)) for _, of_end in ends]
            axes[i][0], variances[i] = ends[int(np.argmin(costs))]
    factors = family.from_units(axes * np.sqrt(variances)[..., None, :])
    return factors @ np.swapaxes(factors, -1, -2)


def _variances_along(family: Family, values: Array, divisor: Array) -> Array:
    """Return the variances along axes, from the scatters along them, (..., n_components, n_features)."""
    aligned = family.with_axes(1)
    if aligned.shares_covariance:
        pooled = above_zero(np.maximum(values, 0.0).sum(axis=-2, keepdims=True))
        return np.broadcast_to(pooled / divisor.sum(axis=-1)[..., None, None], values.shape)
    return aligned.covariances_maximising(values, divisor)


def _rotate(
    family: Family, scatter: Array, divisor: Array, start: Array, n_sweeps: int
) -> tuple[Array, Array]:
    """Return the axes of one mixture, and the variances along them, by rotations in planes [flury1986].

    With the variances fixed, the best rotation in a plane is known; variances follow each of them. So
    every rotation raises the objective.
    """
    # With the components last, as each rotation changes two rows and two columns of all matrices.
    stack = np.ascontiguousarray(np.moveaxis(start.T @ scatter @ start, 0, -1))

    def angle_in(p: int, q: int) -> float:
        along = above_zero(np.diagonal(stack))
        # The ratios of scatter and variance of the components are proportional to these.
        factors = np.exp(np.log(along).mean(axis=-1)) if "volume" in family.shared else divisor
        of_p, of_q = factors / along[:, p], factors / along[:, q]
        on = float((of_p - of_q) @ (stack[p, p] - stack[q, q]))
        off = 2 * float((of_p - of_q) @ stack[p, q])
        size = float((of_p + of_q) @ (np.abs(stack[p, p]) + np.abs(stack[q, q])))
        return 0.5 * math.atan2(-off, -on) if math.hypot(on, off) > MIN_CONTRAST * size else 0.0

    axes = start @ rotate_planes(stack, angle_in, MIN_SINE, n_sweeps)
    return axes, _variances_along(family, above_zero(np.diagonal(stack)), divisor)


def axes_of(family: Family, covariances: Array) -> tuple[Array, Array]:
    """Return axes and variances, in the units of the data, of covariances of one mixture of such a family."""
    covariances = family.in_units(covariances)
    if "orientation" not in family.shared:
        values, axes = np.linalg.eigh(covariances)
        return axes, above_zero(values)
    traces = np.trace(covariances, axis1=-2, axis2=-1)
    axes = joint_rotation(covariances / traces[:, None, None], tol=MIN_SINE)
    variances = above_zero(np.einsum("ia,kij,ja->ka", axes, covariances, axes))
    # In an order, and with signs, that do not depend on the order of the components.
    order = np.argsort(np.log(variances).mean(axis=0))
    axes = axes[:, order]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return np.broadcast_to(axes * np.sign(largest), covariances.shape), variances[:, order]


def above_zero(scatter: Array) -> Array:
    """Return variances of components, shape (..., n_components, n_features), raised above zero."""
    least = MIN_SCATTER * scatter.max(axis=(-2, -1), keepdims=True)
    # If rows do not vary at all, a number whose squares and inverses are in the range of doubles.
    return np.maximum(scatter, np.maximum(least, np.sqrt(np.finfo(float).tiny)))
