"""Algorithm 2 of the paper, joint diagonalisation, and Sylvester's theorem for binary forms."""

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.terms import absorb_weights
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, hankel
from apolar.tensor.monomials import monomial_values, multinomials, product_positions


def pencil_points(left_vectors: Array, dim: int, row_degree: int, rng: np.random.Generator) -> Array:
    """Return the points of a decomposition from the image of its Hankel matrix.

    Algorithm 2 of [khouja2022moments] in floating point.

    Parameters
    ----------
    left_vectors : ndarray, shape (n_monomials(dim, row_degree), rank)
        Leading left singular vectors of the weighted Hankel matrix.
    dim, row_degree : int
        The row degree k must be larger than the interpolation degree of the points.
    rng : numpy.random.Generator

    Returns
    -------
    points : ndarray, shape (rank, dim)
        Of unit norm; complex if the eigenvectors are.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the pencil is singular: the rank is not the tensor's own, or the
        points do not impose independent conditions in degree k - 1.
    """
    rank = left_vectors.shape[1]
    unweighted = left_vectors / np.sqrt(multinomials(dim, row_degree))[:, None]
    # U_i: the rows of U at the monomials X_i X^a, |a| = k - 1, weighted again.
    rows = product_positions(dim, 1, row_degree - 1)
    slices = unweighted[rows] * np.sqrt(multinomials(dim, row_degree - 1))[None, :, None]
    if slices.shape[1] > rank:
        side_by_side = slices.swapaxes(0, 1).reshape(slices.shape[1], -1)
        basis = np.linalg.svd(side_by_side, full_matrices=False)[0][:, :rank]
        slices = basis.conj().T @ slices
    combined = _invertible_combination(slices, rng)
    points = joint_eigenvalues(np.linalg.solve(combined[None], slices), rng)
    norms = np.linalg.norm(points, axis=1)
    if not np.all(np.isfinite(norms)) or not np.all(norms > 0):
        raise np.linalg.LinAlgError("The pencil is singular.")
    return points / norms[:, None]


def _invertible_combination(slices: Array, rng: np.random.Generator, n_tries: int = 4) -> Array:
    """Return a well conditioned random combination of the slices, or the best of a few."""
    best_condition, best = np.inf, slices[0]
    for _ in range(n_tries):
        combined = np.tensordot(rng.standard_normal(len(slices)), slices, 1)
        condition = np.linalg.cond(combined)
        if condition < best_condition:
            best_condition, best = condition, combined
        if best_condition < 1 / TUNING.well_apart:
            break
    if not best_condition < 1e14:
        raise np.linalg.LinAlgError("The pencil is singular.")
    return best


def fit_weights(tensor: SymmetricTensor, points: Array) -> tuple[Array, Array]:
    """Return the vectors and signs of the best weights for some points.

    Solves T = sum_i w_i (xi_i . x)^d by least squares: on the coefficients for
    small tensors, which is more accurate, through the inner products
    g_ij^d for larger ones.

    Parameters
    ----------
    tensor : SymmetricTensor
    points : ndarray, shape (rank, dim)
        Of unit norm.

    Returns
    -------
    vectors : ndarray, shape (rank, dim)
    signs : ndarray, shape (rank,)
    """
    rank, n_coefficients = len(points), len(tensor.coefficients)
    if n_coefficients * rank**2 <= TUNING.dense_work:
        roots = np.sqrt(tensor.multinomials)
        powers = monomial_values(points, tensor.order) * roots
        weights = np.linalg.lstsq(powers.T, tensor.coefficients * roots, rcond=None)[0]
    else:
        gram = (points.conj() @ points.T) ** tensor.order
        weights = np.linalg.lstsq(gram, tensor(points.conj()), rcond=1e-14)[0]
    return absorb_weights(weights, points, tensor.order)


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
        if best_gap > TUNING.well_apart:
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


# Forms of the kernel that are drawn: the zeros of some lie closer together than those of others.
N_DRAWS = 10


def sylvester_points(tensor: SymmetricTensor, rank: int, rng: np.random.Generator) -> list[Array]:
    """Return points of decompositions of a binary form, over C, one for each of some forms of the kernel.

    Parameters
    ----------
    tensor : SymmetricTensor
        In two variables.
    rank : int
        With 2 * rank above the order, so that there is a kernel.
    rng : numpy.random.Generator

    Returns
    -------
    points : list of ndarray, shape (rank, 2)
    """
    order = tensor.order
    if rank >= order:
        kernel = np.eye(rank + 1)
    else:
        matrix = hankel(tensor, row_degree=order - rank)
        _, values, right = np.linalg.svd(matrix)
        kernel = right[len(values) :].conj()
    points = []
    for _ in range(N_DRAWS):
        form = rng.standard_normal(len(kernel)) @ kernel
        ratios = np.roots(form)
        if len(ratios) == rank:
            points.append(unit_rows(np.stack([ratios, np.ones(rank)], axis=1).astype(complex)))
    return points
