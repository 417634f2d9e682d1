import itertools
from math import factorial, prod

import numpy as np
import pytest

from apolar.tensor import monomials

SHAPES = [(1, 1), (1, 4), (2, 3), (3, 4), (5, 3), (4, 5), (6, 1), (3, 0)]


@pytest.mark.parametrize(("dim", "degree"), SHAPES)
def test_monomials_are_all_and_in_lexicographic_order(dim, degree):
    expected = list(itertools.combinations_with_replacement(range(dim), degree))
    assert [tuple(row) for row in monomials.monomial_variables(dim, degree)] == expected
    assert len(expected) == monomials.n_monomials(dim, degree)


@pytest.mark.parametrize(("dim", "degree"), SHAPES)
def test_exponents_and_multinomials(dim, degree):
    table = monomials.exponents(dim, degree)
    assert (table.sum(axis=1) == degree).all()
    counts = [factorial(degree) // prod(factorial(e) for e in row) for row in table]
    np.testing.assert_array_equal(monomials.multinomials(dim, degree), counts)
    assert monomials.multinomials(dim, degree).sum() == dim**degree


@pytest.mark.parametrize(("dim", "degree"), SHAPES)
def test_positions_invert_the_order_whatever_the_order_of_the_variables(dim, degree):
    variables = monomials.monomial_variables(dim, degree)
    shuffled = np.random.default_rng(0).permuted(variables, axis=1)
    np.testing.assert_array_equal(monomials.positions(shuffled, dim), np.arange(len(variables)))


def test_product_positions_multiply():
    dim, rows, columns = 3, 2, 3
    left, right = monomials.exponents(dim, rows), monomials.exponents(dim, columns)
    product = monomials.exponents(dim, rows + columns)
    where = monomials.product_positions(dim, rows, columns)
    np.testing.assert_array_equal(product[where], left[:, None] + right)


def test_high_degrees_do_not_overflow():
    assert np.isfinite(monomials.multinomials(2, 200)).all()
    assert monomials.multinomials(2, 200)[1] == pytest.approx(200)


def test_what_no_memory_holds_is_refused_before_it_is_allocated():
    with pytest.raises(MemoryError, match="GiB"):
        monomials.monomial_variables(10_000, 5)
