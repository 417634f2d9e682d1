"""The method "auto": the best of all methods and random starts, at a rank that is given or detected."""

from dataclasses import replace

import numpy as np

from apolar.decomposition import ranks
from apolar.decomposition.candidates import Budget, CandidateTerms, converged, rated
from apolar.decomposition.methods.pencil import pencil_candidate
from apolar.decomposition.methods.problem import Problem
from apolar.decomposition.methods.spm import spm_candidate
from apolar.decomposition.raising import (
    FEW_MONOMIALS,
    MANY_MONOMIALS,
    RankBounds,
    coprime_terms,
    raised,
    terms_below_generic,
)
from apolar.decomposition.search import best_terms
from apolar.decomposition.starts import pencil_or_none, structured_limit, unrefined
from apolar.tensor import SymmetricTensor, n_monomials

# Terms of a detected rank that leave more than this of the tensor are not its own; what is less may be noise.
FAR = 0.01
# Terms with more numbers than this part of the tensor's come near to any tensor.
MOST = 0.9
# What terms leave is noise if it is not more than this times what the singular values show.
SAME_NOISE = 1.5


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
    return _of_unknown_rank(problem, rank, source, rng)


def _of_unknown_rank(
    problem: Problem, rank: int, source: str, rng: np.random.Generator
) -> tuple[CandidateTerms, str]:
    """Return the best terms at a rank that the tensor tells, and how it told it."""
    tensor, flattening, budget = problem.tensor, problem.flattening, problem.budget
    exact = _exact_pencil(problem, rank, rng)
    if exact is not None:
        return exact, source
    known = coprime_terms(problem)
    if known is not None:
        return known, "the ranks of monomials that share no variable"
    budget = _first_budget(problem, rank)
    first: CandidateTerms | None = None
    above_floor = ranks.noise_floor_rank(flattening.singular_values)
    if above_floor is not None:
        if rank < len(flattening.singular_values):
            # Noise leaves no singular value at rounding: what looks like a floor may be small terms.
            first = best_terms(tensor, flattening, rank, problem.field, rng, budget)
            if first.exact:
                return first, source
        candidate = best_terms(tensor, flattening, above_floor, problem.field, rng, problem.budget)
        if candidate.residual <= FAR and not candidate.diverging:
            return _as_noisy(candidate, "the singular values above a floor of noise")
    if n_monomials(tensor.dim, tensor.order) > MANY_MONOMIALS and rank == len(flattening.singular_values):
        # Noise may fill the matrix: if its spectrum shows how much, terms above it leave as much.
        above_noise = _above_noise(problem, rng)
        if above_noise is not None:
            return _as_noisy(above_noise, "the singular values above those of noise")
        # Random starts at a rank as high as that would take minutes, and say little.
        rank = min(rank, structured_limit(tensor))
        budget = replace(budget, n_starts=1)
    if first is None:
        first = best_terms(tensor, flattening, rank, problem.field, rng, budget)
    if first.exact:
        return first, source
    bounds = RankBounds.of(tensor, problem.field)
    if _is_near(tensor, first):
        return _near(problem, first, bounds, source, rng)
    return raised(problem, first, bounds, rng)


def _above_noise(problem: Problem, rng: np.random.Generator) -> CandidateTerms | None:
    """Return the terms above the spectrum of noise, or None if they leave more than that noise."""
    tensor = problem.tensor
    seen = ranks.noise_edge_rank(problem.flattening.singular_values)
    if seen is None:
        return None
    rank, noise = seen
    candidate = best_terms(tensor, problem.flattening, rank, problem.field, rng, problem.budget)
    is_noise = candidate.residual * tensor.norm() <= SAME_NOISE * noise
    return candidate if is_noise and not candidate.diverging else None


def _near(
    problem: Problem, first: CandidateTerms, bounds: RankBounds, source: str, rng: np.random.Generator
) -> tuple[CandidateTerms, str]:
    """Return terms that leave what may be noise, unless the tensor has exact ones where noise has none."""
    rank = len(first.refined.vectors)
    exact, _ = terms_below_generic(problem, max(rank, bounds.lower - 1), rng)
    if exact is not None:
        found = len(exact.refined.vectors)
        words = f"exact, where {rank} terms leave {first.residual:.1g}, and below the generic rank"
        return replace(exact, rank_bounds=(bounds.lower, found)), words
    noisy, words = _as_noisy(first, source)
    return replace(noisy, rank_bounds=(bounds.lower, bounds.upper)), words


def _as_noisy(terms: CandidateTerms, source: str) -> tuple[CandidateTerms, str]:
    """Return terms of a tensor that is taken for noisy, and the words that say so."""
    return terms, f"{source}; the {terms.residual:.1g} that is left is taken for noise"


def _first_budget(problem: Problem, rank: int) -> Budget:
    """Return the budget for the Hankel matrix's rank: less where it is full, which says little."""
    size = n_monomials(problem.tensor.dim, problem.tensor.order)
    is_full = rank == len(problem.flattening.singular_values)
    if is_full and rank * problem.tensor.dim < size and size > FEW_MONOMIALS:
        return replace(problem.budget, n_starts=max(problem.budget.n_starts // 5, 1))
    return problem.budget


def _is_near(tensor: SymmetricTensor, candidate: CandidateTerms) -> bool:
    """Return whether what the terms leave of the tensor may be noise."""
    says_something = candidate.refined.vectors.size <= MOST * n_monomials(tensor.dim, tensor.order)
    return says_something and candidate.residual <= FAR and not candidate.diverging


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
