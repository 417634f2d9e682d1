"""Limited-memory BFGS for a function of which each evaluation is one pass over the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS

Evaluation = tuple[float, float, Array]
"""The value, the slope along the line, and the gradient at a point."""


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
    low, high = 0.0, np.inf
    length = first
    best: tuple[float, float, Array] | None = None
    for _ in range(SETTINGS.max_trials):
        evaluation = evaluate(length)
        if evaluation is None:
            return None
        trial, trial_slope, gradient = evaluation
        enough = np.isfinite(trial) and trial >= value + SETTINGS.min_rise * length * slope
        if enough and (best is None or trial > best[1]):
            best = (length, trial, gradient)
        if not enough:
            high = length
            # The maximum of the parabola with that value and slope at zero, through the trial.
            shortfall = value + length * slope - trial
            is_parabola = np.isfinite(shortfall) and shortfall > 0
            guess = length * length * slope / (2 * shortfall) if is_parabola else 0.0
            length = min(max(guess, low + 0.1 * (high - low)), low + 0.5 * (high - low))
            if best is not None:
                return best
        elif (
            trial_slope > SETTINGS.max_slope * slope
            and length < SETTINGS.longest_step * first
            and high == np.inf
        ):
            low, length = length, 4 * length
        else:
            return best
    return best
