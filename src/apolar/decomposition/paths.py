"""Paths of solutions of polynomial equations, as a parameter goes from 0 to 1."""

from collections.abc import Callable

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.tuning import TUNING

System = Callable[[Array, Array], tuple[Array, Array, Array]]
"""Takes points (n, size) and parameters (n,); returns values, Jacobians and derivatives by the parameter."""


def follow_paths(system: System, starts: Array) -> tuple[Array, Array]:
    """Return where solutions lead, all at once, and which arrive.

    Steps are those of the classical Runge-Kutta method and of Newton's. A step counts if the first correction
    is so small that it cannot lead to another path.

    Parameters
    ----------
    system : callable
        See `System`; as many values as unknowns.
    starts : ndarray, shape (n, size)
        Solutions at parameter zero.

    Returns
    -------
    ends : ndarray, shape (n, size)
    arrived : ndarray of bool, shape (n,)
        False where solutions meet or run away on the path, or at its end.
    """
    points = starts.astype(np.complex128)
    at, steps = np.zeros(len(points)), np.full(len(points), TUNING.path_step)
    active = np.arange(len(points))

    def slope(z: Array, t: Array) -> Array:
        _, jacobian, derivative = system(z, t)
        return -solve_each(jacobian, derivative)

    while len(active):
        here, t = points[active], at[active]
        step = np.minimum(steps[active], 1 - t)
        h = step[:, None]
        with np.errstate(all="ignore"):
            first = slope(here, t)
            second = slope(here + h / 2 * first, t + step / 2)
            third = slope(here + h / 2 * second, t + step / 2)
            last = slope(here + h * third, t + step)
            moved = here + h / 6 * (first + 2 * second + 2 * third + last)
            corrections = []
            for _ in range(TUNING.last_steps):
                values, jacobian, _ = system(moved, t + step)
                correction = solve_each(jacobian, values)
                moved = moved - correction
                corrections.append(np.linalg.norm(correction, axis=1) / np.linalg.norm(moved, axis=1))
        counts = (corrections[0] <= TUNING.path_tolerance) & (corrections[-1] <= TUNING.exact_residual)
        points[active[counts]], at[active[counts]] = moved[counts], (t + step)[counts]
        grows = counts & (
            corrections[0] <= TUNING.path_tolerance / 32
        )  # the error grows like the fifth power
        steps[active] = np.where(counts, np.where(grows, 2 * step, step), step / 2)
        active = active[(at[active] < 1) & (steps[active] > TUNING.rounding**0.5)]
    return points, at == 1


def solve_each(matrices: Array, targets: Array) -> Array:
    """Return the solutions with many matrices; of least squares where one of them is singular."""
    try:
        return np.asarray(np.linalg.solve(matrices, targets[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        matrices = np.where(np.isfinite(matrices), matrices, 0)
        return np.asarray((np.linalg.pinv(matrices) @ targets[:, :, None])[:, :, 0])
