"""Joint diagonalisation of matrices that commute, or nearly do."""

import numpy as np

from apolar._core.arrays import Array

# The least distance of the eigenvalues of a combination, relative to the largest, that needs no second try.
WELL_APART = 1e-3


def joint_eigenvalues(matrices: Array, rng: np.random.Generator, *, max_sweeps: int = 30) -> Array:
    """Return the joint eigenvalues of matrices that share their eigenvectors.

    Starts from the eigenvectors of a random combination, the best separated
    of a few, and improves them by Newton sweeps [khouja2022diagonalisation].

    Parameters
    ----------
    matrices : ndarray, shape (n_matrices, rank, rank)
    rng : numpy.random.Generator
    max_sweeps : int

    Returns
    -------
    eigenvalues : ndarray, shape (rank, n_matrices)
        Row j holds the eigenvalues of all matrices for the j-th eigenvector.
        Complex if the eigenvectors are.
    """
    rank = matrices.shape[1]
    vectors = _separated_eigenvectors(matrices, rng)
    inverse = np.linalg.inv(vectors)
    stack = np.concatenate([np.eye(rank)[None], inverse @ matrices @ vectors])
    error = _off_diagonal(stack)
    # What the rounding of a product of three matrices leaves.
    rounding = np.finfo(float).eps * rank * np.linalg.norm(stack)
    for _ in range(max_sweeps):
        if error <= rounding:
            break
        left, right = _newton_sweep(stack)
        trial = left @ stack @ right
        trial_error = _off_diagonal(trial)
        if not trial_error < error:
            break
        slow = trial_error > 0.999 * error
        stack, error = trial, trial_error
        if slow:
            break
    diagonals = np.einsum("kii->ik", stack)
    return diagonals[:, 1:] / diagonals[:, :1]


def _separated_eigenvectors(matrices: Array, rng: np.random.Generator, n_tries: int = 4) -> Array:
    """Return the eigenvectors of a random combination whose eigenvalues lie apart, or the best of a few."""
    best_gap, best = -1.0, np.zeros((0, 0))
    for _ in range(n_tries):
        coefficients = rng.standard_normal(len(matrices))
        values, vectors = np.linalg.eig(np.tensordot(coefficients, matrices, 1))
        distances = np.abs(values[:, None] - values) + np.diag(np.full(len(values), np.inf))
        gap = distances.min() / np.abs(values).max() if len(values) > 1 else 1.0
        if gap > best_gap and np.linalg.cond(vectors) < 1e14:
            best_gap, best = gap, vectors
        if best_gap > WELL_APART:
            break
    if best_gap < 0:
        raise np.linalg.LinAlgError("The matrices have no common basis of eigenvectors.")
    return best


def _off_diagonal(stack: Array) -> float:
    diagonals = np.einsum("kii->ki", stack)
    return float(np.sqrt(max(np.sum(np.abs(stack) ** 2) - np.sum(np.abs(diagonals) ** 2), 0.0)))


def _newton_sweep(stack: Array) -> tuple[Array, Array]:
    """Return I + Y and I + X, the corrections that best undo the off-diagonal entries.

    For each pair, the least squares solution of
    x_ij (D_k)_ii + y_ij (D_k)_jj = -(D_k)_ij over all k.
    """
    d = np.einsum("kii->ki", stack)
    squares = np.sum(np.abs(d) ** 2, axis=0)
    cross = d.conj().T @ d
    p = np.einsum("ki,kij->ij", d.conj(), stack)
    q = np.einsum("kj,kij->ij", d.conj(), stack)
    determinant = squares[:, None] * squares - np.abs(cross) ** 2
    np.fill_diagonal(determinant, 1.0)
    # Pairs whose diagonals are proportional cannot be separated: they are left as they are.
    determinant[determinant < 1e-14 * squares[:, None] * squares] = np.inf
    x = -(squares * p - cross * q) / determinant
    y = -(squares[:, None] * q - cross.conj() * p) / determinant
    np.fill_diagonal(x, 1.0)
    np.fill_diagonal(y, 1.0)
    return y, x
