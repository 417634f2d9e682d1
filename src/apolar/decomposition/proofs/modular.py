"""Exact linear algebra modulo a prime, where ranks are bounds of the exact ones from below.

Floating-point numbers are integers times powers of two, so that reducing them
modulo an odd prime is exact, and keeps sums and products. A minor that is not
zero modulo the prime is not zero: the rank modulo the prime is at most the exact
rank. A full rank is therefore proved, whatever the rounding elsewhere. Products of two
residues are 64-bit integers. The prime is 1 modulo 4, and has a square root of -1 to
which complex numbers reduce.
"""

from collections.abc import Iterable
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.decomposition.exact.arithmetic import flint, to_fmpq
from apolar.decomposition.ranks import PRIME
from apolar.tensor.monomials import monomial_variables


def residues(array: Array) -> IndexArray:
    """Return floating-point numbers, real or complex, modulo the prime."""
    if np.iscomplexobj(array):
        # A square root of -1: 2 is not a square modulo this prime.
        root = pow(2, (PRIME - 1) // 4, PRIME)
        return (residues(array.real) + root * residues(array.imag)) % PRIME

    def residue(value: float) -> int:
        numerator, denominator = float(value).as_integer_ratio()
        return numerator * pow(denominator, -1, PRIME) % PRIME

    return np.asarray(np.frompyfunc(residue, 1, 1)(array), dtype=np.int64)


def power_values(points: IndexArray, degree: int) -> IndexArray:
    """Return the values of all monomials of a degree at residues, shape (n_points, n_monomials)."""
    values = np.ones((len(points), 1), dtype=np.int64)
    for slot, column in enumerate(monomial_variables(points.shape[1], degree).T):
        values = values * points[:, column] % PRIME if slot else points[:, column]
    return values


def product(left: IndexArray, right: IndexArray) -> IndexArray:
    """Return the product of two matrices of residues, of fewer than 2^15 terms each."""
    # In halves of 16 bits, whose products can be added before they are reduced.
    high, low = left >> 16, left & 0xFFFF
    return ((high @ right % PRIME << 16) + low @ right) % PRIME


def rank(matrix: IndexArray) -> int:
    """Return the rank of a matrix of residues."""
    return int(flint.nmod_mat(matrix.tolist(), PRIME).rank())


def kernel(matrix: IndexArray) -> IndexArray:
    """Return a basis of the vectors that a matrix of residues sends to zero, one per row."""
    basis, size = flint.nmod_mat(matrix.tolist(), PRIME).nullspace()
    return np.array(
        [[int(a) for a in row] for row in basis.transpose().tolist()[:size]], dtype=np.int64
    ).reshape(size, matrix.shape[1])


def exact_matrix(rows: Iterable[Iterable[Any]]) -> Any:
    """Return a matrix of real floating-point numbers and fractions, times a number, as one of integers."""
    return flint.fmpq_mat([[to_fmpq(value) for value in row] for row in rows]).numer_denom()[0]


def kruskal_rank(matrix: IndexArray, work: float) -> int:
    """Return the largest number k found such that any k rows are independent.

    Parameters
    ----------
    matrix : ndarray of int, shape (n_rows, n_columns)
    work : float
        Multiplications at most.

    Returns
    -------
    size : int
        0 where a row is zero.
    """
    n_rows, n_columns = matrix.shape
    if not np.all(np.any(matrix, axis=1)):
        return 0
    for size in range(min(n_rows, n_columns), 1, -1):
        needed = comb(n_rows, size) * size**2 * n_columns
        if needed <= work:
            work -= needed
            if all(rank(matrix[list(subset)]) == size for subset in combinations(range(n_rows), size)):
                return size
    return 1
