"""Limited-memory BFGS for a function whose every evaluation is a pass through the data."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from apolar._core.arrays import Array

# Pairs of steps and gradient changes that are remembered.
HISTORY = 12
# A step must rise by this much of what the slope promises, and leave less than this much of the slope.
LEAST_RISE = 1e-4
MOST_SLOPE = 0.9
# The longest step of a line search, and the most evaluations it takes.
LONGEST = 16.0
MOST_TRIALS = 12

Evaluation = tuple[float, float, Array]
"""A value, the slope along the line, and the gradient."""


class LBFGSHistory:
    """The inverse Hessian of the negated function, as far as the last steps tell."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[Array, Array, float]] = deque(maxlen=HISTORY)

    def copy(self) -> LBFGSHistory:
        """Return a memory of the same steps, that learns on its own."""
        other = LBFGSHistory()
        other.pairs.extend(self.pairs)
        return other

    @classmethod
    def of(cls, steps: Array, changes: Array) -> LBFGSHistory:
        """Return the memory of steps and of the falls of the gradient, both (n_pairs, n_coordinates)."""
        curvature = cls()
        for step, change in zip(steps, changes, strict=True):
            curvature.update(step, change)
        return curvature

    def arrays(self) -> tuple[Array, Array]:
        """Return the steps, and the falls of the gradient along them, both (n_pairs, n_coordinates)."""
        return np.array([step for step, _, _ in self.pairs]), np.array([fall for _, fall, _ in self.pairs])

    def update(self, step: Array, change: Array) -> None:
        """Learn from a step and the fall of the gradient along it; curvature of the wrong sign is skipped."""
        product = float(step @ change)
        if product > 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self.pairs.append((step, change, product))

    def direction(self, gradient: Array) -> Array:
        """Return the inverse Hessian times the gradient: the two loops of L-BFGS [nocedal2006]."""
        q = gradient.copy()
        factors = []
        for step, change, product in reversed(self.pairs):
            factor = float(step @ q) / product
            q -= factor * change
            factors.append(factor)
        if self.pairs:
            _, change, product = self.pairs[-1]
            q *= product / float(change @ change)
        for (step, change, product), factor in zip(self.pairs, reversed(factors), strict=True):
            q += (factor - float(change @ q) / product) * step
        return q


def line_search(
    evaluate: Callable[[float], Evaluation | None], value: float, slope: float, first: float = 1.0
) -> tuple[float, float, Array] | None:
    """Return a step length that raises the function, its value and gradient; None if there is none.

    Parameters
    ----------
    evaluate : callable
        Takes a step length; None ends the search.
    value, slope : float
        At zero; the slope is positive.
    first : float
        The length that is tried first.
    """
    low, high = 0.0, np.inf
    length = first
    best: tuple[float, float, Array] | None = None
    for _ in range(MOST_TRIALS):
        evaluation = evaluate(length)
        if evaluation is None:
            return None
        trial, trial_slope, gradient = evaluation
        enough = np.isfinite(trial) and trial >= value + LEAST_RISE * length * slope
        if enough and (best is None or trial > best[1]):
            best = (length, trial, gradient)
        if not enough:
            high = length
            # The parabola through value, slope and trial.
            fall = value + length * slope - trial
            guess = length * length * slope / (2 * fall) if np.isfinite(fall) and fall > 0 else 0.0
            length = min(max(guess, low + 0.1 * (high - low)), low + 0.5 * (high - low))
            if best is not None:
                return best
        elif trial_slope > MOST_SLOPE * slope and length < LONGEST * first and high == np.inf:
            low, length = length, 4 * length
        else:
            return best
    return best
