"""The search for the rank of a tensor that its Hankel matrices do not tell."""

from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import unit_rows
from apolar.decomposition import ranks
from apolar.decomposition.candidates import (
    LONG_RUN,
    Budget,
    CandidateTerms,
    converged,
    long_search,
    rated,
)
from apolar.decomposition.coprime import coprime_points, monomials_bound
from apolar.decomposition.gauss_newton import LONG_DENSE_WORK, gauss_newton
from apolar.decomposition.methods.problem import Problem
from apolar.decomposition.overcomplete import overcomplete_terms, run_work
from apolar.decomposition.proofs.lower_bounds import koszul_bound
from apolar.decomposition.search import best_terms, made_real
from apolar.decomposition.starts import unrefined
from apolar.tensor import SymmetricTensor, n_monomials

# Up to this many monomials ranks are tried one after another, from the Hankel matrix's on.
FEW_MONOMIALS = 40
# Up to this many, from the generic rank on: downwards where it is exact, upwards where it is not.
MANY_MONOMIALS = 200
# Ranks above the generic one that are tried where the time is not limited.
RANKS_ABOVE = 3
# Up to this many coefficients, the ranks below the generic one are tried before it.
SOME_MONOMIALS = 100
# Multiplications at all these ranks together, about, and the runs at each of them.
BELOW_WORK = 1e9
FEWEST_RUNS, MAX_RUNS = 3, 24
# Starts at a rank below one that is exact.
LOWER_STARTS = 3


@dataclass(frozen=True)
class RankBounds:
    """What is known of the rank of a tensor before any search.

    Attributes
    ----------
    lower : int
        The largest rank of a Hankel matrix, of all row degrees, or the bound of a Koszul flattening.
    upper : int
        Twice the generic rank [blekherman2015], or the sum of the ranks of the monomials.
    generic : int
        The rank of almost every tensor of this order and dimension.
    """

    lower: int
    upper: int
    generic: int

    @classmethod
    def of(cls, tensor: SymmetricTensor, field: str) -> "RankBounds":
        """Return the bounds for a tensor."""
        generic = ranks.generic_rank(tensor.dim, tensor.order)
        upper = 2 * generic
        if field != "real":  # over R monomials may have a larger rank
            upper = min(upper, monomials_bound(tensor))
        lower = min(max(ranks.hankel_bound(tensor), koszul_bound(tensor)), upper)
        return cls(lower, upper, generic)


def coprime_terms(problem: Problem) -> CandidateTerms | None:
    """Return the terms of a sum of coprime monomials, or None if the tensor is another form."""
    tensor = problem.tensor
    points = coprime_points(tensor, problem.field != "real")
    if points is None:
        return None
    candidate = rated(tensor, "monomials", unrefined(tensor, points))
    if not candidate.exact:
        candidate = converged(tensor, candidate, problem.budget)
    return candidate if candidate.exact else None


def terms_below_generic(
    problem: Problem, rank: int, rng: np.random.Generator
) -> tuple[CandidateTerms | None, list[int]]:
    """Return exact real terms of a rank above `rank` at which few tensors have any, and the ranks tried.

    With fewer unknowns than coefficients, tensors with exact terms are a null
    set: noise has none. Exact ones are the tensor's own.

    Parameters
    ----------
    problem : Problem
    rank : int
        The Hankel matrix's, or another that is not exact.
    rng : numpy.random.Generator

    Returns
    -------
    candidate : CandidateTerms or None
    tried : list of int
    """
    tensor, budget = problem.tensor, problem.budget
    size = len(tensor.coefficients)
    tried: list[int] = []
    if tensor.is_complex or problem.field == "complex" or size > MANY_MONOMIALS:
        return None, tried
    ranks_below = range(rank + 1, -(-size // tensor.dim))
    for higher in ranks_below:
        if budget.is_spent:
            break
        tried.append(higher)
        affordable = BELOW_WORK / (len(ranks_below) * run_work(higher * tensor.dim))
        n_runs = int(np.clip(affordable, FEWEST_RUNS, MAX_RUNS))
        terms = overcomplete_terms(tensor, higher, n_runs, rng, budget, lambda candidate: candidate.exact)
        if terms is not None and terms.exact:
            return _reduced(tensor, terms, rank + 1, budget), tried
    return None, tried


def _reduced(tensor: SymmetricTensor, terms: CandidateTerms, least: int, budget: Budget) -> CandidateTerms:
    """Return exact terms without those that are not needed: one of a pair that is close, or the least."""
    while len(terms.refined.vectors) > least:
        fewer = [_without(tensor, terms, place, budget) for place in _doubtful(terms)]
        exact = [candidate for candidate in fewer if candidate.exact]
        if not exact:
            break
        terms = exact[0]
    return terms


def _doubtful(terms: CandidateTerms) -> list[int]:
    """Return the places of the smaller one of the closest pair of terms, and of the smallest term."""
    vectors = terms.refined.vectors
    sizes = np.linalg.norm(vectors, axis=1)
    units = vectors / sizes[:, None]
    cosines = np.abs(units.conj() @ units.T)
    np.fill_diagonal(cosines, 0.0)
    pair = np.array(np.unravel_index(np.argmax(cosines), cosines.shape))
    return [int(pair[np.argmin(sizes[pair])]), int(np.argmin(sizes))]


def _without(tensor: SymmetricTensor, terms: CandidateTerms, place: int, budget: Budget) -> CandidateTerms:
    """Return the terms without one, refined."""
    start = unrefined(tensor, unit_rows(np.delete(terms.refined.vectors, place, axis=0)))
    refined = gauss_newton(
        tensor,
        start.vectors,
        start.signs,
        max_iter=budget.max_iter,
        tol=budget.tol,
        dense_work=LONG_DENSE_WORK,
    )
    return rated(tensor, terms.method, refined)


def raised(
    problem: Problem, first: CandidateTerms, bounds: RankBounds, rng: np.random.Generator
) -> tuple[CandidateTerms, str]:
    """Return exact terms of the least rank at which the search finds any, and how it was found.

    Parameters
    ----------
    problem : Problem
    first : CandidateTerms
        The best terms of the Hankel matrix's rank, neither exact nor near.
    bounds : RankBounds
    rng : numpy.random.Generator

    Returns
    -------
    candidate : CandidateTerms
        The first one, not settled, if no exact terms are found.
    source : str
    """
    dim, order = problem.tensor.dim, problem.tensor.order
    size = n_monomials(dim, order)
    rank = len(first.refined.vectors)
    if size <= FEW_MONOMIALS:
        higher = range(max(_next_rank(problem, rank), bounds.lower), bounds.upper + 1)
        exact, tried = _upwards(problem, higher, problem.budget.n_starts // 2, rng)
    elif size <= MANY_MONOMIALS:
        exact, tried = _from_generic(problem, max(rank, bounds.lower - 1), bounds, rng)
    else:
        exact, tried = None, []
    if exact is None:
        return replace(first, rank_bounds=(bounds.lower, bounds.upper), settled=False), _failure(
            problem, rank, tried
        )
    found = len(exact.refined.vectors)
    lower = found if found == _next_rank(problem, bounds.lower) and dim == 2 else bounds.lower
    exact = replace(exact, rank_bounds=(lower, found))
    if size <= FEW_MONOMIALS:
        return exact, f"raised until exact, from the Hankel matrix's {rank}"
    others = ", ".join(str(other) for other in [rank, *tried] if other != found)
    source = f"the least that is exact of those tried ({others})"
    if bounds.generic in tried:
        source += f", from the generic rank {bounds.generic} on"
    return exact, source


def _failure(problem: Problem, rank: int, tried: list[int]) -> str:
    if n_monomials(problem.tensor.dim, problem.tensor.order) > MANY_MONOMIALS:
        return (
            f"the Hankel matrix; forms of more than {MANY_MONOMIALS} coefficients are "
            "not tried at higher ranks"
        )
    limit = ", then time_limit was over" if problem.budget.is_spent else ""
    others = ", ".join(str(other) for other in [rank, *tried])
    return f"the numerical rank of the Hankel matrix; no exact terms found at {others}{limit}"


def _next_rank(problem: Problem, rank: int) -> int:
    """Return the next rank that is possible after that of the Hankel matrix, which was not exact.

    By Sylvester's theorem a binary form has over C either that rank, or order + 2 less that rank.
    """
    if problem.tensor.dim == 2 and problem.field != "real":
        return max(rank + 1, problem.tensor.order + 2 - rank)
    return rank + 1


def _upwards(
    problem: Problem, candidates: range, n_starts: int, rng: np.random.Generator
) -> tuple[CandidateTerms | None, list[int]]:
    """Return the first exact terms of some ranks, and the ranks that were tried."""
    budget = replace(problem.budget, n_starts=max(n_starts, 1))
    tried = []
    for rank in candidates:
        if budget.is_spent:
            break
        tried.append(rank)
        terms = best_terms(problem.tensor, problem.flattening, rank, problem.field, rng, budget)
        if terms.exact:
            return terms, tried
    return None, tried


def _from_generic(
    problem: Problem, rank: int, bounds: RankBounds, rng: np.random.Generator
) -> tuple[CandidateTerms | None, list[int]]:
    """Return exact terms of the generic rank, or of the nearest rank below or above where there are any."""
    below: list[int] = []
    if len(problem.tensor.coefficients) <= SOME_MONOMIALS:
        special, below = terms_below_generic(problem, rank, rng)
        if special is not None:
            return special, below
    start = max(bounds.generic, rank + 1)
    last = bounds.upper if np.isfinite(problem.budget.deadline) else min(bounds.upper, start + RANKS_ABOVE)
    higher = range(min(start, last), last + 1)
    exact, tried = _upwards(problem, higher, problem.budget.n_starts // 4, rng)
    if exact is None or len(tried) > 1:
        return exact, tried
    for lower in range(len(exact.refined.vectors) - 1, rank, -1):
        if problem.budget.is_spent:
            break
        tried.append(lower)
        terms = _lowered(problem, lower, rng)
        if terms is None:
            break
        exact = terms
    return exact, tried


def _lowered(problem: Problem, rank: int, rng: np.random.Generator) -> CandidateTerms | None:
    """Return exact terms of a rank below one that is exact, or None if no start leads to any."""
    tensor, budget = problem.tensor, problem.budget
    is_complex = tensor.is_complex or problem.field != "real"
    few = replace(
        budget, max_iter=max(budget.max_iter // LONG_RUN, 1), n_starts=min(budget.n_starts, LOWER_STARTS)
    )
    terms = long_search(tensor, rank, is_complex, rng, few)
    if is_complex:
        terms = made_real(tensor, terms, budget)
    return terms if terms.exact else None
