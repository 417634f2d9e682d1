"""Arithmetic of exact decompositions: lattices, number fields, numbers of many digits, linear equations."""

from fractions import Fraction
from itertools import pairwise
from math import isqrt

import numpy as np
import pytest
import sympy

from apolar.decomposition.exact.digits import ScaledTerms, refined_terms
from apolar.decomposition.exact.fixed_point import FixedPoint, polished_root
from apolar.decomposition.exact.lattice import integer_relation, reduced_basis
from apolar.decomposition.exact.linear import independent_rows, square_solution
from apolar.decomposition.exact.number_field import NumberField
from apolar.decomposition.exact.recognition import least_polynomial, nearest_fraction, numbers_in_field
from apolar.decomposition.exact.univariate import forms_at_roots

BITS = 200


def square_root(n, bits=BITS):
    return FixedPoint(isqrt(n << (2 * bits)), 0, bits)


def whole(value, bits=BITS):
    return FixedPoint(value << bits, 0, bits)


@pytest.mark.parametrize("seed", range(3))
def test_a_reduced_basis_spans_the_same_lattice_and_is_nearly_orthogonal(seed):
    basis = np.random.default_rng(seed).integers(-(10**6), 10**6, (5, 5)).tolist()
    reduced = reduced_basis(basis)
    change = sympy.Matrix(reduced) * sympy.Matrix(basis).inv()
    assert all(entry.is_integer for entry in change)
    assert abs(change.det()) == 1
    orthogonal = [row.norm() ** 2 for row in sympy.GramSchmidt([sympy.Matrix([row]) for row in reduced])]
    # Lovász's condition with 3/4 and size reduction: each is at least half of the one before.
    assert all(2 * after >= before for before, after in pairwise(orthogonal))


def test_relations_are_found_and_those_by_chance_are_not():
    root = square_root(2)
    assert integer_relation([whole(3), whole(5)], BITS) in ([5, -3], [-5, 3])
    relation = integer_relation([whole(1), root, root * 7 + whole(-4)], BITS - 10)
    assert relation in ([-4, 7, -1], [4, -7, 1])
    assert integer_relation([whole(1), root, square_root(3)], BITS - 10) is None


def test_least_polynomials():
    root = square_root(2) + square_root(3)
    assert least_polynomial(root, BITS - 10, 4) == (1, 0, -10, 0, 1)
    assert least_polynomial(root, BITS - 10, 3) is None
    assert nearest_fraction(whole(22).times(Fraction(1, 7)), BITS - 10) == Fraction(22, 7)
    assert nearest_fraction(square_root(2), BITS - 10) is None


def test_numbers_of_several_fields_share_one():
    values = [square_root(2), whole(1).times(Fraction(1, 3)), square_root(3)]
    together = numbers_in_field(values, BITS - 10, 4)
    assert len(together.polynomial) == 5
    field = NumberField(together.polynomial, complex(together.generator.to_complex()))
    assert [field.value(number) for number in together.numbers] == pytest.approx([2**0.5, 1 / 3, 3**0.5])
    assert field.product(together.numbers[0], together.numbers[0]) == (2, 0, 0, 0)
    assert numbers_in_field(values, BITS - 10, 3) is None


def test_fields_multiply_as_polynomials_do_and_traces_sum_over_all_roots():
    t = sympy.Symbol("t")
    polynomial = (5, -1, 0, 3)  # not monic
    field = NumberField(polynomial, 0j)
    rng = np.random.default_rng(0)
    first, second = (tuple(Fraction(int(a), int(b)) for a, b in rng.integers(1, 9, (3, 2))) for _ in range(2))
    modulus = sympy.Poly(polynomial[::-1], t)
    product = sympy.Poly(first[::-1], t) * sympy.Poly(second[::-1], t)
    expected = (product % modulus).all_coeffs()[::-1]
    assert field.product(first, second) == tuple(Fraction(c.p, c.q) for c in expected)
    roots = np.roots(polynomial[::-1])
    values = sum(sum(float(c) * root**k for k, c in enumerate(first)) for root in roots)
    assert float(field.trace(first)) == pytest.approx(values, rel=1e-12)


def test_roots_have_all_digits_and_cancellation_does_not_matter():
    root = polished_root((-2, 0, 1), 1.41, BITS)
    assert abs(root.parts[0] - square_root(2).parts[0]) <= 4
    field = NumberField((-2, 0, 1), 2**0.5)
    # A convergent of sqrt(2): the two terms agree in their first 20 digits.
    top, bottom = 1, 1
    for _ in range(26):
        top, bottom = top + 2 * bottom, top + bottom
    value = field.value((Fraction(-top), Fraction(bottom)))
    assert value.real == pytest.approx(1 / (top + bottom * 2**0.5) * (2 * bottom**2 - top**2), rel=1e-12)


def test_points_at_the_roots_of_a_polynomial_that_factors():
    # Points (1, a, a^2) at 1/2, sqrt(2) and -sqrt(2): together they are all conjugates.
    values = [whole(1).times(Fraction(1, 2)), square_root(2), square_root(2) * -1]
    polynomial, form, roots = forms_at_roots([[whole(1), a, a * a] for a in values], BITS - 10)
    t = sympy.Symbol("t")
    assert sympy.expand((t**2 - 2) * (2 * t - 1) - sympy.Poly(polynomial[::-1], t).as_expr()) == 0
    for root in roots:
        first, second, third = (NumberField(polynomial, root).value(number) for number in form)
        assert (second / first, third / first) == pytest.approx((root, root**2))
    assert forms_at_roots([[whole(1), a] for a in values[:2]], BITS - 10) is None


def test_linear_equations():
    rows = [[Fraction(1), Fraction(2)], [Fraction(2), Fraction(4)], [Fraction(1, 3), Fraction(-1)]]
    assert sorted(independent_rows(rows, 2)) in ([0, 2], [1, 2])
    assert independent_rows(rows[:2], 2) is None
    x, y = square_solution([[*rows[0], Fraction(5)], [*rows[2], Fraction(0)]])
    assert (x + 2 * y, x / 3 - y) == (5, 0)


def test_terms_gain_digits_in_each_step():
    # x^3 + (x + sqrt(2) y)^3 + (x - sqrt(2) y)^3, from terms with three digits.
    start = ScaledTerms.of(np.array([1.0, 1.0, 1.0]), np.array([[1, 0.001], [1, 1.414], [1, -1.415]]), 5)
    target = (Fraction(3), Fraction(0), Fraction(4), Fraction(0), Fraction(8), Fraction(0))
    weights, forms = refined_terms(start, target, 300, {})
    assert weights.to_complex() == pytest.approx([1, 4 * 2**0.5, -4 * 2**0.5], rel=1e-15)
    expected = isqrt(1 << (2 * forms.bits - 1))  # one over sqrt(2)
    assert abs(int(forms.real[1, 0]) - expected) >> (forms.bits - 300) == 0
