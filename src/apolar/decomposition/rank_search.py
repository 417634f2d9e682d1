"""The rank of a tensor, if it is not given: of its Hankel matrix, above noise, or the least that is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apolar.decomposition import ranks
from apolar.decomposition.proofs.flattenings import koszul_bound
from apolar.decomposition.search import (
    CandidateTerms,
    DecompositionProblem,
    best_terms,
    converge,
    pencil_or_none,
    rate_points,
    run_work,
    structured_limit,
)
from apolar.decomposition.tuning import TUNING


def decompose_unknown_rank(
    problem: DecompositionProblem, rng: np.random.Generator
) -> tuple[CandidateTerms, str]:
    """Return the best terms at a rank that the tensor tells, and how it told it."""
    tensor, values = problem.tensor, problem.flattening.singular_values
    rank, source = problem.resolve_rank()
    exact = _exact_pencil(problem, rank, rng)
    if exact is not None:
        return exact, source
    known = coprime_terms(problem)
    if known is not None:
        return known, "the ranks of monomials that share no variable"
    first: CandidateTerms | None = None
    above_floor = ranks.noise_floor_rank(values)
    if above_floor is not None:
        if rank < len(values):
            # Noise leaves no singular value at rounding: what looks like a floor may be small terms.
            first = best_terms(problem, rank, rng)
            if first.exact:
                return first, source
        candidate = best_terms(problem, above_floor, rng)
        if candidate.residual <= TUNING.far and not candidate.diverging:
            return _as_noisy(candidate, "the singular values above a floor of noise")
    if len(tensor.coefficients) > TUNING.many_coefficients and rank == len(values):
        # Noise may fill the matrix: if its spectrum shows how much, terms above it leave as much.
        seen = ranks.noise_edge_rank(values)
        if seen is not None:
            candidate = best_terms(problem, seen[0], rng)
            is_noise = candidate.residual * tensor.norm() <= TUNING.same_noise * seen[1]
            if is_noise and not candidate.diverging:
                return _as_noisy(candidate, "the singular values above those of noise")
        # Random starts at a rank as high as that would take minutes, and say little.
        rank = min(rank, structured_limit(tensor))
        problem = problem.with_starts(1)
    if first is None:
        # A rank above those of the structured methods says little: a few starts will do.
        share = 1 if rank <= structured_limit(tensor) else 5
        first = best_terms(problem.with_starts(problem.budget.n_starts // share), rank, rng)
    return (first, source) if first.exact else _search_rank(problem, first, source, rng)


def _exact_pencil(
    problem: DecompositionProblem, rank: int, rng: np.random.Generator
) -> CandidateTerms | None:
    """Return the terms of algorithm 2 if they are the tensor's own."""
    points = pencil_or_none(problem, rank, rng)
    if points is None or (problem.field == "real" and np.iscomplexobj(points)):
        return None
    start = rate_points(problem, "pencil", points)
    if start.residual > TUNING.promising or start.diverging:
        return None
    finished = converge(problem.tensor, start, problem.budget)
    return finished if finished.exact else None


def coprime_terms(problem: DecompositionProblem) -> CandidateTerms | None:
    """Return the terms of a sum of coprime monomials, or None if the tensor is another form."""
    points = ranks.coprime_points(problem.tensor, problem.field != "real")
    if points is None:
        return None
    candidate = converge(problem.tensor, rate_points(problem, "monomials", points), problem.budget)
    return candidate if candidate.exact else None


def _as_noisy(terms: CandidateTerms, source: str) -> tuple[CandidateTerms, str]:
    """Return terms of a tensor that is taken for noisy, and the words that say so."""
    return terms, f"{source}; the {terms.residual:.1g} that is left is taken for noise"


def _search_rank(
    problem: DecompositionProblem, first: CandidateTerms, source: str, rng: np.random.Generator
) -> tuple[CandidateTerms, str]:
    """Return exact terms of the least rank at which the search finds any, and how it was found.

    Where the terms of the Hankel matrix's rank leave little that may be noise, only ranks at which noise has
    no exact terms are tried: those with fewer unknowns than coefficients. Exact ones are the tensor's own.

    Parameters
    ----------
    problem : DecompositionProblem
    first : CandidateTerms
        The best terms of the Hankel matrix's rank, not exact.
    source : str
        Of that rank.
    rng : numpy.random.Generator

    Returns
    -------
    candidate : CandidateTerms
        The first one, not settled, if no exact terms are found and it is not near.
    source : str
    """
    tensor, rank, size = problem.tensor, first.rank, len(problem.tensor.coefficients)
    if first.residual <= TUNING.far and not (first.refined.converged or first.diverging):
        # Terms that grow without bound do so slowly: only a longer run tells them from noisy ones.
        max_iter = TUNING.long_run * problem.budget.max_iter
        first = converge(tensor, first, replace(problem.budget, max_iter=max_iter))
    generic = ranks.generic_rank(tensor.dim, tensor.order)
    lower, upper = rank_bounds(problem, generic)
    says_something = first.refined.vectors.size <= TUNING.max_share * size
    is_near = says_something and first.residual <= TUNING.far and not first.diverging
    last = upper if np.isfinite(problem.budget.deadline) or size <= TUNING.few_coefficients else generic + 3
    last = -(-size // tensor.dim) - 1 if is_near else min(last, upper)
    candidates = range(max(_next_rank(problem, rank), lower), last + 1)
    if size > TUNING.many_coefficients or (is_near and problem.wants_complex):
        candidates = range(0)
    exact, tried = _first_exact(problem, candidates, rng)
    if exact is not None:
        if tensor.dim == 2 and exact.rank == _next_rank(problem, lower):
            lower = exact.rank
        words = f"raised until exact, from the Hankel matrix's {rank}"
        if is_near:
            words = f"exact, where {rank} terms leave {first.residual:.1g}, and below the generic rank"
        return replace(exact, rank_bounds=(lower, exact.rank)), words
    first = replace(first, rank_bounds=(lower, upper), settled=is_near)
    if is_near:
        return _as_noisy(first, source)
    if size > TUNING.many_coefficients:
        words = f"forms of more than {TUNING.many_coefficients} coefficients are not tried at higher ranks"
        return first, f"the Hankel matrix; {words}"
    limit = ", then time_limit was over" if problem.budget.is_spent else ""
    others = ", ".join(str(other) for other in [rank, *tried])
    return first, f"the numerical rank of the Hankel matrix; no exact terms found at {others}{limit}"


def rank_bounds(problem: DecompositionProblem, generic: int) -> tuple[int, int]:
    """Return bounds of the rank of a tensor before any search.

    From below the largest rank of a Hankel matrix, of all row degrees, or the bound of a Koszul flattening;
    from above twice the generic rank [blekherman2015], or the sum of the ranks of the monomials.
    """
    upper = 2 * generic
    if problem.field != "real":  # over R monomials may have a larger rank
        upper = min(upper, ranks.monomials_bound(problem.tensor))
    return min(max(ranks.hankel_bound(problem.tensor), koszul_bound(problem.tensor)), upper), upper


def _next_rank(problem: DecompositionProblem, rank: int) -> int:
    """Return the next rank that is possible after that of the Hankel matrix, which was not exact.

    By Sylvester's theorem a binary form has over C either that rank, or order + 2 less that rank.
    """
    if problem.tensor.dim == 2 and problem.field != "real":
        return max(rank + 1, problem.tensor.order + 2 - rank)
    return rank + 1


def _first_exact(
    problem: DecompositionProblem, candidates: range, rng: np.random.Generator
) -> tuple[CandidateTerms | None, list[int]]:
    """Return the first exact terms of some ranks, which share the work evenly, and the ranks tried."""
    tensor, size = problem.tensor, len(problem.tensor.coefficients)
    tried: list[int] = []
    for rank in candidates:
        if problem.budget.is_spent:
            break
        tried.append(rank)
        affordable = TUNING.rank_work / (len(candidates) * run_work(tensor, rank))
        share = problem.with_starts(int(np.clip(affordable, 1, problem.budget.n_starts // 2)))
        if size > TUNING.few_coefficients and rank * tensor.dim < size and not problem.wants_complex:
            # Below the generic rank complex starts find hardly more than real ones.
            share = replace(share, field="real")
        terms = best_terms(share, rank, rng)
        if terms.exact:
            return terms, tried
    return None, tried
