"""What a covariance family must provide."""

from __future__ import annotations

import abc
import enum
from dataclasses import replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.constants import MIN_WEIGHT
from apolar.mixture import compiled_steps
from apolar.mixture.families.components import ComponentCovariances
from apolar.mixture.parameters import AnyParameters, WhitenedParameters
from apolar.mixture.prior import Prior, PriorTerms
from apolar.mixture.shrinkage import Shrinkage
from apolar.mixture.stats import SufficientStats

LOG_2PI = float(np.log(2 * np.pi))
# In local coordinates a component of less than one row is scaled like a component of one row.
MIN_COUNT = 1.0


class Invariance(enum.Enum):
    """The linear maps of the data that map covariances of a family to covariances of the family.

    Fits are equivariant under all of them.
    """

    SCALING = "one factor for all columns"
    COLUMN_SCALING = "a factor for each column"
    LINEAR = "any invertible matrix"


# How rows are whitened for covariances that are numbers, diagonals and matrices.
WHITENED_BY = (Invariance.SCALING, Invariance.COLUMN_SCALING, Invariance.LINEAR)


class Family(ComponentCovariances):
    """A family of covariances, as an exponential family.

    The logarithm of a component's weighted density is linear in the row statistics (1, x, quadratics of x),
    and a component is estimated from the sums of these under its responsibilities: its sufficient statistics.
    So the E-step is one matrix product, of natural parameters and row statistics, and the sufficient
    statistics for the M-step are another, of responsibilities and row statistics.

    All quantities are in whitened coordinates, centred at the mean of all rows and scaled by their spread,
    unless a method says otherwise.

    The families `Spherical`, `Diagonal` and `Full` define how one covariance is stored, and have a separate
    covariance for each component. Families with shared parameters derive from one of them. If components
    share the whole covariance, `SharedCovariance` does the rest. If they share a part of it, such as the
    volume, covariances are still stored per component; `PartlyShared` counts parameters and coordinates, and
    the family has a `covariances_maximising` of its own for the M-step.

    Families have no state but the coordinates they are for: two of one class are equal.
    """

    name: str
    """scikit-learn's name, or one in its manner."""
    code: str
    """mclust's code: volume, shape and orientation, each [E]qual, [V]ariable or the [I]dentity."""
    words: str
    """The shape of the components, for reports: "round, each with its own size"."""
    invariance: Invariance
    """The linear maps of the data under which fits are equivariant."""

    shares_covariance = False
    """Whether all components have the same covariance."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @property
    def whitened_by(self) -> Invariance:
        """The linear maps by which rows are whitened: those that keep covariances of this form."""
        return WHITENED_BY[self.n_axes]

    def in_coordinates(self, inverse: Array) -> Family:
        """Return the family for covariances in whitened coordinates.

        A family that is not invariant under the map to whitened coordinates has to know it.

        Parameters
        ----------
        inverse : ndarray
            Of the map to whitened coordinates: see `Whitening.inverse`.
        """
        return self

    # --- related families -----------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def untied(self) -> Family:
        """The family of the same storage without shared parameters; itself if it has none."""

    @property
    @abc.abstractmethod
    def without_correlations(self) -> Family:
        """The family of the same sharing with diagonal covariances; itself if they are axis-aligned."""

    @property
    @abc.abstractmethod
    def as_spherical(self) -> Family:
        """The family of the same sharing with spherical covariances; itself if they are spherical."""

    @property
    def shares_parameters(self) -> bool:
        """Whether components share their covariance, or a part of it."""
        return self.untied != self

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
        """Return the number of row statistics: 1, x, and quadratics of x."""
        return 1 + n_features + self.n_quadratics(n_features)

    @abc.abstractmethod
    def write_quadratics(self, x: Any, out: Any) -> None:
        """Write the quadratics of x, shape (n_features, n), into `out`, shape (n_quadratics, n)."""

    @abc.abstractmethod
    def natural(self, parameters: WhitenedParameters) -> Array:
        """Return the natural parameters, shape (..., n_components, n_stats).

        Their product with the statistics of a row is log(w_k) + log N(x; mu_k, S_k).
        """

    @abc.abstractmethod
    def moments(self, parameters: WhitenedParameters) -> SufficientStats:
        """Return the expected statistics of a row: their M-step without a prior gives these components."""

    @abc.abstractmethod
    def prior_terms(self, prior: Prior, n_components: int, n_features: int) -> PriorTerms:
        """Return what the conjugate prior adds to the M-step, with the usual defaults for this family."""

    # --- the covariances of all components ------------------------------------------------------

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
            The identity of the units of the data in whitened coordinates, as one covariance of this family.
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

    def reordered(self, parameters: AnyParameters, order: IndexArray) -> AnyParameters:
        """Return the components of one mixture in another order."""
        covariances = self.taken(parameters.covariances, order)
        return replace(
            parameters,
            weights=parameters.weights[order],
            means=parameters.means[order],
            covariances=covariances,
        )

    def without_sharing(self, parameters: WhitenedParameters) -> WhitenedParameters:
        """Return a batch of mixtures in the family `untied`, with the same covariances per component."""
        return parameters

    # --- local coordinates, of one mixture: see `apolar.em.coordinates` -------------------------

    @abc.abstractmethod
    def row_information(self, n_features: int) -> Array:
        """Return the Fisher information of one row about each coordinate of its component's covariance."""

    def coordinate_root(self, covariances: Array) -> Array:
        """Return L with covariances L L^t, around which the coordinates are."""
        return self.root(covariances)

    def covariance_information(self, counts: Array, n_features: int, root: Array) -> Array:
        """Return the Fisher information about the coordinates of the covariances, in their shape.

        Parameters
        ----------
        counts : ndarray, shape (n_components,)
            The number of rows of each component.
        n_features : int
        root : ndarray
            The centre of the coordinates.
        """
        counts = np.maximum(self.pooled(counts, axis=0), MIN_COUNT)
        return counts[..., None] * self.row_information(n_features)

    def covariance_coordinates(self, n_components: int, n_features: int) -> IndexArray:
        """Return the positions of the coordinates, among those of all covariances, of each component.

        Returns
        -------
        positions : ndarray of int, shape (n_components, n_coordinates of one component)
            Shared coordinates occur in the row of each component that shares them.
        """
        n_coordinates = self.n_covariance_parameters(1, n_features)
        return np.arange(n_components * n_coordinates).reshape(n_components, n_coordinates)

    @abc.abstractmethod
    def covariance_retraction(self, root: Array, tangents: Array) -> Array:
        """Return the covariances at tangent vectors; at the tangent vector zero they are L L^t.

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
            Per covariance; `divisor` is on the scale of the method `divisor`.

        Returns
        -------
        gradient : ndarray
            Of the shape of `tangents`.
        """

    # --- common to all --------------------------------------------------------------------------

    def n_parameters(self, n_components: int, n_features: int) -> int:
        """Return the number of free parameters of a mixture."""
        n_of_covariances = self.n_covariance_parameters(n_components, n_features)
        return n_components - 1 + n_components * n_features + n_of_covariances

    def covariances_maximising(self, scatter: Array, divisor: Array, near: Array | None = None) -> Array:
        """Return the covariances S at which -1/2 (divisor log|S| + tr(S^-1 scatter)), summed, is largest.

        Parameters
        ----------
        scatter, divisor : ndarray
            Per covariance, including what the prior adds.
        near : ndarray, optional
            Covariances to start from, if the maximum is found by iteration: it is not below them.
        """
        return scatter / divisor[(...,) + (None,) * (scatter.ndim - divisor.ndim)]

    def floor(self, covariances: Array, least: Array, weights: Array) -> Array:
        """Return the covariances of the family, raised to a least one: S - least is positive semidefinite.

        Generalised eigenvalues of (S, least) below one become one. For families that share nothing or the
        whole covariance, this maximises the objective of the M-step under that constraint.

        Parameters
        ----------
        covariances : ndarray
            Of one mixture or of a batch.
        least : ndarray
            One covariance of this form, in the same coordinates; it may be singular.
        weights : ndarray, shape (..., n_components)
        """
        return self.raise_to(self.floored(covariances), least)

    def m_step(
        self,
        stats: SufficientStats,
        prior: Prior | None,
        near: WhitenedParameters | None = None,
        least: Array | None = None,
    ) -> WhitenedParameters:
        """Return the M-step: the parameters that maximise the expected complete objective.

        Parameters
        ----------
        stats : SufficientStats
            Of one mixture or of a batch.
        prior : Prior or None
        near : WhitenedParameters, optional
            The mixtures of the E-step. Families whose M-step is an iteration start it from there, so that the
            objective does not fall.
        least : ndarray, optional
            One covariance, to which covariances are raised: see `floor`.

        Returns
        -------
        parameters : WhitenedParameters
        """
        found = self._m_step(stats, prior, near)
        if least is None:
            return found
        return replace(found, covariances=self.floor(found.covariances, least, found.weights))

    def _m_step(
        self, stats: SufficientStats, prior: Prior | None, near: WhitenedParameters | None
    ) -> WhitenedParameters:
        """Return the M-step without a least covariance."""
        first = stats.first
        n_components, n_features = first.shape[-2:]
        terms = None
        if prior is not None:
            terms = prior.adapted_to(self, stats).terms(self, n_components, n_features)
        weight = np.maximum(stats.counts, MIN_WEIGHT)
        known = compiled_steps.m_step(self, stats, terms, near)
        if known is not None:
            return WhitenedParameters(weight / weight.sum(axis=-1, keepdims=True), *known)
        scatter = self.scatter(stats)
        divisor = self.divisor(weight, n_features)
        means = first / weight[..., None]
        if terms is not None:
            shrinkage, added, dof, mean_dof, _ = terms
            # The scatter between the mean of the rows and that of the prior, which is zero.
            factors = weight * shrinkage / (weight + shrinkage)
            scatter = scatter + self.between(means, factors)
            divisor = divisor + mean_dof
            means = first / (weight + shrinkage)[..., None]
        axis = weight.ndim - 1
        scatter, divisor = self.pooled(scatter, axis), self.pooled(divisor, axis)
        if terms is not None:
            scatter, divisor = scatter + added, divisor + dof
        start = None if near is None else near.covariances
        covariances = self.floored(self.covariances_maximising(scatter, divisor, start))
        return WhitenedParameters(weight / weight.sum(axis=-1, keepdims=True), means, covariances)

    def stats_of(self, parameters: WhitenedParameters, weight: float, prior: Prior | None) -> SufficientStats:
        """Return statistics of that total weight whose M-step, with the prior, gives these components."""
        stats = self.moments(parameters) * weight
        if prior is None:
            return stats
        adapted = prior.adapted_to(self, stats)
        if isinstance(adapted, Shrinkage):
            # Covariances that are shrunk towards a common one hardly change when they are so again.
            return stats
        return self._stats_under(parameters, weight, adapted)

    def _stats_under(self, parameters: WhitenedParameters, weight: float, prior: Prior) -> SufficientStats:
        """Return statistics whose M-step, with a prior that does not adapt, gives these components."""
        n_components, n_features = parameters.means.shape
        shrinkage, added, dof, mean_dof, _ = prior.terms(self, n_components, n_features)
        counts = np.maximum(parameters.weights * weight, MIN_WEIGHT)
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
        terms = prior.terms(self, n_components, n_features)
        known = compiled_steps.log_prior(self, parameters, terms)
        if known is not None:
            return np.asarray(known.sum(axis=-1) + terms.constant)
        shrinkage, added, dof, mean_dof, constant = terms
        unit = self.divisor(np.ones(()), n_features)
        covariances, axis = parameters.covariances, len(shape) - 1
        log_det = self.log_det(covariances, n_features)
        # Divided by the divisor of one row, divisors are multiples of log|S|.
        spread = -0.5 * (dof / unit * log_det + self.trace_ratio(added, covariances))
        squares = self.pooled(self.between(parameters.means, np.full(shape, shrinkage)), axis)
        mean_divisor = self.pooled(np.full(shape, mean_dof), axis)
        pulled = -0.5 * (mean_divisor / unit * log_det + self.trace_ratio(squares, covariances))
        return (spread + pulled).reshape(*shape[:-1], -1).sum(axis=-1) + constant

    def merging_term(self, stats: SufficientStats) -> Array:
        """Return weight times log-determinant of each component: merging raises their sum [runnalls2007]."""
        n_features, untied = stats.n_features, self.untied
        weight = np.maximum(stats.counts, MIN_WEIGHT)
        divisor = untied.divisor(weight, n_features)
        covariances = untied.floored(untied.covariances_maximising(untied.scatter(stats), divisor))
        return weight * untied.log_det(covariances, n_features)

    def merged(self, stats: SufficientStats, covariances: Array) -> WhitenedParameters:
        """Return the components that result from mergers in a mixture, each by itself and without a prior.

        Parameters
        ----------
        stats : SufficientStats
            Of the merged components.
        covariances : ndarray
            Of the mixture. If its components share a covariance, merged components keep it.
        """
        return self.untied.m_step(stats, None)
