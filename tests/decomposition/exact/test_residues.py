"""Arithmetic modulo a prime and in rational numbers, against that of Python's integers."""

from fractions import Fraction

import numpy as np
import pytest

from apolar.decomposition.exact.arithmetic import (
    exact_matrix,
    kruskal_rank,
    residue_kernel,
    residue_product,
    residue_rank,
    residues,
)
from apolar.decomposition.ranks import PRIME


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


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (7, 7)])
@pytest.mark.parametrize("rank", [0, 1, 4])
def test_ranks_of_integer_matrices_are_exact(shape, rank):
    rng = np.random.default_rng(rank)
    matrix = rng.integers(-99, 99, size=(shape[0], rank)) @ rng.integers(-99, 99, size=(rank, shape[1]))
    assert residue_rank(residues(matrix / 8)) == rank
    assert exact_matrix(matrix / 8).rank() == rank
    kernel = residue_kernel(residues(matrix))
    assert len(kernel) == shape[1] - rank
    assert not np.any(residue_product(residues(matrix), kernel.T))
    assert residue_rank(kernel) == len(kernel)


def test_kruskal_ranks():
    generic = residues(np.random.default_rng(0).standard_normal((7, 4)))
    assert kruskal_rank(generic, 1e6) == 4
    flat = residues(np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]))
    assert kruskal_rank(flat, 1e6) == 2
    assert kruskal_rank(flat[[0, 0, 1]], 1e6) == 1
    assert kruskal_rank(flat * np.array([[1], [0], [1], [1]]), 1e6) == 0
    # Too much work: a bound all the same.
    assert kruskal_rank(generic, 1000) < 4
