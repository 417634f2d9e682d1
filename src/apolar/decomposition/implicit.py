"""Decomposition of a sum of powers of data rows that is never formed [sherman2020]."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
from scipy.linalg import qr

from apolar._core.arrays import Array, leading_eigenvectors, unit_rows
from apolar.decomposition.least_squares import gauss_newton
from apolar.decomposition.ranks import RankRule, power_method_limit
from apolar.decomposition.terms import Terms, absorb_weights, canonical_terms, is_diverging
from apolar.decomposition.tuning import TUNING
from apolar.decomposition.waring import Status, Waring, to_waring
from apolar.tensor import RowTensor, SymmetricTensor, n_monomials

# The square of a residual is a difference of numbers near one: a smaller residual is rounding.
MIN_RESIDUAL = float(np.sqrt(np.finfo(float).eps))


def decompose_rows(
    tensor: RowTensor,
    rank: int | RankRule | None,
    decompose_formed: Callable[[SymmetricTensor], Waring],
    rng: np.random.Generator,
    *,
    n_starts: int,
    max_iter: int,
    tol: float,
) -> Waring:
    """Return the decomposition of a sum of powers of rows.

    The rows are projected on their leading directions, where the tensor is
    small enough to be formed and decomposed. If all rows lie in that subspace,
    this is the decomposition. If not, it is refined in all columns, O(n m r) a
    step. For ranks too large for that, the refinement starts from rows.

    Parameters
    ----------
    tensor : RowTensor
    rank : int, callable or None
    decompose_formed : callable
        Decomposes a projected tensor.
    rng : numpy.random.Generator
    n_starts : int
        From rows, at most.
    max_iter : int
        Steps in all columns; without any, terms are returned as they come.
    tol : float

    Returns
    -------
    waring : Waring
        Its residual is an estimate, with `residual_error`, where the
        norm of the tensor takes too long.
    """
    order = tensor.order
    if order <= 2 or n_monomials(tensor.dim, order) <= TUNING.formed_coefficients:
        return decompose_formed(tensor.to_tensor())

    def refine(terms: Terms, scale: float) -> Terms:
        if not max_iter:
            return terms
        refined = gauss_newton(tensor, terms, max_iter=max_iter, tol=max(tol, 1e-11), scale=scale)
        return replace(refined, history=())  # lacks the constant of the cost

    # As many columns as a tensor of this order is formed in.
    n_columns = next(m for m in count(2) if n_monomials(m + 1, order) > TUNING.formed_coefficients)
    _, directions = leading_eigenvectors(
        tensor.second_moment, tensor.dim, n_columns, rng, max_rounds=TUNING.row_rounds
    )
    if tensor.share_outside(directions) <= TUNING.rounding:
        return _lift(decompose_formed(tensor.change_variables(directions)), directions)
    if isinstance(rank, int):
        if rank > max(n_columns, power_method_limit(n_columns, order)):
            return _from_rows(tensor, rank, refine, n_starts if max_iter else 1, rng)
        n_columns = min(n_columns, rank + TUNING.oversampling)
    directions, projected = largest_projection(tensor, directions[:, :n_columns], rng)
    rounding = TUNING.rounding * tensor.total_size
    if isinstance(rank, int) and projected.norm() <= rounding:
        # The powers of the rows cancel in the leading directions, up to rounding.
        if not (tensor.norm_is_affordable and tensor.norm() <= rounding):
            return _from_rows(tensor, rank, refine, n_starts if max_iter else 1, rng)
        no_terms = Waring(np.zeros(0), np.zeros((0, tensor.dim)), order, 0.0, Status.ZERO, "rows")
        return replace(no_terms, rank_source="the powers of the rows cancel, up to rounding")
    start = _lift(decompose_formed(projected), directions)
    if start.rank == 0:
        return start
    terms = Terms(*absorb_weights(start.weights, start.points, order), start.method)
    waring = _assess(tensor, refine(terms, projected.norm()), rng)
    source = "" if isinstance(rank, int) else f", of the projection on {n_columns} directions"
    return replace(waring, singular_values=start.singular_values, rank_source=f"{start.rank_source}{source}")


def form_rows(tensor: RowTensor, constraint: str) -> SymmetricTensor:
    """Return a sum of powers of rows with its coefficients, which a constrained search needs."""
    size = n_monomials(tensor.dim, tensor.order)
    if size > TUNING.max_formed:
        raise ValueError(
            f"The constraint {constraint!r} needs the coefficients of the tensor: {size:,} of order "
            f"{tensor.order} in {tensor.dim} variables. Reduce the columns of the rows first, or leave "
            "out the constraint."
        )
    return tensor.to_tensor()


def largest_projection(
    tensor: RowTensor, directions: Array, rng: np.random.Generator
) -> tuple[Array, SymmetricTensor]:
    """Return directions that hold more of the tensor, as many as given, and the tensor projected on them.

    Contractions with random vectors lie in the range of the tensor, where noise
    of odd moments cancels: their span is tried, first of vectors in all columns
    where that may happen, then in the subspace, and kept while the projection
    grows.
    """
    n_directions = directions.shape[1]
    projected = tensor.change_variables(directions)
    in_all_columns = tensor.can_cancel
    for _ in range(TUNING.row_rounds):
        span = np.eye(tensor.dim) if in_all_columns else directions
        mixed = span @ rng.standard_normal((span.shape[1], 2 * n_directions + TUNING.oversampling))
        image = tensor.contract_all(unit_rows(mixed.T), 1)
        moved = np.linalg.svd(image.T, full_matrices=False)[0][:, :n_directions]
        candidate = tensor.change_variables(moved)
        if candidate.norm() > (1 + TUNING.promising) * projected.norm():
            directions, projected = moved, candidate
        elif not in_all_columns:
            break
        in_all_columns = False
    return directions, projected


def _lift(small: Waring, directions: Array) -> Waring:
    """Return the decomposition of a projected tensor in all columns."""
    vectors, signs = absorb_weights(small.weights, small.points @ directions.T, small.order)
    weights, points = canonical_terms(vectors, signs, small.order)
    return replace(small, weights=weights, points=points, method=f"projection, {small.method}")


def _from_rows(
    tensor: RowTensor,
    rank: int,
    refine: Callable[[Terms, float], Terms],
    n_starts: int,
    rng: np.random.Generator,
) -> Waring:
    """Return the best refinement of starts at random rows whose powers are far from each other."""
    found: list[tuple[float, Terms]] = []
    for _ in range(min(TUNING.few_starts, n_starts)):
        units = tensor.sampled_rows(5 * rank, rng)[0]
        pivots = qr((units @ units.T) ** tensor.order, mode="r", pivoting=True)[1]
        units = units[pivots[:rank]]
        values = tensor.contract_all(units, 0)[:, 0]
        weights = np.linalg.lstsq((units @ units.T) ** tensor.order, values, rcond=1e-10)[0]
        scale = float(np.sqrt(max(weights @ values, 0.0))) or float(tensor.total_size)
        weights = np.where(weights == 0, TUNING.promising * scale, weights)
        terms = refine(Terms(*absorb_weights(weights, units, tensor.order), "rows"), scale)
        shared, own = _products(tensor, terms)
        found.append((own - 2 * shared, terms))
    return _assess(tensor, min(found, key=lambda pair: pair[0])[1], rng)


def _assess(tensor: RowTensor, terms: Terms, rng: np.random.Generator) -> Waring:
    """Return terms as a decomposition in canonical form, with residual and status."""
    norm, residual, error = residual_of(tensor, terms, rng)
    terms = replace(terms, residual=residual)
    terms = replace(terms, is_diverging=is_diverging(terms, tensor.order, norm))
    return to_waring(terms, tensor.order, norm, residual_error=error)


def _products(tensor: RowTensor, terms: Terms) -> tuple[float, float]:
    """Return the products <T, W> and <W, W> of a tensor and the sum W of some terms."""
    signs, vectors, conjugate = terms.signs, terms.vectors, terms.vectors.conj()
    shared = (signs @ tensor.contract_all(conjugate, 0)[:, 0]).real
    return float(shared), float((signs @ (conjugate @ vectors.T) ** tensor.order @ signs).real)


def residual_of(tensor: RowTensor, terms: Terms, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return |T|, the residual |T - W| / |T|, and its standard error.

    Where the norm takes too long, the square |T - W|^2 = <T, T - W> - <W, T - W>
    is estimated: of the first product by a sample of rows, without bias.

    Returns
    -------
    norm, residual, error : float
        The error is zero if the norm is exact. A residual is never below the
        square root of rounding, because its square is a difference.
    """
    shared, own = _products(tensor, terms)
    if tensor.norm_is_affordable:
        squared_norm = tensor.norm() ** 2
        square, square_error = squared_norm - 2 * shared + own, 0.0
    else:
        units, signs = tensor.sampled_rows(256, rng)
        sums = ((units @ terms.vectors.T) ** tensor.order @ terms.signs).real
        differences = tensor.contract_all(units, 0)[:, 0] - sums
        draws = tensor.total_size * signs * differences
        square = float(draws.mean() - shared + own)
        square_error = float(draws.std(ddof=1) / np.sqrt(len(draws)))
        # At least what the inequality of Cauchy and Schwarz says.
        squared_norm = max(square + 2 * shared - own, shared**2 / own, np.finfo(float).tiny)
    residual = max(float(np.sqrt(max(square, 0.0) / squared_norm)), MIN_RESIDUAL)
    # The square is part of that of the norm, too: to first order, the ratio moves by what is explained of it.
    relative_error = square_error / squared_norm
    explained = max(1 - residual**2, 0.0)
    error = min(relative_error * explained / (2 * residual), float(np.sqrt(relative_error)))
    return float(np.sqrt(squared_norm)), residual, error
