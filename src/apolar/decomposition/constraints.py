"""The constraints of `decompose`: one table, from the name of a constraint to the function that keeps it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from apolar.decomposition.candidates import CandidateTerms, rated
from apolar.decomposition.methods import Problem
from apolar.decomposition.nonnegative import nonnegative
from apolar.decomposition.orthogonal import orthogonal
from apolar.tensor import RowTensor, SymmetricTensor, n_monomials

__all__ = ["CONSTRAINTS", "check_constraint", "constrained_terms", "formed"]

# Sums of powers of rows of up to this many coefficients are formed.
FORMED = 1_000_000
# Terms smaller than this part of the tensor's norm are zero to rounding.
ZERO = 1e-13

CONSTRAINTS: dict[str, Callable[[Problem, np.random.Generator], tuple[CandidateTerms, str]]] = {
    "nonnegative": nonnegative,
    "orthogonal": orthogonal,
}
"""Each returns terms that keep it, refined, and where their number comes from."""


def check_constraint(constraint: str, method: str, field: str, refine: bool) -> None:
    """Refuse what has no meaning together with a constraint."""
    given = f"constraint='{constraint}'"
    if method != "auto":
        raise ValueError(
            f"{given} has its own search, and method='{method}' knows nothing of it: leave out one of them."
        )
    if field == "complex":
        raise ValueError(f"{given} is about real points: leave out field='complex'.")
    if not refine:
        raise ValueError(f"{given} is what the refinement keeps to: it needs refine=True.")


def formed(tensor: RowTensor, constraint: str) -> SymmetricTensor:
    """Return a sum of powers of rows with its coefficients, which a constrained search needs."""
    size = n_monomials(tensor.dim, tensor.order)
    if size > FORMED:
        raise ValueError(
            f"constraint='{constraint}' needs the coefficients of the tensor, and of order {tensor.order} in "
            f"{tensor.dim} variables there are {size:,}: reduce the columns of the rows first, or leave out "
            "the constraint."
        )
    return tensor.to_tensor()


def constrained_terms(
    constraint: str, problem: Problem, rng: np.random.Generator
) -> tuple[CandidateTerms, str]:
    """Return the best terms that keep a constraint, without those that are zero, and the source of the rank.

    Raises
    ------
    ValueError
        If all terms are zero: nothing that keeps the constraint is nearer to the tensor.
    """
    candidate, source = CONSTRAINTS[constraint](problem, rng)
    tensor, refined = problem.tensor, candidate.refined
    kept = np.linalg.norm(refined.vectors, axis=1) ** tensor.order > ZERO * tensor.norm()
    if kept.all():
        return candidate, source
    if not kept.any():
        raise ValueError(
            f"No term of constraint='{constraint}' was found that is nearer to this tensor than zero: leave "
            "out the constraint, or change the sign of the tensor."
        )
    terms = replace(refined, vectors=refined.vectors[kept], signs=refined.signs[kept])
    source += f", less {np.count_nonzero(~kept)} that would be zero"
    return rated(tensor, candidate.method, terms, polish=False), source
