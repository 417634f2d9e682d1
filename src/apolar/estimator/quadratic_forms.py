"""The distribution of a quadratic form in independent standard normals, by integration in the complex plane.

The tail probability of Q = sum_l (a_l u_l^2 + b_l u_l) + constant is a contour integral of its moment
generating function, exp(K(z)) with K(z) = log E exp(z Q) [imhof1961, rice1980]:

    P(Q > c) = 1 / (2 pi i) int exp(K(z) - c z) / z dz

along any path from -i infinity to i infinity that crosses the real axis between zero and the first
singularity. It crosses at the minimum of the integrand on that interval, so that small probabilities are as
accurate, relatively, as large ones, and bends to the side where the integrand decays: there a few hundred
steps of the trapezoidal rule are exact to rounding, whatever the number of terms is. On the straight line, as
in Imhof's formula, forms of two or three terms would need many thousands.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from apolar._core.arrays import Array

__all__ = ["upper_tails"]

# Coefficients below this fraction of the largest one have no effect that could be seen.
NEGLIGIBLE = 1e-12
# How far the path bends, as a slope: the first at which the integrand does not grow on the way.
SLOPES = (0.6, 0.3, 0.15, 0.075)
MOST_GROWTH = 0.5
# The step of the trapezoidal rule per slope, and the path's length, in the logarithm of the distance.
STEP, LENGTH = 0.04, 36.0
# On a path that is straight, steps are as fine as they get: forms of both signs, of many terms.
STRAIGHT_STEP = 0.002
# Complex numbers that are held at a time.
CHUNK = 1 << 21
BISECTIONS = 60


def upper_tails(squares: Array, linear: Array, constants: Array) -> Array:
    """Return the probabilities that quadratic forms in independent standard normals are above zero.

    Parameters
    ----------
    squares : ndarray, shape (n, m)
        The coefficients a_l of the squares of each form.
    linear : ndarray, shape (n, m)
        The coefficients b_l.
    constants : ndarray, shape (n,)

    Returns
    -------
    probabilities : ndarray, shape (n,)
        Of a form that is constant: 1 above zero, 0 below, and one half at zero.
    """
    deviations = np.sqrt(np.sum(2 * squares**2 + linear**2, axis=1))
    out = np.where(constants > 0, 1.0, np.where(constants < 0, 0.0, 0.5))
    varies = np.flatnonzero(deviations > 0)
    if not len(varies):
        return out
    scale = deviations[varies]
    a, b = squares[varies] / scale[:, None], linear[varies] / scale[:, None]
    centre = constants[varies] / scale
    a, b = (np.where(np.abs(part) < NEGLIGIBLE, 0.0, part) for part in (a, b))
    # The tail that does not contain the mean is found: the other is the rest.
    is_above = centre + a.sum(axis=1) > 0
    signs = np.where(is_above, -1.0, 1.0)
    n_per_chunk = max(1, int(CHUNK / (LENGTH / STEP * a.shape[1])))
    parts = []
    for first in range(0, len(varies), n_per_chunk):
        chosen = slice(first, first + n_per_chunk)
        turned = signs[chosen, None]
        parts.append(_small_tails(a[chosen] * turned, b[chosen] * turned, centre[chosen] * signs[chosen]))
    tails = np.concatenate(parts)
    out[varies] = np.where(is_above, 1 - tails, tails)
    return np.clip(out, 0.0, 1.0)


def _small_tails(a: Array, b: Array, constants: Array) -> Array:
    """Return P(Q > 0) of forms whose mean is not above zero, scaled to a variance of one."""
    out = np.zeros(len(a))
    is_gaussian = ~np.any(a, axis=1)
    out[is_gaussian] = ndtr(constants[is_gaussian])
    # At large z, log E exp(z Q) is z times this value: the largest of a form without positive squares.
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(a == 0, 0.0, b**2 / (4 * a))
    vertex = constants - terms.sum(axis=1)
    is_bounded = np.all((a < 0) | ((a == 0) & (b == 0)), axis=1)
    # Where the largest value is zero up to rounding, so is the probability.
    rounding = np.finfo(float).eps * a.shape[1] * (np.abs(constants) + np.abs(terms).sum(axis=1))
    remaining = np.flatnonzero(~is_gaussian & ~(is_bounded & (vertex <= rounding)))
    for slope in (*SLOPES, 0.0):
        if not len(remaining):
            break
        a_left, b_left, c_left = a[remaining], b[remaining], constants[remaining]
        slopes = -np.sign(vertex[remaining]) * slope
        crossing = _crossing(a_left, b_left, c_left)
        values, growth = _integral(a_left, b_left, c_left, crossing, slopes)
        is_done = (growth < MOST_GROWTH) | (slope == 0.0)
        out[remaining[is_done]] = values[is_done]
        remaining = remaining[~is_done]
    return out


def _crossing(a: Array, b: Array, constants: Array) -> Array:
    """Return where K(z) - log z is least on the real axis, between zero and the first singularity."""
    inverse_end = 2 * np.maximum(a.max(axis=1), 0.0)
    low, high = np.full(len(a), -40.0), np.full(len(a), 40.0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        z = 1 / (inverse_end + np.exp(-middle))
        left = 1 - 2 * a * z[:, None]
        slope = np.sum(a / left + b**2 * z[:, None] * (1 - a * z[:, None]) / left**2, axis=1)
        rises = slope + constants - 1 / z > 0
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    return np.asarray(1 / (inverse_end + np.exp(-(low + high) / 2)))


def _integral(a: Array, b: Array, constants: Array, crossing: Array, slopes: Array) -> tuple[Array, Array]:
    """Return the contour integrals, and by how much the logarithm of the integrand grows along each path."""
    a, b, z0 = a[:, None, :], b[:, None, :], crossing[:, None]

    def exponents(z: Array) -> Array:
        left = 1 - 2 * a * z[:, :, None]
        of_terms = -0.5 * np.log(left) + b**2 * z[:, :, None] ** 2 / (2 * left)
        return np.asarray(of_terms.sum(axis=2) + constants[:, None] * z - np.log(z))

    at_crossing = exponents(z0 + 0j).real
    left = 1 - 2 * a[:, 0] * z0
    curvature = np.sum(2 * (a[:, 0] / left) ** 2 + b[:, 0] ** 2 / left**3, axis=1)[:, None] + z0**-2
    width = 1 / np.sqrt(curvature)
    steepest = np.abs(slopes).max()
    step = STRAIGHT_STEP if steepest == 0 else min(STEP, STEP * steepest / SLOPES[0])
    sums, growth = np.zeros(len(crossing)), np.zeros(len(crossing))
    # On a hyperbola, which is analytic: the trapezoidal rule converges exponentially.
    all_steps = np.arange(0.0, LENGTH, step)
    n_at_once = max(64, int(LENGTH / STEP))
    for first in range(0, len(all_steps), n_at_once):
        u = all_steps[None, first : first + n_at_once]
        weights = np.where(u == 0, 0.5, 1.0) * step
        z = z0 + width * (1j * np.sinh(u) + slopes[:, None] * (np.cosh(u) - 1))
        derivative = width * (1j * np.cosh(u) + slopes[:, None] * np.sinh(u))
        exponent = exponents(z) - at_crossing
        sizes = exponent.real + np.log(np.abs(derivative) / width)
        growth = np.maximum(growth, sizes.max(axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            sums += np.sum((np.exp(exponent) * derivative * weights).imag, axis=1)
        # Where nothing is left to add, the rest of the path is not looked at.
        if np.all(sizes[:, -1] < -50):
            break
    # By Chernoff's bound, E exp(z Q), some are zero in double precision: of these the sums may overflow.
    is_zero = np.exp(at_crossing[:, 0] + np.log(crossing)) == 0
    return np.exp(at_crossing[:, 0]) * np.where(is_zero, 0.0, sums) / np.pi, growth
