"""The condition of a decomposition: how much noise is amplified."""

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.gram import TangentGram, power_jacobian
from apolar.tensor import n_monomials

# Up to this many multiplications the singular values are those of Terracini's matrix itself.
DENSE_WORK = 2e9
# Larger problems go through its Gram matrix, which squares the condition: beyond this it is only rounding.
GRAM_LIMIT = 1e7
# Cosines above which two points are a cluster, whose terms can be exchanged for others nearly the same.
CLOSE_COSINE = 0.99
# From this condition number on, a pair alone may be why that of all terms is infinite.
PAIR_LIMIT = 1e9
# Terms with a cosine above this are nearly parallel.
PARALLEL = 0.9
# Terms that may be off by this, relative to their size, are not determined. Terms that approach a double
# point may be off by 1 / sqrt(2), at any distance.
UNDETERMINED = 0.5


def condition_number(points: Array, order: int) -> float:
    """Return the condition number of a Waring decomposition.

    The rank-one terms at w v^d have the tangent space spanned by v^d and
    v^(d-1) u, u orthogonal to v; the matrix of all these, with orthonormal
    columns for each term, is Terracini's, and the condition number is the
    inverse of its least singular value [breiding2018condition].

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
    units = unit_rows(points)
    if n_monomials(dim, order) * (rank * dim) ** 2 <= DENSE_WORK:
        least = np.linalg.svd(_terracini(units, order), compute_uv=False)[-1]
        return float("inf") if least <= 1e-15 else max(1.0, 1 / float(least))
    gram = TangentGram(units, np.ones(rank), order)
    shape = (rank * dim, rank * dim)
    inverse = LinearOperator(shape, matvec=gram.normalised_solve, dtype=points.dtype)
    forward = LinearOperator(shape, matvec=gram.normalised_product, dtype=points.dtype)
    start = np.random.default_rng(0).standard_normal(rank * dim)
    try:
        least = eigsh(forward, k=1, sigma=0, OPinv=inverse, v0=start, tol=1e-3, return_eigenvectors=False)[0]
    except ArpackError:
        return float("inf")
    return float("inf") if least <= GRAM_LIMIT**-2 else max(1.0, 1 / float(np.sqrt(least)))


def _terracini(units: Array, order: int) -> Array:
    """Return Terracini's matrix, the columns of each term orthonormal."""
    rank, dim = units.shape
    along = np.einsum("ip,iq->ipq", units, units.conj())
    # d a^(d-1) x has norm d along a, and sqrt(d) across.
    scaling = along / order + (np.eye(dim) - along) / np.sqrt(order)
    jacobian = power_jacobian(units, np.ones(rank), order)
    return np.einsum("sip,ipq->siq", jacobian, scaling, optimize=True).reshape(len(jacobian), -1)


def cluster_condition(points: Array, order: int) -> tuple[float, Array]:
    """Return the condition number of a decomposition with points close together, and those points.

    Where terms belong to a continuous family the condition number is infinite
    whether points are close or not: it is then that of the closest pair by
    itself, a lower bound, unless this pair may be the reason.

    Parameters
    ----------
    points : ndarray, shape (rank, dim)
    order : int
        At least 3, so that two terms are determined by their sum.

    Returns
    -------
    condition : float
        1 where no two points are close.
    close : ndarray of int
        The points that are close to another.
    """
    units = unit_rows(points)
    cosines = np.abs(units.conj() @ units.T)
    np.fill_diagonal(cosines, 0.0)
    close = np.flatnonzero(cosines.max(axis=1) > CLOSE_COSINE)
    if len(close) == 0:
        return 1.0, close
    condition = condition_number(units, order)
    if np.isinf(condition):
        pair = np.unravel_index(np.argmax(cosines), cosines.shape)
        alone = condition_number(units[list(pair)], order)
        condition = alone if alone < PAIR_LIMIT else condition
    return condition, close


def cluster_error(weights: Array, points: Array, order: int, residual: float, norm: float) -> float:
    """Return by how much terms whose points are close together may be off, relative to their size.

    To first order and at worst: the condition number times what is not known
    of the tensor, which is its residual and at least the rounding of the terms.

    Parameters
    ----------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
        Of unit norm.
    order : int
    residual : float
        Relative to the norm.
    norm : float
        Of the tensor.

    Returns
    -------
    error : float
        0 where no two points are close.
    """
    if order < 3 or len(weights) < 2:
        return 0.0
    condition, close = cluster_condition(points, order)
    if len(close) == 0:
        return 0.0
    unknown = max(residual * norm, float(np.finfo(float).eps * np.abs(weights).sum()))
    least = float(np.abs(weights[close]).min())
    return condition * unknown / least if least > 0 else float("inf")


def is_cancelling(sizes: Array, units: Array, signs: Array, order: int) -> bool:
    """Return whether the sum of some terms that are nearly parallel is less than half of their sizes.

    Parameters
    ----------
    sizes : ndarray, shape (rank,)
        The norms of the terms.
    units : ndarray, shape (rank, dim)
        Of unit norm.
    signs : ndarray, shape (rank,)
    order : int
    """
    inner = (units.conj() @ units.T) ** order
    parallel = np.abs(inner) > PARALLEL
    if np.count_nonzero(parallel) == len(units):
        return False
    terms = signs * sizes
    squares = np.einsum("ij,ij->i", parallel @ (terms[:, None] * inner.real * terms), parallel)
    return bool(np.any(squares < (0.5 * (parallel @ sizes)) ** 2))


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
