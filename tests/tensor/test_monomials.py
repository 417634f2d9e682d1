"""Monomials and their order, Hankel matrices, and the apolar product."""

import itertools
from math import factorial, prod

import numpy as np
import pytest

import apolar
from apolar.tensor import monomials


@pytest.mark.parametrize(("dim", "degree"), [(1, 1), (1, 4), (2, 3), (5, 3), (4, 5), (6, 1), (3, 0)])
def test_monomials_are_all_in_lexicographic_order(dim, degree):
    variables, table = monomials.monomial_variables(dim, degree), monomials.exponents(dim, degree)
    expected = list(itertools.combinations_with_replacement(range(dim), degree))
    assert [tuple(row) for row in variables] == expected
    assert len(expected) == monomials.n_monomials(dim, degree)
    np.testing.assert_array_equal(table, [[row.count(j) for j in range(dim)] for row in expected])
    counts = [factorial(degree) // prod(map(factorial, row)) for row in table.tolist()]
    np.testing.assert_array_equal(monomials.multinomials(dim, degree), counts)
    # Positions do not depend on the order of the variables.
    shuffled = np.random.default_rng(0).permuted(variables, axis=1)
    np.testing.assert_array_equal(monomials.positions(shuffled, dim), np.arange(len(variables)))


def test_high_degrees_do_not_overflow_and_what_no_memory_holds_is_refused():
    assert np.isfinite(monomials.multinomials(2, 200)).all()
    assert monomials.multinomials(2, 200)[1] == pytest.approx(200)
    with pytest.raises(MemoryError, match="GiB"):
        monomials.monomial_variables(10_000, 5)


@pytest.mark.parametrize("row_degree", range(6))
def test_hankel_entries_are_coefficients_of_products(row_degree):
    tensor = apolar.SymmetricTensor(5, 3, np.arange(21.0))
    rows, columns = monomials.exponents(3, row_degree), monomials.exponents(3, 5 - row_degree)
    lookup = {tuple(e): c for e, c in zip(tensor.exponents, tensor.coefficients, strict=True)}
    expected = [[lookup[tuple(a + b)] for b in columns] for a in rows]
    np.testing.assert_array_equal(apolar.hankel(tensor, row_degree), expected)
