"""How one covariance is stored, and what can be done with it."""

from __future__ import annotations

import abc

import numpy as np

from apolar._core.arrays import Array

# The least variance, relative to the variance of all rows, where there is no prior.
LEAST_VARIANCE = 1e-12


class CovarianceStorage(abc.ABC):
    """Covariances as numbers, diagonals or matrices; the methods take arrays of any leading axes.

    The methods that are not abstract are those for numbers and diagonals.
    """

    n_axes: int
    """The number of axes of one covariance: 0 for a number, 1 for a diagonal, 2 for a matrix."""
    least_variance = LEAST_VARIANCE
    """The floor of the variances, in whitened coordinates, where there is no prior."""

    @abc.abstractmethod
    def identity(self, n_features: int) -> Array:
        """Return the identity as one covariance."""

    @abc.abstractmethod
    def between(self, offsets: Array, factors: Array) -> Array:
        """Return factor times the outer product of each offset with itself, as covariances are stored."""

    @abc.abstractmethod
    def divisor(self, weight: Array, n_features: int) -> Array:
        """Return what scatter is divided by, for components of that weight and without a prior."""

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
        """Return the covariances, no variance below the least one."""
        return np.maximum(covariances, self.least_variance)

    def smallest_variance(self, covariances: Array) -> float:
        """Return the smallest variance of any component in any direction."""
        return float(covariances.min())

    def diagonals(self, covariances: Array) -> Array:
        """Return the diagonals: the variances of the columns, or the one that all columns have."""
        return covariances

    def precisions(self, covariances: Array) -> Array:
        """Return the inverses of the covariances."""
        return 1 / covariances

    def whiteners(self, covariances: Array) -> Array:
        """Return A with A A^t the inverse of each covariance; upper triangular where it is a matrix."""
        return 1 / np.sqrt(covariances)

    def check_covariances(self, covariances: Array, name: str) -> None:
        """Refuse what are no covariances of this family; `name` is how the message calls them."""
        if np.any(covariances <= 0):
            raise ValueError(f"{name} must be positive.")

    def from_precisions(self, precisions: Array, name: str) -> Array:
        """Return the covariances that `precisions_init` stand for, or refuse those that stand for none.

        `name` is how the message calls them, which is in words that scripts for scikit-learn look for.
        """
        if np.any(precisions <= 0):
            raise ValueError(
                f"The parameter '{name}' should be positive: precisions_init are one over the variances."
            )
        return 1 / precisions

    def narrowed(self, covariance: Array, offset: Array) -> Array:
        """Return one covariance less the spread of two equal parts at plus and minus the offset."""
        n_features = offset.shape[-1]
        parted = self.between(offset, np.ones(())) / self.divisor(np.ones(()), n_features)
        return np.maximum(covariance - parted, 0.1 * covariance)

    # --- local coordinates, around covariances L L^t: see `apolar.em.coordinates` ---------------

    @abc.abstractmethod
    def root(self, covariances: Array) -> Array:
        """Return L with covariance L L^t."""

    @abc.abstractmethod
    def mean_retraction(self, root: Array, tangents: Array) -> Array:
        """Return the moves L b of the means along the tangent vectors b, shape (n_components, n_features)."""

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
            d: the sums of the rows of each component less its mean.

        Returns
        -------
        gradient : ndarray, shape (n_components, n_features)
        """
