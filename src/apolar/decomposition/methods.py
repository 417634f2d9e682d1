"""The methods of `decompose`, and the search for a rank that the Hankel matrices do not tell."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import unit_rows
from apolar.decomposition import ranks
from apolar.decomposition.hankel import HankelSVD
from apolar.decomposition.least_squares import gauss_newton
from apolar.decomposition.power_method import power_method
from apolar.decomposition.proofs.flattenings import koszul_bound
from apolar.decomposition.ranks import (
    RankRule,
    coprime_points,
    monomials_bound,
    resolve_rank,
)
from apolar.decomposition.term_search import (
    Budget,
    CandidateTerms,
    best_terms,
    converge,
    far_better,
    long_search,
    make_real,
    overcomplete_terms,
    pencil_or_none,
    rate,
    real_starts,
    refine_in_field,
    run_work,
    structured_limit,
    with_best_weights,
)
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, n_monomials


@dataclass(frozen=True, eq=False)
class DecompositionProblem:
    """A tensor to decompose, and how.

    Attributes
    ----------
    tensor : SymmetricTensor
        Of order at least 3, not zero, of moderate size.
    flattening : HankelSVD
    rank : int, callable or None
        As `decompose` takes it.
    field : {"auto", "real", "complex"}
    refine : bool
    budget : Budget
    """

    tensor: SymmetricTensor
    flattening: HankelSVD
    rank: int | RankRule | None
    field: str
    refine: bool
    budget: Budget

    def resolve_rank(self) -> tuple[int, str]:
        """Return the number of terms and where it comes from, without a search."""
        return resolve_rank(self.rank, self.flattening.singular_values)

    def check_limit(self, rank: int, limit: int, method: str) -> None:
        """Refuse a rank above that of a method."""
        if rank > limit:
            raise ValueError(
                f"Rank {rank} is above what method='{method}' can find in a tensor of order "
                f"{self.tensor.order} in {self.tensor.dim} variables: {limit}. Use method='auto', or a lower "
                "rank."
            )


def pencil_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the terms of algorithm 2, and where their number comes from."""
    rank, source = problem.resolve_rank()
    candidate = pencil_candidate(problem, rank, rng)
    if problem.refine:
        candidate = refine_in_field(problem.tensor, candidate, problem.field, problem.budget)
    return candidate, source


def pencil_candidate(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> CandidateTerms:
    """Return the terms of algorithm 2 as it gives them."""
    tensor, flattening = problem.tensor, problem.flattening
    problem.check_limit(rank, ranks.pencil_limit(tensor.dim, tensor.order, flattening.row_degree), "pencil")
    points = pencil_or_none(tensor, flattening, rank, rng)
    if points is None:
        raise ValueError(
            f"Algorithm 2 breaks down at rank {rank}: the pencil is singular, so the rank is not the "
            "tensor's own or its points are in special position. Use method='auto'."
        )
    if problem.field == "real":
        points = real_starts(points)
    return rate(tensor, "pencil", with_best_weights(tensor, points), polish=problem.refine)


def spm_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the terms of the subspace power method, and where their number comes from."""
    tensor, field, budget = problem.tensor, problem.field, problem.budget
    rank, source = problem.resolve_rank()
    candidate = power_method_candidate(problem, rank, rng)
    if not problem.refine:
        return candidate, source
    candidate = refine_in_field(tensor, candidate, field, budget)
    if field == "auto" and not (candidate.exact or tensor.is_complex):
        complex_terms = power_method_candidate(replace(problem, field="complex"), rank, rng)
        candidate = far_better(refine_in_field(tensor, complex_terms, field, budget), candidate)
    return candidate, source


def power_method_candidate(
    problem: DecompositionProblem, rank: int, rng: np.random.Generator
) -> CandidateTerms:
    """Return the terms of the subspace power method as it gives them."""
    tensor, flattening = problem.tensor, problem.flattening
    problem.check_limit(rank, ranks.power_method_limit(tensor.dim, tensor.order), "spm")
    values = flattening.singular_values
    if rank > ranks.numerical_rank(values):
        raise ValueError(
            f"The Hankel matrix has rank {ranks.numerical_rank(values)}: method='spm' finds no more "
            f"terms than that, and {rank} were asked for. Use method='auto', or a lower rank."
        )
    dtype = np.complex128 if tensor.is_complex or problem.field == "complex" else np.float64
    left = flattening.left[:, :rank].astype(dtype)
    right = flattening.right[:, :rank].astype(dtype)
    points = power_method(left, values[:rank], right, tensor.dim, tensor.order, rng)
    return rate(tensor, "spm", with_best_weights(tensor, points), polish=problem.refine)


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


def coprime_terms(problem: DecompositionProblem) -> CandidateTerms | None:
    """Return the terms of a sum of coprime monomials, or None if the tensor is another form."""
    tensor = problem.tensor
    points = coprime_points(tensor, problem.field != "real")
    if points is None:
        return None
    candidate = rate(tensor, "monomials", with_best_weights(tensor, points))
    if not candidate.exact:
        candidate = converge(tensor, candidate, problem.budget)
    return candidate if candidate.exact else None


def terms_below_generic(
    problem: DecompositionProblem, rank: int, rng: np.random.Generator
) -> tuple[CandidateTerms | None, list[int]]:
    """Return exact real terms of a rank above `rank` at which few tensors have any, and the ranks tried.

    With fewer unknowns than coefficients, tensors with exact terms are a null
    set: noise has none. Exact ones are the tensor's own.

    Parameters
    ----------
    problem : DecompositionProblem
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
    if tensor.is_complex or problem.field == "complex" or size > TUNING.many_coefficients:
        return None, tried
    ranks_below = range(rank + 1, -(-size // tensor.dim))
    for higher in ranks_below:
        if budget.is_spent:
            break
        tried.append(higher)
        affordable = TUNING.long_work / (len(ranks_below) * run_work(higher * tensor.dim))
        n_runs = int(np.clip(affordable, TUNING.few_starts, 24))
        terms = overcomplete_terms(tensor, higher, n_runs, rng, budget, lambda candidate: candidate.exact)
        if terms is not None and terms.exact:
            return _drop_needless_terms(tensor, terms, rank + 1, budget), tried
    return None, tried


def _drop_needless_terms(
    tensor: SymmetricTensor, terms: CandidateTerms, least: int, budget: Budget
) -> CandidateTerms:
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
    start = with_best_weights(tensor, unit_rows(np.delete(terms.refined.vectors, place, axis=0)))
    refined = gauss_newton(
        tensor,
        start.vectors,
        start.signs,
        max_iter=budget.max_iter,
        tol=budget.tol,
        dense_work=TUNING.long_dense_work,
    )
    return rate(tensor, terms.method, refined)


def search_rank(
    problem: DecompositionProblem, first: CandidateTerms, bounds: RankBounds, rng: np.random.Generator
) -> tuple[CandidateTerms, str]:
    """Return exact terms of the least rank at which the search finds any, and how it was found.

    Parameters
    ----------
    problem : DecompositionProblem
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
    if size <= TUNING.few_coefficients:
        higher = range(max(_next_rank(problem, rank), bounds.lower), bounds.upper + 1)
        exact, tried = _upwards(problem, higher, problem.budget.n_starts // 2, rng)
    elif size <= TUNING.many_coefficients:
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
    if size <= TUNING.few_coefficients:
        return exact, f"raised until exact, from the Hankel matrix's {rank}"
    others = ", ".join(str(other) for other in [rank, *tried] if other != found)
    source = f"the least that is exact of those tried ({others})"
    if bounds.generic in tried:
        source += f", from the generic rank {bounds.generic} on"
    return exact, source


def _failure(problem: DecompositionProblem, rank: int, tried: list[int]) -> str:
    if n_monomials(problem.tensor.dim, problem.tensor.order) > TUNING.many_coefficients:
        return (
            f"the Hankel matrix; forms of more than {TUNING.many_coefficients} coefficients are "
            "not tried at higher ranks"
        )
    limit = ", then time_limit was over" if problem.budget.is_spent else ""
    others = ", ".join(str(other) for other in [rank, *tried])
    return f"the numerical rank of the Hankel matrix; no exact terms found at {others}{limit}"


def _next_rank(problem: DecompositionProblem, rank: int) -> int:
    """Return the next rank that is possible after that of the Hankel matrix, which was not exact.

    By Sylvester's theorem a binary form has over C either that rank, or order + 2 less that rank.
    """
    if problem.tensor.dim == 2 and problem.field != "real":
        return max(rank + 1, problem.tensor.order + 2 - rank)
    return rank + 1


def _upwards(
    problem: DecompositionProblem, candidates: range, n_starts: int, rng: np.random.Generator
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
    problem: DecompositionProblem, rank: int, bounds: RankBounds, rng: np.random.Generator
) -> tuple[CandidateTerms | None, list[int]]:
    """Return exact terms of the generic rank, or of the nearest rank below or above where there are any."""
    below: list[int] = []
    if len(problem.tensor.coefficients) <= TUNING.some_coefficients:
        special, below = terms_below_generic(problem, rank, rng)
        if special is not None:
            return special, below
    start = max(bounds.generic, rank + 1)
    last = bounds.upper if np.isfinite(problem.budget.deadline) else min(bounds.upper, start + 3)
    higher = range(min(start, last), last + 1)
    exact, tried = _upwards(problem, higher, problem.budget.n_starts // 4, rng)
    if exact is None or len(tried) > 1:
        return exact, tried
    for lower in range(len(exact.refined.vectors) - 1, rank, -1):
        if problem.budget.is_spent:
            break
        tried.append(lower)
        terms = _search_below(problem, lower, rng)
        if terms is None:
            break
        exact = terms
    return exact, tried


def _search_below(
    problem: DecompositionProblem, rank: int, rng: np.random.Generator
) -> CandidateTerms | None:
    """Return exact terms of a rank below one that is exact, or None if no start leads to any."""
    tensor, budget = problem.tensor, problem.budget
    is_complex = tensor.is_complex or problem.field != "real"
    few = replace(
        budget,
        max_iter=max(budget.max_iter // TUNING.long_run, 1),
        n_starts=min(budget.n_starts, TUNING.few_starts),
    )
    terms = long_search(tensor, rank, is_complex, rng, few)
    if is_complex:
        terms = make_real(tensor, terms, budget)
    return terms if terms.exact else None


def auto_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the best terms, and where their number comes from."""
    tensor, flattening, budget = problem.tensor, problem.flattening, problem.budget
    rank, source = problem.resolve_rank()
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
    problem: DecompositionProblem, rank: int, source: str, rng: np.random.Generator
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
        if candidate.residual <= TUNING.far and not candidate.diverging:
            return _as_noisy(candidate, "the singular values above a floor of noise")
    if n_monomials(tensor.dim, tensor.order) > TUNING.many_coefficients and rank == len(
        flattening.singular_values
    ):
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
        return _terms_near(problem, first, bounds, source, rng)
    return search_rank(problem, first, bounds, rng)


def _above_noise(problem: DecompositionProblem, rng: np.random.Generator) -> CandidateTerms | None:
    """Return the terms above the spectrum of noise, or None if they leave more than that noise."""
    tensor = problem.tensor
    seen = ranks.noise_edge_rank(problem.flattening.singular_values)
    if seen is None:
        return None
    rank, noise = seen
    candidate = best_terms(tensor, problem.flattening, rank, problem.field, rng, problem.budget)
    is_noise = candidate.residual * tensor.norm() <= TUNING.same_noise * noise
    return candidate if is_noise and not candidate.diverging else None


def _terms_near(
    problem: DecompositionProblem,
    first: CandidateTerms,
    bounds: RankBounds,
    source: str,
    rng: np.random.Generator,
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


def _first_budget(problem: DecompositionProblem, rank: int) -> Budget:
    """Return the budget for the Hankel matrix's rank: less where it is full, which says little."""
    size = n_monomials(problem.tensor.dim, problem.tensor.order)
    is_full = rank == len(problem.flattening.singular_values)
    if is_full and rank * problem.tensor.dim < size and size > TUNING.few_coefficients:
        return replace(problem.budget, n_starts=max(problem.budget.n_starts // 5, 1))
    return problem.budget


def _is_near(tensor: SymmetricTensor, candidate: CandidateTerms) -> bool:
    """Return whether what the terms leave of the tensor may be noise."""
    says_something = candidate.refined.vectors.size <= TUNING.max_share * n_monomials(
        tensor.dim, tensor.order
    )
    return says_something and candidate.residual <= TUNING.far and not candidate.diverging


def _exact_pencil(
    problem: DecompositionProblem, rank: int, rng: np.random.Generator
) -> CandidateTerms | None:
    """Return the terms of algorithm 2 if they are the tensor's own."""
    points = pencil_or_none(problem.tensor, problem.flattening, rank, rng)
    if points is None or (problem.field == "real" and np.iscomplexobj(points)):
        return None
    start = rate(problem.tensor, "pencil", with_best_weights(problem.tensor, points))
    if start.residual > 1e-3 or start.diverging:
        return None
    finished = converge(problem.tensor, start, problem.budget)
    return finished if finished.exact else None


def _best_unrefined(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> CandidateTerms:
    """Return the better of the structured methods, as they come."""
    candidates: list[CandidateTerms] = []
    reason: ValueError | None = None
    for structured in (pencil_candidate, power_method_candidate):
        try:
            candidates.append(structured(problem, rank, rng))
        except ValueError as error:
            reason = error
    if not candidates:
        raise ValueError(f"No method gives rank {rank} without refinement; pass refine=True.") from reason
    return min(candidates, key=lambda candidate: candidate.residual)


METHODS: dict[str, Callable[[DecompositionProblem, np.random.Generator], tuple[CandidateTerms, str]]] = {
    "auto": auto_method,
    "pencil": pencil_method,
    "spm": spm_method,
}
"""Each returns terms, refined if the problem says so, and where their number comes from."""
