"""The mixture that fits all moments of the data, weighted by the covariance of their sampling errors.

The equivariant form solves for as many moments as there are unknowns. Here all moments are fitted by
generalised least squares [hansen1982], with the covariance that they have for this number of rows under the
initial mixture. Only the moments are needed, not the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.mixture import SphericalMixture
from apolar.moments import SignalMoments
from apolar.moments.signal import spread_in_third
from apolar.recovery.validity import mixture, valid_means, valid_variances, valid_weights
from apolar.tensor.monomials import exponents

# The number of moments grows with the third power of the number of signal directions, their covariance matrix
# with the sixth: above this number, the fit would take longer than EM.
MAX_SIGNAL = 8
# A weak prior: the standard deviation of the logarithm of a variance, about that of the mean variance.
# Without it, the variance of a small component often tends to zero, which EM does not leave.
LOG_VARIANCE_DEVIATION = 1.0
# A few steps suffice: the remaining error is below the sampling error.
MAX_ITER = 6
# The iteration stops after a smaller gain: the point is then within about a tenth of its standard error.
MIN_GAIN = 1e-3
# The sum of weighted squares per moment is about one, or less, if the data come from a spherical mixture.
# Above this value they do not, and the covariance of their moments is wrong.
MAX_MISFIT = 3.0
# Added to the diagonal of the correlation matrix of the moments.
RIDGE = 1e-9
# The largest change of a log weight or log variance in one step.
MAX_LOG_STEP = 1.0


def weighted_mixture(signal: SignalMoments, start: SphericalMixture) -> SphericalMixture:
    """Return the mixture that fits the moments best, near an initial mixture.

    Parameters
    ----------
    signal : SignalMoments
    start : SphericalMixture
        The initial mixture, of one component more than there are signal directions.

    Returns
    -------
    mixture : SphericalMixture
        `start` itself if there is no signal direction, if there are too many, if no spherical mixture near it
        fits the moments, and if its own moments overflow.
    """
    n_signal = len(signal.second)
    if not 1 <= n_signal <= MAX_SIGNAL:
        return start
    n_noise = len(signal.mean) - n_signal
    unit = float(
        np.sqrt((n_noise * signal.mean_variance + signal.spectrum[:n_signal].sum()) / len(signal.mean))
    )
    observed = _observed(signal, unit)
    offsets = (start.means - signal.mean) @ signal.basis / unit
    point = _Point(np.log(start.weights), offsets, np.log(start.variances / unit**2))
    centre = float(np.log(signal.mean_variance / unit**2))
    # The covariance of the moments is computed at the start only: at the solution, it changes little.
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = _covariance(point, n_noise)
    if not np.all(np.isfinite(covariance)):
        return start
    problem = _WeightedSquares(observed, covariance, signal.n_rows, centre)
    point, value = _minimise(problem, point)
    if not value <= MAX_MISFIT * len(observed) / 2:
        return start
    corrections = list(start.projected)
    size = float(np.sqrt(signal.second.clip(min=0).sum() + signal.mean_variance))
    weights = valid_weights(point.weights, signal.n_rows, corrections)
    variances = valid_variances(point.variances * unit**2, signal.mean_variance, corrections)
    means = signal.mean + valid_means(point.offsets * unit, size, corrections) @ signal.basis.T
    return mixture(weights / weights.sum(), means, variances, start.status, corrections, signal.spectrum)


@dataclass(frozen=True, eq=False)
class _Point:
    """A mixture in signal coordinates, with log weights and log variances."""

    log_weights: Array
    offsets: Array
    log_variances: Array

    @property
    def weights(self) -> Array:
        weights = np.exp(self.log_weights - self.log_weights.max())
        return weights / weights.sum()

    @property
    def variances(self) -> Array:
        return np.exp(self.log_variances)

    def plus(self, step: Array) -> _Point:
        rank = len(self.log_weights)
        return _Point(
            self.log_weights + step[:rank],
            self.offsets + step[rank:-rank].reshape(self.offsets.shape),
            self.log_variances + step[-rank:],
        )


# --- the moments of a mixture: y, q, y y, q y, y y y ------------------------------------------


@dataclass(frozen=True, eq=False)
class _Monomials:
    """Products of signal coordinates y and the mean square q of the noise, of order up to three.

    Attributes
    ----------
    powers : ndarray of int, shape (n_moments, n_signal)
        The powers of the coordinates.
    noise : ndarray of int, shape (n_moments,)
        The power of q, 0 or 1.
    all_powers : ndarray of int, shape (n_low, n_signal)
        The powers of all products of coordinates of order up to three, starting with the empty product.
    position : ndarray of int, shape (n_moments,)
        The row of `all_powers` with the powers of each moment.
    lower, lowest : ndarray of int, shape (n_moments, n_signal)
        That row after the power of a coordinate is lowered by one, and by two; 0 if it would be negative.
    halves : ndarray, shape (n_moments, n_signal)
        a (a - 1) / 2 of each power a.
    """

    powers: IndexArray
    noise: IndexArray
    all_powers: IndexArray
    position: IndexArray
    lower: IndexArray
    lowest: IndexArray
    halves: Array


@lru_cache(maxsize=16)
def _monomials(n_signal: int) -> _Monomials:
    orders = [exponents(n_signal, order) for order in range(4)]
    all_powers = np.concatenate(orders)
    rows = {tuple(powers): row for row, powers in enumerate(all_powers.tolist())}
    powers = np.concatenate([orders[1], orders[0], orders[2], orders[1], orders[3]])
    noise = np.repeat([0, 1, 0, 1, 0], [len(orders[order]) for order in (1, 0, 2, 1, 3)])
    steps = np.eye(n_signal, dtype=int)

    def positions(powers: Array) -> IndexArray:
        return np.array([rows.get(tuple(row), 0) for row in powers.tolist()], dtype=np.intp)

    lower, lowest = (
        np.column_stack([positions(powers - times * step) for step in steps]) for times in (1, 2)
    )
    return _Monomials(powers, noise, all_powers, positions(powers), lower, lowest, powers * (powers - 1) / 2)


def _observed(signal: SignalMoments, unit: float) -> Array:
    """Return the moments of the data divided by `unit`, in the order of the monomials."""
    n_signal = len(signal.second)
    assert signal.third is not None  # there is a signal direction
    third = signal.third.coefficients + spread_in_third(n_signal) @ signal.noise_times
    # In the signal basis the covariance is diagonal: only the squares of coordinates have a second moment.
    second = (exponents(n_signal, 2) == 2) @ (signal.second + signal.mean_variance)
    mean, noise = np.zeros(n_signal), np.array([signal.mean_variance])
    return np.concatenate(
        [mean, noise / unit**2, second / unit**2, signal.noise_times / unit**3, third / unit**3]
    )


def _gaussian_powers(offsets: Array, variances: Array, highest: int) -> Array:
    """Return E[y_a^k] of each component, shape (n_components, n_signal, highest + 1)."""
    powers = np.ones((*offsets.shape, highest + 1))
    powers[..., 1] = offsets
    for k in range(2, highest + 1):
        powers[..., k] = offsets * powers[..., k - 1] + (k - 1) * variances[:, None] * powers[..., k - 2]
    return powers


def _products(table: Array, powers: IndexArray) -> Array:
    """Return E[y^a] for each row a of `powers`, shape (n_components, *powers.shape[:-1])."""
    products = table[:, 0, powers[..., 0]]
    for column in range(1, powers.shape[-1]):
        products = products * table[:, column, powers[..., column]]
    return products


def _moments(point: _Point) -> tuple[Array, Array]:
    """Return the moments of a mixture, and their derivatives, shape (n_moments, n_parameters)."""
    monomials = _monomials(point.offsets.shape[1])
    weights, variances = point.weights, point.variances
    low = _products(_gaussian_powers(point.offsets, variances, 3), monomials.all_powers)
    # E[q] is the variance; q and y are independent.
    factor = np.where(monomials.noise, variances[:, None], 1.0)
    without_noise = low[:, monomials.position]
    of_component = factor * without_noise
    total = weights @ of_component
    by_offset = factor[..., None] * monomials.powers * low[:, monomials.lower]
    # The derivative of a Gaussian expectation by the variance is the expectation of half the Laplacian.
    spread = (monomials.halves * low[:, monomials.lowest]).sum(axis=2)
    by_log_variance = variances[:, None] * (factor * spread + monomials.noise * without_noise)
    derivatives = np.concatenate(
        [
            (weights[:, None] * (of_component - total)).T,
            (weights[:, None, None] * by_offset).transpose(1, 0, 2).reshape(len(total), -1),
            (weights[:, None] * by_log_variance).T,
        ],
        axis=1,
    )
    return total, derivatives


def _covariance(point: _Point, n_noise: int) -> Array:
    """Return the covariance of the monomials of a row of the mixture, shape (n_moments, n_moments)."""
    monomials = _monomials(point.offsets.shape[1])
    variances = point.variances
    products = _products(
        _gaussian_powers(point.offsets, variances, 6), monomials.powers[:, None] + monomials.powers
    )
    # q is a mean of `n_noise` squares: E[q^2] = s^2 (1 + 2 / n_noise).
    noise_powers = np.stack([np.ones_like(variances), variances, variances**2 * (1 + 2 / n_noise)])
    noise_products = noise_powers[monomials.noise[:, None] + monomials.noise]
    second = np.einsum("i,ifg,fgi->fg", point.weights, products, noise_products)
    first = _moments(point)[0]
    return second - np.outer(first, first)


# --- weighted least squares ----------------------------------------------------------------


class _WeightedSquares:
    """Half the sum of the squared residuals of the moments, whitened, and of the prior of the variances.

    Parameters
    ----------
    observed : ndarray, shape (n_moments,)
    covariance : ndarray, shape (n_moments, n_moments)
        Of the moments of one row.
    n_rows : float
    centre : float
        The mean of the prior of the log variances.
    """

    def __init__(self, observed: Array, covariance: Array, n_rows: float, centre: float) -> None:
        self.observed, self.centre = observed, centre
        deviations = np.sqrt(np.diag(covariance))
        # Without the ridge, the correlations of a nearly degenerate mixture are singular.
        correlations = covariance / np.outer(deviations, deviations) + RIDGE * np.eye(len(covariance))
        root = np.linalg.cholesky(correlations)
        self.whitener = np.linalg.inv(root) * (np.sqrt(n_rows) / deviations)

    def __call__(self, point: _Point) -> tuple[float, Array, Array]:
        """Return the value, its gradient, and the Gauss-Newton approximation of its Hessian."""
        moments, derivatives = _moments(point)
        residuals = self.whitener @ (moments - self.observed)
        derivatives = self.whitener @ derivatives
        rank = len(point.log_variances)
        prior_gradient = (point.log_variances - self.centre) / LOG_VARIANCE_DEVIATION**2
        value = 0.5 * float(
            residuals @ residuals + LOG_VARIANCE_DEVIATION**2 * prior_gradient @ prior_gradient
        )
        gradient, hessian = derivatives.T @ residuals, derivatives.T @ derivatives
        gradient[-rank:] += prior_gradient
        np.einsum("ii->i", hessian)[-rank:] += 1 / LOG_VARIANCE_DEVIATION**2
        return value, gradient, hessian


def _minimise(problem: _WeightedSquares, point: _Point) -> tuple[_Point, float]:
    """Return the minimum of the weighted squares by the Levenberg-Marquardt method, and the value there."""
    # scipy.optimize.least_squares takes 1.9 to 3.4 times as long, and cannot bound a single step.
    value, gradient, hessian = problem(point)
    damping, rank = 1e-2, len(point.log_weights)
    for _ in range(MAX_ITER):
        damped = hessian.copy()
        # Log weights are determined up to a constant: without the last term, the matrix is singular.
        diagonal = np.einsum("ii->i", damped)
        diagonal += damping * (diagonal + 1e-9 * diagonal.sum())
        step = -np.linalg.solve(damped, gradient)
        largest = max(np.abs(step[:rank]).max(), np.abs(step[-rank:]).max())
        step *= min(1.0, MAX_LOG_STEP / max(largest, 1e-300))
        expected = -float(gradient @ step + 0.5 * step @ hessian @ step)
        trial = point.plus(step)
        new_value, new_gradient, new_hessian = problem(trial)
        gain = value - new_value
        if not gain > 0:
            if expected < MIN_GAIN:
                break
            damping *= 10
            continue
        point, value, gradient, hessian = trial, new_value, new_gradient, new_hessian
        if gain < MIN_GAIN:
            break
        if gain > 0.25 * expected:
            damping /= 10
    return point, value
