"""The search for the best terms at a given rank: structured starts, then random ones."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.binary import sylvester_points
from apolar.decomposition.candidates import (
    Budget,
    CandidateTerms,
    better,
    converged,
    long_search,
    persistent,
    rated,
)
from apolar.decomposition.condition import condition_estimate
from apolar.decomposition.flattening import Flattening, middle_degree
from apolar.decomposition.gauss_newton import gauss_newton
from apolar.decomposition.overcomplete import affordable_runs, overcomplete_terms
from apolar.decomposition.ranks import numerical_rank, power_method_limit
from apolar.decomposition.refine import SEARCH_TOL
from apolar.decomposition.starts import (
    pencil_or_none,
    random_points,
    real_starts,
    rotated_to_real,
    starting_points,
    structured_limit,
    unrefined,
)
from apolar.tensor import SymmetricTensor, n_monomials

# Refinement steps before starts are compared.
SHORT_RUN = {"pencil": 12, "spm": 40, "random": 60, "hop": 60}
# Above this residual, noise has broken the pencil: the power method is the better use of the time.
PENCIL_FAILED = 0.15
# Terms with a residual below this are signal, and the residual noise; above, no tensor of the rank is near.
CLOSE = 0.2
# Multiplications of all random starts together, at most, and the random starts that there are in any case.
SEARCH_WORK = 1e10
FEWEST_STARTS = 3
# Up to this many coefficients plain random starts find what there is to find.
FEW_COEFFICIENTS = 40
# Random starts that are left after penalised ones.
STARTS_AFTER_PENALISED = 10
# Products with the Gram matrix in a step of a large problem.
PRODUCTS_PER_STEP = 60


def best_terms(
    tensor: SymmetricTensor,
    flattening: Flattening,
    rank: int,
    field: str,
    rng: np.random.Generator,
    budget: Budget,
) -> CandidateTerms:
    """Return the best terms of a rank that the search finds, refined.

    Parameters
    ----------
    tensor : SymmetricTensor
        Of order at least 3, not zero.
    flattening : Flattening
        Of the middle row degree.
    rank : int
    field : {"auto", "real", "complex"}
    rng : numpy.random.Generator
    budget : Budget

    Returns
    -------
    candidate : CandidateTerms
    """
    basis = _span(tensor, flattening, rank)
    if basis is None:
        return _best_of_field(tensor, flattening, rank, field, None, rng, budget)
    # Terms span no more than `rank` dimensions: search in those that matter most, then in all.
    core = tensor.change_variables(basis.conj())
    if core.norm() < 0.1 * tensor.norm():
        # The form all but vanishes there, as x y^2 does on the axes: nothing to search.
        return _best_of_field(tensor, flattening, rank, field, None, rng, budget)
    core_budget = replace(budget, n_starts=min(budget.n_starts, 10))
    core_flattening = Flattening.of(core, middle_degree(core.order))
    in_core = _best_of_field(core, core_flattening, rank, field, None, rng, core_budget)
    vectors, signs = in_core.refined.vectors @ basis.T, in_core.refined.signs
    lifted = gauss_newton(tensor, vectors, signs, max_iter=budget.max_iter, tol=budget.tol)
    candidate = rated(tensor, in_core.method, in_core.refined.then(lifted))
    if candidate.exact or is_certified(tensor, candidate):
        return candidate
    if np.iscomplexobj(lifted.vectors) and field == "auto" and not tensor.is_complex:
        real = _best_of_field(tensor, flattening, rank, field, None, rng, budget)
        return far_better(candidate, real)
    return _best_of_field(tensor, flattening, rank, field, candidate, rng, budget)


def far_better(rival: CandidateTerms | None, best: CandidateTerms) -> CandidateTerms:
    """Return the rival, complex terms of a real tensor, only if it is better by an order of magnitude."""
    return rival if rival is not None and rival.residual < 0.1 * best.residual else best


def _span(tensor: SymmetricTensor, flattening: Flattening, rank: int) -> Array | None:
    """Return a basis of the space that terms of that rank span, or None if that is the whole space."""
    if tensor.order == 3:
        basis, values = flattening.right, flattening.singular_values
    else:
        by_variable = Flattening.of(tensor, 1)
        basis, values = by_variable.left, by_variable.singular_values
    width = min(rank, numerical_rank(values))
    return basis[:, :width] if width < tensor.dim else None


def _best_of_field(
    tensor: SymmetricTensor,
    flattening: Flattening,
    rank: int,
    field: str,
    known: CandidateTerms | None,
    rng: np.random.Generator,
    budget: Budget,
) -> CandidateTerms:
    """Return the best real terms, or complex ones where the field allows and they are far better."""
    complex_wanted = tensor.is_complex or field == "complex"
    points = pencil_or_none(tensor, flattening, rank, rng)
    if points is not None and np.iscomplexobj(points) and not complex_wanted:
        complex_terms = rated(tensor, "pencil", unrefined(tensor, points))
        if complex_terms.exact and field == "auto":
            # Unique, by the theorem behind algorithm 2: there is no real decomposition of this rank.
            return converged(tensor, complex_terms, budget)
    if complex_wanted:
        binary = _binary_terms(tensor, rank, rng, budget)
        if binary is not None:
            return binary
    elif rank > structured_limit(tensor) and len(tensor.coefficients) > FEW_COEFFICIENTS:
        n_runs = affordable_runs(tensor, rank, budget)
        best = overcomplete_terms(tensor, rank, n_runs, rng, budget, lambda c: is_certified(tensor, c))
        if best is not None:
            if best.exact:
                return best
            if is_certified(tensor, best):
                return replace(best, certified=True)
            known = best if known is None or better(best, known) else known
            budget = replace(budget, n_starts=min(budget.n_starts, STARTS_AFTER_PENALISED))
    best = _race(tensor, flattening, rank, points, known, complex_wanted, rng, budget)
    if best.exact or best.certified or complex_wanted:
        return best
    rival = _complex_rival(tensor, flattening, rank, points, best, rng, budget)
    if rival is not None:
        rival = made_real(tensor, rival, budget)
        if field == "real" and np.iscomplexobj(rival.refined.vectors):
            return best
    return far_better(rival, best)


def _binary_terms(
    tensor: SymmetricTensor, rank: int, rng: np.random.Generator, budget: Budget
) -> CandidateTerms | None:
    """Return the exact terms of a binary form of a rank at which there is a family of them, or None."""
    if tensor.dim != 2 or 2 * rank <= tensor.order:
        return None
    starts = [unrefined(tensor, points) for points in sylvester_points(tensor, rank, rng)]
    candidates = [rated(tensor, "sylvester", start) for start in starts]
    if not candidates:
        return None
    best = converged(tensor, min(candidates, key=lambda candidate: candidate.residual), budget)
    return best if best.exact else None


def made_real(tensor: SymmetricTensor, candidate: CandidateTerms, budget: Budget) -> CandidateTerms:
    """Return complex terms of a real tensor as real ones, where they are real but for a phase."""
    if tensor.is_complex or not np.iscomplexobj(candidate.refined.vectors):
        return candidate
    turned = rotated_to_real(unit_rows(candidate.refined.vectors))
    if np.abs(turned.imag).max() > 1e-6:
        return candidate
    terms = unrefined(tensor, unit_rows(turned.real))
    refined = gauss_newton(tensor, terms.vectors, terms.signs, max_iter=budget.max_iter, tol=budget.tol)
    real = rated(tensor, candidate.method, candidate.refined.then(refined))
    return real if real.residual <= 2 * candidate.residual + SEARCH_TOL else candidate


def _complex_rival(
    tensor: SymmetricTensor,
    flattening: Flattening,
    rank: int,
    points: Array | None,
    best: CandidateTerms,
    rng: np.random.Generator,
    budget: Budget,
) -> CandidateTerms | None:
    """Return complex terms of a real tensor, where it is likely that they beat real ones."""
    if points is not None and np.iscomplexobj(points):
        start = unrefined(tensor, points)
        if rated(tensor, "pencil", start).residual < best.residual:
            return converged(tensor, rated(tensor, "pencil", start), budget)
    if points is None and rank > structured_limit(tensor):
        binary = _binary_terms(tensor, rank, rng, budget)
        if binary is not None:
            return binary
        generic = None
        if rank * tensor.dim >= n_monomials(tensor.dim, tensor.order):
            generic = long_search(tensor, rank, True, rng, budget)
            if generic.exact:
                return generic
        return _race(tensor, flattening, rank, None, generic, True, rng, budget)
    return None


def _race(
    tensor: SymmetricTensor,
    flattening: Flattening,
    rank: int,
    points: Array | None,
    known: CandidateTerms | None,
    is_complex: bool,
    rng: np.random.Generator,
    budget: Budget,
) -> CandidateTerms:
    """Return the best terms of all starts, stopping as soon as no start can be expected to do better.

    That is when the best terms are exact, when their condition rules out any
    others as good (`is_certified`), or when they are close and a second start has
    led to them too. Slow starts are left where they are after a short run, and
    the best few are refined to the end.
    """
    pool: list[CandidateTerms] = [] if known is None else [known]
    best = known
    hits = 1
    identifiable = rank <= structured_limit(tensor)
    n_starts = _affordable_starts(tensor, rank, is_complex, budget)
    few_starts = n_starts < budget.n_starts
    starts: Iterator[tuple[str, Array | None]] = starting_points(
        tensor, flattening, rank, points, is_complex, rng, n_starts
    )
    hops = itertools.repeat(("hop", None), n_starts // 3)
    for method, start in itertools.chain(starts, hops):
        if pool and budget.is_spent:
            break
        if start is None:
            assert best is not None  # there were random starts before
            start = _neighbour(best, rng)
        candidate = _short_run(tensor, method, start, budget)
        pool.append(candidate)
        if best is not None and abs(candidate.residual - best.residual) <= 1e-4 * best.residual:
            # The power method mostly finds the same points again: that says little, where other starts are
            # cheap enough to say more.
            hits += few_starts or not method == best.method == "spm"
        if best is None or better(candidate, best):
            if best is None or candidate.residual < (1 - 1e-4) * best.residual:
                hits = 1
            best = candidate
            if candidate.exact:
                break
            if is_certified(tensor, candidate):
                return replace(converged(tensor, candidate, budget), certified=True)
        if hits >= 2 and identifiable and best.residual < CLOSE and not best.diverging:
            break
    return _winner(tensor, pool, budget)


def _affordable_starts(tensor: SymmetricTensor, rank: int, is_complex: bool, budget: Budget) -> int:
    """Return how many random starts there is time for: those asked for, fewer in large problems."""
    work = SHORT_RUN["random"] * PRODUCTS_PER_STEP * 2 * rank**2 * tensor.dim * (4 if is_complex else 1)
    return min(budget.n_starts, max(int(SEARCH_WORK / work), FEWEST_STARTS))


def _short_run(tensor: SymmetricTensor, method: str, points: Array, budget: Budget) -> CandidateTerms:
    terms = unrefined(tensor, points)
    if method == "pencil" and len(points) <= power_method_limit(tensor.dim, tensor.order):
        raw = rated(tensor, method, terms)
        if raw.residual > PENCIL_FAILED:
            return raw
    steps = min(SHORT_RUN[method], budget.max_iter)
    refined = gauss_newton(tensor, terms.vectors, terms.signs, max_iter=steps, tol=budget.tol)
    return rated(tensor, method, refined)


def _neighbour(candidate: CandidateTerms, rng: np.random.Generator) -> Array:
    """Return the candidate's points with one of them drawn anew."""
    vectors = candidate.refined.vectors
    points = unit_rows(vectors)
    rank, dim = points.shape
    points[rng.integers(rank)] = random_points(1, dim, np.iscomplexobj(points), rng)[0]
    return points


def _winner(tensor: SymmetricTensor, pool: list[CandidateTerms], budget: Budget) -> CandidateTerms:
    """Return the best of the pool after its best few are refined to the end."""
    leaders: list[CandidateTerms] = []
    for candidate in sorted(pool, key=lambda c: c.residual):
        if all(abs(candidate.residual - other.residual) > 1e-4 * other.residual for other in leaders):
            leaders.append(candidate)
    stable = [candidate for candidate in leaders if not candidate.diverging]
    # The stable ones may come after many that diverge.
    finalists = leaders[:6] + [candidate for candidate in stable[:3] if candidate not in leaders[:6]]
    best = converged(tensor, finalists[0], budget)
    for candidate in finalists[1:]:
        if best.exact or candidate.residual > 1.5 * best.residual:
            continue
        finished = converged(tensor, candidate, budget)
        if better(finished, best):
            best = finished
    return persistent(tensor, best, budget)


def is_certified(tensor: SymmetricTensor, candidate: CandidateTerms) -> bool:
    """Return whether all terms that are as near to the tensor must lie next to these.

    Such terms give a tensor within twice the residual of this one, and to
    first order terms move by at most the condition number times that.
    """
    if candidate.diverging or not candidate.refined.converged or candidate.residual > 0.1:
        return False
    sizes = np.linalg.norm(candidate.refined.vectors, axis=1) ** tensor.order
    allowed = sizes.min() / (candidate.residual * tensor.norm())
    return bool(allowed > 1) and condition_estimate(candidate.refined.vectors, tensor.order) < allowed


def refined_in_field(
    tensor: SymmetricTensor, candidate: CandidateTerms, field: str, budget: Budget
) -> CandidateTerms:
    """Return a candidate refined; complex terms of a real tensor stay so only if they are far better."""
    finished = converged(tensor, candidate, budget)
    vectors = candidate.refined.vectors
    if tensor.is_complex or field != "auto" or not np.iscomplexobj(vectors):
        return finished
    turned = made_real(tensor, finished, budget)
    if finished.exact or not np.iscomplexobj(turned.refined.vectors):
        return turned
    points = real_starts(unit_rows(vectors))
    real = converged(tensor, rated(tensor, candidate.method, unrefined(tensor, points)), budget)
    return far_better(finished, real)
