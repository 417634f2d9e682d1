"""M-steps of covariances that share a part: the volume, the shape or the orientation.

A covariance is S_k = v_k D_k A_k D_k^t: its volume v_k is a number, its shape A_k diagonal of determinant
one, its orientation D_k orthogonal [celeux1995]. The functions return the covariances at which the sum over
components of -1/2 (divisor log|S| + tr(S^-1 scatter)) is largest, as `Family.estimate`; the extension has the
same in `src/kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import (
    FIRST_SWEEPS,
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
from apolar._core.settings import SETTINGS
from apolar.mixture.compiled_steps import MAX_COLUMNS

if TYPE_CHECKING:
    from apolar.mixture.families import Family


def one_shape(family: Family, scatter: Array, divisor: Array, near: Array | None) -> Array:  # noqa: ARG001
    """Return variances v_k a of one shape (VEI), by alternation: it converges to the only maximum."""
    scatter = positive(scatter)
    volumes = _geometric_mean(scatter / divisor[..., None])
    # With this factor volumes do not grow or shrink from round to round.
    total = divisor.sum(axis=-1)[..., None]
    for _ in range(VOLUME_ROUNDS):
        shape = (scatter / volumes[..., None]).sum(axis=-2) / total
        before, volumes = volumes, (scatter / shape[..., None, :]).mean(axis=-1) / divisor
        if np.all(np.abs(volumes - before) <= VOLUME_TOLERANCE * volumes):
            break
    return volumes[..., None] * shape[..., None, :]


def one_volume(family: Family, scatter: Array, divisor: Array, near: Array | None) -> Array:  # noqa: ARG001
    """Return variances of one volume (EVI)."""
    scatter = positive(scatter)
    roots = _geometric_mean(scatter)
    volume = roots.sum(axis=-1) / divisor.sum(axis=-1)
    return scatter * (volume[..., None] / roots)[..., None]


def matrices_of_one_volume(
    family: Family,
    scatter: Array,
    divisor: Array,
    near: Array | None,  # noqa: ARG001
) -> Array:
    """Return matrices of one volume (EVV)."""
    n_features, extra = scatter.shape[-1], (..., None, None)
    # Without a prior, the scatter of a component of few rows has no determinant to speak of.
    scatter = family.floored(scatter / divisor[extra]) * divisor[extra]
    roots = np.exp(family.log_det(scatter, n_features) / n_features)
    volume = roots.sum(axis=-1) / divisor.sum(axis=-1)
    return scatter * (volume[..., None] / roots)[..., None, None]


def multiples_of_one(family: Family, scatter: Array, divisor: Array, near: Array | None) -> Array:
    """Return multiples of one matrix (VEE), by alternation."""
    n_features = scatter.shape[-1]
    if near is None:
        volumes, rounds = np.ones_like(divisor), VOLUME_ROUNDS
    else:
        volumes, rounds = np.exp(family.log_det(near, n_features) / n_features), NEAR_ROUNDS
    for _ in range(rounds):
        # Up to a factor: it is floored relative to its size, as it is singular if rows are few.
        relative = volumes / volumes.max(axis=-1, keepdims=True)
        common = (scatter / relative[..., None, None]).sum(axis=-3)
        size = np.abs(family.diagonals(common)).mean(axis=-1)[..., None, None]
        common = family.floored(common / np.maximum(size, MIN_WEIGHT))
        common = common / np.exp(family.log_det(common, n_features) / n_features)[..., None, None]
        before = volumes
        volumes = family.trace_ratio(scatter, common[..., None, :, :]) / (n_features * divisor)
        least = np.maximum(MIN_VOLUME * volumes.max(axis=-1, keepdims=True), MIN_WEIGHT)
        volumes = np.maximum(volumes, least)
        if np.all(np.abs(volumes - before) <= VOLUME_TOLERANCE * volumes):
            break
    return volumes[..., None, None] * common[..., None, :, :]


def rotated_variances(family: Family, scatter: Array, divisor: Array, near: Array | None) -> Array:
    """Return matrices that share the shape (EEV, VEV) or the axes (EVE, VVE), but not both."""
    inside = family.in_units(scatter)
    if "orientation" not in family.shared:
        values, axes = np.linalg.eigh(inside)
        variances = _variances_along(family, values, divisor)
    else:
        axes = np.empty((*scatter.shape[:-3], 1, *scatter.shape[-2:]))
        variances = np.empty(scatter.shape[:-1])
        starts = None if near is None else axes_of(family, near)[0]
        for i in np.ndindex(*scatter.shape[:-3]):
            start = _better_axes(family, inside[i], divisor[i]) if starts is None else starts[i][0]
            n_sweeps = SWEEPS - FIRST_SWEEPS if starts is None else NEAR_SWEEPS
            axes[i][0], variances[i] = _rotate(family, inside[i], divisor[i], start, n_sweeps)
    factors = family.from_units(axes * np.sqrt(variances)[..., None, :])
    return factors @ np.swapaxes(factors, -1, -2)


def _variances_along(family: Family, values: Array, divisor: Array) -> Array:
    """Return the variances along axes, from the scatters along them, (..., n_components, n_features)."""
    aligned = family.without_correlations
    if aligned.shares_covariance:
        pooled = positive(np.maximum(values, 0.0).sum(axis=-2, keepdims=True))
        return np.broadcast_to(pooled / divisor.sum(axis=-1)[..., None, None], values.shape)
    if aligned.estimate is None:
        return values / divisor[..., None]
    return aligned.estimate(aligned, values, divisor, None)


def axes_of(family: Family, covariances: Array) -> tuple[Array, Array]:
    """Return axes and variances, in the units of the data, of covariances of such a family."""
    covariances = family.in_units(covariances)
    if "orientation" not in family.shared:
        values, axes = np.linalg.eigh(covariances)
        return axes, positive(values)
    lead, n_features = covariances.shape[:-3], covariances.shape[-1]
    axes = np.empty((*lead, 1, n_features, n_features))
    variances = np.empty(covariances.shape[:-1])
    for i in np.ndindex(*lead):
        axes[i][0], variances[i] = _common_axes(family, covariances[i])
    # In an order, and with signs, that do not depend on the order of the components.
    order = np.argsort(np.log(variances).mean(axis=-2), axis=-1)[..., None, None, :]
    axes = np.take_along_axis(axes, order, axis=-1)
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=-2)[..., None, :], axis=-2)
    axes = axes * np.where(largest < 0, -1.0, 1.0)
    variances = np.take_along_axis(variances, order[..., 0, :], axis=-1)
    return np.broadcast_to(axes, covariances.shape), variances


# --- common axes [flury1986, browne2014] --------------------------------------------------------


def _better_axes(family: Family, scatter: Array, divisor: Array) -> Array:
    """Return the better of two axes to start from, after some sweeps: those of two mean scatters."""
    traces = np.trace(scatter, axis1=-2, axis2=-1)
    factors = np.where(traces > 0, 1 / np.where(traces > 0, traces, 1.0), 0.0)
    means = [scatter.sum(axis=0), (factors[:, None, None] * scatter).sum(axis=0)]
    starts = [_rotate(family, scatter, divisor, np.linalg.eigh(mean)[1], FIRST_SWEEPS) for mean in means]
    # Where the variances are the best for the axes, the objective is minus this, up to a constant.
    costs = [float(divisor @ np.log(variances).sum(axis=-1)) for _, variances in starts]
    return starts[int(np.argmin(costs))][0]


def _rotate(
    family: Family, scatter: Array, divisor: Array, start: Array, n_sweeps: int
) -> tuple[Array, Array]:
    """Return the axes of one mixture, and the variances along them, by rotations in planes.

    With the variances fixed, the best rotation in a plane is known; variances follow each of them. So
    every rotation raises the objective.
    """
    if scatter.shape[-1] > MAX_COLUMNS:
        return _majorise(family, scatter, divisor, start)
    axes, n_features = start.copy(), scatter.shape[-1]
    # With the components last, as each rotation changes two rows and two columns of all matrices.
    stack = np.ascontiguousarray(np.moveaxis(axes.T @ scatter @ axes, 0, -1))
    along = np.diagonal(stack).copy()
    least = float(_min_scatter(along).item())
    along = np.maximum(along, least)
    for _ in range(n_sweeps):
        largest = 0.0
        for p in range(n_features - 1):
            for q in range(p + 1, n_features):
                # The ratios of scatter and variance of the components are proportional to these.
                factors = _geometric_mean(along) if "volume" in family.shared else divisor
                of_p, of_q = factors / along[:, p], factors / along[:, q]
                on = float((of_p - of_q) @ (stack[p, p] - stack[q, q]))
                off = 2 * float((of_p - of_q) @ stack[p, q])
                size = float((of_p + of_q) @ (np.abs(stack[p, p]) + np.abs(stack[q, q])))
                if not math.hypot(on, off) > MIN_CONTRAST * size:
                    continue
                angle = 0.5 * math.atan2(-off, -on)
                sine, cosine = math.sin(angle), math.cos(angle)
                largest = max(largest, abs(sine))
                if abs(sine) <= MIN_SINE:
                    continue
                for rows in (stack, stack.swapaxes(0, 1), axes.T):
                    turned = cosine * rows[p] + sine * rows[q]
                    rows[q] = cosine * rows[q] - sine * rows[p]
                    rows[p] = turned
                along[:, p], along[:, q] = np.maximum(stack[p, p], least), np.maximum(stack[q, q], least)
        if largest <= MIN_SINE:
            break
    return axes, _variances_along(family, along, divisor)


def _majorise(family: Family, scatter: Array, divisor: Array, axes: Array) -> tuple[Array, Array]:
    """Return the same by steps for all axes at once, each to the minimum of a majoriser [browne2014]."""
    largest = np.linalg.eigvalsh(scatter)[:, -1]
    before = np.inf
    for _ in range(SETTINGS.majorisations):
        along = np.einsum("ia,kij,ja->ka", axes, scatter, axes)
        variances = _variances_along(family, positive(along), divisor)
        cost = float(divisor @ np.log(variances).sum(axis=-1))
        if not before - cost > SETTINGS.min_axes_gain * float(divisor.sum()):
            break
        before = cost
        # Less its largest eigenvalue a scatter is negative, and its part of the cost below its tangent.
        slope = largest[:, None, None] * axes - scatter @ axes
        left, _, right = np.linalg.svd((slope / variances[:, None, :]).sum(axis=0))
        axes = left @ right
    return axes, variances


def _common_axes(family: Family, covariances: Array) -> tuple[Array, Array]:
    """Return the common axes of one mixture, and the variances along them."""
    best, least = np.eye(covariances.shape[-1]), np.inf
    for combination in _combinations(covariances):
        axes = np.linalg.eigh(combination)[1]
        off = _largest_correlation(axes, covariances)
        if off < least:
            best, least = axes, off
        if least < SETTINGS.same_axes:
            break
    if least >= SETTINGS.same_axes:
        # Covariances of the family are diagonal along their axes, where the objective is largest.
        best = _rotate(family, covariances, np.ones(len(covariances)), best, NEAR_SWEEPS)[0]
    return best, positive(np.einsum("ia,kij,ja->ka", best, covariances, best))


def _combinations(covariances: Array) -> Iterator[Array]:
    """Yield matrices with the axes of all covariances; each may have equal eigenvalues by chance."""
    scaled = covariances / np.trace(covariances, axis1=-2, axis2=-1)[:, None, None]
    yield scaled.sum(axis=0)
    yield (scaled @ scaled).sum(axis=0)
    yield (scaled @ scaled @ scaled).sum(axis=0)


def _largest_correlation(axes: Array, covariances: Array) -> float:
    """Return the largest correlation of two axes in any of the covariances."""
    along = axes.T @ covariances @ axes
    deviations = np.sqrt(np.maximum(np.diagonal(along, axis1=-2, axis2=-1), np.finfo(float).tiny))
    correlations = along / (deviations[:, :, None] * deviations[:, None, :])
    return float(np.abs(correlations - np.eye(len(axes))).max())


# --- variances ----------------------------------------------------------------------------------


def _geometric_mean(values: Array) -> Array:
    """Return the geometric mean over the last axis."""
    return np.exp(np.log(values).mean(axis=-1))


def _min_scatter(scatter: Array) -> Array:
    """Return the least variances of components, shape (..., n_components, n_features), relative to them."""
    least = MIN_SCATTER * scatter.max(axis=(-2, -1), keepdims=True)
    # If rows do not vary at all, a number whose squares and inverses are in the range of doubles.
    return np.maximum(least, np.sqrt(np.finfo(float).tiny))


def positive(scatter: Array) -> Array:
    """Return variances of components, shape (..., n_components, n_features), raised above zero."""
    return np.maximum(scatter, _min_scatter(scatter))
