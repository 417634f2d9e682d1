"""Damped least squares for terms: free, penalised or non-negative ones, and the last steps to rounding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite, sqrt

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from apolar._core.arrays import Array
from apolar._core.levenberg_marquardt import descend
from apolar.decomposition.terms import (
    Contractible,
    TangentGram,
    Terms,
    is_rounding,
    power_jacobian,
    relative_residual,
)
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import monomial_values, multinomials, product_positions, sum_of_powers


@dataclass(frozen=True, eq=False)
class Objective:
    """What is minimised over the vectors a_i: |T - sum_i s_i (a_i . x)^d|^2 / 2 + penalty * sum_i |a_i|^d.

    Attributes
    ----------
    tensor : SymmetricTensor or another Contractible
        Of order at least 2.
    signs : ndarray, shape (rank,)
        +1 or -1.
    scale : float
        The T above is the tensor divided by this, and its vectors those of the tensor by the d-th root.
    penalty : float, default=0
        The sum of sizes is, at its least, the nuclear norm of the tensor: where there are more terms than
        variables, a start without a penalty nearly always ends in large terms that cancel each other.
    is_nonnegative : bool, default=False
        Whether coordinates are held at zero or above.
    """

    tensor: Contractible
    signs: Array
    scale: float
    penalty: float = 0.0
    is_nonnegative: bool = False


class TermsModel:
    """The objective and its quadratic model at some vectors: a model for damped least squares.

    The matrix of Gauss and Newton has a closed form in the inner products of the vectors. It is factorised
    where it is small, and else applied in conjugate gradients. Steps that are hardly damped are solved by the
    Jacobian where that is small too: their accuracy depends on its condition, and not on the square of it.
    """

    def __init__(self, objective: Objective, vectors: Array) -> None:
        self.objective, self.vectors = objective, vectors
        tensor, signs, order = objective.tensor, objective.signs, objective.tensor.order
        if isinstance(tensor, SymmetricTensor):
            # Entry by entry, so that small costs are accurate too.
            with np.errstate(over="ignore", invalid="ignore"):
                self.rest = sum_of_powers(signs, vectors, order) - tensor.coefficients / objective.scale
                self.residual = np.sqrt(tensor.multinomials) * self.rest
                self.cost = 0.5 * float(np.vdot(self.residual, self.residual).real)
            # What is left, relative to the scale; infinite where a sum overflows.
            self.relative_residual = sqrt(2 * self.cost) if isfinite(self.cost) else inf
            self.rounding = 1e-15 * self.cost + 1e-31
        else:
            self.contracted = tensor.contract_all(self.gram.conjugate, 1) / objective.scale
            values = np.einsum("ij,ij->i", self.contracted, self.gram.conjugate)
            powers = np.sum(self.gram.first * self.gram.inner).real / order
            self.cost = 0.5 * float(powers - 2 * signs @ values.real + 1.0)
            self.rounding = 1e-14  # a difference of numbers near one
        if objective.penalty:
            squares = np.maximum(np.sum(vectors**2, axis=1), np.finfo(float).tiny)
            self.cost += objective.penalty * float(np.sum(squares ** (order / 2)))
            self.pulls = objective.penalty * order * squares ** (order / 2 - 1)
            self.outer = (order - 2) * vectors[:, :, None] * vectors[:, None, :] / squares[:, None, None]

    @cached_property
    def gram(self) -> TangentGram:
        """The products with the Gauss-Newton matrix, without the penalty."""
        return TangentGram(self.vectors, self.objective.signs, self.objective.tensor.order)

    @cached_property
    def gradient(self) -> Array:
        """The gradient of the cost."""
        tensor, signs, order = self.objective.tensor, self.objective.signs, self.objective.tensor.order
        factors = order * signs[:, None]
        if isinstance(tensor, SymmetricTensor):
            dim = tensor.dim
            slices = self.rest[product_positions(dim, order - 1, 1)] * multinomials(dim, order - 1)[:, None]
            gradient = factors * (monomial_values(self.gram.conjugate, order - 1) @ slices)
        else:
            gradient = self.gram.first @ self.vectors - factors * self.contracted
        return gradient + self.pulls[:, None] * self.vectors if self.objective.penalty else gradient

    @cached_property
    def scales(self) -> Array:
        """The diagonal of the Gauss-Newton matrix; terms that are all but zero stay free to move."""
        order, squares = self.objective.tensor.order, np.sum(np.abs(self.vectors) ** 2, axis=1)
        scales = order * squares ** (order - 1)
        return np.maximum(scales, 1e-12 * scales.max(initial=1e-300))

    @cached_property
    def free(self) -> Array:
        """Which coordinates may move: the others are held back by the bound."""
        if not self.objective.is_nonnegative:
            return np.ones(self.vectors.shape, dtype=bool)
        return np.asarray((self.vectors > 0) | (self.gradient < 0))

    @property
    def gradient_size(self) -> float:
        """The norm of the gradient, in steps relative to the terms."""
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = np.where(self.free, np.abs(self.gradient) ** 2, 0) / self.scales[:, None]
            return float(np.sqrt(np.sum(sizes)))

    def moved(self, step: Array) -> TermsModel:
        """Return the model at other vectors."""
        return TermsModel(self.objective, self.vectors + step)

    @cached_property
    def matrix(self) -> Array:
        """The Gauss-Newton matrix, with the Hessian of the penalty."""
        rank, dim = self.vectors.shape
        each, n = np.arange(rank), self.vectors.size
        blocks = self.gram.matrix()
        if self.objective.penalty:
            blocks[each, :, each, :] += self.pulls[:, None, None] * (np.eye(dim) + self.outer)
        return blocks.reshape(n, n)

    def step(self, damping: float) -> Array:
        """Return the damped step in the free coordinates."""
        is_bounded = self.objective.is_nonnegative
        where = np.flatnonzero(self.free) if is_bounded else np.arange(self.vectors.size)
        roots = np.repeat(np.sqrt(self.scales), self.vectors.shape[1])[where]
        step = np.zeros_like(self.vectors)
        is_formed = isinstance(self.objective.tensor, SymmetricTensor) and not self.objective.penalty
        # With more damping the normal equations have the digits that count.
        is_damped = damping >= np.sqrt(np.finfo(float).eps)
        if is_formed and not is_damped and len(self.residual) * len(where) ** 2 <= TUNING.dense_work:
            jacobian = power_jacobian(self.vectors, self.objective.signs, self.objective.tensor.order)
            columns = jacobian.reshape(len(self.residual), -1)
            columns = (columns[:, where] if is_bounded else columns) / roots
            ridge = np.sqrt(damping) * np.eye(len(where))
            target = np.concatenate([-self.residual, np.zeros(len(where))])
            step.flat[where] = np.linalg.lstsq(np.vstack([columns, ridge]), target, rcond=1e-15)[0] / roots
        elif self.vectors.size <= TUNING.max_unknowns:
            matrix = self.matrix[np.ix_(where, where)] if is_bounded else self.matrix
            scaled = matrix / (roots[:, None] * roots)
            solution = damped_solution(scaled, -self.gradient.ravel()[where] / roots, damping)
            step.flat[where] = solution / roots
        else:
            accuracy = float(np.clip(np.sqrt(self.gradient_size), 1e-8, 0.1))
            step = self.gram.solve(-(self.free * self.gradient), damping, accuracy, 60, self.free)
        return np.maximum(self.vectors + step, 0) - self.vectors if is_bounded else step

    def decrease(self, step: Array, damping: float) -> float:
        """Return by how much the quadratic model says that a step lowers the cost."""
        if not self.objective.is_nonnegative:
            # What the equations of the step leave.
            return 0.5 * float(np.vdot(step, damping * self.scales[:, None] * step - self.gradient).real)
        image = self.gram.product(step)
        return -float(np.sum(step * (self.gradient + 0.5 * image)))


def damped_solution(matrix: Array, target: Array, damping: float) -> Array:
    """Return the solution with a matrix of unit diagonal, damped as much as it takes to be positive."""
    while True:
        try:
            factor = cho_factor(matrix + damping * np.eye(len(matrix)), check_finite=False)
            return np.asarray(cho_solve(factor, target, check_finite=False))
        except (LinAlgError, ValueError):
            damping = 4 * damping + 1e-14


def gauss_newton(
    tensor: Contractible,
    terms: Terms,
    *,
    max_iter: int = 200,
    tol: float = 1e-13,
    give_up_above: float = np.inf,
    is_nonnegative: bool = False,
    scale: float | None = None,
) -> Terms:
    """Minimise |T - sum_i s_i (a_i . x)^d|^2 over the vectors a_i.

    Damped steps, in which the Jacobian, the matrix of rank * dim rows, or only products with it are formed.

    Parameters
    ----------
    tensor : SymmetricTensor or another Contractible
        Of order at least 2.
    terms : Terms
        Where to start, real or complex. The signs are kept.
    max_iter : int
    tol : float
        Stop when the gradient, relative to ``|T|`` and to the terms, is below.
    give_up_above : float, optional
        Stop early where progress is slow above this relative residual: for
        starts that compete with each other.
    is_nonnegative : bool, default=False
        Whether coordinates are held at zero or above.
    scale : float, optional
        About the norm of the tensor, where that is not known.

    Returns
    -------
    terms : Terms
        With the iterations before these. A residual is relative to `scale`.
    """
    objective = Objective(tensor, terms.signs, scale or tensor.norm(), is_nonnegative=is_nonnegative)
    dtype = np.result_type(terms.vectors, tensor.contract_all(terms.vectors[:1], 1))

    def is_slow(gain: float, cost: float) -> bool:
        return gain < TUNING.promising * cost and 2 * cost > give_up_above**2

    unit = objective.scale ** (1 / tensor.order)
    start = TermsModel(objective, terms.vectors.astype(dtype) / unit)
    model, costs = descend(start, max_iter=max_iter, tol=tol, is_slow=is_slow, patience=5)
    history = np.sqrt(np.maximum(2 * np.array([*costs, model.cost]), 0.0)).tolist()
    return replace(
        terms,
        vectors=model.vectors * unit,
        residual=history.pop(),
        gradient_size=model.gradient_size,
        converged=has_converged(model.gradient_size, tol),
        n_iter=terms.n_iter + len(costs),
        history=(*terms.history, *history),
    )


def has_converged(gradient_size: float, tol: float) -> bool:
    """Return whether a relative gradient is that of a minimum: rounding may keep it from a smaller `tol`."""
    return gradient_size <= max(tol, 1e-9)


def penalised_descent(tensor: SymmetricTensor, terms: Terms) -> Terms:
    """Return real terms after a few steps at each of some falling penalties, and more without one.

    Parameters
    ----------
    tensor : SymmetricTensor
        Real, of order at least 3.
    terms : Terms
        Real. The signs are kept.

    Returns
    -------
    terms : Terms
    """
    objective = Objective(tensor, terms.signs, tensor.norm())

    def is_slow(gain: float, cost: float) -> bool:
        return gain < TUNING.promising * cost or cost < TUNING.rounding

    unit = objective.scale ** (1 / tensor.order)
    moved = terms.vectors / unit
    for penalty in (*np.geomspace(1e-2, 1e-4, 5), 0.0):
        model = TermsModel(replace(objective, penalty=float(penalty)), moved)
        max_iter, damping = (8, 1e-2) if penalty else (TUNING.short_run, 1e-4)
        moved = descend(model, max_iter=max_iter, damping=damping, is_slow=is_slow)[0].vectors
    return replace(terms, vectors=moved * unit)


def to_last_digits(model: TermsModel) -> TermsModel:
    """Return the model at nearly exact terms after a few full steps of Gauss and Newton, the best of them.

    A residual that is rounding of the tensor still moves ill-conditioned terms by more than they have to.
    """
    # A few products are enough for most terms, where a factorisation is long. Then full steps, and those that
    # do not move terms along a continuous family.
    n_unknowns, objective, steps = model.vectors.size, model.objective, TUNING.last_steps
    rounds: list[tuple[float | None, int]] = [(None, 1)] if n_unknowns > TUNING.newton_unknowns else []
    rounds += [(0.0, steps), (TUNING.rounding, steps)] if n_unknowns <= TUNING.max_unknowns else []
    best = model
    for damping, n_steps in rounds:
        model = best
        for _ in range(n_steps):
            if best.relative_residual <= 0.1 * TUNING.rounding:
                break
            if damping is None:
                step = model.gram.solve(-model.gradient, 0.0, rtol=TUNING.far, max_iter=20)
            else:
                step = model.step(damping)
            model = TermsModel(objective, model.vectors + step)
            best = model if model.relative_residual < best.relative_residual else best
    return best


def polish(tensor: SymmetricTensor, terms: Terms) -> Terms:
    """Return terms that are nearly exact, but not to rounding, after a few more steps.

    Exact terms reach rounding; terms that only have a limit, such as those of a form of border rank, do not.
    Where two points are close, damped steps creep along a narrow valley, while full steps leave it, uphill
    at first. Vectors whose terms have grown are no nearer to exact ones, but farther on the way to a limit.

    Parameters
    ----------
    tensor : SymmetricTensor
    terms : Terms
        With their residual.

    Returns
    -------
    terms : Terms
        The same where no step makes the residual smaller.
    """
    order, norm = tensor.order, tensor.norm()
    objective, largest = Objective(tensor, terms.signs, norm), 2.0 * terms.sizes(order).sum()
    unit = norm ** (1 / order)
    model = TermsModel(objective, terms.vectors / unit)
    model, _ = descend(model, max_iter=TUNING.short_run, tol=np.finfo(float).eps)
    before = np.nan
    for _ in range(TUNING.short_run):
        vectors = model.vectors * unit
        residual = relative_residual(tensor, terms.signs, vectors)
        moved = replace(terms, vectors=vectors, residual=residual)
        if residual < terms.residual and moved.sizes(order).sum() <= largest:
            terms = moved
            if is_rounding(terms, order, norm):
                terms = replace(terms, gradient_size=0.0, converged=True)
                break
        if not residual < 1 or abs(residual - before) <= TUNING.promising * before:  # lost, or at a minimum
            break
        model, before = model.moved(model.step(0.0)), residual
    return terms
