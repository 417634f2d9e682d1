"""The moments of Gaussian mixtures, and the mixture whose moments are nearest to those of rows.

Monomials in m variables up to an order are those of that order in m + 1 variables, the first of which is one:
those of degree 0, of degree 1, and so on. Those up to a lower order come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import chi2

from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.levenberg_marquardt import LeastSquares
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.moments import CentralMoments
from apolar.tensor.monomials import exponents, n_monomials, product_positions

MAX_MOMENTS = 1100
"""The most moments that are weighted by their sampling errors: their covariance is a matrix of that size."""
# Less than a thousandth of a squared standard error is not a gain.
MIN_GAIN = 1e-3


def powers_up_to(n_features: int, order: int) -> IndexArray:
    """Return the exponents of the monomials up to an order, shape (n_monomials, n_features)."""
    return exponents(n_features + 1, order)[:, 1:]


def of_degree(n_features: int, degree: int) -> slice:
    """Return where the monomials of a degree are."""
    before = n_monomials(n_features + 1, degree - 1) if degree else 0
    return slice(before, n_monomials(n_features + 1, degree))


@lru_cache(maxsize=32)
def _lower_positions(n_features: int, order: int) -> IndexArray:
    """Return the positions of a - e_j, shape (n_monomials + 1, n_features).

    That of monomials that do not exist, with a negative exponent, is `n_monomials`, and its row is the last.
    Arrays of values have a zero appended there.
    """
    raised = product_positions(n_features + 1, order - 1, 1)[:, 1:]
    n_all = n_monomials(n_features + 1, order)
    lowered = np.full((n_all + 1, n_features), n_all)
    lowered[raised, np.arange(n_features)] = np.arange(len(raised))[:, None]
    return frozen(lowered)


def column_variances(mixture: MixtureParameters) -> Array:
    """Return the variances of the columns, shape (n_components, n_features)."""
    return np.einsum("kii->ki", mixture.covariances)


def nearest_covariances(mixture: MixtureParameters, covariance_type: str) -> Array:
    """Return matrices of covariances as a family stores them, averaged over what it has in common."""
    if covariance_type in ("spherical", "diag"):
        variances = column_variances(mixture)
        return variances.mean(axis=1) if covariance_type == "spherical" else variances
    weights = mixture.weights / mixture.weights.sum()
    return np.tensordot(weights, mixture.covariances, 1) if covariance_type == "tied" else mixture.covariances


def component_moments(mixture: MixtureParameters, order: int) -> Array:
    """Return E[x^a] of each component, shape (n_components, n_monomials + 1), the last one zero.

    By x_i x^b: its expectation is mu_i E[x^b] plus the sum over j of Sigma_ij b_j E[x^(b - e_j)].

    Parameters
    ----------
    mixture : MixtureParameters
        With matrices of covariances.
    order : int
    """
    n_features = mixture.n_features
    powers, lowered = powers_up_to(n_features, order), _lower_positions(n_features, order)
    out = np.zeros((mixture.n_components, len(powers) + 1))
    out[:, 0] = 1
    for degree in range(1, order + 1):
        where = of_degree(n_features, degree)
        first = (powers[where] > 0).argmax(axis=1)
        rest = lowered[where][np.arange(len(first)), first]
        lowest = np.einsum(
            "knj,nj,knj->kn", mixture.covariances[:, first], powers[rest], out[:, lowered[rest]]
        )
        out[:, where] = mixture.means[:, first] * out[:, rest] + lowest
    return out


def sampling_covariance(
    mixture: MixtureParameters, order: int, kept: IndexArray, n_averaged: int | None = None
) -> Array:
    """Return the covariance of monomials of a row of the mixture, for some of them.

    Parameters
    ----------
    mixture : MixtureParameters
        With matrices of covariances.
    order : int
    kept : ndarray of int
        Positions of monomials up to this order.
    n_averaged : int, optional
        The square of the last column, of mean zero, stands for the mean of the squares of this many columns.
    """
    moments = mixture.weights @ component_moments(mixture, 2 * order)
    second = moments[product_positions(mixture.n_features + 1, order, order)[np.ix_(kept, kept)]]
    if n_averaged is not None:
        # The fourth moment is 3 s^2 of one column, and s^2 (1 + 2 / n) of the mean square of n.
        last = powers_up_to(mixture.n_features, order)[kept, -1]
        second = second * np.where(last[:, None] + last == 4, (1 + 2 / n_averaged) / 3, 1.0)
    return second - np.outer(moments[kept], moments[kept])


@dataclass(frozen=True, eq=False)
class Parametrisation:
    """Log weights, means, and log variances or Cholesky factors of covariances, as one vector.

    Attributes
    ----------
    family : {"spherical", "diag", "tied", "full"}
    n_components, n_features : int
    """

    family: str
    n_components: int
    n_features: int

    @property
    def is_aligned(self) -> bool:
        """Whether components have the axes of the columns."""
        return self.family in ("spherical", "diag")

    @property
    def n_before(self) -> int:
        """The number of log weights and means."""
        return self.n_components * (1 + self.n_features)

    def vector(self, mixture: MixtureParameters) -> Array:
        """Return the parameters of a mixture, whose covariances are projected on the family."""
        stored = nearest_covariances(mixture, self.family)
        if self.is_aligned:
            last = np.log(stored)
        else:
            last = np.linalg.cholesky(stored)[..., *np.tril_indices(self.n_features)]
        return np.concatenate([np.log(mixture.weights), mixture.means.ravel(), last.ravel()])

    def mixture(self, vector: Array) -> MixtureParameters:
        """Return the mixture of parameters, with matrices of covariances."""
        logs = vector[: self.n_components]
        weights = np.exp(logs - logs.max())
        means = vector[self.n_components : self.n_before].reshape(self.n_components, self.n_features)
        roots = self._roots(vector)
        shape = self.n_components, self.n_features, self.n_features
        covariances = np.broadcast_to(roots @ roots.transpose(0, 2, 1), shape)
        return MixtureParameters(weights / weights.sum(), means, covariances)

    def _roots(self, vector: Array) -> Array:
        """Return the Cholesky factors of the covariances, of one if they are tied."""
        if self.is_aligned:
            deviations = np.exp(vector[self.n_before :] / 2).reshape(self.n_components, -1, 1)
            return deviations * np.eye(self.n_features)
        lower = np.tril_indices(self.n_features)
        entries = vector[self.n_before :].reshape(-1, len(lower[0]))
        roots = np.zeros((len(entries), self.n_features, self.n_features))
        roots[:, *lower] = entries
        return roots

    def moments(self, vector: Array, order: int, kept: IndexArray) -> tuple[Array, Array]:
        """Return some moments, and their derivatives, shape (n_kept, n_parameters)."""
        mixture = self.mixture(vector)
        values = component_moments(mixture, order)
        powers, lowered = powers_up_to(self.n_features, order)[kept], _lower_positions(self.n_features, order)
        of_component, weights = values[:, kept], mixture.weights[:, None]
        total = mixture.weights @ of_component
        by_log_weight = weights * (of_component - total)
        by_mean = weights[:, None] * powers * values[:, lowered[kept]]
        # The derivative of an expectation by an entry of the covariance, with its mirror image, is that of
        # the second derivative of the monomial, half of it on the diagonal.
        j, k = np.triu_indices(self.n_features)
        if self.is_aligned:
            j = k = np.arange(self.n_features)
        factors = np.where(j == k, powers[:, j] * (powers[:, j] - 1) / 2, powers[:, j] * powers[:, k])
        by_entry = weights[:, None] * factors * values[:, lowered[lowered[kept][:, j], k]]
        if self.is_aligned:
            by_last = by_entry * column_variances(mixture)[:, None]
            by_last = by_last.sum(axis=2, keepdims=True) if self.family == "spherical" else by_last
        else:
            if self.family == "tied":
                by_entry = by_entry.sum(axis=0, keepdims=True)
            # The gradient by a matrix, each entry by itself: both triangles get half of what they share.
            gradient = np.zeros((*by_entry.shape[:2], self.n_features, self.n_features))
            gradient[:, :, j, k] = by_entry / 2
            gradient += gradient.swapaxes(2, 3)
            by_root = 2 * np.einsum("knab,kbc->knac", gradient, self._roots(vector))
            by_last = by_root[:, :, *np.tril_indices(self.n_features)]
        parts = by_log_weight[:, :, None], by_mean, by_last
        return total, np.concatenate(
            [part.transpose(1, 0, 2).reshape(len(kept), -1) for part in parts], axis=1
        )


# --- the fit to observed moments ----------------------------------------------------------------------


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
