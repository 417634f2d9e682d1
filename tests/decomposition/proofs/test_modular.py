"""Arithmetic modulo a prime and in rational numbers, against that of Python's integers."""

from fractions import Fraction

import numpy as np
import pytest

from apolar.decomposition.proofs import modular
from apolar.decomposition.ranks import PRIME


def residue(value):
    fraction = Fraction(value)
    return fraction.numerator * pow(fraction.denominator, -1, PRIME) % PRIME


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.1, -1e300, 5e-324, 2.0**60, np.pi])
def test_numbers_reduce_exactly(value):
    assert modular.residues(np.array([value]))[0] == residue(value)


def test_complex_numbers_reduce_with_their_products():
    assert pow(int(modular.residues(np.array([1j]))[0]), 2, PRIME) == PRIME - 1
    left, right = 1.5 - 2j, 0.25 + 3j  # the product is exact in floating point
    a, b, both = modular.residues(np.array([left, right, left * right]))
    assert a * b % PRIME == both


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (7, 7)])
@pytest.mark.parametrize("rank", [0, 1, 4])
def test_ranks_of_integer_matrices_are_exact(shape, rank):
    rng = np.random.default_rng(rank)
    matrix = rng.integers(-99, 99, size=(shape[0], rank)) @ rng.integers(-99, 99, size=(rank, shape[1]))
    assert modular.rank(modular.residues(matrix / 8)) == rank
    assert modular.exact_matrix(matrix / 8).rank() == rank
    kernel = modular.kernel(modular.residues(matrix))
    assert len(kernel) == shape[1] - rank
    assert not np.any(modular.product(modular.residues(matrix), kernel.T))
    assert modular.rank(kernel) == len(kernel)


def test_kruskal_ranks():
    generic = modular.residues(np.random.default_rng(0).standard_normal((7, 4)))
    assert modular.kruskal_rank(generic, 1e6) == 4
    flat = modular.residues(np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]))
    assert modular.kruskal_rank(flat, 1e6) == 2
    assert modular.kruskal_rank(flat[[0, 0, 1]], 1e6) == 1
    assert modular.kruskal_rank(flat * np.array([[1], [0], [1], [1]]), 1e6) == 0
    # Too much work: a bound all the same.
    assert modular.kruskal_rank(generic, 1000) < 4
