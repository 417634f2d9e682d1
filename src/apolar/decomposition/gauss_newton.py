"""Gauss-Newton refinement with Levenberg-Marquardt damping, matrix-free for larger problems."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from apolar._core.arrays import Array
from apolar.decomposition.gram import TangentGram, power_jacobian
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import monomial_values, n_monomials


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

    def then(self, later: "Refined") -> "Refined":
        """Return where a later refinement ended, with the iterations of both."""
        return replace(later, n_iter=self.n_iter + later.n_iter, history=self.history + later.history)


# Up to this many multiplications a least squares solve with the Jacobian itself is as fast as
# conjugate gradients, and its accuracy depends on the condition, not on its square.
DENSE_WORK = 2e5
# Up to this many, where the problem is ill-conditioned and steps by conjugate gradients do not get on.
LONG_DENSE_WORK = 2e7
# With at least this damping the normal equations are accurate enough, and take a tenth of the time.
WELL_DAMPED = 1e-8


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
        if damping >= WELL_DAMPED:
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
    dense_work: float = DENSE_WORK,
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
