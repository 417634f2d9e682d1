"""Polynomials as strings, dicts and SymPy expressions: what is read, exactly, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
import sympy

from apolar import SymmetricTensor
from apolar.tensor import parse_polynomial

X = np.random.default_rng(0).standard_normal((10, 3))
THIRD = Fraction(1, 3)
x, y = sympy.symbols("x y")


def exact(polynomial):
    return SymmetricTensor.from_polynomial(polynomial).exact_coefficients


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("x^3 - 3*x*y^2", lambda x, y, z: x**3 - 3 * x * y**2),
        ("x**3 - 3 x y**2 + z^3", lambda x, y, z: x**3 - 3 * x * y**2 + z**3),
        ("-x^2 + 2xy - .5yz", lambda x, y, z: -(x**2) + 2 * x * y - 0.5 * y * z),
        ("(x + 2y)^3 / 4", lambda x, y, z: (x + 2 * y) ** 3 / 4),
        ("1.5e-2 x^2 - (x - y)(x + z)", lambda x, y, z: 0.015 * x**2 - (x - y) * (x + z)),
        ("-x^2*y - -x*y*z/2*3", lambda x, y, z: -(x**2) * y + x * y * z * 1.5),
        ("(1+2i)*x^2 + 3j*y^2", lambda x, y, z: (1 + 2j) * x**2 + 3j * y**2),
        ("x*y*z^0 + (y^2)^1", lambda x, y, z: x * y + y**2),
    ],
)
def test_texts_are_read_as_written(text, function):
    form = SymmetricTensor.from_polynomial(text, variables=["x", "y", "z"])
    for point in X:
        assert form(point) == pytest.approx(function(*point), rel=1e-10)
    again = SymmetricTensor.from_polynomial(form.to_string(precision=17), variables=["x", "y", "z"])
    np.testing.assert_allclose(again.coefficients, form.coefficients, rtol=1e-15)
    # A term of coefficient zero has no say in the degree.
    assert SymmetricTensor.from_polynomial({**form.to_polynomial(), (1, 0, 0): 0.0}) == form


def test_variables_are_sorted_by_name_and_number_or_listed():
    assert parse_polynomial("x10 + x2 + x_1 + a")[1] == ["a", "x_1", "x2", "x10"]
    tensor = SymmetricTensor.from_polynomial("x^2", variables=["y", "x"])
    assert tensor.to_polynomial() == {(0, 2): 1.0}
    for names, message in ((["y"], "not listed: x"), (["x", "x"], "repeats")):
        with pytest.raises(ValueError, match=message):
            SymmetricTensor.from_polynomial("x^2", variables=names)


def test_sympy():
    expected = SymmetricTensor.from_polynomial("x^3 - 3*x*y^2 / 2")
    assert SymmetricTensor.from_polynomial(x**3 - sympy.Rational(3, 2) * x * y**2) == expected
    assert SymmetricTensor.from_polynomial(sympy.Poly(x**3 - 3 * x * y**2 / 2, x, y)) == expected
    irrational = SymmetricTensor.from_polynomial(sympy.sqrt(2) * x**2 + sympy.pi * y**2)
    np.testing.assert_allclose(irrational.coefficients, [np.sqrt(2), 0, np.pi])
    a, b = sympy.symbols("a b", real=True)
    assert SymmetricTensor.from_polynomial(a * b, variables=["b", "a"]).to_polynomial() == {(1, 1): 1.0}


# --- exact coefficients ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("polynomial", "expected"),
    [
        ("1/3*x^3 + 2*x*y^2", (THIRD, 0, Fraction(2, 3), 0)),
        ("0.1*x^2 - 1.5e-2*y^2", (Fraction(1, 10), 0, Fraction(-3, 200))),
        ("(x/3 - y/7)^2", (Fraction(1, 9), Fraction(-1, 21), Fraction(1, 49))),
        ("1234567890123456789012345678901*x*y", (0, Fraction(1234567890123456789012345678901, 2), 0)),
        ("x*y - y*x", (0, 0, 0)),
        (sympy.Rational(1, 3) * x**2 + 10**40 * y**2, (THIRD, 0, 10**40)),
        (sympy.Poly(x * y / 7, x, y), (0, Fraction(1, 14), 0)),
        ({(3, 0): 1.0, (1, 2): -3.0}, (1, 0, -1, 0)),
        ({(2, 0): Fraction(0.5), (0, 2): np.int64(3)}, (Fraction(1, 2), 0, 3)),
    ],
)
def test_rational_coefficients_are_kept_exactly(polynomial, expected):
    assert exact(polynomial) == expected


@pytest.mark.parametrize(
    "polynomial",
    [
        {(2, 0): 0.5, (0, 2): 1},
        {(2, 0): 1e16, (0, 2): 1},
        "1i*x^2 + y^2",
        sympy.sqrt(2) * x**2 + y**2,
        "(x/1234567891 + y/1234567897)^200",
        "1e-4000*x + y",
        "(1/3)^1000*(1/7)^1000*(1/11)^1000*x + y",
    ],
)
def test_other_numbers_and_long_fractions_are_floats(polynomial):
    form = SymmetricTensor.from_polynomial(polynomial)
    assert form.exact_coefficients is None
    assert np.all(np.isfinite(form.coefficients))


def test_arithmetic_with_rationals_keeps_them_and_floats_drop_them():
    form = SymmetricTensor.from_polynomial("x^2/3 + y^2")
    other = SymmetricTensor.from_polynomial("x*y/5 - y^2")
    assert (form + other).exact_coefficients == (THIRD, Fraction(1, 10), 0)
    assert (form - form).exact_coefficients == (0, 0, 0)
    assert (-form * Fraction(3, 2) / 5).exact_coefficients == (Fraction(-1, 10), 0, Fraction(-3, 10))
    np.testing.assert_array_equal((form * Fraction(3, 2)).coefficients, [0.5, 0, 1.5])
    assert (form * other).exact_coefficients == exact("(x^2/3 + y^2)*(x*y/5 - y^2)")
    assert sum([form, other]).exact_coefficients == (form + other).exact_coefficients
    changed = form.change_variables([[1, THIRD], [0, 2]])
    assert changed.exact_coefficients == exact("(x + y/3)^2/3 + 4*y^2")
    ones = SymmetricTensor(2, 2, np.ones(3))
    for rounded in (form * 2.0, form / 0.5, form + ones, form.change_variables(np.eye(2))):
        assert rounded.exact_coefficients is None


def test_coefficients_arrays_and_terms_may_be_exact():
    assert SymmetricTensor(2, 2, [1, THIRD, 2]).exact_coefficients == (1, THIRD, 2)
    assert SymmetricTensor(2, 2, [1.0, 0.0, 2.0]).exact_coefficients is None
    assert SymmetricTensor.zeros(2, 2).exact_coefficients == (0, 0, 0)
    assert SymmetricTensor.from_dense(np.array([[1, 2], [2, 5]])).exact_coefficients == (1, 2, 5)
    symmetrized = SymmetricTensor.from_dense([[1, 2], [3, 5]], symmetrize=True)
    assert symmetrized.exact_coefficients == (1, Fraction(5, 2), 5)
    terms = SymmetricTensor.from_waring([1, -2], [[1, THIRD], [2, 0]], 3)
    assert terms.exact_coefficients == exact("(x + y/3)^3 - 2*(2*x + 0*y)^3")
    assert SymmetricTensor.from_waring([1.0], [[1, 2]], 3).exact_coefficients is None


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("polynomial", "message"),
    [
        ("x^3 + y", "degree 1, 3"),
        ("x^3 + 1", "degree 0, 3"),
        ("   ", "empty"),
        ("7", "no variable"),
        ("x^", "a power must be an integer"),
        ("x^-1", "a power must be an integer"),
        ("x^2^3", "unexpected"),
        ("x/y", "division only by a number"),
        ("(x + y", "not closed"),
        ("x $ y", "cannot read"),
        ("x) + y", "unexpected"),
        ("__import__('os')", "cannot read"),
        ("i*x^3 + y^4", "imaginary unit"),
        ("sin(y)^3", "has the function sin"),
        ("10^1000*x^3", "overflows"),
        ("1" * 5000 + "*x", "overflows"),
        ("(" * 5000 + "x" + ")" * 5000, "too many brackets"),
        ("(x+y+z+u+v+w)^60", "multiplications"),
        ("(x^2)^600", "degree 1200; the largest is 1000"),
        (" + ".join(f"x{i}^30" for i in range(60)), "degree 30 in 60 variables has 4.49e\\+23 coefficients"),
        ("x+" * 1000 + "&" + "+y" * 1000, "at character 2001"),
        ("x" * 60 + "+1" * 3000 + "*y1" * 99 + ")", "'\\)' at character"),
        ({}, "zeros"),
        ({(3, 0): 1, (1, 1, 1): 2}, "one exponent per variable"),
        ({(3, -1): 1}, "tuples of exponents"),
        ({(3, 0): "1"}, "must be a number"),
        ({(3, 0): float("nan")}, "NaN"),
        ({(0, 0): 1}, "degree"),
        ({(1100, 0): 1}, "degree 1100"),
        (3.0, "a dict of exponents"),
        (sympy.Integer(3), "no variable"),
        (sympy.Poly(0, x, y), "no degree"),
        (sympy.sin(x) + sympy.Symbol("a") / x, "not a polynomial"),
    ],
)
def test_bad_polynomials_are_refused_in_a_line(polynomial, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        SymmetricTensor.from_polynomial(polynomial)
    assert len(str(caught.value)) < 250
    assert "\n" not in str(caught.value)
