"""The best approximation by powers of linear forms with coefficients >= 0: completely positive tensors."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.candidates import Budget, CandidateTerms, better, rated
from apolar.decomposition.gauss_newton import Refined
from apolar.decomposition.gram import TangentGram, power_jacobian
from apolar.decomposition.methods import METHODS, Problem
from apolar.decomposition.ranks import generic_rank
from apolar.decomposition.search import best_terms, is_certified
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import monomial_values, product_positions

# Random starts of the search for terms of any sign, from which the search for non-negative ones starts.
FREE_STARTS = 3
# Steps before starts are compared.
SHORT_RUN = 60
# Starts that lead to the best terms before the search ends.
ENOUGH_HITS = 5
# The best terms are given this many times the steps, if they still move.
LONG_RUN = 5
# A residual below this may be on its way to rounding.
MAY_BE_EXACT = 1e-6
# Multiplications of all random starts together, about, and the random starts that there are in any case.
SEARCH_WORK, FEWEST_STARTS = 5e9, 3
# Products with the Gram matrix in a step that is not solved by least squares.
PRODUCTS_PER_STEP = 200
# Multiplications of a step up to which it is solved by least squares with the Jacobian.
DENSE_WORK = 3e7
# Damping from which on the normal equations are accurate enough; they are faster than least squares.
WELL_DAMPED = 1e-7
# Times that coordinates are held at zero, and the others solved for again, in a step.
ACTIVE_SET_TURNS = 4


def nonnegative(problem: Problem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the best terms with points and weights >= 0, and where their number comes from.

    Parameters
    ----------
    problem : Problem
        Real, of order at least 2.
    rng : numpy.random.Generator

    Returns
    -------
    candidate : CandidateTerms
    source : str
    """
    tensor, budget = problem.tensor, problem.budget
    if tensor.order == 1 or tensor.dim == 1:
        return _single_term(problem)
    free, rank, source = _free_terms(problem, rng)
    best: CandidateTerms | None = None
    hits = 0
    n_random = _affordable_starts(tensor, rank, budget)
    for method, vectors in _starting_vectors(tensor, free, rank, rng, n_random):
        if best is not None and budget.is_spent:
            break
        steps = min(SHORT_RUN, budget.max_iter)
        candidate = rated(
            tensor, method, projected_gauss_newton(tensor, vectors, steps, budget.tol), polish=False
        )
        if best is None or candidate.residual < (1 - 1e-4) * best.residual:
            hits = 1
            candidate = _finished(tensor, candidate, budget.max_iter, budget.tol)
        elif candidate.residual <= (1 + 1e-4) * best.residual:
            hits += 1
        if best is None or better(candidate, best):
            best = candidate
        if best.exact or hits >= ENOUGH_HITS or is_certified(tensor, best):
            break
    assert best is not None  # there is a start at least
    return _finished(tensor, best, LONG_RUN * budget.max_iter, budget.tol), source


def _single_term(problem: Problem) -> tuple[CandidateTerms, str]:
    """Return the positive part of a linear form, or of one in a single variable."""
    tensor = problem.tensor
    rank, source = problem.resolved_rank()
    if rank > 1:
        raise ValueError("This form is a power of one linear form: its rank is 1.")
    vectors = np.maximum(tensor.coefficients, 0)[None] ** (1 / tensor.order)
    refined = Refined(vectors, np.ones(1), float("nan"), 0.0, True, 0, ())
    return rated(tensor, "direct", refined, polish=False), source


def _free_terms(problem: Problem, rng: np.random.Generator) -> tuple[Array | None, int, str]:
    """Return vectors of the best terms of any sign, where they say something, the rank and its source."""
    tensor = problem.tensor
    if problem.rank is None and tensor.order > 2:
        candidate, source = METHODS["auto"](replace(problem, field="real"), rng)
        if not candidate.settled:
            raise ValueError(
                "The rank of the tensor is not settled, and so is not the number of its non-negative terms: "
                "give the rank."
            )
        return candidate.refined.vectors, len(candidate.refined.vectors), source
    rank, source = problem.resolved_rank()
    if rank > len(tensor.coefficients):  # the theorem of Caratheodory for cones
        raise ValueError(
            f"Rank {rank}: no sum of non-negative terms needs more than the {len(tensor.coefficients)} that "
            "the tensor has coefficients. Ask for fewer."
        )
    if rank > generic_rank(tensor.dim, tensor.order) or tensor.order == 2:
        return None, rank, source  # exact terms of any sign are many, and say nothing
    budget = replace(problem.budget, n_starts=min(problem.budget.n_starts, FREE_STARTS))
    candidate = best_terms(tensor, problem.flattening, rank, "real", rng, budget)
    return candidate.refined.vectors, rank, source


def _starting_vectors(
    tensor: SymmetricTensor, free: Array | None, rank: int, rng: np.random.Generator, n_random: int
) -> Iterator[tuple[str, Array]]:
    """Yield non-negative vectors, shape (rank, dim): near the best terms of any sign, then random ones."""
    if free is not None:
        # A vector and its opposite are the same term up to its sign: the one with the larger positive part.
        upper, lower = np.maximum(free, 0), np.maximum(-free, 0)
        turned = np.linalg.norm(lower, axis=1) > np.linalg.norm(upper, axis=1)
        yield "positive part", _scaled(tensor, np.where(turned[:, None], lower, upper))
        yield "absolute values", _scaled(tensor, np.abs(free))
    for turn in range(n_random):
        draws = rng.exponential(size=(rank, tensor.dim))
        # Every other start is near the axes, where the vectors of sparse terms are.
        yield "random", _scaled(tensor, draws**3 if turn % 2 else draws)


def _scaled(tensor: SymmetricTensor, vectors: Array) -> Array:
    """Return vectors in the directions of some, none of them zero, scaled so that their terms fit well."""
    units = unit_rows(vectors)
    gram, values = (units @ units.T) ** tensor.order, tensor(units)
    weights = np.linalg.lstsq(gram + 0.1 * np.eye(len(units)), values, rcond=None)[0]
    least = 1e-2 * max(float(np.abs(weights).max()), 1e-3 * tensor.norm())
    return units * np.maximum(weights, least)[:, None] ** (1 / tensor.order)


def _affordable_starts(tensor: SymmetricTensor, rank: int, budget: Budget) -> int:
    """Return how many random starts there is time for: those asked for, fewer in large problems."""
    by_products = PRODUCTS_PER_STEP * 2 * rank**2 * tensor.dim
    step = min(len(tensor.coefficients) * (rank * tensor.dim) ** 2, by_products)
    return min(budget.n_starts, max(int(SEARCH_WORK / (ACTIVE_SET_TURNS * SHORT_RUN * step)), FEWEST_STARTS))


def _finished(
    tensor: SymmetricTensor, candidate: CandidateTerms, max_iter: int, tol: float
) -> CandidateTerms:
    """Return the candidate refined to the end, in so many steps altogether."""
    first = candidate.refined
    left = max_iter - first.n_iter
    # Terms that may be exact go on to rounding.
    may_be_exact = candidate.residual <= MAY_BE_EXACT
    tol = float(np.finfo(float).eps) if may_be_exact else tol
    settled = first.converged and not may_be_exact
    if settled or first.gradient_norm <= tol or left <= 0:
        return candidate
    later = projected_gauss_newton(tensor, first.vectors, left, tol)
    return rated(tensor, candidate.method, first.then(later), polish=False)


class _Model:
    """The cost |T - sum_i (a_i . x)^d|^2 / (2 |T|^2), its gradient, and damped steps within the bounds."""

    # The residual is computed entry by entry, so that small costs are accurate too.
    rounding = 1e-31

    def __init__(self, tensor: SymmetricTensor, scale: float, vectors: Array) -> None:
        self.vectors = vectors
        self.roots = np.sqrt(tensor.multinomials)
        sums = monomial_values(vectors, tensor.order).sum(axis=0)
        self.residual = self.roots * (sums - tensor.coefficients / scale)
        self.cost = 0.5 * float(self.residual @ self.residual)
        self.may_be_exact = 2 * self.cost < MAY_BE_EXACT**2
        self.gram = TangentGram(vectors, np.ones(len(vectors)), tensor.order)
        contracted = tensor.contract_all(vectors, 1) / scale
        self.gradient = self.gram.first @ vectors - tensor.order * contracted
        # A term near zero hardly moves the sum: without a bound its steps would be without one, too.
        self.scales = np.maximum(self.gram.scales, max(1e-12 * float(self.gram.scales.max()), 1e-30))
        self.gram.scales = self.scales
        # Not free is what the bound holds back.
        self.free = (vectors > 0) | (self.gradient < 0)
        self.size = float(np.sqrt(np.sum(np.where(self.free, self.gradient, 0) ** 2 / self.scales[:, None])))

    def step(self, damping: float, *, dense: bool) -> Array:
        """Return the damped Gauss-Newton step; coordinates that it would make negative stop at zero."""
        free, step = self.free.copy(), np.zeros_like(self.vectors)
        solution = self._dense_solution if dense else self._solution
        for _ in range(ACTIVE_SET_TURNS):
            moved = solution(np.where(free, 0, step), free, damping)
            step = np.where(free, moved, step)
            crossing = free & (self.vectors + step < 0)
            if not crossing.any():
                break
            step[crossing] = -self.vectors[crossing]
            free &= ~crossing
        return np.maximum(self.vectors + step, 0) - self.vectors

    def decrease(self, step: Array, *, dense: bool) -> float:
        """Return by how much the quadratic model says that a step lowers the cost."""
        image = (self.curvature @ step.ravel()).reshape(step.shape) if dense else self.gram.product(step)
        return -float(np.sum(step * (self.gradient + 0.5 * image)))

    @cached_property
    def jacobian(self) -> Array:
        """The Jacobian of the residual, shape (n_coefficients, rank * dim)."""
        jacobian = power_jacobian(self.vectors, np.ones(len(self.vectors)), self.gram.order)
        return jacobian.reshape(len(self.roots), -1)

    @cached_property
    def curvature(self) -> Array:
        """The Hessian where it is positive definite in the free coordinates, shape (rank * dim, rank * dim).

        Elsewhere, and where the residual is so small that it makes no difference, that of Gauss and Newton.
        """
        normal: Array = self.jacobian.T @ self.jacobian
        if self.may_be_exact:
            return normal
        rank, dim = self.vectors.shape
        difference = SymmetricTensor(self.gram.order, dim, self.residual / self.roots)
        bends = difference.contract_all(self.vectors, 2)[:, product_positions(dim, 1, 1)]
        blocks = normal.reshape(rank, dim, rank, dim).copy()
        each = np.arange(rank)
        blocks[each, :, each, :] += self.gram.order * (self.gram.order - 1) * bends
        hessian: Array = blocks.reshape(normal.shape)
        where = self.free.ravel()
        try:
            np.linalg.cholesky(hessian[np.ix_(where, where)])
        except np.linalg.LinAlgError:
            return normal
        return hessian

    def _solution(self, held: Array, free: Array, damping: float) -> Array:
        """Return the damped step in the free coordinates, where the others take the step that is given."""
        target = np.where(free, -self.gradient - self.gram.product(held), 0)
        return self.gram.solve(target, damping, 1e-8, max_iter=PRODUCTS_PER_STEP, free=free)[0]

    def _dense_solution(self, held: Array, free: Array, damping: float) -> Array:
        """Return the same by a direct solution."""
        where = free.ravel()
        ridge = damping * np.repeat(self.scales, self.vectors.shape[1])[where]
        if damping > WELL_DAMPED or not self.may_be_exact:
            target = -self.gradient.ravel() - self.curvature @ held.ravel()
            matrix = self.curvature[np.ix_(where, where)] + np.diag(ridge)
            solution = _symmetric_solution(matrix, target[where])
        else:
            # Least squares: the accuracy depends on the condition of the Jacobian, and not on its square.
            target = -self.residual - self.jacobian @ held.ravel()
            padded = np.concatenate([target, np.zeros(len(ridge))])
            extended = np.concatenate([self.jacobian[:, where], np.diag(np.sqrt(ridge))])
            solution = np.linalg.lstsq(extended, padded, rcond=1e-15)[0]
        step = np.zeros_like(self.vectors)
        step[free] = solution
        return step


def _symmetric_solution(matrix: Array, target: Array) -> Array:
    try:
        return np.linalg.solve(matrix, target)
    except np.linalg.LinAlgError:  # a vector that is zero, hardly damped
        return np.asarray(np.linalg.lstsq(matrix, target, rcond=1e-15)[0])


def projected_gauss_newton(tensor: SymmetricTensor, vectors: Array, max_iter: int, tol: float) -> Refined:
    """Minimise |T - sum_i (a_i . x)^d|^2 over vectors a_i >= 0.

    Levenberg-Marquardt steps, in each of which the coordinates that reach zero
    are held there while the others are solved for again; with the exact Hessian
    near an optimum that is not the tensor, where those of Gauss and Newton are slow.

    Parameters
    ----------
    tensor : SymmetricTensor
        Real, of order at least 2.
    vectors : ndarray, shape (rank, dim)
        Non-negative.
    max_iter : int
    tol : float
        Stop when the gradient in the coordinates that are free to move,
        relative to ``|T|`` and to the terms, is below.

    Returns
    -------
    refined : Refined
    """
    scale = tensor.norm()
    unit = scale ** (1 / tensor.order)
    dense = len(tensor.coefficients) * vectors.size**2 <= DENSE_WORK
    model = _Model(tensor, scale, vectors / unit)
    damping, growth = 1e-3, 2.0
    history: list[float] = []
    while len(history) < max_iter and model.size > tol:
        step = model.step(damping, dense=dense)
        predicted = model.decrease(step, dense=dense)
        moved = _Model(tensor, scale, model.vectors + step)
        actual = model.cost - moved.cost
        at_rounding = abs(actual) <= 1e-15 * model.cost + model.rounding and moved.size < model.size
        if at_rounding or (predicted > 0 and actual > 1e-4 * predicted):
            ratio = 1.0 if at_rounding else actual / predicted
            model = moved
            damping = max(damping * max(0.1, 1 - (2 * ratio - 1) ** 3), 1e-15)
            growth = 2.0
        else:
            damping *= growth
            growth *= 2
        history.append(float(np.sqrt(2 * model.cost)))
        if damping > 1e12:
            break
    signs = np.ones(len(vectors))
    converged = model.size <= max(tol, 1e-9)
    return Refined(
        model.vectors * unit, signs, model.cost, model.size, converged, len(history), tuple(history)
    )
