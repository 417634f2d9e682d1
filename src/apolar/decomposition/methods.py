"""The methods of `decompose`, and the rank of a tensor if it is not given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition import ranks
from apolar.decomposition.pencil import real_starts
from apolar.decomposition.power_method import power_method
from apolar.decomposition.proofs.flattenings import koszul_bound
from apolar.decomposition.race import (
    DecompositionProblem,
    best_terms,
    converge,
    far_better,
    pencil_or_none,
    rate_points,
    refine_in_field,
    run_work,
    structured_limit,
)
from apolar.decomposition.terms import Terms
from apolar.decomposition.tuning import TUNING


def pencil_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str]:
    """Return the terms of algorithm 2, and where their number comes from."""
    tensor, flattening = problem.tensor, problem.flattening
    limit = ranks.pencil_limit(tensor.dim, tensor.order, flattening.row_degree)
    rank, source = _limited_rank(problem, limit, "pencil")
    points = pencil_or_none(problem, rank, rng)
    if points is None:
        raise ValueError(
            f"Algorithm 2 breaks down at rank {rank}: the pencil is singular, so the rank is not the "
            "tensor's own or its points are in special position. Use method='auto'."
        )
    terms = rate_points(problem, "pencil", real_starts(points) if problem.field == "real" else points)
    return refine_in_field(problem, terms), source


def spm_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str]:
    """Return the terms of the subspace power method, and where their number comes from."""
    tensor, flattening = problem.tensor, problem.flattening
    rank, source = _limited_rank(problem, ranks.power_method_limit(tensor.dim, tensor.order), "spm")
    if rank > (limit := ranks.numerical_rank(flattening.singular_values)):
        raise ValueError(
            f"The Hankel matrix has rank {limit}: method='spm' finds no more "
            f"terms than that, and {rank} were asked for. Use method='auto', or a lower rank."
        )

    def search(is_complex: bool) -> Terms:
        points = power_method(flattening, rank, is_complex, rng)
        return refine_in_field(problem, rate_points(problem, "spm", points))

    terms = search(problem.wants_complex)
    if problem.refine and problem.field == "auto" and not (terms.is_exact or terms.is_complex):
        terms = far_better(search(True), terms)
    return terms, source


def _limited_rank(problem: DecompositionProblem, limit: int, method: str) -> tuple[int, str]:
    """Return the rank and where it comes from; refuse one above that of a method."""
    rank, source = ranks.resolve_rank(problem.rank, problem.flattening.singular_values)
    if rank > limit:
        raise ValueError(
            f"Rank {rank} is above what method='{method}' can find in a tensor of order "
            f"{problem.tensor.order} in {problem.tensor.dim} variables: {limit}. Use method='auto', or a "
            "lower rank."
        )
    return rank, source


def auto_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str]:
    """Return the best terms, and where their number comes from."""
    tensor = problem.tensor
    rank, source = ranks.resolve_rank(problem.rank, problem.flattening.singular_values)
    largest = 2 * ranks.generic_rank(tensor.dim, tensor.order)
    if rank > largest:
        raise ValueError(
            f"Rank {rank}: no form of degree {tensor.order} in {tensor.dim} variables "
            f"has a rank above {largest}."  # twice the generic rank [blekherman2015]
        )
    if problem.refine:
        known = problem.rank is not None
        return (best_terms(problem, rank, rng), source) if known else _search_rank(problem, rank, source, rng)
    found: list[Terms] = []
    for structured in (pencil_method, spm_method):
        try:
            found.append(structured(problem, rng)[0])
        except ValueError as error:
            reason = error
    if not found:
        raise ValueError(f"No method gives rank {rank} without refinement: switch it on.") from reason
    return min(found, key=lambda terms: terms.residual), source


METHODS: dict[str, Callable[[DecompositionProblem, np.random.Generator], tuple[Terms, str]]] = {
    "auto": auto_method,
    "pencil": pencil_method,
    "spm": spm_method,
}
"""Each returns terms, refined if the problem says so, and where their number comes from."""


# --- a rank that is not given ---------------------------------------------------------------------


def _search_rank(
    problem: DecompositionProblem, rank: int, source: str, rng: np.random.Generator
) -> tuple[Terms, str]:
    """Return the best terms at a rank that the tensor tells, and how it told it.

    Parameters
    ----------
    problem : DecompositionProblem
    rank : int
        That of the Hankel matrix.
    source : str
        Of that rank.
    rng : numpy.random.Generator
    """
    tensor, values = problem.tensor, problem.flattening.singular_values
    points = pencil_or_none(problem, rank, rng)
    if points is not None and (problem.field != "real" or not np.iscomplexobj(points)):
        exact = _exact_or_none(problem, "pencil", points)
        if exact is not None:
            return exact, source
    points = ranks.coprime_points(tensor, problem.field != "real")
    if points is not None:
        exact = _exact_or_none(problem, "monomials", points)
        if exact is not None:
            return exact, "the ranks of monomials that share no variable"
    # Noise fills the matrix: where a singular value is at rounding, what looks like noise may be small terms.
    is_full = rank == len(values)
    first = None if is_full else _few_starts(problem, rank, rng)
    if first is None or not first.is_exact:
        for number, largest, words in _ranks_above_noise(problem, is_full):
            terms = best_terms(problem, number, rng)
            if terms.residual <= largest and not terms.is_diverging:
                return _as_noisy(terms, words)
    if first is None:
        if len(tensor.coefficients) > TUNING.many_coefficients:
            # Random starts at a rank as high as that would take minutes, and say little.
            rank, problem = min(rank, structured_limit(tensor)), replace(problem, n_starts=1)
        first = _few_starts(problem, rank, rng)
    return (first, source) if first.is_exact else _raise_rank(problem, first, source, rng)


def _exact_or_none(problem: DecompositionProblem, method: str, points: Array) -> Terms | None:
    """Return the terms of points if they are the tensor's own, after a refinement."""
    terms = rate_points(problem, method, points)
    if terms.residual > TUNING.promising or terms.is_diverging:
        return None
    finished = converge(problem, terms)
    return finished if finished.is_exact else None


def _few_starts(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> Terms:
    """Return the best terms of the Hankel matrix's rank: a high one says little, and few starts will do."""
    share = 1 if rank <= structured_limit(problem.tensor) else TUNING.long_run
    return best_terms(replace(problem, n_starts=max(problem.n_starts // share, 1)), rank, rng)


def _ranks_above_noise(problem: DecompositionProblem, is_full: bool) -> Iterator[tuple[int, float, str]]:
    """Yield ranks above what looks like noise, the residual that it leaves, and how it is seen."""
    tensor, values = problem.tensor, problem.flattening.singular_values
    above_floor = ranks.noise_floor_rank(values)
    if above_floor is not None:
        yield above_floor, TUNING.far, "the singular values above a floor of noise"
    if is_full and len(tensor.coefficients) > TUNING.many_coefficients:
        rank, norm = ranks.noise_edge_rank(values) or (0, 0.0)
        if rank:
            yield rank, TUNING.same_noise * norm / tensor.norm(), "the singular values above those of noise"


def _as_noisy(terms: Terms, source: str) -> tuple[Terms, str]:
    """Return terms of a tensor that is taken for noisy, and the words that say so."""
    return terms, f"{source}; the {terms.residual:.1g} that is left is taken for noise"


def _raise_rank(
    problem: DecompositionProblem, first: Terms, source: str, rng: np.random.Generator
) -> tuple[Terms, str]:
    """Return exact terms of the least rank at which the search finds any, and how it was found.

    Where the terms of the Hankel matrix's rank leave little that may be noise, only ranks at which noise has
    no exact terms are tried: those with fewer unknowns than coefficients. Exact ones are the tensor's own.

    Parameters
    ----------
    problem : DecompositionProblem
    first : Terms
        The best terms of the Hankel matrix's rank, not exact.
    source : str
        Of that rank.
    rng : numpy.random.Generator

    Returns
    -------
    terms : Terms
        The first ones, not settled, if no exact terms are found and they are not near.
    source : str
    """
    tensor, rank, size = problem.tensor, first.rank, len(problem.tensor.coefficients)
    if first.residual <= TUNING.far and not (first.converged or first.is_diverging):
        # Terms that grow without bound do so slowly: only a longer run tells them from noisy ones.
        first = converge(replace(problem, max_iter=TUNING.long_run * problem.max_iter), first)
    generic = ranks.generic_rank(tensor.dim, tensor.order)
    lower, upper = _rank_bounds(problem, generic)
    says_something = first.vectors.size <= TUNING.max_share * size
    is_near = says_something and first.residual <= TUNING.far and not first.is_diverging
    last = upper if np.isfinite(problem.deadline) or size <= TUNING.few_coefficients else generic + 3
    last = -(-size // tensor.dim) - 1 if is_near else min(last, upper)
    candidates = range(max(_next_rank(problem, rank), lower), last + 1)
    if size > TUNING.many_coefficients or (is_near and problem.wants_complex):
        candidates = range(0)
    tried = [rank]
    for number in candidates:
        if problem.is_out_of_time:
            break
        tried.append(number)
        affordable = TUNING.rank_work / (len(candidates) * run_work(tensor, number))
        n_starts = max(int(min(affordable, problem.n_starts // 2)), 1)
        # Below the generic rank complex starts find hardly more than real ones.
        is_real = size > TUNING.few_coefficients and number * tensor.dim < size and not problem.wants_complex
        share = replace(problem, n_starts=n_starts, field="real" if is_real else problem.field)
        exact = best_terms(share, number, rng)
        if exact.is_exact:
            is_next = tensor.dim == 2 and number == _next_rank(problem, lower)
            words = f"raised until exact, from the Hankel matrix's {rank}"
            if is_near:
                words = f"exact, where {rank} terms leave {first.residual:.1g}, and below the generic rank"
            return replace(exact, rank_bounds=(number if is_next else lower, number)), words
    first = replace(first, rank_bounds=(lower, upper), is_settled=is_near)
    if is_near:
        return _as_noisy(first, source)
    if size > TUNING.many_coefficients:
        words = f"forms of more than {TUNING.many_coefficients} coefficients are not tried at higher ranks"
        return first, f"the Hankel matrix; {words}"
    limit = ", then time_limit was over" if problem.is_out_of_time else ""
    others = ", ".join(str(other) for other in tried)
    return first, f"the numerical rank of the Hankel matrix; no exact terms found at {others}{limit}"


def _rank_bounds(problem: DecompositionProblem, generic: int) -> tuple[int, int]:
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
