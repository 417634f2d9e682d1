"""Newton and Kantorovich: terms of tensors near a sum of powers, and how far other terms of the sum are.

The unknowns are displacements of the points, at fixed weights: any term near w (v . x)^d is w (v' . x)^d.
With F(h) = sum_i w_i ((v_i + h_i) . x)^d, its derivative J at zero, and L a bound of its second derivative:

- if J has a right inverse B, then y -> y - (F(B y) - T) maps a small ball to itself, and has a fixed point
  there (Brouwer): exact terms of T. Where the unknowns are fewer than the coefficients, the equations are
  projected to as many, Q^* F = Q^* T with Q a basis of the columns of J;
- if J has a left inverse, then |J h| <= L |h|^2 / 2 keeps other terms with the same sum at a distance.
"""

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, binary_exponents
from apolar.decomposition.proofs.rounding import (
    distance_from_identity,
    gamma,
    norm_above,
    norm_below,
    operator_norm_above,
    stretch_above,
)
from apolar.decomposition.terms import power_jacobian
from apolar.decomposition.tuning import TUNING
from apolar.tensor import n_monomials

# What a few operations may round, relative to the result.
SLACK = 1e-13


@dataclass(frozen=True)
class Displacement:
    """Bounds of how far terms move.

    Attributes
    ----------
    radius : float
        Of a point, relative to its length.
    change : float
        Of the sum of the terms.
    """

    radius: float
    change: float


@dataclass(frozen=True)
class Linearisation:
    """Terms to first order, and bounds of what is left.

    Attributes
    ----------
    rank, dim, order : int
    weights : ndarray, shape (rank,)
    sizes, lower_sizes : ndarray, shape (rank,)
        Upper and lower bounds of ``|v_i|``.
    scales : ndarray, shape (rank,)
        Powers of two: the unknowns are h_i divided by them.
    basis : ndarray, shape (n_monomials, rank * dim), or None
        The columns of Q; None where the equations are not projected.
    stretch : float
        At least ``|Q|``.
    norm : float
        At least ``|J|``.
    inverse : ndarray, shape (rank * dim, n_equations)
        B, approximately a right inverse of Q^* J.
    inverse_norm : float
        At least its norm.
    defect : float
        At least ``|Q^* J B - I|``.
    """

    rank: int
    dim: int
    order: int
    weights: Array
    sizes: Array
    lower_sizes: Array
    scales: Array
    basis: Array | None
    stretch: float
    norm: float
    inverse: Array
    inverse_norm: float
    defect: float

    @classmethod
    def of(cls, weights: Array, points: Array, order: int) -> "Linearisation | None":
        """Return the linearisation at some terms, or None where J is not of full rank, or is too large."""
        rank, dim = points.shape
        n_equations, n_unknowns = n_monomials(dim, order), rank * dim
        if n_equations * n_unknowns * min(n_equations, n_unknowns) > TUNING.proof_work:
            return None
        sizes = np.array([norm_above(point) for point in points])
        scales = 2.0 ** -binary_exponents((np.abs(weights) * sizes ** (order - 1))[:, None])[:, 0]
        jacobian = power_jacobian(points, weights * scales, order).reshape(n_equations, n_unknowns)
        entry_error = gamma(4 * order + 12, jacobian)
        basis = np.linalg.qr(jacobian)[0] if n_unknowns < n_equations else None
        square = jacobian if basis is None else basis.conj().T @ jacobian
        if not np.all(np.isfinite(square)):
            return None
        try:
            inverse = np.linalg.pinv(square)
        except np.linalg.LinAlgError:
            return None
        defect = distance_from_identity(square, inverse, entry_error)
        stretch = 1.0
        if basis is not None:
            stretch = stretch_above(basis.conj().T)
            sizes_of_sums = np.abs(basis.T) @ (np.abs(jacobian) @ np.abs(inverse))
            defect += 1.01 * (gamma(n_equations + 2, jacobian) + entry_error) * norm_above(sizes_of_sums)
        if not defect < 0.5:
            return None
        return cls(
            rank,
            dim,
            order,
            weights,
            sizes,
            np.array([norm_below(point) for point in points]),
            scales,
            basis,
            stretch,
            operator_norm_above(jacobian) * (1 + SLACK),
            inverse,
            operator_norm_above(inverse),
            defect,
        )

    def _curvature(self, radius: float) -> float:
        """Return a bound of the second derivative where points move by at most a radius."""
        bounds = np.abs(self.weights) * self.scales**2 * (self.sizes * (1 + radius)) ** (self.order - 2)
        return float(bounds.max()) * self.order * (self.order - 1) * (1 + SLACK * self.order)

    def displacement(self, distance: float) -> Displacement | None:
        """Return how far terms move that solve the equations, as projected, for tensors within a distance.

        Parameters
        ----------
        distance : float
            Of the tensors from the sum of the terms.

        Returns
        -------
        displacement : Displacement or None
            None where it is too far for a proof.
        """
        target = self.stretch * distance * (1 + SLACK)
        blocks = self.inverse.reshape(self.rank, self.dim, -1)
        reaches = np.array([operator_norm_above(block) for block in blocks]) * self.scales / self.lower_sizes
        # The ball of solutions is as small as the remainder allows.
        for factor in (1.001, 1.1, 2.0):
            ball = factor * target / (1 - self.defect) * (1 + SLACK)
            radius = float(reaches.max()) * ball * (1 + SLACK)
            if not radius < 1:
                return None
            step = self.inverse_norm * ball
            remainder = 0.5 * self._curvature(radius) * step**2
            if (target + self.defect * ball + self.stretch * remainder) * (1 + SLACK) <= ball:
                return Displacement(radius, (self.norm * step + remainder) * (1 + SLACK))
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
        least = (1 - self.defect) / (self.inverse_norm * self.stretch) * (1 - SLACK)
        total = norm_above(self.sizes / self.scales)
        for radius in 4 * 0.8 ** np.arange(160):
            if radius * total * self._curvature(radius) * (1 + SLACK) < 2 * least:
                return float(radius)
        return None
