"""Linear forms of many digits as exact ones: each with its conjugates, or all in a common field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm, log10

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.exact.fixed_point import FixedPoint, evaluated
from apolar.decomposition.exact.number_field import Coefficients, NumberField
from apolar.decomposition.exact.recognition import NumbersInField, conjugates, numbers_in_field
from apolar.decomposition.exact.univariate import forms_at_roots

# Coefficients of two linear forms that differ by less than this, relative to the largest, are the same.
SAME = 1e-6
# Digits before the decimal point of the coefficients of a linear form that is not rational.
MAX_DIGITS = 6


@dataclass(frozen=True)
class ConjugateForms:
    """A linear form over a number field, and the terms whose forms are its conjugates.

    Attributes
    ----------
    polynomial : tuple of int
        Of the generator of the field, the constant first; (0, 1) for the rationals.
    form : tuple of tuple of Fraction
        The coefficients of the linear form, without denominators and common factors.
    members : dict from int to complex
        The terms, and which root of the polynomial is meant in each.
    complete : bool
        Whether all conjugates are there.
    """

    polynomial: tuple[int, ...]
    form: tuple[Coefficients, ...]
    members: dict[int, complex]
    complete: bool


def exact_forms(forms: FixedPoint, bits: int, max_degree: int) -> tuple[list[ConjugateForms], list[int]]:
    """Return linear forms as exact ones with their conjugates, and which are not recognised.

    Forms whose coefficients are in no field of low degree are taken together,
    as all conjugates of one at the roots of a polynomial of any degree.

    Parameters
    ----------
    forms : FixedPoint, shape (rank, dim)
        With a largest coefficient of one each.
    bits : int
        After the binary point, that are right.
    max_degree : int
        Of the number fields.

    Returns
    -------
    groups : list of ConjugateForms
    unknown : list of int
        The forms that are not recognised; the groups are then not all.
    """
    rank = len(forms.real)
    scaled = [_scaled_to_first(forms[i], bits) for i in range(rank)]
    numbers, certain = [values for values, _ in scaled], [bits - lost for _, lost in scaled]
    rounded = [np.array([complex(value.to_complex()) for value in values]) for values in numbers]
    groups: list[ConjugateForms] = []
    left = list(range(rank))
    alone: list[int] = []
    unknown: list[int] = []
    while left:
        i = left.pop(0)
        recognised = numbers_in_field(numbers[i], certain[i], max_degree)
        if recognised is None:
            unknown.append(i)
            continue
        members = _members(recognised, rounded, left, i)
        if members is None:
            alone.append(i)
            continue
        left = [j for j in left if j not in members]
        form = _simplified(recognised.numbers, recognised.polynomial, members)
        groups.append(ConjugateForms(recognised.polynomial, form, members, complete=True))
    if unknown:
        together_at_roots = forms_at_roots([numbers[i] for i in unknown], min(certain[i] for i in unknown))
        if together_at_roots is None:
            return groups, unknown
        polynomial, at_roots, roots = together_at_roots
        members = dict(zip(unknown, roots, strict=True))
        form = _simplified(at_roots, polynomial, members)
        groups.append(ConjugateForms(polynomial, form, members, complete=True))
    if alone:
        # Forms without their conjugates: what is not rational can only cancel in a field that has them all.
        together = numbers_in_field(
            [value for i in alone for value in numbers[i]], min(certain[i] for i in alone), max_degree
        )
        if together is None:
            return groups, alone
        root = complex(together.generator.to_complex())
        for k, i in enumerate(alone):
            own = together.numbers[k * len(numbers[i]) : (k + 1) * len(numbers[i])]
            form = _simplified(own, together.polynomial, {i: root})
            groups.append(ConjugateForms(together.polynomial, form, {i: root}, complete=False))
    return groups, []


def _scaled_to_first(form: FixedPoint, bits: int) -> tuple[list[FixedPoint], int]:
    """Return the coefficients of a form, scaled so that the first is one, and how many bits this takes.

    The first that is not zero, which is the same one for all conjugates, as the largest one need not be.
    """
    sizes = form.with_bits(bits)
    zero = form[0] * 0
    values = [
        zero if max(abs(a), abs(b)) <= 1 << (bits // 4) else form[j]
        for j, (a, b) in enumerate(zip(sizes.real, sizes.imaginary, strict=True))
    ]
    first = next(value for value in values if value is not zero)
    lost = max(0, -2 * int(np.floor(np.log2(abs(complex(first.to_complex()))))))
    return [value if value is zero else value / first for value in values], lost


def _members(
    recognised: NumbersInField, rounded: Sequence[Array], candidates: Sequence[int], i: int
) -> dict[int, complex] | None:
    """Return the forms that are conjugates of one, with their roots, or None if one is missing."""
    if len(recognised.polynomial) == 2:
        return {i: 0j}
    own = complex(recognised.generator.to_complex())
    members: dict[int, complex] = {}
    roots = conjugates(recognised.polynomial, recognised.generator.bits)
    for root in roots:
        values = [complex(evaluated(number, root).to_complex()) for number in recognised.numbers]
        approximate = complex(root.to_complex())
        is_own = abs(approximate - own) < SAME * (1 + abs(own))
        free = [i] if is_own else [j for j in candidates if j not in members]
        distances = [np.abs(rounded[j] - values).max() / np.abs(values).max() for j in free]
        if not free or min(distances) > SAME:
            return None
        members[free[int(np.argmin(distances))]] = approximate
    return members or None


def _simplified(
    form: Sequence[Coefficients], polynomial: tuple[int, ...], members: dict[int, complex]
) -> tuple[Coefficients, ...]:
    """Return a form without denominators and common factors, a very large one divided by a power of ten.

    Otherwise the weights could be too small for a number in floating point.
    """
    denominator = lcm(*(c.denominator for number in form for c in number))
    numerator = gcd(*(int(c * denominator) for number in form for c in number))
    scale = Fraction(denominator, numerator)
    if len(polynomial) > 2:
        fields = [NumberField(polynomial, root) for root in members.values()]
        size = max(abs(field.value(number)) for field in fields for number in form)
        n_digits = log10(size) + log10(denominator) - log10(numerator)
        scale /= 10 ** int(n_digits) if n_digits > MAX_DIGITS else 1
    return tuple(tuple(c * scale for c in number) for number in form)
