"""The method "pencil": algorithm 2 of the paper."""

import numpy as np

from apolar.decomposition import ranks
from apolar.decomposition.candidates import CandidateTerms, rated
from apolar.decomposition.methods.problem import Problem
from apolar.decomposition.search import refined_in_field
from apolar.decomposition.starts import pencil_or_none, real_starts, unrefined


def pencil(problem: Problem, rng: np.random.Generator) -> tuple[CandidateTerms, str]:
    """Return the terms of algorithm 2, and where their number comes from."""
    rank, source = problem.resolved_rank()
    candidate = pencil_candidate(problem, rank, rng)
    if problem.refine:
        candidate = refined_in_field(problem.tensor, candidate, problem.field, problem.budget)
    return candidate, source


def pencil_candidate(problem: Problem, rank: int, rng: np.random.Generator) -> CandidateTerms:
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
    return rated(tensor, "pencil", unrefined(tensor, points), polish=problem.refine)
