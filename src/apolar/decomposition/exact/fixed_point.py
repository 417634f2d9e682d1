"""Complex numbers of many digits: integers times a power of two, element by element of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from apolar._core.arrays import Array


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """An array of complex numbers, or a single one, with the same number of bits after the binary point.

    Parameters
    ----------
    real, imaginary : ndarray of object
        Integers: the parts times ``2**bits``.
    bits : int
    """

    real: Any
    imaginary: Any
    bits: int

    @classmethod
    def of(cls, values: Any, bits: int) -> FixedPoint:
        """Return floating-point numbers, real or complex, as they are; small ones to 2^-bits."""
        values = np.asarray(values)
        return cls(_integers(values.real, bits), _integers(values.imag, bits), bits)

    @classmethod
    def of_fractions(cls, values: Any, bits: int) -> FixedPoint:
        """Return fractions, rounded down."""
        real = np.empty(len(values), dtype=object)
        real[:] = [(value.numerator << bits) // value.denominator for value in values]
        return cls(real, np.zeros(len(values), dtype=int).astype(object), bits)

    def with_bits(self, bits: int) -> FixedPoint:
        """Return the numbers with another number of bits."""
        change = bits - self.bits
        if change >= 0:
            return FixedPoint(self.real << change, self.imaginary << change, bits)
        return FixedPoint(self.real >> -change, self.imaginary >> -change, bits)

    @property
    def parts(self) -> tuple[int, int]:
        """The integers of a single number."""
        return int(self.real), int(self.imaginary)

    @property
    def magnitude_bits(self) -> int:
        """The number of bits of the largest part of all numbers, before scaling: 0 if all are zero."""
        largest = 0
        for part in (self.real, self.imaginary):
            for value in np.ravel(np.asarray(part, dtype=object)):
                largest = max(largest, abs(value))
        return int(largest).bit_length()

    def to_complex(self) -> Any:
        """Return the numbers in floating point."""
        scale = 1 << self.bits
        to_float = np.frompyfunc(lambda value: value / scale, 1, 1)
        real, imaginary = to_float(self.real), to_float(self.imaginary)
        return np.asarray(real, dtype=float) + 1j * np.asarray(imaginary, dtype=float)

    def __getitem__(self, index: Any) -> FixedPoint:
        return FixedPoint(self.real[index], self.imaginary[index], self.bits)

    def __add__(self, other: FixedPoint) -> FixedPoint:
        return FixedPoint(self.real + other.real, self.imaginary + other.imaginary, self.bits)

    def __sub__(self, other: FixedPoint) -> FixedPoint:
        return FixedPoint(self.real - other.real, self.imaginary - other.imaginary, self.bits)

    def __mul__(self, other: FixedPoint | int) -> FixedPoint:
        if isinstance(other, int):
            return FixedPoint(self.real * other, self.imaginary * other, self.bits)
        real = (self.real * other.real - self.imaginary * other.imaginary) >> self.bits
        imaginary = (self.real * other.imaginary + self.imaginary * other.real) >> self.bits
        return FixedPoint(real, imaginary, self.bits)

    def __truediv__(self, other: FixedPoint) -> FixedPoint:
        size = other.real * other.real + other.imaginary * other.imaginary
        real = self.real * other.real + self.imaginary * other.imaginary
        imaginary = self.imaginary * other.real - self.real * other.imaginary
        return FixedPoint((real << self.bits) // size, (imaginary << self.bits) // size, self.bits)

    def times(self, factor: Fraction) -> FixedPoint:
        """Return the numbers times a fraction."""
        top, bottom = factor.numerator, factor.denominator
        return FixedPoint(self.real * top // bottom, self.imaginary * top // bottom, self.bits)

    def sum(self, axis: int) -> FixedPoint:
        """Return sums along an axis."""
        return FixedPoint(self.real.sum(axis=axis), self.imaginary.sum(axis=axis), self.bits)


def _integers(values: Array, bits: int) -> Any:
    def shifted(value: float) -> int:
        top, bottom = value.as_integer_ratio()
        return (top << bits) // bottom

    return np.frompyfunc(lambda value: shifted(float(value)), 1, 1)(np.asarray(values, dtype=float))


def evaluated(polynomial: Sequence[int | Fraction], value: FixedPoint) -> FixedPoint:
    """Return a polynomial, the constant first, at a number."""
    total = value * 0
    for coefficient in reversed(polynomial):
        fraction = Fraction(coefficient)
        constant = (fraction.numerator << value.bits) // fraction.denominator
        total = total * value + FixedPoint(constant, 0, value.bits)
    return total


@lru_cache(maxsize=256)
def polished_root(polynomial: tuple[int, ...], near: complex, bits: int) -> FixedPoint:
    """Return the root of a polynomial next to a number, by Newton's method."""
    derivative = tuple(k * a for k, a in enumerate(polynomial))[1:]
    root = FixedPoint.of(near, bits)
    for _ in range(bits.bit_length() + 2):
        root = root - evaluated(polynomial, root) / evaluated(derivative, root)
    return root
