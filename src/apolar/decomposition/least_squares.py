"""Damped least squares: Gauss-Newton refinement, penalised descent, and the last steps to rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from apolar._core.arrays import Array
from apolar.decomposition.condition import is_rounding
from apolar.decomposition.terms import Contractible, Refined, TangentGram, power_jacobian, relative_residual
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import monomial_values, n_monomials


class _DenseModel:
    """The linearised problem by its Jacobian, for small tensors."""

    def __init__(self, tensor: SymmetricTensor, scale: float, vectors: Array, signs: Array) -> None:
        order = tensor.order
        self.shape = vectors.shape
        self.terms = (vectors, signs, order)
        roots = np.sqrt(tensor.multinomials)
        values = signs @ monomial_values(vectors, order)
        self.residual = roots * (values - tensor.coefficients / scale)
        self.cost = 0.5 * float(np.vdot(self.residual, self.residual).real)
        # The residual is computed entry by entry, so that small costs are accurate too.
        self.rounding = 1e-15 * self.cost + 1e-31
        self.jacobian = power_jacobian(vectors, signs, order).reshape(len(roots), -1)
        self.gradient = (self.jacobian.conj().T @ self.residual).reshape(self.shape)
        norms = np.sum(np.abs(vectors) ** 2, axis=1)
        self.scales = np.maximum(order * norms ** (order - 1), np.finfo(float).tiny)
        self._normal: Array | None = None

    def step(self, damping: float, accuracy: float) -> Array:  # noqa: ARG002 (a direct solve)
        """Return the damped Gauss-Newton step."""
        if damping >= TUNING.well_damped:
            solution = self._normal_solution(damping)
            if solution is not None:
                return solution.reshape(self.shape)
        ridge = np.repeat(np.sqrt(damping * self.scales), self.shape[1])
        matrix = np.concatenate([self.jacobian, np.diag(ridge)])
        target = np.concatenate([-self.residual, np.zeros(len(ridge))])
        solution = np.linalg.lstsq(matrix, target, rcond=1e-15)[0]
        return np.asarray(solution).reshape(self.shape)

    def _normal_solution(self, damping: float) -> Array | None:
        """Return the step by the normal equations, or None where terms of very different sizes break them."""
        roots = np.repeat(np.sqrt(self.scales), self.shape[1])
        if self._normal is None:
            gram = TangentGram(*self.terms).matrix().reshape(len(roots), -1)
            self._normal = gram / (roots[:, None] * roots)
        damped = self._normal + damping * np.eye(len(roots))
        try:
            factor = cho_factor(damped, overwrite_a=True, check_finite=False)
        except (LinAlgError, ValueError):
            return None
        scaled_gradient = self.gradient.ravel() / roots
        return np.asarray(-cho_solve(factor, scaled_gradient, check_finite=False) / roots)


class _MatrixFreeModel:
    """The linearised problem by inner products alone: O(rank^2 dim) for each product."""

    # The cost is a difference of numbers near one.
    rounding = 1e-14

    def __init__(self, tensor: Contractible, scale: float, vectors: Array, signs: Array) -> None:
        order = tensor.order
        self.gram = TangentGram(vectors, signs, order)
        contracted = tensor.contract_all(self.gram.conjugate, 1) / scale
        values = np.einsum("ij,ij->i", contracted, self.gram.conjugate)
        powers = np.sum(self.gram.first * self.gram.inner).real / order
        self.cost = 0.5 * float(powers - 2 * signs @ values.real + 1.0)
        self.gradient = self.gram.first @ vectors - order * signs[:, None] * contracted
        self.scales = self.gram.scales

    def step(self, damping: float, accuracy: float) -> Array:
        """Return the damped Gauss-Newton step, to a relative accuracy."""
        return self.gram.solve(-self.gradient, damping, accuracy, max_iter=60)[0]


_Model = _DenseModel | _MatrixFreeModel


def gauss_newton(
    tensor: Contractible,
    vectors: Array,
    signs: Array,
    *,
    max_iter: int = 200,
    tol: float = 1e-13,
    give_up_above: float | None = None,
    dense_work: float = TUNING.dense_work,
) -> Refined:
    """Minimise |T - sum_i s_i (a_i . x)^d|^2 over the vectors a_i.

    Levenberg-Marquardt steps. Small problems are solved by least squares with
    the Jacobian; larger ones, and implicit tensors, by preconditioned
    conjugate gradients, with no matrix of rank * dim rows.

    Parameters
    ----------
    tensor : SymmetricTensor or another Contractible
        Of order at least 2.
    vectors : ndarray, shape (rank, dim)
        Real or complex.
    signs : ndarray, shape (rank,)
        +1 or -1, kept.
    max_iter : int
    tol : float
        Stop when the gradient, relative to ``|T|`` and to the terms, is below.
    give_up_above : float, optional
        Stop early where progress is slow above this relative residual: for
        starts that compete with each other.
    dense_work : float
        Multiplications up to which steps are solved by least squares. With more than the default a step
        takes longer, but gets on where the problem is ill-conditioned, as on the way to a generic tensor.

    Returns
    -------
    refined : Refined
    """
    order, scale = tensor.order, tensor.norm()
    unit = scale ** (1 / order)
    dtype = np.result_type(vectors, tensor.contract_all(vectors[:1], 1))
    vectors = vectors.astype(dtype) / unit
    work = n_monomials(tensor.dim, order) * vectors.size**2

    def model_at(a: Array) -> _Model:
        if isinstance(tensor, SymmetricTensor) and work <= dense_work:
            return _DenseModel(tensor, scale, a, signs)
        return _MatrixFreeModel(tensor, scale, a, signs)

    model = model_at(vectors)
    size = _gradient_norm(model)
    damping, growth = 1e-3, 2.0
    history: list[float] = []
    slow = 0
    while len(history) < max_iter and size > tol:
        step = model.step(damping, accuracy=float(np.clip(np.sqrt(size), 1e-8, 0.1)))
        predicted = 0.5 * np.vdot(step, damping * model.scales[:, None] * step - model.gradient).real
        with np.errstate(over="ignore", invalid="ignore"):
            moved = model_at(vectors + step)
            size_moved = _gradient_norm(moved)
        actual = model.cost - moved.cost
        at_rounding = abs(actual) <= model.rounding and size_moved < size
        if actual > 1e-4 * predicted or at_rounding:
            ratio = 1.0 if at_rounding else actual / predicted
            slow = slow + 1 if actual < 1e-3 * model.cost else 0
            vectors, model, size = vectors + step, moved, size_moved
            damping = max(damping * max(0.1, 1 - (2 * ratio - 1) ** 3), 1e-15)
            growth = 2.0
        elif not predicted > 1e-4 * model.rounding:
            break
        else:
            damping *= growth
            growth *= 2
        history.append(float(np.sqrt(max(2 * model.cost, 0.0))))
        if damping > 1e12:
            break
        if give_up_above is not None and slow >= 5 and history[-1] > give_up_above:
            break
    converged = bool(size <= max(tol, 1e-9))
    return Refined(vectors * unit, signs, model.cost, size, converged, len(history), tuple(history))


def _gradient_norm(model: _Model) -> float:
    return float(np.sqrt(np.sum(np.abs(model.gradient) ** 2 / model.scales[:, None])))


def penalised_descent(
    tensor: SymmetricTensor,
    vectors: Array,
    signs: Array,
    *,
    first_penalty: float = TUNING.penalties[0],
    n_stages: int = 8,
) -> Array:
    """Return vectors after steps with a penalty that falls in stages, then steps without one.

    Minimises |T - sum_i s_i (a_i . x)^d|^2 / 2 + penalty * sum_i |a_i|^d for a
    tensor scaled to norm 1. The sum of sizes is, at its least, the nuclear norm of the
    tensor: where there are more terms than variables, a start without a penalty nearly
    always ends in large terms that cancel each other.

    Parameters
    ----------
    tensor : SymmetricTensor
        Real, of order at least 3.
    vectors : ndarray, shape (rank, dim)
        Real.
    signs : ndarray, shape (rank,)
        +1 or -1, kept.
    first_penalty : float
    n_stages : int

    Returns
    -------
    vectors : ndarray, shape (rank, dim)
    """
    scale = tensor.norm()
    unit = scale ** (1 / tensor.order)
    moved = vectors / unit
    for penalty in np.geomspace(first_penalty, TUNING.penalties[-1], n_stages):
        moved = _stage(tensor, scale, moved, signs, float(penalty), TUNING.stages[0], 1e-2)
    return _stage(tensor, scale, moved, signs, 0.0, TUNING.short_run, 1e-4) * unit


class _PenalisedModel:
    """Cost, gradient and Gauss-Newton matrix at some vectors, by their inner products."""

    def __init__(
        self, tensor: SymmetricTensor, scale: float, vectors: Array, signs: Array, penalty: float
    ) -> None:
        order = tensor.order
        self.vectors, self.order, self.penalty = vectors, order, penalty
        self.gram = TangentGram(vectors, signs, order)
        self.squares = np.maximum(np.diag(self.gram.inner), np.finfo(float).tiny)
        contracted = tensor.contract_all(vectors, 1) / scale
        values = np.sum(contracted * vectors, axis=1)
        powers = np.sum(self.gram.first * self.gram.inner) / order
        self.cost = 0.5 * float(powers - 2 * signs @ values + 1.0)
        self.gradient = self.gram.first @ vectors - order * signs[:, None] * contracted
        if penalty:
            self.cost += penalty * float(np.sum(self.squares ** (order / 2)))
            self.gradient += penalty * order * self.squares[:, None] ** (order / 2 - 1) * vectors
        # Terms that are all but zero stay free to move.
        self.scales = np.repeat(order * np.maximum(self.squares, 1e-6) ** (order - 1), vectors.shape[1])

    def matrix(self) -> Array:
        """Return the Gauss-Newton matrix, with the Hessian of the penalty, which is convex."""
        vectors, order = self.vectors, self.order
        rank, dim = vectors.shape
        blocks = self.gram.matrix()
        if self.penalty:
            terms = np.arange(rank)
            outer = vectors[:, :, None] * vectors[:, None, :] / self.squares[:, None, None]
            sizes = self.penalty * order * self.squares ** (order / 2 - 1)
            blocks[terms, :, terms, :] += sizes[:, None, None] * (np.eye(dim) + (order - 2) * outer)
        return np.asarray(blocks.reshape(rank * dim, rank * dim))


def _stage(
    tensor: SymmetricTensor,
    scale: float,
    vectors: Array,
    signs: Array,
    penalty: float,
    max_iter: int,
    damping: float,
) -> Array:
    """Return the vectors after damped steps at one penalty."""
    model = _PenalisedModel(tensor, scale, vectors, signs, penalty)
    matrix = model.matrix()
    diagonal = np.arange(len(matrix))
    growth = 2.0
    for _ in range(max_iter):
        shift = damping * model.scales
        damped = matrix.copy()
        damped[diagonal, diagonal] += shift + TUNING.vanishing
        try:
            factor = cho_factor(damped, overwrite_a=True, check_finite=False)
        except LinAlgError:
            damping = 4 * damping + 1e-12
            continue
        flat = -cho_solve(factor, model.gradient.ravel(), check_finite=False)
        predicted = 0.5 * float(flat @ (shift * flat - model.gradient.ravel()))
        step = flat.reshape(vectors.shape)
        moved = _PenalisedModel(tensor, scale, model.vectors + step, signs, penalty)
        gain = model.cost - moved.cost
        if not gain > 1e-4 * predicted:
            damping *= growth
            growth *= 2
            if damping > 1e8:
                break
            continue
        is_slow = gain < TUNING.promising * model.cost
        model = moved
        if is_slow or model.cost < TUNING.vanishing:
            break
        matrix = model.matrix()
        damping = max(damping * max(0.1, 1 - (2 * gain / predicted - 1) ** 3), 1e-12)
        growth = 2.0
    return model.vectors


def quasi_newton(tensor: Contractible, vectors: Array, signs: Array, *, max_iter: int, tol: float) -> Refined:
    """Minimise |T - sum_i s_i (a_i . x)^d|^2 over real vectors a_i [nocedal2006].

    Where the residual is large, the steps of Gauss-Newton leave out much of the
    curvature, and L-BFGS needs fewer; it ends where the cost is at rounding,
    with a gradient of about 1e-8.

    Parameters
    ----------
    tensor : Contractible
    vectors : ndarray, shape (rank, dim)
        Real.
    signs : ndarray, shape (rank,)
        +1 or -1, kept.
    max_iter : int
    tol : float
        Stop when the gradient, relative to ``|T|`` and to the terms, is below.

    Returns
    -------
    refined : Refined
    """
    order, scale = tensor.order, tensor.norm()
    unit = scale ** (1 / order)
    start = vectors / unit
    # In these units a step of one changes each term by about one.
    squares = np.sum(start**2, axis=1)
    units = np.sqrt(np.maximum(order * squares ** (order - 1), np.finfo(float).tiny))[:, None]
    outer = np.outer(signs, signs)

    def cost(flat: Array) -> tuple[float, Array]:
        a = flat.reshape(start.shape) / units
        contracted = signs[:, None] * tensor.contract_all(a, 1) / scale
        inner = a @ a.T
        powers = outer * inner ** (order - 1)
        value = 0.5 * np.sum(powers * inner) - np.sum(contracted * a) + 0.5
        return float(value), (order * (powers @ a - contracted) / units).ravel()

    options = {"maxiter": max_iter, "maxcor": 20, "ftol": 0.0, "gtol": tol / np.sqrt(start.size)}
    found = minimize(cost, (start * units).ravel(), jac=True, method="L-BFGS-B", options=options)
    size = float(np.linalg.norm(found.jac))
    moved = found.x.reshape(start.shape) / units * unit
    return Refined(moved, signs, float(found.fun), size, size <= max(tol, 1e-9), int(found.nit), ())


def polish_terms(tensor: SymmetricTensor, refined: Refined, residual: float) -> tuple[Refined, float]:
    """Return terms that are nearly exact after a few more steps, and their relative residual.

    Refinement stops where its cost is rounding: at a residual of 1e-8 to 1e-13, far
    from the terms if these are correlated. Here the residual is formed from the
    coefficients, and steps are solved to the end. Exact terms reach rounding; terms
    that only have a limit, such as those of a form of border rank, do not.

    Parameters
    ----------
    tensor : SymmetricTensor
    refined : Refined
    residual : float
        Relative, of these terms.

    Returns
    -------
    refined : Refined
        The same where no step makes the residual smaller, or where none is needed.
    residual : float
    """
    sizes = np.linalg.norm(refined.vectors, axis=1) ** tensor.order
    if not residual < TUNING.nearly_exact or is_rounding(residual, sizes, tensor.norm()):
        return refined, residual
    if len(tensor.coefficients) * refined.vectors.size**2 <= TUNING.long_dense_work:
        vectors, residual = _dense_steps(tensor, refined, residual)
    else:
        vectors, residual = _large_steps(tensor, refined, residual)
    return replace(refined, vectors=vectors), residual


def _dense_steps(tensor: SymmetricTensor, refined: Refined, residual: float) -> tuple[Array, float]:
    """Return the best vectors of some Gauss-Newton steps by least squares, and their residual.

    Damped steps first. Where two points are close these creep along a narrow valley,
    out of which full steps lead, uphill at first. Vectors whose terms have grown are
    no nearer to exact ones, but farther on the way to a limit.
    """
    signs, order = refined.signs, tensor.order
    best, least = refined.vectors, residual
    largest = 2.0 * np.sum(np.linalg.norm(best, axis=1) ** order)
    vectors = gauss_newton(
        tensor,
        best,
        signs,
        max_iter=TUNING.polish_steps,
        tol=np.finfo(float).eps,
        dense_work=TUNING.long_dense_work,
    ).vectors
    roots = np.sqrt(tensor.multinomials)
    before = np.nan
    for _ in range(TUNING.full_steps):
        left = relative_residual(tensor, signs, vectors)
        lengths = np.linalg.norm(vectors, axis=1)
        if left < least and np.sum(lengths**order) <= largest:
            best, least = vectors, left
            if is_rounding(least, lengths**order, tensor.norm()):
                break
        if not left < 1 or abs(left - before) <= 1e-3 * before:  # lost, or at a minimum
            break
        scales = np.repeat(np.maximum(lengths ** (order - 1), np.finfo(float).tiny), tensor.dim)
        jacobian = power_jacobian(vectors, signs, order).reshape(len(roots), -1) / scales
        rest = tensor - SymmetricTensor.from_waring(signs, vectors, order)
        step = np.linalg.lstsq(jacobian, roots * rest.coefficients, rcond=1e-15)[0] / scales
        vectors, before = vectors + step.reshape(vectors.shape), left
    return best, least


def _large_steps(tensor: SymmetricTensor, refined: Refined, residual: float) -> tuple[Array, float]:
    """Return the vectors of Gauss-Newton steps by conjugate gradients, while these help."""
    vectors, signs, order = refined.vectors, refined.signs, tensor.order
    max_products = int(np.clip(TUNING.step_work / (4 * len(vectors) * vectors.size), 20, 1000))
    for _ in range(TUNING.full_steps):
        rest = tensor - SymmetricTensor.from_waring(signs, vectors, order)
        gram = TangentGram(vectors, signs, order)
        slope = order * signs[:, None] * rest.contract_all(gram.conjugate, 1)
        moved = vectors + gram.solve(slope, damping=1e-15, rtol=1e-10, max_iter=max_products)[0]
        residual_moved = relative_residual(tensor, signs, moved)
        if not residual_moved < residual:
            break
        gain = residual_moved / residual
        vectors, residual = moved, residual_moved
        if gain > 0.3:
            break
    return vectors, residual
