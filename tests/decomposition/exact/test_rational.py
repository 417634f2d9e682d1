"""Exact terms: rational and algebraic ones, and the proof that they sum to the form."""

from fractions import Fraction

import numpy as np
import pytest
import sympy

import apolar
from apolar.decomposition import AlgebraicNumber, ExactWaring, NumberField
from apolar.tensor import SymmetricTensor

SQRT2 = NumberField((-2, 0, 1), 2**0.5)


def exact_terms(form, **options):
    return apolar.decompose(form, random_state=0).rationalize(**options)


def sums_to(exact, form):
    """Whether exact terms sum to a form by SymPy's arithmetic, which is not ours."""
    names = ["x", "y", "z"] if exact.dim <= 3 else [f"x{i + 1}" for i in range(exact.dim)]
    expected = SymmetricTensor.from_polynomial(form).to_sympy()
    return sympy.expand(exact.to_sympy(names[: exact.dim]) - expected, complex=False) == 0


@pytest.mark.parametrize(
    ("form", "formula"),
    [
        ("x*y*z", "1/24*(x + y + z)^3 + 1/24*(x - y - z)^3 - 1/24*(x - y + z)^3 - 1/24*(x + y - z)^3"),
        ("2*x^3 + 6*x*y^2", "(x + y)^3 + (x - y)^3"),
        ("(x/3 - y/7)^4 + y^4/5", None),
        ("(x+y+z+w)^3 - x^3 - y^3 - z^3 - w^3", None),
        ("x^2 + x*y + y^2", "3/4*(x + y)^2 + 1/4*(x - y)^2"),
        ("x^3", "x^3"),
        ("2*x - 3*y", None),
    ],
)
def test_rational_terms_are_proved_and_read_back(form, formula):
    exact = exact_terms(form)
    assert exact.proved
    assert exact.is_rational
    tensor = SymmetricTensor.from_polynomial(form)
    assert exact.to_tensor().exact_coefficients == tensor.exact_coefficients
    again = SymmetricTensor.from_polynomial(exact.to_string())
    assert again.exact_coefficients == tensor.exact_coefficients
    assert sums_to(exact, form)
    if formula is not None:
        assert sorted(exact.to_string().replace("- ", "+ -").split(" + ")) == sorted(
            formula.replace("- ", "+ -").split(" + ")
        )


def random_terms(seed, dim, order, rank, largest=50):
    rng = np.random.default_rng(seed)

    def fraction():
        # Of size near one, so that no term is lost beside the others.
        denominator = int(rng.integers(largest // 2, largest + 1))
        return Fraction(int(rng.integers(-denominator, denominator + 1)), denominator)

    weights = [1 + abs(fraction()) for _ in range(rank)]
    points = [[fraction() for _ in range(dim)] for _ in range(rank)]
    return SymmetricTensor.from_waring(weights, points, order)


@pytest.mark.parametrize(
    ("dim", "order", "rank"),
    [(2, 3, 2), (2, 5, 3), (3, 3, 3), (4, 3, 4), (3, 5, 6), (3, 6, 8), (4, 4, 7), (8, 3, 8), (3, 1, 1)],
)
def test_random_rational_points_are_found_exactly(dim, order, rank):
    for seed in range(2):
        form = random_terms(seed, dim, order, rank)
        exact = apolar.decompose(form, rank=rank, random_state=0).rationalize()
        assert exact.proved
        assert exact.is_rational
        assert exact.rank == rank
        assert exact.to_tensor().exact_coefficients == form.exact_coefficients


@pytest.mark.parametrize(
    ("form", "degrees"),
    [
        ("2*x^3 + 12*x*y^2", {2}),  # (x + sqrt(2) y)^3 + (x - sqrt(2) y)^3
        ("x^3 - 3*x*y^2", {2}),  # i
        ("x*y^2", set()),
        ("x^2*y^2", {2}),  # third roots of unity
        ("x^4*y^2", {4}),  # fifth ones
        ("x^2*y + y^2*z + z^2*x", {2}),
        ("x^5*y", set()),
        ("x^3 + x^2*y + y^3", {2}),
        ("x^5 + x^4*y + x^2*y^3 + y^5", {3}),  # a binary quintic: three conjugate points
        ("x^7 + x^5*y^2 + 7*x^4*y^3 - 2*x^2*y^5 + y^7", {4}),
    ],
)
def test_algebraic_terms_are_proved(form, degrees):
    exact = exact_terms(form)
    assert exact.proved
    assert {field.degree for field in exact.fields} == degrees
    expected = SymmetricTensor.from_polynomial(form)
    assert exact.to_tensor().exact_coefficients == expected.exact_coefficients
    values = SymmetricTensor.from_waring(
        [complex(w) for w in exact.weights],
        [[complex(c) for c in point] for point in exact.points],
        exact.order,
    )
    # The weights of conjugates are of size 1 to 10, and cancel.
    np.testing.assert_allclose(values.coefficients, expected.coefficients, atol=1e-10)


def test_formulas_with_square_roots():
    exact = exact_terms("2*x^3 + 12*x*y^2")
    assert exact.to_string() == "(x + sqrt(2)*y)^3 + (x - sqrt(2)*y)^3"
    assert exact.to_latex(["a", "b"]) == (
        r"\left(a + \sqrt{2} \, b\right)^{3} + \left(a - \sqrt{2} \, b\right)^{3}"
    )
    assert sums_to(exact, "2*x^3 + 12*x*y^2")
    gaussian = exact_terms("x^3 - 3*x*y^2")
    assert gaussian.to_string() == "1/2*(x + 1i*y)^3 + 1/2*(x - 1i*y)^3"
    assert SymmetricTensor.from_polynomial(gaussian.to_string()) == SymmetricTensor.from_polynomial(
        "x^3 - 3*x*y^2"
    )
    assert sums_to(gaussian, "x^3 - 3*x*y^2")


def test_formulas_with_roots_of_polynomials():
    exact = exact_terms("x^5 + x^4*y + x^2*y^3 + y^5")
    assert exact.to_string().endswith(": roots of 10*t^3 - 38*t^2 - 100*t + 19")
    assert exact.to_latex().endswith(r"\text{ roots of } 10 \, t^{3} - 38 \, t^{2} - 100 \, t + 19")
    expression = exact.to_sympy()
    x, y = sympy.symbols("x y")
    value = complex(expression.subs({x: 2, y: -3}).evalf(20))
    assert value == pytest.approx(32 - 48 - 4 * 27 - 243, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("form", "rank", "is_rational"), [
    ("x^2*y + z^3", 4, True), ("x*y^2 + z*w^2", 6, True), ("x^4*y + z^4*w", 10, True),
    ("x*y*z + w^3", 5, True), ("x^3*y^2 + z^5", 5, False),
])  # fmt: skip
def test_monomials_in_other_integer_variables_have_simple_terms(form, rank, is_rational, seed):
    tensor = SymmetricTensor.from_polynomial(form)
    one = np.eye(tensor.dim, dtype=int)
    entries = np.random.default_rng(seed).integers(-1, 2, one.shape)
    # A product of triangular matrices has an inverse.
    turned = tensor.change_variables((one + np.tril(entries, -1)) @ (one + np.triu(entries, 1)))
    waring = apolar.decompose(turned, random_state=seed)
    exact = waring.rationalize()
    assert exact.proved
    assert (exact.rank, waring.status) == (rank, apolar.Status.EXACT)
    assert is_rational == (not exact.fields)
    assert exact.to_tensor().exact_coefficients == turned.exact_coefficients


def test_large_and_small_coefficients_are_kept():
    exact = exact_terms("10^40*x^3 + 3*10^40*x*y^2")
    assert exact.to_tensor().exact_coefficients == (10**40, 0, 10**40, 0)
    tiny = exact_terms("(x^3 + 3*x*y^2)/10^40")
    assert tiny.proved
    assert set(tiny.weights) == {Fraction(1, 2 * 10**40)}


def test_families_say_so_and_move_to_simple_points():
    waring = apolar.decompose("x^3 + y^3 + z^3 + x*y*z", random_state=0)
    with pytest.raises(ValueError, match=r"continuous family.*option `move`"):
        waring.rationalize()
    exact = waring.rationalize(move=True)
    assert exact.proved
    assert exact.rank == waring.rank
    assert all(isinstance(c, Fraction) for c in exact.points[0])
    binary = exact_terms("x^4 + 2*x^3*y + 3*x^2*y^2 + 4*x*y^3 + 6*y^4", move=True)
    assert binary.proved
    assert {field.degree for field in binary.fields} <= {2}


def sum_of_conjugates(polynomial, point, order):
    """Return the sum of the powers of a linear form over all roots of a polynomial."""
    degree = len(polynomial) - 1
    roots = np.roots(polynomial[::-1])
    points = []
    for root in roots:
        field = NumberField(polynomial, complex(root))
        padded = ([Fraction(c) for c in value] + [Fraction(0)] * (degree - len(value)) for value in point)
        points.append(tuple(AlgebraicNumber(field, tuple(c)) if any(c[1:]) else c[0] for c in padded))
    return ExactWaring((Fraction(1),) * degree, tuple(points), order, len(point)).to_tensor()


@pytest.mark.slow
def test_complex_terms_of_a_family_are_moved():
    # Complex points divided by their largest coefficient have one there up to rounding only.
    form = "2*x^4 - 4*x^3*y - 12*x^2*y^2 + 12*x*y^3 - 2*y^4"
    assert apolar.decompose(form, random_state=0).rationalize(move=True).proved


def test_conjugates_of_any_degree_are_summed_over_the_roots_of_a_polynomial():
    # The form sum_a (x + a y)^9 over the roots of t^5 - t - 1, whose splitting field has degree 120.
    form = sum_of_conjugates((-1, -1, 0, 0, 0, 1), [[1], [0, 1]], 9)
    exact = apolar.decompose(form, random_state=0).rationalize()
    assert exact.proved
    assert exact.to_string().endswith(": roots of t^5 - t - 1")
    assert exact.to_string().startswith("(x + a1*y)^9 + (x + a2*y)^9 + ")
    assert sum(complex(c).real for _, c in exact.points) == pytest.approx(0, abs=1e-12)


def test_numbers_that_are_too_long_are_refused_in_words():
    # Five cubes in four variables have Hankel matrices of full rank, whose kernel says nothing.
    form = random_terms(0, 4, 3, 5, largest=10**15)
    waring = apolar.decompose(form, rank=5, random_state=0)
    with pytest.raises(ValueError, match=r"coordinates of the terms .* to 30 digits .* Allow more digits"):
        waring.rationalize(max_digits=30)
    assert waring.rationalize().proved


def test_terms_that_are_too_close_for_floats_are_proved_where_the_kernel_has_them():
    pair = SymmetricTensor.from_waring([2, 1], [[1, 0], [1, Fraction(1, 10**9)]], 3)
    waring = apolar.decompose(pair, rank=2, random_state=0)
    assert set(waring.rationalize().points) == {(1, 0), (10**9, 1)}
    four = SymmetricTensor.from_waring([2, 1, 1, 1], [[1, 0], [1, Fraction(1, 10**9)], [0, 1], [1, 1]], 6)
    waring = apolar.decompose(four, rank=4, random_state=0)
    with pytest.raises(ValueError, match=r"do not sum|continuous family"):
        waring.rationalize()


def test_the_zero_form_has_no_terms():
    exact = exact_terms(SymmetricTensor.zeros(3, 2))
    assert exact.proved
    assert exact.rank == 0
    assert exact.to_string() == "0"
    assert exact.to_tensor() == SymmetricTensor.zeros(3, 2)


def test_floats_are_recognised_but_not_proved():
    floats = SymmetricTensor(3, 2, np.array([2.0, 0.0, 4.0, 0.0]))
    exact = apolar.decompose(floats, random_state=0).rationalize()
    assert not exact.proved
    assert exact.to_string() == "(x + sqrt(2)*y)^3 + (x - sqrt(2)*y)^3"
    assert repr(exact) == "ExactWaring(rank=2, order=3, dim=2, algebraic, not proved)"
    given = apolar.Waring([0.5, 0.25], [[1.0, 0.5], [0.0, 1.0]], 3)
    assert given.rationalize().to_string() == "1/16*(2*x + y)^3 + 1/4*y^3"
    assert given.rationalize("(x + y/2)^3/2 + y^3/4").proved


def test_refined_terms_know_their_form_and_those_of_rows_do_not():
    form = SymmetricTensor.from_polynomial("2*x^3 + 12*x*y^2")
    start = apolar.Waring([2.8, 2.8], [[0.7, 1.0], [0.7, -1.0]], 3)
    assert apolar.refine(form, start).rationalize().proved
    rows = SymmetricTensor.from_rows(np.array([[1.0, 2.0, 0.0], [1.0, -1.0, 0.0]]), np.array([3.0, 1.0]), 3)
    exact = apolar.decompose(rows, rank=2, random_state=0).rationalize()
    assert sorted(exact.points) == [(1, -1, 0), (1, 2, 0)]
    assert not exact.proved


def test_terms_without_their_conjugates_are_summed_in_a_common_field():
    # sqrt(2) (x + y)^2 and -sqrt(2) (x + y)^2 cancel; neither is the conjugate of the other's point.
    root = AlgebraicNumber(SQRT2, (Fraction(0), Fraction(1)))
    minus = AlgebraicNumber(SQRT2, (Fraction(0), Fraction(-1)))
    one = Fraction(1)
    exact = ExactWaring((root, minus, one), ((one, one), (one, one), (one, -one)), 2, 2)
    assert exact.to_tensor().exact_coefficients == (1, -1, 1)
    alone = ExactWaring((root,), ((one, one),), 2, 2)
    with pytest.raises(ValueError, match="not rational"):
        alone.to_tensor()


CUBES = apolar.Waring([1.0, 1.0], np.eye(2), 3)


@pytest.mark.parametrize(
    ("waring", "form", "options", "message"),
    [
        (CUBES, "x^3 + y^3 + x^2*y", {}, r"do not sum to the form: they leave 3\.8e-01"),
        (CUBES, "x^2 + y^2", {}, "order 3 in 2 variables; the tensor is of order 2 in 2"),
        (CUBES, "x^3 - x^3 + 0*y^3", {}, "tensor is zero"),
        (CUBES, "1i*x^3 + y^3", {}, "complex coefficients"),
        (CUBES, "x^3 + y^3", {"max_degree": 0}, "max_degree"),
        (CUBES, "x^3 + y^3", {"max_digits": 1.5}, "max_digits"),
        # A part of the form that numbers in floating point do not hold.
        (
            apolar.Waring([1.0], [[1.0, 0.0]], 3),
            "x^3 + 1e-320*y^3",
            {"max_digits": 50},
            "in exact arithmetic",
        ),
        (apolar.Waring(np.zeros(0), np.zeros((0, 2)), 3), "x^3 + y^3", {}, "no terms"),
        (
            apolar.Waring([0.5, 0.25], [[1.0, np.pi / 4], [0.0, 1.0]], 3),
            None,
            {},
            "numbers of term 1",
        ),
    ],
)
def test_what_has_no_exact_terms_is_refused_in_words(waring, form, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        waring.rationalize(form, **options)
    assert exact_terms("x^3 + 1e-320*y^3").rank == 2
