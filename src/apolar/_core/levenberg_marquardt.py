"""Damped least squares: the one loop of steps, and the model of small dense problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray

__all__ = ["LeastSquares", "descend"]

# A step that gains less than this part of what the model predicts is not taken.
MIN_GAIN_RATIO = 1e-4


def descend(
    model: Any,
    *,
    max_iter: int,
    tol: float = 0.0,
    damping: float = 1e-3,
    is_slow: Callable[[float, float], bool] = lambda _gain, _cost: False,
    patience: int = 1,
) -> tuple[Any, list[float]]:
    """Return the model at a minimum of the cost, and the cost after each step, by Nielsen's damping.

    The damping falls by up to ten after a step that gained what the model predicted, and grows ever faster
    while steps are refused [nielsen1999].

    Parameters
    ----------
    model
        A cost at the start, with a quadratic model of it nearby, such as `LeastSquares`: attributes `cost`,
        `rounding` (changes of the cost up to this are rounding) and `gradient_size` (in units of the point);
        methods `step` of the damped model, `decrease`, by how much the model says that a step lowers the
        cost, and `moved`, the model at the point where a step leads.
    max_iter : int
        Steps at most, with those that are refused.
    tol : float, default=0
        Stop when `gradient_size` is at most this.
    damping : float, default=1e-3
        Of the first step.
    is_slow : callable, optional
        Whether the gain of a step is slow progress, for the cost before it.
    patience : int, default=1
        Stop after this many slow steps in a row.
    """
    growth, n_slow = 2.0, 0
    costs: list[float] = []
    while len(costs) < max_iter and model.gradient_size > tol and damping < 1e12:
        step = model.step(damping)
        predicted = model.decrease(step, damping)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = model.moved(step)
        gain = model.cost - moved.cost
        # At rounding the cost says nothing, and the gradient has to fall.
        at_rounding = abs(gain) <= model.rounding and moved.gradient_size < model.gradient_size
        if at_rounding or gain > MIN_GAIN_RATIO * predicted:
            ratio = 1.0 if at_rounding else gain / predicted
            n_slow = n_slow + 1 if is_slow(gain, model.cost) else 0
            model = moved
            damping = max(damping * max(0.1, 1 - (2 * ratio - 1) ** 3), 1e-15)
            growth = 2.0
        elif 0 <= predicted <= MIN_GAIN_RATIO * model.rounding:
            break
        else:
            damping *= growth
            growth *= 2
        costs.append(model.cost)
        if n_slow >= patience:
            break
    return model, costs


class LeastSquares:
    """Half the sum of squared residuals of a small dense problem; at most one in each logarithm per step.

    SciPy's `least_squares` takes 1.9 to 3.4 times as long at these sizes, and cannot bound a single step.

    Parameters
    ----------
    function : callable
        Returns the residuals at a point, shape (n_residuals,), and their derivatives, shape
        (n_residuals, n); None for a point that is not allowed.
    point : ndarray, shape (n,)
    logs : ndarray of int
        The coordinates that are logarithms.
    """

    rounding = 0.0
    gradient_size = np.inf  # the gain says when to stop

    def __init__(
        self,
        function: Callable[[Array], tuple[Array, Array] | None],
        point: Array,
        logs: IndexArray | slice = slice(0),
    ) -> None:
        self.function, self.point, self.logs = function, point, logs
        found = function(point)
        self.cost = np.inf
        if found is None or not np.all(np.isfinite(found[0])):
            return
        residuals, derivatives = found
        self.cost = 0.5 * float(residuals @ residuals)
        self.gradient, self.hessian = derivatives.T @ residuals, derivatives.T @ derivatives
        diagonal = np.diag(self.hessian)
        # The sum keeps directions damped that change nothing, such as one constant added to all log weights.
        self.scales = diagonal + 1e-9 * diagonal.sum() + 1e-300

    def step(self, damping: float) -> Array:
        """Return the damped Gauss-Newton step, shortened where a logarithm would change by more than one."""
        step: Array = -np.linalg.solve(self.hessian + damping * np.diag(self.scales), self.gradient)
        longest: Any = np.abs(step[self.logs]).max(initial=0.0)
        return step / max(1.0, float(longest))

    def decrease(self, step: Array, damping: float) -> float:  # noqa: ARG002 (the step may be shortened)
        """Return by how much the model says that a step lowers the cost."""
        return -float(self.gradient @ step + 0.5 * step @ self.hessian @ step)

    def moved(self, step: Array) -> LeastSquares:
        """Return the problem at the point where a step leads."""
        return LeastSquares(self.function, self.point + step, self.logs)

    def minimise(
        self, *, max_iter: int, min_gain: float = 0.0, min_relative_gain: float = 0.0
    ) -> LeastSquares:
        """Return the problem at its minimum, from which a step gains little, or little of the cost."""
        if not np.isfinite(self.cost):
            return self

        def is_slow(gain: float, cost: float) -> bool:
            return gain < min_gain or gain <= min_relative_gain * (cost - gain)

        return descend(self, max_iter=max_iter, is_slow=is_slow)[0]
