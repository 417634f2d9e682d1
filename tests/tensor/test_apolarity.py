import numpy as np
import pytest

import apolar


def test_apolar_product_is_the_frobenius_product():
    rng = np.random.default_rng(0)
    a = apolar.SymmetricTensor(4, 3, rng.standard_normal(15) + 1j * rng.standard_normal(15))
    b = apolar.SymmetricTensor(4, 3, rng.standard_normal(15) + 1j * rng.standard_normal(15))
    assert apolar.apolar_product(a, b) == pytest.approx(np.vdot(a.to_dense(), b.to_dense()))
    assert isinstance(apolar.apolar_product(a, b), complex)
    real = apolar.SymmetricTensor(4, 3, a.coefficients.real)
    assert isinstance(apolar.apolar_product(real, real), float)


def test_hankel_entries_are_coefficients_of_products():
    tensor = apolar.SymmetricTensor(5, 3, np.arange(21.0))
    for k in range(6):
        matrix = apolar.hankel(tensor, row_degree=k)
        rows = apolar.SymmetricTensor.zeros(k, 3).exponents if k else np.zeros((1, 3), int)
        columns = apolar.SymmetricTensor.zeros(5 - k, 3).exponents if k < 5 else np.zeros((1, 3), int)
        lookup = {tuple(e): c for e, c in zip(tensor.exponents, tensor.coefficients, strict=True)}
        expected = [[lookup[tuple(a + b)] for b in columns] for a in rows]
        np.testing.assert_array_equal(matrix, expected)
