"""What a covariance family must provide."""

from __future__ import annotations

import abc
import enum
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.mixture.families.storage import CovarianceStorage
from apolar.mixture.parameters import AnyParameters, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats

LOG_2PI = float(np.log(2 * np.pi))
# The least weight of a component in a logarithm: an empty one must not become NaN.
LEAST_WEIGHT = 1e-300
# A component with less than a row is moved, in local coordinates, like one with a row.
LEAST_COUNT = 1.0


class Invariance(enum.Enum):
    """The linear maps of the data under which the covariances of a family stay in the family.

    Data are whitened by such a map, so that fits are equivariant under all of them.
    """

    SCALING = "one factor for all columns"
    COLUMN_SCALING = "a factor for each column"
    LINEAR = "any invertible matrix"


class Family(CovarianceStorage):
    """A family of covariances, as an exponential family.

    The logarithm of a component's weighted density is linear in the features (1, x, quadratics of x) of a
    row, and a component is estimated from the weighted sums of those features: its sufficient statistics.
    So the E-step is one product of matrices, features times natural parameters, and the statistics of the
    M-step are another.

    Everything is in whitened coordinates, centred at the mean of all rows and scaled by their spread, unless
    a method says otherwise.

    The families `Spherical`, `Diagonal` and `Full` say how one covariance is stored, and give each component
    one of its own. Families in which components share something derive from one of them. Where they share
    the whole covariance, `SharedCovariance` does the rest. Where they share a part, such as the volume,
    covariances are still stored for each component, and the family overrides `untied`, its relatives,
    `n_covariance_parameters`, `covariances_maximising` for the M-step, and for the local coordinates
    `covariance_information`, `covariance_coordinates`, `covariance_retraction` and `covariance_gradient`.

    Families have no state: two of one class are equal.
    """

    name: str
    """scikit-learn's name, or one in its manner."""
    code: str
    """mclust's code: volume, shape and orientation, each [E]qual, [V]ariable or the [I]dentity."""
    words: str
    """How the components look, for reports: "round, each with its own size"."""
    invariance: Invariance

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    # --- related families -----------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def untied(self) -> Family:
        """The family of the same storage whose components share nothing; itself if it is that."""

    @property
    @abc.abstractmethod
    def without_correlations(self) -> Family:
        """The family of the same sharing with independent columns in each component; itself if it is that."""

    @property
    @abc.abstractmethod
    def as_spherical(self) -> Family:
        """The family of spherical covariances of the same sharing; itself if it is that."""

    @property
    def is_axis_aligned(self) -> bool:
        """Whether columns are independent in each component: the only quadratics are squares of columns."""
        return self.without_correlations == self

    @property
    def is_spherical(self) -> bool:
        """Whether covariances are multiples of the identity: the only quadratic is |x|^2."""
        return self.as_spherical == self

    # --- the exponential family -----------------------------------------------------------------

    @abc.abstractmethod
    def n_quadratics(self, n_features: int) -> int:
        """Return the number of quadratics of a row."""

    def n_stats(self, n_features: int) -> int:
        """Return the number of features of a row: 1, x, and quadratics."""
        return 1 + n_features + self.n_quadratics(n_features)

    @abc.abstractmethod
    def write_quadratics(self, x: Any, out: Any) -> None:
        """Write the quadratics of x, shape (n_features, n), into `out`, shape (n_quadratics, n)."""

    @abc.abstractmethod
    def natural(self, parameters: WhitenedParameters) -> Array:
        """Return the natural parameters, shape (..., n_components, n_stats).

        Their product with the features of a row is log(w_k) + log N(x; mu_k, S_k).
        """

    @abc.abstractmethod
    def moments(self, parameters: WhitenedParameters) -> SufficientStats:
        """Return the statistics, of total weight one, whose M-step without a prior is these components."""

    @abc.abstractmethod
    def scatter(self, stats: SufficientStats) -> Array:
        """Return the scatter of each component about its mean, (..., n_components, *one covariance)."""

    @abc.abstractmethod
    def prior_terms(
        self, prior: Prior, n_components: int, n_features: int
    ) -> tuple[float, Array, float, float]:
        """Return the prior as (shrinkage, scatter it adds, divisor it adds, divisor that a mean adds)."""

    # --- the covariances of all components ------------------------------------------------------

    def covariance_shape(self, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of the covariances of a mixture."""
        return (n_components, *(n_features,) * self.n_axes)

    @abc.abstractmethod
    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        """Return the number of free parameters of the covariances."""

    @abc.abstractmethod
    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        """Return the covariances of spherical components.

        Parameters
        ----------
        variances : ndarray, shape (n_components,)
            In the units of the data.
        metric : ndarray
            What the identity, as one covariance of this family, becomes in whitened coordinates.
        weights : ndarray, shape (n_components,)
        """

    @abc.abstractmethod
    def rescaled(self, covariances: Array, units: Array) -> tuple[str, Array]:
        """Return covariances of columns multiplied by `units`, shape (n_features,), and their family's name.

        Spherical covariances become diagonal ones.
        """

    @abc.abstractmethod
    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        """Return the covariances of one mixture as matrices, (n_components, n_features, n_features)."""

    def per_component(self, covariances: Array) -> Array:
        """Return the covariances with an axis of components, of length one where they share a covariance."""
        return covariances

    def repeated(self, covariance: Array, n_components: int) -> Array:
        """Return the covariances of a mixture whose components all have the same one."""
        return np.repeat(covariance[None], n_components, axis=0)

    def taken(self, values: Array, components: IndexArray) -> Array:
        """Return the values of some components of one mixture, out of values stored for each covariance."""
        return values[components]

    def appended(self, covariances: Array, covariance: Array) -> Array:
        """Return the covariances of one mixture with one component more, of that covariance."""
        return np.concatenate([covariances, covariance[None]])

    def replaced(self, covariances: Array, component: int, covariance: Array) -> Array:
        """Return the covariances of one mixture with another one for a component."""
        covariances = covariances.copy()
        covariances[component] = covariance
        return covariances

    def halved(self, covariances: Array, component: int, offset: Array) -> Array:
        """Return the covariances of one mixture after a component was cut into two equal parts.

        Its parts are at plus and minus the offset from its mean; one takes its place, the other comes last.
        """
        narrowed = self.narrowed(covariances[component], offset)
        return self.appended(self.replaced(covariances, component, narrowed), narrowed)

    def average(self, covariances: Array, weights: Array) -> Array:
        """Return the mean covariance of one mixture, under weights of sum one."""
        return np.tensordot(weights, covariances, axes=1)

    def pooled(self, values: Array, axis: int) -> Array:
        """Return values for each covariance from values for each component, along an axis.

        Those of components that share a covariance are added up.
        """
        return values

    def reordered(self, parameters: AnyParameters, order: IndexArray) -> AnyParameters:
        """Return the components of one mixture in another order."""
        covariances = self.taken(parameters.covariances, order)
        return type(parameters)(parameters.weights[order], parameters.means[order], covariances)

    def without_sharing(self, parameters: WhitenedParameters) -> WhitenedParameters:
        """Return a batch of the same mixtures in the family `untied`: a covariance for each component."""
        return parameters

    # --- local coordinates, of one mixture: see `apolar.em.coordinates` -------------------------

    @abc.abstractmethod
    def row_information(self, n_features: int) -> Array:
        """Return the Fisher information that one row has on each coordinate of its component's covariance."""

    def covariance_information(self, counts: Array, n_features: int) -> Array:
        """Return the Fisher information on the coordinates of the covariances, in their shape.

        Parameters
        ----------
        counts : ndarray, shape (n_components,)
            The rows that each component holds.
        n_features : int
        """
        counts = np.maximum(self.pooled(counts, axis=0), LEAST_COUNT)
        return counts[..., None] * self.row_information(n_features)

    def covariance_coordinates(self, n_components: int, n_features: int) -> IndexArray:
        """Return which coordinates of the covariances, counted one by one, move that of each component.

        Returns
        -------
        positions : ndarray of int, shape (n_components, n_coordinates of one component)
            A coordinate that components share is there for each of them, in the same place.
        """
        n_own = self.n_covariance_parameters(1, n_features)
        return np.arange(n_components * n_own).reshape(n_components, n_own)

    @abc.abstractmethod
    def covariance_retraction(self, root: Array, tangents: Array) -> Array:
        """Return the covariances at tangent vectors; at zero, L L^t.

        The tangent vectors have the shape of `covariance_information`.
        """

    @abc.abstractmethod
    def covariance_gradient(self, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
        """Return the gradient of -1/2 (divisor log|S| + tr(S^-1 scatter)) in those tangent vectors.

        Parameters
        ----------
        root : ndarray
            At the centre of the coordinates.
        tangents : ndarray
            Where the gradient is taken.
        scatter, divisor : ndarray
            For each covariance; `divisor` is in the units of the method of that name.

        Returns
        -------
        gradient : ndarray
            Of the shape of `tangents`.
        """

    # --- common to all --------------------------------------------------------------------------

    def n_parameters(self, n_components: int, n_features: int) -> int:
        """Return the number of free parameters of a mixture."""
        of_covariances = self.n_covariance_parameters(n_components, n_features)
        return n_components - 1 + n_components * n_features + of_covariances

    def covariances_maximising(self, scatter: Array, divisor: Array) -> Array:
        """Return the covariances S at which -1/2 (divisor log|S| + tr(S^-1 scatter)), summed, is largest.

        Parameters
        ----------
        scatter, divisor : ndarray
            For each covariance; with what the prior adds.
        """
        return scatter / divisor[(...,) + (None,) * (scatter.ndim - divisor.ndim)]

    def m_step(self, stats: SufficientStats, prior: Prior | None) -> WhitenedParameters:
        """Return the M-step: the components that the statistics give, with the prior or without.

        Parameters
        ----------
        stats : SufficientStats
            Of one mixture or of a batch.
        prior : Prior or None

        Returns
        -------
        parameters : WhitenedParameters
        """
        first = stats.first
        n_components, n_features = first.shape[-2:]
        weight = np.maximum(stats.counts, LEAST_WEIGHT)
        scatter = self.scatter(stats)
        divisor = self.divisor(weight, n_features)
        means = first / weight[..., None]
        if prior is not None:
            shrinkage, added, dof, mean_dof = self.prior_terms(prior, n_components, n_features)
            drawn = weight * shrinkage / (weight + shrinkage)
            scatter = scatter + self.between(means, drawn)
            divisor = divisor + mean_dof
            means = first / (weight + shrinkage)[..., None]
        axis = weight.ndim - 1
        scatter, divisor = self.pooled(scatter, axis), self.pooled(divisor, axis)
        if prior is not None:
            scatter, divisor = scatter + added, divisor + dof
        covariances = self.floored(self.covariances_maximising(scatter, divisor))
        return WhitenedParameters(weight / weight.sum(axis=-1, keepdims=True), means, covariances)

    def stats_of(self, parameters: WhitenedParameters, weight: float, prior: Prior | None) -> SufficientStats:
        """Return statistics of that total weight whose M-step, with the prior, is these components."""
        if prior is None:
            return self.moments(parameters) * weight
        n_components, n_features = parameters.means.shape
        shrinkage, added, dof, mean_dof = self.prior_terms(prior, n_components, n_features)
        counts = np.maximum(parameters.weights * weight, LEAST_WEIGHT)
        means = parameters.means * (1 + shrinkage / counts)[:, None]
        pulled = self.pooled(self.between(means, counts * shrinkage / (counts + shrinkage)), axis=0)
        rows = self.divisor(counts, n_features)
        rows, divisor = self.pooled(rows, axis=0), self.pooled(rows + mean_dof, axis=0)
        extra = (...,) + (None,) * (pulled.ndim - divisor.ndim)
        scatter = parameters.covariances * (divisor + dof)[extra] - added - pulled
        covariances = self.floored(scatter / rows[extra])
        return self.moments(WhitenedParameters(parameters.weights, means, covariances)) * weight

    def log_prior(self, parameters: WhitenedParameters, prior: Prior | None) -> Array:
        """Return the logarithm of the prior density, up to a constant, of each mixture of a batch."""
        shape = parameters.weights.shape
        if prior is None:
            return np.zeros(shape[:-1])
        n_components, n_features = parameters.means.shape[-2:]
        shrinkage, added, dof, mean_dof = self.prior_terms(prior, n_components, n_features)
        unit = self.divisor(np.ones(()), n_features)
        covariances, axis = parameters.covariances, len(shape) - 1
        log_det = self.log_det(covariances, n_features)
        # Multiples of log|S|: the divisors count what one row adds to them as `unit`.
        spread = -0.5 * (dof / unit * log_det + self.trace_ratio(added, covariances))
        squares = self.pooled(self.between(parameters.means, np.full(shape, shrinkage)), axis)
        mean_divisor = self.pooled(np.full(shape, mean_dof), axis)
        pulled = -0.5 * (mean_divisor / unit * log_det + self.trace_ratio(squares, covariances))
        return (spread + pulled).reshape(*shape[:-1], -1).sum(axis=-1)

    def merging_term(self, stats: SufficientStats) -> Array:
        """Return weight times log-determinant of each component: what merging raises [runnalls2007]."""
        n_features, untied = stats.n_features, self.untied
        weight = np.maximum(stats.counts, LEAST_WEIGHT)
        divisor = untied.divisor(weight, n_features)
        covariances = untied.floored(untied.covariances_maximising(untied.scatter(stats), divisor))
        return weight * untied.log_det(covariances, n_features)

    def merged(self, stats: SufficientStats, covariances: Array) -> WhitenedParameters:
        """Return the components that come of mergers in a mixture, each by itself and without a prior.

        Parameters
        ----------
        stats : SufficientStats
            Of each merger.
        covariances : ndarray
            Those of the mixture: where its components share a covariance, mergers keep it.
        """
        return self.untied.m_step(stats, None)
