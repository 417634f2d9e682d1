"""Number fields Q(a), and their numbers as polynomials in a: arithmetic is exact."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from apolar.decomposition.exact.fixed_point import evaluated, polished_root

Coefficients = tuple[Fraction, ...]
"""A number of a field, c_0 + c_1 a + ... + c_(n-1) a^(n-1)."""


@dataclass(frozen=True)
class NumberField:
    """Rational polynomials in a root a of a polynomial: the field Q(a) where that is irreducible.

    For points that are given together it may be a product: sums and traces are as right then.

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

    def product(self, first: Coefficients, second: Coefficients) -> Coefficients:
        """Return the product of two numbers."""
        n, leading = self.degree, self.polynomial[-1]
        # In integers over common denominators: fractions would look for common factors in each step.
        top_first, bottom_first = _over_common_denominator(first)
        top_second, bottom_second = _over_common_denominator(second)
        product = [0] * (2 * n - 1)
        for i, a in enumerate(top_first):
            if a:
                for j, b in enumerate(top_second):
                    product[i + j] += a * b
        # a^n is a combination of lower powers; from the highest on.
        bottom = bottom_first * bottom_second
        for i in range(2 * n - 2, n - 1, -1):
            if not product[i]:
                continue
            factor = product[i]
            if leading != 1:
                product = [leading * c for c in product]
                bottom *= leading
            for j in range(n):
                product[i - n + j] -= factor * self.polynomial[j]
        return tuple(Fraction(c, bottom) for c in product[:n])

    def trace(self, number: Coefficients) -> Fraction:
        """Return the sum of a number and its conjugates, over all roots of the polynomial."""
        return sum((c * s for c, s in zip(number, self._power_sums(), strict=True)), Fraction(0))

    def _power_sums(self) -> list[Fraction]:
        """Return the sums of the powers 0, ..., n - 1 of the roots, by Newton's identities."""
        n, leading = self.degree, self.polynomial[-1]
        elementary = [Fraction(self.polynomial[n - k], leading) for k in range(n)]
        sums = [Fraction(n)]
        for k in range(1, n):
            lower = sum((elementary[i] * sums[k - i] for i in range(1, k)), Fraction(0))
            sums.append(-lower - k * elementary[k])
        return sums

    def value(self, number: Coefficients) -> complex:
        """Return a number in floating point, right to the last digits where its terms cancel too."""
        terms = (
            abs(c) * (1 + abs(Fraction(self.root.real)) + abs(Fraction(self.root.imag))) ** k
            for k, c in enumerate(number)
        )
        bits = 128 + 2 * int(max(terms)).bit_length() + max(c.denominator.bit_length() for c in number)
        return complex(evaluated(number, polished_root(self.polynomial, self.root, bits)).to_complex())


def _over_common_denominator(number: Coefficients) -> tuple[list[int], int]:
    denominator = lcm(*(c.denominator for c in number))
    return [c.numerator * (denominator // c.denominator) for c in number], denominator


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


def exact_number(field: NumberField, coefficients: Coefficients) -> ExactNumber:
    """Return a number of a field, as a fraction if it is rational."""
    return AlgebraicNumber(field, coefficients) if any(coefficients[1:]) else coefficients[0]


def in_field(number: ExactNumber, field: NumberField) -> Coefficients:
    """Return a number by its coefficients in a field that it belongs to."""
    if isinstance(number, AlgebraicNumber):
        return number.coefficients
    return (number, *(Fraction(0),) * (field.degree - 1))
