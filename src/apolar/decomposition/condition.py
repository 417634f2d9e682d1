"""The condition of a decomposition: how much noise is amplified, and whether terms diverge."""

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.terms import Contractible, Refined, TangentGram, power_jacobian
from apolar.decomposition.tuning import TUNING
from apolar.tensor import n_monomials


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
    if n_monomials(dim, order) * (rank * dim) ** 2 <= TUNING.condition_work:
        least = np.linalg.svd(_terracini(units, order), compute_uv=False)[-1]
        return float("inf") if least <= 1e-15 else max(1.0, 1 / float(least))
    condition = condition_estimate(units, order, n_steps=100)
    return float("inf") if condition >= 1e7 else condition


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
    close = np.flatnonzero(cosines.max(axis=1) > TUNING.close_cosine)
    if len(close) == 0:
        return 1.0, close
    condition = condition_number(units, order)
    if np.isinf(condition):
        pair = np.unravel_index(np.argmax(cosines), cosines.shape)
        alone = condition_number(units[list(pair)], order)
        condition = alone if alone < TUNING.pair_limit else condition
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
    least = float(np.abs(weights[close]).min())
    return condition * unknown_size(weights, residual, norm) / least if least > 0 else float("inf")


def unknown_size(weights: Array, residual: float, norm: float) -> float:
    """Return the size of what is not known of a tensor: the residual, at least the rounding of the terms."""
    return max(residual * norm, float(np.finfo(float).eps * np.abs(weights).sum()))


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
    parallel = np.abs(inner) > TUNING.parallel_cosine
    if np.count_nonzero(parallel) == len(units):
        return False
    terms = signs * sizes
    squares = np.einsum("ij,ij->i", parallel @ (terms[:, None] * inner.real * terms), parallel)
    return bool(np.any(squares < (0.5 * (parallel @ sizes)) ** 2))


def condition_estimate(vectors: Array, order: int, n_steps: int = 3) -> float:
    """Return an estimate of the condition number from below, by inverse iteration, matrix-free.

    A few steps are mostly within a factor of two; many go on until it changes by less than a thousandth.
    """
    rank, dim = vectors.shape
    gram = TangentGram(unit_rows(vectors), np.ones(rank), order)
    x = np.random.default_rng(0).standard_normal(rank * dim).astype(vectors.dtype)
    x /= np.linalg.norm(x)
    growth, before = 1.0, 0.0
    for _ in range(n_steps):
        if abs(growth - before) <= 1e-3 * growth:
            break
        x = gram.normalised_solve(x, rtol=1e-2 if n_steps < 10 else 1e-6)
        growth, before = float(np.linalg.norm(x)), growth
        x /= growth
    return float(np.sqrt(max(growth, 1.0)))


def is_rounding(residual: float, sizes: Array, norm: float) -> bool:
    """Return whether a relative residual is what rounding leaves of terms of these sizes."""
    return bool(residual <= TUNING.rounding * np.sum(sizes) / norm)


def is_diverging(tensor: Contractible, refined: Refined, residual: float) -> bool:
    """Return whether terms grow without bound, towards a tensor that has no decomposition of their rank.

    On the way there, terms of size s that cancel each other leave a residual that
    falls only like 1/s. Large terms of an exact, ill-conditioned decomposition
    leave rounding.
    """
    sizes = np.linalg.norm(refined.vectors, axis=1) ** tensor.order
    units, norm = unit_rows(refined.vectors), tensor.norm()
    largest = float(sizes.max()) / norm
    if not np.isfinite(largest) or (largest > 50 and residual * largest > 1e-4):
        return True
    # Terms this large have more rounding than the residual of an exact decomposition: a smaller one is luck.
    if largest * np.finfo(float).eps > TUNING.exact_residual:
        return True
    if residual <= TUNING.rounding or not is_cancelling(sizes, units, refined.signs, tensor.order):
        return False
    # Near a double point the residual falls like 1/s^2. To first order, terms there may be off by 0.7 times
    # their size, however near they come; exact terms have been polished, and are off by much less.
    if (
        residual < TUNING.nearly_exact
        and cluster_error(sizes, units, tensor.order, residual, norm) >= TUNING.undetermined
    ):
        return True
    if largest > 50 and residual > TUNING.exact_residual:
        return True
    # On the way there: two large terms, nearly the same, of opposite sign. The gradient is then about
    # residual^2 / size, however small; a gradient much below that is the gradient near a minimum.
    slowest = float(np.clip(0.1 * residual**2 / max(largest, 1.0), 1e-12, 1e-9))
    still_moving = refined.gradient_norm > slowest and refined.n_iter >= 20
    return still_moving and residual > TUNING.exact_residual and largest > 5
