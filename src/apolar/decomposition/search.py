"""The search for the best terms of a given rank: starts, their race, and the refinement of the best."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.condition import condition_estimate, is_diverging
from apolar.decomposition.hankel import HankelSVD
from apolar.decomposition.least_squares import gauss_newton, penalised_descent, polish_terms
from apolar.decomposition.pencil import fit_weights, pencil_points, sylvester_points
from apolar.decomposition.power_method import power_method
from apolar.decomposition.ranks import RankRule, pencil_limit, power_method_limit, resolve_rank
from apolar.decomposition.riemannian import newton
from apolar.decomposition.terms import Contractible, Refined, relative_residual
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor


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

    @property
    def wants_complex(self) -> bool:
        """Whether complex terms are as good as real ones."""
        return self.tensor.is_complex or self.field == "complex"

    def resolve_rank(self) -> tuple[int, str]:
        """Return the number of terms and where it comes from, without a search."""
        return resolve_rank(self.rank, self.flattening.singular_values)

    def with_starts(self, n_starts: int) -> DecompositionProblem:
        """Return the problem with another number of starts, one at least."""
        return replace(self, budget=replace(self.budget, n_starts=max(n_starts, 1)))

    def check_limit(self, rank: int, limit: int, method: str) -> None:
        """Refuse a rank above that of a method."""
        if rank > limit:
            raise ValueError(
                f"Rank {rank} is above what method='{method}' can find in a tensor of order "
                f"{self.tensor.order} in {self.tensor.dim} variables: {limit}. Use method='auto', or a lower "
                "rank."
            )


@dataclass(frozen=True, eq=False)
class CandidateTerms:
    """Terms that compete: sum_i s_i (a_i . x)^d, where they come from and how good they are.

    Of a rank that was searched for, `rank_bounds` are what is known of it, and `settled` says whether the
    search came to an end.
    """

    method: str
    refined: Refined
    residual: float
    diverging: bool
    rank_bounds: tuple[int, int] | None = None
    settled: bool = True

    @property
    def rank(self) -> int:
        """The number of terms."""
        return len(self.refined.vectors)

    @property
    def is_complex(self) -> bool:
        """Whether the vectors are complex."""
        return bool(np.iscomplexobj(self.refined.vectors))

    @property
    def exact(self) -> bool:
        """Whether the terms are the tensor's own, so that a search ends with them."""
        return self.residual <= TUNING.exact_residual and not self.diverging


# --- terms, refined and rated ------------------------------------------------------------------


def refine_terms(
    tensor: Contractible, vectors: Array, signs: Array, *, method: str, max_iter: int, tol: float
) -> Refined:
    """Return the terms sum_i s_i (a_i . x)^d refined by the method of that name."""
    if method == "newton":
        return _newton_terms(tensor, vectors, signs, max_iter, tol)
    unknowns = vectors.size * (2 if np.iscomplexobj(vectors) else 1)
    newton_pays = method == "auto" and unknowns <= TUNING.newton_unknowns
    # Gauss-Newton is fast far away and where the residual is small; elsewhere Newton takes over.
    give_up_above = TUNING.exact_residual if newton_pays else np.inf
    first = gauss_newton(tensor, vectors, signs, max_iter=max_iter, tol=tol, give_up_above=give_up_above)
    left = max_iter - first.n_iter
    is_done = first.gradient_norm <= tol or first.cost <= 0.5 * TUNING.exact_residual**2 or not left
    if is_done or not newton_pays:
        return first
    second = _newton_terms(tensor, first.vectors, first.signs, left, tol)
    if second.gradient_norm > first.gradient_norm and second.cost >= first.cost:
        return first
    return first.then(second)


def _newton_terms(tensor: Contractible, vectors: Array, signs: Array, max_iter: int, tol: float) -> Refined:
    weights = signs * np.linalg.norm(vectors, axis=1) ** tensor.order
    return newton(tensor, weights, unit_rows(vectors), max_iter=max_iter, tol=tol)


def with_best_weights(tensor: SymmetricTensor, points: Array) -> Refined:
    """Return points with the weights that fit best, as terms that no refinement has touched."""
    vectors, signs = fit_weights(tensor, points)
    return Refined(vectors, signs, float("nan"), float("nan"), False, 0, ())


def rate(tensor: SymmetricTensor, method: str, refined: Refined, *, polish: bool = True) -> CandidateTerms:
    """Return terms with their residual, from the coefficients, and whether they diverge.

    Those that are nearly exact are polished, unless they have to stay as they are.
    """
    residual = relative_residual(tensor, refined.signs, refined.vectors)
    if polish:
        refined, residual = polish_terms(tensor, refined, residual)
    return CandidateTerms(method, refined, residual, is_diverging(tensor, refined, residual))


def rate_points(problem: DecompositionProblem, method: str, points: Array) -> CandidateTerms:
    """Return the terms of points with the weights that fit best, rated."""
    terms = with_best_weights(problem.tensor, points)
    return rate(problem.tensor, method, terms, polish=problem.refine)


def converge(tensor: SymmetricTensor, candidate: CandidateTerms, budget: Budget) -> CandidateTerms:
    """Return the candidate refined to the end."""
    first = candidate.refined
    left = budget.max_iter - first.n_iter
    if first.gradient_norm <= budget.tol or left <= 0:
        return candidate
    later = refine_terms(tensor, first.vectors, first.signs, method="auto", max_iter=left, tol=budget.tol)
    finished = rate(tensor, candidate.method, first.then(later))
    return finished if finished.residual <= candidate.residual * (1 + 1e-9) + 1e-15 else candidate


def refine_in_field(problem: DecompositionProblem, candidate: CandidateTerms) -> CandidateTerms:
    """Return a candidate refined; complex terms of a real tensor stay so only if they are far better."""
    finished = converge(problem.tensor, candidate, problem.budget)
    if finished.exact or problem.tensor.is_complex or problem.field != "auto" or not candidate.is_complex:
        return finished
    points = real_starts(unit_rows(candidate.refined.vectors))
    real = converge(problem.tensor, rate_points(problem, candidate.method, points), problem.budget)
    return far_better(finished, real)


def is_better(candidate: CandidateTerms, best: CandidateTerms) -> bool:
    """Return whether a candidate is to be preferred to the best so far."""
    # Stable terms win unless the diverging ones are clearly nearer to the tensor.
    margin = {0: 1.0, 1: 0.999, -1: 1 / 0.999}[int(candidate.diverging) - int(best.diverging)]
    return candidate.residual < margin * best.residual


def far_better(rival: CandidateTerms | None, best: CandidateTerms) -> CandidateTerms:
    """Return the rival, complex terms of a real tensor, only if it is better by an order of magnitude."""
    return rival if rival is not None and rival.residual < 0.1 * best.residual else best


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


# --- starts -------------------------------------------------------------------------------------


def structured_limit(tensor: SymmetricTensor) -> int:
    """Return the largest rank for which a structured method finds generic points."""
    by_pencil = pencil_limit(tensor.dim, tensor.order, tensor.order - tensor.order // 2)
    return max(by_pencil, power_method_limit(tensor.dim, tensor.order))


def pencil_or_none(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> Array | None:
    """Return the points of algorithm 2, or None where it does not apply or breaks down."""
    tensor, flattening = problem.tensor, problem.flattening
    if rank > pencil_limit(tensor.dim, tensor.order, flattening.row_degree):
        return None
    if flattening.singular_values[rank - 1] <= 1e-14 * flattening.singular_values[0]:
        return None
    try:
        points = pencil_points(flattening.left[:, :rank], tensor.dim, flattening.row_degree, rng)
    except np.linalg.LinAlgError:
        return None
    if np.iscomplexobj(points) and not tensor.is_complex:
        turned = rotate_to_real(points)
        if np.abs(turned.imag).max() < 1e-10:
            return unit_rows(turned.real)
    return points


def rotate_to_real(points: Array) -> Array:
    """Return complex points turned by a phase so that their real part is largest."""
    squares = np.einsum("ij,ij->i", points, points)
    return points * np.exp(-0.5j * np.angle(squares))[:, None]


def real_starts(points: Array) -> Array:
    """Return real points near complex ones: a pair of conjugates becomes its real and imaginary part."""
    turned = rotate_to_real(points)
    real = turned.real.copy()
    for i in np.flatnonzero(np.linalg.norm(turned.imag, axis=1) > 0.1):
        partner = np.argmax(np.abs(turned[:i].conj() @ turned[i].conj())) if i else 0
        if i and abs(np.vdot(turned[partner].conj(), turned[i])) > 1 - 1e-6:
            real[i] = turned[i].imag
    return unit_rows(real)


def structured_starts(
    problem: DecompositionProblem,
    rank: int,
    points: Array | None,
    is_complex: bool,
    rng: np.random.Generator,
) -> Iterator[tuple[str, Array]]:
    """Yield the points of algorithm 2, if there are any, and those of the power method."""
    tensor, flattening = problem.tensor, problem.flattening
    if points is not None:
        points = real_starts(points) if np.iscomplexobj(points) and not is_complex else points
        yield "pencil", points
    values = flattening.singular_values
    if rank <= power_method_limit(tensor.dim, tensor.order) and values[rank - 1] > 1e-14 * values[0]:
        dtype = np.complex128 if is_complex else np.float64
        left, right = flattening.left[:, :rank].astype(dtype), flattening.right[:, :rank].astype(dtype)
        for seeds in (points, None):
            yield (
                "spm",
                power_method(
                    left,
                    values[:rank],
                    right,
                    tensor.dim,
                    tensor.order,
                    rng,
                    starts=seeds,
                    tol=1e-4,
                    n_tries=1,
                ),
            )


def _random_points(rank: int, dim: int, is_complex: bool, rng: np.random.Generator) -> Array:
    """Return points drawn evenly from the sphere."""
    draws = rng.standard_normal((rank, dim))
    return unit_rows(draws + 1j * rng.standard_normal((rank, dim)) if is_complex else draws)


def _random_terms(
    tensor: SymmetricTensor, rank: int, is_complex: bool, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return random terms of one size, which together have the norm of the tensor, and their signs."""
    points = _random_points(rank, tensor.dim, is_complex, rng)
    norm = np.sqrt(np.abs(np.sum((points.conj() @ points.T) ** tensor.order)))
    return points * (tensor.norm() / norm) ** (1 / tensor.order), _best_signs(tensor, points)


def _best_signs(tensor: SymmetricTensor, vectors: Array) -> Array:
    """Return the signs of the best weights of real terms of even order; one for others."""
    if tensor.order % 2 or np.iscomplexobj(vectors):
        return np.ones(len(vectors))
    return with_best_weights(tensor, unit_rows(vectors)).signs


def _with_new_term(vectors: Array, rng: np.random.Generator) -> Array:
    """Return vectors with one replaced by a random one, and none longer than twice the median.

    A run that fails has mostly a few wrong terms; large ones would cancel each other.
    """
    lengths = np.linalg.norm(vectors, axis=1)
    middle = np.median(lengths)
    changed = vectors * np.minimum(1.0, 2 * middle / np.maximum(lengths, 2 * middle))[:, None]
    new = _random_points(1, vectors.shape[1], np.iscomplexobj(vectors), rng)[0]
    changed[rng.integers(len(vectors))] = middle * new
    return np.asarray(changed)


# --- the race -----------------------------------------------------------------------------------


def best_terms(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> CandidateTerms:
    """Return the best terms of a rank that the search finds, refined.

    Real ones, or complex ones where the field allows and they are far better.
    """
    tensor, budget = problem.tensor, problem.budget
    points = pencil_or_none(problem, rank, rng)
    if problem.wants_complex:
        return _binary_terms(problem, rank, rng) or race(problem, rank, points, True, rng)
    is_rival = points is not None and np.iscomplexobj(points) and problem.field == "auto"
    if is_rival and (rival := rate_points(problem, "pencil", np.asarray(points))).exact:
        # Unique, by the theorem behind algorithm 2: there is no real decomposition of this rank.
        return converge(tensor, rival, budget)
    best = race(problem, rank, points, False, rng)
    if best.exact or problem.field == "real":
        return best
    if is_rival:
        return far_better(converge(tensor, rival, budget), best)
    if rank > structured_limit(tensor) and not is_certified(tensor, best):
        rival = _binary_terms(problem, rank, rng) or race(problem, rank, None, True, rng)
        return far_better(rival, best)
    return best


def _binary_terms(
    problem: DecompositionProblem, rank: int, rng: np.random.Generator
) -> CandidateTerms | None:
    """Return the exact terms of a binary form of a rank at which there is a family of them, or None."""
    if problem.tensor.dim != 2 or 2 * rank <= problem.tensor.order:
        return None
    draws = sylvester_points(problem.tensor, rank, rng)
    candidates = [rate_points(problem, "sylvester", points) for points in draws]
    if not candidates:
        return None
    best = min(candidates, key=lambda candidate: candidate.residual)
    best = converge(problem.tensor, best, problem.budget)
    return best if best.exact else None


def race(
    problem: DecompositionProblem,
    rank: int,
    points: Array | None,
    is_complex: bool,
    rng: np.random.Generator,
) -> CandidateTerms:
    """Return the best terms of all starts, the best few refined to the end."""
    tensor = problem.tensor
    # The structured methods find generic points: two starts with the same end say enough.
    enough_hits = 2 if rank <= structured_limit(tensor) else None
    runs = _runs(problem, rank, points, is_complex, rng)
    return _winner(tensor, compete(tensor, runs, problem.budget, enough_hits), problem.budget)


def compete(
    tensor: SymmetricTensor, candidates: Iterable[CandidateTerms], budget: Budget, enough_hits: int | None
) -> list[CandidateTerms]:
    """Return candidates, the best one first, taken while another can be expected to be better.

    That is until one is exact, or its condition rules out any others as good, or as many starts as said have
    led to the best one.
    """
    pool: list[CandidateTerms] = []
    hits = 0
    for candidate in candidates:
        best = pool[0] if pool else candidate
        if abs(candidate.residual - best.residual) <= 1e-4 * best.residual:
            # The power method mostly finds the same points again: that says little.
            hits += not candidate.method == best.method == "spm"
        elif candidate.residual < best.residual:
            hits = 1
        pool.insert(0 if candidate is best or is_better(candidate, best) else len(pool), candidate)
        best = pool[0]
        is_found = enough_hits is not None and hits >= enough_hits and best.residual < 0.5
        if best.exact or (is_found and not best.diverging) or budget.is_spent:
            break
        if best is candidate and is_certified(tensor, best):
            break
    return pool


def run_work(tensor: SymmetricTensor, rank: int) -> float:
    """Return the multiplications of a run, about: those of its factorisations, or of its products."""
    unknowns = rank * tensor.dim
    if unknowns <= TUNING.max_unknowns:
        return 80 * unknowns**3 / 3
    return float(TUNING.short_run * 60 * 2 * rank * unknowns)


def _runs(
    problem: DecompositionProblem,
    rank: int,
    points: Array | None,
    is_complex: bool,
    rng: np.random.Generator,
) -> Iterator[CandidateTerms]:
    """Yield the terms of short runs: of structured starts, then of random ones and of hops from their best.

    More real terms than the structured methods find are run with a falling penalty on their sizes. Complex
    ones from the generic rank on arrive slowly: their runs are long, and few.
    """
    tensor, budget = problem.tensor, problem.budget
    for method, start in structured_starts(problem, rank, points, is_complex, rng):
        terms = with_best_weights(tensor, start)
        yield _run(problem, method, terms.vectors, terms.signs, min(TUNING.short_run, budget.max_iter))
    is_overcomplete = rank > structured_limit(tensor)
    is_penalised = is_overcomplete and not is_complex and rank * tensor.dim <= TUNING.max_unknowns
    is_slow = is_complex and rank * tensor.dim >= len(tensor.coefficients)
    steps = TUNING.long_run * budget.max_iter if is_slow else min(TUNING.short_run, budget.max_iter)
    limit = 4 * budget.n_starts if is_penalised else budget.n_starts
    limit = max(limit // (2 * TUNING.long_run), 1) if is_slow else limit
    work = run_work(tensor, rank) * (4 if is_complex else 1) * steps / TUNING.short_run
    leader: CandidateTerms | None = None
    for turn in range(int(min(limit, max(TUNING.search_work / work, TUNING.few_starts)))):
        place = turn % sum(TUNING.starts_and_hops)
        leader = None if place == 0 else leader
        if leader is None or place < TUNING.starts_and_hops[0]:
            method, (vectors, signs) = "random", _random_terms(tensor, rank, is_complex, rng)
            penalties = np.geomspace(3e-2, 1e-4, 8)
        else:
            method, vectors = "hop", _with_new_term(leader.refined.vectors, rng)
            signs = _best_signs(tensor, vectors)
            penalties = np.geomspace(1e-2, 1e-4, 5)
        # Small problems are also started without a penalty, once in each round.
        is_plain = place == 1 and len(tensor.coefficients) <= TUNING.few_coefficients
        if is_penalised and not is_plain:
            vectors = penalised_descent(tensor, vectors, signs, penalties)
            terms = Refined(vectors, signs, float("nan"), float("nan"), False, 0, ())
            candidate = rate(tensor, method, terms)
            if candidate.residual <= TUNING.promising:
                candidate = _run(problem, method, vectors, signs, budget.max_iter)
        else:
            candidate = _run(problem, method, vectors, signs, steps)
        if leader is None or candidate.residual < leader.residual:
            leader = candidate
        yield candidate


def _run(
    problem: DecompositionProblem, method: str, vectors: Array, signs: Array, steps: int
) -> CandidateTerms:
    refined = gauss_newton(problem.tensor, vectors, signs, max_iter=steps, tol=problem.budget.tol)
    return rate(problem.tensor, method, refined)


def _winner(tensor: SymmetricTensor, pool: list[CandidateTerms], budget: Budget) -> CandidateTerms:
    """Return the best of the pool after its best few are refined to the end."""
    leaders: list[CandidateTerms] = []
    for candidate in sorted(pool, key=lambda c: c.residual):
        if all(abs(candidate.residual - other.residual) > 1e-4 * other.residual for other in leaders):
            leaders.append(candidate)
    # The stable ones may come after many that diverge.
    stable = [candidate for candidate in leaders[6:] if not candidate.diverging]
    best = converge(tensor, leaders[0], budget)
    for candidate in leaders[1:6] + stable[:3]:
        if best.exact or candidate.residual > 1.5 * best.residual:
            continue
        finished = converge(tensor, candidate, budget)
        if is_better(finished, best):
            best = finished
    return best
