"""The front door: a symmetric tensor in, its Waring decomposition out."""

import numbers
from dataclasses import replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar._core.checks import check_integer, numeric_array, one_of, positive_number, random_generator
from apolar.decomposition import ranks, simple
from apolar.decomposition.gauss_newton import Refined
from apolar.decomposition.refine import to_waring
from apolar.decomposition.scaling import of_full_size, of_unit_size
from apolar.decomposition.search import Budget, Candidate, best_terms, candidate_of, converged, straightened
from apolar.decomposition.spm import power_method
from apolar.decomposition.starts import Flattening, middle_degree, pencil_or_none, real_starts, unrefined
from apolar.decomposition.waring import Status, Waring
from apolar.tensor import SymmetricTensor, n_monomials

METHODS = ("auto", "pencil", "spm")
FIELDS = ("auto", "real", "complex")

# A detected rank whose terms leave more than this is not the tensor's own; less may be noise.
FAR = 0.01
# Up to this many monomials, ranks above the Hankel matrix's are tried one after another.
SMALL = 40


def decompose(
    tensor: Any,
    rank: int | ranks.RankRule | None = None,
    method: str = "auto",
    refine: bool = True,
    random_state: Any = None,
    *,
    field: str = "auto",
    row_degree: int | None = None,
    n_starts: int = 50,
    max_iter: int = 200,
    tol: float = 1e-13,
) -> Waring:
    """Decompose a symmetric tensor into a sum of powers, T = sum_i w_i (xi_i . x)^d.

    Parameters
    ----------
    tensor : SymmetricTensor
        Or what makes one: a symmetric array, a dict of exponents, a text such
        as ``"x^3 - 3*x*y^2"``, a SymPy expression.
    rank : int, callable or None, default=None
        The number of terms. A number below the tensor's own rank asks for the
        best approximation. A callable takes the singular values of the
        weighted Hankel matrix and returns the rank: see
        `apolar.decomposition.ranks` for `tolerance` and `gap`. None detects
        it: the numerical rank of that matrix if its terms are exact; else the
        rank above a flat floor of noise, if there is one; else, for small
        forms that it leaves more than 1% of, the first rank from there on that
        is exact.
    method : {"auto", "pencil", "spm"}, default="auto"
        "auto" tries the others and random starts, and returns the best by
        residual. "pencil" is algorithm 2 of the paper [khouja2022moments],
        exact for tensors without noise up to a rank that grows with the order.
        "spm" is the subspace power method [kileel2019], robust to noise.
    refine : bool, default=True
        Whether to refine the terms to a local best approximation.
    random_state : int, Generator or None, default=None
        Same seed, same result.
    field : {"auto", "real", "complex"}, default="auto"
        "auto" gives a real tensor real points, unless complex ones are better
        by an order of magnitude; "real" insists on real ones.
    row_degree : int, optional
        The k of the paper, for ``method="pencil"``; by default ceil(d / 2).
    n_starts : int, default=50
        Random starts of "auto" at most, where no certificate makes them needless; fewer, down to 3,
        where the rank times the dimension is in the hundreds.
    max_iter : int, default=200
        Refinement steps from one start.
    tol : float, default=1e-13
        Of the refinement, on the relative gradient.

    Returns
    -------
    waring : Waring
        Weights, points, residual, and what happened (`status`, `message`).

    Examples
    --------
    >>> import apolar
    >>> W = apolar.decompose("x^3 - 3*x*y^2")
    >>> W.rank, W.status.name, W.is_complex
    (2, 'EXACT', True)
    >>> apolar.decompose("x^3 - 3*x*y^2", field="real", random_state=0).rank
    3
    >>> print(apolar.decompose("2*x^3 + 6*x*y^2").to_string())
    (x + y)^3 + (x - y)^3
    """
    one_of(method, "method", METHODS)
    one_of(field, "field", FIELDS)
    given = as_tensor(tensor).real_if_close(1e-15)
    if field == "real" and given.is_complex:
        raise ValueError("A complex tensor has no real decomposition: use field='complex' or 'auto'.")
    budget = Budget(
        check_integer(max_iter, "max_iter", least=1),
        check_integer(n_starts, "n_starts", least=1),
        positive_number(tol, "tol"),
    )
    if row_degree is not None:
        row_degree = check_integer(row_degree, "row_degree", least=1)
        if method != "pencil":
            raise ValueError("row_degree belongs to method='pencil'.")
        if not 2 <= row_degree < given.order:
            raise ValueError(f"row_degree must be from 2 to the order less one; got {row_degree}.")
    if not (rank is None or callable(rank)):
        rank = check_integer(rank, "rank", least=1)
    rng = random_generator(random_state)
    if not np.any(given.coefficients):
        nothing = Waring(np.zeros(0), np.zeros((0, given.dim)), given.order, 0.0, Status.ZERO, method)
        return replace(nothing, rank_source="the tensor is zero")
    if not np.isfinite(given.norm()):
        raise ValueError("The norm of the tensor overflows: divide it by its largest coefficient first.")
    form, exponent = of_unit_size(given)
    if form.order <= 2 or form.dim == 1:
        return of_full_size(_simple(form, rank), exponent, given)
    flattening = Flattening.of(form, row_degree or middle_degree(form.order))
    if method == "auto":
        candidate, source = _auto(form, flattening, rank, field, refine, rng, budget)
    else:
        number, source = _plain_rank(rank, flattening.singular_values)
        structured = _pencil if method == "pencil" else _spm
        candidate = structured(form, flattening, number, field, rng)
        if refine:
            candidate = _refined(form, candidate, field, budget)
        if refine and method == "spm" and field == "auto" and not (candidate.exact or form.is_complex):
            rival = _refined(form, _spm(form, flattening, number, "complex", rng), field, budget)
            candidate = rival if rival.residual < 0.1 * candidate.residual else candidate
    waring = to_waring(form, candidate.refined, candidate.method)
    if not refine:
        waring = replace(waring, status=Status.UNREFINED)
    waring = replace(waring, singular_values=flattening.singular_values, rank_source=source)
    return of_full_size(waring, exponent, given)


def as_tensor(value: Any) -> SymmetricTensor:
    """Return what the user passed as a symmetric tensor."""
    if isinstance(value, SymmetricTensor):
        return value
    if isinstance(value, np.ndarray | list | tuple):
        return SymmetricTensor.from_dense(numeric_array(value, "tensor"))
    return SymmetricTensor.from_polynomial(value)


def _simple(form: SymmetricTensor, rank: int | ranks.RankRule | None) -> Waring:
    """Return the decomposition of a linear or quadratic form, or one in a single variable."""
    if form.order == 2 and form.dim > 1:
        vectors, signs, spectrum = simple.quadratic_terms(form)
        source = "the numerical rank of its matrix"
        if rank is not None:
            number, source = _plain_rank(rank, spectrum)
            if number > form.dim:
                raise ValueError(f"A quadratic form in {form.dim} variables has rank at most {form.dim}.")
            if number > len(vectors):
                source = f"its matrix has rank {len(vectors)}, less than the {number} asked for"
            vectors, signs = vectors[:number], signs[:number]
    else:
        maker = simple.linear_terms if form.order == 1 else simple.univariate_terms
        vectors, signs = maker(form)
        spectrum, source = np.array([form.norm()]), "one term"
        if rank is not None and _plain_rank(rank, spectrum)[0] > 1:
            raise ValueError("This form is a power of one linear form: its rank is 1.")
    refined = Refined(vectors, signs, float("nan"), 0.0, True, 0, ())
    waring = to_waring(form, refined, "eigenvectors" if form.order == 2 else "direct")
    return replace(waring, singular_values=spectrum, rank_source=source)


def _plain_rank(rank: int | ranks.RankRule | None, singular_values: Array) -> tuple[int, str]:
    """Return the rank and where it comes from, without a search."""
    if rank is None:
        return ranks.numerical_rank(singular_values), "the numerical rank of the Hankel matrix"
    if callable(rank):
        number = rank(singular_values)
        if isinstance(number, bool) or not isinstance(number, numbers.Integral) or number < 1:
            raise ValueError(f"The rank rule returned {number!r}: it must return an integer from 1 on.")
        return int(number), "the rank rule"
    return rank, "given"


# --- one method -----------------------------------------------------------------


def _above_limit(rank: int, limit: int, method: str, form: SymmetricTensor) -> ValueError:
    return ValueError(
        f"Rank {rank} is above what method='{method}' can find in a tensor of order {form.order} "
        f"in {form.dim} variables: {limit}. Use method='auto', or a lower rank."
    )


def _pencil(
    form: SymmetricTensor, flattening: Flattening, rank: int, field: str, rng: np.random.Generator
) -> Candidate:
    limit = ranks.pencil_limit(form.dim, form.order, flattening.row_degree)
    if rank > limit:
        raise _above_limit(rank, limit, "pencil", form)
    points = pencil_or_none(form, flattening, rank, rng)
    if points is None:
        raise ValueError(
            f"Algorithm 2 breaks down at rank {rank}: the pencil is singular, so the rank is not the "
            "tensor's own or its points are in special position. Use method='auto'."
        )
    if field == "real":
        points = real_starts(points)
    return candidate_of(form, "pencil", unrefined(form, points))


def _spm(
    form: SymmetricTensor, flattening: Flattening, rank: int, field: str, rng: np.random.Generator
) -> Candidate:
    limit = ranks.power_method_limit(form.dim, form.order)
    if rank > limit:
        raise _above_limit(rank, limit, "spm", form)
    values = flattening.singular_values
    if rank > ranks.numerical_rank(values):
        raise ValueError(
            f"The Hankel matrix has rank {ranks.numerical_rank(values)}: method='spm' finds no more "
            f"terms than that, and {rank} were asked for. Use method='auto', or a lower rank."
        )
    dtype = np.complex128 if form.is_complex or field == "complex" else np.float64
    left = flattening.left[:, :rank].astype(dtype)
    right = flattening.right[:, :rank].astype(dtype)
    points = power_method(left, values[:rank], right, form.dim, form.order, rng)
    return candidate_of(form, "spm", unrefined(form, points))


def _refined(form: SymmetricTensor, candidate: Candidate, field: str, budget: Budget) -> Candidate:
    """Return a candidate refined; complex terms of a real tensor stay so only if they are far better."""
    finished = converged(form, candidate, budget)
    vectors = candidate.refined.vectors
    if form.is_complex or field != "auto" or not np.iscomplexobj(vectors):
        return finished
    if finished.exact:
        return straightened(form, finished, budget)
    turned = straightened(form, finished, budget)
    if not np.iscomplexobj(turned.refined.vectors):
        return turned
    points = real_starts(unit_rows(vectors))
    straight = converged(form, candidate_of(form, candidate.method, unrefined(form, points)), budget)
    return finished if finished.residual < 0.1 * straight.residual else straight


# --- all of them ------------------------------------------------------------------


def _auto(
    form: SymmetricTensor,
    flattening: Flattening,
    rank: int | ranks.RankRule | None,
    field: str,
    refine: bool,
    rng: np.random.Generator,
    budget: Budget,
) -> tuple[Candidate, str]:
    """Return the best terms, and where their number comes from."""
    number, source = _plain_rank(rank, flattening.singular_values)
    largest = 2 * ranks.generic_rank(form.dim, form.order)
    if number > largest:
        raise ValueError(
            f"Rank {number}: no form of degree {form.order} in {form.dim} variables "
            f"has a rank above {largest}."  # twice the generic rank [blekherman2015]
        )
    if not refine:
        return _best_unrefined(form, flattening, number, field, rng), source
    if rank is not None:
        return best_terms(form, flattening, number, field, rng, budget), source
    quick = _exact_pencil(form, flattening, number, field, rng, budget)
    if quick is not None:
        return quick, source
    above_floor = ranks.noise_floor_rank(flattening.singular_values)
    if above_floor is not None:
        candidate = best_terms(form, flattening, above_floor, field, rng, budget)
        if candidate.residual <= FAR and not candidate.diverging:
            return candidate, "the singular values above a floor of noise"
    first = best_terms(form, flattening, number, field, rng, budget)
    if first.exact or (first.residual <= FAR and not first.diverging) or not _is_small(form):
        return first, source
    few = Budget(budget.max_iter, max(budget.n_starts // 2, 1), budget.tol)
    for higher in range(_next_rank(form, number, field), largest + 1):
        candidate = best_terms(form, flattening, higher, field, rng, few)
        if candidate.exact:
            return candidate, f"raised until exact, from the Hankel matrix's {number}"
    return first, source


def _next_rank(form: SymmetricTensor, rank: int, field: str) -> int:
    """Return the next rank that is possible after the Hankel matrix's, which was not exact.

    A binary form has over C that rank or, as Sylvester knew, order + 2 less it.
    """
    if form.dim == 2 and field != "real":
        return max(rank + 1, form.order + 2 - rank)
    return rank + 1


def _is_small(form: SymmetricTensor) -> bool:
    return n_monomials(form.dim, form.order) <= SMALL


def _exact_pencil(
    form: SymmetricTensor,
    flattening: Flattening,
    rank: int,
    field: str,
    rng: np.random.Generator,
    budget: Budget,
) -> Candidate | None:
    """Return the terms of algorithm 2 if they are the tensor's own."""
    points = pencil_or_none(form, flattening, rank, rng)
    if points is None or (field == "real" and np.iscomplexobj(points)):
        return None
    start = candidate_of(form, "pencil", unrefined(form, points))
    if start.residual > 1e-3 or start.diverging:
        return None
    finished = converged(form, start, budget)
    return finished if finished.exact else None


def _best_unrefined(
    form: SymmetricTensor, flattening: Flattening, rank: int, field: str, rng: np.random.Generator
) -> Candidate:
    """Return the better of the structured methods, as they come."""
    found = []
    for structured in (_pencil, _spm):
        try:
            found.append(structured(form, flattening, rank, field, rng))
        except ValueError as error:
            reason = error
    if not found:
        raise ValueError(f"No method gives rank {rank} without refinement; pass refine=True.") from reason
    return min(found, key=lambda candidate: candidate.residual)
