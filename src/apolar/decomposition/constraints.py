"""Constrained decompositions: non-negative and orthogonal terms."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array, svd, unit_rows
from apolar._core.compiled import joint_rotation
from apolar.decomposition.least_squares import gauss_newton, has_converged
from apolar.decomposition.methods import (
    DecompositionProblem,
    auto_method,
    best_terms,
    compete,
    n_affordable,
    rate,
)
from apolar.decomposition.ranks import (
    HankelSVD,
    generic_rank,
    noise_floor_rank,
    numerical_rank,
    resolve_rank,
)
from apolar.decomposition.terms import Terms, absorb_weights
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import product_positions


def nonnegative(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str]:
    """Return the best terms with points and weights >= 0, and where their number comes from.

    Parameters
    ----------
    problem : DecompositionProblem
        Real, of order at least 2.
    rng : numpy.random.Generator

    Returns
    -------
    terms : Terms
    source : str
    """
    free, rank, source = _free_terms(problem, rng)

    def run(terms: Terms, max_iter: int, tol: float, give_up_above: float) -> Terms:
        moved = gauss_newton(
            problem.tensor,
            terms,
            max_iter=max_iter,
            tol=tol,
            give_up_above=give_up_above,
            is_nonnegative=True,
        )
        return rate(problem.tensor, moved, may_move=False)

    starts = _starting_terms(problem, free, rank, rng)
    runs = (run(start, problem.max_iter, problem.tol, TUNING.promising) for start in starts)
    best = compete(problem, runs, TUNING.enough_hits)[0]
    # Terms that may be exact go on to rounding.
    tol = float(np.finfo(float).eps) if best.residual <= TUNING.nearly_exact else problem.tol
    if best.gradient_size > tol:
        best = run(best, TUNING.long_run * problem.max_iter, tol, np.inf)
    return best, source


def _free_terms(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Array | None, int, str]:
    """Return vectors of the best terms of any sign, where they say something, the rank and its source."""
    tensor = problem.tensor
    if problem.rank is None and tensor.order > 2:
        terms, source = auto_method(problem, rng)
        if not terms.is_settled:
            raise ValueError(
                "Neither the rank of the tensor nor the number of its non-negative terms is settled: "
                "give the rank."
            )
        return terms.vectors, terms.rank, source
    rank, source = resolve_rank(problem.rank, problem.flattening.singular_values)
    if rank > len(tensor.coefficients):  # the theorem of Caratheodory for cones
        raise ValueError(
            f"Rank {rank}: no sum of non-negative terms needs more than the {len(tensor.coefficients)} that "
            "the tensor has coefficients. Ask for fewer."
        )
    if rank > generic_rank(tensor.dim, tensor.order) or tensor.order == 2:
        return None, rank, source  # exact terms of any sign are many, and say nothing
    few = replace(problem, n_starts=min(problem.n_starts, TUNING.few_starts))
    return best_terms(few, rank, rng).vectors, rank, source


def _starting_terms(
    problem: DecompositionProblem, free: Array | None, rank: int, rng: np.random.Generator
) -> Iterator[Terms]:
    """Yield non-negative terms: near the best terms of any sign, then random ones."""
    tensor = problem.tensor
    if free is not None:
        # A vector and its opposite are the same term up to its sign: the one with the larger positive part.
        upper, lower = np.maximum(free, 0), np.maximum(-free, 0)
        turned = np.linalg.norm(lower, axis=1) > np.linalg.norm(upper, axis=1)
        yield _scale_to_fit(tensor, "positive part", np.where(turned[:, None], lower, upper))
    for turn in range(n_affordable(problem, rank, problem.n_starts)):
        draws = rng.exponential(size=(rank, tensor.dim))
        # Every other start is near the axes, where the vectors of sparse terms are.
        yield _scale_to_fit(tensor, "random", draws**3 if turn % 2 else draws)


def _scale_to_fit(tensor: SymmetricTensor, method: str, vectors: Array) -> Terms:
    """Return terms in the directions of some vectors, none of them zero, scaled so that they fit well."""
    units = unit_rows(vectors)
    gram, values = (units @ units.T) ** tensor.order, tensor(units)
    weights = np.linalg.solve(gram + 0.1 * np.eye(len(units)), values)
    least = 1e-2 * max(float(np.abs(weights).max()), 1e-3 * tensor.norm())
    return Terms(*absorb_weights(np.maximum(weights, least), units, tensor.order), method)


def orthogonal(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str]:
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
    terms : Terms
    source : str
    """
    tensor = problem.tensor
    by_variable = HankelSVD(tensor, 1)
    if problem.rank is not None:
        rank, source = resolve_rank(problem.rank, problem.flattening.singular_values)
        if rank > tensor.dim:
            raise ValueError(
                f"There are no {rank} orthonormal points in {tensor.dim} dimensions: ask for a rank of at "
                f"most {tensor.dim}, or leave out the constraint."
            )
        return _best_frame(problem, by_variable, rank, rng), source
    values = by_variable.singular_values
    terms = _best_frame(problem, by_variable, numerical_rank(values), rng)
    above_floor = noise_floor_rank(values)
    if above_floor is None or terms.is_exact:
        return terms, "the numerical rank of the first flattening"
    source = "the singular values of the first flattening above a floor of noise"
    return _best_frame(problem, by_variable, above_floor, rng), source


def _best_frame(
    problem: DecompositionProblem, by_variable: HankelSVD, rank: int, rng: np.random.Generator
) -> Terms:
    """Return the best terms of all starts; the first that are exact or have no rival."""
    tensor, max_iter = problem.tensor, 2 * TUNING.long_run * problem.max_iter
    runs = (
        rate(tensor, polar_ascent(tensor, frame, method, max_iter=max_iter, tol=problem.tol), may_move=False)
        for method, frame in _starting_frames(tensor, by_variable, rank, rng, problem.n_starts)
    )
    return compete(problem, runs, TUNING.enough_hits)[0]


def _starting_frames(
    tensor: SymmetricTensor, by_variable: HankelSVD, rank: int, rng: np.random.Generator, n_random: int
) -> Iterator[tuple[str, Array]]:
    """Yield orthonormal points, shape (rank, dim), the likeliest first.

    Joint eigenvectors of the slices: of the whole tensor, keeping the
    largest terms, and of its projection on the leading directions.
    """
    frame = _joint_eigenvectors(tensor, rng)
    yield "jacobi", frame[np.argsort(-np.abs(tensor(frame)), kind="stable")[:rank]]
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


def polar_ascent(tensor: SymmetricTensor, frame: Array, method: str, *, max_iter: int, tol: float) -> Terms:
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
    method : str
        Where they come from.
    max_iter : int
    tol : float
        Stop when the gradient, relative to ``|T|^2``, is below; that of exact terms goes on to rounding.

    Returns
    -------
    terms : Terms
    """
    unit = 1 / tensor.norm()
    values, gradient, explained, size = _frame_gradient(tensor, frame, unit)
    shift, rounding = 0.0, np.finfo(float).eps
    history: list[float] = []
    while len(history) < max_iter and size > (rounding if 1 - explained < TUNING.nearly_exact**2 else tol):
        left, _, right = svd(gradient + shift * frame)
        moved = left @ right
        there = _frame_gradient(tensor, moved, unit)
        gained = there[2] - explained
        # At rounding the sum says nothing, and the gradient must be smaller.
        if gained > TUNING.rounding or (gained > -TUNING.rounding and there[3] < size):
            frame, (values, gradient, explained, size) = moved, there
            shift *= 0.5
        elif shift > 1e3:
            break
        else:
            shift = max(4 * shift, 0.1)
        history.append(float(np.sqrt(max(1 - explained, 0.0))))
    return Terms(
        *absorb_weights(values / unit, frame, tensor.order),
        method,
        gradient_size=size,
        converged=has_converged(size, tol),
        n_iter=len(history),
        history=tuple(history),
    )


def _frame_gradient(tensor: SymmetricTensor, frame: Array, unit: float) -> tuple[Array, Array, float, float]:
    """Return the values T(v_i), the gradient of half the sum of their squares over d, and two numbers.

    These are the sum, and the size of the gradient along the frames. The tensor is multiplied by `unit`.
    """
    contracted = unit * tensor.contract_all(frame, 1)
    values = np.einsum("ij,ij->i", contracted, frame)
    gradient = values[:, None] * contracted
    inner = gradient @ frame.T
    slope = gradient - 0.5 * (inner + inner.T) @ frame
    return values, gradient, float(values @ values), float(np.linalg.norm(slope))


CONSTRAINTS: dict[str, Callable[[DecompositionProblem, np.random.Generator], tuple[Terms, str]]] = {
    "nonnegative": nonnegative,
    "orthogonal": orthogonal,
}
"""Each returns terms that keep it, refined, and where their number comes from."""


def check_constraint(constraint: str, method: str, field: str, refine: bool) -> None:
    """Refuse what has no meaning together with a constraint."""
    given = f"The constraint {constraint!r}"
    if method != "auto":
        raise ValueError(
            f"{given} has its own search, which method='{method}' does not replace: leave out one of them."
        )
    if field == "complex":
        raise ValueError(f"{given} is about real points: leave out the field 'complex'.")
    if not refine:
        raise ValueError(f"{given} is enforced by the refinement, which is switched off.")


def drop_zero_terms(constraint: str, tensor: SymmetricTensor, terms: Terms, source: str) -> tuple[Terms, str]:
    """Return the terms without those that are zero, and the source of the rank.

    Raises
    ------
    ValueError
        If all terms are zero: nothing that keeps the constraint is nearer to the tensor.
    """
    kept = terms.sizes(tensor.order) > TUNING.rounding * tensor.norm()
    if kept.all():
        return terms, source
    if not kept.any():
        raise ValueError(
            f"No term under the constraint {constraint!r} was found that is nearer to this tensor than zero: "
            "leave out the constraint, or change the sign of the tensor."
        )
    fewer = replace(terms, vectors=terms.vectors[kept], signs=terms.signs[kept])
    return fewer, f"{source}, less {np.count_nonzero(~kept)} that would be zero"
