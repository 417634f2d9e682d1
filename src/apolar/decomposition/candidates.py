"""Terms that compete for the best decomposition: how good they are, and how they are refined."""

import time
from dataclasses import dataclass

import numpy as np

from apolar.decomposition.gauss_newton import DENSE_WORK, LONG_DENSE_WORK, Refined, gauss_newton
from apolar.decomposition.polish import polished
from apolar.decomposition.refine import SEARCH_TOL, is_diverging, refined_terms
from apolar.decomposition.starts import random_points, unrefined
from apolar.decomposition.waring import relative_residual
from apolar.tensor import SymmetricTensor

# Terms as many as a generic tensor has are reached from nearly every complex start, but slowly, through
# ill-conditioned steps: few starts, with more steps.
LONG_STARTS = 4
LONG_RUN = 5
# Multiplications of a long run, about, where that is more than a run otherwise takes.
LONG_WORK = 1.5e9
# Terms that leave less than this and still move are likely on a slow way to exact ones.
PROMISING = 1e-3


@dataclass(frozen=True, eq=False)
class CandidateTerms:
    """Terms that compete: sum_i s_i (a_i . x)^d, where they come from and how good they are.

    `certified` terms have no rival: see `is_certified`. Of a rank that was searched
    for, `rank_bounds` are what is known of it, and `settled` says whether the
    search came to an end.
    """

    method: str
    refined: Refined
    residual: float
    diverging: bool
    certified: bool = False
    rank_bounds: tuple[int, int] | None = None
    settled: bool = True

    @property
    def exact(self) -> bool:
        """Whether the terms are the tensor's own, so that a search ends with them."""
        return self.residual <= SEARCH_TOL and not self.diverging


@dataclass(frozen=True, eq=False)
class Budget:
    """How long to search.

    Attributes
    ----------
    max_iter : int
        Refinement steps of a start.
    n_starts : int
        Random starts, at most, of those that no certificate makes needless.
    tol : float
    deadline : float
        By the monotonic clock: from then on no start is begun.
    """

    max_iter: int
    n_starts: int
    tol: float
    deadline: float = float("inf")

    @property
    def is_spent(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self.deadline


def converged(tensor: SymmetricTensor, candidate: CandidateTerms, budget: Budget) -> CandidateTerms:
    """Return the candidate refined to the end."""
    first = candidate.refined
    left = budget.max_iter - first.n_iter
    if first.gradient_norm <= budget.tol or left <= 0:
        return candidate
    later = refined_terms(tensor, first.vectors, first.signs, method="auto", max_iter=left, tol=budget.tol)
    finished = rated(tensor, candidate.method, first.then(later))
    return finished if finished.residual <= candidate.residual * (1 + 1e-9) + 1e-15 else candidate


def persistent(tensor: SymmetricTensor, candidate: CandidateTerms, budget: Budget) -> CandidateTerms:
    """Return the candidate, after more steps where it stopped on a slow way to exact terms."""
    first = candidate.refined
    if candidate.diverging or first.converged or not SEARCH_TOL < candidate.residual < PROMISING:
        return candidate
    if len(tensor.coefficients) * first.vectors.size**2 > DENSE_WORK or budget.is_spent:
        return candidate  # many steps would take long
    steps = LONG_RUN * budget.max_iter
    later = gauss_newton(tensor, first.vectors, first.signs, max_iter=steps, tol=budget.tol)
    finished = rated(tensor, candidate.method, first.then(later))
    return finished if better(finished, candidate) else candidate


def rated(tensor: SymmetricTensor, method: str, refined: Refined, *, polish: bool = True) -> CandidateTerms:
    """Return terms with their residual, from the coefficients, and whether they diverge.

    Those that are nearly exact are polished, unless they have to stay as they are.
    """
    residual = relative_residual(tensor, refined.signs, refined.vectors)
    if polish:
        refined, residual = polished(tensor, refined, residual)
    return CandidateTerms(method, refined, residual, is_diverging(tensor, refined, residual))


def better(candidate: CandidateTerms, best: CandidateTerms) -> bool:
    """Return whether a candidate is to be preferred to the best so far."""
    if candidate.diverging != best.diverging:
        # Stable terms win unless the diverging ones are clearly nearer to the tensor.
        margin = 0.999 if candidate.diverging else 1 / 0.999
        return candidate.residual < margin * best.residual
    return candidate.residual < best.residual


def long_search(
    tensor: SymmetricTensor, rank: int, is_complex: bool, rng: np.random.Generator, budget: Budget
) -> CandidateTerms:
    """Return the best terms of a few long runs from random starts, the first that are exact."""
    best: CandidateTerms | None = None
    step_work = len(tensor.coefficients) * (rank * tensor.dim) ** 2
    steps = int(min(LONG_RUN * budget.max_iter, max(LONG_WORK / step_work, budget.max_iter)))
    for _ in range(min(LONG_STARTS, budget.n_starts)):
        if best is not None and (best.exact or budget.is_spent):
            break
        start = unrefined(tensor, random_points(rank, tensor.dim, is_complex, rng))
        refined = gauss_newton(
            tensor,
            start.vectors,
            start.signs,
            max_iter=steps,
            tol=budget.tol,
            dense_work=LONG_DENSE_WORK,
        )
        candidate = rated(tensor, "random", refined)
        if best is None or better(candidate, best):
            best = candidate
    assert best is not None  # there is a start at least
    return best
