"""The weights of exact linear forms: the solution of linear equations with rational coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from apolar.decomposition.exact.linear import independent_rows, square_solution
from apolar.decomposition.exact.number_field import Coefficients, NumberField
from apolar.decomposition.exact.terms import ConjugateForms
from apolar.tensor.monomials import monomial_variables


def exact_weights(
    groups: Sequence[ConjugateForms], target: Sequence[Fraction], order: int
) -> list[Coefficients] | None:
    """Return the weight of each group, in its field, for which the terms sum to a form, or None.

    The sum of the conjugates of ``w (c . x)^d`` is its trace, which is linear in
    the rational coefficients of w.

    Parameters
    ----------
    groups : sequence of ConjugateForms
    target : sequence of Fraction
        The coefficients T_a of the form.
    order : int

    Returns
    -------
    weights : list of tuple of Fraction, or None
        None if no weights, or more than one choice of them, solve the equations that were looked at: as
        many as there are unknowns. That the others hold is for the caller to check.
    """
    columns: list[list[Fraction]] = []
    height = max((len(group.polynomial) - 1 for group in groups if not group.complete), default=1)
    right = [value for value in target for _ in range(height)]
    for group in groups:
        field = NumberField(group.polynomial, 0j)
        powers = power_coefficients(group.form, field, order)
        for k in range(field.degree):
            unit = tuple(Fraction(int(i == k)) for i in range(field.degree))
            products = [field.product(power, unit) for power in powers]
            column: list[Fraction] = []
            for product in products:
                entry = (field.trace(product),) if group.complete else product
                column.extend((*entry, *(Fraction(0),) * (height - len(entry))))
            columns.append(column)
    # The rational part of a sum is the form; the others, if there are any, are zero.
    right = [value if k % height == 0 else Fraction(0) for k, value in enumerate(right)]
    rows = [list(row) for row in zip(*columns, strict=True)]
    chosen = independent_rows(rows, len(columns))
    if chosen is None:
        return None
    solution = square_solution([[*rows[i], right[i]] for i in chosen])
    weights, start = [], 0
    for group in groups:
        weights.append(tuple(solution[start : start + len(group.polynomial) - 1]))
        start += len(group.polynomial) - 1
    return weights


def power_coefficients(form: Sequence[Coefficients], field: NumberField, order: int) -> list[Coefficients]:
    """Return the coefficients T_a of (c . x)^d, in its field."""
    values = {(j,): number for j, number in enumerate(form)}
    for degree in range(2, order + 1):
        values = {
            tuple(row): field.product(values[tuple(row[:-1])], form[row[-1]])
            for row in monomial_variables(len(form), degree).tolist()
        }
    return list(values.values())
