"""Algorithm 2 of the paper: Hankel matrix, SVD, simultaneous diagonalisation."""

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.joint import joint_eigenvalues
from apolar.decomposition.waring import absorbed_weights
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import monomial_values, multinomials, product_positions

# A combination of slices with a condition number below this needs no second try.
WELL_CONDITIONED = 1e3
# Up to this many multiplications the weights are fitted to the coefficients, which is more accurate.
SMALL_WORK = 1e5


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
        if best_condition < WELL_CONDITIONED:
            break
    if not best_condition < 1e14:
        raise np.linalg.LinAlgError("The pencil is singular.")
    return best


def fitted_vectors(tensor: SymmetricTensor, points: Array) -> tuple[Array, Array]:
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
    if n_coefficients * rank**2 <= SMALL_WORK:
        roots = np.sqrt(tensor.multinomials)
        powers = monomial_values(points, tensor.order) * roots
        weights = np.linalg.lstsq(powers.T, tensor.coefficients * roots, rcond=None)[0]
    else:
        gram = (points.conj() @ points.T) ** tensor.order
        weights = np.linalg.lstsq(gram, tensor(points.conj()), rcond=1e-14)[0]
    return absorbed_weights(weights, points, tensor.order)
