"""Numbers of many digits as rational ones, or as numbers of a field of low degree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt, log2

import numpy as np

from apolar.decomposition.exact.fixed_point import FixedPoint, polished_root
from apolar.decomposition.exact.lattice import SHARE, integer_relation
from apolar.decomposition.exact.number_field import Coefficients

# With fewer bits nothing is recognised.
FEWEST_BITS = 8
# Bits that lattices work with: they take long with more, and long numbers are recognised without them.
LATTICE_BITS = 480
# Bits that are left out at the end of a number: they may be rounding.
MARGIN = 4
# Square factors of a radicand are looked for among the primes up to this number.
LARGEST_FACTOR = 10_000
# Roots of a polynomial that are nearer to each other, relative to their size, are not told apart.
CLOSEST = 1e-6


@dataclass(frozen=True)
class NumbersInField:
    """Numbers that lie in one field Q(a), in terms of its generator.

    Attributes
    ----------
    polynomial : tuple of int
        Of which the generator is a root, the constant first; (0, 1) for Q.
    generator : FixedPoint
    numbers : list of tuple of Fraction
    """

    polynomial: tuple[int, ...]
    generator: FixedPoint
    numbers: list[Coefficients]


def numbers_in_field(values: Sequence[FixedPoint], bits: int, max_degree: int) -> NumbersInField | None:
    """Return numbers as elements of the least field that contains them, or None if it is not found.

    Parameters
    ----------
    values : sequence of FixedPoint
        Single numbers.
    bits : int
        After the binary point, that are right.
    max_degree : int
        The largest degree of the field.

    Returns
    -------
    recognised : NumbersInField or None
    """
    if bits < FEWEST_BITS:
        return None
    fractions = [nearest_fraction(value, bits) for value in values]
    if all(fraction is not None for fraction in fractions):
        return NumbersInField((0, 1), values[0] * 0, [(f,) for f in fractions if f is not None])
    generator: FixedPoint | None = None
    for value, fraction in zip(values, fractions, strict=True):
        if fraction is not None:
            continue
        if generator is None:
            generator, polynomial = value, least_polynomial(value, bits, max_degree)
        elif polynomial is not None and _in_terms_of(generator, len(polynomial) - 1, value, bits) is None:
            # A sum with a small multiple generates both fields, but for a few multiples.
            for multiple in (1, -1, 2):
                generator_of_both = generator + value * multiple
                polynomial_of_both = least_polynomial(generator_of_both, bits, max_degree)
                if polynomial_of_both is not None:
                    break
            generator, polynomial = generator_of_both, polynomial_of_both
        if polynomial is None:
            return None
    assert generator is not None
    assert polynomial is not None
    if len(polynomial) == 3:
        polynomial, generator = _square_root(polynomial, generator)
    degree = len(polynomial) - 1
    numbers: list[Coefficients] = []
    for value, fraction in zip(values, fractions, strict=True):
        if fraction is not None:
            numbers.append((fraction, *(Fraction(0),) * (degree - 1)))
            continue
        number = _in_terms_of(generator, degree, value, bits)
        if number is None:
            return None
        numbers.append(number)
    return NumbersInField(polynomial, generator, numbers)


def nearest_fraction(value: FixedPoint, bits: int) -> Fraction | None:
    """Return the fraction that a number is to its last bit, by continued fractions, or None."""
    real, imaginary = value.with_bits(bits).parts
    if abs(imaginary) > 1 << MARGIN:
        return None
    length = int(SHARE * bits)
    number = Fraction(real, 1 << bits)
    size = max(abs(real) >> bits, 1).bit_length()
    fraction = number.limit_denominator(1 << max((length - size) // 2, 1))
    # A fraction by chance has as many digits as the number itself.
    total = fraction.numerator.bit_length() + fraction.denominator.bit_length()
    is_near = abs(number - fraction) * (1 << bits) <= 1 << MARGIN
    return fraction if is_near and total <= length else None


def least_polynomial(value: FixedPoint, bits: int, max_degree: int) -> tuple[int, ...] | None:
    """Return the integer polynomial of least degree of which a number is a root, or None.

    Its coefficients begin with the constant, have no common factor, and the
    last one is positive.
    """
    powers = [FixedPoint(1 << value.bits, 0, value.bits), value]
    for degree in range(2, max_degree + 1):
        powers.append(powers[-1] * value)
        relation = integer_relation(powers, _certain_bits(value, degree, bits))
        if relation is not None and relation[-1] and not _has_rational_roots(relation):
            divisor = gcd(*relation) * (1 if relation[-1] > 0 else -1)
            return tuple(a // divisor for a in relation)
    return None


def _has_rational_roots(polynomial: Sequence[int]) -> bool:
    """Return whether zero is a root, or a quadratic polynomial has rational roots: not the least."""
    if polynomial[0] == 0 or len(polynomial) != 3:
        return polynomial[0] == 0
    discriminant = polynomial[1] ** 2 - 4 * polynomial[0] * polynomial[2]
    return discriminant >= 0 and isqrt(discriminant) ** 2 == discriminant


def _in_terms_of(generator: FixedPoint, degree: int, value: FixedPoint, bits: int) -> Coefficients | None:
    """Return a number as a polynomial in the generator of a field, or None."""
    powers = [FixedPoint(1 << value.bits, 0, value.bits)]
    for _ in range(degree - 1):
        powers.append(powers[-1] * generator)
    relation = integer_relation([*powers, value], _certain_bits(generator, degree - 1, bits))
    if relation is None or relation[-1] == 0:
        return None
    return tuple(Fraction(-a, relation[-1]) for a in relation[:-1])


def _certain_bits(value: FixedPoint, degree: int, bits: int) -> int:
    """Return how many bits of a power are right: errors grow with the size of the number."""
    size = abs(complex(value.to_complex()))
    return min(bits, LATTICE_BITS) - MARGIN - int((degree - 1) * max(0.0, log2(max(size, 1.0))) + degree)


def _square_root(polynomial: tuple[int, ...], generator: FixedPoint) -> tuple[tuple[int, ...], FixedPoint]:
    """Return the field of a quadratic polynomial as that of a square root of an integer."""
    constant, linear, leading = polynomial
    radicand = linear * linear - 4 * constant * leading
    factor = 1
    root = isqrt(abs(radicand))
    if root * root == abs(radicand):  # a negative square: the field of i
        radicand, factor = radicand // abs(radicand), root
    for prime in range(2, LARGEST_FACTOR):
        while radicand % (prime * prime) == 0:
            radicand, factor = radicand // (prime * prime), factor * prime
        if prime * prime > abs(radicand):
            break
    value = (generator * (2 * leading) + FixedPoint(linear << generator.bits, 0, generator.bits)).times(
        Fraction(1, factor)
    )
    # The root with positive real part, or with positive imaginary part: its sign is in the numbers.
    part = value.real if radicand > 0 else value.imaginary
    return (-radicand, 0, 1), value * (1 if part >= 0 else -1)


def conjugates(polynomial: tuple[int, ...], bits: int) -> list[FixedPoint]:
    """Return the roots of a polynomial, by Newton's method from NumPy's; none if two nearly coincide."""
    largest = max(map(abs, polynomial))
    starts = np.roots([a / largest for a in polynomial[::-1]])
    distances = np.abs(starts[:, None] - starts) + np.diag(np.full(len(starts), np.inf))
    if np.any(distances < CLOSEST * (1 + np.abs(starts))):
        return []
    return [polished_root(polynomial, complex(start), bits) for start in starts]
