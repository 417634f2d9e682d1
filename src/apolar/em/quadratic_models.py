"""Quadratic models of a function whose evaluation takes one pass over the rows.

The steps of L-BFGS lead to an optimum; Krylov spaces of the Hessian tell whether it is a maximum, and what
remains to be gained.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS

Evaluation = tuple[float, float, Array]
"""The value, the slope along the line, and the gradient at a point."""
Gradient = Callable[[Array], Array]
"""Takes a tangent vector and returns the gradient there, by one pass over the rows."""


class LBFGSHistory:
    """The last steps of a maximisation, which approximate the inverse Hessian of the negated function.

    Attributes
    ----------
    pairs : deque of (step, gradient difference, their product)
        The oldest first. A gradient difference is the gradient before a step less that after it.
    """

    def __init__(self) -> None:
        self.pairs: deque[tuple[Array, Array, float]] = deque(maxlen=SETTINGS.lbfgs_pairs)

    def update(self, step: Array, gradient_difference: Array) -> None:
        """Add a step, unless the function is convex along it."""
        product = float(step @ gradient_difference)
        if product > SETTINGS.min_cosine * float(np.linalg.norm(step) * np.linalg.norm(gradient_difference)):
            self.pairs.append((step, gradient_difference, product))

    def direction(self, gradient: Array) -> Array:
        """Return the inverse Hessian times the gradient, by the two-loop recursion [nocedal2006]."""
        q = gradient.copy()
        factors = []
        for step, difference, product in reversed(self.pairs):
            factor = float(step @ q) / product
            q -= factor * difference
            factors.append(factor)
        if self.pairs:
            _, difference, product = self.pairs[-1]
            q *= product / float(difference @ difference)
        for (step, difference, product), factor in zip(self.pairs, reversed(factors), strict=True):
            q += (factor - float(difference @ q) / product) * step
        return q


def line_search(
    evaluate: Callable[[float], Evaluation | None], value: float, slope: float, first: float = 1.0
) -> tuple[float, float, Array] | None:
    """Return a step length that raises the function enough, with the value and the gradient there.

    Parameters
    ----------
    evaluate : callable
        Takes a step length and returns the `Evaluation` there, or None to end the search.
    value, slope : float
        At length zero; the slope is positive.
    first : float, default=1.0
        The first length to try.

    Returns
    -------
    accepted : tuple of (length, value, gradient), or None
        None if no length raises the function enough, or if `evaluate` returned None.
    """
    length, best = first, None
    for _ in range(SETTINGS.max_trials):
        evaluation = evaluate(length)
        if evaluation is None:
            return None
        trial, trial_slope, gradient = evaluation
        is_enough = np.isfinite(trial) and trial >= value + SETTINGS.min_rise * length * slope
        if best is not None and not (is_enough and trial > best[1]):
            return best
        if is_enough:
            best = (length, trial, gradient)
            is_steep = trial_slope > SETTINGS.max_slope * slope
            if not is_steep or not first <= length < SETTINGS.longest_step * first:
                return best
            length *= 4
        else:
            # The maximum of the parabola with that value and slope at zero, through the trial.
            shortfall = value + length * slope - trial
            is_parabola = np.isfinite(shortfall) and shortfall > 0
            guess = length * length * slope / (2 * shortfall) if is_parabola else 0.0
            length *= min(max(guess / length, 0.1), 0.5)
    return best


def rising_direction(
    gradient_at: Gradient, gradient: Array, null_direction: Array
) -> tuple[float, Array] | None:
    """Return the largest curvature that was found and its direction, if that curvature is positive.

    Ritz values never exceed the largest eigenvalue, so that a maximum is not mistaken for a saddle.

    Parameters
    ----------
    gradient_at : callable
    gradient : ndarray, shape (n_coordinates,)
        At the origin.
    null_direction : ndarray, shape (n_coordinates,)
        A direction along which the function is constant; it is projected out.

    Returns
    -------
    curvature, direction : float and ndarray
        None instead of both if no direction of positive curvature was found.
    """
    # A fixed seed: results must not vary from run to run.
    start = np.random.default_rng(0).standard_normal(len(gradient))
    largest: tuple[float, Array] | None = None
    before = -np.inf
    for basis, hessian, remainder in _krylov(gradient_at, gradient, start, null_direction):
        values, vectors = np.linalg.eigh(hessian)
        if values[-1] > SETTINGS.min_rising:
            largest = float(values[-1]), vectors[:, -1] @ basis
            if values[-1] < 1.1 * before:
                break
            before = float(values[-1])
        # The last entry of a Ritz vector times the remainder bounds the error of its value. If components
        # hardly overlap, all curvatures are near -1, and two or three products are enough to see that.
        if values[-1] + 2 * remainder * abs(vectors[-1, -1]) < SETTINGS.clearly_falling:
            break
    return largest


def newton_step(gradient_at: Gradient, gradient: Array, null_direction: Array) -> tuple[float, Array] | None:
    """Return the remaining gain and the step that gains it, by Newton's method in a Krylov space.

    The space is that of the gradient. It contains flat directions, in which the gradient is small but the
    maximum far away, and which the history of a quasi-Newton method may miss.

    Parameters
    ----------
    gradient_at : callable
    gradient : ndarray, shape (n_coordinates,)
        At the origin.
    null_direction : ndarray, shape (n_coordinates,)
        A direction along which the function is constant; it is projected out.

    Returns
    -------
    gain, step : float and ndarray
        None instead of both if the quadratic model has no maximum.
    """
    gain, step = 0.0, np.zeros_like(gradient)
    for basis, hessian, _ in _krylov(gradient_at, gradient, gradient, null_direction):
        values, vectors = np.linalg.eigh(-hessian)
        if not values[0] > 0:
            return None
        size = float(basis[0] @ gradient)
        coefficients = vectors @ (vectors[0] / values) * size
        before, gain = gain, 0.5 * size * float(coefficients[0])
        step = coefficients @ basis
        if gain <= SETTINGS.settled * before:
            break
    return gain, step


def _krylov(
    gradient_at: Gradient, gradient: Array, start: Array, null_direction: Array
) -> Iterator[tuple[Array, Array, float]]:
    """Yield Krylov spaces of the Hessian of increasing dimension.

    Products of the Hessian with vectors are approximated by gradient differences.

    Yields
    ------
    basis : ndarray, shape (n, n_coordinates)
        Orthonormal.
    hessian : ndarray, shape (n, n)
        Projected on the space.
    remainder : float
        The norm of the part of the last product outside the space.
    """
    null_direction = null_direction / np.linalg.norm(null_direction)
    vector = start - (null_direction @ start) * null_direction
    norm = float(np.linalg.norm(vector))
    if not norm > 0:
        return
    vectors, images = [vector / norm], []
    for _ in range(min(SETTINGS.max_products, len(gradient))):
        moved = gradient_at(SETTINGS.gradient_difference * vectors[-1])
        image = (moved - gradient) / SETTINGS.gradient_difference
        if not np.all(np.isfinite(image)):
            return
        images.append(image)
        basis = np.array(vectors)
        projected = basis @ np.array(images).T
        # Orthogonalised twice: once would leave rounding errors.
        remainder = image - basis.T @ (basis @ image)
        remainder -= basis.T @ (basis @ remainder)
        remainder -= (null_direction @ remainder) * null_direction
        norm = float(np.linalg.norm(remainder))
        yield basis, (projected + projected.T) / 2, norm
        if norm <= 1e-8 * float(np.linalg.norm(image)):
            return
        vectors.append(remainder / norm)
