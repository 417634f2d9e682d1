"""Weights and atoms of a discrete distribution from its second and third moments."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.pencil import joint_rotation

__all__ = ["atoms_of"]

# The smallest eigenvalue of the second moments, relative to the largest, and the smallest root of a weight.
MIN_EIGENVALUE = 1e-9
MIN_ROOT = 1e-4


def atoms_of(second: Array, third: Array) -> tuple[Array, Array]:
    """Return r = p + 1 weights and atoms of mean zero in p dimensions.

    The homogenised tensor sum_i w_i (1, a_i)^3 has the slice diag(1, M); whitened by it, its terms are
    orthonormal, and a joint rotation of the slices gives them.

    Parameters
    ----------
    second : ndarray, shape (p, p)
        M = sum_i w_i a_i a_i^t, positive definite.
    third : ndarray, shape (p, p, p)

    Returns
    -------
    weights : ndarray, shape (p + 1,)
    atoms : ndarray, shape (p + 1, p)
    """
    n = len(second)
    values, vectors = np.linalg.eigh(second)
    values = np.maximum(values, MIN_EIGENVALUE * values.max())
    inverse = vectors / np.sqrt(values)
    tensor = np.zeros((n + 1, n + 1, n + 1))
    tensor[0] = tensor[:, 0] = tensor[:, :, 0] = np.eye(n + 1)
    tensor[1:, 1:, 1:] = np.einsum("abc,ax,by,cz->xyz", third, inverse, inverse, inverse, optimize=True)
    terms = joint_rotation(tensor).T
    terms = terms * np.where(terms[:, :1] < 0, -1.0, 1.0)
    roots = np.maximum(terms[:, 0], MIN_ROOT)
    atoms = (terms[:, 1:] / roots[:, None]) @ (vectors * np.sqrt(values)).T
    return roots**2 / np.sum(roots**2), atoms
