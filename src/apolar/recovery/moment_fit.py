"""The mixture whose moments are nearest to those of rows, in the metric of their sampling errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from apolar._core.arrays import Array, IndexArray
from apolar.recovery.gaussian_moments import Mixture, Parametrisation, sampling_covariance

__all__ = ["MomentFit", "fitted_to_moments", "whitener"]

# Added to the diagonal of the correlation matrix of moments, which is singular for a degenerate mixture.
RIDGE = 1e-9
# The largest change of a log weight or log variance in one step.
MAX_LOG_STEP = 1.0
# The iteration stops after a smaller gain: the point is within a fraction of its standard error.
MIN_GAIN = 1e-4
# A weak prior: the standard deviation of a log variance about that of the pooled variance of its column.
LOG_VARIANCE_DEVIATION = 1.0


@dataclass(frozen=True, eq=False)
class MomentFit:
    """A mixture fitted to moments.

    Attributes
    ----------
    mixture : Mixture
    squares : float
        The sum of the squared residuals in units of their sampling errors: the J statistic.
    deviance : float
        Minus twice the log-likelihood of the moments, which are normal for many rows, up to a constant: what
        fits from several starts are compared by. A mixture whose moments scatter widely is not better for it.
    mean_error : float
        The largest standard error of an entry of a mean, in deviations of its component.
    n_moments, n_parameters : int
        Their difference is the number of degrees of freedom of the J statistic.
    """

    mixture: Mixture
    squares: float
    deviance: float
    mean_error: float
    n_moments: int
    n_parameters: int


def whitener(covariance: Array, n_rows: float) -> Array:
    """Return the matrix that whitens errors of means over rows, shape (n, n); `covariance` is of one row."""
    deviations = np.sqrt(np.diag(covariance))
    deviations = np.maximum(deviations, 1e-12 * deviations.max())
    correlations = covariance / np.outer(deviations, deviations)
    ridge, identity = RIDGE, np.eye(len(covariance))
    while True:
        try:
            root = np.linalg.cholesky(correlations + ridge * identity)
            break
        except np.linalg.LinAlgError:
            ridge *= 100
    return solve_triangular(root, identity, lower=True) * (np.sqrt(n_rows) / deviations)


def fitted_to_moments(
    family: str,
    start: Mixture,
    observed: Array,
    order: int,
    n_rows: float,
    *,
    n_rounds: int = 1,
    max_iter: int = 50,
    has_prior: bool = True,
    min_gain: float = MIN_GAIN,
) -> MomentFit:
    """Return the mixture of a family that fits moments best, near a start, by the Levenberg-Marquardt method.

    Parameters
    ----------
    family : str
    start : Mixture
        In coordinates where the columns have variances of about one.
    observed : ndarray, shape (n_monomials,)
        The moments up to an order, the first of which is one.
    order : int
    n_rows : float
        The effective number of rows that the moments are of.
    n_rounds : int, default=1
        How often the covariance of the sampling errors is computed, each time at the mixture so far.
    max_iter : int, default=50
        Of each round.
    has_prior : bool, default=True
        Whether own variances are drawn to the pooled ones, weakly.
    min_gain : float, default=1e-4

    Returns
    -------
    fit : MomentFit
    """
    parametrisation = Parametrisation(family, *start.means.shape)
    kept = np.arange(1, len(observed))
    vector = parametrisation.vector(start)
    for _ in range(n_rounds):
        problem = _Squares(parametrisation, vector, observed, order, kept, n_rows, has_prior)
        vector = _minimised(problem, vector, max_iter, min_gain)
    problem = _Squares(parametrisation, vector, observed, order, kept, n_rows, has_prior)
    squares = problem.squares(vector)
    deviance = squares - 2 * float(np.log(np.diag(problem.whitener)).sum())
    mixture = parametrisation.mixture(vector)
    error = _mean_error(problem(vector)[2], mixture)
    return MomentFit(mixture, squares, deviance, error, len(kept), parametrisation.n_free)


def _mean_error(hessian: Array, mixture: Mixture) -> float:
    """Return the largest standard error of an entry of a mean, in deviations of its component."""
    n_components, n_features = mixture.means.shape
    variances = mixture.covariances if mixture.is_aligned else np.einsum("kii->ki", mixture.covariances)
    # Log weights are determined up to a constant.
    information = hessian.copy()
    information[:n_components, :n_components] += (
        np.trace(hessian) / len(hessian) * np.ones((n_components, n_components))
    )
    spread = np.diag(np.linalg.pinv(information, hermitian=True))[n_components:][: n_components * n_features]
    if not np.all(np.isfinite(spread)):
        return np.inf
    return float(np.sqrt(np.max(np.maximum(spread.reshape(n_components, n_features), 0) / variances)))


class _Squares:
    """Half the sum of the squared residuals of moments, whitened, and of the prior of log variances."""

    def __init__(
        self,
        parametrisation: Parametrisation,
        at: Array,
        observed: Array,
        order: int,
        kept: IndexArray,
        n_rows: float,
        has_prior: bool,
    ) -> None:
        self.parametrisation, self.order, self.kept = parametrisation, order, kept
        self.observed = observed[kept]
        mixture = parametrisation.mixture(at)
        self.whitener = whitener(sampling_covariance(mixture, order, kept), n_rows)
        self.n_logs = len(at) - parametrisation.n_before if parametrisation.is_aligned else 0
        self.centre: Array | None = None
        if has_prior and parametrisation.family in ("spherical", "diag"):
            pooled = mixture.weights @ mixture.covariances
            columns = pooled if parametrisation.family == "diag" else pooled.mean(keepdims=True)
            self.centre = np.log(np.tile(columns, parametrisation.n_components))

    def _residuals(self, vector: Array) -> tuple[Array, Array]:
        moments, derivatives = self.parametrisation.moments(vector, self.order, self.kept)
        return self.whitener @ (moments - self.observed), self.whitener @ derivatives

    def squares(self, vector: Array) -> float:
        """Return the sum of the squared residuals of the moments alone."""
        residuals, _ = self._residuals(vector)
        return float(residuals @ residuals)

    def __call__(self, vector: Array) -> tuple[float, Array, Array]:
        """Return the value, its gradient, and the Gauss-Newton approximation of its Hessian."""
        residuals, derivatives = self._residuals(vector)
        value = 0.5 * float(residuals @ residuals)
        gradient, hessian = derivatives.T @ residuals, derivatives.T @ derivatives
        if self.centre is not None:
            offsets = (vector[-self.n_logs :] - self.centre) / LOG_VARIANCE_DEVIATION
            value += 0.5 * float(offsets @ offsets)
            gradient[-self.n_logs :] += offsets / LOG_VARIANCE_DEVIATION
            np.einsum("ii->i", hessian)[-self.n_logs :] += 1 / LOG_VARIANCE_DEVIATION**2
        return value, gradient, hessian


def _minimised(problem: _Squares, vector: Array, max_iter: int, min_gain: float) -> Array:
    """Return the minimum of the weighted squares."""
    value, gradient, hessian = problem(vector)
    n_components, damping = problem.parametrisation.n_components, 1e-2
    logs = np.r_[0:n_components, len(vector) - problem.n_logs : len(vector)]
    for _ in range(max_iter):
        damped = hessian.copy()
        # Log weights are determined up to a constant: without the last term, the matrix is singular.
        diagonal = np.einsum("ii->i", damped)
        diagonal += damping * (diagonal + 1e-9 * diagonal.sum())
        try:
            step = -np.linalg.solve(damped, gradient)
        except np.linalg.LinAlgError:
            step = np.full(len(vector), np.nan)
        if np.all(np.isfinite(step)):
            step *= min(1.0, MAX_LOG_STEP / max(float(np.abs(step[logs]).max()), 1e-300))
            with np.errstate(over="ignore", invalid="ignore"):
                trial = problem(vector + step)
            gain = value - trial[0]
            if gain > 0:
                vector = vector + step
                value, gradient, hessian = trial
                damping = max(damping / 10, 1e-12)
                if gain < min_gain:
                    break
                continue
        damping *= 10
        if damping > 1e10:
            break
    return vector
