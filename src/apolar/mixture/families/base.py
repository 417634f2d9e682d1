"""What a covariance family must provide."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.mixture.parameters import AnyParameters, WhitenedParameters
from apolar.mixture.prior import Prior

LOG_2PI = float(np.log(2 * np.pi))
# The least weight of a component in a logarithm: an empty one must not become NaN.
LEAST_WEIGHT = 1e-300
# The least variance, relative to the variance of all rows, where there is no prior.
LEAST_VARIANCE = 1e-12


class Family(abc.ABC):
    """A family of covariances, as an exponential family.

    The logarithm of a component's weighted density is linear in the features
    (1, x, quadratics of x) of a row, and a component is estimated from the
    weighted sums of those features. So that the E-step is one product of
    matrices, features times natural parameters, and the statistics of the
    M-step are another.

    Everything is in the units of a frame: centred at the mean of all rows and
    scaled by their spread. Sums have shape (..., n_components, width), with
    the total weight, the sums of x and the sums of the quadratics in that
    order.
    """

    name: str
    code: str
    tied: bool
    frame_kind: str
    """What the data are scaled by: "scalar", "columns" or "matrix"."""
    words: str
    """How the components look, for reports: "round, each with its own size"."""
    least_variance = LEAST_VARIANCE
    """The floor of the variances, in the frame, where there is no prior."""

    @property
    @abc.abstractmethod
    def untied(self) -> Family:
        """The family with a covariance of its own for each component."""

    @abc.abstractmethod
    def n_quadratics(self, n_features: int) -> int:
        """Return how many quadratics of a row there are."""

    def n_stats(self, n_features: int) -> int:
        """Return the number of features of a row: 1, x, and quadratics."""
        return 1 + n_features + self.n_quadratics(n_features)

    def split(self, stats: Array) -> tuple[Array, Array, Array]:
        """Return weight, sums of x and sums of quadratics out of sums of shape (..., width)."""
        m = self.n_columns(stats.shape[-1])
        return stats[..., 0], stats[..., 1 : 1 + m], stats[..., 1 + m :]

    @abc.abstractmethod
    def n_columns(self, n_stats: int) -> int:
        """Return the number of columns of data whose rows have that many features."""

    @abc.abstractmethod
    def write_quadratics(self, x: Any, out: Any) -> None:
        """Write the quadratics of x, shape (n_features, n), into `out`, shape (n_quadratics, n)."""

    @abc.abstractmethod
    def natural(self, parameters: WhitenedParameters) -> Array:
        """Return the natural parameters, shape (..., n_components, width).

        Their product with the features of a row is log(w_k) + log N(x; mu_k, S_k).
        """

    @abc.abstractmethod
    def scatter(self, stats: Array) -> Array:
        """Return the scatter of each component about its own mean, (..., n_components, covariance shape)."""

    @abc.abstractmethod
    def between(self, offsets: Array, factors: Array) -> Array:
        """Return factor times the outer product of each offset, in the shape of the covariances."""

    @abc.abstractmethod
    def divisor(self, weight: Array, n_features: int) -> Array:
        """Return what scatter is divided by, for components of that weight and without a prior."""

    @abc.abstractmethod
    def prior_terms(
        self, prior: Prior, n_components: int, n_features: int
    ) -> tuple[float, Array, float, float]:
        """Return the prior as (shrinkage, scatter it adds, divisor it adds, divisor a mean adds)."""

    @abc.abstractmethod
    def floored(self, covariances: Array) -> Array:
        """Return the covariances, no variance below LEAST_VARIANCE."""

    @abc.abstractmethod
    def log_det(self, covariances: Array, n_features: int) -> Array:
        """Return the logarithms of the determinants."""

    @abc.abstractmethod
    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        """Return tr(S^-1 scatter) for each covariance S."""

    @abc.abstractmethod
    def moments(self, parameters: WhitenedParameters) -> Array:
        """Return the sums, of total weight one, that give these components back without a prior."""

    @abc.abstractmethod
    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        """Return the number of free parameters of the covariances."""

    @abc.abstractmethod
    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        """Return spherical covariances v I in the units of the frame.

        Parameters
        ----------
        variances : ndarray, shape (n_components,)
            In the units of the data.
        metric : ndarray
            What the identity becomes: a number, shape (n_features,), or
            shape (n_features, n_features).
        weights : ndarray, shape (n_components,)
        """

    @abc.abstractmethod
    def rescaled(self, covariances: Array, units: Array) -> tuple[Family, Array]:
        """Return covariances of columns multiplied by `units`, shape (n_features,), and their family.

        Spherical covariances become diagonal ones.
        """

    @abc.abstractmethod
    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        """Return one (n_features, n_features) matrix a component."""

    # --- local coordinates, of one mixture: see `apolar.em.coordinates` --------------------------

    @abc.abstractmethod
    def root(self, covariances: Array) -> Array:
        """Return L with covariance L L^t."""

    @abc.abstractmethod
    def mean_retraction(self, root: Array, offsets: Array) -> Array:
        """Return L b for the offsets b, shape (n_components, n_features)."""

    @abc.abstractmethod
    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        """Return L^t S^-1 d for the vectors d, shape (n_components, n_features)."""

    @abc.abstractmethod
    def information(self, n_features: int) -> Array:
        """Return the Fisher information that a row has on each coordinate of `covariance_retraction`."""

    @abc.abstractmethod
    def covariance_retraction(self, root: Array, coordinates: Array) -> Array:
        """Return the covariances at those coordinates, shape (..., n_coordinates); L L^t at zero."""

    @abc.abstractmethod
    def covariance_gradient(self, root: Array, coordinates: Array, scatter: Array, divisor: Array) -> Array:
        """Return the gradient of -1/2 (divisor log|S| + tr(S^-1 scatter)) in those coordinates.

        `divisor` is in the units of `divisor()`.
        """

    def precisions(self, covariances: Array) -> Array:
        """Return the inverses of the covariances."""
        return 1 / covariances

    def whiteners(self, covariances: Array) -> Array:
        """Return A with A A^t the inverse of each covariance; upper triangular where it is a matrix."""
        return 1 / np.sqrt(covariances)

    def narrowed(self, covariance: Array, offset: Array) -> Array:
        """Return one covariance less the spread of two equal parts at plus and minus the offset."""
        n_features = offset.shape[-1]
        parted = self.between(offset, np.ones(())) / self.divisor(np.ones(()), n_features)
        return np.maximum(covariance - parted, 0.1 * covariance)

    def reordered(self, parameters: AnyParameters, order: IndexArray) -> AnyParameters:
        """Return the components of one mixture in another order."""
        covariances = parameters.covariances if self.tied else parameters.covariances[order]
        return type(parameters)(parameters.weights[order], parameters.means[order], covariances)

    # --- common to all ----------------------------------------------------------------

    def n_parameters(self, n_components: int, n_features: int) -> int:
        """Return the number of free parameters of a mixture."""
        return (
            n_components
            - 1
            + n_components * n_features
            + self.n_covariance_parameters(n_components, n_features)
        )

    def m_step(self, stats: Array, prior: Prior | None) -> WhitenedParameters:
        """Return the M-step: the components that the sums give, with the prior or without.

        Parameters
        ----------
        sums : ndarray, shape (..., n_components, width)
        prior : Prior or None

        Returns
        -------
        parameters : WhitenedParameters
        """
        weight, first, _ = self.split(stats)
        n_components, n_features = first.shape[-2:]
        weight = np.maximum(weight, LEAST_WEIGHT)
        scatter = self.scatter(stats)
        divisor = self.divisor(weight, n_features)
        means = first / weight[..., None]
        if prior is not None:
            shrinkage, added, dof, mean_dof = self.prior_terms(prior, n_components, n_features)
            drawn = weight * shrinkage / (weight + shrinkage)
            scatter = scatter + self.between(means, drawn)
            divisor = divisor + mean_dof
            means = first / (weight + shrinkage)[..., None]
        if self.tied:
            axis = weight.ndim - 1
            scatter, divisor = scatter.sum(axis=axis), divisor.sum(axis=-1)
        if prior is not None:
            scatter, divisor = scatter + added, divisor + dof
        extra = scatter.ndim - divisor.ndim
        covariances = scatter / divisor[(...,) + (None,) * extra]
        return WhitenedParameters(
            weight / weight.sum(axis=-1, keepdims=True), means, self.floored(covariances)
        )

    def stats_of(self, parameters: WhitenedParameters, weight: float, prior: Prior | None) -> Array:
        """Return sums of that total weight whose M-step, with the prior, is these components."""
        if prior is None:
            return self.moments(parameters) * weight
        n_components, n_features = parameters.means.shape
        shrinkage, added, dof, mean_dof = self.prior_terms(prior, n_components, n_features)
        counts = np.maximum(parameters.weights * weight, LEAST_WEIGHT)
        means = parameters.means * (1 + shrinkage / counts)[:, None]
        pulled = self.between(means, counts * shrinkage / (counts + shrinkage))
        rows = self.divisor(counts, n_features)
        divisor = rows + mean_dof
        if self.tied:
            pulled, rows, divisor = pulled.sum(axis=0), rows.sum(), divisor.sum()
        extra = (...,) + (None,) * (pulled.ndim - divisor.ndim)
        scatter = parameters.covariances * (divisor + dof)[extra] - added - pulled
        covariances = self.floored(scatter / rows[extra])
        return self.moments(WhitenedParameters(parameters.weights, means, covariances)) * weight

    def log_prior(self, parameters: WhitenedParameters, prior: Prior | None) -> Array:
        """Return the logarithm of the prior density, up to a constant, of each mixture of a batch."""
        if prior is None:
            return np.zeros(parameters.weights.shape[:-1])
        n_components, n_features = parameters.means.shape[-2:]
        shrinkage, added, dof, mean_dof = self.prior_terms(prior, n_components, n_features)
        unit = self.divisor(np.ones(()), n_features)
        log_det = self.log_det(parameters.covariances, n_features)
        # Multiples of log|S|: the divisors count what one row adds to them as `unit`.
        spread = -0.5 * (dof / unit * log_det + self.trace_ratio(added, parameters.covariances))
        squares = self.between(parameters.means, np.full(parameters.weights.shape, shrinkage))
        covariances = parameters.covariances
        if self.tied:
            squares = squares.sum(axis=parameters.weights.ndim - 1)
            pulled = -0.5 * (
                n_components * mean_dof / unit * log_det + self.trace_ratio(squares, covariances)
            )
            return spread + pulled
        pulled = -0.5 * (mean_dof / unit * log_det + self.trace_ratio(squares, covariances))
        return (spread + pulled).sum(axis=-1)

    def merging_term(self, stats: Array) -> Array:
        """Return weight times log-determinant of each component: what merging raises [runnalls2007]."""
        weight, first, _ = self.split(stats)
        n_features = first.shape[-1]
        weight = np.maximum(weight, LEAST_WEIGHT)
        divisor = self.divisor(weight, n_features)
        scatter = self.untied.scatter(stats)
        extra = scatter.ndim - divisor.ndim
        covariances = self.untied.floored(scatter / divisor[(...,) + (None,) * extra])
        return weight * self.untied.log_det(covariances, n_features)
