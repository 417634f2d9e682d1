"""The search for more real terms than structured methods find: penalised starts, and hops from the best."""

from collections.abc import Callable

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.candidates import Budget, CandidateTerms, better, rated
from apolar.decomposition.gauss_newton import LONG_DENSE_WORK, gauss_newton
from apolar.decomposition.penalised import penalised_descent
from apolar.decomposition.refine import SEARCH_TOL
from apolar.decomposition.starts import random_points, unrefined
from apolar.tensor import SymmetricTensor

# A round: some starts, then hops from the best of them.
STARTS_PER_ROUND, HOPS_PER_ROUND = 2, 20
# Where a hop starts its penalty, and in how many stages it falls.
HOP_PENALTY, HOP_STAGES = 1e-2, 5
# Runs for each random start that is asked for: they are short.
RUNS_PER_START = 4
# Multiplications of all runs together, about, and the steps of a run.
WORK, STEPS = 1.2e11, 80
# The same where a run is one way of several, unless there are fewer runs than starts.
GENERIC_WORK = 3e9
# Unknowns up to which a factorised step is fast.
MAX_UNKNOWNS = 900
# Terms that are nearer than this are worth exact refinement.
NEAR = 1e-4


def run_work(unknowns: int) -> float:
    """Return the multiplications of a run, about: those of its factorisations."""
    return STEPS * unknowns**3 / 3


def affordable_runs(tensor: SymmetricTensor, rank: int, budget: Budget) -> int:
    """Return how many penalised runs there is time for; none where a step takes too long."""
    unknowns = rank * tensor.dim
    if unknowns > MAX_UNKNOWNS:
        return 0
    n_runs = min(RUNS_PER_START * budget.n_starts, WORK / run_work(unknowns))
    if unknowns >= len(tensor.coefficients):
        # From the generic rank on, complex starts find terms too.
        n_runs = min(n_runs, max(budget.n_starts, GENERIC_WORK / run_work(unknowns)))
    return int(n_runs)


def overcomplete_terms(
    tensor: SymmetricTensor,
    rank: int,
    n_runs: int,
    rng: np.random.Generator,
    budget: Budget,
    is_certified: Callable[[CandidateTerms], bool],
) -> CandidateTerms | None:
    """Return the best real terms of penalised runs, the first that are exact or certified.

    Of 10 starts at rank 20 of a cubic in 10 variables, one to five end at the exact
    terms, with a penalty; one of a hundred without. A run that fails has mostly a few wrong terms: the
    next ones start from it, with one term drawn anew.

    Parameters
    ----------
    tensor : SymmetricTensor
        Real.
    rank : int
    n_runs : int
    rng : numpy.random.Generator
    budget : Budget
    is_certified : callable
        Says whether terms can have no rival.

    Returns
    -------
    candidate : CandidateTerms or None
        None without a run.
    """
    best: CandidateTerms | None = None
    leader: CandidateTerms | None = None
    for run in range(n_runs):
        if best is not None and budget.is_spent:
            break
        place = run % (STARTS_PER_ROUND + HOPS_PER_ROUND)
        if place == 0:
            leader = None
        if leader is None or place < STARTS_PER_ROUND:
            start_vectors, signs = _random_terms(tensor, rank, rng)
            vectors = penalised_descent(tensor, start_vectors, signs)
        else:
            signs = leader.refined.signs
            start_vectors = _with_new_term(leader.refined.vectors, rng)
            vectors = penalised_descent(
                tensor, start_vectors, signs, first_penalty=HOP_PENALTY, n_stages=HOP_STAGES
            )
        candidate = _finished(tensor, vectors, signs, budget)
        if leader is None or candidate.residual < leader.residual:
            leader = candidate
        if best is None or better(candidate, best):
            best = candidate
            if candidate.exact or is_certified(candidate):
                break
    return best


def _random_terms(tensor: SymmetricTensor, rank: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return random terms of one size, which together have the norm of the tensor, and their signs."""
    points = random_points(rank, tensor.dim, False, rng)
    norm = np.sqrt(np.sum((points @ points.T) ** tensor.order))
    signs = np.ones(rank) if tensor.order % 2 else unrefined(tensor, points).signs
    return points * (tensor.norm() / norm) ** (1 / tensor.order), signs


def _finished(tensor: SymmetricTensor, vectors: Array, signs: Array, budget: Budget) -> CandidateTerms:
    """Return the terms rated, after steps to full accuracy where they are near."""
    refined = gauss_newton(tensor, vectors, signs, max_iter=0, tol=budget.tol)
    candidate = rated(tensor, "penalised", refined)
    if candidate.residual > NEAR:
        return candidate
    refined = gauss_newton(
        tensor,
        vectors,
        signs,
        max_iter=budget.max_iter,
        tol=budget.tol,
        give_up_above=SEARCH_TOL,
        dense_work=LONG_DENSE_WORK,
    )
    return rated(tensor, "penalised", refined)


def _bounded(vectors: Array) -> Array:
    """Return the vectors, none longer than twice the median: large terms would cancel each other."""
    lengths = np.linalg.norm(vectors, axis=1)
    longest = 2 * np.median(lengths)
    return np.asarray(vectors * np.minimum(1.0, longest / np.maximum(lengths, longest))[:, None])


def _with_new_term(vectors: Array, rng: np.random.Generator) -> Array:
    """Return vectors of bounded length, one of them replaced by a random one."""
    rank, dim = vectors.shape
    changed = _bounded(vectors)
    middle = np.median(np.linalg.norm(vectors, axis=1))
    changed[rng.integers(rank)] = middle * random_points(1, dim, False, rng)[0]
    return changed
