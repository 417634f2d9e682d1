"""The methods of `decompose`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from apolar.decomposition import ranks
from apolar.decomposition.power_method import power_method
from apolar.decomposition.rank_search import decompose_unknown_rank
from apolar.decomposition.search import (
    CandidateTerms,
    DecompositionProblem,
    best_terms,
    far_better,
    pencil_or_none,
    rate_points,
    real_starts,
    refine_in_field,
)


def pencil_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the terms of algorithm 2, and where their number comes from."""
    rank, source = problem.resolve_rank()
    candidate = pencil_candidate(problem, rank, rng)
    return refine_in_field(problem, candidate) if problem.refine else candidate, source


def pencil_candidate(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> CandidateTerms:
    """Return the terms of algorithm 2 as it gives them."""
    tensor, row_degree = problem.tensor, problem.flattening.row_degree
    problem.check_limit(rank, ranks.pencil_limit(tensor.dim, tensor.order, row_degree), "pencil")
    points = pencil_or_none(problem, rank, rng)
    if points is None:
        raise ValueError(
            f"Algorithm 2 breaks down at rank {rank}: the pencil is singular, so the rank is not the "
            "tensor's own or its points are in special position. Use method='auto'."
        )
    return rate_points(problem, "pencil", real_starts(points) if problem.field == "real" else points)


def spm_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the terms of the subspace power method, and where their number comes from."""
    rank, source = problem.resolve_rank()
    candidate = power_method_candidate(problem, rank, rng)
    if not problem.refine:
        return candidate, source
    candidate = refine_in_field(problem, candidate)
    if problem.field == "auto" and not (candidate.exact or problem.tensor.is_complex):
        complex_terms = power_method_candidate(replace(problem, field="complex"), rank, rng)
        candidate = far_better(refine_in_field(problem, complex_terms), candidate)
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
    dtype = np.complex128 if problem.wants_complex else np.float64
    left, right = flattening.left[:, :rank].astype(dtype), flattening.right[:, :rank].astype(dtype)
    points = power_method(left, values[:rank], right, tensor.dim, tensor.order, rng)
    return rate_points(problem, "spm", points)


def auto_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the best terms, and where their number comes from."""
    tensor = problem.tensor
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
        return best_terms(problem, rank, rng), source
    return decompose_unknown_rank(problem, rng)


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
        raise ValueError(f"No method gives rank {rank} without refinement: switch it on.") from reason
    return min(candidates, key=lambda candidate: candidate.residual)


METHODS: dict[str, Callable[[DecompositionProblem, np.random.Generator], tuple[CandidateTerms, str]]] = {
    "auto": auto_method,
    "pencil": pencil_method,
    "spm": spm_method,
}
"""Each returns terms, refined if the problem says so, and where their number comes from."""
