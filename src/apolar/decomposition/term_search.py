"""The search for the best terms of a given rank: structured, penalised and random starts."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.condition import condition_estimate, is_diverging
from apolar.decomposition.hankel import HankelSVD, middle_degree
from apolar.decomposition.least_squares import gauss_newton, penalised_descent, polish_terms
from apolar.decomposition.pencil import fit_weights, pencil_points, sylvester_points
from apolar.decomposition.power_method import power_method
from apolar.decomposition.ranks import numerical_rank, pencil_limit, power_method_limit
from apolar.decomposition.riemannian import newton
from apolar.decomposition.terms import Contractible, Refined, relative_residual
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, n_monomials


def refine_terms(
    tensor: Contractible, vectors: Array, signs: Array, *, method: str, max_iter: int, tol: float
) -> Refined:
    """Return the terms sum_i s_i (a_i . x)^d refined by the method of that name."""
    if method == "newton":
        return _newton_terms(tensor, vectors, signs, max_iter, tol)
    unknowns = vectors.size * (2 if np.iscomplexobj(vectors) else 1)
    newton_pays = method == "auto" and unknowns <= TUNING.newton_unknowns
    # Gauss-Newton is fast far away and where the residual is small; elsewhere Newton takes over.
    first = gauss_newton(
        tensor,
        vectors,
        signs,
        max_iter=max_iter,
        tol=tol,
        give_up_above=TUNING.exact_residual if newton_pays else None,
    )
    left = max_iter - first.n_iter
    if (
        not newton_pays
        or first.gradient_norm <= tol
        or first.cost <= 0.5 * TUNING.exact_residual**2
        or not left
    ):
        return first
    second = _newton_terms(tensor, first.vectors, first.signs, left, tol)
    if second.gradient_norm > first.gradient_norm and second.cost >= first.cost:
        return first
    return first.then(second)


def _newton_terms(tensor: Contractible, vectors: Array, signs: Array, max_iter: int, tol: float) -> Refined:
    norms = np.linalg.norm(vectors, axis=1)
    weights = signs * norms**tensor.order
    return newton(tensor, weights, unit_rows(vectors), max_iter=max_iter, tol=tol)


Start = tuple[str, Array]
"""The name of a method and its points, shape (rank, dim)."""


def structured_limit(tensor: SymmetricTensor) -> int:
    """Return the largest rank for which a structured method finds generic points."""
    by_pencil = pencil_limit(tensor.dim, tensor.order, middle_degree(tensor.order))
    return max(by_pencil, power_method_limit(tensor.dim, tensor.order))


def pencil_or_none(
    tensor: SymmetricTensor, flattening: HankelSVD, rank: int, rng: np.random.Generator
) -> Array | None:
    """Return the points of algorithm 2, or None where it does not apply or breaks down."""
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


def starting_points(
    tensor: SymmetricTensor,
    flattening: HankelSVD,
    rank: int,
    points: Array | None,
    is_complex: bool,
    rng: np.random.Generator,
    n_random: int,
) -> Iterator[Start]:
    """Yield starting points, the likeliest first."""
    first = points
    if first is not None and np.iscomplexobj(first) and not is_complex:
        first = real_starts(first)
    if first is not None:
        yield "pencil", first
    values = flattening.singular_values
    if rank <= power_method_limit(tensor.dim, tensor.order) and values[rank - 1] > 1e-14 * values[0]:
        dtype = np.complex128 if is_complex else np.float64
        left, right = flattening.left[:, :rank].astype(dtype), flattening.right[:, :rank].astype(dtype)
        for seeds in (first, None):
            found = power_method(
                left, values[:rank], right, tensor.dim, tensor.order, rng, starts=seeds, tol=1e-4, n_tries=1
            )
            yield "spm", found
    for _ in range(n_random):
        yield "random", random_points(rank, tensor.dim, is_complex, rng)


def random_points(rank: int, dim: int, is_complex: bool, rng: np.random.Generator) -> Array:
    """Return points drawn evenly from the sphere."""
    draws = rng.standard_normal((rank, dim))
    if is_complex:
        draws = draws + 1j * rng.standard_normal((rank, dim))
    return unit_rows(draws)


def with_best_weights(tensor: SymmetricTensor, points: Array) -> Refined:
    """Return points with the weights that fit best, as terms that no refinement has touched."""
    vectors, signs = fit_weights(tensor, points)
    return Refined(vectors, signs, float("nan"), float("nan"), False, 0, ())


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
        return self.residual <= TUNING.exact_residual and not self.diverging


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


def converge(tensor: SymmetricTensor, candidate: CandidateTerms, budget: Budget) -> CandidateTerms:
    """Return the candidate refined to the end."""
    first = candidate.refined
    left = budget.max_iter - first.n_iter
    if first.gradient_norm <= budget.tol or left <= 0:
        return candidate
    later = refine_terms(tensor, first.vectors, first.signs, method="auto", max_iter=left, tol=budget.tol)
    finished = rate(tensor, candidate.method, first.then(later))
    return finished if finished.residual <= candidate.residual * (1 + 1e-9) + 1e-15 else candidate


def persist(tensor: SymmetricTensor, candidate: CandidateTerms, budget: Budget) -> CandidateTerms:
    """Return the candidate, after more steps where it stopped on a slow way to exact terms."""
    first = candidate.refined
    if (
        candidate.diverging
        or first.converged
        or not TUNING.exact_residual < candidate.residual < TUNING.promising
    ):
        return candidate
    if len(tensor.coefficients) * first.vectors.size**2 > TUNING.dense_work or budget.is_spent:
        return candidate  # many steps would take long
    steps = TUNING.long_run * budget.max_iter
    later = gauss_newton(tensor, first.vectors, first.signs, max_iter=steps, tol=budget.tol)
    finished = rate(tensor, candidate.method, first.then(later))
    return finished if is_better(finished, candidate) else candidate


def rate(tensor: SymmetricTensor, method: str, refined: Refined, *, polish: bool = True) -> CandidateTerms:
    """Return terms with their residual, from the coefficients, and whether they diverge.

    Those that are nearly exact are polished, unless they have to stay as they are.
    """
    residual = relative_residual(tensor, refined.signs, refined.vectors)
    if polish:
        refined, residual = polish_terms(tensor, refined, residual)
    return CandidateTerms(method, refined, residual, is_diverging(tensor, refined, residual))


def is_better(candidate: CandidateTerms, best: CandidateTerms) -> bool:
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
    steps = int(min(TUNING.long_run * budget.max_iter, max(TUNING.long_work / step_work, budget.max_iter)))
    for _ in range(min(TUNING.long_starts, budget.n_starts)):
        if best is not None and (best.exact or budget.is_spent):
            break
        start = with_best_weights(tensor, random_points(rank, tensor.dim, is_complex, rng))
        refined = gauss_newton(
            tensor,
            start.vectors,
            start.signs,
            max_iter=steps,
            tol=budget.tol,
            dense_work=TUNING.long_dense_work,
        )
        candidate = rate(tensor, "random", refined)
        if best is None or is_better(candidate, best):
            best = candidate
    assert best is not None  # there is a start at least
    return best


def run_work(unknowns: int) -> float:
    """Return the multiplications of a run, about: those of its factorisations."""
    return 80 * unknowns**3 / 3


def affordable_runs(tensor: SymmetricTensor, rank: int, budget: Budget) -> int:
    """Return how many penalised runs there is time for; none where a step takes too long."""
    unknowns = rank * tensor.dim
    if unknowns > TUNING.max_unknowns:
        return 0
    n_runs = min(4 * budget.n_starts, TUNING.overcomplete_work / run_work(unknowns))
    if unknowns >= len(tensor.coefficients):
        # From the generic rank on, complex starts find terms too.
        n_runs = min(n_runs, max(budget.n_starts, TUNING.step_work / run_work(unknowns)))
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
        place = run % (TUNING.starts_and_hops[0] + TUNING.starts_and_hops[1])
        if place == 0:
            leader = None
        if leader is None or place < TUNING.starts_and_hops[0]:
            start_vectors, signs = _random_terms(tensor, rank, rng)
            vectors = penalised_descent(tensor, start_vectors, signs)
        else:
            signs = leader.refined.signs
            start_vectors = _with_new_term(leader.refined.vectors, rng)
            vectors = penalised_descent(
                tensor, start_vectors, signs, first_penalty=TUNING.penalties[1], n_stages=TUNING.stages[1]
            )
        candidate = _rate_run(tensor, vectors, signs, budget)
        if leader is None or candidate.residual < leader.residual:
            leader = candidate
        if best is None or is_better(candidate, best):
            best = candidate
            if candidate.exact or is_certified(candidate):
                break
    return best


def _random_terms(tensor: SymmetricTensor, rank: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return random terms of one size, which together have the norm of the tensor, and their signs."""
    points = random_points(rank, tensor.dim, False, rng)
    norm = np.sqrt(np.sum((points @ points.T) ** tensor.order))
    signs = np.ones(rank) if tensor.order % 2 else with_best_weights(tensor, points).signs
    return points * (tensor.norm() / norm) ** (1 / tensor.order), signs


def _rate_run(tensor: SymmetricTensor, vectors: Array, signs: Array, budget: Budget) -> CandidateTerms:
    """Return the terms rated, after steps to full accuracy where they are near."""
    refined = gauss_newton(tensor, vectors, signs, max_iter=0, tol=budget.tol)
    candidate = rate(tensor, "penalised", refined)
    if candidate.residual > TUNING.promising:
        return candidate
    refined = gauss_newton(
        tensor,
        vectors,
        signs,
        max_iter=budget.max_iter,
        tol=budget.tol,
        give_up_above=TUNING.exact_residual,
        dense_work=TUNING.long_dense_work,
    )
    return rate(tensor, "penalised", refined)


def _limit_lengths(vectors: Array) -> Array:
    """Return the vectors, none longer than twice the median: large terms would cancel each other."""
    lengths = np.linalg.norm(vectors, axis=1)
    longest = 2 * np.median(lengths)
    return np.asarray(vectors * np.minimum(1.0, longest / np.maximum(lengths, longest))[:, None])


def _with_new_term(vectors: Array, rng: np.random.Generator) -> Array:
    """Return vectors of bounded length, one of them replaced by a random one."""
    rank, dim = vectors.shape
    changed = _limit_lengths(vectors)
    middle = np.median(np.linalg.norm(vectors, axis=1))
    changed[rng.integers(rank)] = middle * random_points(1, dim, False, rng)[0]
    return changed


def best_terms(
    tensor: SymmetricTensor,
    flattening: HankelSVD,
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
    flattening : HankelSVD
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
    core_flattening = HankelSVD.of(core, middle_degree(core.order))
    in_core = _best_of_field(core, core_flattening, rank, field, None, rng, core_budget)
    vectors, signs = in_core.refined.vectors @ basis.T, in_core.refined.signs
    lifted = gauss_newton(tensor, vectors, signs, max_iter=budget.max_iter, tol=budget.tol)
    candidate = rate(tensor, in_core.method, in_core.refined.then(lifted))
    if candidate.exact or is_certified(tensor, candidate):
        return candidate
    if np.iscomplexobj(lifted.vectors) and field == "auto" and not tensor.is_complex:
        real = _best_of_field(tensor, flattening, rank, field, None, rng, budget)
        return far_better(candidate, real)
    return _best_of_field(tensor, flattening, rank, field, candidate, rng, budget)


def far_better(rival: CandidateTerms | None, best: CandidateTerms) -> CandidateTerms:
    """Return the rival, complex terms of a real tensor, only if it is better by an order of magnitude."""
    return rival if rival is not None and rival.residual < 0.1 * best.residual else best


def _span(tensor: SymmetricTensor, flattening: HankelSVD, rank: int) -> Array | None:
    """Return a basis of the space that terms of that rank span, or None if that is the whole space."""
    if tensor.order == 3:
        basis, values = flattening.right, flattening.singular_values
    else:
        by_variable = HankelSVD.of(tensor, 1)
        basis, values = by_variable.left, by_variable.singular_values
    width = min(rank, numerical_rank(values))
    return basis[:, :width] if width < tensor.dim else None


def _best_of_field(
    tensor: SymmetricTensor,
    flattening: HankelSVD,
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
        complex_terms = rate(tensor, "pencil", with_best_weights(tensor, points))
        if complex_terms.exact and field == "auto":
            # Unique, by the theorem behind algorithm 2: there is no real decomposition of this rank.
            return converge(tensor, complex_terms, budget)
    if complex_wanted:
        binary = _binary_terms(tensor, rank, rng, budget)
        if binary is not None:
            return binary
    elif rank > structured_limit(tensor) and len(tensor.coefficients) > TUNING.few_coefficients:
        n_runs = affordable_runs(tensor, rank, budget)
        best = overcomplete_terms(tensor, rank, n_runs, rng, budget, lambda c: is_certified(tensor, c))
        if best is not None:
            if best.exact:
                return best
            if is_certified(tensor, best):
                return replace(best, certified=True)
            known = best if known is None or is_better(best, known) else known
            budget = replace(budget, n_starts=min(budget.n_starts, TUNING.starts_after_penalised))
    best = _race(tensor, flattening, rank, points, known, complex_wanted, rng, budget)
    if best.exact or best.certified or complex_wanted:
        return best
    rival = _complex_rival(tensor, flattening, rank, points, best, rng, budget)
    if rival is not None:
        rival = make_real(tensor, rival, budget)
        if field == "real" and np.iscomplexobj(rival.refined.vectors):
            return best
    return far_better(rival, best)


def _binary_terms(
    tensor: SymmetricTensor, rank: int, rng: np.random.Generator, budget: Budget
) -> CandidateTerms | None:
    """Return the exact terms of a binary form of a rank at which there is a family of them, or None."""
    if tensor.dim != 2 or 2 * rank <= tensor.order:
        return None
    starts = [with_best_weights(tensor, points) for points in sylvester_points(tensor, rank, rng)]
    candidates = [rate(tensor, "sylvester", start) for start in starts]
    if not candidates:
        return None
    best = converge(tensor, min(candidates, key=lambda candidate: candidate.residual), budget)
    return best if best.exact else None


def make_real(tensor: SymmetricTensor, candidate: CandidateTerms, budget: Budget) -> CandidateTerms:
    """Return complex terms of a real tensor as real ones, where they are real but for a phase."""
    if tensor.is_complex or not np.iscomplexobj(candidate.refined.vectors):
        return candidate
    turned = rotate_to_real(unit_rows(candidate.refined.vectors))
    if np.abs(turned.imag).max() > 1e-6:
        return candidate
    terms = with_best_weights(tensor, unit_rows(turned.real))
    refined = gauss_newton(tensor, terms.vectors, terms.signs, max_iter=budget.max_iter, tol=budget.tol)
    real = rate(tensor, candidate.method, candidate.refined.then(refined))
    return real if real.residual <= 2 * candidate.residual + TUNING.exact_residual else candidate


def _complex_rival(
    tensor: SymmetricTensor,
    flattening: HankelSVD,
    rank: int,
    points: Array | None,
    best: CandidateTerms,
    rng: np.random.Generator,
    budget: Budget,
) -> CandidateTerms | None:
    """Return complex terms of a real tensor, where it is likely that they beat real ones."""
    if points is not None and np.iscomplexobj(points):
        start = with_best_weights(tensor, points)
        if rate(tensor, "pencil", start).residual < best.residual:
            return converge(tensor, rate(tensor, "pencil", start), budget)
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
    flattening: HankelSVD,
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
        if best is None or is_better(candidate, best):
            if best is None or candidate.residual < (1 - 1e-4) * best.residual:
                hits = 1
            best = candidate
            if candidate.exact:
                break
            if is_certified(tensor, candidate):
                return replace(converge(tensor, candidate, budget), certified=True)
        if hits >= 2 and identifiable and best.residual < TUNING.close and not best.diverging:
            break
    return _winner(tensor, pool, budget)


def _affordable_starts(tensor: SymmetricTensor, rank: int, is_complex: bool, budget: Budget) -> int:
    """Return how many random starts there is time for: those asked for, fewer in large problems."""
    work = TUNING.short_run * TUNING.products_per_step * 2 * rank**2 * tensor.dim * (4 if is_complex else 1)
    return min(budget.n_starts, max(int(TUNING.search_work / work), TUNING.few_starts))


def _short_run(tensor: SymmetricTensor, method: str, points: Array, budget: Budget) -> CandidateTerms:
    terms = with_best_weights(tensor, points)
    if method == "pencil" and len(points) <= power_method_limit(tensor.dim, tensor.order):
        raw = rate(tensor, method, terms)
        if raw.residual > TUNING.close:
            return raw
    steps = min(
        {"pencil": TUNING.pencil_run, "spm": TUNING.structured_run}.get(method, TUNING.short_run),
        budget.max_iter,
    )
    refined = gauss_newton(tensor, terms.vectors, terms.signs, max_iter=steps, tol=budget.tol)
    return rate(tensor, method, refined)


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
    best = converge(tensor, finalists[0], budget)
    for candidate in finalists[1:]:
        if best.exact or candidate.residual > 1.5 * best.residual:
            continue
        finished = converge(tensor, candidate, budget)
        if is_better(finished, best):
            best = finished
    return persist(tensor, best, budget)


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


def refine_in_field(
    tensor: SymmetricTensor, candidate: CandidateTerms, field: str, budget: Budget
) -> CandidateTerms:
    """Return a candidate refined; complex terms of a real tensor stay so only if they are far better."""
    finished = converge(tensor, candidate, budget)
    vectors = candidate.refined.vectors
    if tensor.is_complex or field != "auto" or not np.iscomplexobj(vectors):
        return finished
    turned = make_real(tensor, finished, budget)
    if finished.exact or not np.iscomplexobj(turned.refined.vectors):
        return turned
    points = real_starts(unit_rows(vectors))
    real = converge(tensor, rate(tensor, candidate.method, with_best_weights(tensor, points)), budget)
    return far_better(finished, real)
