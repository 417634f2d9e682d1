"""The search for the best terms of a given rank: starts, their race, and the refinement of the best."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.least_squares import gauss_newton, penalised_descent, polish
from apolar.decomposition.pencil import (
    fit_weights,
    pencil_points,
    real_starts,
    rotate_to_real,
    sylvester_points,
)
from apolar.decomposition.power_method import gaussian_draws, power_method
from apolar.decomposition.ranks import HankelSVD, RankRule, pencil_limit, power_method_limit
from apolar.decomposition.riemannian import newton
from apolar.decomposition.terms import (
    Contractible,
    Terms,
    condition_estimate,
    is_diverging,
    relative_residual,
)
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor


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
    max_iter : int
        Refinement steps of a start.
    n_starts : int
        Random starts, at most, of those that no certificate makes needless.
    tol : float
    deadline : float
        By the monotonic clock: from then on no start is begun.
    """

    tensor: SymmetricTensor
    flattening: HankelSVD
    rank: int | RankRule | None
    field: str
    refine: bool
    max_iter: int
    n_starts: int
    tol: float
    deadline: float = float("inf")

    @property
    def wants_complex(self) -> bool:
        """Whether complex terms are as good as real ones."""
        return self.tensor.is_complex or self.field == "complex"

    @property
    def is_out_of_time(self) -> bool:
        """Whether no more starts are to be begun."""
        return time.monotonic() >= self.deadline


# --- terms, refined and rated ------------------------------------------------------------------


def refine_terms(tensor: Contractible, terms: Terms, *, method: str, max_iter: int, tol: float) -> Terms:
    """Return the terms refined by the method of that name."""
    if method == "newton":
        return newton(tensor, terms, max_iter=max_iter, tol=tol)
    unknowns = terms.vectors.size * (2 if terms.is_complex else 1)
    newton_pays = method == "auto" and unknowns <= TUNING.newton_unknowns
    # Gauss-Newton is fast far away and where the residual is small; elsewhere Newton takes over.
    give_up_above = TUNING.exact_residual if newton_pays else np.inf
    first = gauss_newton(tensor, terms, max_iter=max_iter, tol=tol, give_up_above=give_up_above)
    left = max_iter - first.n_iter + terms.n_iter
    is_done = first.gradient_size <= tol or first.residual <= TUNING.exact_residual or not left
    if is_done or not newton_pays:
        return first
    second = newton(tensor, first, max_iter=left, tol=tol)
    is_worse = second.gradient_size > first.gradient_size and second.residual >= first.residual
    return first if is_worse else second


def rate(tensor: SymmetricTensor, terms: Terms, *, may_move: bool = True) -> Terms:
    """Return terms with their residual, from the coefficients, and whether they diverge.

    Those that are nearly exact are polished, unless they have to stay as they are.
    """
    terms = replace(terms, residual=relative_residual(tensor, terms.signs, terms.vectors))
    if may_move:
        terms = polish(tensor, terms)
    return replace(terms, is_diverging=is_diverging(terms, tensor.order, tensor.norm()))


def rate_points(problem: DecompositionProblem, method: str, points: Array) -> Terms:
    """Return the terms of points with the weights that fit best, rated."""
    terms = Terms(*fit_weights(problem.tensor, points), method)
    return rate(problem.tensor, terms, may_move=problem.refine)


def converge(problem: DecompositionProblem, terms: Terms) -> Terms:
    """Return the terms refined to the end."""
    tensor, left = problem.tensor, problem.max_iter - terms.n_iter
    if terms.gradient_size <= problem.tol or left <= 0:
        return terms
    finished = rate(tensor, refine_terms(tensor, terms, method="auto", max_iter=left, tol=problem.tol))
    is_worse = finished.residual > terms.residual * (1 + 1e-9) + TUNING.rounding
    return replace(terms, gradient_size=finished.gradient_size) if is_worse else finished


def refine_in_field(problem: DecompositionProblem, terms: Terms) -> Terms:
    """Return terms refined, if wanted; complex ones of a real tensor stay so only if they are far better."""
    if not problem.refine:
        return terms
    finished = converge(problem, terms)
    if finished.is_exact or problem.wants_complex or not terms.is_complex:
        return finished
    points = real_starts(unit_rows(terms.vectors))
    return far_better(finished, converge(problem, rate_points(problem, terms.method, points)))


def is_better(terms: Terms, best: Terms) -> bool:
    """Return whether terms are to be preferred to the best so far."""
    # Stable terms win unless the diverging ones are clearly nearer to the tensor.
    margin = TUNING.promising * (int(best.is_diverging) - int(terms.is_diverging))
    return terms.residual < (1 + margin) * best.residual


def far_better(rival: Terms, best: Terms) -> Terms:
    """Return the rival, complex terms of a real tensor, only if it is better by an order of magnitude."""
    return rival if rival.residual < 0.1 * best.residual else best


def is_certified(tensor: SymmetricTensor, terms: Terms) -> bool:
    """Return whether all terms that are as near to the tensor must lie next to these.

    Such terms give a tensor within twice the residual of this one, and to
    first order terms move by at most the condition number times that.
    """
    if terms.is_diverging or not terms.converged:
        return False
    sizes = np.linalg.norm(terms.vectors, axis=1) ** tensor.order
    allowed = sizes.min() / (terms.residual * tensor.norm())
    return bool(allowed > 1) and condition_estimate(terms.vectors, tensor.order, rtol=0.1) < allowed


# --- starts -------------------------------------------------------------------------------------


def structured_limit(tensor: SymmetricTensor) -> int:
    """Return the largest rank for which a structured method finds generic points."""
    by_pencil = pencil_limit(tensor.dim, tensor.order, tensor.order - tensor.order // 2)
    return max(by_pencil, power_method_limit(tensor.dim, tensor.order))


def pencil_or_none(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> Array | None:
    """Return the points of algorithm 2, or None where it does not apply or breaks down."""
    tensor, flattening = problem.tensor, problem.flattening
    if rank > min(pencil_limit(tensor.dim, tensor.order, flattening.row_degree), flattening.left.shape[1]):
        return None
    try:
        points = pencil_points(flattening, rank, rng)
    except np.linalg.LinAlgError:
        return None
    if np.iscomplexobj(points) and not tensor.is_complex:
        turned = rotate_to_real(points)
        if np.abs(turned.imag).max() < TUNING.exact_residual:
            return unit_rows(turned.real)
    return points


def _random_start(
    tensor: SymmetricTensor, rank: int, is_complex: bool, leader: Terms | None, rng: np.random.Generator
) -> Terms:
    """Return random terms of one size, which together have the norm of the tensor, or a hop from the leader.

    A run that fails has mostly a few wrong terms, and large ones cancel each other: a hop replaces one term,
    and makes none longer than twice the median.
    """
    points = unit_rows(gaussian_draws(rank, tensor.dim, is_complex, rng))
    if leader is None:
        norm = np.sqrt(np.abs(np.sum((points.conj() @ points.T) ** tensor.order)))
        vectors = points * (tensor.norm() / norm) ** (1 / tensor.order)
    else:
        lengths = np.linalg.norm(leader.vectors, axis=1)
        middle = np.median(lengths)
        vectors = leader.vectors * np.minimum(1.0, 2 * middle / np.maximum(lengths, 2 * middle))[:, None]
        vectors[rng.integers(rank)] = middle * points[0]
    # Only real terms of even order have signs: those of the best weights.
    has_signs = tensor.order % 2 == 0 and not is_complex
    signs = fit_weights(tensor, unit_rows(vectors))[1] if has_signs else np.ones(rank)
    return Terms(vectors, signs, "random" if leader is None else "hop")


# --- the race -----------------------------------------------------------------------------------


def best_terms(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> Terms:
    """Return the best terms of a rank that the search finds, refined.

    Real ones, or complex ones where the field allows and they are far better.
    """
    points = pencil_or_none(problem, rank, rng)
    if problem.wants_complex:
        return race(problem, rank, points, True, rng)
    rival = None
    if points is not None and np.iscomplexobj(points) and problem.field == "auto":
        rival = converge(problem, rate_points(problem, "pencil", points))
        if rival.is_exact:
            # Unique, by the theorem behind algorithm 2: there is no real decomposition of this rank.
            return rival
    best = race(problem, rank, points, False, rng)
    if best.is_exact or problem.field == "real":
        return best
    if rank > structured_limit(problem.tensor) and not is_certified(problem.tensor, best):
        rival = race(problem, rank, None, True, rng)
    return best if rival is None else far_better(rival, best)


def race(
    problem: DecompositionProblem, rank: int, points: Array | None, is_complex: bool, rng: np.random.Generator
) -> Terms:
    """Return the best terms of all starts, the best few refined to the end."""
    # The structured methods find generic points: two starts with the same end say enough.
    enough_hits = 2 if rank <= structured_limit(problem.tensor) else np.inf
    pool = compete(problem, _runs(problem, rank, points, is_complex, rng), enough_hits)
    leaders: list[Terms] = []
    for terms in sorted(pool, key=lambda terms: terms.residual):
        if not any(has_same_end(terms, other) for other in leaders):
            leaders.append(terms)
    best = converge(problem, leaders[0])
    for terms in leaders[1 : TUNING.enough_hits]:
        if best.is_exact or terms.residual > 1.5 * best.residual:
            break
        finished = converge(problem, terms)
        best = finished if is_better(finished, best) else best
    return best


def has_same_end(terms: Terms, other: Terms) -> bool:
    """Return whether two runs seem to end at the same minimum."""
    return abs(terms.residual - other.residual) <= 1e-4 * other.residual


def compete(problem: DecompositionProblem, candidates: Iterable[Terms], enough_hits: float) -> list[Terms]:
    """Return candidates, the best one first, taken while another can be expected to be better.

    That is until one is exact, or its condition rules out any others as good, or as many starts as said have
    led to the best one.
    """
    pool: list[Terms] = []
    for candidate in candidates:
        pool.insert(0 if not pool or is_better(candidate, pool[0]) else len(pool), candidate)
        best = pool[0]
        # Terms that leave half of the tensor say little.
        says_much = best.residual < 0.5 and not best.is_diverging
        is_found = says_much and sum(has_same_end(terms, best) for terms in pool) >= enough_hits
        is_certain = best.is_exact or (best is candidate and is_certified(problem.tensor, best))
        if is_found or is_certain or problem.is_out_of_time:
            break
    return pool


def run_work(tensor: SymmetricTensor, rank: int) -> float:
    """Return the multiplications of a run, about: those of its factorisations, or of its products."""
    unknowns = rank * tensor.dim
    if unknowns <= TUNING.max_unknowns:
        return 80 * unknowns**3 / 3
    return float(TUNING.short_run * 60 * 2 * rank * unknowns)


def n_affordable(problem: DecompositionProblem, rank: int, limit: int, share: float = 1.0) -> int:
    """Return how many starts the work allows, if each is a multiple of a short run; a few in any case."""
    affordable = TUNING.search_work / (share * run_work(problem.tensor, rank))
    return int(min(limit, max(affordable, TUNING.few_starts)))


def _runs(
    problem: DecompositionProblem, rank: int, points: Array | None, is_complex: bool, rng: np.random.Generator
) -> Iterator[Terms]:
    """Yield the terms of short runs: of structured starts, then of random ones and of hops from their best.

    More real terms than the structured methods find are run with a falling penalty on their sizes; complex
    ones arrive slowly: their runs are long, and few.
    """
    tensor = problem.tensor
    short = min(TUNING.short_run, problem.max_iter)

    def run_from(method: str, start: Array) -> Terms:
        return _run(problem, Terms(*fit_weights(tensor, start), method), short)

    if points is not None:
        is_allowed = is_complex or not np.iscomplexobj(points)
        yield run_from("pencil", points if is_allowed else real_starts(points))
    if rank <= min(power_method_limit(tensor.dim, tensor.order), problem.flattening.left.shape[1]):
        yield run_from("spm", power_method(problem.flattening, rank, is_complex, rng))
    if is_complex and tensor.dim == 2 and 2 * rank > tensor.order:
        yield run_from("sylvester", sylvester_points(tensor, rank, rng))
    is_overcomplete = rank > structured_limit(tensor)
    is_penalised = is_overcomplete and not is_complex and rank * tensor.dim <= TUNING.max_unknowns
    steps, limit = short, problem.n_starts
    if is_penalised:
        limit = 4 * problem.n_starts
    elif is_overcomplete and is_complex:
        steps = TUNING.long_run * problem.max_iter
        limit = max(problem.n_starts // (2 * TUNING.long_run), 1)
    share = (4 if is_complex else 1) * steps / TUNING.short_run
    leader: Terms | None = None
    for turn in range(n_affordable(problem, rank, limit, share)):
        place = turn % TUNING.round_of_starts
        # Small problems are also started without a penalty, once in each round.
        is_plain = place == 1 and len(tensor.coefficients) <= TUNING.few_coefficients
        leader = None if place == 0 else leader
        drawn = _random_start(tensor, rank, is_complex, None if is_plain else leader, rng)
        if is_penalised and not is_plain:
            candidate = rate(tensor, penalised_descent(tensor, drawn))
            if candidate.residual <= TUNING.promising:
                candidate = _run(problem, candidate, problem.max_iter)
        else:
            candidate = _run(problem, drawn, steps)
        if leader is None or candidate.residual < leader.residual:
            leader = candidate
        yield candidate


def _run(problem: DecompositionProblem, terms: Terms, steps: int) -> Terms:
    return rate(problem.tensor, gauss_newton(problem.tensor, terms, max_iter=steps, tol=problem.tol))
