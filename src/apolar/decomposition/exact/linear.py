"""Linear equations with rational coefficients."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np

from apolar._core.arrays import Array

# Rows that determine the solution are found modulo this prime: products of two residues fit 64 bits.
PRIME = 2**31 - 1


def independent_rows(rows: list[list[Fraction]], rank: int) -> list[int] | None:
    """Return rows of full rank modulo a prime, and so over the rationals, or None if there are too few."""
    if any(a.denominator % PRIME == 0 for row in rows for a in row):
        return None
    residues = np.array(
        [[a.numerator * pow(a.denominator, -1, PRIME) % PRIME for a in row] for row in rows], dtype=np.int64
    )
    chosen: list[int] = []
    for k in range(rank):
        candidates = np.flatnonzero(residues[:, k])
        candidates = candidates[~np.isin(candidates, chosen)]
        if len(candidates) == 0:
            return None
        pivot = int(candidates[0])
        chosen.append(pivot)
        inverse = pow(int(residues[pivot, k]), -1, PRIME)
        normalised = residues[pivot] * inverse % PRIME
        others: Array = residues[:, k].copy()
        others[chosen] = 0
        residues = (residues - others[:, None] * normalised % PRIME) % PRIME
    return chosen


def square_solution(equations: list[list[Fraction]]) -> list[Fraction]:
    """Return the solution of square equations of full rank, by Bareiss's elimination in integers."""
    n = len(equations)
    rows = []
    for equation in equations:
        denominator = lcm(*(value.denominator for value in equation))
        rows.append([int(value * denominator) for value in equation])
    before = 1
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            rows[i] = [
                (rows[k][k] * b - rows[i][k] * a) // before for a, b in zip(rows[k], rows[i], strict=True)
            ]
        before = rows[k][k]
    solution = [Fraction(0)] * n
    for k in range(n - 1, -1, -1):
        known = sum((rows[k][j] * solution[j] for j in range(k + 1, n)), Fraction(0))
        solution[k] = (rows[k][n] - known) / rows[k][k]
    return solution
