"""Newton and Kantorovich: terms of tensors near a sum of powers, and how far other terms of the sum are.

The unknowns are displacements of the points, at fixed weights: any term near w (v . x)^d is w (v' . x)^d.
With F(h) = sum_i w_i ((v_i + h_i) . x)^d, its derivative J at zero, and L a bound of its second derivative:

- if J has a right inverse B, then y -> y - (F(B y) - T) maps a small ball to itself, and has a fixed point
  there (Brouwer): exact terms of T. Where the unknowns are fewer than the coefficients, the equations are
  projected to the same number, Q^* F = Q^* T with Q a basis of the columns of J;
- if J has a left inverse, then |J h| <= L |h|^2 / 2 keeps other terms with the same sum at a distance.

B and Q are computed in floating point. What they are is then known in balls, whose radii hold all rounding: a
comparison of balls is true only if it is true of all numbers in them.

**All sums of n powers near a tensor have terms near the n found.** Where terms have fewer coordinates
than the tensor has coefficients, few tensors nearby are sums of n powers. Such sums have flattenings
of low rank, and the other way round, if the differential of the flattening on its kernels has its largest
rank [iarrobino1999, landsberg2013]. In numbers: split the flattening, in nearly orthonormal bases of its
singular vectors, in blocks A, of the size of its rank, B, C, and D on the kernels. If it has that rank then
D = C A^-1 B. Let T' be a tensor nearby with a flattening of that rank, and T'' the sum of the terms that
Newton's method finds for the projection Q^* T'. Both satisfy the equation, so that X = T' - T'' has Q^* X =
0 and |D(X)| <= (|B| + |C| + |B| |C| / a) / a |X|, a the least singular value of A nearby. If the least
singular value of X -> (Q^* X, D(X)) is larger than the factor, then X = 0: these are terms of T'.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.exact.arithmetic import (
    ball_product,
    distance_from_identity,
    flint,
    in_floats,
    largest,
    midpoints,
    nearly_diagonal,
    norm,
    operator_norm,
    singular_values_below,
    stretch_of,
    to_balls,
    upper_end,
    weighting_roots,
)
from apolar.decomposition.proofs.flattenings import Flattening
from apolar.decomposition.tuning import TUNING
from apolar.tensor import n_monomials
from apolar.tensor.monomials import monomial_values, power_derivatives

# Equations on the kernels that are used, times the number of coefficients.
ENOUGH_EQUATIONS = 3


@dataclass(frozen=True)
class Displacement:
    """Bounds of how far terms move.

    Attributes
    ----------
    radius : float
        Of a point, relative to its length.
    change : arb
        Of the sum of the terms.
    """

    radius: float
    change: Any


class Linearisation:
    """Terms to first order, and bounds of what is left, as balls.

    Parameters
    ----------
    weights : ndarray of balls, shape (rank,)
    points : ndarray of balls, shape (rank, dim)
    order : int

    Raises
    ------
    numpy.linalg.LinAlgError
        Where J is not of full rank, or is too large.

    Attributes
    ----------
    rank, dim, order : int
    weights : ndarray of arb, shape (rank,)
        Their sizes.
    sizes : ndarray of arb, shape (rank,)
        The lengths ``|v_i|``.
    scales : ndarray of arb, shape (rank,)
        The unknowns are h_i divided by them.
    basis : ndarray, shape (n_monomials, rank * dim), or None
        The columns of Q; None where the equations are not projected.
    stretch : arb
        At least ``|Q|``.
    norm : arb
        At least ``|J|``.
    inverse_norm : arb
        At least the norm of B, approximately a right inverse of Q^* J.
    reach : arb
        At least the norm of what B moves a point by, relative to its length.
    defect : arb
        At least ``|Q^* J B - I|``.
    """

    def __init__(self, weights: Any, points: Any, order: int) -> None:
        self.rank, self.dim = rank, dim = points.shape
        self.order, self.weights = order, np.abs(weights)
        n_equations, n_unknowns = n_monomials(dim, order), rank * dim
        if order == 1 or n_equations * n_unknowns * min(n_equations, n_unknowns) > TUNING.proof_work:
            raise np.linalg.LinAlgError("The terms are too many.")
        self.sizes = np.array([norm(point) for point in points])
        self.scales = midpoints(1 / (self.weights * self.sizes ** (order - 1)))
        lower = (weights * self.scales)[:, None] * monomial_values(points, order - 1)
        derivatives = power_derivatives(lower, dim, order).reshape(n_unknowns, -1)
        jacobian = (derivatives * weighting_roots(dim, order)).T
        self.norm, self.stretch = operator_norm(jacobian), flint.arb(1)
        self.basis: Array | None = None
        if n_unknowns < n_equations:
            self.basis = np.linalg.qr(in_floats(jacobian))[0]
            self.stretch = stretch_of(self.basis.conj().T)
            jacobian = ball_product(self.basis.conj().T, jacobian)
        inverse = np.linalg.pinv(in_floats(jacobian))
        self.defect = distance_from_identity(jacobian, inverse)
        if not self.defect < 0.5:
            raise np.linalg.LinAlgError("The derivatives of the terms are dependent.")
        self.inverse_norm = operator_norm(to_balls(inverse))
        blocks = to_balls(inverse).reshape(rank, dim, -1)
        self.reach = largest(np.array([operator_norm(block) for block in blocks]) * self.scales / self.sizes)

    def _curvature(self, radius: Any) -> Any:
        """Return a bound of the second derivative where points move by at most a radius."""
        bounds = self.weights * self.scales**2 * (self.sizes * (1 + radius)) ** (self.order - 2)
        return largest(bounds) * self.order * (self.order - 1)

    def displacement(self, distance: Any) -> Displacement | None:
        """Return how far terms move that solve the equations, as projected, for tensors within a distance.

        Parameters
        ----------
        distance : arb
            Of the tensors from the sum of the terms.

        Returns
        -------
        displacement : Displacement or None
            None where it is too far for a proof.
        """
        target = (self.stretch * distance).upper()
        # The ball of solutions is as small as the remainder allows.
        for factor in (1.001, 1.1, 2.0):
            ball = factor * target / (1 - self.defect)
            radius = self.reach * ball
            if not radius < 1:
                return None
            step = self.inverse_norm * ball
            remainder = 0.5 * self._curvature(radius) * step**2
            if target + self.defect * ball + self.stretch * remainder <= ball:
                return Displacement(upper_end(radius), self.norm * step + remainder)
        return None

    def isolation(self) -> float | None:
        """Return a radius within which no other terms have the same sum, or None.

        Returns
        -------
        isolation : float or None
            If no point moves by more than this, relative to its length, the sum changes.
        """
        if self.rank * self.dim > n_monomials(self.dim, self.order):
            return None
        least = (1 - self.defect) / (self.inverse_norm * self.stretch)
        total = norm(self.sizes / self.scales)
        for radius in (4 * 0.8 ** np.arange(160)).tolist():
            if radius * total * self._curvature(radius) < 2 * least:
                return radius
        return None


def near_all_sums(
    coefficients: Any,
    linearised: Linearisation,
    flattening: Flattening,
    displacement: Displacement,
    distances: tuple[Any, Any],
) -> bool:
    """Return whether all sums of n powers near a tensor are proved to have terms near the n found.

    Parameters
    ----------
    coefficients : ndarray of balls, shape (n_monomials,)
        Of the tensor.
    linearised : Linearisation
        At the terms found, which have fewer coordinates than the tensor has coefficients.
    flattening : Flattening
        By whose rank such sums are recognised.
    displacement : Displacement
        Of the terms, for tensors within the distances.
    distances : tuple of arb
        Of the tensors nearby, and of the sum of the terms found, from the tensor.

    Returns
    -------
    proved : bool
    """
    rank, shape = linearised.rank * flattening.power_rank, flattening.positions.shape
    # Bases of both sides, and the products with them.
    work = 3 * max(shape) * flattening.positions.size
    if linearised.basis is None or rank >= min(shape) or work > TUNING.proof_work:
        return False
    matrix = flattening.matrix(coefficients)
    left, values, right = np.linalg.svd(in_floats(matrix))
    right = right.conj().T
    # In generic bases of the kernel, some equations are as good as others.
    n_free = right.shape[1] - rank
    right[:, rank:] = (
        right[:, rank:] @ np.linalg.qr(np.random.default_rng(0).standard_normal((n_free, n_free)))[0]
    )
    blocks, stretch = nearly_diagonal(left, matrix, right)
    margin, residual = distances
    moved = stretch * flattening.norm * margin.max(residual + displacement.change)
    least = values[rank - 1] - norm(blocks[:rank, :rank] - np.diag(values[:rank]).astype(object)) - moved
    if not least > 0:
        return False
    sides = norm(blocks[:rank, rank:]).max(norm(blocks[rank:, :rank])) + moved
    factor = stretch * flint.arb(flattening.power_rank).sqrt() * sides * (2 + sides / least) / least
    equations = _equations(linearised, flattening, left[:, rank:], right[:, rank:])
    return equations is not None and bool(factor < singular_values_below(equations)[-1])


def _equations(linearised: Linearisation, flattening: Flattening, left: Array, right: Array) -> Any:
    """Return the matrix of X -> (Q^* X, D(X)) in orthonormal coordinates, None for too large a one."""
    basis = linearised.basis
    assert basis is not None
    size = len(basis)
    # Any equations on the kernels will do: not more of them than it takes.
    right = right[:, : -(-ENOUGH_EQUATIONS * size // left.shape[1])]
    n_equations = left.shape[1] * right.shape[1] + basis.shape[1]
    if n_equations < size or n_equations * size**2 > TUNING.proof_work:
        return None
    weights = flattening.matrix(np.full(size, flint.arb(1)))
    rows, columns = np.nonzero(flattening.signs)
    roots = weighting_roots(linearised.dim, linearised.order)
    blocks = [to_balls(basis.conj().T)]
    for vector in to_balls(right).T:
        # D is linear in the coefficients: a column for each.
        sums = np.full((len(left), size), 0 * vector[0], dtype=object)
        np.add.at(sums, (rows, flattening.positions[rows, columns]), weights[rows, columns] * vector[columns])
        blocks.append(ball_product(left.conj().T, sums) / roots)
    return np.concatenate(blocks)
