"""Exact arithmetic by FLINT: rational numbers, number fields Q(a), balls, and residues modulo a prime.

Balls have bounds of all rounding. Floating-point numbers are integers times powers of two, so that reducing
them modulo an odd prime is exact, and keeps sums and products. A minor that is not zero modulo the prime is
not zero: the rank modulo the prime is at most the exact rank. A full rank is therefore proved, whatever the
rounding elsewhere. Products of two residues are 64-bit integers. The prime is 1 modulo 4, and has a square
root of -1 to which complex numbers reduce.
"""

from __future__ import annotations

import importlib
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.decomposition.ranks import PRIME
from apolar.tensor.coefficients import exact_multinomials
from apolar.tensor.monomials import monomial_variables


def load_flint() -> Any:
    """Return python-flint; where it is missing, the error says how to install it."""
    try:
        return importlib.import_module("flint")
    except ImportError as error:
        raise ImportError("Exact numbers need python-flint: pip install 'apolar[exact]'.") from error


class LazyFlint:
    """The module python-flint, which is imported when it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(load_flint(), name)


flint: Any = LazyFlint()

Coefficients = tuple[Fraction, ...]
"""A number of a field, c_0 + c_1 a + ... + c_(n-1) a^(n-1)."""


def to_fmpq(value: Any) -> Any:
    """Return an integer, a fraction or a float as the rational number of FLINT that it is."""
    if not isinstance(value, numbers.Rational):
        value = Fraction(value)
    return flint.fmpq(int(value.numerator), int(value.denominator))


def to_fraction(value: Any) -> Fraction:
    """Return a rational number of FLINT as a fraction."""
    return Fraction(int(value.p), int(value.q))


def to_polynomial(coefficients: Iterable[Any]) -> Any:
    """Return a polynomial of FLINT with integers and fractions as coefficients, the constant first."""
    return flint.fmpq_poly([to_fmpq(c) for c in coefficients])


@dataclass(frozen=True)
class NumberField:
    """Rational polynomials in a root a of a polynomial: the field Q(a) where that is irreducible.

    Attributes
    ----------
    polynomial : tuple of int
        Its coefficients, the constant first.
    root : complex
        The root that is meant, in floating point.
    """

    polynomial: tuple[int, ...]
    root: complex

    @property
    def degree(self) -> int:
        """The degree of the polynomial."""
        return len(self.polynomial) - 1

    @property
    def radicand(self) -> int | None:
        """The integer D if the generator is a square root of D, else None."""
        is_root = self.degree == 2 and self.polynomial[1:] == (0, 1)
        return -self.polynomial[0] if is_root else None

    def number(self, polynomial: Any) -> ExactNumber:
        """Return a polynomial in the generator as a number, a fraction if it is rational."""
        coefficients = tuple(to_fraction(polynomial[k]) for k in range(self.degree))
        return AlgebraicNumber(self, coefficients) if any(coefficients[1:]) else coefficients[0]

    def ball(self, number: Coefficients, bits: int) -> Any:
        """Return a ball that holds a number."""
        root = min(roots_of(self.polynomial, bits), key=lambda root: abs(complex(root) - self.root))
        return evaluate(to_polynomial(number), root, bits)

    def value(self, number: Coefficients) -> complex:
        """Return a number in floating point, right to the last digits where its terms cancel too."""
        bits = 64
        while True:
            value = self.ball(number, bits)
            if value.rel_accuracy_bits() > 53 or bits > 2**14:
                return complex(value)
            bits *= 2


@lru_cache(maxsize=64)
def roots_of(polynomial: tuple[int, ...], bits: int) -> list[Any]:
    """Return the complex roots of an integer polynomial without double roots, as balls that hold them."""
    with flint.ctx.workprec(bits):
        return [root for root, _ in flint.fmpz_poly(list(polynomial)).complex_roots()]


def evaluate(polynomial: Any, root: Any, bits: int) -> Any:
    """Return a rational polynomial at a root, as a ball that holds the value."""
    with flint.ctx.workprec(bits):
        return flint.acb_poly(polynomial)(root)


def traces(values: Iterable[Any], modulus: Any) -> list[Any]:
    """Return the sums of polynomials h over all roots of F, which has no double ones.

    By Lagrange's interpolation, h F' modulo F is the sum of h(a) F(t) / (t - a) over the roots.
    """
    degree, derivative = modulus.degree(), modulus.derivative()
    return [(value * derivative % modulus)[degree - 1] / modulus[degree] for value in values]


@dataclass(frozen=True)
class AlgebraicNumber:
    """A number of a number field that is not rational.

    Attributes
    ----------
    field : NumberField
    coefficients : tuple of Fraction
        Of the powers of the generator, the constant first.
    """

    field: NumberField
    coefficients: Coefficients

    def __complex__(self) -> complex:
        return self.field.value(self.coefficients)


ExactNumber = Fraction | AlgebraicNumber


# --- arrays of balls -------------------------------------------------------------------------------


def to_balls(values: Any) -> Any:
    """Return an array of numbers, real or complex, rational or in floating point, as one of balls."""

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

    def to_matrix(array: Any) -> Any:
        is_complex = np.iscomplexobj(array) or isinstance(array.flat[0], flint.acb)
        return (flint.acb_mat if is_complex else flint.arb_mat)(array.tolist())

    return np.array((to_matrix(left) * to_matrix(right)).tolist(), dtype=object)


def norm(values: Any) -> Any:
    """Return a ball that holds the Frobenius norm of an array of balls."""
    sizes = np.abs(values)
    # A power of a ball that holds zero is not defined, and a product is.
    return sum((sizes * sizes).flat, flint.arb(0)).nonnegative_part().sqrt()


def operator_norm(matrix: Any) -> Any:
    """Return a ball whose upper end is at least the largest singular value of a matrix of balls."""
    sizes = np.abs(matrix)
    by_columns, by_rows = (largest(sizes.sum(axis=axis)) for axis in (0, 1))
    return (by_columns * by_rows).sqrt().min(norm(matrix))


def largest(balls: Iterable[Any]) -> Any:
    """Return a ball that holds the largest of some real balls, none of which is negative."""
    found = flint.arb(0)
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
    is_complex = isinstance(balls.flat[0], flint.acb)
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


# --- modulo a prime ---------------------------------------------------------------------------------


def residues(array: Array) -> IndexArray:
    """Return floating-point numbers, real or complex, modulo the prime."""
    if np.iscomplexobj(array):
        # A square root of -1: 2 is not a square modulo this prime.
        root = pow(2, (PRIME - 1) // 4, PRIME)
        return (residues(array.real) + root * residues(array.imag)) % PRIME

    def residue(value: float) -> int:
        numerator, denominator = float(value).as_integer_ratio()
        return numerator * pow(denominator, -1, PRIME) % PRIME

    return np.asarray(np.frompyfunc(residue, 1, 1)(array), dtype=np.int64)


def power_residues(points: IndexArray, degree: int) -> IndexArray:
    """Return the values of all monomials of a degree at residues, shape (n_points, n_monomials)."""
    values = np.ones((len(points), 1), dtype=np.int64)
    for slot, column in enumerate(monomial_variables(points.shape[1], degree).T):
        values = values * points[:, column] % PRIME if slot else points[:, column]
    return values


def residue_product(left: IndexArray, right: IndexArray) -> IndexArray:
    """Return the product of two matrices of residues, of fewer than 2^15 terms each."""
    # In halves of 16 bits, whose products can be added before they are reduced.
    high, low = left >> 16, left & 0xFFFF
    return ((high @ right % PRIME << 16) + low @ right) % PRIME


def residue_rank(matrix: IndexArray) -> int:
    """Return the rank of a matrix of residues."""
    return int(flint.nmod_mat(matrix.tolist(), PRIME).rank())


def residue_kernel(matrix: IndexArray) -> IndexArray:
    """Return a basis of the vectors that a matrix of residues sends to zero, one per row."""
    basis, size = flint.nmod_mat(matrix.tolist(), PRIME).nullspace()
    return np.array(
        [[int(a) for a in row] for row in basis.transpose().tolist()[:size]], dtype=np.int64
    ).reshape(size, matrix.shape[1])


def exact_matrix(rows: Iterable[Iterable[Any]]) -> Any:
    """Return a matrix of real floating-point numbers and fractions, times a number, as one of integers."""
    return flint.fmpq_mat([[to_fmpq(value) for value in row] for row in rows]).numer_denom()[0]


def kruskal_rank(matrix: IndexArray, work: float) -> int:
    """Return the largest number k found such that any k rows are independent.

    Parameters
    ----------
    matrix : ndarray of int, shape (n_rows, n_columns)
    work : float
        Multiplications at most.

    Returns
    -------
    size : int
        0 where a row is zero.
    """
    n_rows, n_columns = matrix.shape
    if not np.all(np.any(matrix, axis=1)):
        return 0
    for size in range(min(n_rows, n_columns), 1, -1):
        needed = comb(n_rows, size) * size**2 * n_columns
        if needed <= work:
            work -= needed
            if all(
                residue_rank(matrix[list(subset)]) == size for subset in combinations(range(n_rows), size)
            ):
                return size
    return 1
