"""Constrained decompositions: non-negative and orthogonal terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar._core.compiled import joint_rotation
from apolar.decomposition.hankel import HankelSVD
from apolar.decomposition.least_squares import gauss_newton
from apolar.decomposition.methods import METHODS
from apolar.decomposition.ranks import generic_rank, noise_floor_rank, numerical_rank
from apolar.decomposition.search import (
    CandidateTerms,
    DecompositionProblem,
    best_terms,
    compete,
    rate,
    run_work,
)
from apolar.decomposition.terms import Refined, absorb_weights
from apolar.decomposition.tuning import TUNING
from apolar.tensor import RowTensor, SymmetricTensor, n_monomials
from apolar.tensor.monomials import product_positions


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
    tensor = problem.tensor
    if tensor.order == 1 or tensor.dim == 1:
        return _single_term(problem)
    free, rank, source = _free_terms(problem, rng)
    affordable = max(int(TUNING.search_work / run_work(tensor, rank)), TUNING.few_starts)
    n_random = min(problem.budget.n_starts, affordable)
    runs = (
        _bounded_run(problem, method, vectors)
        for method, vectors in _starting_vectors(tensor, free, rank, rng, n_random)
    )
    best = compete(tensor, runs, problem.budget, TUNING.enough_hits)[0]
    first = best.refined
    # Terms that may be exact go on to rounding.
    tol = float(np.finfo(float).eps) if best.residual <= TUNING.nearly_exact else problem.budget.tol
    if first.gradient_norm > tol:
        steps = TUNING.long_run * problem.budget.max_iter
        later = gauss_newton(tensor, first.vectors, first.signs, max_iter=steps, tol=tol, is_nonnegative=True)
        best = rate(tensor, best.method, first.then(later), polish=False)
    return best, source


def _bounded_run(problem: DecompositionProblem, method: str, vectors: Array) -> CandidateTerms:
    refined = gauss_newton(
        problem.tensor,
        vectors,
        np.ones(len(vectors)),
        max_iter=problem.budget.max_iter,
        tol=problem.budget.tol,
        give_up_above=TUNING.promising,
        is_nonnegative=True,
    )
    return rate(problem.tensor, method, refined, polish=False)


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
    few = problem.with_starts(min(problem.budget.n_starts, TUNING.few_starts))
    return best_terms(replace(few, field="real"), rank, rng).refined.vectors, rank, source


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
        return _best_frame(problem, by_variable, rank, rng), source
    rank, source = numerical_rank(values), "the numerical rank of the first flattening"
    candidate = _best_frame(problem, by_variable, rank, rng)
    above_floor = noise_floor_rank(values)
    if above_floor is not None and not candidate.exact:
        rank, source = above_floor, "the singular values of the first flattening above a floor of noise"
        candidate = _best_frame(problem, by_variable, rank, rng)
    return candidate, source


def _best_frame(
    problem: DecompositionProblem, by_variable: HankelSVD, rank: int, rng: np.random.Generator
) -> CandidateTerms:
    """Return the best terms of all starts; the first that are exact or have no rival."""
    tensor, budget = problem.tensor, problem.budget

    def climb(method: str, frame: Array) -> CandidateTerms:
        refined = polar_ascent(tensor, frame, max_iter=10 * budget.max_iter, tol=budget.tol)
        candidate = rate(tensor, method, refined, polish=False)
        if candidate.residual >= TUNING.nearly_exact:
            return candidate
        frame, tol = unit_rows(refined.vectors), float(np.finfo(float).eps)  # on to rounding
        last = polar_ascent(tensor, frame, max_iter=budget.max_iter, tol=tol)
        return rate(tensor, method, refined.then(last), polish=False)

    starts = _starting_frames(tensor, by_variable, rank, rng, budget.n_starts)
    return compete(tensor, (climb(*start) for start in starts), budget, TUNING.enough_hits)[0]


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
