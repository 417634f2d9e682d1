"""Exact terms near those found, in ball arithmetic: their distance, and Krawczyk's proof that they exist."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.optimize import linear_sum_assignment

from apolar._core.arrays import Array
from apolar.decomposition.exact.digits import as_balls, midpoints, powers_of_balls
from apolar.decomposition.exact.exact_waring import ExactWaring
from apolar.decomposition.exact.numbers import AlgebraicNumber, ExactNumber, load_flint, to_fmpq
from apolar.decomposition.terms import power_jacobian
from apolar.decomposition.tuning import TUNING
from apolar.tensor.monomials import exponents, n_monomials, product_positions

# Bits of a ball's midpoint, in one attempt after the other.
BITS = (128, 256)


def distance_of_exact_terms(exact: ExactWaring, weights: Array, points: Array) -> float | None:
    """Return how far exact points are at most from those found, at the weights found; None if they are far.

    Distances are relative to the lengths of the points found.
    """
    flint, order = load_flint(), exact.order
    # Which term is which, and the nearest root of the quotient of the weights, in floating point.
    scales = np.array([complex(weight) for weight in exact.weights])
    vectors = np.array([[complex(c) for c in point] for point in exact.points])
    roots = np.exp(2j * np.pi * np.arange(order) / order)
    factors = (scales / weights[:, None]).astype(complex)[..., None] ** (1 / order) * roots
    differences = factors[..., None] * vectors[None, :, None] - points[:, None, None]
    distances = np.linalg.norm(differences, axis=-1) / np.linalg.norm(points, axis=1)[:, None, None]
    found, own = linear_sum_assignment(distances.min(axis=2))
    largest = flint.arb(0)
    with flint.ctx.workprec(BITS[0]):
        for i, j in zip(found, own, strict=True):
            near = flint.acb(complex(factors[i, j, np.argmin(distances[i, j])]))
            quotient = _ball(exact.weights[j]) / flint.acb(complex(weights[i]))
            factor = near * (quotient / near**order).root(order)
            balls = np.array([factor * _ball(c) for c in exact.points[j]])
            largest = largest.max(_relative_distance(balls, as_balls(points[i])))
    radius = float(largest.upper()) * (1 + 1e-15)
    return radius if radius < TUNING.undetermined else None


def _ball(number: ExactNumber) -> Any:
    if isinstance(number, AlgebraicNumber):
        return number.field.ball(number.coefficients, BITS[0])
    return load_flint().acb(to_fmpq(number))


def _relative_distance(balls: Any, point: Any) -> Any:
    """Return an upper bound of the distance of a point, relative to its length."""
    zero = load_flint().arb(0)
    square = sum((abs(c).upper() ** 2 for c in balls - point), zero)
    return (square / sum((abs(c) ** 2 for c in point), zero)).sqrt().upper()


def prove_in_balls(
    weights: Array, points: Array, order: int, target: Sequence[Any], spread: Array
) -> float | None:
    """Return how far the points of exact terms are, for all tensors in a box; None if there is no proof.

    The unknowns are the points, at fixed weights; where they are more than the equations, those that
    determine the sum least stay as they are. Krawczyk: for a box around x and an approximate inverse Y of
    the Jacobian J, if x - Y (F(x) - T) + (I - Y J(box)) (box - x) lies inside the box, then F = T has a
    solution in it.

    Parameters
    ----------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    order : int
    target : sequence of float or Fraction, shape (n_monomials,)
        The middle of the box of coefficients.
    spread : ndarray, shape (n_monomials,)
        Half of its sides.

    Returns
    -------
    radius : float or None
        Relative to the lengths of the points.
    """
    flint = load_flint()
    n = n_monomials(points.shape[1], order)
    if order == 1 or points.size > TUNING.max_ball_unknowns or n > points.size:
        return None
    jacobian = power_jacobian(points, weights, order).reshape(n, -1)
    triangle, pivots = qr(jacobian, mode="r", pivoting=True)
    sizes = np.abs(np.diag(triangle[:, :n]))
    if sizes[-1] < TUNING.rounding * sizes[0]:
        return None
    free = np.sort(pivots[:n])
    is_complex = any(np.iscomplexobj(array) for array in (weights, points, target))
    for bits in BITS:
        with flint.ctx.workprec(bits):
            numbers = (
                as_balls(weights),
                as_balls(points),
                np.array([_exact_ball(value) for value in target]),
            )
            if not is_complex:
                numbers = tuple(np.frompyfunc(lambda ball: ball.real, 1, 1)(array) for array in numbers)
            try:
                radius = _krawczyk(*numbers, order, spread, free)
            except ZeroDivisionError:
                return None
            if radius is not None and radius < TUNING.undetermined:
                return radius
    return None


def _krawczyk(weights: Any, points: Any, middle: Any, order: int, spread: Array, free: Array) -> float | None:
    """Return the distance of the box in which Krawczyk's operator proves a solution, or None."""
    flint = load_flint()
    matrix = flint.acb_mat if isinstance(middle[0], flint.acb) else flint.arb_mat
    refined = points.copy()
    for _ in range(TUNING.full_steps):
        residual = weights @ powers_of_balls(refined, order) - middle
        inverse = matrix(_jacobian(weights, refined, order)[:, free].tolist()).mid().inv().mid()
        step = np.array((inverse * matrix([[value] for value in residual])).entries())
        refined.flat[free] = midpoints(refined.flat[free] - step)
    goal = np.array([_widen(a, float(b)) for a, b in zip(middle, spread, strict=True)])
    residual = weights @ powers_of_balls(refined, order) - goal
    step = np.array((inverse * matrix([[value] for value in residual])).entries())
    size = float(max(abs(value).upper() for value in step)) + 2.0**-flint.ctx.prec
    identity = matrix(np.eye(len(free), dtype=int).tolist())
    for inflation in (1.05, 1.5, 4.0, 64.0):
        box = refined.copy()
        box.flat[free] = [_widen(value, inflation * size) for value in refined.flat[free]]
        product = inverse * matrix(_jacobian(weights, box, order)[:, free].tolist())
        moves = matrix([[a - b] for a, b in zip(box.flat[free], refined.flat[free], strict=True)])
        image = refined.flat[free] - step + np.array(((identity - product) * moves).entries())
        if all(a.contains_interior(b) for a, b in zip(box.flat[free], image, strict=True)):
            distances = (_relative_distance(a, b) for a, b in zip(box, points, strict=True))
            return max(float(distance) for distance in distances) * (1 + 1e-15)
    return None


def _jacobian(weights: Any, points: Any, order: int) -> Any:
    """Return the derivatives of the coefficients of the sum by the points: a row per coefficient."""
    rank, dim = points.shape
    lower = powers_of_balls(points, order - 1)
    derivatives = np.full((n_monomials(dim, order), rank, dim), 0 * weights[0], dtype=object)
    where, counts = product_positions(dim, order - 1, 1), exponents(dim, order - 1) + 1
    for j in range(dim):
        derivatives[where[:, j], :, j] = (weights[:, None] * lower * counts[:, j].astype(object)).T
    return derivatives.reshape(len(derivatives), rank * dim)


def _exact_ball(value: Any) -> Any:
    flint = load_flint()
    return flint.acb(value.real, value.imag) if isinstance(value, complex) else flint.acb(to_fmpq(value))


def _widen(ball: Any, radius: float) -> Any:
    """Return a ball that is wider by a radius, in both parts of complex ones."""
    flint = load_flint()
    wide = flint.arb(0, radius)
    return ball + (flint.acb(wide, wide) if isinstance(ball, flint.acb) else wide)
