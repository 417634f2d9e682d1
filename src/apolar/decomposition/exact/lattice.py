"""Integer relations between numbers of many digits, by lattice reduction in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from apolar.decomposition.exact.fixed_point import FixedPoint

# A relation counts if it needs no more than this share of the digits: one by chance would need them all.
SHARE = 0.7


def reduced_basis(basis: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return an LLL-reduced basis of a lattice [lenstra1982].

    The variant with integers only, as in [cohen1993, algorithm 2.6.7].

    Parameters
    ----------
    basis : sequence of sequences of int
        Rows, linearly independent.

    Returns
    -------
    reduced : list of list of int
        Short vectors first.

    Examples
    --------
    >>> from apolar.decomposition.exact.lattice import reduced_basis
    >>> reduced_basis([[1, 0, 1000], [0, 1, 1414]])[0]
    [17, -12, 32]
    """
    rows = [list(row) for row in basis]
    n = len(rows)
    # Determinants of the Gram matrices of the first rows, and the Gram-Schmidt coefficients times these.
    minors = [1] + [0] * n
    scaled = [[0] * n for _ in range(n)]
    k, known = 0, -1
    while k < n:
        if k > known:
            known = k
            for j in range(k + 1):
                value = _dot(rows[k], rows[j])
                for i in range(j):
                    value = (minors[i + 1] * value - scaled[k][i] * scaled[j][i]) // minors[i]
                if j < k:
                    scaled[k][j] = value
                else:
                    minors[k + 1] = value
            if k == 0:
                k = 1
                continue
        _subtract(rows, scaled, minors, k, k - 1)
        lower = scaled[k][k - 1]
        # Lovász's condition with 3/4.
        if 4 * (minors[k + 1] * minors[k - 1] + lower * lower) < 3 * minors[k] * minors[k]:
            _swap(rows, scaled, minors, k, known)
            k = max(1, k - 1)
        else:
            for j in range(k - 2, -1, -1):
                _subtract(rows, scaled, minors, k, j)
            k += 1
    return rows


def _subtract(rows: list[list[int]], scaled: list[list[int]], minors: list[int], k: int, j: int) -> None:
    """Subtract from row k the multiple of row j that makes it as short as can be."""
    if 2 * abs(scaled[k][j]) <= minors[j + 1]:
        return
    multiple = (2 * scaled[k][j] + minors[j + 1]) // (2 * minors[j + 1])
    rows[k] = [a - multiple * b for a, b in zip(rows[k], rows[j], strict=True)]
    scaled[k][j] -= multiple * minors[j + 1]
    for i in range(j):
        scaled[k][i] -= multiple * scaled[j][i]


def _swap(rows: list[list[int]], scaled: list[list[int]], minors: list[int], k: int, known: int) -> None:
    """Exchange rows k - 1 and k, and update the Gram-Schmidt coefficients."""
    rows[k - 1], rows[k] = rows[k], rows[k - 1]
    for j in range(k - 1):
        scaled[k - 1][j], scaled[k][j] = scaled[k][j], scaled[k - 1][j]
    lower = scaled[k][k - 1]
    minor = (minors[k - 1] * minors[k + 1] + lower * lower) // minors[k]
    for i in range(k + 1, known + 1):
        kept = scaled[i][k]
        scaled[i][k] = (minors[k + 1] * scaled[i][k - 1] - lower * kept) // minors[k]
        scaled[i][k - 1] = (minor * kept + lower * scaled[i][k]) // minors[k + 1]
    minors[k] = minor


def _dot(first: Sequence[int], second: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(first, second, strict=True))


def integer_relation(values: Sequence[FixedPoint], bits: int) -> list[int] | None:
    """Return small integers, not all zero, whose sum with these numbers is zero, or None.

    Parameters
    ----------
    values : sequence of FixedPoint
        Single numbers, real or complex.
    bits : int
        After the binary point, that are known to be right.

    Returns
    -------
    relation : list of int or None
        None where what is found is as long as for numbers without a relation.
    """
    basis = []
    for k, value in enumerate(values):
        real, imaginary = value.with_bits(bits).parts
        basis.append([int(i == k) for i in range(len(values))] + [real, imaginary])
    shortest = min(reduced_basis(basis), key=lambda row: _dot(row, row))
    relation, rest = shortest[: len(values)], shortest[len(values) :]
    longest = max(abs(a) for a in shortest).bit_length()
    if not any(relation) or longest * len(values) > SHARE * bits:
        return None
    largest = max(abs(a) for a in relation)
    return relation if max(abs(a) for a in rest) <= 4 * len(values) * largest else None
