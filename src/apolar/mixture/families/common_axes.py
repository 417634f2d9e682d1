"""Families whose components have the same axes: common principal components [flury1986, browne2014]."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import FIRST_SWEEPS, MIN_CONTRAST, MIN_SINE, NEAR_SWEEPS, SWEEPS
from apolar.mixture.compiled_steps import MAX_COLUMNS
from apolar.mixture.families.parts import min_scatter
from apolar.mixture.families.rotated_parts import RotatedParts

# With more columns than the kernels take there are too many planes: all axes are moved together, so often at
# most, until the objective changes by less than this per row.
MAJORISATIONS = 100
MIN_CHANGE = 1e-9
# Axes are common to covariances if they are correlated by no more than this.
SAME_AXES = 1e-7


class CommonAxes(RotatedParts):
    """Covariances whose axes are those along which the scatters of all components are nearest to diagonal."""

    @abc.abstractmethod
    def variances_maximising(self, scatter: Array, divisor: Array) -> Array:
        """Return the variances along axes, from the scatters along them, (..., n_components, n_features)."""

    @abc.abstractmethod
    def plane_factors(self, along: Array, divisor: Array) -> Array:
        """Return numbers that the ratios of scatter and variance of the components are proportional to."""

    def axes_maximising(self, scatter: Array, divisor: Array, near: Array | None) -> tuple[Array, Array]:
        lead, n_features = scatter.shape[:-3], scatter.shape[-1]
        axes = np.empty((*lead, 1, n_features, n_features))
        variances = np.empty(scatter.shape[:-1])
        for i in np.ndindex(*lead):
            if near is None:
                start = self._better_start(scatter[i], divisor[i])
                found = self._rotated(scatter[i], divisor[i], start, SWEEPS - FIRST_SWEEPS)
            else:
                found = self._rotated(scatter[i], divisor[i], near[i][0], NEAR_SWEEPS)
            axes[i][0], variances[i] = found
        return axes, variances

    def _better_start(self, scatter: Array, divisor: Array) -> Array:
        """Return the better of two axes to start from, after some sweeps."""
        starts = [self._rotated(scatter, divisor, start, FIRST_SWEEPS) for start in _likely_axes(scatter)]
        # Where the variances are the best for the axes, the objective is minus this, up to a constant.
        costs = [float(divisor @ np.log(found).sum(axis=-1)) for _, found in starts]
        return starts[int(np.argmin(costs))][0]

    def _rotated(self, scatter: Array, divisor: Array, start: Array, n_sweeps: int) -> tuple[Array, Array]:
        """Return the axes of one mixture, and the variances along them, by rotations in planes.

        With the variances fixed, the best rotation in a plane is known; variances follow each of them. So
        every rotation raises the objective.
        """
        if scatter.shape[-1] > MAX_COLUMNS:
            return self._majorised(scatter, divisor, start)
        axes, n_features = start.copy(), scatter.shape[-1]
        # With the components last, as each rotation changes two rows and two columns of all matrices.
        stack = np.ascontiguousarray(np.moveaxis(axes.T @ scatter @ axes, 0, -1))
        along = np.diagonal(stack).copy()
        least = float(min_scatter(along).item())
        along = np.maximum(along, least)
        for _ in range(n_sweeps):
            largest = 0.0
            for p in range(n_features - 1):
                for q in range(p + 1, n_features):
                    factors = self.plane_factors(along, divisor)
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
        return axes, self.variances_maximising(along, divisor)

    def _majorised(self, scatter: Array, divisor: Array, axes: Array) -> tuple[Array, Array]:
        """Return the same by steps for all axes at once, each to the minimum of a majoriser [browne2014]."""
        largest = np.linalg.eigvalsh(scatter)[:, -1]
        before = np.inf
        for _ in range(MAJORISATIONS):
            along = np.einsum("ia,kij,ja->ka", axes, scatter, axes)
            variances = self.variances_maximising(np.maximum(along, min_scatter(along)), divisor)
            cost = float(divisor @ np.log(variances).sum(axis=-1))
            if not before - cost > MIN_CHANGE * float(divisor.sum()):
                break
            before = cost
            # Less its largest eigenvalue a scatter is negative, and its part of the cost below its tangent.
            slope = largest[:, None, None] * axes - scatter @ axes
            left, _, right = np.linalg.svd((slope / variances[:, None, :]).sum(axis=0))
            axes = left @ right
        return axes, variances

    def axes_of(self, covariances: Array) -> tuple[Array, Array]:
        lead, n_features = covariances.shape[:-3], covariances.shape[-1]
        axes = np.empty((*lead, 1, n_features, n_features))
        variances = np.empty(covariances.shape[:-1])
        for i in np.ndindex(*lead):
            axes[i][0], variances[i] = self._axes_of_one(covariances[i])
        # In an order, and with signs, that do not depend on the order of the components.
        order = np.argsort(np.log(variances).mean(axis=-2), axis=-1)[..., None, None, :]
        axes = np.take_along_axis(axes, order, axis=-1)
        largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=-2)[..., None, :], axis=-2)
        axes = axes * np.where(largest < 0, -1.0, 1.0)
        variances = np.take_along_axis(variances, order[..., 0, :], axis=-1)
        return np.broadcast_to(axes, covariances.shape), variances

    def _axes_of_one(self, covariances: Array) -> tuple[Array, Array]:
        """Return the common axes of one mixture, and the variances along them."""
        best, least = np.eye(covariances.shape[-1]), np.inf
        for combination in _combinations(covariances):
            axes = np.linalg.eigh(combination)[1]
            off = _off_diagonal(axes, covariances)
            if off < least:
                best, least = axes, off
            if least < SAME_AXES:
                break
        if least >= SAME_AXES:
            # Covariances of the family are diagonal along their axes, where the objective is largest.
            best = self._rotated(covariances, np.ones(len(covariances)), best, NEAR_SWEEPS)[0]
        along = np.einsum("ia,kij,ja->ka", best, covariances, best)
        return best, np.maximum(along, min_scatter(along))


def _combinations(covariances: Array) -> Iterator[Array]:
    """Yield matrices with the axes of all covariances; each may have equal eigenvalues by chance."""
    scaled = covariances / np.trace(covariances, axis1=-2, axis2=-1)[:, None, None]
    yield scaled.sum(axis=0)
    yield (scaled @ scaled).sum(axis=0)
    yield (scaled @ scaled @ scaled).sum(axis=0)


def _off_diagonal(axes: Array, covariances: Array) -> float:
    """Return the largest correlation of two axes in any of the covariances."""
    along = axes.T @ covariances @ axes
    deviations = np.sqrt(np.maximum(np.diagonal(along, axis1=-2, axis2=-1), np.finfo(float).tiny))
    correlations = along / (deviations[:, :, None] * deviations[:, None, :])
    return float(np.abs(correlations - np.eye(len(axes))).max())


def _likely_axes(scatter: Array) -> list[Array]:
    """Return axes to start from: those of all rows of the components together, and of the mean shape."""
    traces = np.trace(scatter, axis1=-2, axis2=-1)
    factors = np.where(traces > 0, 1 / np.where(traces > 0, traces, 1.0), 0.0)
    means = [scatter.sum(axis=0), (factors[:, None, None] * scatter).sum(axis=0)]
    return [np.linalg.eigh(mean)[1] for mean in means]
