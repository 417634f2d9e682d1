"""How one covariance is stored, and operations on arrays of covariances."""

from __future__ import annotations

import abc

import numpy as np

from apolar._core.arrays import Array

# The least variance without a prior, relative to the variance of all rows.
LEAST_VARIANCE = 1e-12


class CovarianceStorage(abc.ABC):
    """Covariances stored as numbers, diagonals or matrices; methods take arrays with any leading axes.

    The implementations given here are those for numbers and diagonals.
    """

    n_axes: int
    """The number of axes of one covariance: 0 for a number, 1 for a diagonal, 2 for a matrix."""
    least_variance = LEAST_VARIANCE
    """The floor of the variances in whitened coordinates, for fits without a prior."""

    @abc.abstractmethod
    def identity(self, n_features: int) -> Array:
        """Return the identity as one covariance."""

    @abc.abstractmethod
    def between(self, offsets: Array, factors: Array) -> Array:
        """Return factor times the outer product of each offset with itself, in the form of a covariance."""

    @abc.abstractmethod
    def divisor(self, weight: Array, n_features: int) -> Array:
        """Return the divisor of the scatter of components of that weight, without a prior."""

    @abc.abstractmethod
    def log_det(self, covariances: Array, n_features: int) -> Array:
        """Return the logarithms of the determinants."""

    @abc.abstractmethod
    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        """Return tr(S^-1 scatter) for each covariance S."""

    @abc.abstractmethod
    def marginal(self, covariances: Array, columns: list[int]) -> Array:
        """Return the covariances of some of the columns."""

    def floored(self, covariances: Array) -> Array:
        """Return the covariances with variances raised to `least_variance` where they are below."""
        return np.maximum(covariances, self.least_variance)

    def smallest_variance(self, covariances: Array) -> float:
        """Return the smallest variance of any component in any direction."""
        return float(covariances.min())

    def diagonals(self, covariances: Array) -> Array:
        """Return the variances of the columns; for spherical covariances, the one variance of all columns."""
        return covariances

    def precisions(self, covariances: Array) -> Array:
        """Return the inverses of the covariances."""
        return 1 / covariances

    def whiteners(self, covariances: Array) -> Array:
        """Return A, with A A^t the inverse of each covariance; upper triangular for matrices."""
        return 1 / np.sqrt(covariances)

    def check_covariances(self, covariances: Array, name: str) -> None:
        """Refuse arrays that are not covariances of this family; `name` is for the message."""
        if np.any(covariances <= 0):
            raise ValueError(f"{name} must be positive.")

    def from_precisions(self, precisions: Array, name: str) -> Array:
        """Return the covariances whose inverses are `precisions_init`, or refuse invalid ones.

        `name` is for the message, which begins as scikit-learn's, as scripts may match that.
        """
        if np.any(precisions <= 0):
            raise ValueError(
                f"The parameter '{name}' should be positive: precisions_init are one over the variances."
            )
        return 1 / precisions

    def half_covariance(self, covariance: Array, offset: Array) -> Array:
        """Return the covariance of each of two equal parts, at plus and minus the offset, of a component."""
        n_features = offset.shape[-1]
        spread_of_means = self.between(offset, np.ones(())) / self.divisor(np.ones(()), n_features)
        return np.maximum(covariance - spread_of_means, 0.1 * covariance)

    # --- local coordinates, around covariances L L^t: see `apolar.em.coordinates` ---------------

    @abc.abstractmethod
    def root(self, covariances: Array) -> Array:
        """Return L with covariance L L^t."""

    @abc.abstractmethod
    def mean_retraction(self, root: Array, tangents: Array) -> Array:
        """Return the changes L b of the means along tangent vectors b, shape (n_components, n_features)."""

    @abc.abstractmethod
    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        """Return the gradient in those tangent vectors: L^t S^-1 d, where S^-1 d is that in the means.

        Parameters
        ----------
        root : ndarray
            L, at the centre of the coordinates.
        covariances : ndarray
            S, where the gradient is taken.
        vectors : ndarray, shape (n_components, n_features)
            d: the sums, over the rows of each component, of their differences from its mean.

        Returns
        -------
        gradient : ndarray, shape (n_components, n_features)
        """
