"""Number fields Q(a) and their numbers as polynomials in a, in the exact arithmetic of FLINT."""

from __future__ import annotations

import importlib
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

PRIME = 2147483629
"""The largest prime below 2^31 that is 1 modulo 4. Ranks modulo it are at most those over the rationals."""

Coefficients = tuple[Fraction, ...]
"""A number of a field, c_0 + c_1 a + ... + c_(n-1) a^(n-1)."""


def load_flint() -> Any:
    """Return python-flint; where it is missing, the error says how to install it."""
    try:
        return importlib.import_module("flint")
    except ImportError as error:
        raise ImportError("Exact numbers need python-flint: pip install 'apolar[exact]'.") from error


def to_fmpq(value: Any) -> Any:
    """Return an integer, a fraction or a float as the rational number of FLINT that it is."""
    if not isinstance(value, numbers.Rational):
        value = Fraction(value)
    return load_flint().fmpq(int(value.numerator), int(value.denominator))


def to_fraction(value: Any) -> Fraction:
    """Return a rational number of FLINT as a fraction."""
    return Fraction(int(value.p), int(value.q))


def to_polynomial(coefficients: Iterable[Any]) -> Any:
    """Return a polynomial of FLINT with integers and fractions as coefficients, the constant first."""
    return load_flint().fmpq_poly([to_fmpq(c) for c in coefficients])


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

    @property
    def modulus(self) -> Any:
        """The polynomial, as FLINT's."""
        return to_polynomial(self.polynomial)

    def ball(self, number: Coefficients, bits: int) -> Any:
        """Return a ball that holds a number."""
        root = min(roots_of(self.polynomial, bits), key=lambda root: abs(complex(root) - self.root))
        return evaluate(number, root, bits)

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
    flint = load_flint()
    with flint.ctx.workprec(bits):
        return [root for root, _ in flint.fmpz_poly(list(polynomial)).complex_roots()]


def evaluate(number: Iterable[Any], root: Any, bits: int) -> Any:
    """Return a rational polynomial, the constant first, at a root, as a ball that holds the value."""
    flint = load_flint()
    with flint.ctx.workprec(bits):
        total = flint.acb(0)
        for coefficient in reversed(list(number)):
            exact = to_fmpq(coefficient) if isinstance(coefficient, numbers.Rational) else coefficient
            total = total * root + exact
        return total


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


def exact_number(field: NumberField, number: Any) -> ExactNumber:
    """Return a polynomial in the generator of a field as its number, a fraction if it is rational."""
    coefficients = tuple(to_fraction(number[k]) for k in range(field.degree))
    return AlgebraicNumber(field, coefficients) if any(coefficients[1:]) else coefficients[0]


def coefficients_of(number: ExactNumber) -> Coefficients:
    """Return the coefficients of a number in its field."""
    return number.coefficients if isinstance(number, AlgebraicNumber) else (number,)
