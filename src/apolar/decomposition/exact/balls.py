"""Arrays of balls of FLINT, numbers with bounds of all rounding, and linear algebra with them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.exact.number_fields import load_flint, to_fmpq
from apolar.tensor.coefficients import exact_multinomials


def to_balls(values: Any) -> Any:
    """Return an array of numbers, real or complex, rational or in floating point, as one of balls."""
    flint = load_flint()

    def to_ball(value: Any) -> Any:
        if isinstance(value, complex | flint.acb):
            return flint.acb(value)
        return flint.arb(to_fmpq(value) if isinstance(value, Fraction) else value)

    return np.frompyfunc(to_ball, 1, 1)(np.asarray(values).astype(object))


def midpoints(values: Any) -> Any:
    """Return the midpoints of an array of balls."""
    return np.frompyfunc(lambda value: value.mid(), 1, 1)(values)


def ball_product(left: Any, right: Any) -> Any:
    """Return the product of two matrices of balls or of numbers in floating point."""
    return np.array((_matrix(left) * _matrix(right)).tolist(), dtype=object)


def _matrix(array: Any) -> Any:
    flint = load_flint()
    is_complex = np.iscomplexobj(array) or isinstance(array.flat[0], flint.acb)
    return (flint.acb_mat if is_complex else flint.arb_mat)(array.tolist())


def norm(values: Any) -> Any:
    """Return a ball that holds the Frobenius norm of an array of balls."""
    sizes = np.abs(values)
    # A power of a ball that holds zero is not defined, and a product is.
    return total((sizes * sizes).flat).nonnegative_part().sqrt()


def operator_norm(matrix: Any) -> Any:
    """Return a ball whose upper end is at least the largest singular value of a matrix of balls."""
    sizes = np.abs(matrix)
    by_columns, by_rows = (largest(sizes.sum(axis=axis)) for axis in (0, 1))
    return (by_columns * by_rows).sqrt().min(norm(matrix))


def total(balls: Iterable[Any]) -> Any:
    """Return the sum of some real balls."""
    return sum(balls, load_flint().arb(0))


def largest(balls: Iterable[Any]) -> Any:
    """Return a ball that holds the largest of some real balls, none of which is negative."""
    found = load_flint().arb(0)
    for ball in balls:
        found = found.max(ball)
    return found


def upper_end(ball: Any) -> float:
    """Return a float that is no less than a real ball."""
    return float(np.nextafter(float(ball.upper()), np.inf))


# --- linear algebra: approximations in floating point, and how good they are --------------------


def weighting_roots(dim: int, degree: int) -> Any:
    """Return the roots of the multinomial coefficients, as balls: with them, norms are apolar ones."""
    return np.sqrt(to_balls(exact_multinomials(dim, degree)))


def in_floats(balls: Any) -> Array:
    """Return the midpoints of an array of balls in floating point."""
    is_complex = isinstance(balls.flat[0], load_flint().acb)
    return np.asarray(balls.astype(complex if is_complex else float))


def distance_from_identity(left: Any, right: Any) -> Any:
    """Return a ball that holds ``|A B - I|_F``."""
    return norm(ball_product(left, right) - np.eye(len(left)).astype(object))


def stretch_of(rows: Array) -> Any:
    """Return a ball whose upper end is at least the norm of a matrix whose rows are nearly orthonormal."""
    return (1 + distance_from_identity(rows, rows.conj().T)).sqrt()


def nearly_diagonal(left: Array, matrix: Any, right: Array) -> tuple[Any, Any]:
    """Return U^* A V for a matrix of balls and nearly orthonormal columns, and at least ``|U| |V|``."""
    product = ball_product(ball_product(left.conj().T, matrix), right)
    return product, stretch_of(left.conj().T) * stretch_of(right.conj().T)


def singular_values_below(matrix: Any, least: float = 0.0) -> Any:
    """Return balls with lower ends at most the singular values of a matrix, of those about `least` or more.

    With U and V nearly unitary, U^* A V is nearly diagonal: its singular values
    differ from its diagonal by no more than the norm of the rest, and from
    those of A by no more than the factors ``|U|`` and ``|V|``.
    """
    left, values, right = np.linalg.svd(in_floats(matrix), full_matrices=False)
    n = max(1, int(np.count_nonzero(values >= least)))
    product, stretch = nearly_diagonal(left[:, :n], matrix, right[:n].conj().T)
    return (to_balls(values[:n]) - norm(product - np.diag(values[:n]).astype(object))) / stretch
