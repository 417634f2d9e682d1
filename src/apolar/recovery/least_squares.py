"""Small dense problems of nonlinear least squares, by the Levenberg-Marquardt method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apolar._core.arrays import Array

__all__ = ["least_squares"]

# The damping at which no step is expected to help any more.
MAX_DAMPING = 1e10
# The largest change of a logarithm in one step.
MAX_LOG_STEP = 1.0


def least_squares(
    residuals: Callable[[Array], Array],
    derivatives: Callable[[Array], Array],
    start: Array,
    *,
    max_iter: int = 200,
    n_logs: int = 0,
    gain: float = 1e-9,
    is_valid: Callable[[Array], bool] = lambda _: True,
) -> Array:
    """Return a minimum of the sum of squares.

    Parameters
    ----------
    residuals, derivatives : callable
        Of a point, shape (n,): shapes (n_residuals,) and (n_residuals, n).
    start : ndarray, shape (n,)
    max_iter : int, default=200
    n_logs : int, default=0
        The number of first coordinates that are logarithms, whose steps are bounded.
    gain : float, default=1e-9
        The relative gain of a step after which it ends.
    is_valid : callable, optional
        Whether a point may be a solution; steps to others are shortened.

    Returns
    -------
    point : ndarray, shape (n,)
    """
    # scipy.optimize.least_squares takes several times as long for problems of this size.
    point, damping = start, 1e-3
    errors = residuals(point)
    value = float(errors @ errors)
    for _ in range(max_iter):
        jacobian = derivatives(point)
        normal, gradient = jacobian.T @ jacobian, jacobian.T @ errors
        scale = np.diag(normal)
        scale = scale + 1e-9 * scale.sum() + 1e-300
        has_moved = False
        while damping < MAX_DAMPING:
            step = -np.linalg.solve(normal + np.diag(damping * scale), gradient)
            if n_logs:
                step *= min(1.0, MAX_LOG_STEP / max(float(np.abs(step[:n_logs]).max()), 1e-300))
            trial = point + step
            if is_valid(trial):
                new = residuals(trial)
                if float(new @ new) < value:
                    has_moved = True
                    break
            damping *= 10
        if not has_moved:
            break
        gained = value - float(new @ new)
        point, errors, value, damping = trial, new, float(new @ new), max(damping / 10, 1e-12)
        if gained <= gain * value:
            break
    return point
