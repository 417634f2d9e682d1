"""Refinement of a decomposition, and the status in which it ended."""

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array, scaled_by_power, unit_rows
from apolar._core.checks import check_integer, one_of, positive_number
from apolar.decomposition.condition import UNDETERMINED, cluster_error, is_cancelling
from apolar.decomposition.gauss_newton import Contractible, Refined, gauss_newton
from apolar.decomposition.newton import newton
from apolar.decomposition.polish import NEARLY_EXACT, ROUNDING, is_rounding, polished
from apolar.decomposition.scaling import of_full_size, of_unit_size
from apolar.decomposition.waring import (
    Status,
    Waring,
    absorbed_weights,
    canonical_terms,
    relative_residual,
)
from apolar.tensor import SymmetricTensor

REFINEMENTS = ("auto", "newton", "gauss-newton")

# Up to this many unknowns the quadratic convergence of Newton's method is worth its dense Hessian.
NEWTON_LIMIT = 150

# A residual at which a search ends: that of numbers that are right to ten digits.
SEARCH_TOL = 1e-10


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
        scaled, exponent = of_unit_size(tensor)
        start = replace(waring, weights=scaled_by_power(waring.weights, -exponent))
        refined = of_full_size(_refined(scaled, start, method, max_iter, tol), exponent, tensor)
    else:
        refined = _refined(tensor, waring, method, max_iter, tol)
    return replace(
        refined,
        singular_values=waring.singular_values,
        rank_source=waring.rank_source,
        tensor=tensor if isinstance(tensor, SymmetricTensor) else None,
    )


def _refined(tensor: Contractible, waring: Waring, method: str, max_iter: int, tol: float) -> Waring:
    """Return the decomposition refined, all arguments checked."""
    # A term of weight zero would stay zero: it starts with a small weight in its direction.
    weights = np.where(waring.weights == 0, 1e-3 * tensor.norm(), waring.weights)
    vectors, signs = absorbed_weights(weights, waring.points, waring.order)
    refined = refined_terms(tensor, vectors, signs, method=method, max_iter=max_iter, tol=tol)
    if isinstance(tensor, SymmetricTensor):
        refined, _ = polished(tensor, refined, relative_residual(tensor, refined.signs, refined.vectors))
    return to_waring(tensor, refined, waring.method)


def refined_terms(
    tensor: Contractible, vectors: Array, signs: Array, *, method: str, max_iter: int, tol: float
) -> Refined:
    """Return the terms sum_i s_i (a_i . x)^d refined by the method of that name."""
    if method == "newton":
        return _newton(tensor, vectors, signs, max_iter, tol)
    unknowns = vectors.size * (2 if np.iscomplexobj(vectors) else 1)
    newton_pays = method == "auto" and unknowns <= NEWTON_LIMIT
    # Gauss-Newton is fast far away and where the residual is small; elsewhere Newton takes over.
    first = gauss_newton(
        tensor, vectors, signs, max_iter=max_iter, tol=tol, give_up_above=SEARCH_TOL if newton_pays else None
    )
    left = max_iter - first.n_iter
    if not newton_pays or first.gradient_norm <= tol or first.cost <= 0.5 * SEARCH_TOL**2 or not left:
        return first
    second = _newton(tensor, first.vectors, first.signs, left, tol)
    if second.gradient_norm > first.gradient_norm and second.cost >= first.cost:
        return first
    return first.then(second)


def _newton(tensor: Contractible, vectors: Array, signs: Array, max_iter: int, tol: float) -> Refined:
    norms = np.linalg.norm(vectors, axis=1)
    weights = signs * norms**tensor.order
    return newton(tensor, weights, unit_rows(vectors), max_iter=max_iter, tol=tol)


def to_waring(tensor: Contractible, refined: Refined, method: str) -> Waring:
    """Return refined terms as a decomposition in canonical form, with residual and status."""
    weights, points = canonical_terms(refined.vectors, refined.signs, tensor.order)
    if isinstance(tensor, SymmetricTensor):
        residual = relative_residual(tensor, weights, points)
    else:
        residual = float(np.sqrt(max(2 * refined.cost, 0.0)))
    return Waring(
        weights,
        points,
        tensor.order,
        residual=residual,
        status=verdict(tensor, refined, residual),
        method=method,
        n_iter=refined.n_iter,
        history=refined.history,
    )


def verdict(tensor: Contractible, refined: Refined, residual: float) -> Status:
    """Return the status of refined terms."""
    if is_diverging(tensor, refined, residual):
        return Status.DIVERGING
    if residual <= SEARCH_TOL:
        order, norm = tensor.order, tensor.norm()
        sizes = np.linalg.norm(refined.vectors, axis=1) ** order
        if cluster_error(sizes, unit_rows(refined.vectors), order, residual, norm) >= UNDETERMINED:
            return Status.ILL_CONDITIONED
        if is_rounding(residual, sizes, norm):
            return Status.EXACT
    return Status.APPROXIMATE if refined.converged else Status.NOT_CONVERGED


def is_diverging(tensor: Contractible, refined: Refined, residual: float) -> bool:
    """Return whether terms grow without bound, towards a tensor that has no decomposition of their rank.

    On the way there, terms of size s that cancel each other leave a residual that
    falls only like 1/s. Large terms of an exact, ill-conditioned decomposition
    leave rounding.
    """
    sizes = np.linalg.norm(refined.vectors, axis=1) ** tensor.order
    units, norm = unit_rows(refined.vectors), tensor.norm()
    largest = float(sizes.max()) / norm
    if not np.isfinite(largest) or (largest > 50 and residual * largest > 1e-4):
        return True
    # Terms this large have more rounding than the residual of an exact decomposition: a smaller one is luck.
    if largest * np.finfo(float).eps > SEARCH_TOL:
        return True
    if residual <= ROUNDING or not is_cancelling(sizes, units, refined.signs, tensor.order):
        return False
    # Near a double point the residual falls like 1/s^2. To first order, terms there may be off by 0.7 times
    # their size, however near they come; exact terms have been polished, and are off by much less.
    if residual < NEARLY_EXACT and cluster_error(sizes, units, tensor.order, residual, norm) >= UNDETERMINED:
        return True
    if largest > 50 and residual > SEARCH_TOL:
        return True
    # On the way there: two large terms, nearly the same, of opposite sign. The gradient is then about
    # residual^2 / size, however small; a gradient much below that is the gradient near a minimum.
    slowest = float(np.clip(0.1 * residual**2 / max(largest, 1.0), 1e-12, 1e-9))
    still_moving = refined.gradient_norm > slowest and refined.n_iter >= 20
    return still_moving and residual > SEARCH_TOL and largest > 5
