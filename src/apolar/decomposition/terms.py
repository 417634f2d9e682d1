"""Terms sum_i s_i (a_i . x)^d: their canonical form, residual, derivatives and condition."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse.csgraph import connected_components

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import monomial_values, multinomials, power_derivatives, sum_of_powers


class Contractible(Protocol):
    """What refinement needs of a tensor: it may be implicit, such as a mean over rows of data."""

    @property
    def order(self) -> int:
        """The order d."""
        ...

    @property
    def dim(self) -> int:
        """The number of variables."""
        ...

    def norm(self) -> float:
        """Return the apolar norm."""
        ...

    def contract_all(self, points: Array, left: int) -> Array:
        """Return T(v, ..., v, .) with `left` slots open, in compact form, for many points."""
        ...


def check_same_space(order: int, dim: int, tensor: Contractible) -> None:
    """Refuse terms of another order or dimension than those of a tensor."""
    if (tensor.order, tensor.dim) != (order, dim):
        raise ValueError(
            f"The terms are of order {order} in {dim} variables; the tensor is of order {tensor.order} in "
            f"{tensor.dim}."
        )


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms sum_i s_i (a_i . x)^d, where they come from and how good they are.

    Attributes
    ----------
    vectors : ndarray, shape (rank, dim)
        The a_i.
    signs : ndarray, shape (rank,)
    method : str
        Which start they come from: "pencil", "spm", "random", ...
    residual : float
        |T - W| / |T|.
    gradient_size : float
        Of the cost, relative to |T|, in steps relative to the terms.
    converged : bool
    n_iter : int
    history : tuple of float
        The residual after each iteration.
    is_diverging : bool
        Whether they grow without bound, towards a tensor that has no decomposition of their rank.
    rank_bounds : tuple of int or None
        What is known about the tensor's own rank, if it was searched for.
    is_settled : bool
        Whether that search came to an end.
    """

    vectors: Array
    signs: Array
    method: str = "given"
    residual: float = float("nan")
    gradient_size: float = float("nan")
    converged: bool = False
    n_iter: int = 0
    history: tuple[float, ...] = ()
    is_diverging: bool = False
    rank_bounds: tuple[int, int] | None = None
    is_settled: bool = True

    @property
    def rank(self) -> int:
        """The number of terms."""
        return len(self.vectors)

    @property
    def is_complex(self) -> bool:
        """Whether the vectors are complex."""
        return bool(np.iscomplexobj(self.vectors))

    def sizes(self, order: int) -> Array:
        """Return the norms of the terms, shape (rank,)."""
        return np.asarray(np.linalg.norm(self.vectors, axis=1) ** order)

    @property
    def is_exact(self) -> bool:
        """Whether the terms are the tensor's own, so that a search ends with them."""
        return self.residual <= TUNING.exact_residual and not self.is_diverging


def canonical_terms(vectors: Array, signs: Array, order: int) -> tuple[Array, Array]:
    """Return weights and unit points of sum_i s_i (a_i . x)^d, in the canonical form and order.

    Parameters
    ----------
    vectors : ndarray, shape (rank, dim)
    signs : ndarray, shape (rank,)
        +1 or -1.
    order : int

    Returns
    -------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    """
    norms = np.linalg.norm(vectors, axis=1)
    points = unit_rows(vectors)
    weights = norms**order
    is_complex = np.iscomplexobj(vectors)
    if order % 2 and not is_complex:
        points = points * signs[:, None]
    else:
        largest = points[np.arange(len(points)), np.argmax(np.abs(points).round(9), axis=1)]
    if is_complex:
        # A point is defined up to d-th roots of unity (of -1, where a sign is absorbed): the largest entry is
        # turned towards the positive axis.
        phases = np.where(signs < 0, np.exp(1j * np.pi / order), 1)
        turns = np.round(np.angle(phases * largest) * order / (2 * np.pi))
        points = points * (phases * np.exp(-2j * np.pi * turns / order))[:, None]
    elif order % 2 == 0:
        points = points * np.where(largest < 0, -1.0, 1.0)[:, None]
        weights = weights * signs
    scale = np.abs(weights).max() if len(weights) else 1.0
    # The last key is the first to sort by.
    coordinates = np.concatenate([points.real, points.imag], axis=1) if is_complex else points
    keys = [coordinates.T[::-1], np.abs(weights / (scale or 1.0))[None]]
    by_weight = np.lexsort(-np.concatenate(keys).round(9))
    return weights[by_weight], points[by_weight]


def absorb_weights(weights: Array, points: Array, order: int) -> tuple[Array, Array]:
    """Return vectors a_i and signs s_i with s_i (a_i . x)^d = w_i (xi_i . x)^d.

    Signs are -1 only for real terms of even order with negative weight.
    """
    if np.iscomplexobj(weights) or np.iscomplexobj(points):
        roots: Any = np.asarray(weights, dtype=np.complex128) ** (1 / order)
        return points * roots[:, None], np.ones(len(weights))
    roots = np.abs(weights) ** (1 / order)
    signs = np.where(weights < 0, -1.0, 1.0)
    if order % 2:
        return points * (signs * roots)[:, None], np.ones(len(weights))
    return points * roots[:, None], signs


def relative_residual(tensor: SymmetricTensor, weights: Array, points: Array) -> float:
    """Return |T - W| / |T| of a tensor of moderate size, from the coefficients: as accurate as rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        rest = sum_of_powers(weights, points, tensor.order) - tensor.coefficients
        residual = float(np.sqrt(tensor.multinomials @ np.abs(rest) ** 2)) / tensor.norm()
    # Terms may be so large that their sum overflows.
    return residual if np.isfinite(residual) else float("inf")


def power_jacobian(vectors: Array, signs: Array, order: int) -> Array:
    """Return the Jacobian of sum_i s_i (a_i . x)^d, in weighted compact coordinates.

    Parameters
    ----------
    vectors : ndarray, shape (rank, dim)
    signs : ndarray, shape (rank,)
    order : int

    Returns
    -------
    jacobian : ndarray, shape (n_monomials(dim, order), rank, dim)
    """
    dim = vectors.shape[1]
    lower = signs[:, None] * monomial_values(vectors, order - 1)
    derivatives = power_derivatives(lower, dim, order) * np.sqrt(multinomials(dim, order))
    return derivatives.transpose(2, 0, 1)


class TangentGram:
    """J^* J for F(a) = sum_i s_i (a_i . x)^d, at one set of vectors.

    With g_ij = a_i^* a_j and x_i the direction at a_i,
    (J^* J x)_i = d s_i sum_j s_j [ g_ij^(d-1) x_j + (d-1) g_ij^(d-2) (a_i^* x_j) a_j ]:
    O(rank^2 dim) for each product.

    Parameters
    ----------
    vectors : ndarray, shape (rank, dim)
    signs : ndarray, shape (rank,)
    order : int
        At least 2.
    """

    def __init__(self, vectors: Array, signs: Array, order: int) -> None:
        self.vectors = vectors
        self.order = order
        self.conjugate = vectors.conj()
        self.inner = self.conjugate @ vectors.T
        outer = signs[:, None] * signs
        lower = outer * self.inner ** (order - 2)
        self.first = order * (lower * self.inner)
        self.second = order * (order - 1) * lower
        self.scales = np.maximum(np.diag(self.first).real, np.finfo(float).tiny)

    def product(self, x: Array) -> Array:
        """Return J^* J x, shape (rank, dim)."""
        cross = self.conjugate @ x.T
        return self.first @ x + (self.second * cross) @ self.vectors

    def matrix(self) -> Array:
        """Return J^* J itself, shape (rank, dim, rank, dim), for problems small enough to factorise it."""
        axis = np.arange(self.vectors.shape[1])
        left = self.second[:, None, :] * self.vectors.T
        blocks = left[:, :, :, None] * self.conjugate[:, None, None, :]
        blocks[:, axis, :, axis] += self.first
        return np.asarray(blocks)

    def solve(self, b: Array, damping: float, rtol: float, max_iter: int, free: Array | float = 1.0) -> Array:
        """Solve (J^* J + damping * diag(scales)) x = b by conjugate gradients.

        The first part of the operator acts on the rank index alone, and times
        the order it bounds the operator from above: its inverse, a matrix
        of rank rows, is the preconditioner.

        Parameters
        ----------
        b : ndarray, shape (rank, dim)
        damping : float
        rtol : float
            Relative accuracy.
        max_iter : int
        free : ndarray of bool, shape (rank, dim), optional
            The unknowns; the others are zero, in b too, and have no equations.

        Returns
        -------
        x : ndarray, shape (rank, dim)
        """
        shift = damping * self.scales[:, None]
        # Powers of vectors that coincide are singular: a small ridge is enough for a preconditioner.
        ridge = shift[:, 0] + np.sqrt(np.finfo(float).eps) * self.scales
        inverse = np.linalg.inv(self.first + np.diag(ridge))
        x, left, direction, before = np.zeros_like(b), b, np.zeros_like(b), 1.0
        target = rtol * np.linalg.norm(b)
        for _ in range(max_iter):
            if np.linalg.norm(left) <= target:
                break
            ahead = free * (inverse @ left)
            slope = float(np.vdot(left, ahead).real)
            direction = ahead + slope / before * direction
            image = free * (self.product(direction) + shift * direction)
            curvature = float(np.vdot(direction, image).real)
            if not curvature > 0:  # rounding, or a vector of zeros
                break
            x, left, before = x + slope / curvature * direction, left - slope / curvature * image, slope
        return x


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
    if n_monomials(dim, order) * (rank * dim) ** 2 > TUNING.rank_work:
        condition = condition_estimate(units, order, rtol=1e-3)
        # An estimate from the square of the matrix has half of the digits.
        return float("inf") if condition >= 1e7 else condition
    along = np.einsum("ip,iq->ipq", units, units.conj())
    # d a^(d-1) x has norm d along a, and sqrt(d) across.
    scaling = along / order + (np.eye(dim) - along) / np.sqrt(order)
    jacobian = power_jacobian(units, np.ones(rank), order)
    terracini = np.einsum("sip,ipq->siq", jacobian, scaling, optimize=True).reshape(len(jacobian), -1)
    least = np.linalg.svd(terracini, compute_uv=False)[-1]
    return float("inf") if least <= TUNING.rounding else max(1.0, 1 / float(least))


def condition_estimate(vectors: Array, order: int, rtol: float) -> float:
    """Return an estimate of the condition number from below, by inverse iteration, matrix-free.

    It ends when a step changes it by less than `rtol`: by a tenth, it is mostly within a factor of two.
    """
    units = unit_rows(vectors)
    gram = TangentGram(units, np.ones(len(units)), order)

    def scale(x: Array) -> Array:
        """Return x with its part along each unit vector times d, and the part across times sqrt(d)."""
        along = np.einsum("ij,ij->i", gram.conjugate, x)[:, None] * units
        return along * order + (x - along) * np.sqrt(order)

    x = np.random.default_rng(0).standard_normal(vectors.shape).astype(vectors.dtype)
    growth, before = 1.0, 0.0
    for _ in range(100):
        if abs(growth - before) <= rtol * growth:
            break
        # A solution with the Gram matrix of Terracini's matrix.
        x = scale(gram.solve(scale(x / np.linalg.norm(x)), damping=1e-14, rtol=0.1 * rtol, max_iter=1000))
        growth, before = float(np.linalg.norm(x)), growth
    return float(np.sqrt(max(growth, 1.0)))


def cluster_error(
    weights: Array, points: Array, order: int, residual: float, norm: float
) -> tuple[float, float, int]:
    """Return by how much terms whose points are close together may be off, relative to their size.

    To first order and at worst: the condition number times what is not known
    about the tensor, which is its residual and at least the rounding of the terms.
    Where terms belong to a continuous family the condition number is infinite whether points are close or
    not: it is then that of the points of each cluster alone, or of the closest pair if these are a family.

    Parameters
    ----------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    order : int
        Below 3, two terms are not determined by their sum, and no points count as close.
    residual : float
        Relative to the norm.
    norm : float
        Of the tensor.

    Returns
    -------
    error : float
        0 where no two points are close.
    condition : float
        1 where no two points are close.
    n_close : int
        The number of points that are close to another.
    """
    units = unit_rows(points)
    cosines = np.abs(np.triu(units.conj() @ units.T, 1))
    pairs = cosines**order > TUNING.parallel_cosine
    if order < 3 or not pairs.any():
        return 0.0, 1.0, 0
    close = np.unique(np.argwhere(pairs))
    condition = condition_number(units, order)
    if np.isinf(condition):
        closest = np.unravel_index(np.argmax(cosines), cosines.shape)
        condition = condition_number(units[list(closest)], order)
        cluster_of = connected_components(pairs, directed=False)[1]
        clusters = [units[cluster_of == k] for k in np.unique(cluster_of[close])]
        for points in clusters:
            span = int(np.linalg.matrix_rank(points, rtol=TUNING.exact_residual))
            if len(points) > 2 and len(points) * span <= n_monomials(span, order):
                condition = max(condition, condition_number(points, order))
    least = float(np.abs(weights[close]).min())
    error = condition * unknown_size(weights, residual, norm) / least if least > 0 else float("inf")
    return error, condition, len(close)


def unknown_size(weights: Array, residual: float, norm: float) -> float:
    """Return the size of what is not known about a tensor: residual, at least the rounding of the terms."""
    return max(residual * norm, float(np.finfo(float).eps * np.abs(weights).sum()))


def is_determined(terms: Terms, order: int, norm: float) -> bool:
    """Return whether a tensor of that norm determines its exact terms to a small share of their sizes."""
    sizes = terms.sizes(order)
    # Any term will do where the smallest is no larger than what is not known about the tensor.
    lost = unknown_size(sizes, terms.residual, norm) / sizes.min(initial=np.inf)
    error = cluster_error(sizes, terms.vectors, order, terms.residual, norm)[0]
    return bool(max(lost, error) < TUNING.undetermined)


def is_rounding(terms: Terms, order: int, norm: float) -> bool:
    """Return whether the residual of terms is what rounding leaves of terms of their sizes."""
    return bool(terms.residual <= TUNING.rounding * terms.sizes(order).sum() / norm)


def is_diverging(terms: Terms, order: int, norm: float) -> bool:
    """Return whether terms grow without bound, towards a tensor that has no decomposition of their rank.

    On the way there, terms of size s that cancel each other leave a residual that
    falls only like 1/s. Large terms of an exact, ill-conditioned decomposition
    leave rounding.

    Parameters
    ----------
    terms : Terms
        With their residual.
    order : int
    norm : float
        Of the tensor.
    """
    sizes, residual = terms.sizes(order), terms.residual
    largest = float(sizes.max()) / norm
    # Terms this large have more rounding than the residual of an exact decomposition: a smaller one is luck.
    if not largest * np.finfo(float).eps <= TUNING.exact_residual:
        return True
    if residual <= TUNING.rounding:
        return False
    units, weights = unit_rows(terms.vectors), terms.signs * sizes
    close = np.abs(units.conj() @ units.T) ** order > TUNING.parallel_cosine
    inner = ((units.conj() @ units.T) ** order).real
    # Of each term and those close to it: the square of the norm of their sum, and of the sum of their norms.
    squares = np.einsum("ij,ij->i", close @ (weights[:, None] * inner * weights), close)
    if not np.any(4 * squares < (close @ sizes) ** 2):
        return False
    # Near a double point the residual falls like 1/s^2. To first order, terms there may be off by 0.7 times
    # their size, however near they come; exact terms have been polished, and are off by much less.
    if residual < TUNING.nearly_exact:
        return cluster_error(sizes, units, order, residual, norm)[0] >= TUNING.undetermined
    # On the way there: two large terms, nearly the same, of opposite sign. The gradient is then about
    # residual^2 / size, however small; a gradient much below that is the gradient near a minimum.
    slowest = float(np.clip(0.1 * residual**2 / max(largest, 1.0), 1e-12, 1e-9))
    return largest > 50 or (largest > 5 and terms.gradient_size > slowest and terms.n_iter >= 20)
