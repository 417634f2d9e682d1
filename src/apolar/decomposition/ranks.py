"""Singular values of Hankel matrices; rules, which map them to a rank; limits of the methods; known ranks."""

import itertools
import numbers
from collections.abc import Callable
from math import comb, gcd, lcm, prod
from operator import attrgetter
from typing import Any

import numpy as np

from apolar._core.arrays import Array, svd, svd_of_range, unit_rows
from apolar._core.checks import check_integer, numeric_array, positive_number
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import monomial_values, multinomials, product_positions

RankRule = Callable[[Array], int]
"""Takes the singular values, largest first, and returns the rank."""
PRIME = 2147483629
"""The largest prime below 2^31 that is 1 modulo 4. Ranks modulo it are at most those over the rationals."""
# The median modulus of Wigner's semicircle law, of radius one.
SEMICIRCLE_MEDIAN = 0.4040


class HankelSVD:
    """The singular value decomposition of a weighted Hankel matrix, U S R^t.

    Weighted by the roots of the multinomial coefficients, the Hankel matrix is the flattening of the full
    array on its distinct rows and columns: it has the same singular values, so that cutting it to a rank
    does not depend on the coordinates.

    Parameters
    ----------
    tensor : SymmetricTensor
    row_degree : int
    max_dense : int, default=1000
        A larger matrix is first seen through random vectors.

    Attributes
    ----------
    dim, order : int
        Of the tensor.
    row_degree : int
    left : ndarray, shape (n_monomials(dim, row_degree), k)
        For the k largest singular values; the others vanish to rounding.
    singular_values : ndarray, shape (n,)
        All of them.
    right : ndarray, shape (n_monomials(dim, order - row_degree), k)
        Transposed, not conjugated.
    """

    def __init__(self, tensor: SymmetricTensor, row_degree: int, *, max_dense: int = 1000) -> None:
        self.dim, self.order, self.row_degree = tensor.dim, tensor.order, row_degree
        column_degree = tensor.order - row_degree
        rows = np.sqrt(multinomials(tensor.dim, row_degree))
        columns = np.sqrt(multinomials(tensor.dim, column_degree))
        entries = tensor.coefficients[product_positions(tensor.dim, row_degree, column_degree)]
        matrix = rows[:, None] * entries * columns
        basis = range_basis(matrix) if min(matrix.shape) > max_dense else None
        core = matrix if basis is None else basis.conj().T @ matrix
        if row_degree == column_degree and not tensor.is_complex:
            # Symmetric: eigenvalues take a quarter of the time.
            signed, left = np.linalg.eigh(core if basis is None else core @ basis)
            by_size = np.argsort(-np.abs(signed), kind="stable")
            signed, left = signed[by_size], left[:, by_size]
            left = left if basis is None else basis @ left
            values, right = np.abs(signed), left * np.where(signed < 0, -1.0, 1.0)
        else:
            left, values, transposed = svd_of_range(core, numerical_rank)
            left, right = (left if basis is None else basis @ left), transposed.T
        k = numerical_rank(values)
        self.left, self.right = left[:, :k], right[:, :k]
        self.singular_values = np.pad(values, (0, min(matrix.shape) - len(values)))

    @property
    def tol(self) -> float:
        """To which the vectors are known: where their values differ much, rounding moves the last ones."""
        values = self.singular_values
        return max(TUNING.exact_residual, TUNING.rounding * values[0] / values[self.left.shape[1] - 1])


def range_basis(matrix: Array, n_vectors: int = 128, n_probes: int = 4) -> Array | None:
    """Return an orthonormal basis of the range of a matrix of low rank, or None if its rank is not low.

    Images of random vectors span the range once there are as many as the rank
    [halko2011]; further images then have no part outside. The seed is fixed:
    what is returned is the range, whatever the vectors are.
    """
    rng = np.random.default_rng(0)
    probes = matrix @ rng.standard_normal((matrix.shape[1], n_probes))
    while n_vectors <= min(matrix.shape) // 3:
        images = matrix @ rng.standard_normal((matrix.shape[1], n_vectors))
        basis = np.linalg.qr(images)[0]
        outside = probes - basis @ (basis.conj().T @ probes)
        if np.linalg.norm(outside) <= TUNING.rounding * np.linalg.norm(probes):
            return basis
        n_vectors *= 2
    return None


def numerical_rank(singular_values: Array) -> int:
    """Return the number of singular values that are not rounding of the largest."""
    values = np.asarray(singular_values)
    rounding = 20 * np.finfo(float).eps * np.sqrt(len(values))
    return int(np.count_nonzero(values > rounding * values[0]))


def noise_floor_rank(singular_values: Array) -> int | None:
    """Return the rank above a flat floor of singular values, or None if there is no floor.

    Noise leaves singular values of one size: at least three of them, the
    largest within a factor of ten of their median, a factor of ten below the others.
    """
    values = np.asarray(singular_values)[: numerical_rank(singular_values)]
    best_drop, rank = 10.0, None
    for i in range(1, len(values) - 2):
        if values[i] <= 10 * np.median(values[i:]) and values[i - 1] / values[i] >= best_drop:
            best_drop, rank = float(values[i - 1] / values[i]), i
    return rank


def noise_edge_rank(singular_values: Array) -> tuple[int, float] | None:
    """Return the rank above the spectrum of noise, and the norm of the noise, or None if none can be told.

    Singular values of a large matrix of noise fill a quarter of a circle, whose
    edge is known from their median, however near to it the signal is (Wigner).
    The weighted Hankel matrix of noise has entries in common; its edge is still
    within a few per cent of that, and the norm within a third.

    Parameters
    ----------
    singular_values : array_like, shape (n,)
        Largest first.

    Returns
    -------
    rank : int
        At least 1, and at least 20 less than n.
    norm : float
        Of the noise, estimated.
    """
    values = np.asarray(singular_values)
    rank = 0
    for _ in range(len(values)):
        edge = float(np.median(values[rank:])) / SEMICIRCLE_MEDIAN
        above = int(np.count_nonzero(values > 1.05 * edge))
        if above == rank or len(values) - above < 20:
            break
        rank = above
    if above != rank or rank == 0:
        return None
    return rank, 0.5 * edge * float(np.sqrt(len(values)))


def exact_rank(tensor: SymmetricTensor) -> tuple[int | None, bool]:
    """Return the rank of the squarest Hankel matrix of a tensor with exact coefficients, modulo a prime.

    It is a lower bound of the rank of the tensor, where rounding hides small or nearly equal terms too.

    Parameters
    ----------
    tensor : SymmetricTensor

    Returns
    -------
    rank : int or None
        None without exact coefficients; 0 where the matrix is too large.
    hides_digits : bool
        Whether parts of the tensor are below the rounding of its largest coefficient.

    Examples
    --------
    >>> import apolar
    >>> from apolar.decomposition.ranks import exact_rank
    >>> exact_rank(apolar.SymmetricTensor.from_polynomial("x^3 + y^3/10^30"))
    (2, True)
    """
    if tensor.exact_coefficients is None:
        return None, False
    values = np.array(tensor.exact_coefficients)
    unit = lcm(*np.frompyfunc(attrgetter("denominator"), 1, 1)(values))
    integers = np.frompyfunc(int, 1, 1)(values * unit)
    hides_digits = bool(np.abs(integers).max() > gcd(*integers) * round(1 / TUNING.rounding))
    where = product_positions(tensor.dim, tensor.order - tensor.order // 2, tensor.order // 2)
    if where.size * min(where.shape) > TUNING.dense_work:
        return 0, hides_digits
    matrix, rank = (integers % PRIME).astype(np.int64)[where], 0
    for column in range(matrix.shape[1]):
        rows = rank + np.flatnonzero(matrix[rank:, column])
        if len(rows):
            matrix[[rank, rows[0]]] = matrix[[rows[0], rank]]
            pivot = matrix[rank] * pow(int(matrix[rank, column]), -1, PRIME) % PRIME
            matrix[rank + 1 :] = (matrix[rank + 1 :] - matrix[rank + 1 :, column, None] * pivot) % PRIME
            rank += 1
    return rank, hides_digits


def tolerance(rtol: float) -> RankRule:
    """Return the rule that counts singular values above `rtol` times the largest.

    Parameters
    ----------
    rtol : float
        For noisy tensors, a little above the relative noise.

    Returns
    -------
    rule : callable

    Examples
    --------
    >>> from apolar.decomposition.ranks import tolerance
    >>> tolerance(1e-2)([3.0, 1.0, 0.01, 0.009])
    2
    """
    rtol = positive_number(rtol, "rtol")

    def rule(singular_values: Array) -> int:
        values = np.asarray(singular_values)
        return int(np.count_nonzero(values > rtol * values[0]))

    return rule


def gap(max_rank: int | None = None) -> RankRule:
    """Return the rule that cuts where the singular values drop by the largest factor.

    For noisy tensors of a rank below the number of singular values: the drop
    from signal to noise needs both to be there.

    Parameters
    ----------
    max_rank : int, optional
        The largest rank to consider.

    Returns
    -------
    rule : callable

    Examples
    --------
    >>> from apolar.decomposition.ranks import gap
    >>> gap()([3.0, 1.0, 0.01, 0.009])
    2
    """
    if max_rank is not None:
        max_rank = check_integer(max_rank, "max_rank", least=1)

    def rule(singular_values: Array) -> int:
        values = np.asarray(singular_values, dtype=float)
        if len(values) == 1:
            return 1
        # Drops below rounding mean nothing.
        floored = np.maximum(values, np.finfo(float).eps * len(values) * values[0])
        drops = floored[:-1] / floored[1:]
        return int(np.argmax(drops[:max_rank])) + 1

    return rule


def resolve_rank(rank: int | RankRule | None, singular_values: Array) -> tuple[int, str]:
    """Return a rank as `decompose` takes it, as a number, and where the number comes from."""
    if rank is None:
        return numerical_rank(singular_values), "the numerical rank of the Hankel matrix"
    if callable(rank):
        number = rank(singular_values)
        if isinstance(number, bool) or not isinstance(number, numbers.Integral) or number < 1:
            raise ValueError(f"The rank rule returned {number!r}: it must return an integer from 1 on.")
        return int(number), "the rank rule"
    return rank, "given"


def generic_rank(dim: int, order: int) -> int:
    """Return the rank over C of almost every tensor [alexander1995].

    Examples
    --------
    >>> from apolar.decomposition.ranks import generic_rank
    >>> generic_rank(3, 4), generic_rank(3, 5)
    (6, 7)
    """
    if order <= 2:
        return dim if order == 2 else 1
    rank = -(-n_monomials(dim, order) // dim)
    defective = {(3, 4), (4, 4), (5, 4), (5, 3)}
    return rank + 1 if (dim, order) in defective else rank


def interpolation_degree(points: Any) -> int:
    """Return the least degree of forms that interpolate at points: from there on, powers are independent.

    A sum of powers of order d with points of interpolation degree below d / 2 is identifiable, and algorithm
    2 of the paper finds it [khouja2022moments, section 3].

    Parameters
    ----------
    points : array_like, shape (n_points, dim)
        Real or complex, none of them zero or a multiple of another.

    Returns
    -------
    degree : int
        The number of points less one at most, as of points on a line.

    Examples
    --------
    >>> import apolar
    >>> apolar.interpolation_degree([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    1
    >>> apolar.interpolation_degree([[1, 0], [1, 1], [1, 2], [1, 3]])
    3
    """
    array = numeric_array(points, "points")
    if array.ndim != 2 or not array.size:
        raise ValueError(f"points must have shape (n_points, dim); got {array.shape}.")
    if not np.all(np.linalg.norm(array, axis=1) > 0):
        raise ValueError("A point is zero: leave it out.")
    units, n_points = unit_rows(array), len(array)
    for degree in range(n_points):
        powers = monomial_values(units, degree) * np.sqrt(multinomials(units.shape[1], degree))
        if powers.shape[1] >= n_points and numerical_rank(svd(powers)[1]) == n_points:
            return degree
    raise ValueError("Two points are the same, up to a factor and rounding: leave one of them out.")


def pencil_limit(dim: int, order: int, row_degree: int) -> int:
    """Return the largest rank of algorithm 2 for generic points."""
    return min(n_monomials(dim, row_degree - 1), n_monomials(dim, order - row_degree))


def power_method_limit(dim: int, order: int) -> int:
    """Return the largest rank of the subspace power method for generic points [kileel2019]."""
    half = order // 2
    if order % 2:
        return n_monomials(dim, half)
    return max(comb(dim + half - 1, half) - dim, 1)


def monomial_rank(exponents: Array) -> int:
    """Return the rank over C of a monomial: the product of all a_i + 1 but the least [carlini2012].

    Over R it is the same where the least exponent is 1.

    Examples
    --------
    >>> from apolar.decomposition.ranks import monomial_rank
    >>> monomial_rank([1, 1, 1]), monomial_rank([2, 2])
    (4, 3)
    """
    used = sorted(int(a) for a in exponents if a > 0)
    return prod(a + 1 for a in used[1:])


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
        # The zeros x, at y = 1, of a polynomial of degree n in the apolar ideal of the monomial, y being the
        # variable of the least exponent. In general the polynomial is x^n - y^n; where y^2 is in the ideal,
        # any without x^(n-1) y: its zeros are real numbers that sum to zero, and may be rational.
        coordinates: list[Array] = []
        for n in row[used[1:]] + 1:
            roots_of_unity = np.exp(2j * np.pi * np.arange(n) / n)
            coordinates.append(roots_of_unity if least > 1 else np.linspace(-1, 1, n))
        for values in itertools.product(*coordinates):
            point = np.zeros(tensor.dim, dtype=np.result_type(float, *values))
            point[used[0]] = 1
            point[used[1:]] = values
            points.append(point)
    return unit_rows(np.array(points))
