"""The mixture whose moments are nearest to those of rows, in the metric of their sampling errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import chi2

from apolar._core.arrays import Array, IndexArray
from apolar._core.levenberg_marquardt import LeastSquares
from apolar.moments import CentralMoments
from apolar.recovery.gaussian_moments import (
    Mixture,
    Parametrisation,
    mixture_moments,
    monomial_table,
    sampling_covariance,
)
from apolar.tensor import n_monomials

__all__ = ["EXACT", "Goodness", "MomentFit", "fit_moments", "goodness_of", "whitener"]

EXACT = 1e15
"""So many rows stand for moments without sampling errors."""
# The most moments that are compared: their covariance is a matrix of that size.
MAX_MOMENTS = 1100


@dataclass(frozen=True, eq=False)
class MomentFit:
    """A mixture fitted to moments.

    Attributes
    ----------
    mixture : Mixture
    squares : float
        The sum of the squared residuals in units of their sampling errors at the start of the last round, and
        of those of the prior.
    at_end : callable
        Returns the problem with the sampling errors of the mixture itself, and their whitener.
    """

    mixture: Mixture
    squares: float
    at_end: Callable[[], tuple[LeastSquares, Array]]

    @cached_property
    def _end(self) -> tuple[LeastSquares, Array]:
        return self.at_end()

    @property
    def deviance(self) -> float:
        """Minus twice the log-posterior of the moments, up to a constant: fits are compared by it.

        For many rows the moments are normal. A mixture whose moments scatter widely is not better for it.
        """
        problem, metric = self._end
        return 2 * problem.cost - 2 * float(np.log(np.diag(metric)).sum())

    @property
    def mean_error(self) -> float:
        """The largest standard error of an entry of a mean, in standard deviations of its component."""
        return _mean_error(self._end[0].hessian, self.mixture)


def whitener(covariance: Array, n_rows: float) -> Array:
    """Return the matrix that whitens errors of means over rows, shape (n, n); `covariance` is of one row."""
    deviations = np.sqrt(np.diag(covariance))
    deviations = np.maximum(deviations, 1e-12 * deviations.max())
    correlations = covariance / np.outer(deviations, deviations)
    # The correlations of the moments of a degenerate mixture are singular.
    ridge, identity = 1e-9, np.eye(len(covariance))
    while True:
        try:
            root = np.linalg.cholesky(correlations + ridge * identity)
            break
        except np.linalg.LinAlgError:
            ridge *= 100
    return solve_triangular(root, identity, lower=True) * (np.sqrt(n_rows) / deviations)


def fit_moments(
    family: str,
    start: Mixture,
    observed: Array,
    order: int,
    n_rows: float,
    *,
    kept: IndexArray | None = None,
    n_averaged: int | None = None,
    n_rounds: int = 1,
    max_iter: int = 50,
) -> MomentFit:
    """Return the mixture of a family that fits moments best, near a start.

    Parameters
    ----------
    family : {"spherical", "diag", "tied", "full"}
        Own variances are drawn to the pooled ones by a weak prior: without it, that of a small component
        often tends to zero.
    start : Mixture
        In coordinates where the columns have variances of about one.
    observed : ndarray, shape (n_kept,)
    order : int
    n_rows : float
        The effective number of rows that the moments are of; infinite for moments without sampling errors.
    kept : ndarray of int, optional
        The positions of the moments that are observed; by default all but the first, which is one.
    n_averaged : int, optional
        As for `sampling_covariance`.
    n_rounds : int, default=1
        How often the covariance of the sampling errors is computed, each time at the mixture so far.
    max_iter : int, default=50
        Of each round.

    Returns
    -------
    fit : MomentFit
    """
    parametrisation = Parametrisation(family, *start.means.shape)
    is_exact = not np.isfinite(n_rows)
    # Less than a thousandth of a squared standard error is no gain; without errors, the end is rounding.
    n_rows, min_gain = (1e12, 1e-12) if is_exact else (n_rows, 1e-3)
    kept = np.arange(1, len(observed) + 1) if kept is None else kept
    own = np.arange(0) if is_exact else parametrisation.logs[parametrisation.n_components :]

    def weighted_at(vector: Array) -> tuple[LeastSquares, Array]:
        """Return the problem whose weights are the sampling errors at some parameters, and their whitener."""
        at = parametrisation.mixture(vector)
        metric = whitener(sampling_covariance(at, order, kept, n_averaged), n_rows)
        pooled = Mixture(at.weights, at.means, np.broadcast_to(at.weights @ at.variances, at.means.shape))
        centre, prior = parametrisation.vector(pooled)[own], np.eye(len(vector))[own]

        def residuals(point: Array) -> tuple[Array, Array]:
            moments, derivatives = parametrisation.moments(point, order, kept)
            errors = metric @ (moments - observed)
            # A deviation of one for each log variance.
            return np.append(errors, point[own] - centre), np.vstack([metric @ derivatives, prior])

        return LeastSquares(residuals, vector, parametrisation.logs), metric

    problem, _ = weighted_at(parametrisation.vector(start))
    for turn in range(n_rounds):
        problem = (weighted_at(problem.point)[0] if turn else problem).minimise(
            max_iter=max_iter, min_gain=min_gain
        )
    point = problem.point
    return MomentFit(parametrisation.mixture(point), 2 * problem.cost, lambda: weighted_at(point))


def _mean_error(hessian: Array, mixture: Mixture) -> float:
    """Return the largest standard error of an entry of a mean, in deviations of its component."""
    n_components, n_features = mixture.means.shape
    # Log weights are determined up to a constant.
    information = hessian.copy()
    information[:n_components, :n_components] += np.trace(hessian) / len(hessian)
    spread = np.diag(np.linalg.pinv(information, hermitian=True))[n_components:][: n_components * n_features]
    if not np.all(np.isfinite(spread)):
        return np.inf
    return float(np.sqrt(np.max(np.maximum(spread, 0) / mixture.variances.ravel())))


@dataclass(frozen=True, eq=False)
class Goodness:
    """The agreement of a mixture with moments up to an order; computed when it is asked for.

    Attributes
    ----------
    mixture : Mixture
        In the units of the moments.
    family : str
    observed : ndarray, shape (n_monomials,)
        Moments up to `order`, the first of which is one.
    order : int
    n_rows : float
        The number of rows.
    """

    mixture: Mixture
    family: str
    observed: Array
    order: int
    n_rows: float

    @property
    def n_parameters(self) -> int:
        """The number of free parameters."""
        return Parametrisation(self.family, *self.mixture.means.shape).n_free

    @property
    def n_degrees(self) -> int:
        """The degrees of freedom of the J statistic."""
        return len(self.observed) - 1 - self.n_parameters

    @cached_property
    def _whitened(self) -> tuple[Array, float]:
        """The residuals in units of their sampling errors, and the log-determinant of these."""
        kept = np.arange(1, len(monomial_table(self.mixture.means.shape[1], self.order)))
        metric = whitener(sampling_covariance(self.mixture, self.order, kept), self.n_rows)
        residuals = mixture_moments(self.mixture, self.order)[kept] - self.observed[kept]
        return metric @ residuals, -2 * float(np.log(np.diag(metric)).sum())

    @property
    def squares(self) -> float:
        """The J statistic: the squared residuals of all moments, in units of their sampling errors."""
        residuals, _ = self._whitened
        return float(residuals @ residuals)

    @property
    def p_value(self) -> float:
        """The probability of such a J statistic, or a larger one, if the mixture is true."""
        return float(chi2.sf(self.squares, self.n_degrees)) if self.n_degrees > 0 else float("nan")

    @property
    def criterion(self) -> float:
        """Minus twice the log-likelihood of the moments, plus log n per parameter: lower is better.

        For mixtures of the same moments in the same units; for many rows the moments are normal.
        """
        return self.squares + self._whitened[1] + self.n_parameters * float(np.log(self.n_rows))


def goodness_of(central: CentralMoments, mixture: Mixture, family: str) -> Goodness | None:
    """Return how well a mixture in the units of the data agrees with central moments.

    Moments are compared in deviations of the columns, whatever the family, and up to the highest order at
    which they are not too many; None if there is none, or the moments are in some directions only.
    """
    n_features, order = len(central.mean), central.order
    while order >= 3 and n_monomials(n_features + 1, order) > MAX_MOMENTS:
        order -= 1
    units = central.deviations
    if order < 3 or central.frame is not None or not np.all(units > 0):
        return None
    scales = units**2 if mixture.is_aligned else np.outer(units, units)
    scaled = Mixture(mixture.weights, (mixture.means - central.mean) / units, mixture.covariances / scales)
    return Goodness(scaled, family, central.divided(units).up_to(order), order, min(central.n_rows, EXACT))
