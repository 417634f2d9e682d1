"""Exact linear algebra modulo a prime, where ranks are bounds of the exact ones from below.

Floating-point numbers are integers times powers of two, so that reducing them
modulo an odd prime is exact, and keeps sums and products. A minor that is not
zero modulo the prime is not zero: the rank modulo the prime is at most the exact
rank. A full rank is therefore proved, whatever the rounding elsewhere. The prime
is 1 modulo 4, and has a square root of -1 to which complex numbers reduce.
"""

from itertools import combinations, islice
from math import comb

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.tensor.monomials import monomial_variables

PRIME = 2147483629
"""The largest prime below 2^31 that is 1 modulo 4: products of two residues are 64-bit integers."""
# A square root of -1: g^((p - 1) / 4) for g = 2, which is not a square modulo this prime.
IMAGINARY_UNIT = pow(2, (PRIME - 1) // 4, PRIME)
# Minors that are eliminated together.
BATCH = 500


def residues(array: Array) -> IndexArray:
    """Return floating-point numbers, real or complex, modulo the prime."""
    if np.iscomplexobj(array):
        return (residues(array.real) + IMAGINARY_UNIT * residues(array.imag)) % PRIME
    mantissas, exponents = np.frexp(np.asarray(array, dtype=float))
    integers = np.ldexp(mantissas, 53).astype(np.int64) % PRIME
    distinct, where = np.unique(exponents - 53, return_inverse=True)
    powers = np.array([pow(2, int(e), PRIME) for e in distinct], dtype=np.int64)
    return integers * powers[where.reshape(np.shape(integers))] % PRIME


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
    return len(echelon(matrix)[1])


def echelon(matrix: IndexArray) -> tuple[IndexArray, list[int]]:
    """Return the reduced row echelon form of a matrix of residues, without zero rows, and its pivots."""
    rows = np.array(matrix, dtype=np.int64) % PRIME
    pivots: list[int] = []
    for column in range(rows.shape[1]):
        done = len(pivots)
        if done == len(rows):
            break
        nonzero = np.flatnonzero(rows[done:, column])
        if len(nonzero) == 0:
            continue
        rows[[done, done + nonzero[0]]] = rows[[done + nonzero[0], done]]
        rows[done, column:] = rows[done, column:] * pow(int(rows[done, column]), -1, PRIME) % PRIME
        others = np.flatnonzero(rows[:, column])
        others = others[others != done]
        # To the left of the pivot its row is zero.
        factors = rows[others, column, None]
        rows[others, column:] = (rows[others, column:] - factors * rows[done, column:]) % PRIME
        pivots.append(column)
    return rows[: len(pivots)], pivots


def kernel(matrix: IndexArray) -> IndexArray:
    """Return a basis of the vectors that a matrix of residues sends to zero, one per row."""
    reduced, pivots = echelon(matrix)
    free = np.setdiff1d(np.arange(matrix.shape[1]), pivots)
    basis = np.zeros((len(free), matrix.shape[1]), dtype=np.int64)
    basis[np.arange(len(free)), free] = 1
    basis[:, pivots] = -reduced[:, free].T % PRIME
    return basis


def kruskal_rank(matrix: IndexArray, work: float) -> int:
    """Return a number of rows, any of which are independent: the largest one, if `work` allows.

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
            if _all_independent(matrix, size):
                return size
    return 1


def _all_independent(matrix: IndexArray, size: int) -> bool:
    """Return whether any `size` rows are independent."""
    subsets = combinations(range(len(matrix)), size)
    while batch := list(islice(subsets, BATCH)):
        if not _full_ranks(matrix[np.array(batch)]):
            return False
    return True


def _full_ranks(stack: IndexArray) -> bool:
    """Return whether all matrices of a stack, shape (n, rows, columns), have independent rows."""
    stack = stack.copy()
    every = np.arange(len(stack))
    for row in range(stack.shape[1]):
        pivots = np.argmax(stack[:, row] != 0, axis=1)
        values = stack[every, row, pivots]
        if not np.all(values):
            return False
        # Multiplied crosswise, so that no inverse is needed.
        factors = stack[every, row + 1 :, pivots]
        later = stack[:, row + 1 :] * values[:, None, None] % PRIME
        stack[:, row + 1 :] = (later - factors[..., None] * stack[:, row, None]) % PRIME
    return True
