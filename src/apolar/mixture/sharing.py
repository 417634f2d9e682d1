"""What components share of their covariances: M-steps of such families, and local coordinates of covariances.

A covariance is S_k = v_k D_k A_k D_k^t: its volume v_k is a number, its shape A_k diagonal of determinant
one, its orientation D_k orthogonal [celeux1995]. The M-steps return the covariances at which the sum over all
components of -1/2 (divisor log|S| + tr(S^-1 scatter)) is largest, as `Family.estimate`.

Local coordinates are around the covariances L L^t of one mixture, for `apolar.em.coordinates`.
Variances without correlations are those of L times exponentials, and matrices are L T T^t L^t with a lower
triangular T, whose diagonal is exponentials; there is one row of coordinates per covariance. Where components
share a part of their covariances, tangent vectors are arrays of one axis: first volumes, then shapes, then
orientations; each once if it is shared, and else once per component. Volumes and shapes change the logarithms
of deviations. Where shape and orientation are both shared, or both not, the coordinates are linear in those
without sharing, and an orientation is the lower triangle of T; else axes are rotated by Cayley transforms.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from apolar._core import compiled
from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.compiled import joint_rotation, rotate_planes
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
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.storage import lower_places

if TYPE_CHECKING:
    from apolar.mixture.families import Family
    from apolar.mixture.prior import Prior


def covariances_of_one_volume(family: Family, scatter: Array, divisor: Array, near: Array | None) -> Array:  # noqa: ARG001
    """Return covariances of one volume (EVI, EVV)."""
    n_features = scatter.shape[-1]
    if family.n_axes == 1:
        scatter = above_zero(scatter)
    else:
        # Without a prior, the scatter of a component of few rows has a determinant of nearly zero.
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
    # One mixture that is not finite would end the whole batch: eigenvalues are computed of all or of none.
    is_finite = np.isfinite(inside).all(axis=(-3, -2, -1), keepdims=True)
    inside = np.where(is_finite, inside, np.eye(inside.shape[-1]))
    if "orientation" not in family.shared:
        values, axes = np.linalg.eigh(inside)
        variances = _variances_along(family, values, divisor)
    else:
        axes = np.empty((*scatter.shape[:-3], 1, *scatter.shape[-2:]))
        variances = np.empty(scatter.shape[:-1])
        for i in np.ndindex(*scatter.shape[:-3]):
            if near is None:
                axes[i][0], variances[i] = _common_axes(family, inside[i], divisor[i])
            else:
                # Covariances of the family are diagonal along their axes, where the objective is largest.
                start, _ = _common_axes(family, family.in_units(near[i]), np.ones_like(divisor[i]))
                axes[i][0], variances[i] = _rotate(family, inside[i], divisor[i], start, NEAR_SWEEPS)
    factors = family.from_units(axes * np.sqrt(variances)[..., None, :])
    return np.where(is_finite, factors @ np.swapaxes(factors, -1, -2), np.nan)


def _variances_along(family: Family, values: Array, divisor: Array) -> Array:
    """Return the variances along axes, from the scatters along them, (..., n_components, n_features)."""
    aligned = family.with_axes(1)
    if aligned.shares_covariance:
        pooled = above_zero(values.sum(axis=-2, keepdims=True))
        return np.broadcast_to(pooled / divisor.sum(axis=-1)[..., None, None], values.shape)
    return aligned.covariances_maximising(values, divisor)


def _common_axes(family: Family, scatter: Array, divisor: Array) -> tuple[Array, Array]:
    """Return the axes of one mixture, and the variances along them, from the better of two starts."""
    traces = np.trace(scatter, axis1=-2, axis2=-1)[:, None, None]
    # What is not above zero is rounding of a component without scatter.
    scatter, traces = np.where(traces > 0, scatter, 0.0), np.maximum(traces, MIN_WEIGHT)
    means = scatter.sum(axis=0), (scatter / traces).sum(axis=0)
    starts = [np.linalg.eigh(mean)[1] for mean in means]
    ends = [_rotate(family, scatter, divisor, start, FIRST_SWEEPS) for start in starts]
    # Where the variances are the best for the axes, the objective is minus this, up to a constant.
    costs = [float(divisor @ np.log(variances).sum(axis=-1)) for _, variances in ends]
    start, _ = ends[int(np.argmin(costs))]
    axes, variances = _rotate(family, scatter, divisor, start, SWEEPS - FIRST_SWEEPS)
    # In an order that does not depend on the way, as sweeps from here do.
    order = np.argsort(np.log(variances).mean(axis=0), kind="stable")
    return axes[:, order], variances[:, order]


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


# --- local coordinates ---------------------------------------------------------------------------


def root_of(family: Family, covariances: Array) -> Array:
    """Return L with covariances L L^t, around which the coordinates are: along axes that are rotated."""
    if not family.is_rotated:
        return family.root(covariances)
    axes, variances = axes_of(family, covariances)
    return family.from_units(axes * np.sqrt(variances)[..., None, :])


def move_means(family: Family, root: Array, steps: Array) -> Array:
    """Return steps of the means in their own units, from those in deviations."""
    return family.times(root, steps)


def information(family: Family, counts: Array, n_features: int, root: Array) -> Array:
    """Return the Fisher information about the coordinates of the covariances, in their shape.

    Parameters
    ----------
    family : Family
    counts : ndarray, shape (n_components,)
        The number of rows of each component.
    n_features : int
    root : ndarray
        The centre of the coordinates.
    """
    # A component of less than one row is scaled like a component of one row.
    counts = np.maximum(family.pooled(counts, axis=0), 1.0)[..., None]
    if not family.shares_part:
        unit = family.divisor(np.ones(()), n_features)
        return counts * np.where(_is_deviation(family, n_features), 2.0 * unit, 1.0)
    n_components, places = len(counts), positions(family, len(counts), n_features)
    each = np.repeat(counts, places.shape[1], axis=1)
    each[:, :n_features] *= np.where(np.arange(n_features) > 0, 2, 2 * n_features)
    if family.is_rotated:
        rows, columns = np.triu_indices(n_features, 1)
        deviations = np.broadcast_to(_axes_of_root(family, root)[1], (n_components, n_features))
        ratios = deviations[:, rows] / deviations[:, columns]
        each[:, n_features:] *= np.maximum((ratios - 1 / ratios) ** 2, SETTINGS.min_angle_information)
    return _sum_shared(places, each)


def positions(family: Family, n_components: int, n_features: int) -> IndexArray:
    """Return the positions of the coordinates, among those of all covariances, of each component.

    Returns
    -------
    positions : ndarray of int, shape (n_components, n_coordinates of one component)
        Shared coordinates occur in the row of each component that shares them.
    """
    sizes = family.sizes_of_parts(n_components, n_features)
    if not family.shares_part:
        # One row per covariance.
        sizes = [(sizes[0][0], sum(size for _, size in sizes))]
    places, first = [], 0
    for n, size in sizes:
        of_part = first + np.arange(n * size).reshape(n, size)
        places.append(np.broadcast_to(of_part, (n_components, size)))
        first += n * size
    return np.concatenate(places, axis=1)


def retract(family: Family, root: Array, tangents: Array) -> Array:
    """Return the covariances at tangent vectors of the shape of `information`; at zero they are L L^t."""
    if family.is_rotated:
        _, rotations, axes, deviations = _moved_axes(family, root, tangents)
        factor = family.from_units(axes @ rotations * deviations[:, None, :])
    else:
        free = _without_sharing(family, root, tangents)
        if family.n_axes < 2:
            return root**2 * np.exp(2 * family.expanded(free))
        factor = root @ _triangles(free, root.shape[-1])
    return factor @ np.swapaxes(factor, -1, -2)


def gradients(
    family: Family,
    root: Array,
    tangents: Array,
    parameters: WhitenedParameters,
    stats: SufficientStats,
    prior: Prior | None,
) -> tuple[Array, Array]:
    """Return the gradients of the objective in tangent vectors of means, mean + L b, and of covariances.

    Parameters
    ----------
    family : Family
    root : ndarray
        At the centre of the coordinates.
    tangents : ndarray
        Of the covariances, where the gradient is taken.
    parameters : WhitenedParameters
        The mixture there.
    stats : SufficientStats
        From the E-step at that mixture.
    prior : Prior or None

    Returns
    -------
    by_mean : ndarray, shape (n_components, n_features)
    by_covariance : ndarray
        Of the shape of `tangents`.
    """
    means, n_features = parameters.means, parameters.n_features
    terms = family.prior_terms(prior, *means.shape)
    if not family.shared and family.has_compiled_m_step(n_features):
        (added, divisors, *_), _ = family.kernel_arguments(terms, stats.counts.shape, n_features)
        arrays = root, tangents, stats.array, means, added, divisors
        numbers = n_features, family.n_axes, terms.shrinkage, terms.mean_divisor
        known = compiled.take_step("gradient", arrays, (means.shape, tangents.shape), *numbers)
        assert known is not None
        return known[0], known[1]
    pull = stats.first - (stats.counts + terms.shrinkage)[:, None] * means
    across = np.swapaxes(root, -1, -2) if family.n_axes == 2 else root
    by_mean = family.times(across, family.times(family.precisions(parameters.covariances), pull))
    scatter, divisor = family.scatter_about(means, stats, terms)
    return by_mean, _by_covariance(family, root, tangents, scatter, divisor)


def _by_covariance(family: Family, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
    """Return the gradient of -1/2 (divisor log|S| + tr(S^-1 scatter)) in tangent vectors."""
    if family.is_rotated:
        return _rotated_gradient(family, root, tangents, scatter, divisor)
    free = _without_sharing(family, root, tangents)
    by_free = _free_gradient(family, root, free, scatter, divisor)
    if not family.shares_part:
        return by_free
    n_components, n_features = root.shape[:2]
    places, is_deviation = positions(family, n_components, n_features), _is_deviation(family, n_features)
    by_deviation, by_lower = by_free[:, is_deviation], by_free[:, ~is_deviation]
    by_volume = by_deviation.sum(axis=1) + (by_lower * free[:, ~is_deviation]).sum(axis=1)
    by_angle = np.exp(tangents[places[:, :1]]) * by_lower
    by_parts = by_volume[:, None], by_deviation @ _contrasts(n_features), by_angle
    return _sum_shared(places, np.concatenate(by_parts, axis=1))


# --- covariances without sharing ----------------------------------------------------------------


def _is_deviation(family: Family, n_features: int) -> Array:
    """Return which coordinates without sharing are logarithms of deviations."""
    return np.asarray(family.compact(family.identity(n_features))) > 0


def _triangles(tangents: Array, n_features: int) -> Array:
    """Return the lower triangular T of S = L T T^t L^t; tangents hold the logarithm of its diagonal."""
    out = np.zeros((*tangents.shape[:-1], n_features, n_features))
    columns, rows = lower_places(n_features)
    out[..., rows, columns] = tangents
    diagonal = np.arange(n_features)
    out[..., diagonal, diagonal] = np.exp(out[..., diagonal, diagonal])
    return out


def _free_gradient(family: Family, root: Array, free: Array, scatter: Array, divisor: Array) -> Array:
    """Return the gradient in tangent vectors without sharing."""
    if family.n_axes < 2:
        ratios = scatter / (root**2 * np.exp(2 * family.expanded(free)))
        return family.compact(ratios - family.each(divisor))
    n_features = root.shape[-1]
    factor = _triangles(free, n_features)
    inverse = np.linalg.inv(root @ factor)
    whitened = inverse @ scatter @ np.swapaxes(inverse, -1, -2)
    excess = whitened - divisor[..., None, None] * np.eye(n_features)
    # With S = L T T^t L^t and Z = (L T)^-1 scatter (L T)^-t, the gradient in T is T^-t (Z - divisor I).
    gradient = np.linalg.solve(np.swapaxes(factor, -1, -2), excess)
    diagonal = np.arange(n_features)
    gradient[..., diagonal, diagonal] *= factor[..., diagonal, diagonal]
    columns, rows = lower_places(n_features)
    return gradient[..., rows, columns]


# --- parts that are shared ----------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _contrasts(n_features: int) -> Array:
    """Return an orthonormal basis, shape (n_features, n_features - 1), of the vectors whose sum is zero."""
    steps = np.tril(np.ones((n_features, n_features - 1)), -1)
    steps -= steps.mean(axis=0)
    return frozen(np.linalg.qr(steps)[0])


def _sum_shared(places: IndexArray, values: Array) -> Array:
    """Return gradients, or information, of all coordinates from those of components: added if shared."""
    return np.bincount(places.ravel(), weights=values.ravel())


def _log_deviations(parts: Array) -> Array:
    """Return the changes of the logarithms of the deviations along the axes of each component."""
    return parts[:, :1] + parts[:, 1:] @ _contrasts(parts.shape[1]).T


def _without_sharing(family: Family, root: Array, tangents: Array) -> Array:
    """Return the tangent vectors of the same covariances without sharing, one row per covariance."""
    if not family.shares_part:
        return tangents
    n_components, n_features = root.shape[:2]
    parts = tangents[positions(family, n_components, n_features)]
    is_deviation = _is_deviation(family, n_features)
    free = np.empty((n_components, len(is_deviation)))
    free[:, is_deviation] = _log_deviations(parts[:, :n_features])
    free[:, ~is_deviation] = np.exp(parts[:, :1]) * parts[:, n_features:]
    return free


# --- axes that are rotated ----------------------------------------------------------------------


def _axes_of_root(family: Family, root: Array) -> tuple[Array, Array]:
    """Return the axes and deviations of each component from the root whose columns are along the axes."""
    factors = root if family.frame is None else family.frame.T @ root
    deviations = np.linalg.norm(factors, axis=-2)
    return factors / deviations[..., None, :], deviations


def _moved_axes(family: Family, root: Array, tangents: Array) -> tuple[Array, Array, Array, Array]:
    """Return half the skew-symmetric generators, rotations, axes and deviations at tangent vectors."""
    n_components, n_features = root.shape[:2]
    axes, deviations = _axes_of_root(family, root)
    parts = tangents[positions(family, n_components, n_features)]
    half = np.zeros_like(root)
    rows, columns = np.triu_indices(n_features, 1)
    half[:, rows, columns] = 0.5 * parts[:, n_features:]
    half[:, columns, rows] = -0.5 * parts[:, n_features:]
    identity = np.eye(n_features)
    rotations = np.linalg.solve(identity - half, identity + half)
    return half, rotations, axes, deviations * np.exp(_log_deviations(parts[:, :n_features]))


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
    by_parts = by_deviation.sum(axis=1)[:, None], by_deviation @ _contrasts(n_features), by_angle
    return _sum_shared(positions(family, *root.shape[:2]), np.concatenate(by_parts, axis=1))
