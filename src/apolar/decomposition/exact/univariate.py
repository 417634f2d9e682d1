"""Points that are conjugates of each other, as one at the roots of a polynomial of any degree."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from math import gcd, lcm, log2

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.exact.fixed_point import FixedPoint
from apolar.decomposition.exact.linear import independent_rows, square_solution
from apolar.decomposition.exact.number_field import Coefficients, NumberField
from apolar.decomposition.exact.recognition import FEWEST_BITS, nearest_fraction

# Values of a linear function at the points must be further apart than this, relative to the largest.
SEPARATION = 1e-3


def forms_at_roots(
    numbers: Sequence[Sequence[FixedPoint]], bits: int
) -> tuple[tuple[int, ...], list[Coefficients], list[complex]] | None:
    """Return points that are together all conjugates of theirs, by their rational univariate representation.

    With a linear function that has the values a_i at the points y_i, the
    polynomials F(t) = prod_i (t - a_i) and N(t) = sum_i y_i F(t) / (t - a_i)
    do not change if the points are permuted: their coefficients are rational,
    and the points are N(a_i) / F'(a_i), up to scale N(a_i) [rouillier1999]. F
    need not be irreducible.

    Parameters
    ----------
    numbers : sequence of sequences of FixedPoint
        The coordinates of each point.
    bits : int
        After the binary point, that are right.

    Returns
    -------
    polynomial : tuple of int
        F, the constant first.
    form : list of tuple of Fraction
        N, for each coordinate.
    roots : list of complex
        The a_i in floating point.
    """
    rounded = np.array([[complex(value.to_complex()) for value in point] for point in numbers])
    multiples = _separating_function(rounded)
    if multiples is None:
        return None
    one = FixedPoint(1 << numbers[0][0].bits, 0, numbers[0][0].bits)
    values = []
    for point in numbers:
        value = one * 0
        for coordinate, multiple in zip(point, multiples, strict=True):
            value = value + coordinate * multiple
        values.append(value)
    roots = [complex(value.to_complex()) for value in values]
    # The coefficients are sums of products of the roots, whose errors grow with their size.
    sizes = sum(log2(1 + abs(root)) for root in roots)
    certain = bits - int(sizes) - 2 * len(roots)
    if certain < FEWEST_BITS:
        return None
    leading = _rational(_product([one], values), certain)
    if leading is None:
        return None
    form: list[Coefficients] = []
    for j in range(len(multiples)):
        total = [one * 0] * len(values)
        for i, point in enumerate(numbers):
            others = _product([one], values[:i] + values[i + 1 :])
            total = [a + point[j] * b for a, b in zip(total, others, strict=True)]
        numerators = _rational(total, certain)
        if numerators is None:
            return None
        form.append(numerators)
    denominator = lcm(*(c.denominator for c in leading))
    integers = [int(c * denominator) for c in leading]
    divisor = gcd(*integers)
    polynomial = tuple(a // divisor for a in integers)
    return polynomial, _shorter(form, NumberField(polynomial, 0j)), roots


def _shorter(form: list[Coefficients], field: NumberField) -> list[Coefficients]:
    """Return a form as it is, or divided by the derivative of the polynomial, whichever has fewer digits."""
    derivative = [k * Fraction(a) for k, a in enumerate(field.polynomial)][1:]
    units = [tuple(Fraction(int(i == k)) for i in range(field.degree)) for k in range(field.degree)]
    columns = [field.product(tuple(derivative), unit) for unit in units]
    one = [Fraction(1), *(Fraction(0),) * (field.degree - 1)]
    if independent_rows([list(row) for row in zip(*columns, strict=True)], field.degree) is None:
        return form
    equations = [[*row, value] for row, value in zip(zip(*columns, strict=True), one, strict=True)]
    inverse = tuple(square_solution(equations))
    divided = [field.product(number, inverse) for number in form]
    return min(form, divided, key=_n_bits)


def _n_bits(form: list[Coefficients]) -> int:
    denominator = lcm(*(c.denominator for number in form for c in number))
    numerator = gcd(*(int(c * denominator) for number in form for c in number))
    return sum(int(abs(c) * denominator / numerator).bit_length() for number in form for c in number)


def _separating_function(points: Array) -> list[int] | None:
    """Return small integers with which the sum of the coordinates is different at each point."""
    dim = points.shape[1]
    units = np.eye(dim, dtype=int)
    sums = ([int(k == j) + int(k == i) for k in range(dim)] for j in range(dim) for i in range(j))
    others = ([1 + k * s for k in range(dim)] for s in (1, 2, 3))
    for multiples in chain(units[::-1].tolist(), sums, others):
        values = points @ np.array(multiples)
        distances = np.abs(values[:, None] - values) + np.diag(np.full(len(values), np.inf))
        if len(values) == 1 or distances.min() > SEPARATION * np.abs(values).max():
            return list(multiples)
    return None


def _product(start: list[FixedPoint], roots: Sequence[FixedPoint]) -> list[FixedPoint]:
    """Return a polynomial, the constant first, times the factors (t - root)."""
    polynomial = start
    for root in roots:
        zero = root * 0
        raised, lowered = [zero, *polynomial], [*polynomial, zero]
        polynomial = [a - root * b for a, b in zip(raised, lowered, strict=True)]
    return polynomial


def _rational(polynomial: Sequence[FixedPoint], bits: int) -> Coefficients | None:
    """Return the coefficients of a polynomial as fractions, or None if one is not rational."""
    fractions: list[Fraction] = []
    for value in polynomial:
        fraction = nearest_fraction(value, bits)
        if fraction is None:
            return None
        fractions.append(fraction)
    return tuple(fractions)
