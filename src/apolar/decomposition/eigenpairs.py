"""Eigenvectors of symmetric tensors, all of them, along paths from those of x_1^d + ... + x_m^d."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, frozen, unit_rows
from apolar._core.checks import random_generator
from apolar.decomposition.paths import follow_paths, solve_each
from apolar.decomposition.pencil import rotate_to_real
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, as_tensor
from apolar.tensor.monomials import monomial_values, multinomials, product_positions


@dataclass(frozen=True, eq=False, repr=False)
class Eigenvectors:
    """Eigenvectors x of a symmetric tensor, T(x, ..., x, .) = c x, as points of projective space.

    Attributes
    ----------
    values : ndarray, shape (n,)
        The c at `vectors` as they are: a vector times s has s^(d - 2) times the value.
    vectors : ndarray, shape (n, dim)
        Of unit norm; real ones first, largest value in modulus first. Those that are real up to a phase have
        no imaginary part, and for odd orders a value that is not negative.
    multiplicities : ndarray of int, shape (n,)
        How many paths end there: one for a simple eigenvector.
    expected : int
        The number of eigenvectors of a generic tensor, ((d - 1)^m - 1) / (d - 2) [cartwright2013]. The
        multiplicities add up to it where all eigenvectors are isolated.
    """

    values: Array
    vectors: Array
    multiplicities: Array
    expected: int

    @property
    def is_real(self) -> Array:
        """Which of them are real, shape (n,)."""
        return np.asarray(np.all(np.imag(self.vectors) == 0, axis=1))

    @property
    def is_complete(self) -> bool:
        """Whether all are simple, and as many as expected."""
        return len(self.values) == self.expected

    def __repr__(self) -> str:
        return (
            f"Eigenvectors({len(self.values)} of {self.expected}, {np.count_nonzero(self.is_real)} real, "
            f"dim={self.vectors.shape[1]})"
        )


def eigenvectors(tensor: Any, *, random_state: Any = None) -> Eigenvectors:
    """Return all eigenvectors of a symmetric tensor, real and complex.

    The real ones are the stationary points of the form on the sphere: the largest value in modulus is that of
    the best approximation by one term. All are followed from those of x_1^d + ... + x_m^d, which are as many
    as those of a generic tensor.

    Parameters
    ----------
    tensor : SymmetricTensor
        Or what makes one, as for `decompose`. Of order at least 3.
    random_state : int, Generator or None, default=None
        Of the paths.

    Returns
    -------
    found : Eigenvectors

    Raises
    ------
    ValueError
        If there are infinitely many eigenvectors, or too many to be found.

    Examples
    --------
    >>> import apolar
    >>> E = apolar.eigenvectors("x^3 + y^3 + z^3 + x*y*z", random_state=0)
    >>> E
    Eigenvectors(7 of 7, 7 real, dim=3)
    >>> best = apolar.decompose("x^3 + y^3 + z^3 + x*y*z", rank=1, random_state=0)
    >>> bool(abs(abs(E.values[0]) - best.weights[0]) < 1e-9)
    True
    """
    given = as_tensor(tensor).real_if_close(1e-15)
    order, dim = given.order, given.dim
    if order < 3 or dim < 2 or not np.any(given.coefficients):
        raise ValueError(
            "eigenvectors takes forms of order 3 or more, not zero, in two variables or more: those of a "
            "quadratic form are the eigenvectors of its matrix, numpy.linalg.eigh(T.to_dense())."
        )
    expected = ((order - 1) ** dim - 1) // (order - 2)
    if expected > TUNING.max_paths:
        raise ValueError(
            f"A form of degree {order} in {dim} variables has {expected} eigenvectors: more than "
            f"{TUNING.max_paths} are not computed. Use decompose(T, 1) for the best of them."
        )
    rng, norm = random_generator(random_state), given.norm()
    for _ in range(TUNING.few_starts):
        equations = _Equations(SymmetricTensor(order, dim, given.coefficients / norm), rng)
        ends, arrived = follow_paths(equations, equations.starts())
        # Paths that come near to each other on the way are lost, and others are not.
        if arrived.all():
            break
    vectors, values, is_regular = _at_the_end(equations, ends)
    is_simple = arrived & is_regular
    found, multiplicities = [], []
    left = np.arange(len(vectors))
    while len(left):
        # Multiple ones have fewer digits.
        near = TUNING.same_point if is_simple[left[0]] else TUNING.promising
        same = np.abs(vectors[left] @ vectors[left[0]].conj()) > 1 - near
        found.append(left[0])
        multiplicities.append(int(np.count_nonzero(same)))
        left = left[~same]
    # Isolated ones are simple, or met by several paths.
    if any(not is_simple[i] and n == 1 for i, n in zip(found, multiplicities, strict=True)):
        raise ValueError("The tensor has infinitely many eigenvectors, or multiple ones that are not found.")
    is_real = np.array([not np.any(vectors[i].imag) for i in found])
    rank = np.lexsort((-np.abs(values[found]).round(9), ~is_real))
    chosen = np.array(found)[rank]
    kept = vectors[chosen] if not is_real.all() else vectors[chosen].real
    scaled = values[chosen] * norm
    if is_real.all() and not given.is_complex:
        scaled = scaled.real
    if order % 2:
        signs = np.where((scaled.real < 0) & is_real[rank], -1.0, 1.0)
        kept, scaled = kept * signs[:, None], scaled * signs
    return Eigenvectors(
        frozen(scaled),
        frozen(kept),
        frozen(np.array(multiplicities)[rank]),
        expected,
    )


class _Equations:
    """T_t(x, ..., x, .) = c x and p . x = 1, with the unknowns x and c.

    T_t goes from a multiple of x_1^d + ... + x_m^d to the tensor.
    """

    def __init__(self, tensor: SymmetricTensor, rng: np.random.Generator) -> None:
        self.order, self.dim = order, dim = tensor.order, tensor.dim
        one_more = product_positions(dim, order - 1, 1)
        self.slices = tensor.coefficients[one_more] * multinomials(dim, order - 1)[:, None]
        matrices = tensor.coefficients[one_more[product_positions(dim, order - 2, 1)]]
        self.matrices = (matrices * multinomials(dim, order - 2)[:, None, None]).reshape(len(matrices), -1)
        # A phase at which no solutions meet on the way, almost surely.
        self.start = np.exp(2j * np.pi * rng.random())
        self.patch = unit_rows(rng.standard_normal((1, 2 * dim)))[0].view(np.complex128)

    def starts(self) -> Array:
        """Return the solutions at parameter zero: coordinates are 0 or roots of unity, and the first is 1."""
        roots = np.exp(2j * np.pi * np.arange(self.order - 2) / (self.order - 2))
        rows = np.array(
            [
                [0] * first + [1, *rest]
                for first in range(self.dim)
                for rest in itertools.product((0, *roots), repeat=self.dim - first - 1)
            ]
        )
        scales = 1 / (rows @ self.patch)
        return np.column_stack([rows * scales[:, None], self.start * scales ** (self.order - 2)])

    def __call__(self, points: Array, t: Array, patch: Array | None = None) -> tuple[Array, Array, Array]:
        """Return values, Jacobians and derivatives by the parameter."""
        x, c, dim = points[:, :-1], points[:, -1:], self.dim
        patch = np.broadcast_to(self.patch, x.shape) if patch is None else patch
        target = monomial_values(x, self.order - 1) @ self.slices
        simple = self.start * x ** (self.order - 1)
        s = t[:, None]
        values = np.column_stack([(1 - s) * simple + s * target - c * x, np.einsum("ij,ij->i", patch, x) - 1])
        jacobian = np.zeros((len(x), dim + 1, dim + 1), dtype=np.complex128)
        moved = monomial_values(x, self.order - 2) @ self.matrices
        jacobian[:, :dim, :dim] = (self.order - 1) * s[:, :, None] * moved.reshape(-1, dim, dim)
        axis = np.arange(dim)
        simple_slope = (self.order - 1) * self.start * x ** (self.order - 2)
        jacobian[:, axis, axis] += (1 - s) * simple_slope - c
        jacobian[:, :dim, dim], jacobian[:, dim, :dim] = -x, patch
        return values, jacobian, np.column_stack([target - simple, np.zeros(len(x))])


def _at_the_end(equations: _Equations, ends: Array) -> tuple[Array, Array, Array]:
    """Return unit eigenvectors at the ends of paths, refined, their values, and which are simple."""
    vectors = unit_rows(ends[:, :-1])
    norms = np.linalg.norm(ends[:, :-1], axis=1)
    values = ends[:, -1] / norms ** (equations.order - 2)
    turned = rotate_to_real(vectors)
    phases = np.einsum("ij,ij->i", vectors.conj(), turned)
    values = values * phases ** (equations.order - 2)
    one = np.ones(len(ends))
    for _ in range(TUNING.last_steps):
        points = np.column_stack([turned, values])
        residuals, jacobian, _ = equations(points, one, turned.conj())
        points = points - solve_each(jacobian, residuals)
        is_real = np.abs(points[:, :-1].imag).max(axis=1) < TUNING.exact_residual
        points[is_real, :-1] = points[is_real, :-1].real
        turned, values = unit_rows(points[:, :-1]), points[:, -1]
    least = np.linalg.svd(jacobian, compute_uv=False)[:, -1]
    return turned, values, least > TUNING.nearly_exact
