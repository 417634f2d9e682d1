"""The method "spm": the subspace power method."""

from dataclasses import replace

import numpy as np

from apolar.decomposition import ranks
from apolar.decomposition.candidates import CandidateTerms, rated
from apolar.decomposition.methods.problem import Problem
from apolar.decomposition.search import far_better, refined_in_field
from apolar.decomposition.spm import power_method
from apolar.decomposition.starts import unrefined


def spm(problem: Problem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the terms of the subspace power method, and where their number comes from."""
    tensor, field, budget = problem.tensor, problem.field, problem.budget
    rank, source = problem.resolved_rank()
    candidate = spm_candidate(problem, rank, rng)
    if not problem.refine:
        return candidate, source
    candidate = refined_in_field(tensor, candidate, field, budget)
    if field == "auto" and not (candidate.exact or tensor.is_complex):
        complex_terms = spm_candidate(replace(problem, field="complex"), rank, rng)
        candidate = far_better(refined_in_field(tensor, complex_terms, field, budget), candidate)
    return candidate, source


def spm_candidate(problem: Problem, rank: int, rng: np.random.Generator) -> CandidateTerms:
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
    return rated(tensor, "spm", unrefined(tensor, points), polish=problem.refine)
