"""Forms with rational coefficients: arrays of fractions, which are kept in addition to those of floats."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import factorial, prod
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.tensor import monomials

# Floats that are integers up to this one were most likely meant as such; larger ones have been rounded.
MAX_INTEGER = 2**53
# Bits of a numerator and a denominator together: beyond, arithmetic is in floating point, so that no input
# makes it slow.
MAX_BITS = 4096
# Coefficients that are kept, and products of two of them in the product of two forms.
MAX_PRODUCTS = 200_000


def as_fraction(value: Any) -> Fraction | None:
    """Return a number as a fraction if it is known exactly: integers, fractions and SymPy's rationals.

    A float counts only if it is an integer: others are mostly roundings of a
    number that is meant, 0.1 of one tenth, and not the dyadic one they are.
    """
    if isinstance(value, float):
        return Fraction(int(value)) if value.is_integer() and abs(value) < MAX_INTEGER else None
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return None


def as_fractions(values: Any) -> Array | None:
    """Return integers and fractions, an array or one, as fractions; None for floats and long arrays."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "iuO":
        return None
    array = np.asarray(values, dtype=object)
    if array.size > MAX_PRODUCTS or any(isinstance(value, float) for value in array.flat):
        return None
    fractions = np.frompyfunc(as_fraction, 1, 1)(array)
    return None if any(value is None for value in np.ravel(fractions)) else fractions


def is_short(value: Fraction | int) -> bool:
    """Return whether a fraction is short enough to calculate with."""
    return value.numerator.bit_length() + value.denominator.bit_length() <= MAX_BITS


def calculate(function: Callable[..., Array], *operands: Array | None) -> Array | None:
    """Return what a function makes of arrays of fractions; None without one of them, or if it gets long."""
    if any(operand is None for operand in operands):
        return None
    result = function(*operands)
    return result if all(map(is_short, result)) else None


@lru_cache(maxsize=64)
def multinomials(dim: int, order: int) -> Array:
    """Return binom(d, a) of all monomials as integers of any size."""
    table = monomials.exponents(dim, order).tolist()
    return np.array([factorial(order) // prod(map(factorial, row)) for row in table], dtype=object)


def of_terms(terms: Mapping[tuple[int, ...], Any]) -> Array | None:
    """Return the coefficients T_a of the terms of a form, or None if not all are integers or fractions."""
    order, dim = sum(next(iter(terms))), len(next(iter(terms)))
    values = as_fractions(list(terms.values()))
    if values is None or monomials.n_monomials(dim, order) > MAX_PRODUCTS:
        return None
    coefficients = np.full(monomials.n_monomials(dim, order), Fraction(0), dtype=object)
    where = monomials.positions_of_exponents(np.array(list(terms), dtype=np.intp), order)
    coefficients[where] = values
    return coefficients / multinomials(dim, order)


def of_full_array(array: Any, dim: int, order: int) -> Array | None:
    """Return the coefficients T_a of a full array of integers or fractions, or None for other numbers."""
    entries = as_fractions(array)
    if entries is None:
        return None
    sums = np.full(monomials.n_monomials(dim, order), Fraction(0), dtype=object)
    np.add.at(sums, monomials.dense_positions(dim, order).ravel(), entries.ravel())
    return sums / multinomials(dim, order)


def of_powers(weights: Any, points: Any, order: int) -> Array | None:
    """Return the coefficients of sum_i w_i (xi_i . x)^d of integers and fractions, or None for others."""
    scales, entries = as_fractions(weights), as_fractions(points)
    if entries is None or len(entries) * monomials.n_monomials(entries.shape[1], order) > MAX_PRODUCTS:
        return None
    return calculate(lambda w, p: monomials.sum_of_powers(w, p, order), scales, entries)


def of_product(left: Array | None, right: Array | None, dim: int, orders: tuple[int, int]) -> Array | None:
    """Return the coefficients of the product of two forms, None if it takes long."""
    if left is None or right is None or len(left) * len(right) > MAX_PRODUCTS:
        return None
    order = sum(orders)

    def product(first: Array, second: Array) -> Array:
        sums = np.full(monomials.n_monomials(dim, order), Fraction(0), dtype=object)
        written = np.outer(first * multinomials(dim, orders[0]), second * multinomials(dim, orders[1]))
        np.add.at(sums, monomials.product_positions(dim, *orders), written)
        return sums / multinomials(dim, order)

    return calculate(product, left, right)
