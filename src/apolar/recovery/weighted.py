"""The mixture whose moments are nearest to those of the data, in the metric of their sampling errors.

The equivariant form solves for as many moments as it needs, exactly. Here all of them are fitted, each as
far as it can be trusted: generalised least squares [hansen1982], with the covariance that the moments of so
many rows have under the mixture of the start. It needs no rows: all is in the moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.mixture import SphericalMixture
from apolar.moments import SignalMoments
from apolar.moments.signal import spread_in_third
from apolar.recovery.validity import mixture, valid_variances, valid_weights, within_reach
from apolar.tensor.monomials import exponents

# The moments grow with the third power of the signal directions, their covariance with the sixth: above this
# many directions it would take longer than EM.
MOST_SIGNAL = 8
# Variances are expected within a factor e of their mean, give or take: a weak prior. Without it a small
# component often ends with no variance at all, which EM does not leave.
SPREAD_OF_VARIANCES = 1.0
# Few steps do: what is left is below the sampling error.
MAX_ITER = 6
# A step that gains less is the last: the point is then within a tenth or so of its standard error.
LEAST_GAIN = 1e-3
# Weighted squares a moment: about one or less where the data are of such a mixture. Above this they are not,
# their moments have other errors, and the weights mean nothing.
MISFIT = 3.0
# Of the correlations of the moments.
RIDGE = 1e-9
# Logarithms of weights and variances change by no more than this in a step.
LONGEST_STEP = 1.0


def weighted_mixture(signal: SignalMoments, start: SphericalMixture) -> SphericalMixture:
    """Return the mixture that fits the moments best, from a start that is near.

    Parameters
    ----------
    signal : SignalMoments
    start : SphericalMixture
        Of one component more than there are signal directions.

    Returns
    -------
    mixture : SphericalMixture
        The start itself where there is no signal, where there are too many directions, and where no spherical
        mixture near it has such moments.
    """
    n_signal = len(signal.second)
    if not 1 <= n_signal <= MOST_SIGNAL:
        return start
    spare = len(signal.mean) - n_signal
    unit = float(
        np.sqrt((spare * signal.mean_variance + signal.spectrum[:n_signal].sum()) / len(signal.mean))
    )
    observed = _observed(signal, unit)
    offsets = (start.means - signal.mean) @ signal.basis / unit
    point = _Point(np.log(start.weights), offsets, np.log(start.variances / unit**2))
    centre = float(np.log(signal.mean_variance / unit**2))
    # The covariance of the moments is that of the start: to take it again where this leads changes little.
    problem = _Problem(observed, point, spare, signal.n_effective, centre)
    point, value = _fitted(problem, point)
    if not value <= MISFIT * len(observed) / 2:
        return start
    notes = list(start.projected)
    size = float(np.sqrt(signal.second.clip(min=0).sum() + signal.mean_variance))
    weights = valid_weights(point.weights, signal.n_rows, notes)
    variances = valid_variances(point.variances * unit**2, signal.mean_variance, notes)
    means = signal.mean + within_reach(point.offsets * unit, size, notes) @ signal.basis.T
    return mixture(weights / weights.sum(), means, variances, start.status, notes, signal.spectrum)


@dataclass(frozen=True, eq=False)
class _Point:
    """A mixture in signal coordinates, its weights and variances as logarithms."""

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

    def moved(self, step: Array) -> _Point:
        rank = len(self.log_weights)
        return _Point(
            self.log_weights + step[:rank],
            self.offsets + step[rank:-rank].reshape(self.offsets.shape),
            self.log_variances + step[-rank:],
        )


# --- the moments of a mixture: y, q, y y, q y, y y y ------------------------------------------


@dataclass(frozen=True, eq=False)
class _Monomials:
    """Products of signal coordinates y and the mean square q of the noise, of order three or less.

    Attributes
    ----------
    powers : ndarray of int, shape (n_moments, n_signal)
        Of the coordinates.
    noise : ndarray of int, shape (n_moments,)
        The power of q, 0 or 1.
    all_powers : ndarray of int, shape (n_low, n_signal)
        Powers of all products of coordinates of order three or less, one first.
    place : ndarray of int, shape (n_moments,)
        Where the powers of a moment are among them.
    lower, lowest : ndarray of int, shape (n_moments, n_signal)
        Where they are with a coordinate once, and twice, less; anywhere if that cannot be.
    halves : ndarray, shape (n_moments, n_signal)
        a (a - 1) / 2 of each power a.
    """

    powers: IndexArray
    noise: IndexArray
    all_powers: IndexArray
    place: IndexArray
    lower: IndexArray
    lowest: IndexArray
    halves: Array


@lru_cache(maxsize=16)
def _monomials(n_signal: int) -> _Monomials:
    orders = [exponents(n_signal, order) for order in range(4)]
    every = np.concatenate(orders)
    position = {tuple(powers): place for place, powers in enumerate(every.tolist())}
    powers = np.concatenate([orders[1], orders[0], orders[2], orders[1], orders[3]])
    noise = np.repeat([0, 1, 0, 1, 0], [len(orders[order]) for order in (1, 0, 2, 1, 3)])
    steps = np.eye(n_signal, dtype=int)

    def places(less: Array) -> IndexArray:
        return np.array([position.get(tuple(row), 0) for row in less.tolist()], dtype=np.intp)

    lower, lowest = (np.column_stack([places(powers - times * step) for step in steps]) for times in (1, 2))
    return _Monomials(powers, noise, every, places(powers), lower, lowest, powers * (powers - 1) / 2)


def _observed(signal: SignalMoments, unit: float) -> Array:
    """Return the moments of the data, in the order of the monomials, in units of `unit`."""
    n_signal = len(signal.second)
    assert signal.third is not None
    third = signal.third.coefficients + spread_in_third(n_signal) @ signal.noise_times
    # The covariance is diagonal: of the powers, (2, 0, ...) and its like.
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
    found = table[:, 0, powers[..., 0]]
    for column in range(1, powers.shape[-1]):
        found = found * table[:, column, powers[..., column]]
    return found


def _moments(point: _Point) -> tuple[Array, Array]:
    """Return the moments of a mixture, and their derivatives, shape (n_moments, n_parameters)."""
    names = _monomials(point.offsets.shape[1])
    weights, variances = point.weights, point.variances
    low = _products(_gaussian_powers(point.offsets, variances, 3), names.all_powers)
    # E[q] is the variance; q and y are independent.
    factor = np.where(names.noise, variances[:, None], 1.0)
    plain = low[:, names.place]
    each = factor * plain
    total = weights @ each
    by_offset = factor[..., None] * names.powers * low[:, names.lower]
    # Half the Laplacian: the derivative of an expectation by the variance.
    spread = (names.halves * low[:, names.lowest]).sum(axis=2)
    by_log_variance = variances[:, None] * (factor * spread + names.noise * plain)
    derivatives = np.concatenate(
        [
            (weights[:, None] * (each - total)).T,
            (weights[:, None, None] * by_offset).transpose(1, 0, 2).reshape(len(total), -1),
            (weights[:, None] * by_log_variance).T,
        ],
        axis=1,
    )
    return total, derivatives


def _covariance(point: _Point, spare: int) -> Array:
    """Return the covariance of the monomials of one row, shape (n_moments, n_moments)."""
    names = _monomials(point.offsets.shape[1])
    variances = point.variances
    products = _products(_gaussian_powers(point.offsets, variances, 6), names.powers[:, None] + names.powers)
    # q is a mean of `spare` squares: E[q^2] = s^2 (1 + 2 / spare).
    of_noise = np.stack([np.ones_like(variances), variances, variances**2 * (1 + 2 / spare)])
    both = of_noise[names.noise[:, None] + names.noise]
    second = np.einsum("i,ifg,fgi->fg", point.weights, products, both)
    first = _moments(point)[0]
    return second - np.outer(first, first)


# --- weighted least squares ----------------------------------------------------------------


class _Problem:
    """Half the squares of the residuals of the moments, weighted, and of the variances beside their mean."""

    def __init__(self, observed: Array, at: _Point, spare: int, n_rows: float, centre: float) -> None:
        covariance = _covariance(at, spare)
        self.observed, self.centre = observed, centre
        deviations = np.sqrt(np.diag(covariance))
        # The ridge is for mixtures that are nearly degenerate: the correlations are then singular.
        correlations = covariance / np.outer(deviations, deviations) + RIDGE * np.eye(len(covariance))
        root = np.linalg.cholesky(correlations)
        self.whitener = np.linalg.inv(root) * (np.sqrt(n_rows) / deviations)

    def __call__(self, point: _Point) -> tuple[float, Array, Array]:
        """Return value, gradient, and Gauss and Newton's Hessian."""
        moments, derivatives = _moments(point)
        residuals = self.whitener @ (moments - self.observed)
        derivatives = self.whitener @ derivatives
        rank = len(point.log_variances)
        beside = (point.log_variances - self.centre) / SPREAD_OF_VARIANCES**2
        value = 0.5 * float(residuals @ residuals + SPREAD_OF_VARIANCES**2 * beside @ beside)
        gradient, hessian = derivatives.T @ residuals, derivatives.T @ derivatives
        gradient[-rank:] += beside
        hessian.reshape(-1)[-rank * (len(gradient) + 1) + len(gradient) :: len(gradient) + 1] += (
            1 / SPREAD_OF_VARIANCES**2
        )
        return value, gradient, hessian


def _fitted(problem: _Problem, point: _Point) -> tuple[_Point, float]:
    """Return where the weighted squares are least, by Levenberg and Marquardt, and half of them there."""
    value, gradient, hessian = problem(point)
    damping, rank = 1e-2, len(point.log_weights)
    for _ in range(MAX_ITER):
        damped = hessian.copy()
        # Weights have a parameter too many: without the last term the matrix is singular.
        diagonal = damped.reshape(-1)[:: len(damped) + 1]
        diagonal += damping * (diagonal + 1e-9 * diagonal.sum())
        step = -np.linalg.solve(damped, gradient)
        longest = max(np.abs(step[:rank]).max(), np.abs(step[-rank:]).max())
        step *= min(1.0, LONGEST_STEP / max(longest, 1e-300))
        expected = -float(gradient @ step + 0.5 * step @ hessian @ step)
        tried = point.moved(step)
        new_value, new_gradient, new_hessian = problem(tried)
        gain = value - new_value
        if not gain > 0:
            if expected < LEAST_GAIN:
                break
            damping *= 10
            continue
        point, value, gradient, hessian = tried, new_value, new_gradient, new_hessian
        if gain < LEAST_GAIN:
            break
        if gain > 0.25 * expected:
            damping /= 10
    return point, value
