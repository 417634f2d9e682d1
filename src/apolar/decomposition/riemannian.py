"""The Riemannian Newton method on weights and unit vectors, and checks of its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, block_diag, cho_factor, cho_solve

from apolar._core.arrays import Array, unit_rows
from apolar._core.checks import numeric_array, random_generator
from apolar.decomposition.least_squares import has_converged
from apolar.decomposition.terms import Contractible, Terms, absorb_weights
from apolar.decomposition.tuning import TUNING
from apolar.tensor.monomials import product_positions


class ManifoldPoint:
    """Weights and unit vectors, and the cost |T - sum_i w_i (v_i . x)^d|^2 / 2 there [khouja2022riemannian].

    A complex vector v is held as (Re v, Im v), and the cost is real analytic in these coordinates.

    Parameters
    ----------
    tensor : SymmetricTensor or another Contractible
        Of order at least 2.
    weights : ndarray, shape (rank,)
        Real.
    units : ndarray, shape (rank, n)
        Of unit norm, real.

    Attributes
    ----------
    cost : float
    tangents : ndarray, shape (rank + rank n, rank + rank (n - 1))
        An orthonormal basis of the tangent space.
    gradient : ndarray, shape (rank + rank (n - 1),)
        The Riemannian gradient in the basis.
    gradient_size : float
        Its norm relative to the tensor; its part by each unit vector over the weight.
    """

    def __init__(self, tensor: Contractible, weights: Array, units: Array) -> None:
        self.tensor, self.weights, self.units = tensor, weights, units
        self.order, m = tensor.order, tensor.dim
        self.is_complex = units.shape[1] > m
        self.vectors = units[:, :m] + 1j * units[:, m:] if self.is_complex else units
        conjugate = self.vectors.conj()
        self.inner = conjugate @ self.vectors.T
        self.contracted = tensor.contract_all(conjugate, 1)
        values = np.einsum("ij,ij->i", self.contracted, conjugate).real
        powers = (self.inner**self.order).real
        self.half_square = 0.5 * tensor.norm() ** 2
        self.cost = float(0.5 * weights @ powers @ weights - weights @ values + self.half_square)
        # The derivative by conj(v_i), doubled: its real and imaginary parts are the Euclidean gradient.
        pulls = (self.inner ** (self.order - 1) * weights) @ self.vectors - self.contracted
        by_vector = self.order * weights[:, None] * pulls
        self.by_unit = _pack(by_vector) if self.is_complex else by_vector
        # For each sphere, an orthonormal basis of what is orthogonal to the unit vector.
        across = np.linalg.qr(units[:, :, None], mode="complete")[0][:, :, 1:]
        self.tangents = block_diag(np.eye(len(units)), *across)
        by_weight = powers @ weights - values
        self.gradient = self.tangents.T @ np.concatenate([by_weight, self.by_unit.ravel()])
        along = self.gradient[len(weights) :].reshape(len(weights), -1)
        relative = along / np.maximum(np.abs(weights), np.finfo(float).tiny)[:, None]
        self.gradient_size = float(
            np.hypot(np.linalg.norm(by_weight), np.linalg.norm(relative)) / tensor.norm()
        )

    @classmethod
    def of(cls, tensor: Contractible, weights: Array, points: Array) -> ManifoldPoint:
        """Return a decomposition as a point, complex if the tensor or its unit vectors are."""
        if not (np.iscomplexobj(points) or np.iscomplexobj(tensor.contract_all(points[:1], 1))):
            return cls(tensor, weights.real.astype(float), points)
        # Phases of weights are moved into the vectors.
        turned = points * np.exp(1j * np.angle(weights) / tensor.order)[:, None]
        return cls(tensor, np.abs(weights), _pack(turned))

    @cached_property
    def hessian(self) -> Array:
        """The Riemannian Hessian in the basis."""
        return self.second_derivatives(with_residual=True)

    def second_derivatives(self, *, with_residual: bool) -> Array:
        """Return the Riemannian Hessian in the basis; without the residual, Gauss-Newton's.

        Along a direction x of the vectors, the derivative by conj(v_i) changes linearly in x and in conj(x):
        `linear` and `antilinear` hold the two parts.
        """
        w, v, d, z = self.weights, self.vectors, self.order, self.inner
        rank, m = v.shape
        each, axis = np.arange(rank), np.arange(m)
        low = z ** (d - 2)
        high = low * z
        # The second derivatives by (v_i, w_j) and by (v_i, v_j), for all i and j.
        vw = d * w[:, None, None] * np.einsum("ij,jp->ipj", high, v)
        linear = np.einsum("ij,jp,iq->ipjq", d * (d - 1) * low * np.outer(w, w), v, v.conj())
        linear[:, axis, :, axis] += d * high * np.outer(w, w)
        antilinear = np.zeros_like(linear)
        normal = np.zeros(rank)
        if with_residual:
            vw[each, :, each] += d * ((high * w) @ v - self.contracted)
            contracted = self.tensor.contract_all(v.conj(), 2)[:, product_positions(m, 1, 1)]
            powers = np.einsum("jl,lp,lq->jpq", low * w, v, v, optimize=True)
            antilinear[each, :, each, :] = w[:, None, None] * (d * (d - 1) * (powers - contracted))
            normal = np.einsum("ij,ij->i", self.units, self.by_unit)
        vv = linear + antilinear
        if self.is_complex:
            # Columns: the images of real directions, and of imaginary ones.
            vv = _pack(np.concatenate([vv, 1j * (linear - antilinear)], axis=3))
            vw = _pack(vw)
        n = self.units.size
        # The curvature of the spheres is Weingarten's term.
        vv = vv.reshape(n, n) - np.diag(np.repeat(normal, self.units.shape[1]))
        vw = vw.reshape(n, rank)
        return np.asarray(self.tangents.T @ np.block([[(high * z).real, vw.T], [vw, vv]]) @ self.tangents)

    @cached_property
    def downhill(self) -> Array | None:
        """Newton's step; Gauss-Newton's where Newton's does not descend; None if neither is one."""
        exact = _descent_step(self.hessian, self.gradient)
        if exact is not None:
            return exact
        positive = self.second_derivatives(with_residual=False)
        return _descent_step(positive + 1e-10 * np.diag(np.diag(positive)), self.gradient)

    def moved(self, step: Array) -> ManifoldPoint:
        """Return the retraction of a tangent vector: add it, and normalise the vectors."""
        by_weight, by_unit = np.split(self.tangents @ step, [len(self.weights)])
        units = unit_rows(self.units + by_unit.reshape(self.units.shape))
        return ManifoldPoint(self.tensor, self.weights + by_weight, units)


def _pack(vectors: Array) -> Array:
    """Return the real and imaginary parts of vectors side by side."""
    return np.concatenate([vectors.real, vectors.imag], axis=1)


def newton(tensor: Contractible, terms: Terms, *, max_iter: int = 100, tol: float = 1e-13) -> Terms:
    """Minimise |T - sum_i w_i (v_i . x)^d|^2 over weights and unit vectors.

    Newton's method on the manifold with the exact Hessian and a dogleg in a
    trust region [khouja2022riemannian]. Complex if the points are.

    Parameters
    ----------
    tensor : SymmetricTensor or another Contractible
        Of order at least 2.
    terms : Terms
        Where to start.
    max_iter : int
    tol : float
        Stop when the gradient, relative to ``|T|`` and to the terms, is below.

    Returns
    -------
    terms : Terms
        With the iterations before these.
    """
    norm, rounding = tensor.norm(), TUNING.rounding * tensor.norm() ** 2
    point = ManifoldPoint.of(tensor, terms.signs * terms.sizes(tensor.order), unit_rows(terms.vectors))
    largest_radius = norm / 2
    first_radius = float(np.sqrt(tensor.order / terms.rank * np.sum(point.weights**2))) / 10
    radius = min(first_radius, largest_radius)
    history: list[float] = []
    while len(history) < max_iter and point.gradient_size > tol:
        step = _dogleg(point.gradient, point.hessian, point.downhill, radius)
        length = float(np.linalg.norm(step))
        predicted = -float(point.gradient @ step + 0.5 * step @ point.hessian @ step)
        moved = point.moved(step)
        actual = point.cost - moved.cost
        at_rounding = abs(actual) <= rounding and moved.gradient_size < point.gradient_size
        ratio = 1.0 if at_rounding else actual / predicted if predicted > 0 else -1.0
        if ratio > 0.6:
            radius = min(max(2 * length, radius), largest_radius)
        else:
            radius = length * min(0.5, max(0.1, 1 / 3 + 2 / 3 * ratio))
        if ratio >= 0.2:
            point = moved
            history.append(float(np.sqrt(max(2 * point.cost, 0.0))) / norm)
        elif length < 1e-15 * norm or predicted < 1e-4 * rounding:
            break
    weights = point.weights.astype(point.vectors.dtype)
    vectors, signs = absorb_weights(weights, point.vectors, tensor.order)
    return replace(
        terms,
        vectors=vectors,
        signs=signs,
        residual=float(np.sqrt(max(2 * point.cost, 0.0))) / norm,
        gradient_size=point.gradient_size,
        converged=has_converged(point.gradient_size, tol),
        n_iter=terms.n_iter + len(history),
        history=(*terms.history, *history),
    )


def _descent_step(matrix: Array, gradient: Array) -> Array | None:
    """Return -matrix^(-1) gradient if the matrix is positive definite."""
    try:
        step: Array = -cho_solve(cho_factor(matrix, check_finite=False), gradient, check_finite=False)
    except LinAlgError:
        return None
    return step if np.all(np.isfinite(step)) and gradient @ step < 0 else None


def _dogleg(gradient: Array, hessian: Array, downhill: Array | None, radius: float) -> Array:
    """Return the dogleg step in a ball: along the gradient, then towards Newton's step."""
    if downhill is not None and np.linalg.norm(downhill) <= radius:
        return downhill
    length = float(np.linalg.norm(gradient))
    curvature = float(gradient @ hessian @ gradient)
    if curvature * radius <= length**3:  # the least value along the gradient is at the edge, or beyond it
        return -gradient * radius / length
    cauchy = -gradient * (length**2 / curvature)
    if downhill is None:
        return cauchy
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


Errors = Callable[[ManifoldPoint, ManifoldPoint, Array], float]
"""Takes a point, where a step leads from it, and the step."""


def _check(
    tensor: Contractible, weights: Array, points: Array, seed: int | None, expected: float, error: Errors
) -> DerivativeCheck:
    """Return at which order an error falls with the step in a random direction."""
    weights, points = numeric_array(weights, "weights"), numeric_array(points, "points")
    if tensor.order < 2:
        raise ValueError("The cost of a linear form has nothing to check: the order must be at least 2.")
    if points.ndim != 2 or points.shape[1] != tensor.dim or weights.shape != points.shape[:1]:
        raise ValueError(
            f"weights must have shape (rank,) and points (rank, {tensor.dim}); "
            f"got {weights.shape} and {points.shape}."
        )
    point = ManifoldPoint.of(tensor, weights, unit_rows(points))
    direction = random_generator(seed).standard_normal(len(point.gradient))
    direction /= np.linalg.norm(direction)
    steps = np.logspace(-4, -0.5, 36)
    errors = np.array([error(point, point.moved(t * direction), t * direction) for t in steps])
    logs = np.log10(np.maximum(errors, np.finfo(float).tiny))
    # The steepest slopes over a decade: rounding flattens one end, higher terms the other.
    starts = range(len(steps) - 9)
    slopes = sorted(np.polyfit(np.log10(steps[i : i + 10]), logs[i : i + 10], 1)[0] for i in starts)
    return DerivativeCheck(float(np.median(slopes[-len(slopes) // 3 :])), expected, steps, errors)


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

    def error(point: ManifoldPoint, moved: ManifoldPoint, step: Array) -> float:
        change = moved.cost - point.cost - float(point.gradient @ step)
        return abs(change) / (point.half_square + point.cost)

    return _check(tensor, weights, points, random_state, 2.0, error)


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

    def error(point: ManifoldPoint, moved: ManifoldPoint, step: Array) -> float:
        predicted = point.gradient @ step + 0.5 * step @ point.hessian @ step
        return abs(moved.cost - point.cost - float(predicted)) / (point.half_square + point.cost)

    return _check(tensor, weights, points, random_state, 3.0, error)


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

    def error(point: ManifoldPoint, moved: ManifoldPoint, step: Array) -> float:
        if np.abs(np.linalg.norm(moved.units, axis=1) - 1).max() > 1e-12:
            return 1.0
        by_weight, by_unit = moved.weights - point.weights, moved.units - point.units
        return float(np.linalg.norm(np.concatenate([by_weight, by_unit.ravel()]) - point.tangents @ step))

    return _check(tensor, weights, points, random_state, 2.0, error)
