"""Covariance families, by scikit-learn's names and by mclust's codes.

A family is what one covariance is, a number, a diagonal or a matrix, and which parts of it all components
share: the volume, the shape or the orientation.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np

from apolar._core import compiled
from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.constants import MIN_PART, MIN_SCATTER, MIN_WEIGHT
from apolar._core.settings import SETTINGS
from apolar.mixture import sharing
from apolar.mixture.parameters import AnyParameters, SufficientStats, WhitenedParameters
from apolar.mixture.storage import LOG_2PI, Covariances
from apolar.mixture.tails import START_DOF, Tails, dof_step

if TYPE_CHECKING:
    from apolar.mixture.prior import Prior

__all__ = ["FACTORS", "FAMILIES", "UNIVARIATE", "Family", "PriorTerms", "conjugate_terms", "family"]

# The largest ratio of the deviations of columns: beyond it the least scatter, a fraction of that of the
# widest column, is more than a narrow one has. With a margin, as components are narrower than all rows.
MAX_RATIO = 0.1 / np.sqrt(MIN_SCATTER)


class PriorTerms(NamedTuple):
    """What a prior adds to the M-step, in whitened coordinates; without a prior, nothing.

    Attributes
    ----------
    shrinkage : float, default=0.0
        The number of rows, at the mean of all rows, that it adds to each component.
    scatter : ndarray or float, default=0.0
        Added to the scatter of each covariance.
    divisor : float or ndarray, default=0.0
        Added to the divisor of each covariance.
    mean_divisor : float, default=0.0
        Added to the divisor of each covariance for every component that has it, by the prior of the mean.
    rows : float, default=0.0
        The number of rows that it adds to the weight of each component.
    """

    shrinkage: float = 0.0
    scatter: Array | float = 0.0
    divisor: float | Array = 0.0
    mean_divisor: float = 0.0
    rows: float = 0.0


PARTS = ("volume", "shape", "orientation")
# The families that the extension knows.
COMPILED = ["EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"]

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
    n_axes : int
        The number of axes of one covariance: 0 for a number, 1 for a diagonal, 2 for a matrix.
    shared : frozenset of str
        Which of "volume", "shape" and "orientation" are the same in all components.
    estimate : callable or None
        The M-step of covariances that share a part, see `apolar.mixture.sharing`: it takes the family,
        scatters and divisors per component, and covariances to start from or None.
    frame : ndarray, shape (n_features, n_features), or None
        The map from the coordinates of the covariances to the units of the data, x -> x frame, up to a
        factor, for families whose axes are orthogonal in these units. None if it is the identity.
    dof : {"own", "common"}, float or None
        The degrees of freedom of components with long tails: one number for each, one for all, or as given.
        None for Gaussian components.
    n_factors : int or None, default=None
        Of covariances of few factors: see `apolar.mixture.factors`. None: it is still to be chosen.
    noise : Family or None, default=None
        Next to factors, that of the variances of the noise: diagonal or spherical, of each component or
        of all.
    """

    chart: ClassVar[ModuleType] = sharing
    """The module of the local coordinates of the covariances."""
    has_factors: ClassVar[bool] = False
    """Whether covariances are those of few factors."""

    name: str
    code: str = field(compare=False)
    n_axes: int = field(compare=False)
    shared: frozenset[str] = field(default=frozenset(), compare=False)
    estimate: Estimate | None = field(default=None, compare=False)
    frame: Array | None = field(default=None, compare=False, repr=False)
    dof: str | float | None = None
    n_factors: int | None = None
    noise: Family | None = None

    # --- what is shared, and related families ---------------------------------------------------

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
    def untied(self) -> Family:
        """The family of the same storage without shared parameters; itself if it has none."""
        return self._related(self.n_axes, frozenset()) if self.shared else self

    @property
    def tied(self) -> Family:
        """The family of the same storage whose components share the whole covariance."""
        return self._related(self.n_axes, frozenset(PARTS[: self.n_axes + 1]))

    @property
    def gaussian(self) -> Family:
        """The family of Gaussian components with the same covariances."""
        return self if self.dof is None else replace(self, dof=None)

    @property
    def unit_axes(self) -> int:
        """The axes of the maps under which the family is the same: 0 one unit, 1 one per column, 2 any."""
        return self.n_axes if self.noise is None else self.noise.n_axes

    @property
    def of_matrices(self) -> Family:
        """The family of the same components whose covariances are stored as matrices; itself, if they are."""
        return replace(FAMILIES["full"], dof=self.dof) if self.has_factors else self

    @property
    def row_family(self) -> Family:
        """The family whose statistics of a row are those of this one: without factors."""
        return self.untied if self.noise is None else self.noise.untied

    def of_stored(self, shape: tuple[int, ...]) -> Self:
        """Return the family of covariances of a shape: one of a number of factors, if that is open."""
        is_open = self.has_factors and self.n_factors is None and len(shape) == 3
        return replace(self, n_factors=shape[-1] - 1) if is_open else self

    def with_axes(self, n_axes: int) -> Family:
        """Return the family of the same sharing whose covariances have at most this many axes.

        Without the others, covariances are diagonal, or spherical. Itself if it has no more axes.
        """
        if self.n_axes <= n_axes:
            return self
        return self._related(n_axes, self.shared & {*PARTS[: n_axes + 1]})

    def _related(self, n_axes: int, shared: frozenset[str]) -> Family:
        """Return the family of the table that stores and shares these, with the same tails."""
        return replace(_family_of(n_axes, shared), dof=self.dof)

    # --- the units of the data, for axes that are orthogonal there ------------------------------

    def in_coordinates(self, inverse: Array) -> Family:
        """Return the family for covariances in whitened coordinates.

        Families that are not invariant under the map to whitened coordinates have to know it, and so do
        covariances whose diagonal in the units of the data is asked for.

        Parameters
        ----------
        inverse : ndarray
            Of the map to whitened coordinates: see `Whitening.inverse`.
        """
        if self.n_axes != 2 or self.has_factors:
            return self
        if inverse.ndim == 0:
            return replace(self, frame=None)
        frame = np.diag(inverse) if inverse.ndim == 1 else inverse
        if not self.is_rotated:
            return replace(self, frame=frame / np.abs(frame).max())
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

    def diagonal_part(self, covariances: Array) -> Array:
        """Return covariances without the correlations of columns, in the units of the data."""
        if self.n_axes < 2:
            return covariances
        if self.frame is None or self.inverse_frame is None:
            return covariances * np.eye(covariances.shape[-1])
        variances = ((covariances @ self.frame) * self.frame).sum(axis=-2)
        factors = self.inverse_frame.T * np.sqrt(variances)[..., None, :]
        return factors @ np.swapaxes(factors, -1, -2)

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
        return n_components - 1 + n_components * n_features + n_of_covariances + self.n_dof(n_components)

    def n_dof(self, n_components: int) -> int:
        """Return how many degrees of freedom are estimated."""
        return {"own": n_components, "common": 1}.get(str(self.dof), 0)

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

    def drawn(self, covariances: Array, of_rows: IndexArray, standard: Array) -> Array:
        """Return rows of standard normal numbers with the covariances of the components they are of."""
        return self.times(self.taken(self.root(covariances), of_rows), standard)

    def average(self, covariances: Array, weights: Array) -> Array:
        """Return the mean covariance of one mixture, under weights of sum one."""
        return covariances if self.shares_covariance else np.tensordot(weights, covariances, axes=1)

    def appended(self, covariances: Array, covariance: Array) -> Array:
        """Return the covariances of one mixture with a component of that covariance appended."""
        return covariances if self.shares_covariance else np.concatenate([covariances, covariance[None]])

    def halved(self, covariances: Array, component: int, offset: Array) -> Array:
        """Return the covariances of one mixture after a component is split into two equal halves.

        The halves are at plus and minus the offset from its mean; one replaces it, the other is appended.
        """
        if self.shares_covariance:
            return covariances
        whole = covariances[component]
        # At least a tenth of the variance remains in any direction.
        spread = self.between(offset, np.ones(())) / self.divisor(np.ones(()), len(offset))
        largest = float(self.relative_variances(spread, whole).max())
        half = whole - min(1.0, 0.9 / max(largest, MIN_WEIGHT)) * spread
        halves = self.appended(covariances, half)
        halves[component] = half
        return halves

    def reordered(self, parameters: AnyParameters, order: IndexArray) -> AnyParameters:
        """Return the components of one mixture in another order."""
        covariances = self.taken(parameters.covariances, order)
        return replace(
            parameters,
            weights=parameters.weights[order],
            means=parameters.means[order],
            covariances=covariances,
            dof=None if parameters.dof is None else parameters.dof[order],
        )

    def nearest(self, scatter: Array, weights: Array) -> Array:
        """Return the covariances of components of these scatters: those of the M-step without a prior."""
        n_features = scatter.shape[-1] if self.n_axes else 1
        parts = weights[..., None], np.zeros((*weights.shape, n_features)), self.compact(scatter)
        return self.m_step(SufficientStats(np.concatenate(parts, axis=-1), n_features), None).covariances

    def projected(self, covariances: Array, weights: Array) -> Array:
        """Return the covariances of the family that are nearest to those of one mixture, by divergence.

        The covariances have the shape of the family, but may not share what its components share.
        """
        return self.nearest(self.each(weights) * covariances, weights) if self.shares_part else covariances

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
            return weights @ variances * metric
        return self.each(variances) * metric

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
        weights, means, n_features = parameters.weights, parameters.means, parameters.n_features
        if compiled.has_steps(self.n_axes, n_features):
            arrays = weights, means, parameters.covariances
            shape = *weights.shape, self.n_stats(n_features)
            known = compiled.take_step("natural", arrays, (shape,), n_features, self.n_axes)
            if known is not None:
                return known[0]
        precisions, log_dets = self.inverses(self.per_component(parameters.covariances), n_features)
        linear = self.times(precisions, means)
        squares = np.einsum("...i,...i->...", linear, means)
        log_weights = np.log(np.maximum(weights, MIN_WEIGHT))
        constants = log_weights - 0.5 * (n_features * LOG_2PI + log_dets + squares)
        return self.join_natural(constants, linear, precisions)

    def with_dof(self, parameters: WhitenedParameters) -> WhitenedParameters:
        """Return mixtures with degrees of freedom, if the components have long tails."""
        if self.dof is None or parameters.dof is not None:
            return parameters
        start = START_DOF if isinstance(self.dof, str) else self.dof
        return replace(parameters, dof=np.full(parameters.weights.shape, float(start)))

    def tails(self, parameters: WhitenedParameters, natural: Array) -> Tails | None:
        """Return the tails of components of these natural parameters; those of noise are last.

        None if they are Gaussian.
        """
        dof, n_features = self.with_dof(parameters).dof, parameters.n_features
        if dof is None:
            return None
        peaks = self.peaks(parameters, natural)
        of_noise = np.full((*dof.shape[:-1], peaks.shape[-1] - dof.shape[-1]), np.inf)
        return Tails(np.concatenate([dof, of_noise], axis=-1), peaks, n_features)

    def peaks(self, parameters: WhitenedParameters, natural: Array) -> Array:
        """Return the logit of each Gaussian component at its mean, where it is largest, and that of noise."""
        n_features = parameters.n_features
        log_dets = self.log_det(self.per_component(parameters.covariances), n_features)
        peaks = np.log(np.maximum(parameters.weights, MIN_WEIGHT)) - 0.5 * (n_features * LOG_2PI + log_dets)
        return np.concatenate([peaks, natural[..., parameters.n_components :, 0]], axis=-1)

    def moments(self, parameters: WhitenedParameters) -> SufficientStats:
        """Return the expected statistics of a row: their M-step without a prior gives these components."""
        weights, means, n_features = parameters.weights, parameters.means, parameters.n_features
        counts = self.each(self.divisor(weights, n_features))
        second = counts * self.per_component(parameters.covariances) + self.between(means, weights)
        parts = [weights[..., None], weights[..., None] * means, self.compact(second)]
        return SufficientStats(np.concatenate(parts, axis=-1), n_features)

    def at_means(self, means: Array, counts: Array) -> Array:
        """Return the statistics of rows at each mean, by their number."""
        quadratics = self.compact(self.between(means, counts))
        return np.concatenate([counts[..., None], counts[..., None] * means, quadratics], axis=-1)

    def common_part(self, stats: SufficientStats) -> tuple[Family, Array] | None:  # noqa: ARG002
        """Return the family and the covariance that a prior of few rows draws all components to, if any."""
        return None

    def prior_terms(self, prior: Prior | None, n_components: int, n_features: int) -> PriorTerms:
        """Return what a prior, and the errors of its rows, add to the M-step."""
        if prior is None:
            return PriorTerms()
        terms = prior.terms(self, n_components, n_features)
        # In families of another form the rows have no errors.
        if prior.errors is None or prior.errors.ndim != self.n_axes:
            return terms
        of_means = self.pooled(np.full(n_components, terms.mean_divisor), axis=0)
        return terms._replace(scatter=terms.scatter + (terms.divisor + np.max(of_means)) * prior.errors)

    def scatter_about(self, means: Array, stats: SufficientStats, terms: PriorTerms) -> tuple[Array, Array]:
        """Return scatters about means, and their divisors, per covariance, with what a prior adds.

        The logarithm of the density of rows and prior is -1/2 (divisor log|S| + tr(S^-1 scatter)), summed.
        """
        offsets = stats.first / np.maximum(stats.counts, MIN_WEIGHT)[..., None] - means
        pulled = self.between(means, np.asarray(terms.shrinkage))
        scatter = self.scatter(stats) + self.between(offsets, stats.counts) + pulled
        divisor = self.divisor(stats.counts, stats.n_features) + terms.mean_divisor
        axis = stats.counts.ndim - 1
        return self.pooled(scatter, axis) + terms.scatter, self.pooled(divisor, axis) + terms.divisor

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
            return scatter / self.each(np.maximum(divisor, MIN_WEIGHT))
        # An empty component must not have any influence on the others.
        divisor = np.maximum(divisor, MIN_PART * divisor.sum(axis=-1, keepdims=True))
        return self.estimate(self, scatter, divisor, near)

    @property
    def has_compiled_sums(self) -> bool:
        """Whether the extension sums the statistics of rows."""
        return compiled.kernels is not None and not self.has_factors

    def has_compiled_m_step(self, n_features: int) -> bool:
        """Return whether the extension computes the M-step."""
        # Common axes are found by iteration, which is slow in NumPy.
        has_common_axes = self.is_rotated and "orientation" in self.shared
        return self.code in COMPILED and compiled.has_steps(1 if has_common_axes else self.n_axes, n_features)

    def kernel_arguments(
        self, terms: PriorTerms, shape: tuple[int, ...], n_features: int
    ) -> tuple[tuple[Array | None, ...], tuple[str | float, ...]]:
        """Return the arrays, then the numbers, that M-steps of the extension take of a family and a prior.

        For mixtures whose weights have that shape.
        """
        each = *shape[:-1], *self.covariance_shape(shape[-1], n_features)
        added, divisors = np.empty(each), np.empty(each[: len(each) - self.n_axes])
        added[...] = terms.scatter
        divisors[...] = terms.divisor
        numbers = self.code, n_features, shape[-1], self.min_variance, terms.shrinkage, terms.mean_divisor
        frames = (self.frame, self.inverse_frame) if self.is_rotated else (None, None)
        return (added, divisors, *frames), numbers

    def m_step(
        self,
        stats: SufficientStats,
        prior: Prior | None,
        near: WhitenedParameters | None = None,
        means: Array | None = None,
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
        means : ndarray, shape (n_components, n_features), optional
            Those that are given, NaN where they are estimated.

        Returns
        -------
        parameters : WhitenedParameters
        """
        shape, n_features = stats.counts.shape, stats.n_features
        dof = self._next_dof(stats, near)
        adapted = None if prior is None else prior.adapted_to(self, stats)
        terms = self.prior_terms(adapted, shape[-1], n_features)
        start = None if near is None else near.covariances
        weight = np.maximum(stats.counts, MIN_WEIGHT)
        more = weight + np.asarray(terms.rows)[..., None]
        weights = more / more.sum(axis=-1, keepdims=True)
        if means is None and self.has_compiled_m_step(n_features):
            (added, divisors, *frames), numbers = self.kernel_arguments(terms, shape, n_features)
            arrays = stats.array, added, divisors, start, *frames
            shapes = (*shape, n_features), (*shape[:-1], *self.covariance_shape(shape[-1], n_features))
            known = compiled.take_step("family_m_step", arrays, shapes, *numbers)
            if known is not None and np.isfinite(known[1]).all():
                return WhitenedParameters(weights, *known, dof=dof)
        estimated = stats.first / (weight + terms.shrinkage)[..., None]
        means = estimated if means is None else np.where(np.isnan(means), estimated, means)
        covariances = self.covariances_maximising(*self.scatter_about(means, stats, terms), start)
        return WhitenedParameters(weights, means, self.floored(covariances), dof=dof)

    def _next_dof(self, stats: SufficientStats, near: WhitenedParameters | None) -> Array | None:
        """Return the degrees of freedom after a step; without an E-step those that a run begins with."""
        if not isinstance(self.dof, str) or near is None or near.dof is None or stats.dof_slopes is None:
            return None if near is None else near.dof
        known = near.dof, stats.dof_slopes, stats.counts, stats.n_features
        return dof_step(*known, is_common=self.dof == "common")

    def stats_of(self, parameters: WhitenedParameters, weight: float, prior: Prior | None) -> SufficientStats:
        """Return statistics of that total weight whose M-step, with the prior, gives these components."""
        stats = self.moments(parameters) * weight
        n_components, n_features = parameters.means.shape
        if prior is None or prior.shrinks(self, n_components, n_features):
            # Covariances that are shrunk towards a common one hardly change when they are so again.
            return stats
        terms = self.prior_terms(prior, n_components, n_features)
        counts = np.maximum(parameters.weights * weight, MIN_WEIGHT)
        means = parameters.means * (1 + terms.shrinkage / counts)[:, None]
        # Without a scatter of the rows about their means.
        at_means = replace(parameters, means=means, covariances=np.zeros_like(parameters.covariances))
        added, divisor = self.scatter_about(parameters.means, self.moments(at_means) * weight, terms)
        scatter = parameters.covariances * self.each(divisor) - added
        rows = self.pooled(self.divisor(counts, n_features), axis=0)
        covariances = self.floored(scatter / self.each(rows))
        return self.moments(replace(at_means, covariances=covariances)) * weight

    def log_prior(self, parameters: WhitenedParameters, prior: Prior | None) -> Array:
        """Return the logarithm of the prior density, up to a constant, of each mixture of a batch."""
        means, covariances, shape = parameters.means, parameters.covariances, parameters.weights.shape
        if prior is None:
            return np.zeros(shape[:-1])
        n_features = parameters.n_features
        terms, axis = self.prior_terms(prior, shape[-1], n_features), len(shape) - 1
        pulled = self.pooled(self.between(means, np.asarray(terms.shrinkage)), axis)
        divisor = terms.divisor + terms.mean_divisor * (shape[-1] if self.shares_covariance else 1)
        precisions, log_dets = self.inverses(covariances, n_features)
        own_axes = tuple(range(-self.n_axes, 0))
        traces = (precisions * (pulled + terms.scatter)).sum(axis=own_axes)
        # Divided by the divisor of one row, divisors are multiples of log|S|.
        each = -0.5 * (divisor / self.divisor(np.ones(()), n_features) * log_dets + traces)
        of_weights = 0.0
        if np.any(terms.rows):
            # Relative to their mean, whatever the weight of the noise is: near zero for many rows.
            weights = np.maximum(parameters.weights, MIN_WEIGHT)
            of_weights = terms.rows * np.log(weights / weights.mean(axis=-1, keepdims=True)).sum(axis=-1)
        return each.reshape(*shape[:-1], -1).sum(axis=-1) + of_weights + prior.log_constant

    def merging_term(self, stats: SufficientStats) -> Array:
        """Return weight times log-determinant of each component: merging raises their sum [runnalls2007]."""
        if self.n_axes == 2 and compiled.has_steps(self.n_axes, stats.n_features):
            numbers = stats.n_features, self.min_variance
            known = compiled.take_step("merging_terms", (stats.array,), (stats.counts.shape,), *numbers)
            if known is not None:
                return known[0]
        covariances = self.untied.m_step(stats, None).covariances
        return np.maximum(stats.counts, MIN_WEIGHT) * self.log_det(covariances, stats.n_features)

    def merged(self, stats: SufficientStats, covariances: Array) -> WhitenedParameters:
        """Return the components that result from mergers in a mixture, each by itself and without a prior.

        Parameters
        ----------
        stats : SufficientStats
            Of the merged components.
        covariances : ndarray
            Of the mixture. If its components share a covariance, merged components keep it.
        """
        merged = self.untied.m_step(stats, None)
        return replace(merged, covariances=covariances) if self.shares_covariance else merged


@functools.lru_cache(maxsize=64)
def conjugate_terms(
    family: Family,
    n_components: int,
    n_features: int,
    shrinkage: float = 0.0,
    dof: float | None = None,
    scale: float | None = None,
) -> PriorTerms:
    """Return what the conjugate prior adds, with the usual defaults: see `apolar.mixture.prior.Prior`."""
    # Each column of a diagonal has the prior of data of one column.
    n_columns = 1 if family.n_axes == 1 else n_features
    fraction = n_components ** (-2.0 / n_columns) if scale is None else float(scale)
    divisor = n_columns + 4.0 if dof is None else float(dof) + 2
    if family.n_axes == 2:
        # The prior of the other families would widen clusters that are thin in some direction, and narrow all
        # clusters if there are many columns. By default it counts as one row, of a hundredth of that scale.
        fraction *= SETTINGS.full_prior_scale if scale is None else 1.0
        divisor = 1.0 if dof is None else float(dof) + n_features + 1
    of_mean = float(family.divisor(np.ones(()), n_features))
    scatter = frozen(fraction * family.identity(n_features))
    return PriorTerms(float(shrinkage), scatter, divisor, of_mean)


# --- the table ----------------------------------------------------------------------------------


def _entry(code: str, name: str = "", estimate: Estimate | None = None) -> Family:
    """Return the family of a code: two letters I are a number, one is a diagonal, and E is for equal."""
    n_axes = 2 - code.count("I")
    shared = frozenset(part for part, letter in zip(PARTS, code, strict=True) if letter == "E")
    return Family(name or code, code, n_axes, shared, estimate)


# A new family is an entry of FAMILIES and, if it shares a part of the covariances, a function as in sharing.
_ALL = (
    _entry("VVV", "full"),
    _entry("EEE", "tied"),
    _entry("VVI", "diag"),
    _entry("EEI", "tied_diag"),
    _entry("VII", "spherical"),
    _entry("EII", "tied_spherical"),
    _entry("VEI", estimate=sharing.multiples_of_one),
    _entry("EVI", estimate=sharing.covariances_of_one_volume),
    _entry("VEE", estimate=sharing.multiples_of_one),
    _entry("EVE", estimate=sharing.rotated_variances),
    _entry("VVE", estimate=sharing.rotated_variances),
    _entry("EEV", estimate=sharing.rotated_variances),
    _entry("VEV", estimate=sharing.rotated_variances),
    _entry("EVV", estimate=sharing.covariances_of_one_volume),
)

FAMILIES: dict[str, Family] = {entry.name: entry for entry in _ALL} | {entry.code: entry for entry in _ALL}

UNIVARIATE: dict[str, Family] = {"E": FAMILIES["tied_spherical"], "V": FAMILIES["spherical"]}
"""mclust's codes for data of one column: one variance, or one per component."""
FAMILIES |= UNIVARIATE

FACTORS: dict[str, Family] = {}
"""Families of few factors, which `apolar.mixture.factors` adds."""


@functools.cache
def _family_of(n_axes: int, shared: frozenset[str]) -> Family:
    """Return the family of the table that stores and shares these."""
    return next(entry for entry in _ALL if (entry.n_axes, entry.shared) == (n_axes, shared))


def family(
    covariance_type: str, dof: str | float | None = None, n_factors: int | str | None = None
) -> Family:
    """Return a family by its name or by its code; with degrees of freedom, of t distributions.

    With few factors, that of a number of them, if it is given.
    """
    try:
        known = (FAMILIES | FACTORS)[covariance_type]
        if known.has_factors and isinstance(n_factors, numbers.Integral):
            known = replace(known, n_factors=int(n_factors))
        return known if dof is None else replace(known, dof=dof)
    except (KeyError, TypeError):
        entries = dict.fromkeys([*_ALL, *FACTORS.values()])
        names = (f"{entry.name!r} ({entry.code})" for entry in entries if entry.name != entry.code)
        listed = ", ".join([*names, *(repr(entry.name) for entry in _ALL if entry.name == entry.code)])
        raise ValueError(f"covariance_type must be one of {listed}; got {covariance_type!r}.") from None
