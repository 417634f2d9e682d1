"""Terms sum_i s_i (a_i . x)^d: their canonical form, residual, Jacobian and Gram operator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from apolar._core.arrays import Array, binary_exponent, scaled_by_power, unit_rows
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import exponents, monomial_values, multinomials, product_positions


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


@dataclass(frozen=True, eq=False)
class Refined:
    """Where a refinement ended.

    Attributes
    ----------
    vectors : ndarray, shape (rank, dim)
        The a_i of sum_i s_i (a_i . x)^d.
    signs : ndarray, shape (rank,)
    cost : float
        |T - W|^2 / (2 |T|^2).
    gradient_norm : float
        Of the cost, relative to |T|, in steps relative to the terms.
    converged : bool
    n_iter : int
    history : tuple of float
        The relative residual after each iteration.
    """

    vectors: Array
    signs: Array
    cost: float
    gradient_norm: float
    converged: bool
    n_iter: int
    history: tuple[float, ...]

    def then(self, later: Refined) -> Refined:
        """Return where a later refinement ended, with the iterations of both."""
        return replace(later, n_iter=self.n_iter + later.n_iter, history=self.history + later.history)


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
    if np.iscomplexobj(vectors):
        # A point is defined up to d-th roots of unity (of -1, where a sign is absorbed): the largest entry is
        # turned towards the positive axis.
        points = points * np.where(signs < 0, np.exp(1j * np.pi / order), 1)[:, None]
        largest = points[np.arange(len(points)), np.argmax(np.abs(points).round(9), axis=1)]
        turns = np.round(np.angle(largest) * order / (2 * np.pi))
        points = points * np.exp(-2j * np.pi * turns / order)[:, None]
    elif order % 2:
        points = points * signs[:, None]
    else:
        largest = points[np.arange(len(points)), np.argmax(np.abs(points).round(9), axis=1)]
        points = points * np.where(largest < 0, -1.0, 1.0)[:, None]
        weights = weights * signs
    scale = np.abs(weights).max() if len(weights) else 1.0
    keys = [-points[:, j].imag.round(9) for j in range(points.shape[1] - 1, -1, -1)]
    keys += [-points[:, j].real.round(9) for j in range(points.shape[1] - 1, -1, -1)]
    keys.append(-np.abs(weights / (scale or 1.0)).round(9))
    by_weight = np.lexsort(keys)
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
    """Return |T - W| / |T|, from the coefficients, so that it can be as small as rounding."""
    # Scaled by the tensor, whose square may be too large or too small for a number.
    exponent = binary_exponent(tensor.coefficients)
    weights = scaled_by_power(weights, -exponent)
    if not np.all(np.isfinite(points)) or not np.all(np.isfinite(weights)):
        return float("inf")
    scaled = SymmetricTensor(tensor.order, tensor.dim, scaled_by_power(tensor.coefficients, -exponent))
    try:
        difference = scaled - SymmetricTensor.from_waring(weights, points, tensor.order)
    except ValueError:  # terms so large that their sum overflows
        return float("inf")
    return difference.norm() / scaled.norm()


def power_jacobian(vectors: Array, signs: Array, order: int) -> Array:
    """Return the Jacobian of sum_i s_i (a_i . x)^d, in weighted compact coordinates.

    Parameters
    ----------
    vectors : ndarray, shape (rank, dim)
    signs : ndarray, shape (rank,)
    order : int
        At least 2.

    Returns
    -------
    jacobian : ndarray, shape (n_monomials(dim, order), rank, dim)
    """
    dim = vectors.shape[1]
    roots = np.sqrt(multinomials(dim, order))
    lower = (signs[:, None] * monomial_values(vectors, order - 1)).T
    where = product_positions(dim, order - 1, 1)
    powers = exponents(dim, order - 1) + 1
    jacobian = np.zeros((len(roots), *vectors.shape), dtype=vectors.dtype)
    for p in range(dim):
        rows = where[:, p]
        jacobian[rows, :, p] = (roots[rows] * powers[:, p])[:, None] * lower
    return jacobian


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

    def solve(
        self, b: Array, damping: float, rtol: float, max_iter: int, free: Array | None = None
    ) -> tuple[Array, int]:
        """Solve (J^* J + damping * diag(scales)) x = b by conjugate gradients.

        The first part of the operator acts on the rank index alone, and times
        the order it bounds the operator from above: its inverse, a matrix
        of rank rows, is the preconditioner.

        Parameters
        ----------
        b : ndarray, shape (rank, dim)
        damping : float
        rtol : float
            Relative accuracy, in the norm of the preconditioner.
        max_iter : int
        free : ndarray of bool, shape (rank, dim), optional
            The unknowns; the others are zero, in b too, and have no equations.

        Returns
        -------
        x : ndarray, shape (rank, dim)
        n_iter : int
        """
        # Not scipy.sparse.linalg.cg, which takes 1.3 to 1.45 times as long up to rank = dim = 20 (1.05 at 60)
        # and does not stop where rounding makes the curvature negative.
        shift = damping * self.scales
        inverse = self._preconditioner(shift)
        x = np.zeros_like(b)
        residual = b.copy()
        z = inverse @ residual if free is None else free * (inverse @ residual)
        direction = z
        rz = np.vdot(residual, z).real
        target = rtol * rtol * rz
        n_iter = 0
        while n_iter < max_iter and rz > target:
            image = self.product(direction) + shift[:, None] * direction
            if free is not None:
                image *= free
            curvature = np.vdot(direction, image).real
            if curvature <= 0:  # rounding: the operator is positive semidefinite
                break
            step = rz / curvature
            x += step * direction
            residual -= step * image
            z = inverse @ residual if free is None else free * (inverse @ residual)
            rz_new = np.vdot(residual, z).real
            direction = z + (rz_new / rz) * direction
            rz = rz_new
            n_iter += 1
        return x, n_iter

    def _preconditioner(self, shift: Array) -> Array:
        """Return the inverse of the first part, shape (rank, rank): small, and applied often."""
        for ridge in (0.0, 1e-14, 1e-10, 1e-6):
            try:
                np.linalg.cholesky(self.first + np.diag(shift + ridge * self.scales))
            except np.linalg.LinAlgError:
                continue
            return np.linalg.inv(self.first + np.diag(shift + ridge * self.scales))
        return np.diag(1 / (self.scales + shift))

    # --- with the columns of each term made orthonormal (unit vectors only) ----

    def _unnormalised(self, x: Array) -> Array:
        """Return x with its part along a_i times d, and the part across times sqrt(d)."""
        along = np.einsum("ij,ij->i", self.conjugate, x)[:, None] * self.vectors
        return along * self.order + (x - along) * np.sqrt(self.order)

    def normalised_solve(self, flat: Array, rtol: float = 1e-6) -> Array:
        """Return the solution with the Gram matrix of Terracini's matrix."""
        b = self._unnormalised(flat.reshape(self.vectors.shape))
        solution, _ = self.solve(b, damping=1e-14, rtol=rtol, max_iter=1000)
        return self._unnormalised(solution).ravel()
