"""A Waring decomposition in exact numbers, rational or algebraic, and its sum in exact arithmetic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from apolar.decomposition.exact.number_field import (
    AlgebraicNumber,
    Coefficients,
    ExactNumber,
    NumberField,
    in_field,
)
from apolar.decomposition.exact.weights import power_coefficients
from apolar.decomposition.exact.writing import InLatex, InSympy, InText
from apolar.tensor import SymmetricTensor
from apolar.tensor.exact import Polynomial, multinomial
from apolar.tensor.monomials import exponents, n_monomials

RATIONALS = NumberField((0, 1), 0j)


@dataclass(frozen=True, repr=False)
class ExactWaring:
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
        found = dict.fromkeys(
            number.field
            for term in zip(self.weights, self.points, strict=True)
            for number in (term[0], *term[1])
            if isinstance(number, AlgebraicNumber)
        )
        return tuple(found)

    def to_tensor(self) -> SymmetricTensor:
        """Return the sum of the terms, with exact coefficients."""
        terms: dict[tuple[int, ...], Any] = dict(exact_sum(self))
        if not terms:
            return SymmetricTensor.zeros(self.order, self.dim)
        return SymmetricTensor.from_polynomial(terms)

    def to_string(self, variables: Sequence[str] | None = None) -> str:
        """Return the decomposition as a formula, such as ``1/24*(x + y)^3 - 1/24*(x - y)^3``."""
        return InText(self.fields, variables, self.dim).formula(self)

    def to_latex(self, variables: Sequence[str] | None = None) -> str:
        """Return the decomposition in LaTeX."""
        return InLatex(self.fields, variables, self.dim).formula(self)

    def to_sympy(self, variables: Sequence[str] | None = None) -> Any:
        """Return the decomposition as a SymPy expression, a sum of powers that is not expanded."""
        return InSympy(variables, self.dim).formula(self)

    def _repr_latex_(self) -> str:
        """Return the decomposition for notebooks."""
        return f"${self.to_latex()}$"

    def __repr__(self) -> str:
        kind = "rational" if self.is_rational else "algebraic"
        state = "proved" if self.proved else "not proved"
        return f"ExactWaring(rank={self.rank}, order={self.order}, dim={self.dim}, {kind}, {state})"


def exact_sum(waring: ExactWaring) -> Polynomial:
    """Return the sum of the terms as a polynomial, by arithmetic in their number fields.

    Conjugate terms are summed by a trace: for them no field that contains all
    roots of a polynomial is needed, only that of one.

    Raises
    ------
    ValueError
        If the sum is not rational.
    """
    roots: dict[Any, Counter[complex]] = defaultdict(Counter)
    sums: dict[NumberField, list[Coefficients]] = {}
    rational = [Fraction(0)] * n_monomials(waring.dim, waring.order)
    for weight, point in zip(waring.weights, waring.points, strict=True):
        field = next(
            (number.field for number in (weight, *point) if isinstance(number, AlgebraicNumber)), RATIONALS
        )
        numbers = tuple(in_field(number, field) for number in (weight, *point))
        roots[field.polynomial, numbers][field.root] += 1
    for (polynomial, numbers), found in roots.items():
        field = NumberField(polynomial, 0j)
        weight_in_field, *form = numbers
        powers = [
            field.product(weight_in_field, power) for power in power_coefficients(form, field, waring.order)
        ]
        complete = min(found.values()) if len(found) == field.degree else 0
        for k, power in enumerate(powers):
            rational[k] += complete * field.trace(power)
        for root, count in found.items():
            if count == complete:
                continue
            own = NumberField(polynomial, root)
            before = sums.get(own, [(Fraction(0),) * field.degree] * len(powers))
            sums[own] = [
                tuple(a + (count - complete) * b for a, b in zip(first, second, strict=True))
                for first, second in zip(before, powers, strict=True)
            ]
    for values in sums.values():
        for k, value in enumerate(values):
            if any(value[1:]):
                raise ValueError("The sum of the terms is not rational.")
            rational[k] += value[0]
    keys = map(tuple, exponents(waring.dim, waring.order).tolist())
    return {key: multinomial(key) * total for key, total in zip(keys, rational, strict=True) if total}
