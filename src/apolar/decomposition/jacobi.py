"""Orthogonal joint diagonalisation of symmetric matrices, by Jacobi rotations."""

import numpy as np

from apolar._arrays import Array


def joint_rotation(matrices: Array, *, tol: float = 1e-12, max_sweeps: int = 60) -> Array:
    """Return the rotation that best diagonalises symmetric matrices together [cardoso1996].

    Parameters
    ----------
    matrices : ndarray, shape (n_matrices, dim, dim)
        Real, symmetric.
    tol : float
        Stop when no rotation of a sweep has a larger sine.
    max_sweeps : int

    Returns
    -------
    rotation : ndarray, shape (dim, dim)
        Orthogonal; its columns are the joint eigenvectors.
    """
    stack = np.array(matrices, dtype=float)
    dim = stack.shape[1]
    rotation = np.eye(dim)
    for _ in range(max_sweeps):
        largest = 0.0
        for p in range(dim - 1):
            for q in range(p + 1, dim):
                differences = stack[:, p, p] - stack[:, q, q]
                doubles = 2 * stack[:, p, q]
                on = differences @ differences - doubles @ doubles
                off = 2 * differences @ doubles
                theta = 0.5 * np.arctan2(off, on + np.hypot(on, off))
                sine, cosine = np.sin(theta), np.cos(theta)
                largest = max(largest, abs(sine))
                if abs(sine) <= tol:
                    continue
                turn = np.array([[cosine, -sine], [sine, cosine]])
                stack[:, :, [p, q]] = stack[:, :, [p, q]] @ turn
                stack[:, [p, q], :] = turn.T @ stack[:, [p, q], :]
                rotation[:, [p, q]] = rotation[:, [p, q]] @ turn
        if largest <= tol:
            break
    return rotation
