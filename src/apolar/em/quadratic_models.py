"""Quadratic models of a function whose evaluation takes one pass over the rows.

The steps of L-BFGS lead to an optimum; a Krylov space of the Hessian tells whether it is a maximum, and what
remains to be gained.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

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

    @np.errstate(over="ignore", invalid="ignore")
    def update(self, step: Array, gradient_difference: Array) -> None:
        """Add a step, unless the function is convex along it, or differences are too large for arithmetic."""
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


def principal_curvatures(
    gradient_at: Gradient, gradient: Array, null_direction: Array
) -> tuple[Array, Array]:
    """Return the curvatures at the origin in a Krylov space of the Hessian, and their directions.

    The largest, which are last, are those that the space knows best. Ritz values never exceed the largest
    eigenvalue, so that a maximum is not mistaken for a saddle. Products of the Hessian with vectors are
    approximated by gradient differences.

    Parameters
    ----------
    gradient_at : callable
    gradient : ndarray, shape (n_coordinates,)
        At the origin.
    null_direction : ndarray, shape (n_coordinates,)
        A direction along which the function is constant; it is projected out.

    Returns
    -------
    curvatures : ndarray, shape (n,)
        None of functions that are not finite near the origin.
    directions : ndarray, shape (n, n_coordinates)
        Orthonormal.
    """
    null_direction = null_direction / np.linalg.norm(null_direction)
    # A fixed seed: results must not vary from run to run. In the gradient, flat directions are large in which
    # the maximum is far away.
    remainder = np.random.default_rng(0).standard_normal(len(gradient))
    remainder += gradient * (np.linalg.norm(remainder) / max(float(np.linalg.norm(gradient)), 1e-300))
    remainder -= (null_direction @ remainder) * null_direction
    curvatures, directions = np.zeros(0), np.zeros((0, len(gradient)))
    vectors, images, before = list[Array](), list[Array](), -np.inf
    for _ in range(min(SETTINGS.max_products, len(gradient))):
        vectors.append(remainder / np.linalg.norm(remainder))
        moved = gradient_at(SETTINGS.gradient_difference * vectors[-1])
        images.append((moved - gradient) / SETTINGS.gradient_difference)
        if not np.all(np.isfinite(images[-1])):
            break
        basis = np.array(vectors)
        projected = basis @ np.array(images).T
        curvatures, mixing = np.linalg.eigh((projected + projected.T) / 2)
        directions = mixing.T @ basis
        # Orthogonalised twice: once would leave rounding errors.
        remainder = images[-1] - basis.T @ (basis @ images[-1])
        remainder -= basis.T @ (basis @ remainder)
        remainder -= (null_direction @ remainder) * null_direction
        norm, largest = float(np.linalg.norm(remainder)), float(curvatures[-1])
        # The last entry of a Ritz vector times the remainder bounds the error of its value. If components
        # hardly overlap, all curvatures are near -1, and two products are enough to see that.
        error = norm * abs(float(mixing[-1, -1]))
        is_falling = len(vectors) > 1 and largest + 2 * error < SETTINGS.clearly_falling
        is_rising = SETTINGS.min_rising < largest < 1.1 * before
        if is_falling or is_rising or norm <= 1e-8 * float(np.linalg.norm(images[-1])):
            break
        before = largest if largest > SETTINGS.min_rising else before
    return curvatures, directions
