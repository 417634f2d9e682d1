"""Constrained decompositions: non-negative and orthogonal terms."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.hankel import HankelSVD
from apolar.decomposition.methods import METHODS, DecompositionProblem
from apolar.decomposition.pencil import joint_rotation
from apolar.decomposition.ranks import generic_rank, noise_floor_rank, numerical_rank
from apolar.decomposition.term_search import Budget, CandidateTerms, best_terms, is_better, is_certified, rate
from apolar.decomposition.terms import Refined, TangentGram, absorb_weights, power_jacobian
from apolar.decomposition.tuning import TUNING
from apolar.tensor import RowTensor, SymmetricTensor, n_monomials
from apolar.tensor.monomials import monomial_values, product_positions


def nonnegative(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the best terms with points and weights >= 0, and where their number comes from.

    Parameters
    ----------
    problem : DecompositionProblem
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
    n_random = _affordable_bounded_starts(tensor, rank, budget)
    for method, vectors in _starting_vectors(tensor, free, rank, rng, n_random):
        if best is not None and budget.is_spent:
            break
        steps = min(TUNING.short_run, budget.max_iter)
        candidate = rate(
            tensor, method, projected_gauss_newton(tensor, vectors, steps, budget.tol), polish=False
        )
        if best is None or candidate.residual < (1 - 1e-4) * best.residual:
            hits = 1
            candidate = _finish_candidate(tensor, candidate, budget.max_iter, budget.tol)
        elif candidate.residual <= (1 + 1e-4) * best.residual:
            hits += 1
        if best is None or is_better(candidate, best):
            best = candidate
        if best.exact or hits >= TUNING.enough_hits or is_certified(tensor, best):
            break
    assert best is not None  # there is a start at least
    return _finish_candidate(tensor, best, TUNING.long_run * budget.max_iter, budget.tol), source


def _single_term(problem: DecompositionProblem) -> tuple[CandidateTerms, str]:
    """Return the positive part of a linear form, or of one in a single variable."""
    tensor = problem.tensor
    rank, source = problem.resolve_rank()
    if rank > 1:
        raise ValueError("This form is a power of one linear form: its rank is 1.")
    vectors = np.maximum(tensor.coefficients, 0)[None] ** (1 / tensor.order)
    refined = Refined(vectors, np.ones(1), float("nan"), 0.0, True, 0, ())
    return rate(tensor, "direct", refined, polish=False), source


def _free_terms(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Array | None, int, str]:
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
    rank, source = problem.resolve_rank()
    if rank > len(tensor.coefficients):  # the theorem of Caratheodory for cones
        raise ValueError(
            f"Rank {rank}: no sum of non-negative terms needs more than the {len(tensor.coefficients)} that "
            "the tensor has coefficients. Ask for fewer."
        )
    if rank > generic_rank(tensor.dim, tensor.order) or tensor.order == 2:
        return None, rank, source  # exact terms of any sign are many, and say nothing
    budget = replace(problem.budget, n_starts=min(problem.budget.n_starts, TUNING.few_starts))
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
        yield "positive part", _scale_to_fit(tensor, np.where(turned[:, None], lower, upper))
        yield "absolute values", _scale_to_fit(tensor, np.abs(free))
    for turn in range(n_random):
        draws = rng.exponential(size=(rank, tensor.dim))
        # Every other start is near the axes, where the vectors of sparse terms are.
        yield "random", _scale_to_fit(tensor, draws**3 if turn % 2 else draws)


def _scale_to_fit(tensor: SymmetricTensor, vectors: Array) -> Array:
    """Return vectors in the directions of some, none of them zero, scaled so that their terms fit well."""
    units = unit_rows(vectors)
    gram, values = (units @ units.T) ** tensor.order, tensor(units)
    weights = np.linalg.lstsq(gram + 0.1 * np.eye(len(units)), values, rcond=None)[0]
    least = 1e-2 * max(float(np.abs(weights).max()), 1e-3 * tensor.norm())
    return units * np.maximum(weights, least)[:, None] ** (1 / tensor.order)


def _affordable_bounded_starts(tensor: SymmetricTensor, rank: int, budget: Budget) -> int:
    """Return how many random starts there is time for: those asked for, fewer in large problems."""
    by_products = 200 * 2 * rank**2 * tensor.dim
    step = min(len(tensor.coefficients) * (rank * tensor.dim) ** 2, by_products)
    return min(budget.n_starts, max(int(TUNING.step_work / (4 * TUNING.short_run * step)), TUNING.few_starts))


def _finish_candidate(
    tensor: SymmetricTensor, candidate: CandidateTerms, max_iter: int, tol: float
) -> CandidateTerms:
    """Return the candidate refined to the end, in so many steps altogether."""
    first = candidate.refined
    left = max_iter - first.n_iter
    # Terms that may be exact go on to rounding.
    may_be_exact = candidate.residual <= TUNING.nearly_exact
    tol = float(np.finfo(float).eps) if may_be_exact else tol
    settled = first.converged and not may_be_exact
    if settled or first.gradient_norm <= tol or left <= 0:
        return candidate
    later = projected_gauss_newton(tensor, first.vectors, left, tol)
    return rate(tensor, candidate.method, first.then(later), polish=False)


class _BoundedModel:
    """The cost |T - sum_i (a_i . x)^d|^2 / (2 |T|^2), its gradient, and damped steps within the bounds."""

    # The residual is computed entry by entry, so that small costs are accurate too.
    rounding = 1e-31

    def __init__(self, tensor: SymmetricTensor, scale: float, vectors: Array) -> None:
        self.vectors = vectors
        self.roots = np.sqrt(tensor.multinomials)
        sums = monomial_values(vectors, tensor.order).sum(axis=0)
        self.residual = self.roots * (sums - tensor.coefficients / scale)
        self.cost = 0.5 * float(self.residual @ self.residual)
        self.may_be_exact = 2 * self.cost < TUNING.nearly_exact**2
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
        for _ in range(4):
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
        return self.gram.solve(target, damping, 1e-8, max_iter=200, free=free)[0]

    def _dense_solution(self, held: Array, free: Array, damping: float) -> Array:
        """Return the same by a direct solution."""
        where = free.ravel()
        ridge = damping * np.repeat(self.scales, self.vectors.shape[1])[where]
        if damping > TUNING.well_damped or not self.may_be_exact:
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
    dense = len(tensor.coefficients) * vectors.size**2 <= TUNING.long_dense_work
    model = _BoundedModel(tensor, scale, vectors / unit)
    damping, growth = 1e-3, 2.0
    history: list[float] = []
    while len(history) < max_iter and model.size > tol:
        step = model.step(damping, dense=dense)
        predicted = model.decrease(step, dense=dense)
        moved = _BoundedModel(tensor, scale, model.vectors + step)
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


def orthogonal(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the best terms with orthonormal points, and where their number comes from.

    The best weights for orthonormal points are the values T(v_i), and leave
    ``|T|^2 - sum_i T(v_i)^2`` of the square of the norm: the sum is maximised
    over orthonormal points.

    Parameters
    ----------
    problem : DecompositionProblem
        Real.
    rng : numpy.random.Generator

    Returns
    -------
    candidate : CandidateTerms
    source : str
    """
    tensor = problem.tensor
    by_variable = HankelSVD.of(tensor, 1)
    values = by_variable.singular_values
    if problem.rank is not None:
        rank, source = problem.resolve_rank()
        if rank > tensor.dim:
            raise ValueError(
                f"There are no {rank} orthonormal points in {tensor.dim} dimensions: ask for a rank of at "
                f"most {tensor.dim}, or leave out the constraint."
            )
        return _best_frame(tensor, by_variable, rank, rng, problem.budget), source
    rank, source = numerical_rank(values), "the numerical rank of the first flattening"
    candidate = _best_frame(tensor, by_variable, rank, rng, problem.budget)
    above_floor = noise_floor_rank(values)
    if above_floor is not None and not candidate.exact:
        rank, source = above_floor, "the singular values of the first flattening above a floor of noise"
        candidate = _best_frame(tensor, by_variable, rank, rng, problem.budget)
    return candidate, source


def _best_frame(
    tensor: SymmetricTensor, by_variable: HankelSVD, rank: int, rng: np.random.Generator, budget: Budget
) -> CandidateTerms:
    """Return the best terms of all starts; the first that are exact or have no rival."""
    best: CandidateTerms | None = None
    hits = 0
    for method, frame in _starting_frames(tensor, by_variable, rank, rng, budget.n_starts):
        if best is not None and budget.is_spent:
            break
        refined = polar_ascent(tensor, frame, max_iter=10 * budget.max_iter, tol=budget.tol)
        candidate = rate(tensor, method, refined, polish=False)
        if candidate.residual < TUNING.nearly_exact:  # on to rounding
            frame, tol = unit_rows(refined.vectors), float(np.finfo(float).eps)
            last = polar_ascent(tensor, frame, max_iter=budget.max_iter, tol=tol)
            candidate = rate(tensor, method, refined.then(last), polish=False)
        if best is None or candidate.residual < (1 - 1e-6) * best.residual:
            hits = 1
        elif candidate.residual <= (1 + 1e-6) * best.residual:
            hits += 1
        if best is None or is_better(candidate, best):
            best = candidate
        if best.exact or (hits >= TUNING.enough_hits and best.residual < 0.5) or is_certified(tensor, best):
            break
    assert best is not None  # there is a start at least
    return best


def _starting_frames(
    tensor: SymmetricTensor, by_variable: HankelSVD, rank: int, rng: np.random.Generator, n_random: int
) -> Iterator[tuple[str, Array]]:
    """Yield orthonormal points, shape (rank, dim), the likeliest first.

    Joint eigenvectors of the slices: of the whole tensor, of which the
    largest terms are kept, and of its projection on the leading directions.
    """
    yield "jacobi", _largest(tensor, _joint_eigenvectors(tensor, rng), rank)
    if rank < tensor.dim:
        basis = by_variable.left[:, :rank]
        yield "jacobi", _joint_eigenvectors(tensor.change_variables(basis), rng) @ basis.T
    for _ in range(n_random):
        yield "random", np.linalg.qr(rng.standard_normal((tensor.dim, rank)))[0].T


def _joint_eigenvectors(tensor: SymmetricTensor, rng: np.random.Generator) -> Array:
    """Return orthonormal points that best diagonalise contractions of the tensor to matrices."""
    if tensor.order == 3:
        directions = np.eye(tensor.dim)  # their contractions are all the slices
    else:
        directions = rng.standard_normal((2 * tensor.dim, tensor.dim))
    matrices = tensor.contract_all(directions, 2)[:, product_positions(tensor.dim, 1, 1)]
    return joint_rotation(matrices).T


def _largest(tensor: SymmetricTensor, frame: Array, rank: int) -> Array:
    return frame[np.argsort(-np.abs(tensor(frame)), kind="stable")[:rank]]


def polar_ascent(tensor: SymmetricTensor, frame: Array, *, max_iter: int, tol: float) -> Refined:
    """Maximise sum_i T(v_i)^2 over orthonormal v_i [chen2009].

    A step goes to the orthonormal points nearest to the gradient, the polar
    factor of a matrix. A multiple of the points is added to the gradient
    where the sum would decrease without.

    Parameters
    ----------
    tensor : SymmetricTensor
        Real.
    frame : ndarray, shape (rank, dim)
        Orthonormal rows.
    max_iter : int
    tol : float
        Stop when the gradient, relative to ``|T|^2``, is below.

    Returns
    -------
    refined : Refined
    """
    square = tensor.norm() ** 2
    values, gradient, slope = _frame_gradient(tensor, frame)
    explained, size = float(values @ values) / square, float(np.linalg.norm(slope)) / square
    shift = 0.0
    history: list[float] = []
    while len(history) < max_iter and size > tol:
        moved = _polar(gradient + shift * frame)
        values_moved, gradient_moved, slope_moved = _frame_gradient(tensor, moved)
        explained_moved = float(values_moved @ values_moved) / square
        size_moved = float(np.linalg.norm(slope_moved)) / square
        gained = explained_moved - explained
        # At rounding the sum says nothing, and the gradient is to be smaller.
        if gained > 1e-14 or (gained > -1e-14 and size_moved < size):
            frame, values, gradient = moved, values_moved, gradient_moved
            explained, size = explained_moved, size_moved
            shift *= 0.5
        elif shift > 1e3 * square:
            break
        else:
            shift = max(4 * shift, 0.1 * square)
        history.append(float(np.sqrt(max(1 - explained, 0.0))))
    vectors, signs = absorb_weights(values, frame, tensor.order)
    cost = max(0.5 * (1 - explained), 0.0)
    return Refined(vectors, signs, cost, size, size <= max(tol, 1e-9), len(history), tuple(history))


def _frame_gradient(tensor: SymmetricTensor, frame: Array) -> tuple[Array, Array, Array]:
    """Return the T(v_i), the gradient of half the sum of their squares over d, and its tangent part."""
    contracted = tensor.contract_all(frame, 1)
    values = np.einsum("ij,ij->i", contracted, frame)
    gradient = values[:, None] * contracted
    inner = gradient @ frame.T
    return values, gradient, gradient - 0.5 * (inner + inner.T) @ frame


def _polar(matrix: Array) -> Array:
    """Return the matrix with orthonormal rows nearest to a matrix."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


CONSTRAINTS: dict[str, Callable[[DecompositionProblem, np.random.Generator], tuple[CandidateTerms, str]]] = {
    "nonnegative": nonnegative,
    "orthogonal": orthogonal,
}
"""Each returns terms that keep it, refined, and where their number comes from."""


def check_constraint(constraint: str, method: str, field: str, refine: bool) -> None:
    """Refuse what has no meaning together with a constraint."""
    given = f"The constraint {constraint!r}"
    if method != "auto":
        raise ValueError(
            f"{given} has its own search, and method='{method}' knows nothing of it: leave out one of them."
        )
    if field == "complex":
        raise ValueError(f"{given} is about real points: leave out the field 'complex'.")
    if not refine:
        raise ValueError(f"{given} is enforced by the refinement, which is switched off.")


def form_rows(tensor: RowTensor, constraint: str) -> SymmetricTensor:
    """Return a sum of powers of rows with its coefficients, which a constrained search needs."""
    size = n_monomials(tensor.dim, tensor.order)
    if size > TUNING.max_formed:
        raise ValueError(
            f"The constraint {constraint!r} needs the coefficients of the tensor: {size:,} of order "
            f"{tensor.order} in {tensor.dim} variables. Reduce the columns of the rows first, or leave "
            "out the constraint."
        )
    return tensor.to_tensor()


def constrained_terms(
    constraint: str, problem: DecompositionProblem, rng: np.random.Generator
) -> tuple[CandidateTerms, str]:
    """Return the best terms that keep a constraint, without those that are zero, and the source of the rank.

    Raises
    ------
    ValueError
        If all terms are zero: nothing that keeps the constraint is nearer to the tensor.
    """
    candidate, source = CONSTRAINTS[constraint](problem, rng)
    tensor, refined = problem.tensor, candidate.refined
    kept = np.linalg.norm(refined.vectors, axis=1) ** tensor.order > TUNING.vanishing * tensor.norm()
    if kept.all():
        return candidate, source
    if not kept.any():
        raise ValueError(
            f"No term under the constraint {constraint!r} was found that is nearer to this tensor than zero: "
            "leave out the constraint, or change the sign of the tensor."
        )
    terms = replace(refined, vectors=refined.vectors[kept], signs=refined.signs[kept])
    source += f", less {np.count_nonzero(~kept)} that would be zero"
    return rate(tensor, candidate.method, terms, polish=False), source
