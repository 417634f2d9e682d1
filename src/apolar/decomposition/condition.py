"""The condition of a decomposition: how much noise is amplified."""

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from apolar._arrays import Array, unit_rows
from apolar.decomposition.gram import TangentGram
from apolar.tensor import n_monomials

# Up to this many unknowns the eigenvalues are taken of the matrix itself.
DENSE_LIMIT = 800


def condition_number(points: Array, order: int) -> float:
    """Return the condition number of a Waring decomposition.

    The rank-one terms at w v^d have the tangent space spanned by v^d and
    v^(d-1) u, u orthogonal to v; the matrix of all these, with orthonormal
    columns a term, is Terracini's, and the condition number is the inverse of
    its least singular value [breiding2018condition].

    Parameters
    ----------
    points : ndarray, shape (rank, dim)
        Of any norm but zero; weights do not matter.
    order : int

    Returns
    -------
    condition : float
        At least 1; infinite if the terms can move without moving the tensor.
    """
    rank, dim = points.shape
    if order == 1:
        return 1.0 if rank == 1 else float("inf")
    if rank * dim > n_monomials(dim, order):
        return float("inf")
    gram = TangentGram(unit_rows(points), np.ones(rank), order)
    # For a unit a, d a^(d-1) x = a^(d-1) (d x_parallel) + sqrt(d) [sqrt(d) a^(d-1) x_orthogonal]:
    # dividing by d and sqrt(d) makes the columns of one term orthonormal.
    if rank * dim <= DENSE_LIMIT:
        least = eigvalsh(gram.normalised_matrix(), subset_by_index=[0, 0])[0]
    else:
        shape = (rank * dim, rank * dim)
        inverse = LinearOperator(shape, matvec=gram.normalised_solve, dtype=points.dtype)
        forward = LinearOperator(shape, matvec=gram.normalised_product, dtype=points.dtype)
        start = np.random.default_rng(0).standard_normal(rank * dim)
        try:
            least = eigsh(
                forward, k=1, sigma=0, OPinv=inverse, v0=start, tol=1e-3, return_eigenvectors=False
            )[0]
        except ArpackError:
            return float("inf")
    return float("inf") if least <= 1e-15 else max(1.0, 1 / float(np.sqrt(least)))


def condition_estimate(vectors: Array, order: int, n_steps: int = 3) -> float:
    """Return an estimate of the condition number from below, mostly within a factor of two.

    A few steps of inverse iteration, matrix-free.
    """
    rank, dim = vectors.shape
    gram = TangentGram(unit_rows(vectors), np.ones(rank), order)
    x = np.random.default_rng(0).standard_normal(rank * dim).astype(vectors.dtype)
    x /= np.linalg.norm(x)
    growth = 1.0
    for _ in range(n_steps):
        x = gram.normalised_solve(x, rtol=1e-2)
        growth = float(np.linalg.norm(x))
        x /= growth
    return float(np.sqrt(max(growth, 1.0)))
