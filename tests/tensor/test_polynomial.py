import numpy as np
import pytest
import sympy

from apolar import SymmetricTensor
from apolar.tensor import parse_polynomial

X = np.random.default_rng(0).standard_normal((10, 3))


def value(text, x, y, z):
    return SymmetricTensor.from_polynomial(text, variables=["x", "y", "z"])([x, y, z])


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("x^3 - 3*x*y^2", lambda x, y, z: x**3 - 3 * x * y**2),
        ("x**3 - 3 x y**2 + z^3", lambda x, y, z: x**3 - 3 * x * y**2 + z**3),
        ("-x^2 + 2xy - .5yz", lambda x, y, z: -(x**2) + 2 * x * y - 0.5 * y * z),
        ("(x + 2y)^3 / 4", lambda x, y, z: (x + 2 * y) ** 3 / 4),
        ("1.5e-2 x^2 - (x - y)(x + z)", lambda x, y, z: 0.015 * x**2 - (x - y) * (x + z)),
        ("2*-x*y + z^2", lambda x, y, z: -2 * x * y + z**2),
        ("(1+2i)*x^2 + 3j*y^2", lambda x, y, z: (1 + 2j) * x**2 + 3j * y**2),
        ("x*y*z^0 + (y^2)^1", lambda x, y, z: x * y + y**2),
    ],
)
def test_texts_are_read_as_written(text, function):
    for point in X:
        assert value(text, *point) == pytest.approx(function(*point), rel=1e-10)


def test_variables_are_sorted_by_name_and_number():
    assert parse_polynomial("x10 + x2 + x_1 + a")[1] == ["a", "x_1", "x2", "x10"]


def test_variables_fix_the_order_and_may_be_absent():
    tensor = SymmetricTensor.from_polynomial("x^2", variables=["y", "x"])
    assert tensor.to_polynomial() == {(0, 2): 1.0}
    with pytest.raises(ValueError, match="not listed: x"):
        SymmetricTensor.from_polynomial("x^2", variables=["y"])
    with pytest.raises(ValueError, match="repeats"):
        SymmetricTensor.from_polynomial("x^2", variables=["x", "x"])


def test_what_cancels_is_the_zero_form():
    tensor = SymmetricTensor.from_polynomial("x*y - y*x")
    assert (tensor.order, tensor.dim, tensor.norm()) == (2, 2, 0.0)


@pytest.mark.parametrize("text", ["x^3 - 3*x*y^2", "0.5*x^2 - (2 - 1.5i)*x*y - 2i*y^2", "-x*y*z"])
def test_text_round_trip(text):
    tensor = SymmetricTensor.from_polynomial(text)
    again = SymmetricTensor.from_polynomial(tensor.to_string(precision=17))
    np.testing.assert_allclose(again.coefficients, tensor.coefficients, rtol=1e-15)


def test_dict_round_trip():
    terms = {(3, 0): 1.0, (1, 2): -3.0}
    tensor = SymmetricTensor.from_polynomial(terms)
    np.testing.assert_array_equal(tensor.coefficients, [1, 0, -1, 0])
    assert tensor.to_polynomial() == terms
    assert SymmetricTensor.from_polynomial({**terms, (1, 0): 0.0}) == tensor


def test_sympy():
    x, y = sympy.symbols("x y")
    expected = SymmetricTensor.from_polynomial("x^3 - 3*x*y^2 / 2")
    assert SymmetricTensor.from_polynomial(x**3 - sympy.Rational(3, 2) * x * y**2) == expected
    assert SymmetricTensor.from_polynomial(sympy.Poly(x**3 - 3 * x * y**2 / 2, x, y)) == expected
    irrational = SymmetricTensor.from_polynomial(sympy.sqrt(2) * x**2 + sympy.pi * y**2)
    np.testing.assert_allclose(irrational.coefficients, [np.sqrt(2), 0, np.pi])
    a, b = sympy.symbols("a b", real=True)
    assert SymmetricTensor.from_polynomial(a * b, variables=["b", "a"]).to_polynomial() == {(1, 1): 1.0}
    for nothing in (sympy.Integer(3), sympy.Poly(0, x, y)):
        with pytest.raises(ValueError, match=r"no variable|no degree"):
            SymmetricTensor.from_polynomial(nothing)
    with pytest.raises(ValueError, match="not homogeneous"):
        SymmetricTensor.from_polynomial(x**3 + y)
    with pytest.raises(ValueError, match="not a polynomial"):
        SymmetricTensor.from_polynomial(sympy.sin(x) + sympy.Symbol("a") / x)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x^3 + y", "degree 1, 3"),
        ("x^3 + 1", "degree 0, 3"),
        ("", "empty"),
        ("   ", "empty"),
        ("7", "no variable"),
        ("x^", "a power must be an integer"),
        ("x^1.5", "a power must be an integer"),
        ("x^-1", "a power must be an integer"),
        ("x^99999", "a power must be an integer"),
        ("x/y", "division only by a number"),
        ("x/0", "division only by a number"),
        ("(x + y", "not closed"),
        ("x + * y", "unexpected"),
        ("x $ y", "cannot read"),
        ("x) + y", "unexpected"),
        ("__import__('os')", "cannot read"),
        ("x² + y²", "cannot read"),
        ("i*x^3 + y^4", "imaginary unit"),
        ("10^1000*x^3", "too large for a number"),
        ("(" * 5000 + "x" + ")" * 5000, "too many brackets"),
        ("(x+y+z+u+v+w)^60", "to write out"),
    ],
)
def test_bad_texts_are_refused_with_their_place(text, message):
    with pytest.raises(ValueError, match=message):
        SymmetricTensor.from_polynomial(text)


@pytest.mark.parametrize(
    ("polynomial", "error", "message"),
    [
        ({}, ValueError, "zeros"),
        ({(3, 0): 1, (1, 1): 2}, ValueError, "not homogeneous"),
        ({(3, 0): 1, (1, 1, 1): 2}, ValueError, "one exponent per variable"),
        ({(3, -1): 1}, TypeError, "tuples of exponents"),
        ({"x": 1}, TypeError, "tuples of exponents"),
        ({(3, 0): "1"}, TypeError, "must be a number"),
        ({(3, 0): float("nan")}, ValueError, "NaN"),
        ({(0, 0): 1}, ValueError, "degree"),
        ({(1100, 0): 1}, ValueError, "degree 1100"),
        (3.0, TypeError, "a dict of exponents"),
    ],
)
def test_bad_dicts_are_refused(polynomial, error, message):
    with pytest.raises(error, match=message):
        SymmetricTensor.from_polynomial(polynomial)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(x+y)*" * 4000 + "x", "multiplications"),
        ("(x+y+z)^600", "multiplications"),
        ("((x+y+z)^30)^30", "multiplications"),
        ("(x^2)^600", "degree 1200; the largest is 1000"),
        ("x*" * 1001 + "x", "degree 1001; the largest is 1000"),
        (" + ".join(f"x{i}^30" for i in range(60)), "degree 30 in 60 variables has 4.49e\\+23 coefficients"),
        ("x^" + "9" * 5000, "up to 1000"),
        ("1" * 5000 + "*x", "too large for a number"),
        ("9e999*x", "too large for a number"),
        ("x+" * 1000 + "&" + "+y" * 1000, "at character 2001"),
        ("x" * 60 + "+1" * 3000 + "*y1" * 99 + ")", "'\\)' at character"),
    ],
)
def test_what_is_too_large_to_write_out_is_refused_in_a_line(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        SymmetricTensor.from_polynomial(text)
    assert len(str(caught.value)) < 250
    assert "\n" not in str(caught.value)
