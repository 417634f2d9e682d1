"""Linear forms over number fields with their conjugates: at the roots of a polynomial, and with weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm
from typing import Any

from apolar.decomposition.exact.exact_waring import ExactWaring, powers_of_form
from apolar.decomposition.exact.numbers import (
    ExactNumber,
    NumberField,
    evaluate,
    exact_number,
    load_flint,
    roots_of,
    traces,
)

# Ranks modulo this prime are at most those over the rationals.
PRIME = 2**61 - 1
# Digits before the decimal point of the coefficients of a linear form that is not rational.
MAX_DIGITS = 6
# Square factors of a radicand are looked for among so many primes.
N_PRIMES = 1000


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
    """Return a linear form at all roots of an irreducible polynomial, in the shortest of several ways."""
    first = next(value for value in form if value)
    scaled = [value * first.xgcd(modulus)[1] % modulus for value in form]
    if modulus.degree() == 1:
        ways = [(load_flint().fmpq_poly([0, 1]), scaled)]
    elif modulus.degree() == 2:
        ways = [in_square_root(modulus, scaled)]
    else:
        ways = [_in_coordinate(modulus, scaled), (modulus, scaled), (modulus, list(form))]
        # The points are often shorter times the derivative [rouillier1999].
        ways += [(f, [value * f.derivative() % f for value in values]) for f, values in ways[:2]]
    modulus, shortest = min(ways, key=lambda way: _n_bits([*way[1], way[0]]))
    polynomial = integer_coefficients(modulus)
    roots = tuple(complex(root) for root in roots_of(polynomial, 64))
    return ConjugateForms(polynomial, simplify(shortest, roots), roots)


def integer_coefficients(polynomial: Any) -> tuple[int, ...]:
    """Return the coefficients of a rational polynomial times a number: integers without common factor."""
    integers = [int(c) for c in polynomial.numer().coeffs()]
    divisor = gcd(*integers) * (1 if integers[-1] > 0 else -1)
    return tuple(c // divisor for c in integers)


def in_square_root(modulus: Any, form: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return a form in a quadratic field in terms of the square root of an integer."""
    flint = load_flint()
    constant, linear, leading = integer_coefficients(modulus)
    discriminant = linear * linear - 4 * constant * leading
    radicand, factor = (1 if discriminant > 0 else -1), 1
    for prime, exponent in flint.fmpz(discriminant).factor(trial_limit=N_PRIMES):
        radicand *= int(prime) ** (exponent % 2)
        factor *= int(prime) ** (exponent // 2)
    generator = flint.fmpq_poly([-linear, factor]) / (2 * leading)
    root = flint.fmpq_poly([-radicand, 0, 1])
    return root, [value(generator) % root for value in form]


def _in_coordinate(modulus: Any, form: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return a form in terms of its first coefficient that generates the field, or as it is."""
    flint, n = load_flint(), modulus.degree()
    for value in form:
        powers = [flint.fmpq_poly([1])]
        for _ in range(n):
            powers.append(powers[-1] * value % modulus)
        matrix = flint.fmpq_mat([[power[row] for power in powers[:n]] for row in range(n)])
        if matrix.rank() < n:
            continue
        # The old generator, and the highest power, as combinations of the lower powers.
        right = flint.fmpq_mat([[int(row == 1), powers[n][row]] for row in range(n)])
        solution = matrix.solve(right)
        old, highest = (flint.fmpq_poly([solution[row, k] for row in range(n)]) for k in range(2))
        new = flint.fmpq_poly([0] * n + [1]) - highest
        return new, [other(old) % new for other in form]
    return modulus, list(form)


def _n_bits(form: Sequence[Any]) -> int:
    return sum(abs(int(c)).bit_length() for value in _primitive(form) for c in value.numer().coeffs())


def _primitive(form: Sequence[Any]) -> list[Any]:
    """Return a form without denominators and common factors."""
    denominator = lcm(*(int(value.denom()) for value in form))
    content = gcd(*(int(c) for value in form for c in (value * denominator).numer().coeffs()))
    return [value * denominator / content for value in form]


def simplify(form: Sequence[Any], roots: Sequence[complex]) -> tuple[Any, ...]:
    """Return a form without denominators and common factors, a very large one divided by a power of ten.

    Otherwise the weights could be too small for a number in floating point.
    """
    form = _primitive(form)
    if any(value.degree() > 0 for value in form):
        sizes = [evaluate(value.coeffs(), root, 64).abs_upper() for root in roots for value in form]
        n_digits = len(str(max(size.ceil().unique_fmpz() for size in sizes))) - 1
        form = [value / 10 ** (n_digits if n_digits > MAX_DIGITS else 0) for value in form]
    return tuple(form)


def solve_weights(groups: Sequence[ConjugateForms], target: Sequence[Any], order: int) -> ExactWaring | None:
    """Return terms of these linear forms for which as many coefficients as there are weights are a form's.

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
        None where the powers of the forms are dependent. That the other coefficients are the form's
        is for the caller to check.
    """
    flint = load_flint()
    columns = []
    height = max((len(group.polynomial) - 1 for group in groups if not group.is_complete), default=1)
    for group in groups:
        modulus = NumberField(group.polynomial, 0j).modulus
        values = powers_of_form(group.form, modulus, order)
        for _ in range(modulus.degree()):
            if group.is_complete:
                columns.append([[a] + [0] * (height - 1) for a in traces(values, modulus)])
            else:
                columns.append([[value[k] for k in range(height)] for value in values])
            values = [value * flint.fmpq_poly([0, 1]) % modulus for value in values]
    # The rational part of the sum is the form; the others, if there are any, are zero.
    right = [value if k == 0 else 0 for value in target for k in range(height)]
    matrix = flint.fmpq_mat([[a for entry in column for a in entry] for column in columns])
    chosen = pivot_columns(matrix)
    if len(chosen) < len(columns):
        return None
    square = flint.fmpq_mat([[matrix[j, i] for j in range(len(columns))] for i in chosen])
    solution = iter(square.solve(flint.fmpq_mat([[right[i]] for i in chosen])).entries())
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
        numbers = tuple(number(load_flint().fmpq_poly([0, -1])) for number in numbers)
    scale, *point = (exact_number(field, number) for number in numbers)
    return scale, tuple(point)


def pivot_columns(matrix: Any) -> list[int]:
    """Return columns of a rational matrix that are independent modulo a prime, as many as there are."""
    reduced, rank = load_flint().nmod_mat(matrix.numer_denom()[0], PRIME).rref()
    pivots: list[int] = []
    for column in range(reduced.ncols()):
        if len(pivots) < rank and reduced[len(pivots), column] != 0:
            pivots.append(column)
    return pivots
