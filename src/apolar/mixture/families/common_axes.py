"""Families whose components have the same axes: common principal components [flury1986, browne2014]."""

from __future__ import annotations

import abc

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families.parts import positive
from apolar.mixture.families.rotated_parts import RotatedParts

# Sweeps of rotations, and the sine of an angle that counts as zero. Angles are quadratic in the gain.
SWEEPS = 200
LEAST_SINE = 1e-12


class CommonAxes(RotatedParts):
    """Covariances whose axes are those along which the scatters of all components are nearest to diagonal."""

    @abc.abstractmethod
    def variances_maximising(self, scatter: Array, divisor: Array) -> Array:
        """Return the variances along axes, from the scatters along them, (..., n_components, n_features)."""

    def axes_maximising(self, scatter: Array, divisor: Array, near: Array | None) -> tuple[Array, Array]:
        lead, n_features = scatter.shape[:-3], scatter.shape[-1]
        axes = np.empty((*lead, 1, n_features, n_features))
        variances = np.empty(scatter.shape[:-1])
        for i in np.ndindex(*lead):
            starts = _likely_axes(scatter[i], divisor[i]) if near is None else [near[i][0]]
            rotated = [self._rotated(scatter[i], divisor[i], start) for start in starts]
            # Where the variances are the best for the axes, the objective is minus this, up to a constant.
            costs = [float(divisor[i] @ np.log(found).sum(axis=-1)) for _, found in rotated]
            axes[i][0], variances[i] = rotated[int(np.argmin(costs))]
        return axes, variances

    def _rotated(self, scatter: Array, divisor: Array, start: Array) -> tuple[Array, Array]:
        """Return the axes of one mixture, and the variances along them, by rotations in planes.

        With the variances fixed, the best rotation in a plane is known; variances follow each of them. So
        every rotation raises the objective.
        """
        axes, n_features = start.copy(), scatter.shape[-1]
        # With the planes last, as each rotation changes two rows and two columns of all matrices.
        stack = np.ascontiguousarray(np.moveaxis(axes.T @ scatter @ axes, 0, -1))
        positions = np.arange(n_features)
        for _ in range(SWEEPS):
            largest = 0.0
            for p in range(n_features - 1):
                for q in range(p + 1, n_features):
                    along = positive(stack[positions, positions].T)
                    inverses = 1 / self.variances_maximising(along, divisor)
                    factors = inverses[:, p] - inverses[:, q]
                    on = float(factors @ (stack[p, p] - stack[q, q]))
                    off = 2 * float(factors @ stack[p, q])
                    angle = 0.5 * np.arctan2(-off, -on) if on or off else 0.0
                    sine, cosine = np.sin(angle), np.cos(angle)
                    largest = max(largest, abs(sine))
                    if abs(sine) <= LEAST_SINE:
                        continue
                    rotation = np.array([[cosine, -sine], [sine, cosine]])
                    stack[[p, q]] = np.einsum("ba,bjk->ajk", rotation, stack[[p, q]])
                    stack[:, [p, q]] = np.einsum("ba,jbk->jak", rotation, stack[:, [p, q]])
                    axes[:, [p, q]] = axes[:, [p, q]] @ rotation
            if largest <= LEAST_SINE:
                break
        return axes, self.variances_maximising(positive(stack[positions, positions].T), divisor)

    def axes_of(self, covariances: Array) -> tuple[Array, Array]:
        # Covariances of the family are diagonal along their axes, where the objective is largest.
        axes, variances = self.axes_maximising(covariances, np.ones(covariances.shape[:-2]), None)
        # In an order, and with signs, that do not depend on the order of the components.
        order = np.argsort(np.log(variances).mean(axis=-2), axis=-1)[..., None, None, :]
        axes = np.take_along_axis(axes, order, axis=-1)
        largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=-2)[..., None, :], axis=-2)
        axes = axes * np.where(largest < 0, -1.0, 1.0)
        variances = np.take_along_axis(variances, order[..., 0, :], axis=-1)
        return np.broadcast_to(axes, covariances.shape), variances


def _likely_axes(scatter: Array, divisor: Array) -> list[Array]:
    """Return axes to start from: those of all rows of the components together, and of the mean covariance."""
    covariances = scatter / np.maximum(divisor, np.finfo(float).tiny)[:, None, None]
    scales = np.trace(covariances, axis1=-2, axis2=-1)
    means = [scatter.sum(axis=0), (covariances / scales[:, None, None]).sum(axis=0)]
    return [np.linalg.eigh(mean)[1] for mean in means]
