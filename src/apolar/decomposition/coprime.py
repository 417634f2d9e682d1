"""Sums of monomials that share no variable: their ranks and terms are known."""

import itertools
from math import prod

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.tensor import SymmetricTensor


def monomial_rank(exponents: Array) -> int:
    """Return the rank over C of a monomial: the product of all a_i + 1 but the least [carlini2012].

    Over R it is the same where the least exponent is 1.

    Examples
    --------
    >>> from apolar.decomposition.coprime import monomial_rank
    >>> monomial_rank([1, 1, 1]), monomial_rank([2, 2])
    (4, 3)
    """
    used = sorted(int(a) for a in exponents if a > 0)
    return prod(a + 1 for a in used[1:])


def monomials_bound(tensor: SymmetricTensor) -> int:
    """Return the sum of the ranks over C of the monomials of a form: at least the rank of the form."""
    return sum(monomial_rank(row) for row in tensor.exponents[tensor.coefficients != 0])


def coprime_points(tensor: SymmetricTensor, allow_complex: bool) -> Array | None:
    """Return the points of a least decomposition of a sum of coprime monomials, or None for other forms.

    The rank of such a sum is the sum of the ranks [carlini2012]. The points of
    a monomial are the zeros of a complete intersection in its apolar ideal.

    Parameters
    ----------
    tensor : SymmetricTensor
        Not zero.
    allow_complex : bool
        Without it, monomials whose least exponent is above 1 are other forms.

    Returns
    -------
    points : ndarray, shape (rank, dim), or None
    """
    rows = tensor.exponents[tensor.coefficients != 0]
    if np.any(np.count_nonzero(rows, axis=0) > 1):
        return None
    points = []
    for row in rows:
        used = np.flatnonzero(row)
        used = used[np.argsort(row[used], kind="stable")]
        least = row[used[0]]
        if len(used) > 1 and least > 1 and not allow_complex:
            return None
        coordinates = [_coordinates(int(row[i]) + 1, len(used) > 1 and least > 1) for i in used[1:]]
        for values in itertools.product(*coordinates):
            point = np.zeros(tensor.dim, dtype=np.result_type(float, *values))
            point[used[0]] = 1
            point[used[1:]] = values
            points.append(point)
    return unit_rows(np.array(points))


def _coordinates(n: int, is_complex: bool) -> Array:
    """Return the zeros x, at y = 1, of a polynomial of degree n in the apolar ideal of a monomial.

    Here y is the variable of the least exponent. In general the polynomial is x^n - y^n; where y^2 is in the
    ideal, any without x^(n-1) y: its zeros are real numbers that sum to zero.
    """
    if is_complex:
        return np.exp(2j * np.pi * np.arange(n) / n)
    return np.cos(np.pi * (np.arange(n) + 0.5) / n) * (np.sqrt(2) if n == 2 else 1.0)
