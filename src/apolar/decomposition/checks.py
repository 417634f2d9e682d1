"""Numerical checks of the derivatives on which the refinement rests.

Each compares a function with its Taylor model along a random curve, over a
range of step lengths, and returns the order at which the error falls with the
step: 2 if the gradient is right, 3 if the Hessian is, 2 or more for the
retraction.
"""

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar._core.checks import numeric_array, random_generator
from apolar.decomposition.cost import ComplexCost, Cost, RealCost
from apolar.decomposition.gauss_newton import Contractible
from apolar.decomposition.spheres import (
    ManifoldPoint,
    reduced_gradient,
    reduced_hessian,
    retracted,
    tangent_basis,
)


@dataclass(frozen=True, eq=False)
class DerivativeCheck:
    """The result of a check.

    Attributes
    ----------
    slope : float
        The order at which the error falls with the step.
    expected : float
        The least order that a correct derivative gives.
    steps, errors : ndarray
        The points of the fitted line.
    """

    slope: float
    expected: float
    steps: Array
    errors: Array

    @property
    def passed(self) -> bool:
        """Whether the slope is the expected one, or the error is rounding throughout."""
        return self.slope > self.expected - 0.1 or bool(np.all(self.errors < 1e-13))


def _problem(tensor: Contractible, weights: Array, points: Array) -> tuple[Cost, ManifoldPoint]:
    """Return the cost, and the point of the manifold to check it at, after checking what the user passed."""
    weights, points = numeric_array(weights, "weights"), numeric_array(points, "points")
    if tensor.order < 2:
        raise ValueError("The cost of a linear form has nothing to check: the order must be at least 2.")
    if points.ndim != 2 or points.shape[1] != tensor.dim or weights.shape != points.shape[:1]:
        raise ValueError(
            f"weights must have shape (rank,) and points (rank, {tensor.dim}); "
            f"got {weights.shape} and {points.shape}."
        )
    is_complex = np.iscomplexobj(points) or np.iscomplexobj(tensor.contract_all(points[:1], 1))
    cost: Cost = ComplexCost(tensor) if is_complex else RealCost(tensor)
    return cost, cost.point(weights, unit_rows(points))


def _slope(steps: Array, errors: Array) -> float:
    """Return the steepest slope over a decade: rounding flattens one end, higher terms the other."""
    logs = np.log10(np.maximum(errors, 1e-300))
    window = 10
    slopes = [
        np.polyfit(np.log10(steps[i : i + window]), logs[i : i + window], 1)[0]
        for i in range(len(steps) - window + 1)
    ]
    return float(np.median(sorted(slopes)[-len(slopes) // 3 :]))


def check_gradient(
    tensor: Contractible, weights: Array, points: Array, random_state: int | None = 0
) -> DerivativeCheck:
    """Check the Riemannian gradient of the cost at a decomposition.

    Parameters
    ----------
    tensor : SymmetricTensor
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
        Real or complex; they are divided by their norms.
    random_state : int, optional

    Returns
    -------
    check : DerivativeCheck
        Slope 2.
    """
    return _taylor(tensor, weights, points, random_state, second_order=False)


def check_hessian(
    tensor: Contractible, weights: Array, points: Array, random_state: int | None = 0
) -> DerivativeCheck:
    """Check the Riemannian Hessian of the cost at a decomposition.

    Parameters as for `check_gradient`.

    Returns
    -------
    check : DerivativeCheck
        Slope 3: normalising is a retraction of second order.
    """
    return _taylor(tensor, weights, points, random_state, second_order=True)


def _taylor(
    tensor: Contractible, weights: Array, points: Array, random_state: int | None, *, second_order: bool
) -> DerivativeCheck:
    cost, point = _problem(tensor, weights, points)
    basis = tangent_basis(point)
    by_weight, by_unit = cost.gradient(point)
    gradient = reduced_gradient(basis, by_weight, by_unit)
    direction = random_generator(random_state).standard_normal(len(gradient))
    direction /= np.linalg.norm(direction)
    linear = float(gradient @ direction)
    quadratic = 0.0
    if second_order:
        hessian = reduced_hessian(point, basis, by_unit, cost.hessian(point))
        quadratic = 0.5 * float(direction @ hessian @ direction)
    start = cost.value(point)
    steps = np.logspace(-4, -0.5, 36)
    errors = np.array(
        [
            abs(cost.value(retracted(point, basis, t * direction)) - start - t * linear - t * t * quadratic)
            for t in steps
        ]
    )
    scale = cost.half_square + start
    return DerivativeCheck(_slope(steps, errors), 3.0 if second_order else 2.0, steps, errors / scale)


def check_retraction(
    tensor: Contractible, weights: Array, points: Array, random_state: int | None = 0
) -> DerivativeCheck:
    """Check that the retraction stays on the manifold and leaves along the tangent vector.

    Parameters as for `check_gradient`.

    Returns
    -------
    check : DerivativeCheck
        Slope 2 of ``|R(t x) - (p + t x)|``; a step that leaves the spheres counts as an error of one.
    """
    _, point = _problem(tensor, weights, points)
    basis = tangent_basis(point)
    rank = len(point.weights)
    direction = random_generator(random_state).standard_normal(rank + basis.shape[0] * basis.shape[2])
    direction /= np.linalg.norm(direction)
    tangent = np.einsum("ipq,iq->ip", basis, direction[rank:].reshape(rank, -1))
    steps = np.logspace(-4, -0.5, 36)
    errors = []
    for t in steps:
        moved = retracted(point, basis, t * direction)
        left = np.abs(np.linalg.norm(moved.units, axis=1) - 1).max() > 1e-12
        by_weight = np.linalg.norm(moved.weights - point.weights - t * direction[:rank])
        by_unit = np.linalg.norm(moved.units - point.units - t * tangent)
        errors.append(1.0 if left else float(np.hypot(by_weight, by_unit)))
    return DerivativeCheck(_slope(steps, np.array(errors)), 2.0, steps, np.array(errors))
