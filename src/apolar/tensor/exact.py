"""Forms with rational coefficients: their fractions, which are kept beside the floating-point numbers."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from fractions import Fraction
from math import factorial, prod
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


def of_terms(terms: Mapping[tuple[int, ...], Any]) -> Polynomial | None:
    """Return the terms of a form as fractions, or None if not all of them are exact."""
    polynomial: Polynomial = {}
    for key, value in terms.items():
        fraction = rational(value)
        if fraction is None:
            return None
        if fraction:
            polynomial[key] = fraction
    return polynomial


def of_coefficients(order: int, dim: int, coefficients: Any) -> Polynomial | None:
    """Return the form of coefficients T_a that are integers or fractions, or None for other numbers."""
    if isinstance(coefficients, np.ndarray) and coefficients.dtype.kind not in "iuO":
        return None
    fractions = []
    for value in coefficients:
        fraction = None if isinstance(value, float) else rational(value)
        if fraction is None:
            return None
        fractions.append(fraction)
    table = monomials.exponents(dim, order).tolist()
    if len(fractions) != len(table):
        return None
    return {
        tuple(key): multinomial(key) * value for key, value in zip(table, fractions, strict=True) if value
    }


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
