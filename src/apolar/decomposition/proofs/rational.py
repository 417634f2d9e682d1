"""Floating-point numbers as the rational ones they are."""

from fractions import Fraction

import numpy as np

from apolar._core.arrays import Array


def rational(array: Array) -> Array:
    """Return real floating-point numbers as an array of fractions."""
    return np.frompyfunc(lambda x: Fraction(float(x)), 1, 1)(array)


def exact_rank(matrix: Array) -> int:
    """Return the rank of a real matrix of floating-point numbers, exactly.

    Elimination without fractions: entries stay minors of the matrix, times a
    power of two [bareiss1968].
    """
    fractions = rational(matrix)
    common = max((x.denominator for x in fractions.flat), default=1)  # denominators are powers of two
    rows = np.frompyfunc(lambda x: int(x * common), 1, 1)(fractions)
    previous, rank = 1, 0
    for column in range(matrix.shape[1]):
        nonzero = np.flatnonzero(rows[rank:, column] != 0)
        if len(nonzero) == 0:
            continue
        rows[[rank, rank + nonzero[0]]] = rows[[rank + nonzero[0], rank]]
        pivot = rows[rank]
        later = rows[rank + 1 :] * pivot[column] - rows[rank + 1 :, column, None] * pivot
        rows[rank + 1 :] = later // previous
        previous = pivot[column]
        rank += 1
        if rank == len(rows):
            break
    return rank
