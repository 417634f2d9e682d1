"""`decompose` and `refine`: a symmetric tensor in, its Waring decomposition out."""

import time
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray, binary_exponent, scaled_by_power
from apolar._core.checks import (
    Constraint,
    Field,
    Method,
    check_integer,
    one_of,
    positive_number,
    random_generator,
)
from apolar._core.threads import one_blas_thread
from apolar.decomposition.constraints import CONSTRAINTS, check_constraint, drop_zero_terms
from apolar.decomposition.exact.digits import MovingTerms, refine_digits
from apolar.decomposition.implicit import decompose_rows, form_rows
from apolar.decomposition.methods import (
    METHODS,
    DecompositionProblem,
    balanced_method,
    balanced_problem,
    rate,
    refine_terms,
)
from apolar.decomposition.ranks import (
    HankelSVD,
    RankRule,
    exact_rank,
    generic_rank,
    numerical_rank,
    resolve_rank,
)
from apolar.decomposition.terms import (
    Contractible,
    Terms,
    absorb_weights,
    canonical_terms,
    check_same_space,
    is_diverging,
    relative_residual,
)
from apolar.decomposition.tuning import TUNING
from apolar.decomposition.waring import Status, Waring, to_waring
from apolar.tensor import RowTensor, SymmetricTensor, as_tensor


def scale_to_unit(tensor: SymmetricTensor) -> tuple[SymmetricTensor, int]:
    """Return a tensor, not zero, times a power of two, so that its largest coefficient is near one.

    Tensors of moderate size stay as they are: the first trust radius of the Riemannian Newton method, as
    [khouja2022riemannian] has it, does not scale with the tensor, and neither do the steps from there.

    Returns
    -------
    scaled : SymmetricTensor
    exponent : int
        The tensor is ``2**exponent`` times the scaled one.
    """
    exponent = binary_exponent(tensor.coefficients)
    if abs(exponent) <= 60:
        return tensor, 0
    coefficients = scaled_by_power(tensor.coefficients, -exponent)
    return SymmetricTensor(tensor.order, tensor.dim, coefficients), exponent


def scale_back(waring: Waring, exponent: int, form: SymmetricTensor) -> Waring:
    """Return the decomposition of a scaled tensor as one of the tensor itself.

    Parameters
    ----------
    waring : Waring
        Of the scaled tensor.
    exponent : int
        The tensor itself is ``2**exponent`` times the scaled one.
    form : SymmetricTensor
        The scaled tensor.

    Returns
    -------
    waring : Waring

    Raises
    ------
    ValueError
        If no numbers hold the weights: they overflow, or too little of them is left.
    """
    weights = scaled_by_power(waring.weights, exponent)
    values = scaled_by_power(waring.singular_values, exponent)
    if not (np.all(np.isfinite(weights)) and np.all(np.isfinite(values))):
        raise ValueError(
            "The weights of the terms overflow: divide the tensor by its largest "
            "coefficient first; those of the quotient are the weights divided by it."
        )
    left = scaled_by_power(weights, -exponent)
    lost = np.abs(left - waring.weights).max(initial=0.0)
    if lost > TUNING.exact_residual * np.abs(waring.weights).max(initial=0.0):
        size = np.abs(scaled_by_power(form.coefficients, exponent)).max()
        raise ValueError(
            f"The tensor is so small, {size:.3g} at most, that numbers hold only a few digits of its "
            "weights: multiply it by a power of two first, such as 2.0**200."
        )
    residual = relative_residual(form, left, waring.points) if lost else waring.residual
    return replace(waring, weights=weights, singular_values=values, residual=residual)


def decompose_balanced(
    problem: DecompositionProblem, exponents: IndexArray, tensor: SymmetricTensor, rng: np.random.Generator
) -> Waring | None:
    """Return the exact decomposition of a tensor that is found with variables in other units, or None.

    Parameters
    ----------
    problem : DecompositionProblem
        With the variables in these units.
    exponents : ndarray of int, shape (dim,)
        They are those of the tensor times two to these powers.
    tensor : SymmetricTensor
    rng : numpy.random.Generator
    """
    terms_and_source = balanced_method(problem, rng)
    if terms_and_source is None:
        return None
    (terms, source), values = terms_and_source, problem.flattening.singular_values
    source = f"{source}, with variables in units of one size"
    order, norm = tensor.order, problem.tensor.norm()
    waring = to_waring(terms, order, norm, singular_values=values, rank_source=source)
    if waring.status is not Status.EXACT:
        return None
    vectors = scaled_by_power(terms.vectors.T, -exponents[:, None]).T
    with np.errstate(over="ignore", invalid="ignore"):
        weights, points = canonical_terms(vectors, terms.signs, order)
        residual = relative_residual(tensor, weights, points)
    if not np.isfinite(residual):
        return None
    # In these units the terms may be so large that rounding leaves more than that of the tensor.
    status = Status.EXACT if residual <= TUNING.exact_residual else Status.DIVERGING
    return replace(waring, weights=weights, points=points, residual=residual, status=status)


def compare_in_units(waring: Waring, problem: DecompositionProblem, exponents: IndexArray) -> Waring:
    """Return exact terms with the status that they have, after a few steps, in other units of variables.

    Parts of a tensor that are rounding of its largest coefficient may be all that there is of a variable.
    The other parameters are those of `decompose_balanced`.
    """
    if waring.status is not Status.EXACT:
        return waring
    vectors, signs = absorb_weights(waring.weights, waring.points, waring.order)
    with np.errstate(over="ignore", invalid="ignore"):
        vectors = scaled_by_power(vectors.T, exponents[:, None]).T
        terms = rate(problem.tensor, Terms(vectors, signs, gradient_size=0.0, converged=True))
    if not np.isfinite(terms.residual):
        # In these units the terms are too large for floating point.
        return replace(waring, status=Status.APPROXIMATE)
    return replace(waring, status=to_waring(terms, waring.order, problem.tensor.norm()).status)


def compare_digits(waring: Waring) -> Waring:
    """Return exact terms as approximate ones if their form, in exact numbers, has digits that they miss.

    Terms of a form whose small parts are rounding of the others, in floating point, are refined to more
    digits, in units in which variables are of one size: only those of the form itself come nearer to it.
    Without python-flint this is not done.
    """
    form, order = waring.tensor, waring.order
    if waring.status is not Status.EXACT or form is None:
        return waring
    vectors = waring.points * np.abs(waring.weights[:, None]) ** (1 / order)
    sizes = np.abs(vectors).max(axis=0)
    powers = -np.rint(np.log2(np.where(sizes > 0, sizes, 1.0))).astype(int)
    shifts = (form.exponents @ powers).tolist()
    exact = form.exact_coefficients or ()
    target = [value * Fraction(2) ** shift for value, shift in zip(exact, shifts, strict=True)]
    try:
        terms = MovingTerms.of(waring.weights / np.abs(waring.weights), vectors * 2.0**powers, order)
        refine_digits(terms, target, TUNING.first_bits)
    except ImportError:
        return waring
    except (ValueError, np.linalg.LinAlgError):
        bounds = waring.certificate.exact_rank_bound, 2 * generic_rank(form.dim, order)
        return replace(waring, status=Status.APPROXIMATE, rank_bounds=bounds)
    return waring


def simple_terms(
    form: SymmetricTensor, rank: int | RankRule | None, least: int | None, *, is_nonnegative: bool
) -> tuple[Terms, str, Array]:
    """Return the terms of a linear or quadratic form, or one in a single variable, without a search.

    Parameters
    ----------
    form : SymmetricTensor
    rank : int, callable or None
        As `decompose` takes it.
    least : int or None
        The rank of the matrix in exact numbers, where the form has them.
    is_nonnegative : bool
        Whether to keep only what is positive, of a form of one term.

    Returns
    -------
    terms : Terms
    source : str
        Where their number comes from.
    spectrum : ndarray
        The singular values of the matrix of the form.
    """
    if form.order == 2 and form.dim > 1:
        weights, points, spectrum = _quadratic_terms(form)
        number, source = numerical_rank(spectrum), "the numerical rank of its matrix"
        number, method = max(number, least or 0), "eigenvectors"
        if rank is not None:
            asked, source = resolve_rank(rank, spectrum)
            if asked > form.dim:
                raise ValueError(f"A quadratic form in {form.dim} variables has rank at most {form.dim}.")
            if asked > number:
                source = f"its matrix has rank {number}, less than the {asked} asked for"
            number = min(asked, number)
        weights, points = weights[:number], points[:number]
    else:
        spectrum, source, method = np.array([form.norm()]), "one term", "direct"
        if rank is not None and resolve_rank(rank, spectrum)[0] > 1:
            raise ValueError("This form is a power of one linear form: its rank is 1.")
        values = np.maximum(form.coefficients, 0) if is_nonnegative else form.coefficients
        weights, points = (values, np.ones((1, 1))) if form.dim == 1 else (np.ones(1), values[None])
    vectors, signs = absorb_weights(weights, points, form.order)
    terms = Terms(vectors, signs, method, gradient_size=0.0, converged=True)
    return rate(form, terms, may_move=False), source, spectrum


def _quadratic_terms(tensor: SymmetricTensor) -> tuple[Array, Array, Array]:
    """Return weights and orthonormal points of a quadratic form, largest first, and its spectrum.

    Eigenvectors of the symmetric matrix; Takagi's factorisation A = U S U^t if
    it is complex.
    """
    matrix = tensor.to_dense()
    if not tensor.is_complex:
        values, columns = np.linalg.eigh(matrix)
        by_size = np.argsort(-np.abs(values), kind="stable")
        return values[by_size], columns.T[by_size], np.abs(values[by_size])
    # Singular values s are pairs (s, -s) of eigenvalues of a real symmetric matrix twice as large.
    values, vectors = np.linalg.eigh(np.block([[matrix.real, matrix.imag], [matrix.imag, -matrix.real]]))
    n = tensor.dim
    values, rows = values[: n - 1 : -1], vectors.T[: n - 1 : -1]
    return values, rows[:, :n] + 1j * rows[:, n:], values


REFINEMENTS = ("auto", "newton", "gauss-newton")


def refine(
    tensor: Contractible,
    waring: Waring,
    *,
    method: str = "auto",
    max_iter: int = 200,
    tol: float = 1e-13,
) -> Waring:
    """Return the decomposition refined to a local best approximation of the tensor.

    Parameters
    ----------
    tensor : SymmetricTensor
        Or any object with its `order`, `dim`, `norm` and `contract_all`.
    waring : Waring
        Where to start; complex points give a complex refinement.
    method : {"auto", "newton", "gauss-newton"}, default="auto"
        "newton": the Riemannian Newton method with exact Hessian and trust
        region, for up to a few hundred unknowns. "gauss-newton": damped
        Gauss-Newton steps, matrix-free for larger problems. "auto":
        Gauss-Newton, finished by Newton where the problem is small.
    max_iter : int, default=200
    tol : float, default=1e-13
        Stop when the gradient, relative to ``|T|`` and to the terms, is below.

    Returns
    -------
    waring : Waring
        With residual, status, number of iterations and history.

    Examples
    --------
    >>> import apolar
    >>> T = apolar.SymmetricTensor.from_waring([1, 1], [[1, 2], [3, -1]], 3)
    >>> start = apolar.Waring([1.0, 1.0], [[1, 1.9], [3.1, -1]], 3)
    >>> apolar.refine(T, start).status.name
    'EXACT'
    """
    one_of(method, "method", REFINEMENTS)
    if not isinstance(waring, Waring):
        raise TypeError(f"refine takes a Waring decomposition to start from; got {type(waring).__name__}.")
    max_iter = check_integer(max_iter, "max_iter", least=1)
    tol = positive_number(tol, "tol")
    check_same_space(waring.order, waring.dim, tensor)
    if tensor.order < 2:
        raise ValueError("A tensor of order 1 is its own decomposition: nothing to refine.")
    if waring.rank == 0 or not np.all(np.linalg.norm(waring.points, axis=1) > 0):
        raise ValueError("The decomposition to refine has no terms, or a point that is zero.")
    if tensor.norm() == 0:
        raise ValueError("The tensor is zero: its decomposition has no terms.")
    form, exponent = scale_to_unit(tensor) if isinstance(tensor, SymmetricTensor) else (tensor, 0)
    norm = form.norm()
    # A term of weight zero would stay zero: it starts with a small weight in its direction.
    weights = scaled_by_power(waring.weights, -exponent)
    weights = np.where(weights == 0, TUNING.promising * norm, weights)
    terms = Terms(*absorb_weights(weights, waring.points, waring.order), waring.method)
    terms = refine_terms(form, terms, method=method, max_iter=max_iter, tol=tol)
    if isinstance(form, SymmetricTensor):
        refined = to_waring(rate(form, terms), form.order, norm, tensor=tensor)
        refined = scale_back(refined, exponent, form) if exponent else refined
    else:
        terms = replace(terms, is_diverging=is_diverging(terms, form.order, norm))
        refined = to_waring(terms, form.order, norm)
    return replace(refined, singular_values=waring.singular_values, rank_source=waring.rank_source)


FIELDS = ("auto", "real", "complex")


def decompose(
    tensor: Any,
    rank: int | RankRule | None = None,
    method: Method | str = "auto",
    refine: bool = True,
    random_state: Any = None,
    *,
    field: Field | str = "auto",
    constraint: Constraint | str | None = None,
    row_degree: int | None = None,
    n_starts: int = 50,
    max_iter: int = 200,
    tol: float = 1e-13,
    time_limit: float | None = None,
) -> Waring:
    """Decompose a symmetric tensor into a sum of powers, T = sum_i w_i (xi_i . x)^d.

    Parameters
    ----------
    tensor : SymmetricTensor or RowTensor
        Or what makes one: a symmetric array, a dict of exponents, a string such
        as ``"x^3 - 3*x*y^2"``, a SymPy expression.
    rank : int, callable or None, default=None
        The number of terms. A number below the tensor's own rank asks for the
        best approximation. A callable takes the singular values of the
        weighted Hankel matrix and returns the rank: see
        `apolar.decomposition.ranks` for `tolerance` and `gap`. None detects
        it: the numerical rank of that matrix if its terms are exact; that of
        coprime monomials; the rank above a flat floor of noise, if there is
        one, or above the spectrum of noise; else, for forms of up to 200
        coefficients, the least rank found to be exact. What is taken for noise
        is said in `Waring.rank_source`; `Waring.rank_bounds` has what is proved.
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
    constraint : {"nonnegative", "orthogonal"}, optional
        "nonnegative": points and weights >= 0, as of completely positive
        tensors. "orthogonal": orthonormal points, at most as many as variables.
        Both find the best real approximation of the kind that several starts
        lead to, of a tensor that need not be of it.
    row_degree : int, optional
        The k of the paper, for ``method="pencil"``; by default ceil(d / 2).
    n_starts : int, default=50
        Random starts of "auto" at most, where no certificate makes them needless; fewer, down to 3,
        where the rank times the dimension is in the hundreds.
    max_iter : int, default=200
        Refinement steps from one start; with a constraint, up to ten times as many.
    tol : float, default=1e-13
        Of the refinement, on the relative gradient.
    time_limit : float, optional
        Seconds after which "auto" begins no further start. By default the work is limited, and not the
        time, so that the same seed gives the same result; with a limit all ranks are tried while it lasts.

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
    one_of(method, "method", tuple(METHODS))
    one_of(field, "field", FIELDS)
    max_iter = check_integer(max_iter, "max_iter", least=1)
    n_starts = check_integer(n_starts, "n_starts", least=1)
    tol = positive_number(tol, "tol")
    deadline = float("inf")
    if time_limit is not None:
        deadline = time.monotonic() + positive_number(time_limit, "time_limit")
    rng = random_generator(random_state)
    if not (rank is None or callable(rank)):
        rank = check_integer(rank, "rank", least=1)
    if constraint is not None:
        one_of(constraint, "constraint", tuple(CONSTRAINTS))
        check_constraint(constraint, method, field, refine)
        field = "real"
    if isinstance(tensor, RowTensor):
        formed = partial(
            decompose, rank=rank, method=method, refine=refine, random_state=rng, field=field,
            constraint=constraint, row_degree=row_degree, n_starts=n_starts, max_iter=max_iter, tol=tol,
            time_limit=time_limit,
        )  # fmt: skip
        if constraint is not None:
            return replace(formed(form_rows(tensor, constraint)), tensor=None)
        steps = max_iter if refine else 0
        rows = decompose_rows(tensor, rank, formed, rng, n_starts=n_starts, max_iter=steps, tol=tol)
        return replace(rows, tensor=None)  # not the small one of the projection
    given = as_tensor(tensor)
    if np.iscomplexobj(given.coefficients):
        given = given.real_if_close(1e-15)
    if constraint is not None and given.is_complex:
        raise ValueError(f"The constraint {constraint!r} is about real tensors, and this one is complex.")
    if field == "real" and given.is_complex:
        raise ValueError("A complex tensor has no real decomposition: use the field 'complex' or 'auto'.")
    squarest = given.order - given.order // 2
    row_degree = squarest if row_degree is None else _check_row_degree(row_degree, method, given.order)
    if not np.any(given.coefficients):
        no_terms = Waring(np.zeros(0), np.zeros((0, given.dim)), given.order, 0.0, Status.ZERO, method)
        return replace(no_terms, rank_source="the tensor is zero", tensor=given)
    if not np.isfinite(given.norm()):
        raise ValueError("The norm of the tensor overflows: divide it by its largest coefficient first.")
    form, exponent = scale_to_unit(given)
    least, hides_digits = exact_rank(given)
    is_nonnegative, balanced = constraint == "nonnegative", None
    # Eigenvectors are orthonormal, and have signs as they come.
    if form.order == 1 or form.dim == 1 or (form.order == 2 and not is_nonnegative):
        terms, source, spectrum = simple_terms(form, rank, least, is_nonnegative=is_nonnegative)
    else:
        problem = DecompositionProblem(
            form, HankelSVD(form, row_degree), rank, field, refine, max_iter, n_starts, tol, deadline, least
        )
        search = METHODS[method] if constraint is None else CONSTRAINTS[constraint]
        # Threads in products of small matrices take up to seven times as long; the smallest use none.
        is_small = TUNING.few_coefficients < len(form.coefficients) <= TUNING.one_thread_coefficients
        with one_blas_thread() if is_small else nullcontext():
            wants_best = method == "auto" and refine and constraint is None
            balanced = balanced_problem(problem, rng) if wants_best else None
            waring = decompose_balanced(*balanced, form, rng) if balanced is not None else None
            if waring is not None:
                waring = scale_back(replace(waring, tensor=given), exponent, form)
                return compare_digits(waring) if hides_digits else waring
            terms, source = search(problem, rng)
        spectrum = problem.flattening.singular_values
    if constraint is not None:
        terms, source = drop_zero_terms(constraint, form, terms, source)
    waring = to_waring(
        terms, form.order, form.norm(), singular_values=spectrum, rank_source=source, constraint=constraint,
        tensor=given,
    )  # fmt: skip
    if balanced is not None:
        waring = compare_in_units(waring, *balanced)
    waring = scale_back(waring, exponent, form) if exponent else waring
    return compare_digits(waring) if hides_digits else waring


def _check_row_degree(row_degree: int, method: str, order: int) -> int:
    """Return the row degree of the Hankel matrix that was asked for."""
    row_degree = check_integer(row_degree, "row_degree", least=1)
    if method != "pencil":
        raise ValueError("row_degree belongs to method='pencil'.")
    if not 2 <= row_degree < order:
        raise ValueError(f"row_degree must be from 2 to the order less one; got {row_degree}.")
    return row_degree
