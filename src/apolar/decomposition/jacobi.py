"""Orthogonal joint diagonalisation of symmetric matrices, by Jacobi rotations."""

import math

import numpy as np

from apolar._core.arrays import Array
from apolar._core.compiled import extension

kernels = extension()


def joint_rotation(matrices: Array, *, tol: float = 1e-9, max_sweeps: int = 60) -> Array:
    """Return the rotation that best diagonalises symmetric matrices together [cardoso1996].

    Parameters
    ----------
    matrices : ndarray, shape (n_matrices, dim, dim)
        Real, symmetric.
    tol : float
        Stop when no rotation of a sweep has a larger sine; the error is then its square.
    max_sweeps : int

    Returns
    -------
    rotation : ndarray, shape (dim, dim)
        Orthogonal; its columns are the joint eigenvectors.
    """
    # Coordinates first: a rotation then mixes two contiguous slices.
    stack = np.ascontiguousarray(np.moveaxis(np.array(matrices, dtype=float), 0, 2))
    dim = stack.shape[0]
    rotation = np.eye(dim)
    if kernels is not None:
        kernels.joint_rotation(stack, rotation, dim, tol, max_sweeps)
        return rotation
    for _ in range(max_sweeps):
        largest = 0.0
        for p in range(dim - 1):
            for q in range(p + 1, dim):
                differences = stack[p, p] - stack[q, q]
                doubles = 2 * stack[p, q]
                on = float(differences @ differences - doubles @ doubles)
                off = 2 * float(differences @ doubles)
                theta = 0.5 * math.atan2(off, on + math.hypot(on, off))
                sine, cosine = math.sin(theta), math.cos(theta)
                largest = max(largest, abs(sine))
                if abs(sine) <= tol:
                    continue
                for rows in (stack, stack.swapaxes(0, 1), rotation.T):
                    turned = cosine * rows[p] + sine * rows[q]
                    rows[q] = cosine * rows[q] - sine * rows[p]
                    rows[p] = turned
        if largest <= tol:
            break
    return rotation
