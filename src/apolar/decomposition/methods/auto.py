"""The method "auto": the best of all methods and random starts, at a rank that is given or detected."""

from dataclasses import replace

import numpy as np

from apolar.decomposition import ranks
from apolar.decomposition.methods.pencil import pencil_candidate
from apolar.decomposition.methods.problem import Problem
from apolar.decomposition.methods.spm import spm_candidate
from apolar.decomposition.search import CandidateTerms, best_terms, converged, rated
from apolar.decomposition.starts import pencil_or_none, unrefined
from apolar.tensor import SymmetricTensor, n_monomials

# Terms of a detected rank that leave more than this of the tensor are not its own; what is less may be noise.
FAR = 0.01
# Up to this many monomials, ranks above that of the Hankel matrix are tried one after another.
FEW_MONOMIALS = 40


def auto(problem: Problem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the best terms, and where their number comes from."""
    tensor, flattening, budget = problem.tensor, problem.flattening, problem.budget
    rank, source = problem.resolved_rank()
    largest = 2 * ranks.generic_rank(tensor.dim, tensor.order)
    if rank > largest:
        raise ValueError(
            f"Rank {rank}: no form of degree {tensor.order} in {tensor.dim} variables "
            f"has a rank above {largest}."  # twice the generic rank [blekherman2015]
        )
    if not problem.refine:
        return _best_unrefined(problem, rank, rng), source
    if problem.rank is not None:
        return best_terms(tensor, flattening, rank, problem.field, rng, budget), source
    exact = _exact_pencil(problem, rank, rng)
    if exact is not None:
        return exact, source
    above_floor = ranks.noise_floor_rank(flattening.singular_values)
    if above_floor is not None:
        candidate = best_terms(tensor, flattening, above_floor, problem.field, rng, budget)
        if _is_near(candidate):
            return candidate, "the singular values above a floor of noise"
    first = best_terms(tensor, flattening, rank, problem.field, rng, budget)
    is_small = n_monomials(tensor.dim, tensor.order) <= FEW_MONOMIALS
    if first.exact or _is_near(first) or not is_small:
        return first, source
    half_budget = replace(budget, n_starts=max(budget.n_starts // 2, 1))
    for higher in range(_next_rank(tensor, rank, problem.field), largest + 1):
        candidate = best_terms(tensor, flattening, higher, problem.field, rng, half_budget)
        if candidate.exact:
            return candidate, f"raised until exact, from the Hankel matrix's {rank}"
    return first, source


def _is_near(candidate: CandidateTerms) -> bool:
    return candidate.residual <= FAR and not candidate.diverging


def _next_rank(tensor: SymmetricTensor, rank: int, field: str) -> int:
    """Return the next rank that is possible after that of the Hankel matrix, which was not exact.

    By Sylvester's theorem a binary form has over C either that rank, or order + 2 less that rank.
    """
    if tensor.dim == 2 and field != "real":
        return max(rank + 1, tensor.order + 2 - rank)
    return rank + 1


def _exact_pencil(problem: Problem, rank: int, rng: np.random.Generator) -> CandidateTerms | None:
    """Return the terms of algorithm 2 if they are the tensor's own."""
    points = pencil_or_none(problem.tensor, problem.flattening, rank, rng)
    if points is None or (problem.field == "real" and np.iscomplexobj(points)):
        return None
    start = rated(problem.tensor, "pencil", unrefined(problem.tensor, points))
    if start.residual > 1e-3 or start.diverging:
        return None
    finished = converged(problem.tensor, start, problem.budget)
    return finished if finished.exact else None


def _best_unrefined(problem: Problem, rank: int, rng: np.random.Generator) -> CandidateTerms:
    """Return the better of the structured methods, as they come."""
    candidates: list[CandidateTerms] = []
    reason: ValueError | None = None
    for structured in (pencil_candidate, spm_candidate):
        try:
            candidates.append(structured(problem, rank, rng))
        except ValueError as error:
            reason = error
    if not candidates:
        raise ValueError(f"No method gives rank {rank} without refinement; pass refine=True.") from reason
    return min(candidates, key=lambda candidate: candidate.residual)
