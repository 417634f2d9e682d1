"""Riemannian Newton refinement with a trust region: weights and unit vectors."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from apolar._core.arrays import Array
from apolar.decomposition.cost import ComplexCost, Cost, RealCost
from apolar.decomposition.gauss_newton import Contractible, Refined
from apolar.decomposition.spheres import (
    ManifoldPoint,
    reduced_gradient,
    reduced_hessian,
    retracted,
    tangent_basis,
)

# The cost is a difference of numbers near |P|^2: below this, relative, it is rounding.
COST_ROUNDING = 1e-14


def newton(
    tensor: Contractible,
    weights: Array,
    points: Array,
    *,
    max_iter: int = 100,
    tol: float = 1e-13,
) -> Refined:
    """Minimise |T - sum_i w_i (v_i . x)^d|^2 over weights and unit vectors.

    Newton's method on the manifold with the exact Hessian and a dogleg in a
    trust region [khouja2022riemannian]. Complex if the points are.

    Parameters
    ----------
    tensor : SymmetricTensor or another Contractible
        Of order at least 2.
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
        Of unit norm.
    max_iter : int
    tol : float
        Stop when the gradient, relative to ``|T|`` and to the terms, is below.

    Returns
    -------
    refined : Refined
    """
    is_complex = np.iscomplexobj(points) or np.iscomplexobj(tensor.contract_all(points[:1], 1))
    cost: Cost = ComplexCost(tensor) if is_complex else RealCost(tensor)
    norm = tensor.norm()
    rank = len(weights)
    point = cost.point(weights, points)
    value = cost.value(point)
    largest_radius = norm / 2
    radius = min(float(np.sqrt(tensor.order / rank * np.sum(point.weights**2))) / 10, largest_radius)
    history: list[float] = []
    basis = tangent_basis(point)
    by_weight, by_unit = cost.gradient(point)
    gradient = reduced_gradient(basis, by_weight, by_unit)
    size = _relative_size(gradient, point, norm)
    while len(history) < max_iter and size > tol:
        hessian = reduced_hessian(point, basis, by_unit, cost.hessian(point))
        downhill = _newton_step(cost, point, basis, by_unit, gradient, hessian)
        while True:
            step = _dogleg(gradient, hessian, downhill, radius)
            predicted = -float(gradient @ step + 0.5 * step @ hessian @ step)
            moved = retracted(point, basis, step)
            moved_value = cost.value(moved)
            moved_basis = tangent_basis(moved)
            moved_by_weight, moved_by_unit = cost.gradient(moved)
            moved_gradient = reduced_gradient(moved_basis, moved_by_weight, moved_by_unit)
            moved_size = _relative_size(moved_gradient, moved, norm)
            actual = value - moved_value
            at_rounding = abs(actual) <= COST_ROUNDING * norm**2 and moved_size < size
            ratio = 1.0 if at_rounding else actual / predicted if predicted > 0 else -1.0
            length = float(np.linalg.norm(step))
            if ratio > 0.6:
                radius = min(max(2 * length, radius), largest_radius)
            else:
                radius = length * min(0.5, max(0.1, 1 / 3 + 2 / 3 * ratio))
            if ratio >= 0.2:
                break
            if length < 1e-15 * norm or predicted < 1e-4 * COST_ROUNDING * norm**2:
                return _finished(cost, point, value, size, tol, history, norm)
        point, value, size = moved, moved_value, moved_size
        basis, by_weight, by_unit, gradient = moved_basis, moved_by_weight, moved_by_unit, moved_gradient
        history.append(float(np.sqrt(max(2 * value, 0.0))) / norm)
    return _finished(cost, point, value, size, tol, history, norm)


def _finished(
    cost: Cost, point: ManifoldPoint, value: float, size: float, tol: float, history: list[float], norm: float
) -> Refined:
    vectors, signs = cost.terms(point)
    converged = size <= max(tol, 1e-9)
    return Refined(vectors, signs, value / norm**2, size, converged, len(history), tuple(history))


def _relative_size(gradient: Array, point: ManifoldPoint, norm: float) -> float:
    """Return the norm of the gradient relative to the tensor.

    Its part by each unit vector is divided by the weight.
    """
    rank = len(point.weights)
    by_unit = gradient[rank:].reshape(rank, -1) / np.maximum(np.abs(point.weights), 1e-300)[:, None]
    return float(np.sqrt(np.sum(gradient[:rank] ** 2) + np.sum(by_unit**2))) / norm


def _newton_step(
    cost: Cost, point: ManifoldPoint, basis: Array, by_unit: Array, gradient: Array, hessian: Array
) -> Array | None:
    """Return Newton's step; Gauss-Newton's where Newton's is no descent; None if neither is one."""
    exact = _solved(hessian, gradient, ridge=0.0)
    if exact is not None:
        return exact
    positive = reduced_hessian(point, basis, np.zeros_like(by_unit), cost.hessian(point, second_order=False))
    return _solved(positive, gradient, ridge=1e-10)


def _solved(matrix: Array, gradient: Array, ridge: float) -> Array | None:
    """Return -matrix^(-1) gradient if the matrix is positive definite."""
    scales = np.abs(np.diag(matrix))
    try:
        factor = cho_factor(matrix + np.diag(ridge * scales), check_finite=False)
    except LinAlgError:
        return None
    step = -cho_solve(factor, gradient, check_finite=False)
    return step if np.all(np.isfinite(step)) and gradient @ step < 0 else None


def _dogleg(gradient: Array, hessian: Array, downhill: Array | None, radius: float) -> Array:
    """Return the dogleg step in a ball: along the gradient, then towards Newton's step."""
    if downhill is not None and np.linalg.norm(downhill) <= radius:
        return downhill
    length = float(np.linalg.norm(gradient))
    curvature = float(gradient @ hessian @ gradient)
    steepest = -gradient * radius / length
    if curvature <= 0:
        return steepest
    cauchy = -gradient * (length**2 / curvature)
    if np.linalg.norm(cauchy) >= radius or downhill is None:
        return steepest if np.linalg.norm(cauchy) >= radius else cauchy
    bend = downhill - cauchy
    a, b, c = float(bend @ bend), float(2 * cauchy @ bend), float(cauchy @ cauchy) - radius**2
    along = (-b + np.sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a)
    return cauchy + along * bend
