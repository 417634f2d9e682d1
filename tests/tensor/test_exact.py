"""Rational coefficients, which forms keep beside those in floating point."""

from fractions import Fraction

import numpy as np
import pytest
import sympy

from apolar import SymmetricTensor

THIRD = Fraction(1, 3)


def exact(polynomial):
    return SymmetricTensor.from_polynomial(polynomial).exact_coefficients


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/3*x^3 + 2*x*y^2", (THIRD, 0, Fraction(2, 3), 0)),
        ("0.1*x^2 - 1.5e-2*y^2", (Fraction(1, 10), 0, Fraction(-3, 200))),
        ("(x/3 - y/7)^2", (Fraction(1, 9), Fraction(-1, 21), Fraction(1, 49))),
        ("(2/3)^3*x*y", (0, Fraction(4, 27), 0)),
        ("1234567890123456789012345678901*x*y", (0, Fraction(1234567890123456789012345678901, 2), 0)),
        ("x*y - y*x", (0, 0, 0)),
    ],
)  # fmt: skip
def test_strings_are_read_exactly(text, expected):
    assert exact(text) == expected
    rounded = SymmetricTensor.from_polynomial(text).coefficients
    # One rounding of the coefficient as written, and one of its division by the multinomial coefficient.
    np.testing.assert_allclose(rounded, [float(value) for value in expected], rtol=4e-16)


def test_floats_are_exact_only_if_they_are_integers():
    assert exact({(3, 0): 1.0, (1, 2): -3.0}) == (1, 0, -1, 0)
    assert exact({(2, 0): 0.5, (0, 2): 1}) is None
    assert exact({(2, 0): 1e16, (0, 2): 1}) is None
    assert exact({(2, 0): Fraction(0.5), (0, 2): np.int64(3)}) == (Fraction(1, 2), 0, 3)


def test_what_is_not_rational_is_not_exact():
    x, y = sympy.symbols("x y")
    assert exact("1i*x^2 + y^2") is None
    assert exact(sympy.sqrt(2) * x**2 + y**2) is None
    assert exact(sympy.Rational(1, 3) * x**2 + 10**40 * y**2) == (THIRD, 0, 10**40)
    assert exact(sympy.Poly(x * y / 7, x, y)) == (0, Fraction(1, 14), 0)


def test_arithmetic_with_rationals_keeps_them_and_floats_drop_them():
    form = SymmetricTensor.from_polynomial("x^2/3 + y^2")
    other = SymmetricTensor.from_polynomial("x*y/5 - y^2")
    assert (form + other).exact_coefficients == (THIRD, Fraction(1, 10), 0)
    assert (form - form).exact_coefficients == (0, 0, 0)
    assert (-form * Fraction(3, 2) / 5).exact_coefficients == (Fraction(-1, 10), 0, Fraction(-3, 10))
    np.testing.assert_allclose((form * Fraction(3, 2)).coefficients, [0.5, 0, 1.5])
    assert (form * other).exact_coefficients == exact("(x^2/3 + y^2)*(x*y/5 - y^2)")
    assert sum([form, other]).exact_coefficients == (form + other).exact_coefficients
    for rounded in (
        form * 2.0,
        form / 0.5,
        form + SymmetricTensor(2, 2, np.ones(3)),
        form.change_variables(np.eye(2)),
    ):
        assert rounded.exact_coefficients is None


def test_coefficients_arrays_and_terms_may_be_exact():
    assert SymmetricTensor(2, 2, [1, THIRD, 2]).exact_coefficients == (1, THIRD, 2)
    assert SymmetricTensor(2, 2, [1.0, 0.0, 2.0]).exact_coefficients is None
    assert SymmetricTensor.zeros(2, 2).exact_coefficients == (0, 0, 0)
    assert SymmetricTensor.from_dense(np.array([[1, 2], [2, 5]])).exact_coefficients == (1, 2, 5)
    assert SymmetricTensor.from_dense([[1, 2], [3, 5]], symmetrize=True).exact_coefficients == (
        1,
        Fraction(5, 2),
        5,
    )
    terms = SymmetricTensor.from_waring([1, -2], [[1, THIRD], [2, 0]], 3)
    assert terms.exact_coefficients == exact("(x + y/3)^3 - 2*(2*x + 0*y)^3")
    assert SymmetricTensor.from_waring([1.0], [[1, 2]], 3).exact_coefficients is None


@pytest.mark.parametrize(
    "text",
    [
        "(x/1234567891 + y/1234567897)^200",
        "(x/1234567891 + y)^300",
        "(x/3 + x/5)^900*(1/9)^900",
        "1e-4000*x + y",
        "0." + "1" * 4000 + "*x",
        "(1/3)^1000*(1/7)^1000*(1/11)^1000*x + y",
    ],
)
def test_long_fractions_fall_back_to_floats(text):
    form = SymmetricTensor.from_polynomial(text)
    assert form.exact_coefficients is None
    assert np.all(np.isfinite(form.coefficients))


@pytest.mark.parametrize("text", ["(7/3*x)^1000", "((9^999)^999)^999*x", "1/((9^999)^999)^999*x", "1e999*x"])
def test_numbers_that_would_fill_the_memory_are_refused(text):
    with pytest.raises(ValueError, match="too large"):
        SymmetricTensor.from_polynomial(text)
