import itertools
import math

import numpy as np
import pytest

from apolar import SymmetricTensor, apolar_product, hankel
from apolar._core.arrays import scaled_by_power

SHAPES = [(1, 3), (2, 1), (2, 5), (3, 3), (4, 2), (3, 4)]


def random_tensor(dim, order, seed=0, *, is_complex=False):
    rng = np.random.default_rng(seed)
    n = len(SymmetricTensor.zeros(order, dim).coefficients)
    values = rng.standard_normal(n)
    return SymmetricTensor(order, dim, values + 1j * rng.standard_normal(n) if is_complex else values)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(("dim", "order"), SHAPES)
def test_the_full_array_has_the_same_values_and_derivatives(dim, order, is_complex):
    tensor = random_tensor(dim, order, is_complex=is_complex)
    dense, x = tensor.to_dense(), np.random.default_rng(1).standard_normal((5, dim))
    assert dense.shape == (dim,) * order
    for axes in itertools.permutations(range(order)):
        np.testing.assert_array_equal(dense, dense.transpose(axes))
    np.testing.assert_allclose(
        SymmetricTensor.from_dense(dense).coefficients, tensor.coefficients, rtol=1e-14
    )
    assert np.linalg.norm(dense) == pytest.approx(tensor.norm())
    other = random_tensor(dim, order, 1, is_complex=is_complex)
    product = apolar_product(tensor, other)
    assert product == pytest.approx(
        np.vdot(dense, other.to_dense()), abs=1e-12 * tensor.norm() * other.norm()
    )
    assert isinstance(product, complex) == is_complex
    for row, value, gradient, hessian in zip(
        x, tensor(x), tensor.gradient(x), tensor.hessian(x), strict=True
    ):
        # The array with all slots but two, one and none filled.
        left = [dense]
        for _ in range(order):
            left.append(left[-1] @ row)
        np.testing.assert_allclose(value, left[-1], atol=1e-10)
        np.testing.assert_allclose(gradient, order * left[-2], atol=1e-10)
        if order > 1:
            np.testing.assert_allclose(hessian, order * (order - 1) * left[-3], atol=1e-10)
        if order > 2:
            np.testing.assert_allclose(tensor.contract(row).to_dense(), left[1], atol=1e-10)
            np.testing.assert_allclose(tensor.contract(row, 2).to_dense(), left[2], atol=1e-10)


@pytest.mark.parametrize("new_dim", [1, 2, 3, 5])
def test_change_of_variables_is_substitution(new_dim):
    tensor = random_tensor(3, 4)
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal((3, new_dim))
    y = rng.standard_normal((6, new_dim))
    np.testing.assert_allclose(tensor.change_variables(matrix)(y), tensor(y @ matrix.T), atol=1e-10)


def test_arithmetic():
    a, b = random_tensor(3, 3, 0), random_tensor(3, 3, 1)
    x = np.random.default_rng(3).standard_normal((4, 3))
    np.testing.assert_allclose((2 * a - b / 4 + -a)(x), 2 * a(x) - b(x) / 4 - a(x), atol=1e-12)
    np.testing.assert_allclose((a * b)(x), a(x) * b(x), rtol=1e-10)
    assert (a * b).order == 6
    assert sum([a, b]) == a + b
    assert (1j * a).is_complex
    assert a == SymmetricTensor(3, 3, a.coefficients)
    assert a != b


def test_values_stay_values_and_are_shown_in_a_line():
    source = np.array([1.0, 0.0, -1.0, 0.0])
    tensor = SymmetricTensor(3, 2, source)
    source[0] = 7
    assert tensor.coefficients[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        tensor.coefficients[0] = 7
    with pytest.raises(AttributeError):
        tensor.order = 4
    assert repr(tensor) == "SymmetricTensor(order=3, dim=2): x^3 - 3*x*y^2"
    assert "smaller terms" in repr(random_tensor(10, 3))
    assert len(repr(random_tensor(10, 3))) < 300
    assert repr(SymmetricTensor.zeros(2, 2)).endswith(": 0")


# --- bad input -----------------------------------------------------------------


def test_symmetrize_takes_the_mean_over_permutations_and_rounding_is_symmetric():
    array = np.arange(8.0).reshape(2, 2, 2)
    mean = sum(array.transpose(axes) for axes in itertools.permutations(range(3))) / 6
    np.testing.assert_allclose(SymmetricTensor.from_dense(array, symmetrize=True).to_dense(), mean)
    assert SymmetricTensor.from_dense(random_tensor(4, 3).to_dense().astype(np.float32)).order == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda T: SymmetricTensor.from_dense(np.arange(8.0).reshape(2, 2, 2)), ValueError, "not symmetric"),
        (lambda T: SymmetricTensor.from_dense(np.zeros((2, 3, 2))), ValueError, "all sides equal"),
        (lambda T: SymmetricTensor.from_dense(np.full((2, 2), np.inf)), ValueError, "NaN or infinity"),
        (lambda T: SymmetricTensor.from_dense([[1.0, 2.0], [2.0]]), ValueError, "different lengths"),
        (lambda T: SymmetricTensor.from_dense(np.array([[object()]])), TypeError, "numbers"),
        (lambda T: SymmetricTensor(3, 2, [1, 2, 3]), ValueError, "has 4 coefficients"),
        (lambda T: SymmetricTensor(0, 2, [1]), ValueError, "order must be at least 1"),
        (lambda T: SymmetricTensor(3.5, 2, [1]), TypeError, "an integer"),
        (lambda T: SymmetricTensor(2, 2, [1, np.nan, 2]), ValueError, "NaN"),
        (lambda T: SymmetricTensor.from_waring([1, 2], [[1, 2]], 3), ValueError, "shape"),
        (lambda T: T([1, 2]), ValueError, "3 variables"),
        (lambda T: T.contract(np.ones(3), 3), ValueError, "call the tensor"),
        (lambda T: T + random_tensor(2, 3), ValueError, "differ in shape"),
        (lambda T: T * random_tensor(2, 3), ValueError, "variables"),
        (lambda T: T.change_variables(np.eye(2)), ValueError, "new_dim"),
        (lambda T: T + 1, TypeError, "unsupported"),
        (lambda T: T / 0, ZeroDivisionError, "zero"),
        (lambda T: apolar_product(T, np.ones((3, 3, 3))), TypeError, "SymmetricTensor"),
        (lambda T: hankel(np.ones((2, 2)), 1), TypeError, "SymmetricTensor"),
        (lambda T: hankel(T, 4), ValueError, "at most the order 3"),
        (lambda T: SymmetricTensor(1, 2, np.array([10**400, 1], dtype=object)), ValueError, "too large for"),
    ],
)
def test_wrong_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(random_tensor(3, 3))


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("exponent", [-1060, -700, 740, 1015])
def test_numbers_of_any_size(exponent, is_complex):
    # Powers of two: the same digits everywhere, but for those that the smallest numbers cannot hold.
    tensor = random_tensor(3, 3, is_complex=is_complex)
    scaled = SymmetricTensor(3, 3, scaled_by_power(tensor.coefficients, exponent))
    few_digits = {"rel": 1e-2 if exponent == -1060 else 1e-15}
    assert scaled.norm() == pytest.approx(math.ldexp(tensor.norm(), exponent), **few_digits)
    back = SymmetricTensor.from_dense(scaled.to_dense())
    np.testing.assert_allclose(back.coefficients, scaled.coefficients, rtol=1e-15)
    assert repr(scaled).startswith("SymmetricTensor(order=3, dim=3")
    small = random_tensor(3, 3, seed=1)
    assert complex(apolar_product(small, scaled)) == pytest.approx(
        complex(apolar_product(small, tensor)) * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2),
        **few_digits,
    )


def test_only_what_overflows_is_refused():
    # 1e-300 (1e60 x)^6 is 1e60 x^6.
    tensor = SymmetricTensor.from_waring([1e-300, 1e300], [[1e60, 0], [0, 1e-40]], 6)
    np.testing.assert_allclose(tensor.coefficients, [1e60, 0, 0, 0, 0, 0, 1e60], rtol=1e-12)
    large = SymmetricTensor(2, 2, [1e308, 1e308, 0.0])
    assert large.norm() == pytest.approx(3**0.5 * 1e308)
    assert SymmetricTensor(2, 2, [1.7e308, 0, 1.7e308]).norm() == math.inf
    for compute in (
        lambda: large + large,
        lambda: large * 10,
        lambda: large / 1e-10,
        lambda: large * large,
        lambda: SymmetricTensor.from_waring([1e300], [[1e10, 0]], 3),
        large.to_polynomial,
    ):
        with pytest.raises(ValueError, match="overflows"):
            compute()
    with pytest.raises(ValueError, match="lower the degree"):
        SymmetricTensor.zeros(1100, 2).norm()
