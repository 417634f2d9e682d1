"""The methods of `decompose`: the table of them, the search at one rank, and the rank if it is not given."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from apolar._core.arrays import Array, IndexArray, binary_exponent, scaled_by_power, unit_rows
from apolar.decomposition import ranks
from apolar.decomposition.exact.arithmetic import to_fmpq
from apolar.decomposition.exact.hankel_kernel import prove_by_kernel
from apolar.decomposition.generalized import direct_summands, local_forms, points_of_monomial, rank_beyond
from apolar.decomposition.least_squares import (
    Objective,
    TermsModel,
    gauss_newton,
    penalised_descent,
    polish,
    to_last_digits,
)
from apolar.decomposition.pencil import (
    fit_terms,
    joint_eigenvalues,
    kernel_zeros,
    merge_points,
    pencil_slices,
    real_starts,
    rotate_to_real,
    sylvester_points,
)
from apolar.decomposition.power_method import gaussian_draws, points_in_span, power_method
from apolar.decomposition.proofs.flattenings import (
    Flattening,
    hankel_flattening,
    koszul_degree,
    koszul_flattening,
    koszul_image,
    rank_bound,
)
from apolar.decomposition.riemannian import newton
from apolar.decomposition.terms import (
    Contractible,
    Terms,
    condition_estimate,
    is_determined,
    is_diverging,
    is_rounding,
)
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, n_monomials


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
    exact_rank : int or None
        A lower bound of the rank of a tensor with exact coefficients, which hold no noise; None for others.
    """

    tensor: SymmetricTensor
    flattening: ranks.HankelSVD
    rank: int | ranks.RankRule | None
    field: str
    refine: bool
    max_iter: int
    n_starts: int
    tol: float
    deadline: float = float("inf")
    exact_rank: int | None = None

    @property
    def wants_complex(self) -> bool:
        """Whether complex terms are as good as real ones."""
        return self.tensor.is_complex or self.field == "complex"

    @property
    def is_out_of_time(self) -> bool:
        """Whether it is too late to begin another start."""
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
    order, norm = tensor.order, tensor.norm()
    objective, unit = Objective(tensor, terms.signs, norm), norm ** (1 / order)
    model = TermsModel(objective, terms.vectors / unit)
    if may_move and model.relative_residual < TUNING.nearly_exact:
        model = to_last_digits(model)
        vectors, residual = model.vectors * unit, model.relative_residual
        terms = replace(terms, vectors=vectors, residual=residual)
        if is_rounding(terms, order, norm):
            terms = replace(terms, gradient_size=0.0, converged=True)
        else:
            terms = polish(tensor, terms)
    else:
        terms = replace(terms, residual=model.relative_residual)
    return replace(terms, is_diverging=is_diverging(terms, order, norm))


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
    near = fit_terms(problem.tensor, real_starts(unit_rows(terms.vectors)), terms.method)
    return far_better(finished, converge(problem, rate(problem.tensor, near)))


def is_better(terms: Terms, best: Terms) -> bool:
    """Return whether terms are better than the best so far."""
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
    allowed = terms.sizes(tensor.order).min() / (terms.residual * tensor.norm())
    return bool(allowed > 1) and condition_estimate(terms.vectors, tensor.order, rtol=0.1) < allowed


# --- starts -------------------------------------------------------------------------------------


def structured_limit(tensor: SymmetricTensor) -> int:
    """Return the largest rank for which a structured method finds generic points."""
    by_pencil = ranks.pencil_limit(tensor.dim, tensor.order, tensor.order - tensor.order // 2)
    return max(by_pencil, ranks.power_method_limit(tensor.dim, tensor.order))


def _spm_limit(problem: DecompositionProblem) -> int:
    """Return the largest rank for which the subspace power method finds generic points of the tensor."""
    tensor = problem.tensor
    return min(ranks.power_method_limit(tensor.dim, tensor.order), problem.flattening.left.shape[1])


def pencil_or_none(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> Array | None:
    """Return the points of algorithm 2, or None where it does not apply or breaks down."""
    tensor, flattening = problem.tensor, problem.flattening
    if rank > flattening.left.shape[1]:
        return None
    try:
        image = flattening.left[:, :rank]
        points = joint_eigenvalues(pencil_slices(image, tensor.dim, flattening.row_degree), rng)
    except np.linalg.LinAlgError:
        return None
    return real_if_all_are(points) if np.iscomplexobj(points) and not tensor.is_complex else points


def real_if_all_are(points: Array) -> Array:
    """Return complex points as real ones, where that is what all of them are, up to phases and rounding."""
    turned = rotate_to_real(points) if np.iscomplexobj(points) else points
    is_real = np.abs(turned.imag).max(initial=0.0) < TUNING.exact_residual
    return unit_rows(turned.real) if is_real else points


def exact_or_none(problem: DecompositionProblem, method: str, points: Array | None) -> Terms | None:
    """Return the terms of points if they are the tensor's own, after a refinement, and in the field."""
    # Digits that rounding takes may prove that the rank is larger.
    if points is None or len(points) < (problem.exact_rank or 0):
        return None
    if problem.field == "real" and np.iscomplexobj(points):
        return None
    terms = rate(problem.tensor, fit_terms(problem.tensor, points, method), may_move=problem.refine)
    if terms.residual > TUNING.promising or terms.is_diverging:
        return None
    finished = terms if terms.converged else converge(problem, terms)
    return finished if is_settled(problem, finished) else None


def is_settled(problem: DecompositionProblem, terms: Terms) -> bool:
    """Return whether terms are exact, so that a search ends with them.

    Those that rounding may move far are compared with the coefficients in exact numbers, if these are known.
    """
    tensor = problem.tensor
    exact = None if problem.exact_rank is None else tensor.exact_coefficients
    if not terms.is_exact or exact is None or is_determined(terms, tensor.order, tensor.norm()):
        return terms.is_exact
    try:
        proof = prove_by_kernel([to_fmpq(value) for value in exact], tensor.dim, tensor.order)
    except ImportError:
        return True
    return proof.rank_bound <= terms.rank


def structured_terms(
    problem: DecompositionProblem, points: Array | None, rng: np.random.Generator
) -> Terms | None:
    """Return terms as many as the rank of the Hankel matrix if they are the tensor's own, or None.

    Parameters
    ----------
    problem : DecompositionProblem
    points : ndarray or None
        Of algorithm 2, which are tried first; then the common zeros of the kernel are.
    rng : numpy.random.Generator
    """
    exact = exact_or_none(problem, "pencil", points)
    left = problem.flattening.left
    if exact is None and left.shape[1] < len(left):
        degree, tol = problem.flattening.row_degree, problem.flattening.tol
        exact = terms_at_zeros(problem, "kernel", left, degree, left.shape[1], rng, tol)
    if exact is None and problem.tensor.order % 2 == 0:
        half = problem.tensor.order // 2
        matrix = hankel_flattening(problem.tensor.dim, problem.tensor.order, half)
        exact = terms_on_curve(problem, matrix, left.shape[1], rng)
    return exact


def terms_on_curve(
    problem: DecompositionProblem, matrix: Flattening, rank: int, rng: np.random.Generator
) -> Terms | None:
    """Return exact terms at points of a curve, where the kernel of the Hankel matrix vanishes, or None.

    One point is drawn. With the weight that lowers the rank of a matrix of the tensor, the others are the
    zeros of the kernel without it. On rational curves these are terms; on others there is mostly one zero
    too many, and where its term is small the others lead to exact ones.

    Parameters
    ----------
    problem : DecompositionProblem
    matrix : Flattening
        Whose rank tells the number of terms.
    rank : int
    rng : numpy.random.Generator
    """
    tensor, flattening = problem.tensor, problem.flattening
    degree = tensor.order - flattening.row_degree
    if rank < 2 or len(flattening.right) == flattening.right.shape[1] or matrix.work > TUNING.rank_work:
        return None
    inverse = np.linalg.pinv(matrix.matrix(tensor.coefficients), rcond=TUNING.exact_residual)
    found: list[Terms] = []
    # Real points first.
    for is_complex in sorted({problem.wants_complex, problem.field != "real"}):
        drawn = points_in_span(
            flattening.right.conj(), tensor.dim, degree, TUNING.round_of_starts, is_complex, rng
        )
        for point in drawn:
            power = SymmetricTensor.from_waring([1.0], point[None], tensor.order)
            weight = matrix.power_rank / np.sum(inverse.T * matrix.matrix(power.coefficients))
            others = ranks.HankelSVD(tensor - power * weight, flattening.row_degree).left[:, : rank - 1]
            try:
                zeros = kernel_zeros(others, tensor.dim, flattening.row_degree, rank - 1, rng)
            except np.linalg.LinAlgError:
                continue
            exact = exact_or_none(problem, "kernel", largest_terms(problem, np.vstack([point, zeros]), rank))
            if exact is not None:
                found.append(exact)
            if len(found) == TUNING.few_starts:
                break
        if found:
            # Small terms have points that rounding moves.
            return max(found, key=lambda terms: terms.sizes(tensor.order).min())
    return None


def largest_terms(problem: DecompositionProblem, points: Array, rank: int) -> Array:
    """Return the points of the largest terms, if all are fitted to the tensor; real ones where all are."""
    sizes = fit_terms(problem.tensor, points).sizes(problem.tensor.order)
    kept = points[np.sort(np.argsort(-sizes, kind="stable")[:rank])]
    return kept if problem.tensor.is_complex else real_if_all_are(kept)


def koszul_terms(problem: DecompositionProblem, rank: int | None, rng: np.random.Generator) -> Terms | None:
    """Return terms as many as a Koszul flattening allows, if they are the tensor's own, or None.

    Parameters
    ----------
    problem : DecompositionProblem
    rank : int or None
        How many are wanted; None for any number.
    rng : numpy.random.Generator
    """
    tensor = problem.tensor
    degree = koszul_degree(tensor.dim, tensor.order, tensor.dim // 2)
    if not degree:
        return None
    image, number = koszul_image(tensor, degree)
    if image.shape[1] == len(image) or rank not in (None, number):
        return None
    # Noise has exact terms too, if these have no fewer unknowns than it has coefficients.
    if rank is None and problem.exact_rank is None and number * tensor.dim >= len(tensor.coefficients):
        return None
    exact = terms_at_zeros(problem, "koszul", image, tensor.order // 2 + 1, number, rng)
    if exact is None:
        exact = terms_on_curve(problem, koszul_flattening(tensor.dim, tensor.order, degree), number, rng)
    return exact


def terms_at_zeros(
    problem: DecompositionProblem,
    method: str,
    image: Array,
    degree: int,
    rank: int,
    rng: np.random.Generator,
    tol: float = TUNING.exact_residual,
) -> Terms | None:
    """Return terms at the common zeros of forms if they are the tensor's own, or None: see `kernel_zeros`."""
    tensor = problem.tensor
    try:
        zeros = kernel_zeros(image, tensor.dim, degree, rank, rng, tol)
    except np.linalg.LinAlgError:
        return None
    # Rounding splits a multiple zero in several.
    merged = merge_points(zeros)
    for points in (zeros, merged)[: 1 + (rank <= len(merged) < len(zeros))]:
        exact = exact_or_none(problem, method, largest_terms(problem, points, rank))
        if exact is not None:
            break
    return exact


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
    signs = fit_terms(tensor, unit_rows(vectors)).signs if has_signs else np.ones(rank)
    return Terms(vectors, signs, "random" if leader is None else "hop")


# --- the race -----------------------------------------------------------------------------------


def best_terms(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> Terms:
    """Return the best terms of a rank that the search finds, refined.

    Real ones, or complex ones where the field allows and they are far better.
    """
    points = pencil_or_none(problem, rank, rng)
    if rank == problem.flattening.left.shape[1]:
        exact = structured_terms(problem, points, rng)
        if exact is not None:
            # Unique, by the theorem behind algorithm 2: if it is complex, no real one has this rank.
            return exact
    elif rank > problem.flattening.left.shape[1]:
        exact = koszul_terms(problem, rank, rng)
        if exact is not None:
            return exact
    if problem.wants_complex:
        return race(problem, rank, points, True, rng)
    best = race(problem, rank, points, False, rng)
    if best.is_exact or problem.field == "real" or is_certified(problem.tensor, best):
        return best
    if rank > structured_limit(problem.tensor):
        return far_better(race(problem, rank, None, True, rng), best)
    rivals = [] if points is None or not np.iscomplexobj(points) else [("pencil", points)]
    # Any terms of this rank leave at least what the Hankel matrix has beyond it.
    least = np.linalg.norm(problem.flattening.singular_values[rank:]) / problem.tensor.norm()
    if least < 0.1 * best.residual and rank <= _spm_limit(problem):
        rivals.append(("spm", power_method(problem.flattening, rank, True, rng)))
    for method, zeros in rivals:
        found = rate(problem.tensor, fit_terms(problem.tensor, zeros, method))
        best = far_better(converge(problem, found), best)
    return best


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

    def run(terms: Terms, steps: int) -> Terms:
        return rate(tensor, gauss_newton(tensor, terms, max_iter=steps, tol=problem.tol))

    if points is not None:
        is_allowed = is_complex or not np.iscomplexobj(points)
        yield run(fit_terms(tensor, points if is_allowed else real_starts(points), "pencil"), short)
    if rank <= _spm_limit(problem):
        yield run(fit_terms(tensor, power_method(problem.flattening, rank, is_complex, rng), "spm"), short)
    if is_complex and tensor.dim == 2 and 2 * rank > tensor.order:
        yield run(fit_terms(tensor, sylvester_points(tensor, rank, rng), "sylvester"), short)
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
                candidate = run(candidate, problem.max_iter)
        else:
            candidate = run(drawn, steps)
        if leader is None or candidate.residual < leader.residual:
            leader = candidate
        yield candidate


# --- the methods ------------------------------------------------------------------------------------


def pencil_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str]:
    """Return the terms of algorithm 2, and where their number comes from."""
    tensor, flattening = problem.tensor, problem.flattening
    limit = ranks.pencil_limit(tensor.dim, tensor.order, flattening.row_degree)
    rank, source = _limited_rank(problem, limit, "pencil")
    points = pencil_or_none(problem, rank, rng)
    if points is None:
        raise ValueError(
            f"Algorithm 2 breaks down at rank {rank}: the pencil is singular, so the rank is not the "
            "tensor's own or its points are in special position. Use method='auto'."
        )
    points = real_starts(points) if problem.field == "real" else points
    terms = rate(tensor, fit_terms(tensor, points, "pencil"), may_move=problem.refine)
    return refine_in_field(problem, terms), source


def spm_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str]:
    """Return the terms of the subspace power method, and where their number comes from."""
    tensor, flattening = problem.tensor, problem.flattening
    rank, source = _limited_rank(problem, ranks.power_method_limit(tensor.dim, tensor.order), "spm")
    if rank > (limit := ranks.numerical_rank(flattening.singular_values)):
        raise ValueError(
            f"The Hankel matrix has rank {limit}: method='spm' finds no more "
            f"terms than that, and {rank} were asked for. Use method='auto', or a lower rank."
        )

    def search(is_complex: bool) -> Terms:
        points = power_method(flattening, rank, is_complex, rng)
        return refine_in_field(
            problem, rate(tensor, fit_terms(tensor, points, "spm"), may_move=problem.refine)
        )

    terms = search(problem.wants_complex)
    if problem.refine and problem.field == "auto" and not (terms.is_exact or terms.is_complex):
        terms = far_better(search(True), terms)
    return terms, source


def _limited_rank(problem: DecompositionProblem, limit: int, method: str) -> tuple[int, str]:
    """Return the rank and where it comes from; refuse one above that of a method."""
    rank, source = ranks.resolve_rank(problem.rank, problem.flattening.singular_values)
    if rank > limit:
        raise ValueError(
            f"Rank {rank} is above what method='{method}' can find in a tensor of order "
            f"{problem.tensor.order} in {problem.tensor.dim} variables: {limit}. Use method='auto', or a "
            "lower rank."
        )
    return rank, source


def _terms_at_rank(
    problem: DecompositionProblem, rank: int, source: str, rng: np.random.Generator
) -> tuple[Terms, str]:
    """Return the best terms at a rank, and where their number comes from."""
    tensor = problem.tensor
    largest = 2 * ranks.generic_rank(tensor.dim, tensor.order)
    if rank > largest:
        raise ValueError(
            f"Rank {rank}: no form of degree {tensor.order} in {tensor.dim} variables "
            f"has a rank above {largest}."  # twice the generic rank [blekherman2015]
        )
    if problem.refine:
        return best_terms(problem, rank, rng), source
    found: list[Terms] = []
    for structured in (pencil_method, spm_method):
        try:
            found.append(structured(problem, rng)[0])
        except ValueError as error:
            reason = error
    if not found:
        raise ValueError(f"No method gives rank {rank} without refinement: switch it on.") from reason
    return min(found, key=lambda terms: terms.residual), source


# --- a rank that is not given ---------------------------------------------------------------------


def auto_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str]:
    """Return the best terms, at a rank that the tensor tells if none is given, and how it told it."""
    tensor, values = problem.tensor, problem.flattening.singular_values
    rank, source = ranks.resolve_rank(problem.rank, values)
    if problem.rank is not None or not problem.refine:
        return _terms_at_rank(problem, rank, source, rng)
    if problem.exact_rank is not None and problem.exact_rank > rank:
        rank, source = problem.exact_rank, f"{source}, in exact numbers"
    is_large = len(tensor.coefficients) > TUNING.many_coefficients
    exact = exact_or_none(problem, "pencil", pencil_or_none(problem, rank, rng))
    if exact is None and problem.exact_rank is None and rank > 1:
        # Terms that are larger than their sum leave singular values above its rounding.
        last = 1 + int(np.argmax(values[: rank - 1] / values[1:rank]))
        if values[last] <= TUNING.exact_residual * values[last - 1]:
            exact = exact_or_none(problem, "pencil", pencil_or_none(problem, last, rng))
    if exact is not None:
        return exact, source
    allow_complex = problem.field != "real"
    exact = exact_or_none(problem, "monomials", ranks.coprime_points(tensor, allow_complex))
    if exact is not None:
        return exact, "the ranks of monomials that share no variable"
    found = summand_terms(problem, rng)
    if found is not None:
        return found
    exact = exact_or_none(problem, "monomials", points_of_monomial(tensor, rng, is_real=not allow_complex))
    if exact is not None:
        return exact, "the ranks of monomials that share no variable"
    exact = structured_terms(problem, None, rng)
    if exact is not None:
        return exact, source
    found = terms_in_good_coordinates(problem, rng)
    if found is not None:
        return found
    scheme = local_forms(tensor, problem.flattening, rng)
    if scheme is not None and not is_large:
        beyond = rank_beyond(scheme, tensor.order, is_real=not allow_complex)
        if beyond > rank:
            return _raise_rank(problem, rank, None, source, rng, lower=beyond)
    exact = koszul_terms(problem, None, rng)
    if exact is not None:
        return exact, "the rank of the Koszul flattening"
    # Noise in the variables of the form fills its matrix: a value at rounding says that there is none.
    is_full = rank == len(values)
    if is_full and problem.exact_rank is None:
        noisy = [(ranks.noise_floor_rank(values), TUNING.far, "above a floor of noise")]
        if is_large:
            above_edge, norm = ranks.noise_edge_rank(values) or (None, 0.0)
            noisy.append((above_edge, TUNING.same_noise * norm / tensor.norm(), "above those of noise"))
        for number, largest, where in noisy:
            terms = best_terms(problem, number, rng) if number else None
            if terms and terms.residual <= largest and not terms.is_diverging:
                return _as_noisy(terms, f"the singular values {where}")
    if is_full and is_large:
        # Random starts at a rank as high as that would take minutes, and say little.
        rank, problem = min(rank, structured_limit(tensor)), replace(problem, n_starts=1)
    first = _few_starts(problem, rank, rng)
    return (first, source) if is_settled(problem, first) else _raise_rank(problem, rank, first, source, rng)


def terms_in_good_coordinates(
    problem: DecompositionProblem, rng: np.random.Generator
) -> tuple[Terms, str] | None:
    """Return exact terms of a form in exact numbers that are found in other coordinates, or None.

    In these the derivatives of the form are nearly orthogonal and of one size. An integer matrix leads there
    without rounding, which ill-conditioned coordinates would magnify.
    """
    form, matrix = problem.tensor, np.eye(problem.tensor.dim)
    if problem.exact_rank is None or form.exact_coefficients is None:
        return None
    spreads: list[float] = []
    while len(spreads) <= TUNING.last_steps:
        first = ranks.HankelSVD(form, 1)
        values = first.singular_values
        spreads.append(values[0] / max(values[-1], TUNING.rounding * values[0]))
        if first.left.shape[1] < form.dim or spreads[-1] * TUNING.far <= 1:
            break
        # Columns of few binary digits, each times a power of two.
        columns = np.rint(first.left / TUNING.far)
        powers = np.rint(np.log2(values[0] / values) / form.order)
        step = (columns * 2.0**powers).astype(int)
        form = form.change_variables(step.tolist())
        form = form * Fraction(1, 2 ** binary_exponent(form.coefficients))
        matrix = matrix @ step
    # Coordinates that are not much better are left, so that the search comes to an end.
    if spreads[-1] > TUNING.far**0.5 * spreads[0] or form.exact_coefficients is None:
        return None
    flattening = ranks.HankelSVD(form, problem.flattening.row_degree)
    terms, source = auto_method(replace(problem, tensor=form, flattening=flattening), rng)
    points = unit_rows(np.linalg.solve(matrix.T, terms.vectors.T).T)
    exact = exact_or_none(problem, terms.method, points) if terms.is_exact else None
    return None if exact is None else (replace(exact, rank_bounds=terms.rank_bounds), source)


def summand_terms(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str] | None:
    """Return exact terms of a form that is a sum of forms in independent variables, or in fewer of them.

    Its rank is at most the sum of the ranks, and equal to it if the summands have two variables at most
    [carlini2015]; it is no less than the largest of them. None for other forms.
    """
    tensor = problem.tensor
    summands = direct_summands(tensor, rng, is_real=problem.field == "real")
    if summands[0][0].dim == tensor.dim:
        return None
    found = []
    for summand, variables in summands:
        flattening = ranks.HankelSVD(summand, problem.flattening.row_degree)
        is_noisy = problem.exact_rank is None
        own = replace(problem, tensor=summand, flattening=flattening, exact_rank=None if is_noisy else 0)
        terms, source = auto_method(own, rng)
        found.append(replace(terms, vectors=terms.vectors @ variables))
        if not terms.is_exact and len(summands) > 1:
            return None
    if sum(terms.rank for terms in found) < (problem.exact_rank or 0):
        return None
    if len(found) == 1:
        return rate(tensor, found[0], may_move=False), source
    vectors, signs = (
        np.concatenate([getattr(terms, part) for terms in found]) for part in ("vectors", "signs")
    )
    joined = converge(problem, rate(tensor, Terms(vectors, signs, "summands")))
    lowest = [terms.rank_bounds[0] if terms.rank_bounds else terms.rank for terms in found]
    is_additive = problem.field != "real" and all(summand.dim <= 2 for summand, _ in summands)
    lower = max(sum(lowest) if is_additive else max(lowest), rank_bound(tensor), problem.exact_rank or 0)
    is_known = is_additive and lower == joined.rank
    joined = replace(joined, rank_bounds=None if is_known else (lower, joined.rank))
    is_sum = joined.is_exact and joined.rank >= lower
    return (joined, "the ranks of summands that share no variable") if is_sum else None


def _few_starts(problem: DecompositionProblem, rank: int, rng: np.random.Generator) -> Terms:
    """Return the best terms of the Hankel matrix's rank.

    A high one says little, and few starts will do, except for exact input: there it is a proved bound.
    """
    says_much = rank <= structured_limit(problem.tensor) or problem.exact_rank is not None
    share = 1 if says_much else TUNING.long_run
    return best_terms(replace(problem, n_starts=max(problem.n_starts // share, 1)), rank, rng)


def _as_noisy(terms: Terms, source: str) -> tuple[Terms, str]:
    """Return terms of a tensor that is taken for noisy, and the text that says so."""
    return terms, f"{source}; the {terms.residual:.1g} that is left is taken for noise"


def _raise_rank(
    problem: DecompositionProblem,
    rank: int,
    first: Terms | None,
    source: str,
    rng: np.random.Generator,
    *,
    lower: int = 0,
) -> tuple[Terms, str]:
    """Return exact terms of the least rank at which the search finds any, and how it was found.

    Where the terms of the Hankel matrix's rank leave little that may be noise, only ranks at which noise has
    no exact terms are tried: those with fewer unknowns than coefficients. Exact ones are the tensor's own.

    Parameters
    ----------
    problem : DecompositionProblem
    rank : int
        Of the Hankel matrix, or nearest to it.
    first : Terms or None
        The best terms of that rank, not exact; None where it is proved that there are no exact ones.
    source : str
        Of that rank.
    rng : numpy.random.Generator
    lower : int
        A bound of the rank.

    Returns
    -------
    terms : Terms
        The first ones, not settled, if no exact terms are found and they are not near.
    source : str
    """
    tensor, size = problem.tensor, len(problem.tensor.coefficients)
    is_near = False
    if first is not None:
        if first.residual <= TUNING.far and not (first.converged or first.is_diverging):
            # Terms that grow without bound do so slowly: only a longer run tells them from noisy ones.
            first = converge(replace(problem, max_iter=TUNING.long_run * problem.max_iter), first)
        is_full = rank >= n_monomials(tensor.dim, tensor.order // 2)
        says_something = first.vectors.size <= TUNING.max_share * size and problem.exact_rank is None
        is_near = is_full and says_something and first.residual <= TUNING.far and not first.is_diverging
    generic = ranks.generic_rank(tensor.dim, tensor.order)
    upper = 2 * generic  # of any form [blekherman2015]
    if problem.field != "real":  # over R monomials may have a larger rank
        upper = min(upper, sum(map(ranks.monomial_rank, tensor.exponents[tensor.coefficients != 0])))
    lower = min(max(lower, rank_bound(tensor), problem.exact_rank or 0), upper)
    last = upper if np.isfinite(problem.deadline) or size <= TUNING.few_coefficients else generic + 3
    last = -(-size // tensor.dim) - 1 if is_near else min(last, upper)
    candidates = range(max(_next_rank(problem, rank), lower), last + 1)
    if size > TUNING.many_coefficients or (is_near and problem.wants_complex):
        candidates = range(0)
    tried = [] if first is None else [rank]
    for number in candidates:
        if problem.is_out_of_time:
            break
        tried.append(number)
        affordable = TUNING.rank_work / (len(candidates) * run_work(tensor, number))
        n_starts = max(int(min(affordable, problem.n_starts // 2)), 1)
        # Below the generic rank complex starts find hardly more than real ones.
        is_real = size > TUNING.few_coefficients and number * tensor.dim < size and not problem.wants_complex
        share = replace(problem, n_starts=n_starts, field="real" if is_real else problem.field)
        exact = best_terms(share, number, rng)
        if is_settled(problem, exact):
            # A binary form with a Hankel matrix of full rank has that rank, though a search may miss it.
            is_known = tensor.dim == 2 and 2 * lower < tensor.order + 2
            is_next = is_known and number == _next_rank(problem, lower)
            words = f"raised until exact, from the Hankel matrix's {rank}"
            if first is not None and is_near:
                words = f"exact, where {rank} terms leave {first.residual:.1g}, and below the generic rank"
            most = number if is_rounding(exact, tensor.order, tensor.norm()) else upper
            return replace(exact, rank_bounds=(number if is_next else lower, most)), words
    first = first or _few_starts(problem, rank, rng)
    first = replace(first, rank_bounds=(lower, upper), is_settled=is_near)
    if is_near:
        return _as_noisy(first, source)
    if size > TUNING.many_coefficients:
        words = f"forms of more than {TUNING.many_coefficients} coefficients are not tried at higher ranks"
        return first, f"the Hankel matrix; {words}"
    limit = ", then time_limit was over" if problem.is_out_of_time else ""
    others = ", ".join(str(other) for other in tried)
    return first, f"the numerical rank of the Hankel matrix; no exact terms found at {others}{limit}"


def _next_rank(problem: DecompositionProblem, rank: int) -> int:
    """Return the next rank that is possible after that of the Hankel matrix, which was not exact.

    By Sylvester's theorem a binary form has over C either that rank, or order + 2 less that rank.
    """
    if problem.tensor.dim == 2 and problem.field != "real":
        return max(rank + 1, problem.tensor.order + 2 - rank)
    return rank + 1


METHODS: dict[str, Callable[[DecompositionProblem, np.random.Generator], tuple[Terms, str]]] = {
    "auto": auto_method,
    "pencil": pencil_method,
    "spm": spm_method,
}
"""Each returns terms, refined if the problem says so, and where their number comes from."""


# --- variables in units of their own ---------------------------------------------------------------


def balanced_problem(
    problem: DecompositionProblem, rng: np.random.Generator
) -> tuple[DecompositionProblem, IndexArray] | None:
    """Return a problem with variables in other units, or None where their own ones will do.

    Where the units of variables differ much, small coefficients look like rounding of others. In units in
    which coefficients are of one size they do not. Exact terms are the same in all units, and best
    approximations are not.

    Parameters
    ----------
    problem : DecompositionProblem
    rng : numpy.random.Generator
        Which draws coefficients, where there are many.

    Returns
    -------
    balanced : DecompositionProblem
    exponents : ndarray of int, shape (dim,)
        The variables are those of the tensor times two to these powers.
    """
    tensor = problem.tensor
    seen = np.flatnonzero(tensor.coefficients)
    if len(seen) > (n_enough := TUNING.enough_coefficients * tensor.dim):
        seen = seen[rng.integers(len(seen), size=n_enough)]
    # The logarithms of the sizes are nearly linear in the exponents of the monomials.
    logs = np.log2(np.abs(tensor.coefficients[seen]))
    powers = tensor.exponents[seen].astype(float)
    # A little damping chooses one of many solutions.
    damped = powers.T @ powers + TUNING.nearly_exact * np.eye(tensor.dim)
    exponents = -np.rint(np.linalg.solve(damped, powers.T @ (logs - logs.mean()))).astype(np.intp)
    if np.ptp(exponents) < TUNING.unit_bits:
        return None
    # The largest is about one, as squares may overflow otherwise.
    exponents -= round(np.max(logs + powers @ exponents) / tensor.order)
    powers = tensor.exponents @ exponents
    coefficients = scaled_by_power(tensor.coefficients[:, None], powers[:, None])[:, 0]
    if not np.all(np.isfinite(coefficients)):
        return None
    scaled = SymmetricTensor(tensor.order, tensor.dim, coefficients)
    flattening = ranks.HankelSVD(scaled, problem.flattening.row_degree)
    return replace(problem, tensor=scaled, flattening=flattening), exponents


def balanced_method(problem: DecompositionProblem, rng: np.random.Generator) -> tuple[Terms, str] | None:
    """Return exact terms of a problem with variables in other units, and where their number comes from.

    Small coefficients in floating point may be rounding indeed: only terms with fewer unknowns than there are
    coefficients count, which structured methods look for, and those of summands in independent variables.
    """
    values = problem.flattening.singular_values
    rank, source = ranks.resolve_rank(problem.rank, values)
    if problem.exact_rank is not None and problem.rank is None:
        return auto_method(problem, rng)
    if rank == ranks.numerical_rank(values) and rank * problem.tensor.dim < len(problem.tensor.coefficients):
        terms = structured_terms(problem, pencil_or_none(problem, rank, rng), rng)
        if terms is not None:
            return terms, source
    found = summand_terms(problem, rng) if problem.rank is None else None
    # One summand, in fewer variables, has no fewer unknowns.
    return found if found is not None and found[0].method == "summands" else None
