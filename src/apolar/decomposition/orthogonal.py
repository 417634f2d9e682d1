"""The best approximation by powers of orthonormal linear forms, r <= m of them."""

from collections.abc import Iterator

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.candidates import Budget, CandidateTerms, better, rated
from apolar.decomposition.flattening import Flattening
from apolar.decomposition.gauss_newton import Refined
from apolar.decomposition.jacobi import joint_rotation
from apolar.decomposition.methods import Problem
from apolar.decomposition.polish import NEARLY_EXACT
from apolar.decomposition.ranks import noise_floor_rank, numerical_rank
from apolar.decomposition.search import is_certified
from apolar.decomposition.waring import absorbed_weights
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import product_positions

# Steps are cheap, and where no tensor of the kind is near they converge slowly.
STEPS = 10
# Starts that lead to the best terms before the search ends, where these leave less than this of the tensor:
# of one that is farther there are many local optima.
ENOUGH_HITS = 3
CLOSE = 0.5


def orthogonal(problem: Problem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the best terms with orthonormal points, and where their number comes from.

    The best weights for orthonormal points are the values T(v_i), and leave
    ``|T|^2 - sum_i T(v_i)^2`` of the square of the norm: the sum is maximised
    over orthonormal points.

    Parameters
    ----------
    problem : Problem
        Real.
    rng : numpy.random.Generator

    Returns
    -------
    candidate : CandidateTerms
    source : str
    """
    tensor = problem.tensor
    by_variable = Flattening.of(tensor, 1)
    values = by_variable.singular_values
    if problem.rank is not None:
        rank, source = problem.resolved_rank()
        if rank > tensor.dim:
            raise ValueError(
                f"There are no {rank} orthonormal points in {tensor.dim} dimensions: ask for a rank of at "
                f"most {tensor.dim}, or leave out constraint='orthogonal'."
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
    tensor: SymmetricTensor, by_variable: Flattening, rank: int, rng: np.random.Generator, budget: Budget
) -> CandidateTerms:
    """Return the best terms of all starts; the first that are exact or have no rival."""
    best: CandidateTerms | None = None
    hits = 0
    for method, frame in _starting_frames(tensor, by_variable, rank, rng, budget.n_starts):
        if best is not None and budget.is_spent:
            break
        refined = polar_ascent(tensor, frame, max_iter=STEPS * budget.max_iter, tol=budget.tol)
        candidate = rated(tensor, method, refined, polish=False)
        if candidate.residual < NEARLY_EXACT:  # on to rounding
            frame, tol = unit_rows(refined.vectors), float(np.finfo(float).eps)
            last = polar_ascent(tensor, frame, max_iter=budget.max_iter, tol=tol)
            candidate = rated(tensor, method, refined.then(last), polish=False)
        if best is None or candidate.residual < (1 - 1e-6) * best.residual:
            hits = 1
        elif candidate.residual <= (1 + 1e-6) * best.residual:
            hits += 1
        if best is None or better(candidate, best):
            best = candidate
        if best.exact or (hits >= ENOUGH_HITS and best.residual < CLOSE) or is_certified(tensor, best):
            break
    assert best is not None  # there is a start at least
    return best


def _starting_frames(
    tensor: SymmetricTensor, by_variable: Flattening, rank: int, rng: np.random.Generator, n_random: int
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
    values, gradient, slope = _gradient(tensor, frame)
    explained, size = float(values @ values) / square, float(np.linalg.norm(slope)) / square
    shift = 0.0
    history: list[float] = []
    while len(history) < max_iter and size > tol:
        moved = _polar(gradient + shift * frame)
        values_moved, gradient_moved, slope_moved = _gradient(tensor, moved)
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
    vectors, signs = absorbed_weights(values, frame, tensor.order)
    cost = max(0.5 * (1 - explained), 0.0)
    return Refined(vectors, signs, cost, size, size <= max(tol, 1e-9), len(history), tuple(history))


def _gradient(tensor: SymmetricTensor, frame: Array) -> tuple[Array, Array, Array]:
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
