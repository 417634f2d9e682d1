"""Forms with rational coefficients: their fractions, which are kept beside the floating-point numbers."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Mapping
from fractions import Fraction
from math import factorial, lcm, prod
from typing import Any

import numpy as np

from apolar.tensor import monomials

Polynomial = dict[tuple[int, ...], Fraction]
"""Exponents to coefficients as written, binom(d, a) T_a; those that are zero are left out."""

# Floats that are integers up to this one were most likely meant as such; larger ones have been rounded.
LARGEST_INTEGER = 2**53
# Bits of a numerator and a denominator together: beyond, arithmetic is in floating point, so that no input
# makes it slow.
MAX_BITS = 4096
# Products of two coefficients in the product of two forms.
MAX_PRODUCTS = 200_000


def rational(value: Any) -> Fraction | None:
    """Return a number as a fraction if it is known exactly: integers, fractions and SymPy's rationals.

    A float counts only if it is an integer: others are mostly roundings of a
    number that is meant, 0.1 of one tenth, and not the dyadic one they are.
    """
    if isinstance(value, float):
        return Fraction(int(value)) if value.is_integer() and abs(value) < LARGEST_INTEGER else None
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return None


def limited(value: Any) -> Any:
    """Return a number, in floating point if it is a fraction too long to calculate with."""
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_BITS else float(value)
    if isinstance(value, Fraction):
        bits = value.numerator.bit_length() + value.denominator.bit_length()
        return value if bits <= MAX_BITS else float(value)
    return value


def limited_power(value: Any, exponent: int) -> Any:
    """Return a power of a number, in floating point if it is a fraction whose power is too long."""
    if isinstance(value, int | Fraction):
        bits = max(value.numerator.bit_length(), value.denominator.bit_length())
        value = value if bits * exponent <= MAX_BITS else float(value)
    return value**exponent


def common_denominator(values: Collection[Any], exponent: int) -> int:
    """Return the common denominator of fractions; 1 for other numbers, or if a power of their sum is long."""
    if not all(isinstance(value, int | Fraction) for value in values):
        return 1
    denominator = lcm(*(value.denominator for value in values))
    total = sum(abs(int(value * denominator)) for value in values)
    bits = total.bit_length() + denominator.bit_length()
    return denominator if bits * exponent <= MAX_BITS else 1


def of_terms(terms: Mapping[tuple[int, ...], Any]) -> Polynomial | None:
    """Return the terms of a form as fractions, or None if not all of them are integers or fractions."""
    polynomial: Polynomial = {}
    for key, value in terms.items():
        fraction = None if isinstance(value, float) else rational(value)
        if fraction is None:
            return None
        if fraction:
            polynomial[key] = fraction
    return polynomial


def of_coefficients(order: int, dim: int, coefficients: Any) -> Polynomial | None:
    """Return the form of coefficients T_a that are integers or fractions, or None for other numbers."""
    fractions = _rationals(coefficients, MAX_PRODUCTS)
    if fractions is None:
        return None
    table = monomials.exponents(dim, order).tolist()
    if len(fractions) != len(table):
        return None
    return {
        tuple(key): multinomial(key) * value for key, value in zip(table, fractions, strict=True) if value
    }


def of_full_array(array: Any, dim: int, order: int) -> Polynomial | None:
    """Return the form of a full array of integers or fractions, or None for other numbers and long arrays."""
    entries = _rationals(array, MAX_PRODUCTS)
    if entries is None:
        return None
    sums = [Fraction(0)] * monomials.n_monomials(dim, order)
    for position, entry in zip(monomials.dense_positions(dim, order).ravel().tolist(), entries, strict=True):
        sums[position] += entry
    table = map(tuple, monomials.exponents(dim, order).tolist())
    # An entry of the array for each order of the variables: their sum is the coefficient as written.
    return {key: value for key, value in zip(table, sums, strict=True) if value}


def of_powers(weights: Any, points: Any, order: int) -> Polynomial | None:
    """Return sum_i w_i (xi_i . x)^d for integers and fractions, or None for other numbers and long sums."""
    scales, entries = _rationals(weights, MAX_PRODUCTS), _rationals(points, MAX_PRODUCTS)
    if scales is None or entries is None:
        return None
    dim = len(entries) // max(len(scales), 1)
    if len(scales) * monomials.n_monomials(dim, order) > MAX_PRODUCTS:
        return None
    counts = {key: multinomial(key) for key in map(tuple, monomials.exponents(dim, order).tolist())}
    sums: Polynomial = dict.fromkeys(counts, Fraction(0))
    for i, scale in enumerate(scales):
        point = entries[i * dim : (i + 1) * dim]
        powers = [[coordinate**e for e in range(order + 1)] for coordinate in point]
        for key in sums:
            sums[key] += scale * counts[key] * prod(powers[j][e] for j, e in enumerate(key) if e)
    return _checked(sums)


def _rationals(values: Any, most: int) -> list[Fraction] | None:
    """Return the entries of an array as fractions, or None if there are too many or not all are exact."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "iuO":
        return None
    flat = np.asarray(values, dtype=object).ravel().tolist()
    fractions = [] if len(flat) > most else [None if isinstance(v, float) else rational(v) for v in flat]
    exact = [fraction for fraction in fractions if fraction is not None]
    return exact if len(exact) == len(flat) else None


def multinomial(exponents: Any) -> int:
    """Return binom(d, a), of any size."""
    return factorial(sum(exponents)) // prod(factorial(e) for e in exponents)


def coefficients(polynomial: Polynomial, order: int, dim: int) -> tuple[Fraction, ...]:
    """Return the T_a of a form, in the order of the library."""
    zero = Fraction(0)
    return tuple(
        polynomial[key] / multinomial(key) if (key := tuple(row)) in polynomial else zero
        for row in monomials.exponents(dim, order).tolist()
    )


def total(first: Polynomial | None, second: Polynomial | None) -> Polynomial | None:
    """Return the sum of two forms, if both are exact."""
    if first is None or second is None:
        return None
    sums = dict(first)
    for key, value in second.items():
        sums[key] = sums.get(key, Fraction(0)) + value
    return _checked(sums)


def multiplied(polynomial: Polynomial | None, number: Any) -> Polynomial | None:
    """Return a form times a number, if both are exact; floats are not, here, even those that are integers."""
    factor = None if isinstance(number, float) else rational(number)
    if polynomial is None or factor is None:
        return None
    return _checked({key: value * factor for key, value in polynomial.items()})


def divided(polynomial: Polynomial | None, number: Any) -> Polynomial | None:
    """Return a form divided by a number other than zero, if both are exact."""
    divisor = None if isinstance(number, float) else rational(number)
    return None if divisor is None else multiplied(polynomial, 1 / divisor)


def product(first: Polynomial | None, second: Polynomial | None) -> Polynomial | None:
    """Return the product of two forms, if both are exact and not too long."""
    if first is None or second is None or len(first) * len(second) > MAX_PRODUCTS:
        return None
    sums: Polynomial = {}
    for left, a in first.items():
        for right, b in second.items():
            key = tuple(map(sum, zip(left, right, strict=True)))
            sums[key] = sums.get(key, Fraction(0)) + a * b
    return _checked(sums)


def _checked(polynomial: Polynomial) -> Polynomial | None:
    """Return a form without its zeros, or None if a coefficient is too long to go on with."""
    if any(not isinstance(limited(value), Fraction) for value in polynomial.values()):
        return None
    return {key: value for key, value in polynomial.items() if value}
