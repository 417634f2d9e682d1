"""The mixture whose moments are nearest to those of rows, in the metric of their sampling errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import chi2

from apolar._core.arrays import Array, IndexArray
from apolar._core.levenberg_marquardt import LeastSquares
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.moments import CentralMoments
from apolar.recovery.gaussian_moments import (
    Parametrisation,
    column_variances,
    component_moments,
    powers_up_to,
    sampling_covariance,
)

MAX_MOMENTS = 1100
"""The most moments that are weighted by their sampling errors: their covariance is a matrix of that size."""
# Less than a thousandth of a squared standard error is not a gain.
MIN_GAIN = 1e-3


@dataclass(frozen=True, eq=False)
class ObservedMoments:
    """Moments of rows, to which mixtures are fitted and compared.

    Attributes
    ----------
    values : ndarray, shape (n_kept,)
        Of columns with variances of about one.
    n_features, order : int
    n_rows : float
        The number of rows that they are of.
    kept : ndarray of int, shape (n_kept,)
        The positions of the monomials whose moments are observed.
    n_averaged : int or None
        As for `sampling_covariance`.
    """

    values: Array
    n_features: int
    order: int
    n_rows: float
    kept: IndexArray
    n_averaged: int | None = None

    def fit(
        self,
        family: str,
        start: MixtureParameters,
        *,
        n_rounds: int = 1,
        max_iter: int = 50,
        is_rough: bool = False,
    ) -> MomentFit:
        """Return the mixture of a family that fits the moments best, near a start.

        Parameters
        ----------
        family : {"spherical", "diag", "tied", "full"}
        start : MixtureParameters
            With matrices of covariances.
        n_rounds : int, default=1
            How often the covariance of the sampling errors is computed, each time at the mixture so far.
        max_iter : int, default=50
            Of each round.
        is_rough : bool, default=False
            Take the sampling errors of independent normal columns, without correlations: there can be any
            number of moments, and fits from all starts have comparable costs.
        """
        parametrisation = Parametrisation(family, *start.means.shape)
        point, cost = parametrisation.vector(start), np.inf
        for _ in range(n_rounds):
            metric = self._rough_metric if is_rough else self.metric(parametrisation.mixture(point))
            problem = self._problem(parametrisation, point, metric)
            problem = problem.minimise(max_iter=max_iter, min_gain=MIN_GAIN)
            point, cost = problem.point, problem.cost
        return MomentFit(self, family, parametrisation.mixture(point), cost)

    def metric(self, mixture: MixtureParameters) -> Array:
        """Return the matrix that whitens the sampling errors of the moments of rows of a mixture."""
        covariance = sampling_covariance(mixture, self.order, self.kept, self.n_averaged)
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
        return solve_triangular(root, identity, lower=True) * (np.sqrt(self.n_rows) / deviations)

    @cached_property
    def _rough_metric(self) -> Array:
        """The reciprocal sampling errors of the moments of independent standard normal columns."""
        powers = powers_up_to(self.n_features, self.order)[self.kept]
        # E[z^2a] = 1 3 5 ... (2a - 1).
        of_squares = np.cumprod(np.maximum(np.arange(-1.0, 2 * self.order, 2), 1.0))
        means = np.where(powers % 2 == 0, of_squares[powers // 2], 0.0).prod(axis=1)
        return np.sqrt(self.n_rows / (of_squares[powers].prod(axis=1) - means**2))

    def _problem(self, parametrisation: Parametrisation, start: Array, metric: Array) -> LeastSquares:
        """Return the least squares of the moments in a metric, from some parameters.

        A weak prior, a deviation of one for each log variance, draws the variances of components to the
        pooled ones: without it, that of a small component often tends to zero.
        """
        at, n_before = parametrisation.mixture(start), parametrisation.n_before
        own = slice(n_before, None if parametrisation.is_aligned else n_before)
        pooled = np.einsum("k,kij->ij", at.weights, at.covariances) * np.ones((len(at.weights), 1, 1))
        centre = parametrisation.vector(MixtureParameters(at.weights, at.means, pooled))[own]
        prior = np.eye(len(start))[own]

        def whiten(errors: Array) -> Array:
            return metric @ errors if metric.ndim == 2 else (metric * errors.T).T

        def residuals(point: Array) -> tuple[Array, Array]:
            moments, derivatives = parametrisation.moments(point, self.order, self.kept)
            errors = whiten(moments - self.values)
            return np.append(errors, point[own] - centre), np.vstack([whiten(derivatives), prior])

        logs = np.r_[: parametrisation.n_components, np.arange(len(start))[own]]
        return LeastSquares(residuals, start, logs)


def observed_moments(moments: CentralMoments, order: int) -> ObservedMoments:
    """Return the central moments up to an order, except those of degree 0, which are one."""
    values = moments.up_to(order)[1:]
    return ObservedMoments(values, len(moments.mean), order, moments.n_rows, 1 + np.arange(len(values)))


@dataclass(frozen=True, eq=False)
class MomentFit:
    """A mixture, and how well it agrees with moments: what needs their sampling errors is computed if asked.

    Attributes
    ----------
    observed : ObservedMoments
    family : str
    mixture : MixtureParameters
        In the units of the moments, with matrices of covariances.
    cost : float
        Half the sum of the squared residuals of the fit, and of those of the prior.
    """

    observed: ObservedMoments
    family: str
    mixture: MixtureParameters
    cost: float = float("inf")

    @property
    def n_parameters(self) -> int:
        """The number of free parameters."""
        return family(self.family).n_parameters(*self.mixture.means.shape)

    @cached_property
    def _metric(self) -> Array:
        return self.observed.metric(self.mixture)

    @property
    def squares(self) -> float:
        """The J statistic: the squared residuals of the moments, in units of their sampling errors."""
        moments = self.mixture.weights @ component_moments(self.mixture, self.observed.order)
        return float(np.sum((self._metric @ (moments[self.observed.kept] - self.observed.values)) ** 2))

    @property
    def p_value(self) -> float:
        """The probability of such a J statistic, or a larger one, if the mixture is true.

        NaN if there are no more moments than parameters.
        """
        n_degrees = len(self.observed.values) - self.n_parameters
        return float(chi2.sf(self.squares, n_degrees)) if n_degrees > 0 else float("nan")

    @property
    def misfit(self) -> float:
        """The mean square by which the moments miss those of the mixture, in deviations of a single row.

        It does not grow with the number of rows, as the J statistic does: above one, the moments are farther
        from those of the mixture than the powers of one of its rows are. NaN as for `p_value`.
        """
        n_degrees = len(self.observed.values) - self.n_parameters
        return self.squares / (n_degrees * self.observed.n_rows) if n_degrees > 0 else float("nan")

    @property
    def criterion(self) -> float:
        """Minus twice the log-likelihood of the moments, plus log n per parameter: lower is better.

        For mixtures of the same moments in the same units; for many rows the moments are normal.
        """
        log_determinant = -2 * float(np.log(np.diag(self._metric)).sum())
        return self.squares + log_determinant + self.n_parameters * float(np.log(self.observed.n_rows))

    @property
    def mean_error(self) -> float:
        """The largest standard error of an entry of a mean, in standard deviations of its component."""
        n_components, n_features = self.mixture.means.shape
        parametrisation = Parametrisation(self.family, n_components, n_features)
        point = parametrisation.vector(self.mixture)
        _, derivatives = parametrisation.moments(point, self.observed.order, self.observed.kept)
        information = np.linalg.multi_dot([derivatives.T, self._metric.T, self._metric, derivatives])
        # Log weights are determined up to a constant.
        information[:n_components, :n_components] += np.trace(information) / len(information)
        spread = np.diag(np.linalg.pinv(information, hermitian=True))[n_components:]
        spread = spread[: n_components * n_features].reshape(n_components, n_features)
        if not np.all(np.isfinite(spread)):
            return np.inf
        return float(np.sqrt(np.max(np.maximum(spread, 0) / column_variances(self.mixture))))
