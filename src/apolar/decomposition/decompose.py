"""The entry point: a symmetric tensor in, its Waring decomposition out."""

import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from apolar._core.checks import check_integer, one_of, positive_number, random_generator
from apolar._core.literals import Constraint, Field, Method
from apolar._core.threads import one_blas_thread
from apolar.decomposition import ranks
from apolar.decomposition.candidates import Budget
from apolar.decomposition.constraints import CONSTRAINTS, check_constraint, constrained_terms, formed
from apolar.decomposition.flattening import Flattening, middle_degree
from apolar.decomposition.implicit import Settings, decompose_rows
from apolar.decomposition.methods import METHODS, Problem
from apolar.decomposition.refine import to_waring
from apolar.decomposition.scaling import of_full_size, of_unit_size
from apolar.decomposition.simple import simple_decomposition
from apolar.decomposition.waring import Status, Waring
from apolar.tensor import RowTensor
from apolar.tensor.conversion import as_tensor

FIELDS = ("auto", "real", "complex")
# Up to this many coefficients, matrices are so small that BLAS is faster with one thread.
FEW_COEFFICIENTS = 50_000


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
            tensor = formed(tensor, constraint)
    if isinstance(tensor, RowTensor):
        settings = Settings(method, refine, field, row_degree, n_starts, max_iter, tol)
        rows = decompose_rows(tensor, rank, decompose, settings, random_generator(random_state))
        return replace(rows, tensor=None)  # not the small one of the projection
    given = as_tensor(tensor).real_if_close(1e-15)
    if constraint is not None and given.is_complex:
        raise ValueError(f"constraint='{constraint}' is about real tensors, and this one is complex.")
    if field == "real" and given.is_complex:
        raise ValueError("A complex tensor has no real decomposition: use field='complex' or 'auto'.")
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
    form, exponent = of_unit_size(given)
    # Eigenvectors are orthonormal, and have signs as they come.
    if (form.order <= 2 or form.dim == 1) and constraint != "nonnegative":
        simple = replace(simple_decomposition(form, rank), constraint=constraint)
        return replace(of_full_size(simple, exponent, given), tensor=given)
    # Threads in products of small matrices take up to seven times as long.
    with one_blas_thread() if len(form.coefficients) <= FEW_COEFFICIENTS else nullcontext():
        flattening = Flattening.of(form, row_degree or middle_degree(form.order))
        problem = Problem(form, flattening, rank, field, refine, budget)
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
    return replace(of_full_size(waring, exponent, given), tensor=given)
