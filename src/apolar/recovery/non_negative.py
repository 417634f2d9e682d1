"""Non-negative least squares with many more unknowns than equations."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array

__all__ = ["non_negative_solution"]

# A gradient below this part of the first one is rounding.
MIN_GRADIENT = 1e-12


def non_negative_solution(matrix: Array, wanted: Array) -> Array:
    """Return x >= 0 with A x nearest to b, by the active set method [lawson1974].

    SciPy's function differs from version to version in its speed for such systems, and raises an error where
    it does not end; here the best solution so far is returned after a number of steps.

    Parameters
    ----------
    matrix : ndarray, shape (n_equations, n_unknowns)
    wanted : ndarray, shape (n_equations,)

    Returns
    -------
    solution : ndarray, shape (n_unknowns,)
    """
    n_equations, n_unknowns = matrix.shape
    solution, used = np.zeros(n_unknowns), np.zeros(n_unknowns, dtype=bool)
    least = MIN_GRADIENT * float(np.abs(matrix.T @ wanted).max(initial=0.0))
    for _ in range(5 * n_equations):
        gradient = matrix.T @ (wanted - matrix @ solution)
        gradient[used] = -np.inf
        entering = int(np.argmax(gradient))
        if not gradient[entering] > least or np.count_nonzero(used) >= n_equations:
            break
        used[entering] = True
        while True:
            columns = np.flatnonzero(used)
            trial = np.linalg.lstsq(matrix[:, columns], wanted, rcond=None)[0]
            if np.all(trial > 0):
                solution[:] = 0
                solution[columns] = trial
                break
            # As far towards it as no unknown becomes negative; those that are zero then leave.
            now = solution[columns]
            falling = trial <= 0
            steps = now[falling] / np.maximum(now[falling] - trial[falling], 1e-300)
            now = now + float(steps.min()) * (trial - now)
            leaving = falling & (now <= 1e-14 * max(float(now.max()), 1e-300))
            solution[columns] = np.where(leaving, 0.0, np.maximum(now, 0.0))
            used[columns[leaving]] = False
            if not leaving.any() or not used.any():
                break
    return solution
