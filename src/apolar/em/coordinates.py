"""Local coordinates of mixtures, in which a step of EM is about a step along the gradient.

Around a mixture with weights w, means mu and covariances L L^t: the weights are
proportional to w exp(a / sqrt(n_k)), the means are mu + L b / sqrt(n_k), and the
covariances are L T(c) T(c)^t L^t with T(0) = I, each coordinate scaled so that
the information of the complete data (rows with their components) is about the
identity. A quasi-Newton method then has to learn only what EM does not see.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior


@dataclass(frozen=True, eq=False)
class LocalCoordinates:
    """Coordinates around a mixture.

    Attributes
    ----------
    family : Family
    centre : WhitenedParameters
        One mixture, in the frame.
    weight : float
        The total weight of the rows.
    """

    family: Family
    centre: WhitenedParameters
    weight: float
    _counts: Array = field(init=False)
    _spreads: Array = field(init=False)
    _root: Array = field(init=False)

    def __post_init__(self) -> None:
        family, centre = self.family, self.centre
        # A component with less than a row is moved like one with a row.
        counts = np.maximum(centre.weights * self.weight, 1.0)
        covered = np.asarray(self.weight) if family.tied else counts
        information = covered[..., None] * family.information(centre.n_features)
        object.__setattr__(self, "_counts", np.sqrt(counts))
        object.__setattr__(self, "_spreads", np.sqrt(information))
        object.__setattr__(self, "_root", family.root(centre.covariances))

    def _cut(self, point: Array) -> tuple[Array, Array, Array]:
        r, m = self.centre.means.shape
        return point[:r], point[r : r + r * m].reshape(r, m), point[r + r * m :].reshape(self._spreads.shape)

    @property
    def origin(self) -> Array:
        """The coordinates of the centre: zeros."""
        r, m = self.centre.means.shape
        return np.zeros(r + r * m + self._spreads.size)

    @property
    def null_direction(self) -> Array:
        """The direction in which no mixture changes: all weights times one factor."""
        direction = self.origin
        direction[: len(self._counts)] = self._counts
        return direction

    def retract(self, point: Array) -> WhitenedParameters:
        """Return the mixture at a point."""
        a, b, c = self._cut(point)
        logs = np.log(np.maximum(self.centre.weights, 1e-300)) + a / self._counts
        weights = np.exp(logs - logs.max())
        means = self.centre.means + self.family.mean_retraction(self._root, b / self._counts[:, None])
        # Without a prior a component may collapse: it stops at the floor, as in the M-step.
        covariances = self.family.floored(self.family.covariance_retraction(self._root, c / self._spreads))
        return WhitenedParameters(weights / weights.sum(), means, covariances)

    def log_change(self, point: Array) -> float:
        """Return the largest change of the logarithm of a weight or a deviation, from the centre."""
        a, _, c = self._cut(point)
        return float(max(np.abs(a / self._counts).max(), np.abs(c / self._spreads).max()))

    def step_size(self, point: Array) -> float:
        """Return the largest change of a logarithm, or of a mean in deviations, from the centre."""
        b = self._cut(point)[1]
        return max(self.log_change(point), float(np.linalg.norm(b / self._counts[:, None], axis=1).max()))

    def gradient(
        self, point: Array, parameters: WhitenedParameters, stats: Array, prior: Prior | None
    ) -> Array:
        """Return the gradient of the objective, from the sums of the E-step at the point.

        Parameters
        ----------
        point : ndarray, shape (n_coordinates,)
        parameters : WhitenedParameters
            The mixture at the point.
        sums : ndarray, shape (n_components, width)
        prior : Prior or None

        Returns
        -------
        gradient : ndarray, shape (n_coordinates,)
        """
        family, means = self.family, parameters.means
        r, m = means.shape
        weight, first, _ = family.split(stats)
        by_weight = (weight - parameters.weights * weight.sum()) / self._counts
        pull = first - weight[:, None] * means
        offsets = pull / np.maximum(weight, 1e-300)[:, None]
        scatter = family.scatter(stats) + family.between(offsets, weight)
        divisor = family.divisor(weight, m)
        if prior is not None:
            shrinkage, added, dof, mean_dof = family.prior_terms(prior, r, m)
            pull = pull - shrinkage * means
            scatter = scatter + family.between(means, np.full(r, shrinkage))
            divisor = divisor + mean_dof
        if family.tied:
            scatter, divisor = scatter.sum(axis=0), divisor.sum()
        if prior is not None:
            scatter, divisor = scatter + added, divisor + dof
        by_mean = family.mean_gradient(self._root, parameters.covariances, pull) / self._counts[:, None]
        stretches = self._cut(point)[2] / self._spreads
        by_covariance = family.covariance_gradient(self._root, stretches, scatter, divisor) / self._spreads
        return np.concatenate([by_weight, by_mean.ravel(), by_covariance.ravel()])


def reordered_coordinates(order: Array, n_features: int, n_coordinates: int, tied: bool) -> Array:
    """Return where the coordinates of a mixture are, once its components are put in another order.

    Parameters
    ----------
    order : ndarray of int, shape (n_components,)
    n_features, n_coordinates : int
    tied : bool
        Whether the covariances are the same for all components, and have coordinates of their own.

    Returns
    -------
    places : ndarray of int, shape (n_coordinates,)
    """
    r = len(order)
    places = np.arange(n_coordinates)
    by_mean = places[r : r + r * n_features].reshape(r, n_features)[order].ravel()
    rest = places[r + r * n_features :]
    by_covariance = rest if tied else rest.reshape(r, -1)[order].ravel()
    return np.concatenate([places[:r][order], by_mean, by_covariance])
