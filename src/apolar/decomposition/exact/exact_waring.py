"""A Waring decomposition in exact numbers, rational or algebraic: its weights and its sum."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.exact.arithmetic import (
    AlgebraicNumber,
    ExactNumber,
    NumberField,
    evaluate,
    flint,
    roots_of,
    to_fraction,
    to_polynomial,
    traces,
)
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import monomial_values, n_monomials
from apolar.tensor.printing import InText, Printed

# Digits before the decimal point of the coefficients of a linear form that is not rational.
MAX_DIGITS = 6


@dataclass(frozen=True)
class ExactWaring(Printed):
    """A Waring decomposition in exact numbers, T = sum_i w_i (xi_i . x)^d.

    `Waring.rationalize` makes it.

    Attributes
    ----------
    weights : tuple of Fraction or AlgebraicNumber
    points : tuple of tuples of Fraction or AlgebraicNumber
        The coefficients of the linear forms; rational ones are integers without
        common factor, the first positive.
    order : int
    dim : int
    proved : bool
        Whether exact arithmetic has shown that the terms sum to the form. Only
        a form with `exact_coefficients` can be compared so; for others the
        terms are what their digits look like.
    """

    weights: tuple[ExactNumber, ...]
    points: tuple[tuple[ExactNumber, ...], ...]
    order: int
    dim: int
    proved: bool = False

    @property
    def rank(self) -> int:
        """The number of terms."""
        return len(self.weights)

    @property
    def is_rational(self) -> bool:
        """Whether all numbers are rational."""
        return not self.fields

    @property
    def fields(self) -> tuple[NumberField, ...]:
        """The number fields of the terms, each once, without the rationals."""
        found = map(_field_of, self.weights, self.points)
        return tuple(dict.fromkeys(field for field in found if field.degree > 1))

    def in_order_of(self, points: Array) -> ExactWaring:
        """Return the terms in the order of those, in floating point, that they are next to."""
        own = np.array([[complex(c) for c in point] for point in self.points])
        cosines = np.abs(unit_rows(own).conj() @ unit_rows(points).T)
        _, order = linear_sum_assignment(-cosines.T)
        weights, forms = tuple(self.weights[i] for i in order), tuple(self.points[i] for i in order)
        return replace(self, weights=weights, points=forms)

    def to_tensor(self) -> SymmetricTensor:
        """Return the sum of the terms, with exact coefficients."""
        return SymmetricTensor(
            self.order, self.dim, np.array([to_fraction(value) for value in exact_sum(self)])
        )

    def _print_on(self, printer: InText, *, is_short: bool = False) -> Any:
        del is_short  # a part of exact terms would be another form
        return printer.powers(list(zip(self.weights, self.points, strict=True)), self.order)

    def __repr__(self) -> str:
        kind = "rational" if self.is_rational else "algebraic"
        state = "proved" if self.proved else "not proved"
        return f"ExactWaring(rank={self.rank}, order={self.order}, dim={self.dim}, {kind}, {state})"


def _field_of(weight: ExactNumber, point: tuple[ExactNumber, ...]) -> NumberField:
    fields = (number.field for number in (weight, *point) if isinstance(number, AlgebraicNumber))
    return next(fields, NumberField((0, 1), 0j))


def exact_sum(waring: ExactWaring) -> list[Any]:
    """Return the coefficients T_a of the sum of the terms, by arithmetic in their number fields.

    Conjugate terms are summed by a trace: for them no field that contains all
    roots of a polynomial is needed, only that of one.

    Raises
    ------
    ValueError
        If the sum is not rational.
    """
    roots: dict[Any, Counter[complex]] = defaultdict(Counter)
    for weight, point in zip(waring.weights, waring.points, strict=True):
        field = _field_of(weight, point)
        numbers = tuple(getattr(number, "coefficients", (number,)) for number in (weight, *point))
        roots[field.polynomial, numbers][field.root] += 1
    total = [flint.fmpq(0)] * n_monomials(waring.dim, waring.order)
    sums: dict[NumberField, list[Any]] = {}
    for (polynomial, numbers), found in roots.items():
        modulus = to_polynomial(polynomial)
        scale, *form = map(to_polynomial, numbers)
        powers = [scale * power % modulus for power in powers_of_form(form, modulus, waring.order)]
        n_complete = min(found.values()) if len(found) == modulus.degree() else 0
        total = [a + n_complete * b for a, b in zip(total, traces(powers, modulus), strict=True)]
        for root, count in found.items():
            own = NumberField(polynomial, root)
            before = sums.get(own, [flint.fmpq_poly(0)] * len(powers))
            sums[own] = [a + (count - n_complete) * b for a, b in zip(before, powers, strict=True)]
    for values in sums.values():
        if any(value.degree() > 0 for value in values):
            raise ValueError("The sum of the terms is not rational.")
        total = [a + b[0] for a, b in zip(total, values, strict=True)]
    return total


def powers_of_form(form: Sequence[Any], modulus: Any, order: int) -> list[Any]:
    """Return the coefficients T_a of (c . x)^d, for polynomials c in the generator of a field."""
    # Polynomials are sequences, which NumPy would take apart.
    point = np.empty((1, len(form)), dtype=object)
    for j, value in enumerate(form):
        point[0, j] = value
    return [value % modulus for value in monomial_values(point, order)[0]]


@dataclass(frozen=True)
class ConjugateForms:
    """A linear form over a number field, and which of its conjugates are meant.

    Attributes
    ----------
    polynomial : tuple of int
        Of the generator of the field, the constant first; (0, 1) for the rationals.
    form : tuple of fmpq_poly
        The coefficients of the linear form, as polynomials in the generator.
    roots : tuple of complex
        The generator of each conjugate, in floating point.
    """

    polynomial: tuple[int, ...]
    form: tuple[Any, ...]
    roots: tuple[complex, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all conjugates are meant."""
        return len(self.roots) == len(self.polynomial) - 1


def groups_at_roots(polynomial: Any, form: Sequence[Any]) -> list[ConjugateForms]:
    """Return linear forms at all roots of a rational polynomial as conjugates, by its factors.

    Parameters
    ----------
    polynomial : fmpq_poly
        F, without double roots.
    form : sequence of fmpq_poly
        The coefficients of the linear form at a root a are those at a of these, up to scale.

    Returns
    -------
    groups : list of ConjugateForms
    """
    return [_conjugates(factor, [value % factor for value in form]) for factor, _ in polynomial.factor()[1]]


def _conjugates(modulus: Any, form: Sequence[Any]) -> ConjugateForms:
    """Return a linear form at all roots of an irreducible polynomial, in the shortest of some ways."""
    first = next(value for value in form if value)
    scaled = [value * first.xgcd(modulus)[1] % modulus for value in form]
    if modulus.degree() == 1:
        modulus = flint.fmpq_poly([0, 1])
    elif modulus.degree() == 2:
        modulus, scaled = in_square_root(modulus, scaled)
    else:
        # Points are often shorter times the derivative [rouillier1999].
        multiple = [value * modulus.derivative() % modulus for value in scaled]
        scaled = min(scaled, multiple, list(form), key=lambda values: len(str(_primitive(values))))
    polynomial = integer_coefficients(modulus)
    roots = tuple(complex(root) for root in roots_of(polynomial, 64))
    return ConjugateForms(polynomial, simplify(scaled, roots), roots)


def integer_coefficients(polynomial: Any) -> tuple[int, ...]:
    """Return the coefficients of a rational polynomial times a number: integers without common factor."""
    integers = [int(c) for c in polynomial.numer().coeffs()]
    divisor = gcd(*integers) * (1 if integers[-1] > 0 else -1)
    return tuple(c // divisor for c in integers)


def in_square_root(modulus: Any, form: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return a form in a quadratic field in terms of the square root of an integer."""
    constant, linear, leading = integer_coefficients(modulus)
    discriminant = linear * linear - 4 * constant * leading
    radicand, factor = (1 if discriminant > 0 else -1), 1
    for prime, exponent in flint.fmpz(discriminant).factor(trial_limit=TUNING.trial_primes):
        radicand *= int(prime) ** (exponent % 2)
        factor *= int(prime) ** (exponent // 2)
    generator = flint.fmpq_poly([-linear, factor]) / (2 * leading)
    root = flint.fmpq_poly([-radicand, 0, 1])
    return root, [value(generator) % root for value in form]


def _primitive(form: Sequence[Any]) -> list[Any]:
    """Return a form without denominators and common factors."""
    denominator = lcm(*(int(value.denom()) for value in form))
    content = gcd(*(int(c) for value in form for c in (value * denominator).numer().coeffs()))
    return [value * denominator / content for value in form]


def simplify(form: Sequence[Any], roots: Sequence[complex]) -> tuple[Any, ...]:
    """Return a form without denominators and common factors, a very large one divided by a power of ten.

    Otherwise the weights could underflow in floating point.
    """
    form = _primitive(form)
    if any(value.degree() > 0 for value in form):
        sizes = [evaluate(value, root, 64).abs_upper() for root in roots for value in form]
        n_digits = len(str(max(size.ceil().unique_fmpz() for size in sizes))) - 1
        if n_digits > MAX_DIGITS:
            form = [value / 10**n_digits for value in form]
    return tuple(form)


def solve_weights(groups: Sequence[ConjugateForms], target: Sequence[Any], order: int) -> ExactWaring | None:
    """Return terms of these linear forms that sum to a form, if any do.

    The sum of the conjugates of ``w (c . x)^d`` is its trace, which is linear in
    the rational coefficients of w. Terms of weight zero are left out.

    Parameters
    ----------
    groups : sequence of ConjugateForms
    target : sequence of fmpq
        The coefficients T_a of the form.
    order : int

    Returns
    -------
    exact : ExactWaring or None
        None where the powers of the forms are dependent. That the terms sum to the form is for the caller
        to check.
    """
    columns = []
    height = max((len(group.polynomial) - 1 for group in groups if not group.is_complete), default=1)
    for group in groups:
        modulus = to_polynomial(group.polynomial)
        values = powers_of_form(group.form, modulus, order)
        for _ in range(modulus.degree()):
            if group.is_complete:
                columns.append([[a] + [0] * (height - 1) for a in traces(values, modulus)])
            else:
                columns.append([[value[k] for k in range(height)] for value in values])
            values = [value * flint.fmpq_poly([0, 1]) % modulus for value in values]
    # The rational part of the sum is the form; the others, if there are any, are zero.
    right = flint.fmpq_mat([[value if k == 0 else 0] for value in target for k in range(height)])
    matrix = flint.fmpq_mat([[a for entry in column for a in entry] for column in columns])
    try:
        solution = iter((matrix * matrix.transpose()).solve(matrix * right).entries())
    except ZeroDivisionError:
        return None
    terms = []
    for group in groups:
        weight = flint.fmpq_poly([next(solution) for _ in group.polynomial[1:]])
        terms += [_term(group, weight, root) for root in group.roots if weight]
    dim = len(groups[0].form)
    return ExactWaring(tuple(w for w, _ in terms), tuple(p for _, p in terms), order, dim)


def _term(group: ConjugateForms, weight: Any, root: complex) -> tuple[ExactNumber, tuple[ExactNumber, ...]]:
    field, numbers = NumberField(group.polynomial, root), (weight, *group.form)
    if field.radicand is not None and (root.real if field.radicand > 0 else root.imag) < 0:
        # Both square roots are in one field: the sign is better in the numbers.
        field = NumberField(group.polynomial, -root)
        numbers = tuple(number(flint.fmpq_poly([0, -1])) for number in numbers)
    scale, *point = (field.number(number) for number in numbers)
    return scale, tuple(point)
