"""Covariance families, by scikit-learn's names and by mclust's codes.

A family is what one covariance is, a number, a diagonal or a matrix, and which parts of it all components
share: the volume, the shape or the orientation.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.constants import MIN_PART, MIN_SCATTER, MIN_WEIGHT
from apolar.mixture import compiled_steps, m_steps, sharing
from apolar.mixture.parameters import AnyParameters, SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.shrinkage import Shrinkage
from apolar.mixture.storage import LOG_2PI, Covariances, Matrices

__all__ = ["FAMILIES", "UNIVARIATE", "Family", "Invariance", "MatrixFamily", "family"]

# In local coordinates a component of less than one row is scaled like a component of one row.
MIN_COUNT = 1.0
# The largest ratio of the deviations of columns: beyond it the least scatter, a fraction of that of the
# widest column, is more than a narrow one has. With a margin, as components are narrower than all rows.
MAX_RATIO = 0.1 / np.sqrt(MIN_SCATTER)


class Invariance(enum.Enum):
    """The linear maps of the data that map covariances of a family to covariances of the family.

    Fits are equivariant under all of them.
    """

    SCALING = "one factor for all columns"
    COLUMN_SCALING = "a factor for each column"
    LINEAR = "any invertible matrix"


PARTS = ("volume", "shape", "orientation")
# How rows are whitened for covariances that are numbers, diagonals and matrices.
WHITENED_BY = (Invariance.SCALING, Invariance.COLUMN_SCALING, Invariance.LINEAR)

Estimate = Callable[["Family", Array, Array, Array | None], Array]
"""An M-step of covariances: of the family, scatters and divisors, and covariances to start from or None."""


@dataclass(frozen=True)
class Family(Covariances):
    """A family of covariances, as an exponential family.

    The logarithm of a component's weighted density is linear in the row statistics (1, x, quadratics of x),
    and a component is estimated from the sums of these under its responsibilities: its sufficient statistics.
    So the E-step is one matrix product, of natural parameters and row statistics, and the sufficient
    statistics for the M-step are another, of responsibilities and row statistics.

    All quantities are in whitened coordinates, centred at the mean of all rows and scaled by their spread,
    unless a method says otherwise. Covariances are one per component, (..., n_components, *one); if the
    whole covariance is shared, there is one without an axis of components.

    Attributes
    ----------
    name : str
        scikit-learn's name, or one in its manner. Families of one name are equal.
    code : str
        mclust's code: volume, shape and orientation, each [E]qual, [V]ariable or the [I]dentity.
    words : str
        The shape of the components, for reports: "round, each with its own size".
    n_axes : int
        The number of axes of one covariance: 0 for a number, 1 for a diagonal, 2 for a matrix. A family of
        matrices is a `MatrixFamily`.
    shared : frozenset of str
        Which of "volume", "shape" and "orientation" are the same in all components.
    estimate : callable or None
        The M-step of covariances that share a part, see `apolar.mixture.m_steps`: it takes the family,
        scatters and divisors per component, and covariances to start from or None.
    frame : ndarray, shape (n_features, n_features), or None
        The map from the coordinates of the covariances to the units of the data, x -> x frame, up to a
        factor, for families whose axes are orthogonal in these units. None if it is the identity.
    """

    name: str
    code: str = field(compare=False)
    words: str = field(compare=False)
    n_axes: int = field(compare=False)
    shared: frozenset[str] = field(default=frozenset(), compare=False)
    estimate: Estimate | None = field(default=None, compare=False)
    frame: Array | None = field(default=None, compare=False, repr=False)

    # --- what is shared, and related families ---------------------------------------------------

    @property
    def shares_parameters(self) -> bool:
        """Whether components share their covariance, or a part of it."""
        return bool(self.shared)

    @property
    def shares_covariance(self) -> bool:
        """Whether all components have the same covariance."""
        return len(self.shared) > self.n_axes

    @property
    def shares_part(self) -> bool:
        """Whether components share a part of their covariance, but not all of it."""
        return 0 < len(self.shared) <= self.n_axes

    @property
    def is_rotated(self) -> bool:
        """Whether matrices share the shape or the orientation, but not both: axes are then rotated."""
        return self.n_axes == 2 and ("shape" in self.shared) != ("orientation" in self.shared)

    @property
    def is_axis_aligned(self) -> bool:
        """Whether columns are independent in each component: the only quadratics are squares of columns."""
        return self.n_axes < 2

    @property
    def is_spherical(self) -> bool:
        """Whether covariances are multiples of the identity: the only quadratic is |x|^2."""
        return self.n_axes == 0

    @property
    def invariance(self) -> Invariance:
        """The linear maps of the data under which fits are equivariant."""
        return Invariance.SCALING if self.is_rotated else self.whitened_by

    @property
    def whitened_by(self) -> Invariance:
        """The linear maps by which rows are whitened: those that keep covariances of this form."""
        return WHITENED_BY[self.n_axes]

    @property
    def untied(self) -> Family:
        """The family of the same storage without shared parameters; itself if it has none."""
        return _family_of(self.n_axes, frozenset()) if self.shared else self

    @property
    def tied(self) -> Family:
        """The family of the same storage whose components share the whole covariance."""
        return _family_of(self.n_axes, frozenset(PARTS[: self.n_axes + 1]))

    @property
    def without_correlations(self) -> Family:
        """The family of the same sharing with diagonal covariances; itself if they are axis-aligned."""
        return self if self.n_axes < 2 else _family_of(1, self.shared - {"orientation"})

    @property
    def as_spherical(self) -> Family:
        """The family of the same sharing with spherical covariances; itself if they are spherical."""
        return self if self.n_axes == 0 else _family_of(0, self.shared & {"volume"})

    # --- the units of the data, for axes that are orthogonal there ------------------------------

    def in_coordinates(self, inverse: Array) -> Family:
        """Return the family for covariances in whitened coordinates.

        A family that is not invariant under the map to whitened coordinates has to know it.

        Parameters
        ----------
        inverse : ndarray
            Of the map to whitened coordinates: see `Whitening.inverse`.
        """
        if not self.is_rotated:
            return self
        if inverse.ndim == 0:
            return replace(self, frame=None)
        frame = np.diag(inverse) if inverse.ndim == 1 else inverse
        scales = np.hypot.reduce(np.abs(frame), axis=0)
        most, least = int(scales.argmax()), int(scales.argmin())
        if scales[most] > MAX_RATIO * scales[least]:
            raise ValueError(
                f"Columns {most} and {least} have standard deviations of {scales[most]:.1g} and "
                f"{scales[least]:.1g}, too far apart for covariance type {self.name!r}, which rotates "
                "axes in the units of the data. Divide each column by its standard deviation, or use 'full'."
            )
        return replace(self, frame=frame / np.abs(frame).max())

    @functools.cached_property
    def inverse_frame(self) -> Array | None:
        """The inverse of the frame."""
        return None if self.frame is None else np.linalg.inv(self.frame)

    def in_units(self, matrices: Array) -> Array:
        """Return symmetric matrices in the units of the data."""
        return matrices if self.frame is None else self.frame.T @ matrices @ self.frame

    def from_units(self, factors: Array) -> Array:
        """Return F, with covariances F F^t, in the coordinates of the family, from those in data units."""
        return factors if self.inverse_frame is None else self.inverse_frame.T @ factors

    # --- the covariances of all components ------------------------------------------------------

    def sizes_of_parts(self, n_components: int, n_features: int) -> list[tuple[int, int]]:
        """Return how many volumes, shapes and orientations there are, and the coordinates of each."""
        sizes = (1, n_features - 1, n_features * (n_features - 1) // 2)[: self.n_axes + 1]
        pairs = zip(PARTS, sizes, strict=False)
        return [(1 if part in self.shared else n_components, size) for part, size in pairs]

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        """Return the number of free parameters of the covariances."""
        return sum(n * size for n, size in self.sizes_of_parts(n_components, n_features))

    def n_parameters(self, n_components: int, n_features: int) -> int:
        """Return the number of free parameters of a mixture."""
        n_of_covariances = self.n_covariance_parameters(n_components, n_features)
        return n_components - 1 + n_components * n_features + n_of_covariances

    def covariance_shape(self, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of the covariances of a mixture."""
        one = (n_features,) * self.n_axes
        return one if self.shares_covariance else (n_components, *one)

    def per_component(self, covariances: Array) -> Array:
        """Return the covariances with an axis of components, of length one if they share a covariance."""
        return np.expand_dims(covariances, -1 - self.n_axes) if self.shares_covariance else covariances

    def pooled(self, values: Array, axis: int) -> Array:
        """Return values per covariance: the sums, along an axis, over the components that share it."""
        return values.sum(axis=axis) if self.shares_covariance else values

    def repeated(self, covariance: Array, n_components: int) -> Array:
        """Return the covariances of a mixture whose components all have that covariance."""
        return covariance if self.shares_covariance else np.repeat(covariance[None], n_components, axis=0)

    def taken(self, values: Array, components: IndexArray) -> Array:
        """Return the values of some components of one mixture, from values per covariance."""
        return values if self.shares_covariance else values[components]

    def average(self, covariances: Array, weights: Array) -> Array:
        """Return the mean covariance of one mixture, under weights of sum one."""
        return covariances if self.shares_covariance else np.tensordot(weights, covariances, axes=1)

    def appended(self, covariances: Array, covariance: Array) -> Array:
        """Return the covariances of one mixture with a component of that covariance appended."""
        return covariances if self.shares_covariance else np.concatenate([covariances, covariance[None]])

    def replaced(self, covariances: Array, component: int, covariance: Array) -> Array:
        """Return the covariances of one mixture with that of one component replaced."""
        if self.shares_covariance:
            return covariances
        covariances = covariances.copy()
        covariances[component] = covariance
        return covariances

    def halved(self, covariances: Array, component: int, offset: Array) -> Array:
        """Return the covariances of one mixture after a component is split into two equal halves.

        The halves are at plus and minus the offset from its mean; one replaces it, the other is appended.
        """
        if self.shares_covariance:
            return covariances
        half = self.half_covariance(covariances[component], offset)
        return self.appended(self.replaced(covariances, component, half), half)

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
        if not self.shares_covariance:
            return parameters
        covariances = self.per_component(parameters.covariances)
        shape = (*parameters.weights.shape, *covariances.shape[covariances.ndim - self.n_axes :])
        return WhitenedParameters(parameters.weights, parameters.means, np.broadcast_to(covariances, shape))

    def projected(self, covariances: Array, weights: Array) -> Array:
        """Return the covariances of the family that are nearest to those of one mixture, by divergence.

        The covariances have the shape of the family, but may not share what its components share.
        """
        if not self.shares_part:
            return covariances
        return self.covariances_maximising(weights[(..., *(None,) * self.n_axes)] * covariances, weights)

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
        if self.shares_covariance:
            return weights @ variances / weights.sum() * metric
        return variances[(..., *(None,) * self.n_axes)] * metric

    def rescaled(self, covariances: Array, units: Array) -> tuple[str, Array]:
        """Return covariances of columns multiplied by `units`, shape (n_features,), and their family's name.

        Spherical covariances become diagonal ones, and matrices with axes in common any ones.
        """
        if self.n_axes == 2:
            name = self.untied.name if self.is_rotated else self.name
            return name, covariances * np.outer(units, units)
        diagonal = "tied_diag" if self.shared else "diag"
        return self.name if self.n_axes else diagonal, self.compact(covariances) * units**2

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        """Return the covariances of one mixture as matrices, (n_components, n_features, n_features)."""
        covariances = self.per_component(covariances)
        if self.n_axes < 2:
            covariances = self.compact(covariances)[..., None] * np.eye(n_features)
        shape = (n_components, n_features, n_features)
        return np.broadcast_to(covariances, shape) if self.shares_covariance else covariances

    # --- the exponential family -----------------------------------------------------------------

    def natural(self, parameters: WhitenedParameters) -> Array:
        """Return the natural parameters, shape (..., n_components, n_stats).

        Their product with the statistics of a row is log(w_k) + log N(x; mu_k, S_k).
        """
        known = compiled_steps.natural(self, parameters)
        if known is not None:
            return known
        weights, means = parameters.weights, parameters.means
        n_features = means.shape[-1]
        precisions, log_dets = self.inverses(self.per_component(parameters.covariances), n_features)
        linear = self.times(precisions, means)
        out = np.empty((*weights.shape, self.n_stats(n_features)))
        out[..., 0] = (
            np.log(np.maximum(weights, MIN_WEIGHT))
            - 0.5 * (n_features * LOG_2PI + log_dets)
            - 0.5 * np.einsum("...i,...i->...", linear, means)
        )
        out[..., 1 : 1 + n_features] = linear
        # A product of two columns occurs twice in x^t S^-1 x.
        twice = self.compact(2 - np.eye(n_features)) if self.n_axes == 2 else 1.0
        out[..., 1 + n_features :] = -0.5 * twice * self.compact(precisions)
        return out

    def moments(self, parameters: WhitenedParameters) -> SufficientStats:
        """Return the expected statistics of a row: their M-step without a prior gives these components."""
        weights, means = parameters.weights, parameters.means
        n_features, extra = parameters.n_features, (..., *(None,) * self.n_axes)
        counts = self.divisor(weights, n_features)
        second = counts[extra] * self.per_component(parameters.covariances) + self.between(means, weights)
        parts = [weights[..., None], weights[..., None] * means, self.compact(second)]
        return SufficientStats(np.concatenate(parts, axis=-1), n_features)

    def covariances_maximising(self, scatter: Array, divisor: Array, near: Array | None = None) -> Array:
        """Return the covariances S at which -1/2 (divisor log|S| + tr(S^-1 scatter)), summed, is largest.

        Parameters
        ----------
        scatter, divisor : ndarray
            Per covariance, including what the prior adds.
        near : ndarray, optional
            Covariances to start from, if the maximum is found by iteration: it is not below them.
        """
        if self.estimate is None:
            return scatter / divisor[(..., *(None,) * self.n_axes)]
        known = compiled_steps.maximising(self, scatter, divisor, near)
        if known is not None:
            return known
        # An empty component must not have any influence on the others.
        divisor = np.maximum(divisor, MIN_PART * divisor.sum(axis=-1, keepdims=True))
        return self.estimate(self, scatter, divisor, near)

    def m_step(
        self, stats: SufficientStats, prior: Prior | None, near: WhitenedParameters | None = None
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

        Returns
        -------
        parameters : WhitenedParameters
        """
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
        adapted = None if prior is None else prior.adapted_to(self, stats)
        if adapted is None or isinstance(adapted, Shrinkage):
            # Covariances that are shrunk towards a common one hardly change when they are so again.
            return stats
        n_components, n_features = parameters.means.shape
        shrinkage, added, dof, mean_dof, _ = adapted.terms(self, n_components, n_features)
        counts = np.maximum(parameters.weights * weight, MIN_WEIGHT)
        means = parameters.means * (1 + shrinkage / counts)[:, None]
        pulled = self.pooled(self.between(means, counts * shrinkage / (counts + shrinkage)), axis=0)
        rows = self.divisor(counts, n_features)
        rows, divisor = self.pooled(rows, axis=0), self.pooled(rows + mean_dof, axis=0)
        extra = (..., *(None,) * self.n_axes)
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
        known = compiled_steps.merging_terms(stats, self.min_variance) if self.n_axes == 2 else None
        if known is not None:
            return known
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
        if not self.shares_covariance:
            return self.untied.m_step(stats, None)
        counts = stats.counts
        return WhitenedParameters(counts / counts.sum(), stats.first / counts[:, None], covariances)

    # --- local coordinates, of one mixture: see `apolar.em.coordinates` -------------------------

    def coordinate_root(self, covariances: Array) -> Array:
        """Return L with covariances L L^t, around which the coordinates are."""
        return sharing.root_along_axes(self, covariances) if self.is_rotated else self.root(covariances)

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
        if self.shares_part:
            return sharing.information(self, counts, root)
        return counts[..., None] * self.row_information(n_features)

    def covariance_coordinates(self, n_components: int, n_features: int) -> IndexArray:
        """Return the positions of the coordinates, among those of all covariances, of each component.

        Returns
        -------
        positions : ndarray of int, shape (n_components, n_coordinates of one component)
            Shared coordinates occur in the row of each component that shares them.
        """
        n_of_one = self.n_covariance_parameters(1, n_features)
        if not self.shares_part:
            n = 1 if self.shares_covariance else n_components
            return np.broadcast_to(np.arange(n * n_of_one).reshape(n, n_of_one), (n_components, n_of_one))
        positions = np.arange(self.n_covariance_parameters(n_components, n_features))
        return np.concatenate(sharing.parts_of(self, positions, n_components, n_features), axis=1)

    def covariance_retraction(self, root: Array, tangents: Array) -> Array:
        """Return the covariances at tangent vectors; at the tangent vector zero they are L L^t.

        The tangent vectors have the shape of `covariance_information`.
        """
        return (
            sharing.retraction(self, root, tangents) if self.shares_part else self.retraction(root, tangents)
        )

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
        if self.shares_part:
            return sharing.gradient(self, root, tangents, scatter, divisor)
        return self.gradient(root, tangents, scatter, divisor)


@dataclass(frozen=True)
class MatrixFamily(Matrices, Family):
    """A family of covariances that are matrices."""


# --- the table ----------------------------------------------------------------------------------


def _entry(code: str, words: str, name: str = "", estimate: Estimate | None = None) -> Family:
    """Return the family of a code: two letters I are a number, one is a diagonal, and E is for equal."""
    n_axes = 2 - code.count("I")
    shared = frozenset(part for part, letter in zip(PARTS, code, strict=True) if letter == "E")
    kind = MatrixFamily if n_axes == 2 else Family
    return kind(name or code, code, words, n_axes, shared, estimate)


# A new family is an entry of FAMILIES and, if it shares a part of the covariances, a function as in m_steps.
_ALL = (
    _entry("VVV", "stretched in any direction, each in its own way", "full"),
    _entry("EEE", "stretched in any direction, all in the same way", "tied"),
    _entry("VVI", "stretched along the columns, each in its own way", "diag"),
    _entry("EEI", "stretched along the columns, all in the same way", "tied_diag"),
    _entry("VII", "round, each with its own size", "spherical"),
    _entry("EII", "round, all of one size", "tied_spherical"),
    _entry(
        "VEI",
        "stretched along the columns in the same proportions, each with its own size",
        estimate=m_steps.one_shape,
    ),
    _entry(
        "EVI",
        "stretched along the columns, each in its own proportions, all of the same volume",
        estimate=m_steps.one_volume,
    ),
    _entry(
        "VEE",
        "stretched in any direction, all in the same way but each with its own size",
        estimate=m_steps.multiples_of_one,
    ),
    _entry(
        "EVE",
        "stretched along the same axes, each in its own proportions, all of the same volume",
        estimate=m_steps.rotated_variances,
    ),
    _entry(
        "VVE",
        "stretched along the same axes, each in its own way",
        estimate=m_steps.rotated_variances,
    ),
    _entry(
        "EEV",
        "of the same size and shape, each turned in its own way",
        estimate=m_steps.rotated_variances,
    ),
    _entry(
        "VEV",
        "of the same shape, each with its own size and turned in its own way",
        estimate=m_steps.rotated_variances,
    ),
    _entry(
        "EVV",
        "stretched in any direction, each in its own way, all of the same volume",
        estimate=m_steps.matrices_of_one_volume,
    ),
)

FAMILIES: dict[str, Family] = {entry.name: entry for entry in _ALL} | {entry.code: entry for entry in _ALL}

UNIVARIATE: dict[str, Family] = {"E": FAMILIES["tied_spherical"], "V": FAMILIES["spherical"]}
"""mclust's codes for data of one column: one variance, or one per component."""
FAMILIES |= UNIVARIATE


@functools.cache
def _family_of(n_axes: int, shared: frozenset[str]) -> Family:
    """Return the family of the table that stores and shares these."""
    return next(entry for entry in _ALL if (entry.n_axes, entry.shared) == (n_axes, shared))


def family(covariance_type: str) -> Family:
    """Return a family by its name or by its code."""
    try:
        return FAMILIES[covariance_type]
    except (KeyError, TypeError):
        names = (f"{entry.name!r} ({entry.code})" for entry in _ALL if entry.name != entry.code)
        listed = ", ".join([*names, *(repr(entry.name) for entry in _ALL if entry.name == entry.code)])
        raise ValueError(f"covariance_type must be one of {listed}; got {covariance_type!r}.") from None
