"""Families of matrices that share the shape or the orientation, but not both."""

from __future__ import annotations

import abc

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import MIN_SCATTER
from apolar.mixture.families.base import Family, Invariance
from apolar.mixture.families.full import Full
from apolar.mixture.families.parts import PartlyShared, contrasts
from apolar.mixture.families.tied import Tied

# The least information of a row about an angle: that of axes of about the same variance is near zero.
MIN_INFORMATION = 0.1
# The largest ratio of the deviations of columns: beyond it the least scatter, a fraction of that of the
# widest column, is more than a narrow one has. With a margin, as components are narrower than all rows.
MAX_RATIO = 0.1 / np.sqrt(MIN_SCATTER)


class RotatedParts(PartlyShared, Full):
    """Covariances D_k diag(v_k) D_k^t with axes D_k or variances v_k in common.

    Axes are orthogonal in the units of the data, so that the family has to know these: see
    `in_coordinates`. Around a mixture, variances are multiplied by exponentials and axes rotated by Cayley
    transforms.

    Parameters
    ----------
    frame : ndarray, shape (n_features, n_features), optional
        The map from the coordinates of the covariances to the units of the data, x -> x frame, up to a
        factor. By default they are in the units of the data.
    """

    invariance = Invariance.SCALING

    def __init__(self, frame: Array | None = None) -> None:
        self.frame = frame
        self.inverse_frame = None if frame is None else np.linalg.inv(frame)

    def in_coordinates(self, inverse: Array) -> Family:
        if inverse.ndim == 0:
            return type(self)()
        frame = np.diag(inverse) if inverse.ndim == 1 else inverse
        scales = np.hypot.reduce(np.abs(frame), axis=0)
        most, least = int(scales.argmax()), int(scales.argmin())
        if scales[most] > MAX_RATIO * scales[least]:
            raise ValueError(
                f"Columns {most} and {least} of X have standard deviations of {scales[most]:.1g} and "
                f"{scales[least]:.1g}, too far apart for covariance_type={self.name!r}, which rotates axes "
                "in the units of X. Divide each column by its standard deviation, or use 'full'."
            )
        return type(self)(frame / np.abs(frame).max())

    @property
    def untied(self) -> Family:
        return Full()

    @property
    def tied(self) -> Family:
        return Tied()

    def rescaled(self, covariances: Array, units: Array) -> tuple[str, Array]:
        return Full().rescaled(covariances, units)

    def _in_units(self, matrices: Array) -> Array:
        """Return symmetric matrices in the units of the data."""
        if self.frame is None:
            return matrices
        return self.frame.T @ matrices @ self.frame

    def _factors_in_coordinates(self, factors: Array) -> Array:
        """Return F, with covariances F F^t, in the coordinates of the family, from those in data units."""
        return factors if self.inverse_frame is None else self.inverse_frame.T @ factors

    def covariances_estimated(self, scatter: Array, divisor: Array, near: Array | None) -> Array:
        axes_near = None if near is None else self.axes_of(self._in_units(near))[0]
        axes, variances = self.axes_maximising(self._in_units(scatter), divisor, axes_near)
        factors = self._factors_in_coordinates(axes * np.sqrt(variances)[..., None, :])
        return factors @ np.swapaxes(factors, -1, -2)

    @abc.abstractmethod
    def axes_maximising(self, scatter: Array, divisor: Array, near: Array | None) -> tuple[Array, Array]:
        """Return the axes, as columns, and variances of the M-step, in the units of the data.

        Parameters
        ----------
        scatter : ndarray, shape (..., n_components, n_features, n_features)
        divisor : ndarray, shape (..., n_components)
        near : ndarray or None
            Axes to start from, if they are found by iteration.

        Returns
        -------
        axes : ndarray
            Shape (..., n_components, n_features, n_features); the length of components is one if shared.
        variances : ndarray, shape (..., n_components, n_features)
        """

    @abc.abstractmethod
    def axes_of(self, covariances: Array) -> tuple[Array, Array]:
        """Return the axes and variances of covariances of this family, in the units of the data."""

    # --- local coordinates ----------------------------------------------------------------------

    def coordinate_root(self, covariances: Array) -> Array:
        axes, variances = self.axes_of(self._in_units(covariances))
        return self._factors_in_coordinates(axes * np.sqrt(variances)[..., None, :])

    def _axes_of_root(self, root: Array) -> tuple[Array, Array]:
        """Return the axes and deviations of each component from `coordinate_root`."""
        factors = root if self.frame is None else self.frame.T @ root
        deviations = np.linalg.norm(factors, axis=-2)
        return factors / deviations[..., None, :], deviations

    def covariance_information(self, counts: Array, n_features: int, root: Array) -> Array:
        rows, columns = np.triu_indices(n_features, 1)
        counts, of_volume, of_shape = self.information_of_variances(counts, n_features)
        ratios = self._axes_of_root(root)[1]
        ratios = ratios[:, rows] / ratios[:, columns]
        of_angles = counts * np.maximum((ratios - 1 / ratios) ** 2, MIN_INFORMATION)
        return self.joined(of_volume, of_shape, of_angles)

    def _moved(self, root: Array, tangents: Array) -> tuple[Array, Array, Array, Array]:
        """Return half the skew-symmetric generators, rotations, axes and deviations at tangent vectors."""
        n_components, n_features = root.shape[:2]
        axes, deviations = self._axes_of_root(root)
        angles = self.parts_of(tangents, n_components, n_features)[2]
        half = np.zeros_like(root)
        rows, columns = np.triu_indices(n_features, 1)
        half[:, rows, columns] = 0.5 * angles
        half[:, columns, rows] = -0.5 * angles
        identity = np.eye(n_features)
        rotations = np.linalg.solve(identity - half, identity + half)
        deviations = deviations * np.exp(self.log_deviations(tangents, n_components, n_features))
        return half, rotations, axes, deviations

    def covariance_retraction(self, root: Array, tangents: Array) -> Array:
        _, rotations, axes, deviations = self._moved(root, tangents)
        factors = self._factors_in_coordinates(axes @ rotations * deviations[:, None, :])
        return factors @ np.swapaxes(factors, -1, -2)

    def covariance_gradient(self, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
        n_features = root.shape[1]
        half, rotations, axes, deviations = self._moved(root, tangents)
        along_axes = np.swapaxes(axes, -1, -2) @ self._in_units(scatter) @ axes
        products = along_axes @ rotations
        by_deviation = np.einsum("kij,kij->kj", rotations, products) / deviations**2 - divisor[:, None]
        # With Q = (I - K)^-1 (I + K): dQ = (I - K)^-1 dK (I + Q), and K is skew-symmetric.
        identity = np.eye(n_features)
        by_rotation = products / deviations[:, None, :] ** 2
        by_generator = np.linalg.solve(
            identity + half, by_rotation @ np.swapaxes(identity + rotations, -1, -2)
        )
        rows, columns = np.triu_indices(n_features, 1)
        by_angle = -0.5 * (by_generator[:, rows, columns] - by_generator[:, columns, rows])
        of_shape = by_deviation @ contrasts(n_features)
        return self.joined(by_deviation.sum(axis=1)[:, None], of_shape, by_angle)
