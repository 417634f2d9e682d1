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
from apolar.mixture import tangents
from apolar.mixture.families import Family
from apolar.mixture.noise import noise_weights
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior


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
    """

    family: Family
    centre: WhitenedParameters
    weight: float
    has_noise: bool = False

    @functools.cached_property
    def _count_roots(self) -> Array:
        """Square roots of the number of rows of each component, at least one."""
        return np.sqrt(np.maximum(self.centre.weights * self.weight, 1.0))

    @functools.cached_property
    def noise_root(self) -> float:
        """The square root of the number of rows of noise."""
        return float(np.sqrt(np.maximum(noise_weights(self.centre.weights) * self.weight, 1.0)))

    @functools.cached_property
    def _covariance_scales(self) -> Array:
        """Square roots of the information about the coordinates of the covariances, in their shape."""
        counts = self.centre.weights * self.weight
        return np.sqrt(tangents.information(self.family, counts, self.centre.n_features, self._root))

    @functools.cached_property
    def _root(self) -> Array:
        """L, per covariance."""
        return tangents.root_of(self.family, self.centre.covariances)

    def _parts(self, tangent: Array) -> tuple[Array, Array, Array]:
        """Return the parts of a tangent vector that belong to weights, means, and covariances."""
        r, m = self.centre.means.shape
        end = len(tangent) - self.has_noise
        covariance_part = tangent[r + r * m : end].reshape(self._covariance_scales.shape)
        return tangent[:r], tangent[r : r + r * m].reshape(r, m), covariance_part

    @property
    def origin(self) -> Array:
        """The tangent vector of the centre: zeros."""
        r, m = self.centre.means.shape
        return np.zeros(r + r * m + self._covariance_scales.size + self.has_noise)

    @property
    def null_direction(self) -> Array:
        """The tangent vector along which the mixture does not change: all weights times one factor."""
        direction = self.origin
        direction[: self.centre.n_components] = self._count_roots
        if self.has_noise:
            direction[-1] = self.noise_root
        return direction

    @np.errstate(over="ignore", invalid="ignore")
    def retract(self, tangent: Array) -> WhitenedParameters:
        """Return the mixture at a tangent vector; far away its parameters may not be finite."""
        a, b, c = self._parts(tangent)
        family = self.family
        logs = np.log(np.maximum(self.centre.weights, MIN_WEIGHT)) + a / self._count_roots
        weights = np.exp(logs - logs.max())
        total = weights.sum()
        if self.has_noise:
            noise_log = np.log(noise_weights(self.centre.weights)) + tangent[-1] / self.noise_root
            total = total + np.exp(noise_log - logs.max())
        means = self.centre.means + family.times(self._root, b / self._count_roots[:, None])
        # Without a prior components may collapse: variances have the same floor as in the M-step.
        covariances = family.floored(tangents.retract(family, self._root, c / self._covariance_scales))
        return WhitenedParameters(weights / total, means, covariances)

    def log_change(self, tangent: Array) -> float:
        """Return the largest change, from the centre, of the logarithm of a weight or a deviation."""
        a, _, c = self._parts(tangent)
        of_noise = abs(tangent[-1]) / self.noise_root if self.has_noise else 0.0
        of_weights, of_deviations = np.abs(a / self._count_roots), np.abs(c / self._covariance_scales)
        return float(max(of_weights.max(), of_deviations.max(), of_noise))

    def step_size(self, tangent: Array) -> float:
        """Return the largest change, from the centre, of such a logarithm, or of a mean in deviations."""
        moves = self._parts(tangent)[1] / self._count_roots[:, None]
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
        family = self.family
        counts = stats.counts
        total = self.weight if self.has_noise else counts.sum()
        by_weight = (counts - parameters.weights * total) / self._count_roots
        by_noise = np.zeros(0)
        if self.has_noise:
            n_noise = max(total - float(counts.sum()), 0.0)
            by_noise = np.array([(n_noise - noise_weights(parameters.weights) * total) / self.noise_root])
        scales = self._covariance_scales
        where = self._root, self._parts(tangent)[2] / scales
        by_mean, by_covariance = tangents.gradients(family, *where, parameters, stats, prior)
        by_mean, by_covariance = by_mean / self._count_roots[:, None], by_covariance / scales
        return np.concatenate([by_weight, by_mean.ravel(), by_covariance.ravel(), by_noise])


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
    of_covariances = r + r * m + tangents.positions(family, r, m)
    return np.concatenate([of_weights, of_means, of_covariances], axis=1)
