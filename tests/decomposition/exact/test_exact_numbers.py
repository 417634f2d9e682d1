"""Numbers in number fields, and what the kernel of the Hankel matrix proves without numerical terms."""

from fractions import Fraction

import numpy as np
import pytest
import sympy

import apolar
from apolar import SymmetricTensor
from apolar.decomposition import AlgebraicNumber, ExactWaring, NumberField
from apolar.decomposition.exact.arithmetic import residues, to_fmpq
from apolar.decomposition.exact.hankel_kernel import prove_by_kernel
from apolar.decomposition.ranks import PRIME


def proof_of(form):
    tensor = form if isinstance(form, SymmetricTensor) else SymmetricTensor.from_polynomial(form)
    return prove_by_kernel([to_fmpq(c) for c in tensor.exact_coefficients], tensor.dim, tensor.order)


def test_terms_sum_as_their_conjugates_do():
    polynomial = (5, -1, 0, 3)  # not monic
    rng = np.random.default_rng(0)
    weight, *point = (
        tuple(Fraction(int(a), int(b)) for a, b in rng.integers(1, 9, (3, 2))) for _ in range(3)
    )
    fields = [NumberField(polynomial, complex(root)) for root in np.roots(polynomial[::-1])]
    terms = ExactWaring(
        tuple(AlgebraicNumber(field, weight) for field in fields),
        tuple(tuple(AlgebraicNumber(field, c) for c in point) for field in fields),
        4,
        2,
    )
    t, x, y = sympy.symbols("t x y")
    scale, first, second = (sum(c * t**k for k, c in enumerate(number)) for number in (weight, *point))
    # Newton's identities, by SymPy: the trace of the multiplication by the sum.
    modulus = sympy.Poly(polynomial[::-1], t)
    product = sympy.Poly(sympy.expand(scale * (first * x + second * y) ** 4), t)
    trace = sum(
        (product * sympy.Poly(t**k, t) % modulus).coeff_monomial(t**k) for k in range(len(polynomial) - 1)
    )
    expected = SymmetricTensor.from_polynomial(sympy.expand(trace), variables=["x", "y"])
    assert terms.to_tensor().exact_coefficients == expected.exact_coefficients


def test_values_have_all_digits_and_cancellation_does_not_matter():
    field = NumberField((-2, 0, 1), 2**0.5)
    # A convergent of sqrt(2): the two terms agree in their first 20 digits.
    top, bottom = 1, 1
    for _ in range(26):
        top, bottom = top + 2 * bottom, top + bottom
    value = field.value((Fraction(-top), Fraction(bottom)))
    assert value.real == pytest.approx(1 / (top + bottom * 2**0.5) * (2 * bottom**2 - top**2), rel=1e-12)


def test_without_flint_the_error_says_what_to_install(monkeypatch):
    waring = apolar.decompose("x^3 - 3*x*y^2")
    monkeypatch.setitem(__import__("sys").modules, "flint", None)
    with pytest.raises(ImportError, match=r"python-flint: pip install 'apolar\[exact\]'"):
        waring.rationalize()
    again = apolar.decompose("x^3 - 3*x*y^2")
    assert again.rank == 2
    certificate = again.certificate
    assert (certificate.unique, certificate.exact_nearby, certificate.minimal) == (None, None, False)
    assert "not decided: Exact numbers need python-flint: pip install 'apolar[exact]'." in certificate.message
    # What counting proves needs no arithmetic.
    assert apolar.decompose("x^3 + y^3 + z^3 + x*y*z", random_state=0).certificate.unique is False
    assert SymmetricTensor.from_polynomial("x^2/3").exact_coefficients == (Fraction(1, 3),)


# --- the kernel of the Hankel matrix --------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "bound"),
    [
        ("x^2*y", 3),  # a double point
        ("x^4*y", 3),
        ("x^3*y + z^4", 4),
        ("x^3*y + z^4 + (x + y + z)^4", 5),
        ("(3*x + y + z)^2*(3*x + y + 2*z) + (2*x - 2*y - 3*z)^3", 4),
        ("x*y*z", 4),  # no common zeros at all
        ("x*y*z*w", 7),
        ("x^2*y^2*z^2", 8),
        ("x*(x*z + y^2)", 4),  # one point, of length three
        ("x^4 + 2*x^3*y + 3*x^2*y^2 + 4*x*y^3 + 6*y^4", 3),  # generic: left open
    ],
)
def test_forms_that_need_more_terms_than_the_rank_of_the_matrix(form, bound):
    proof = proof_of(form)
    assert proof.exact is None
    assert proof.rank_bound == bound


def test_a_rank_modulo_the_prime_is_not_taken_for_the_rank():
    tensor = SymmetricTensor.from_waring([1, 1], [[4, 3, 1], [5, 4, 2]], 4)
    coefficients = np.array(tensor.exact_coefficients)
    coefficients[5] += PRIME
    proof = proof_of(SymmetricTensor(4, 3, coefficients))
    assert proof.rank_bound >= 3
    assert proof.exact is None


# --- modulo a prime ---------------------------------------------------------------------------


def residue(value):
    fraction = Fraction(value)
    return fraction.numerator * pow(fraction.denominator, -1, PRIME) % PRIME


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.1, -1e300, 5e-324, 2.0**60, np.pi])
def test_numbers_reduce_exactly(value):
    assert residues(np.array([value]))[0] == residue(value)


def test_complex_numbers_reduce_with_their_products():
    assert pow(int(residues(np.array([1j]))[0]), 2, PRIME) == PRIME - 1
    left, right = 1.5 - 2j, 0.25 + 3j  # the product is exact in floating point
    a, b, both = residues(np.array([left, right, left * right]))
    assert a * b % PRIME == both
