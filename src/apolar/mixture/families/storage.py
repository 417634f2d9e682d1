"""How one covariance is stored, and operations on arrays of covariances."""

from __future__ import annotations

import abc

import numpy as np
from scipy.special import gammaln

from apolar._core.arrays import Array
from apolar.mixture.stats import SufficientStats

# The least variance without a prior, relative to the variance of all rows.
MIN_VARIANCE = 1e-12


def scalar_log_marginal(n_values: Array, scatter: Array, strength: Array) -> Array:
    """Return the log-density of Gaussian values whose variance is drawn around one, and integrated out.

    Parameters
    ----------
    n_values : ndarray
        The number of values, less the number of means that were estimated from them.
    scatter : ndarray
        The sum of the squares of their deviations.
    strength : ndarray
        The number of values that the prior counts as.
    """
    dof = strength + 2
    after = (dof + n_values) / 2
    scale = dof / 2 * np.log(strength) - after * np.log(strength + scatter)
    return np.asarray(gammaln(after) - gammaln(dof / 2) + scale - n_values / 2 * np.log(np.pi))


class CovarianceStorage(abc.ABC):
    """Covariances stored as numbers, diagonals or matrices; methods take arrays with any leading axes.

    The implementations given here are those for numbers and diagonals.
    """

    n_axes: int
    """The number of axes of one covariance: 0 for a number, 1 for a diagonal, 2 for a matrix."""
    min_variance = MIN_VARIANCE
    """The floor of the variances in whitened coordinates, for fits without a prior."""
    frame: Array | None = None
    """The map from the coordinates of covariances to the units of the data, if a family has to know it."""
    inverse_frame: Array | None = None

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

    def relative_variances(self, scatter: Array, covariances: Array) -> Array:
        """Return the eigenvalues of S^-1 scatter for each covariance S, shape (..., n)."""
        ratios = np.asarray(scatter / covariances)
        return ratios if self.n_axes else ratios[..., None]

    def relative_spectrum(self, stats: SufficientStats, covariances: Array) -> tuple[Array, Array]:
        """Return `relative_variances` of the scatters of components, and the log-determinants."""
        log_dets = self.log_det(covariances, stats.n_features)
        return self.relative_variances(self.scatter(stats), covariances), log_dets

    @abc.abstractmethod
    def scatter(self, stats: SufficientStats) -> Array:
        """Return the scatter of each component about its mean, (..., n_components, *covariance)."""

    def n_joint(self, n_features: int) -> int:
        """Return the dimension of the scatters: one, where variances are estimated one by one."""
        return 1

    @abc.abstractmethod
    def log_marginal(self, counts: Array, spectrum: Array, strength: Array, n_features: int) -> Array:
        """Return the logarithm of the density of rows whose covariance is drawn around a given one.

        The covariance is drawn from an inverse Wishart (or gamma) distribution, and integrated out, as are
        the means, under a flat prior. The target has determinant one.

        Parameters
        ----------
        counts : ndarray, shape (..., n_components)
            The number of rows.
        spectrum : ndarray, shape (..., n_components, n)
            Of the scatter of the rows relative to the target: see `relative_variances`.
        strength : ndarray
            The number of rows that the target counts as.
        n_features : int
        """

    def floored(self, covariances: Array) -> Array:
        """Return the covariances with variances raised to `min_variance` where they are below."""
        return np.maximum(covariances, self.min_variance)

    def raise_to(self, covariances: Array, least: Array) -> Array:
        """Return the least covariances S that are at least as large as these and `least`: S - least >= 0.

        In the coordinates in which both are diagonal, this is the larger of their variances.
        """
        return np.maximum(covariances, least)

    def smallest_variance(self, covariances: Array) -> float:
        """Return the smallest variance of any component in any direction."""
        return float(covariances.min())

    def largest_ratio(self, covariance: Array, covariances: Array) -> float:
        """Return the largest ratio, in any direction, of one variance to those of the covariances."""
        return float((covariance / covariances).max())

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
