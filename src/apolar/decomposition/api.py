"""`decompose` and `refine`: a symmetric tensor in, its Waring decomposition out."""

import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array, binary_exponent, scaled_by_power
from apolar._core.checks import check_integer, one_of, positive_number, random_generator
from apolar._core.literals import Constraint, Field, Method
from apolar._core.threads import one_blas_thread
from apolar.decomposition import ranks
from apolar.decomposition.constraints import (
    CONSTRAINTS,
    check_constraint,
    constrained_terms,
    form_rows,
)
from apolar.decomposition.hankel import HankelSVD, middle_degree
from apolar.decomposition.implicit import RowOptions, decompose_rows
from apolar.decomposition.least_squares import polish_terms
from apolar.decomposition.methods import METHODS
from apolar.decomposition.ranks import RankRule, numerical_rank, resolve_rank
from apolar.decomposition.search import Budget, DecompositionProblem, refine_terms
from apolar.decomposition.terms import Contractible, Refined, absorb_weights, relative_residual
from apolar.decomposition.tuning import TUNING
from apolar.decomposition.waring import Status, Waring, to_waring
from apolar.tensor import RowTensor, SymmetricTensor, as_tensor


def scale_to_unit(tensor: SymmetricTensor) -> tuple[SymmetricTensor, int]:
    """Return a tensor, not zero, times a power of two, so that its norm is near one.

    Tensors of moderate size stay as they are: the first trust radius of the Riemannian Newton method, as
    [khouja2022riemannian] has it, does not scale with the tensor, and neither do the steps from there.

    Returns
    -------
    scaled : SymmetricTensor
    exponent : int
        The tensor is ``2**exponent`` times the scaled one.
    """
    largest = binary_exponent(tensor.coefficients)
    scaled = SymmetricTensor(tensor.order, tensor.dim, scaled_by_power(tensor.coefficients, -largest))
    exponent = largest + int(np.round(np.log2(scaled.norm())))
    if abs(exponent) <= 60:
        return tensor, 0
    coefficients = scaled_by_power(tensor.coefficients, -exponent)
    return SymmetricTensor(tensor.order, tensor.dim, coefficients), exponent


def scale_back(waring: Waring, exponent: int, tensor: SymmetricTensor) -> Waring:
    """Return the decomposition of a scaled tensor as one of the tensor itself.

    Parameters
    ----------
    waring : Waring
        Of the tensor divided by ``2**exponent``.
    exponent : int
    tensor : SymmetricTensor
        As it was given.

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
            "The weights of the terms are too large for numbers: divide the tensor by its largest "
            "coefficient first; those of the quotient are the weights divided by it."
        )
    lost = np.abs(scaled_by_power(weights, -exponent) - waring.weights).max(initial=0.0)
    if lost > TUNING.exact_residual * np.abs(waring.weights).max(initial=0.0):
        raise ValueError(
            f"The tensor is so small, {np.abs(tensor.coefficients).max():.3g} at most, that numbers hold "
            "only a few digits of its weights: multiply it by a power of two first, such as 2.0**200."
        )
    scaled = replace(waring, weights=weights, singular_values=values)
    return (
        scaled if lost == 0 else replace(scaled, residual=relative_residual(tensor, weights, waring.points))
    )


def simple_decomposition(form: SymmetricTensor, rank: int | RankRule | None) -> Waring:
    """Return the decomposition of a linear or quadratic form, or one in a single variable."""
    if form.order == 2 and form.dim > 1:
        vectors, signs, spectrum = quadratic_terms(form)
        source = "the numerical rank of its matrix"
        if rank is not None:
            number, source = resolve_rank(rank, spectrum)
            if number > form.dim:
                raise ValueError(f"A quadratic form in {form.dim} variables has rank at most {form.dim}.")
            if number > len(vectors):
                source = f"its matrix has rank {len(vectors)}, less than the {number} asked for"
            vectors, signs = vectors[:number], signs[:number]
    else:
        terms_of = linear_terms if form.order == 1 else univariate_terms
        vectors, signs = terms_of(form)
        spectrum, source = np.array([form.norm()]), "one term"
        if rank is not None and resolve_rank(rank, spectrum)[0] > 1:
            raise ValueError("This form is a power of one linear form: its rank is 1.")
    refined = Refined(vectors, signs, float("nan"), 0.0, True, 0, ())
    waring = to_waring(form, refined, "eigenvectors" if form.order == 2 else "direct")
    return replace(waring, singular_values=spectrum, rank_source=source)


def linear_terms(tensor: SymmetricTensor) -> tuple[Array, Array]:
    """Return the single vector of a linear form, and its sign."""
    return tensor.coefficients[None, :], np.ones(1)


def univariate_terms(tensor: SymmetricTensor) -> tuple[Array, Array]:
    """Return the single vector of c x^d, and its sign."""
    value = tensor.coefficients[0]
    if tensor.is_complex:
        return np.array([[value ** (1 / tensor.order)]]), np.ones(1)
    root = abs(value) ** (1 / tensor.order)
    if tensor.order % 2:
        return np.array([[np.sign(value) * root]]), np.ones(1)
    return np.array([[root]]), np.array([np.sign(value)])


def quadratic_terms(tensor: SymmetricTensor) -> tuple[Array, Array, Array]:
    """Return orthogonal vectors of a quadratic form, largest first, their signs, and its spectrum.

    Eigenvectors of the symmetric matrix; Takagi's factorisation A = U S U^t if
    it is complex.
    """
    matrix = tensor.to_dense()
    if tensor.is_complex:
        # Singular values s are pairs (s, -s) of eigenvalues of a real symmetric matrix twice as large.
        doubled = np.block([[matrix.real, matrix.imag], [matrix.imag, -matrix.real]])
        values, vectors = np.linalg.eigh(doubled)
        n = tensor.dim
        values, vectors = values[: n - 1 : -1], vectors[:, : n - 1 : -1]
        columns = vectors[:n] - 1j * vectors[n:]
        columns = columns.conj()
    else:
        values, columns = np.linalg.eigh(matrix)
        by_size = np.argsort(-np.abs(values), kind="stable")
        values, columns = values[by_size], columns[:, by_size]
    spectrum = np.abs(values)
    rank = numerical_rank(spectrum)
    vectors = (columns * np.sqrt(spectrum)).T[:rank]
    return vectors, np.where(values[:rank] < 0, -1.0, 1.0), spectrum


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
    if (waring.order, waring.dim) != (tensor.order, tensor.dim):
        raise ValueError(
            f"The decomposition is of order {waring.order} in {waring.dim} variables, "
            f"the tensor of order {tensor.order} in {tensor.dim}."
        )
    if tensor.order < 2:
        raise ValueError("A tensor of order 1 is its own decomposition: nothing to refine.")
    if waring.rank == 0 or not np.all(np.linalg.norm(waring.points, axis=1) > 0):
        raise ValueError("The decomposition to refine has no terms, or a point that is zero.")
    if tensor.norm() == 0:
        raise ValueError("The tensor is zero: its decomposition has no terms.")
    if isinstance(tensor, SymmetricTensor):
        scaled, exponent = scale_to_unit(tensor)
        start = replace(waring, weights=scaled_by_power(waring.weights, -exponent))
        refined = scale_back(_refine_scaled(scaled, start, method, max_iter, tol), exponent, tensor)
    else:
        refined = _refine_scaled(tensor, waring, method, max_iter, tol)
    return replace(
        refined,
        singular_values=waring.singular_values,
        rank_source=waring.rank_source,
        tensor=tensor if isinstance(tensor, SymmetricTensor) else None,
    )


def _refine_scaled(tensor: Contractible, waring: Waring, method: str, max_iter: int, tol: float) -> Waring:
    """Return the decomposition refined, all arguments checked."""
    # A term of weight zero would stay zero: it starts with a small weight in its direction.
    weights = np.where(waring.weights == 0, 1e-3 * tensor.norm(), waring.weights)
    vectors, signs = absorb_weights(weights, waring.points, waring.order)
    refined = refine_terms(tensor, vectors, signs, method=method, max_iter=max_iter, tol=tol)
    if isinstance(tensor, SymmetricTensor):
        refined, _ = polish_terms(tensor, refined, relative_residual(tensor, refined.signs, refined.vectors))
    return to_waring(tensor, refined, waring.method)


FIELDS = ("auto", "real", "complex")


def decompose(
    tensor: Any,
    rank: int | ranks.RankRule | None = None,
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
    if constraint is not None:
        one_of(constraint, "constraint", tuple(CONSTRAINTS))
        check_constraint(constraint, method, field, refine)
        field = "real"
        if isinstance(tensor, RowTensor):
            tensor = form_rows(tensor, constraint)
    if isinstance(tensor, RowTensor):
        settings = RowOptions(method, refine, field, row_degree, n_starts, max_iter, tol)
        rows = decompose_rows(tensor, rank, decompose, settings, random_generator(random_state))
        return replace(rows, tensor=None)  # not the small one of the projection
    given = as_tensor(tensor).real_if_close(1e-15)
    if constraint is not None and given.is_complex:
        raise ValueError(f"The constraint {constraint!r} is about real tensors, and this one is complex.")
    if field == "real" and given.is_complex:
        raise ValueError("A complex tensor has no real decomposition: use the field 'complex' or 'auto'.")
    budget = Budget(
        check_integer(max_iter, "max_iter", least=1),
        check_integer(n_starts, "n_starts", least=1),
        positive_number(tol, "tol"),
        float("inf") if time_limit is None else time.monotonic() + positive_number(time_limit, "time_limit"),
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
        no_terms = Waring(np.zeros(0), np.zeros((0, given.dim)), given.order, 0.0, Status.ZERO, method)
        return replace(no_terms, rank_source="the tensor is zero", tensor=given)
    if not np.isfinite(given.norm()):
        raise ValueError("The norm of the tensor overflows: divide it by its largest coefficient first.")
    form, exponent = scale_to_unit(given)
    # Eigenvectors are orthonormal, and have signs as they come.
    if (form.order <= 2 or form.dim == 1) and constraint != "nonnegative":
        simple = replace(simple_decomposition(form, rank), constraint=constraint)
        return replace(scale_back(simple, exponent, given), tensor=given)
    # Threads in products of small matrices take up to seven times as long.
    with one_blas_thread() if len(form.coefficients) <= TUNING.one_thread_coefficients else nullcontext():
        flattening = HankelSVD.of(form, row_degree or middle_degree(form.order))
        problem = DecompositionProblem(form, flattening, rank, field, refine, budget)
        if constraint is None:
            candidate, source = METHODS[method](problem, rng)
        else:
            candidate, source = constrained_terms(constraint, problem, rng)
        waring = to_waring(form, candidate.refined, candidate.method)
    if not refine:
        waring = replace(waring, status=Status.UNREFINED)
    elif not candidate.settled:
        waring = replace(waring, status=Status.RANK_NOT_SETTLED)
    waring = replace(
        waring,
        singular_values=flattening.singular_values,
        rank_source=source,
        rank_bounds=candidate.rank_bounds,
        constraint=constraint,
    )
    return replace(scale_back(waring, exponent, given), tensor=given)
