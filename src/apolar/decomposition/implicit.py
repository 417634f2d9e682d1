"""Decomposition of a sum of powers of data rows that is never formed [sherman2020]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from apolar._core.arrays import Array, unit_rows
from apolar._core.checks import check_integer, positive_number
from apolar._core.range_finder import leading_eigenvectors
from apolar.decomposition.least_squares import gauss_newton
from apolar.decomposition.ranks import RankRule, power_method_limit
from apolar.decomposition.terms import Refined, absorb_weights, canonical_terms
from apolar.decomposition.tuning import TUNING
from apolar.decomposition.waring import Status, Waring, verdict
from apolar.tensor import RowTensor, SymmetricTensor, n_monomials

# The square of a residual is a difference of numbers near one: a smaller residual is rounding.
MIN_RESIDUAL = float(np.sqrt(np.finfo(float).eps))


@dataclass(frozen=True, eq=False)
class _ScaledRows:
    """A tensor with a given number for its norm, which may be unknown: refinement needs only its scale."""

    tensor: RowTensor
    scale: float

    @property
    def order(self) -> int:
        return self.tensor.order

    @property
    def dim(self) -> int:
        return self.tensor.dim

    def norm(self) -> float:
        return self.scale

    def contract_all(self, points: Array, left: int) -> Array:
        return self.tensor.contract_all(points, left)


class RowOptions(NamedTuple):
    """The arguments of `decompose` besides the tensor, the rank and the random state."""

    method: str
    refine: bool
    field: str
    row_degree: int | None
    n_starts: int
    max_iter: int
    tol: float


def decompose_rows(
    tensor: RowTensor,
    rank: int | RankRule | None,
    decompose: Callable[..., Waring],
    settings: RowOptions,
    rng: np.random.Generator,
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
    decompose : callable
        `apolar.decompose`, for the projected tensor.
    settings : RowOptions
    rng : numpy.random.Generator

    Returns
    -------
    waring : Waring
        Of which the residual is an estimate, with `residual_error`, where the
        norm of the tensor takes too long.
    """
    check_integer(settings.max_iter, "max_iter", least=1)
    check_integer(settings.n_starts, "n_starts", least=1)
    positive_number(settings.tol, "tol")
    if not (rank is None or callable(rank)):
        rank = check_integer(rank, "rank", least=1)

    def decompose_formed(formed: SymmetricTensor) -> Waring:
        return decompose(formed, rank, random_state=rng, **settings._asdict())

    if tensor.order <= 2 or n_monomials(tensor.dim, tensor.order) <= TUNING.formed_coefficients:
        return decompose_formed(tensor.to_tensor())
    n_columns = _max_columns(tensor.order)
    _, directions = leading_eigenvectors(
        tensor.second_moment, tensor.dim, n_columns, rng, max_rounds=TUNING.row_rounds
    )
    if tensor.share_outside(directions) <= TUNING.vanishing:
        return _lift(decompose_formed(tensor.change_variables(directions)), directions)
    if isinstance(rank, int):
        if rank > max(n_columns, power_method_limit(n_columns, tensor.order)):
            return _from_rows(tensor, rank, settings, rng)
        n_columns = min(n_columns, rank + TUNING.oversampling)
    directions, projected = largest_projection(tensor, directions[:, :n_columns], rng)
    if (
        isinstance(rank, int)
        and tensor.total_size > 0
        and projected.norm() <= TUNING.vanishing * tensor.total_size
    ):
        # The powers of the rows cancel in the leading directions, up to rounding.
        if tensor.norm_is_affordable and tensor.norm() <= TUNING.vanishing * tensor.total_size:
            no_terms = Waring(np.zeros(0), np.zeros((0, tensor.dim)), tensor.order, 0.0, Status.ZERO, "rows")
            return replace(no_terms, rank_source="the powers of the rows cancel, up to rounding")
        return _from_rows(tensor, rank, settings, rng)
    start = _lift(decompose_formed(projected), directions)
    if start.rank == 0:
        return start
    source = start.rank_source
    if not isinstance(rank, int):
        source += f", of the projection on {n_columns} directions"
    vectors, signs = absorb_weights(start.weights, start.points, start.order)
    scaled = _ScaledRows(tensor, projected.norm())
    refined = (
        _refine_rows(scaled, vectors, signs, settings) if settings.refine else _as_refined(vectors, signs)
    )
    waring = _assess(tensor, refined, start.method, rng)
    if not settings.refine:
        waring = replace(waring, status=Status.UNREFINED)
    return replace(waring, singular_values=start.singular_values, rank_source=source)


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
    spans = [np.eye(tensor.dim)] if tensor.can_cancel else []
    for turn in range(TUNING.row_rounds):
        span = spans[turn] if turn < len(spans) else directions
        mixed = span @ rng.standard_normal((span.shape[1], 2 * n_directions + TUNING.oversampling))
        image = tensor.contract_all(unit_rows(mixed.T), 1)
        moved = np.linalg.svd(image.T, full_matrices=False)[0][:, :n_directions]
        candidate = tensor.change_variables(moved)
        if candidate.norm() > 1.001 * projected.norm():
            directions, projected = moved, candidate
        elif turn >= len(spans):
            break
    return directions, projected


def _max_columns(order: int) -> int:
    """Return the number of columns up to which a tensor of this order is formed."""
    columns = 2
    while n_monomials(columns + 1, order) <= TUNING.formed_coefficients:
        columns += 1
    return columns


def _lift(small: Waring, directions: Array) -> Waring:
    """Return the decomposition of a projected tensor in all columns."""
    if small.rank == 0:
        return replace(small, points=np.zeros((0, len(directions))))
    vectors, signs = absorb_weights(small.weights, small.points @ directions.T, small.order)
    weights, points = canonical_terms(vectors, signs, small.order)
    return replace(small, weights=weights, points=points, method=f"projection, {small.method}")


def _from_rows(tensor: RowTensor, rank: int, settings: RowOptions, rng: np.random.Generator) -> Waring:
    """Return the best refinement of starts at random rows."""
    best: tuple[float, Refined] | None = None
    for _ in range(min(TUNING.few_starts, settings.n_starts) if settings.refine else 1):
        units = _independent(tensor.sampled_rows(5 * rank, rng)[0], rank, tensor.order)
        values = tensor.contract_all(units, 0)[:, 0]
        weights = np.linalg.lstsq((units @ units.T) ** tensor.order, values, rcond=1e-10)[0]
        scale = float(np.sqrt(max(weights @ values, 0.0))) or float(tensor.total_size)
        vectors, signs = absorb_weights(np.where(weights == 0, 1e-3 * scale, weights), units, tensor.order)
        if not settings.refine:
            unrefined = _assess(tensor, _as_refined(vectors, signs), "rows", rng)
            return replace(unrefined, status=Status.UNREFINED)
        refined = _refine_rows(_ScaledRows(tensor, scale), vectors, signs, settings)
        # The cost lacks a constant, which depends on the scale.
        cost = scale**2 * (refined.cost - 0.5)
        if best is None or cost < best[0]:
            best = cost, refined
    assert best is not None
    return _assess(tensor, best[1], "rows", rng)


def _independent(units: Array, rank: int, order: int) -> Array:
    """Return those of some unit vectors whose powers are the farthest from each other's span."""
    pivots = qr((units @ units.T) ** order, mode="r", pivoting=True)[1]
    return units[pivots[:rank]]


def _refine_rows(scaled: _ScaledRows, vectors: Array, signs: Array, settings: RowOptions) -> Refined:
    """Return terms refined in all columns, without the history, which lacks the constant of the cost."""
    tol = max(settings.tol, 1e-11)
    return replace(gauss_newton(scaled, vectors, signs, max_iter=settings.max_iter, tol=tol), history=())


def _as_refined(vectors: Array, signs: Array) -> Refined:
    return Refined(vectors, signs, float("nan"), 0.0, True, 0, ())


def _assess(tensor: RowTensor, refined: Refined, method: str, rng: np.random.Generator) -> Waring:
    """Return terms as a decomposition in canonical form, with residual and status."""
    weights, points = canonical_terms(refined.vectors, refined.signs, tensor.order)
    norm, residual, error = residual_of(tensor, weights, points, rng)
    status = verdict(_ScaledRows(tensor, norm), refined, residual)
    return Waring(
        weights,
        points,
        tensor.order,
        residual=residual,
        status=status,
        method=method,
        n_iter=refined.n_iter,
        residual_error=error,
    )


def residual_of(
    tensor: RowTensor, weights: Array, points: Array, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return |T|, the residual |T - W| / |T|, and its standard error.

    Where the norm takes too long, the square |T - W|^2 = <T, T - W> - <W, T - W>
    is estimated: of the first product by a sample of rows, without bias.

    Returns
    -------
    norm, residual, error : float
        The error is zero if the norm is exact. A residual is never below the
        square root of rounding, because its square is a difference.
    """
    values = (weights @ tensor.contract_all(points.conj(), 0)[:, 0].conj()).real
    own = (weights.conj() @ (points.conj() @ points.T) ** tensor.order @ weights).real
    if tensor.norm_is_affordable:
        squared_norm = tensor.norm() ** 2
        square, square_error = squared_norm - 2 * values + own, 0.0
    else:
        units, signs = tensor.sampled_rows(256, rng)
        terms = ((units @ points.T) ** tensor.order @ weights).real
        differences = tensor.contract_all(units, 0)[:, 0] - terms
        draws = tensor.total_size * signs * differences
        square = float(draws.mean() - values + own)
        square_error = float(draws.std(ddof=1) / np.sqrt(len(draws)))
        # At least what the inequality of Cauchy and Schwarz says.
        squared_norm = max(square + 2 * values - own, values**2 / own, np.finfo(float).tiny)
    residual = max(float(np.sqrt(max(square, 0.0) / squared_norm)), MIN_RESIDUAL)
    # The square is part of that of the norm, too: to first order, the ratio moves by what is explained of it.
    relative_error = square_error / squared_norm
    explained = max(1 - residual**2, 0.0)
    error = min(relative_error * explained / (2 * residual), float(np.sqrt(relative_error)))
    return float(np.sqrt(squared_norm)), residual, error
