"""Local coordinates of mixtures, in which a step of EM is approximately a step along the gradient.

Around a mixture with weights w, means mu and covariances L L^t, a tangent vector (a, b, c) leads to the
mixture whose weights are proportional to w exp(a / sqrt(n_k)), whose means are mu + L b / sqrt(n_k), and
whose covariances are L T(c) T(c)^t L^t with T(0) = I, where n_k is the number of rows of a component. Each
coordinate is scaled so that the information matrix of the complete data (rows and their components) is
approximately the identity. A quasi-Newton method then has to learn only the effect of the missing data.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.constants import MIN_WEIGHT
from apolar.em.known import HeldParameters
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, noise_weights
from apolar.mixture.prior import Prior
from apolar.mixture.tails import MAX_DOF, MIN_DOF, dof_information


@dataclass(frozen=True, eq=False)
class LocalCoordinates:
    """Coordinates around a mixture, in which a tangent vector, shape (n_coordinates,), represents a mixture.

    Attributes
    ----------
    family : Family
    centre : WhitenedParameters
        The mixture at the tangent vector zero.
    weight : float
        The total weight of the rows.
    has_noise : bool
        Whether there is a noise component; its weight then has the last coordinate.
    held : HeldParameters or None
        Parameters that are kept: steps do not change them.
    """

    family: Family
    centre: WhitenedParameters
    weight: float
    has_noise: bool = False
    held: HeldParameters | None = None

    @functools.cached_property
    def _root(self) -> Array:
        """L, per covariance."""
        return self.family.chart.root_of(self.family, self.centre.covariances)

    @functools.cached_property
    def _weights(self) -> Array:
        """The weights of the components, and of the noise if there is any."""
        weights = self.centre.weights
        return np.append(weights, noise_weights(weights)) if self.has_noise else weights

    @functools.cached_property
    def _information(self) -> Array:
        """The information about the coordinates of the covariances, in their shape."""
        counts = self.centre.weights * self.weight
        return self.family.chart.information(self.family, counts, self.centre.n_features, self._root)

    @functools.cached_property
    def scales(self) -> Array:
        """The roots of the information about each coordinate, shape (n_coordinates,).

        Those of weights and means are the roots of the numbers of rows, at least one.
        """
        roots = np.sqrt(np.maximum(self._weights * self.weight, 1.0))
        r, m = self.centre.means.shape
        of_covariances = np.sqrt(self._information.ravel())
        return np.concatenate([roots[:r], np.repeat(roots[:r], m), of_covariances, roots[r:], self._of_dof])

    @functools.cached_property
    def _of_dof(self) -> Array:
        """The roots of the information about logarithms of the degrees of freedom that are estimated."""
        n_dof, dof = self.family.n_dof(self.centre.n_components), self.centre.dof
        if not n_dof or dof is None:
            return np.zeros(0)
        each = self.centre.weights * self.weight * dof_information(dof, self.centre.n_features)
        return np.sqrt(np.maximum(each.reshape(n_dof, -1).sum(axis=1), 1.0))

    @functools.cached_property
    def _is_free(self) -> Array | float:
        """Which coordinates a step may change: 1 where it may, else 0."""
        if self.held is None or not self.held.is_any:
            return 1.0
        r, m = self.centre.means.shape
        positions = coordinates_of_components(self.family, r, m)
        free, covariances = np.ones(len(self.scales)), self.held.covariances
        if self.held.weights is not None:
            free[positions[:, 0]] = 0.0
        if self.held.means is not None:
            free[positions[~np.isnan(self.held.means[:, 0]), 1 : 1 + m]] = 0.0
        if covariances is not None:
            stored = self.family.per_component(covariances)
            is_held = ~np.isnan(stored.reshape(len(stored), -1)[:, 0])
            free[positions[np.broadcast_to(is_held, r), 1 + m :]] = 0.0
        return free

    def _changes(self, tangent: Array) -> tuple[Array, Array, Array, Array]:
        """Return the changes, from the centre, of weights, means, covariances and degrees of freedom.

        Those of weights and of degrees of freedom are changes of their logarithms.
        """
        changes = tangent * self._is_free / self.scales
        r, m = self.centre.means.shape
        end = r + r * m + self._information.size
        of_covariances = changes[r + r * m : end].reshape(self._information.shape)
        # After these the weight of the noise.
        last = end + self.has_noise
        of_weights = np.concatenate([changes[:r], changes[end:last]])
        return of_weights, changes[r : r + r * m].reshape(r, m), of_covariances, changes[last:]

    @property
    def places_of_dof(self) -> IndexArray:
        """The positions of the degrees of freedom: after all others."""
        return np.arange(len(self.scales) - len(self._of_dof), len(self.scales))

    @property
    def origin(self) -> Array:
        """The tangent vector of the centre: zeros."""
        return np.zeros(len(self.scales))

    @property
    def null_direction(self) -> Array:
        """The tangent vector along which the mixture does not change: all weights times one factor."""
        direction, r = self.scales.copy(), self.centre.n_components
        end = len(direction) - len(self._of_dof)
        direction[r : end - self.has_noise] = 0.0
        direction[end:] = 0.0
        return direction

    @np.errstate(over="ignore", invalid="ignore")
    def retract(self, tangent: Array) -> WhitenedParameters:
        """Return the mixture at a tangent vector; far away its parameters may not be finite."""
        a, b, c, d = self._changes(tangent)
        logs = np.log(np.maximum(self._weights, MIN_WEIGHT)) + a
        weights = np.exp(logs - logs.max())
        means = self.centre.means + self.family.chart.move_means(self.family, self._root, b)
        # Without a prior components may collapse: variances have the same floor as in the M-step.
        covariances = self.family.floored(self.family.chart.retract(self.family, self._root, c))
        dof = self.centre.dof
        if len(d) and dof is not None:
            dof = np.clip(dof * np.exp(d), MIN_DOF, MAX_DOF)
        return WhitenedParameters((weights / weights.sum())[: len(means)], means, covariances, dof=dof)

    def log_change(self, tangent: Array) -> float:
        """Return the largest change, from the centre, of the logarithm of a weight or a deviation."""
        of_weights, _, *others = self._changes(tangent)
        return float(max(np.abs(each).max(initial=0.0) for each in (of_weights, *others)))

    def step_size(self, tangent: Array) -> float:
        """Return the largest change, from the centre, of such a logarithm, or of a mean in deviations."""
        moves = self._changes(tangent)[1]
        return max(self.log_change(tangent), float(np.linalg.norm(moves, axis=1).max()))

    def gradient(
        self, tangent: Array, parameters: WhitenedParameters, stats: SufficientStats, prior: Prior | None
    ) -> Array:
        """Return the gradient of the objective at a tangent vector.

        Parameters
        ----------
        tangent : ndarray, shape (n_coordinates,)
        parameters : WhitenedParameters
            The mixture at `tangent`.
        stats : SufficientStats
            From the E-step at that mixture.
        prior : Prior or None

        Returns
        -------
        gradient : ndarray, shape (n_coordinates,)
        """
        r, weights, counts = self.centre.n_components, parameters.weights, stats.counts
        if self.has_noise:
            weights = np.append(weights, noise_weights(weights))
            counts = np.append(counts, max(self.weight - float(counts.sum()), 0.0))
        by_weight = counts - weights * counts.sum()
        terms = self.family.prior_terms(prior, r, self.centre.n_features)
        # The prior is one of the weights relative to each other, whatever that of the noise is.
        by_weight[:r] += terms.rows * (1 - r * parameters.weights / parameters.weights.sum())
        where = self._root, self._changes(tangent)[2], parameters
        by_mean, by_covariance = self.family.chart.gradients(self.family, *where, stats, prior)
        by_dof = np.zeros(0)
        if len(self._of_dof) and stats.dof_slopes is not None and parameters.dof is not None:
            slopes = stats.dof_slopes * parameters.dof
            # At a limit they do not change.
            slopes = np.where(parameters.dof == np.where(slopes > 0, MAX_DOF, MIN_DOF), 0.0, slopes)
            by_dof = slopes.reshape(len(self._of_dof), -1).sum(axis=1)
        parts = by_weight[:r], by_mean.ravel(), by_covariance.ravel(), by_weight[r:], by_dof
        return np.concatenate(parts) * self._is_free / self.scales


def coordinates_of_components(family: Family, n_components: int, n_features: int) -> IndexArray:
    """Return the positions of the coordinates of each component: of its weight, mean and covariance.

    Returns
    -------
    positions : ndarray of int, shape (n_components, n_coordinates of one component)
        Shared coordinates of covariances occur in the row of each component that shares them.
    """
    r, m = n_components, n_features
    of_weights = np.arange(r)[:, None]
    of_means = r + np.arange(r * m).reshape(r, m)
    of_covariances = r + r * m + family.chart.positions(family, r, m)
    return np.concatenate([of_weights, of_means, of_covariances], axis=1)
