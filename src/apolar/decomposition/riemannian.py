"""The Riemannian Newton method on weights and unit vectors, and checks of its derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from apolar._core.arrays import Array, unit_rows
from apolar._core.checks import numeric_array, random_generator
from apolar.decomposition.terms import Contractible, Refined, absorb_weights
from apolar.decomposition.tuning import TUNING
from apolar.tensor.monomials import product_positions


@dataclass(frozen=True, eq=False)
class ManifoldPoint:
    """A point of the manifold.

    Attributes
    ----------
    weights : ndarray, shape (rank,)
    units : ndarray, shape (rank, n)
        Of unit norm, real: a complex vector v is held as (Re v, Im v).
    """

    weights: Array
    units: Array


def tangent_basis(point: ManifoldPoint) -> Array:
    """Return an orthonormal basis of each sphere's tangent space, shape (rank, n, n - 1).

    The columns of the Householder reflection that sends the first axis to the
    unit vector, but for the first.
    """
    units = point.units
    mirrors = units.copy()
    mirrors[:, 0] += np.where(units[:, 0] < 0, -1.0, 1.0)
    squares = np.einsum("ij,ij->i", mirrors, mirrors)
    reflections = np.eye(units.shape[1]) - 2 * np.einsum("ip,iq->ipq", mirrors / squares[:, None], mirrors)
    return reflections[:, :, 1:]


def reduced_gradient(basis: Array, weights_part: Array, units_part: Array) -> Array:
    """Return the Riemannian gradient in the basis, shape (rank + rank (n - 1),)."""
    return np.concatenate([weights_part, np.einsum("ipq,ip->iq", basis, units_part).ravel()])


def reduced_hessian(point: ManifoldPoint, basis: Array, units_part: Array, hessian: Array) -> Array:
    """Return the Riemannian Hessian in the basis.

    Parameters
    ----------
    point : ManifoldPoint
    basis : ndarray, shape (rank, n, n - 1)
    units_part : ndarray, shape (rank, n)
        The Euclidean gradient at the unit vectors, for Weingarten's term.
    hessian : ndarray, shape (rank + rank * n, rank + rank * n)
        The Euclidean Hessian.

    Returns
    -------
    hessian : ndarray, shape (rank + rank * (n - 1), rank + rank * (n - 1))
    """
    rank, n = point.units.shape
    ww = hessian[:rank, :rank]
    vw = hessian[rank:, :rank].reshape(rank, n, rank)
    vv = hessian[rank:, rank:].reshape(rank, n, rank, n).copy()
    normal = np.einsum("ij,ij->i", point.units, units_part)
    each = np.arange(rank)
    vv[each, :, each, :] -= normal[:, None, None] * np.eye(n)
    vw_reduced = np.einsum("ipq,ipj->iqj", basis, vw).reshape(-1, rank)
    left = np.matmul(basis.swapaxes(1, 2), vv.reshape(rank, n, rank * n)).reshape(rank, n - 1, rank, n)
    vv_reduced = np.einsum("iqjp,jps->iqjs", left, basis, optimize=True).reshape(rank * (n - 1), -1)
    return np.block([[ww, vw_reduced.T], [vw_reduced, vv_reduced]])


def retract(point: ManifoldPoint, basis: Array, step: Array) -> ManifoldPoint:
    """Return the retraction of a tangent vector: add it, and normalise the vectors."""
    rank = len(point.weights)
    moved = point.units + np.einsum("ipq,iq->ip", basis, step[rank:].reshape(rank, -1))
    return ManifoldPoint(point.weights + step[:rank], unit_rows(moved))


class TermsCost:
    """The cost |T - sum_i w_i (v_i . x)^d|^2 / 2 of real weights and unit vectors [khouja2022riemannian].

    Complex vectors are held as (Re v, Im v), and the cost is real analytic in these coordinates.

    Parameters
    ----------
    tensor : SymmetricTensor or another Contractible
        Of order at least 2.
    is_complex : bool
        Whether the vectors are complex, as they are for a complex tensor.
    """

    def __init__(self, tensor: Contractible, is_complex: bool) -> None:
        self.tensor, self.is_complex = tensor, is_complex
        self.order = tensor.order
        self.half_square = 0.5 * tensor.norm() ** 2

    @classmethod
    def of(cls, tensor: Contractible, points: Array) -> TermsCost:
        """Return the cost in the field of a tensor and of points."""
        return cls(tensor, np.iscomplexobj(points) or np.iscomplexobj(tensor.contract_all(points[:1], 1)))

    def point(self, weights: Array, points: Array) -> ManifoldPoint:
        """Return a decomposition as a point on the manifold; phases of weights are moved into the vectors."""
        if not self.is_complex:
            return ManifoldPoint(weights.real.astype(float), points.real.astype(float))
        phases = np.exp(1j * np.angle(weights) / self.order)
        return ManifoldPoint(np.abs(weights), self._packed(points * phases[:, None]))

    def terms(self, point: ManifoldPoint) -> tuple[Array, Array]:
        """Return the vectors a_i and signs of a point, sum_i s_i (a_i . x)^d."""
        weights = point.weights.astype(np.complex128) if self.is_complex else point.weights
        return absorb_weights(weights, self._vectors(point), self.order)

    def _vectors(self, point: ManifoldPoint) -> Array:
        units, m = point.units, self.tensor.dim
        return units[:, :m] + 1j * units[:, m:] if self.is_complex else units

    def _packed(self, vectors: Array) -> Array:
        """Return the real and imaginary parts of vectors side by side, or real vectors as they are."""
        return np.concatenate([vectors.real, vectors.imag], axis=1) if self.is_complex else vectors

    def value(self, point: ManifoldPoint) -> float:
        """Return the cost."""
        w, v = point.weights, self._vectors(point)
        values = np.einsum("ij,ij->i", self.tensor.contract_all(v.conj(), 1), v.conj())
        powers = ((v.conj() @ v.T) ** self.order).real
        return float(0.5 * w @ powers @ w - w @ values.real + self.half_square)

    def gradient(self, point: ManifoldPoint) -> tuple[Array, Array]:
        """Return the Euclidean gradient, shapes (rank,) and (rank, n)."""
        w, v, d = point.weights, self._vectors(point), self.order
        z = v.conj() @ v.T
        contracted = self.tensor.contract_all(v.conj(), 1)
        by_weight = (z**d).real @ w - np.einsum("ij,ij->i", contracted, v.conj()).real
        # The derivative by conj(v_i), doubled: its real and imaginary parts are the gradient.
        return by_weight, self._packed(d * w[:, None] * ((z ** (d - 1) * w) @ v - contracted))

    def hessian(self, point: ManifoldPoint, *, second_order: bool = True) -> Array:
        """Return the Euclidean Hessian, shape (rank + rank n, rank + rank n).

        Along a direction x of the vectors, the derivative by conj(v_i) changes linearly in x and in conj(x):
        `linear` and `antilinear` hold the two parts.

        Parameters
        ----------
        point : ManifoldPoint
        second_order : bool
            With False, Gauss-Newton's: without the terms that vanish with the residual.
        """
        w, v, d = point.weights, self._vectors(point), self.order
        rank, m = v.shape
        each, axis = np.arange(rank), np.arange(m)
        z = v.conj() @ v.T
        low = z ** (d - 2)
        high = low * z
        # The second derivatives by (v_i, w_j) and by (v_i, v_j), for all i and j.
        vw = d * w[:, None, None] * np.einsum("ij,jp->ipj", high, v)
        linear = np.einsum("ij,jp,iq->ipjq", d * (d - 1) * low * np.outer(w, w), v, v.conj())
        linear[:, axis, :, axis] += d * high * np.outer(w, w)
        antilinear = np.zeros((rank, m, m), dtype=v.dtype)
        if second_order:
            vw[each, :, each] += d * ((high * w) @ v - self.tensor.contract_all(v.conj(), 1))
            contracted = self.tensor.contract_all(v.conj(), 2)[:, product_positions(m, 1, 1)]
            powers = np.einsum("jl,lp,lq->jpq", low * w, v, v, optimize=True)
            antilinear = w[:, None, None] * (d * (d - 1) * (powers - contracted))
        if not self.is_complex:
            linear[each, :, each, :] += antilinear
            vv, n = linear, rank * m
        else:
            n = 2 * rank * m
            vv = np.zeros((rank, 2, m, rank, 2, m))
            vv[:, 0, :, :, 0, :] = vv[:, 1, :, :, 1, :] = linear.real
            vv[:, 0, :, :, 1, :] = -linear.imag
            vv[:, 1, :, :, 0, :] = linear.imag
            vv[each, 0, :, each, 0, :] += antilinear.real
            vv[each, 0, :, each, 1, :] += antilinear.imag
            vv[each, 1, :, each, 0, :] += antilinear.imag
            vv[each, 1, :, each, 1, :] -= antilinear.real
            vw = np.concatenate([vw.real, vw.imag], axis=1)
        vw = vw.reshape(n, rank)
        return np.block([[(high * z).real, vw.T], [vw, vv.reshape(n, n)]])


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
    cost = TermsCost.of(tensor, points)
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
            moved = retract(point, basis, step)
            moved_value = cost.value(moved)
            moved_basis = tangent_basis(moved)
            moved_by_weight, moved_by_unit = cost.gradient(moved)
            moved_gradient = reduced_gradient(moved_basis, moved_by_weight, moved_by_unit)
            moved_size = _relative_size(moved_gradient, moved, norm)
            actual = value - moved_value
            at_rounding = abs(actual) <= TUNING.rounding * norm**2 and moved_size < size
            ratio = 1.0 if at_rounding else actual / predicted if predicted > 0 else -1.0
            length = float(np.linalg.norm(step))
            if ratio > 0.6:
                radius = min(max(2 * length, radius), largest_radius)
            else:
                radius = length * min(0.5, max(0.1, 1 / 3 + 2 / 3 * ratio))
            if ratio >= 0.2:
                break
            if length < 1e-15 * norm or predicted < 1e-4 * TUNING.rounding * norm**2:
                return _refined_at(cost, point, value, size, tol, history, norm)
        point, value, size = moved, moved_value, moved_size
        basis, by_weight, by_unit, gradient = moved_basis, moved_by_weight, moved_by_unit, moved_gradient
        history.append(float(np.sqrt(max(2 * value, 0.0))) / norm)
    return _refined_at(cost, point, value, size, tol, history, norm)


def _refined_at(
    cost: TermsCost,
    point: ManifoldPoint,
    value: float,
    size: float,
    tol: float,
    history: list[float],
    norm: float,
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
    cost: TermsCost, point: ManifoldPoint, basis: Array, by_unit: Array, gradient: Array, hessian: Array
) -> Array | None:
    """Return Newton's step; Gauss-Newton's where Newton's is no descent; None if neither is one."""
    exact = _descent_step(hessian, gradient, ridge=0.0)
    if exact is not None:
        return exact
    positive = reduced_hessian(point, basis, np.zeros_like(by_unit), cost.hessian(point, second_order=False))
    return _descent_step(positive, gradient, ridge=1e-10)


def _descent_step(matrix: Array, gradient: Array, ridge: float) -> Array | None:
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


def _cost_at(tensor: Contractible, weights: Array, points: Array) -> tuple[TermsCost, ManifoldPoint]:
    """Return the cost, and the point of the manifold to check it at, after checking what the user passed."""
    weights, points = numeric_array(weights, "weights"), numeric_array(points, "points")
    if tensor.order < 2:
        raise ValueError("The cost of a linear form has nothing to check: the order must be at least 2.")
    if points.ndim != 2 or points.shape[1] != tensor.dim or weights.shape != points.shape[:1]:
        raise ValueError(
            f"weights must have shape (rank,) and points (rank, {tensor.dim}); "
            f"got {weights.shape} and {points.shape}."
        )
    cost = TermsCost.of(tensor, points)
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
    cost, point = _cost_at(tensor, weights, points)
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
            abs(cost.value(retract(point, basis, t * direction)) - start - t * linear - t * t * quadratic)
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
    _, point = _cost_at(tensor, weights, points)
    basis = tangent_basis(point)
    rank = len(point.weights)
    direction = random_generator(random_state).standard_normal(rank + basis.shape[0] * basis.shape[2])
    direction /= np.linalg.norm(direction)
    tangent = np.einsum("ipq,iq->ip", basis, direction[rank:].reshape(rank, -1))
    steps = np.logspace(-4, -0.5, 36)
    errors = []
    for t in steps:
        moved = retract(point, basis, t * direction)
        left = np.abs(np.linalg.norm(moved.units, axis=1) - 1).max() > 1e-12
        by_weight = np.linalg.norm(moved.weights - point.weights - t * direction[:rank])
        by_unit = np.linalg.norm(moved.units - point.units - t * tangent)
        errors.append(1.0 if left else float(np.hypot(by_weight, by_unit)))
    return DerivativeCheck(_slope(steps, np.array(errors)), 2.0, steps, np.array(errors))
