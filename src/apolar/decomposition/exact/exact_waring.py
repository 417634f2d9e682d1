"""A Waring decomposition in exact numbers, rational or algebraic: its weights and its sum."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar.decomposition.exact.numbers import (
    AlgebraicNumber,
    ExactNumber,
    NumberField,
    coefficients_of,
    load_flint,
    to_fmpq,
    to_fraction,
    traces,
)
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import monomial_variables, n_monomials, positions
from apolar.tensor.printing import InText, Printed

RATIONALS = NumberField((0, 1), 0j)


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
        terms = zip(self.weights, self.points, strict=True)
        found = (_field_of(weight, point) for weight, point in terms)
        return tuple(dict.fromkeys(field for field in found if field is not RATIONALS))

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
    return next(fields, RATIONALS)


def exact_sum(waring: ExactWaring) -> list[Any]:
    """Return the coefficients T_a of the sum of the terms, by arithmetic in their number fields.

    Conjugate terms are summed by a trace: for them no field that contains all
    roots of a polynomial is needed, only that of one.

    Raises
    ------
    ValueError
        If the sum is not rational.
    """
    flint = load_flint()
    roots: dict[Any, Counter[complex]] = defaultdict(Counter)
    for weight, point in zip(waring.weights, waring.points, strict=True):
        field = _field_of(weight, point)
        roots[field.polynomial, tuple(map(coefficients_of, (weight, *point)))][field.root] += 1
    total = [flint.fmpq(0)] * n_monomials(waring.dim, waring.order)
    sums: dict[NumberField, list[Any]] = {}
    for (polynomial, numbers), found in roots.items():
        modulus = NumberField(polynomial, 0j).modulus
        scale, *form = (flint.fmpq_poly([to_fmpq(c) for c in number]) for number in numbers)
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
    dim, values = len(form), list(form)
    for degree in range(2, order + 1):
        variables = monomial_variables(dim, degree)
        lower = positions(variables[:, :-1], dim)
        values = [values[i] * form[j] % modulus for i, j in zip(lower, variables[:, -1], strict=True)]
    return values
