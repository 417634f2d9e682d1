"""Matrices that are linear in a tensor, of known rank for a power, and their lower bounds of ranks."""

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray, svd
from apolar.decomposition.exact.arithmetic import flint, norm, singular_values_below, to_balls
from apolar.decomposition.pencil import solutions
from apolar.decomposition.ranks import numerical_rank
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.coefficients import exact_multinomials
from apolar.tensor.monomials import multinomials, product_positions


@dataclass(frozen=True, eq=False)
class Flattening:
    """A matrix whose entries are coefficients of a tensor, up to sign, or zero.

    Its rank divided by `power_rank`, which is its rank for a power of a linear
    form, is a lower bound of the rank of the tensor, and of its border rank.

    Attributes
    ----------
    name : str
    positions : ndarray of int, shape (n_rows, n_columns)
        Of the coefficients.
    signs : ndarray, shape (n_rows, n_columns)
        1, -1, or 0.
    row_counts : ndarray of int, shape (n_rows,)
    column_counts : ndarray of int, shape (n_columns,)
        With their roots the bases are orthonormal.
    power_rank : int
        Also the square of its Frobenius norm, in these bases, for tensors of norm one.
    exterior_degree : int
        The square of its norm for tensors of norm one is at most one more.
    """

    name: str
    positions: IndexArray
    signs: Array
    row_counts: Array
    column_counts: Array
    power_rank: int = 1
    exterior_degree: int = 0

    @property
    def norm(self) -> Any:
        """At least its norm, in orthonormal bases, for tensors of norm one, as a ball."""
        return flint.arb(self.exterior_degree + 1).sqrt()

    def matrix(self, coefficients: Any) -> Any:
        """Return the matrix of a tensor, in orthonormal bases, in floating point or in balls."""
        kind = to_balls if coefficients.dtype == object else np.float64
        rows, columns = kind(self.row_counts), kind(self.column_counts)
        return np.sqrt(rows)[:, None] * self.signs * np.sqrt(columns) * coefficients[self.positions]

    @property
    def work(self) -> int:
        """The multiplications, about, to find its rank."""
        return self.positions.size * min(self.positions.shape)


def hankel_flattening(dim: int, order: int, row_degree: int) -> Flattening:
    """Return the Hankel matrix of a row degree, weighted to the norm of the full array."""
    rows, columns = (exact_multinomials(dim, degree) for degree in (row_degree, order - row_degree))
    positions = product_positions(dim, row_degree, order - row_degree)
    name = f"the Hankel matrix of row degree {row_degree}"
    return Flattening(name, positions, np.ones(positions.shape), rows, columns)


def koszul_degree(dim: int, order: int, largest: int) -> int:
    """Return the degree of the exterior power in the Koszul flattening to use, or 0 where there is none.

    The largest, or less where the matrix would be too large: (dim - 1) / 2 is best for bounds, and dim / 2
    for the zeros of the kernel.
    """
    if order < 3 or order % 2 == 0 or dim < 3:
        return 0
    size = n_monomials(dim, order // 2) ** 2
    degrees = range(largest, 0, -1)
    return next((a for a in degrees if size * comb(dim, a) * comb(dim, a + 1) <= TUNING.koszul_entries), 0)


def koszul_flattening(dim: int, order: int, exterior_degree: int) -> Flattening:
    """Return the Koszul flattening of tensors of odd order 2k + 1 [landsberg2013].

    The map of S^k (x) Lambda^a to S^k (x) Lambda^(a + 1) that contracts the
    tensor with the first factor, and multiplies what is left of the tensor
    into the second. For a power of a linear form its rank is binom(dim - 1, a).

    Parameters
    ----------
    dim, order : int
    exterior_degree : int
        The a, from 1 to dim - 1.

    Returns
    -------
    flattening : Flattening
        With binom(dim, a + 1) n_monomials(dim, k) rows.
    """
    half = order // 2
    counts = exact_multinomials(dim, half)
    times_variable = product_positions(dim, 2 * half, 1)[product_positions(dim, half, half)]
    columns = {subset: i for i, subset in enumerate(combinations(range(dim), exterior_degree))}
    rows = list(combinations(range(dim), exterior_degree + 1))
    shape = (len(rows), len(counts), len(columns), len(counts))
    positions, signs = np.zeros(shape, dtype=np.intp), np.zeros(shape)
    for i, subset in enumerate(rows):
        for place, variable in enumerate(subset):
            rest = columns[subset[:place] + subset[place + 1 :]]
            positions[i, :, rest] = times_variable[:, :, variable]
            signs[i, :, rest] = (-1) ** place
    flat = (len(rows) * len(counts), len(columns) * len(counts))
    return Flattening(
        "the Koszul flattening",
        positions.reshape(flat),
        signs.reshape(flat),
        np.tile(counts, len(rows)),
        np.tile(counts, len(columns)),
        comb(dim - 1, exterior_degree),
        exterior_degree,
    )


def koszul_image(tensor: SymmetricTensor, exterior_degree: int) -> tuple[Array, int]:
    """Return what vanishes on the forms that the kernel of the Koszul flattening gives, and a rank.

    An element of the kernel is a form w of degree k with exterior values, for which v and w(v) have the
    exterior product zero at the points v of a decomposition into as many terms as the rank allows
    [landsberg2013]. The entries of the product are forms of degree k + 1.

    Parameters
    ----------
    tensor : SymmetricTensor
        Of odd order 2k + 1.
    exterior_degree : int

    Returns
    -------
    image : ndarray, shape (n_monomials(dim, k + 1), n)
        An orthonormal basis in weighted coordinates.
    rank : int
        The least number of terms that the flattening allows.
    """
    dim, half = tensor.dim, tensor.order // 2
    flattening = koszul_flattening(dim, tensor.order, exterior_degree)
    _, values, right = np.linalg.svd(flattening.matrix(tensor.coefficients))
    n_bound = numerical_rank(values)
    kernel = right[n_bound:].conj().reshape(-1, comb(dim, exterior_degree), n_monomials(dim, half))
    kernel = kernel * np.sqrt(multinomials(dim, half))
    places = product_positions(dim, half, 1)
    subsets = list(combinations(range(dim), exterior_degree))
    forms = []
    for subset in combinations(range(dim), exterior_degree + 1):
        entry = np.zeros((len(kernel), n_monomials(dim, half + 1)), dtype=right.dtype)
        for place, variable in enumerate(subset):
            rest = subsets.index(subset[:place] + subset[place + 1 :])
            entry[:, places[:, variable]] += (-1) ** place * kernel[:, rest]
        forms.append(entry)
    equations = np.concatenate(forms) / np.sqrt(multinomials(dim, half + 1))
    return solutions(equations), -(-n_bound // flattening.power_rank)


def flattenings(dim: int, order: int, max_work: float) -> list[Flattening]:
    """Return the Hankel matrices of all row degrees, and the Koszul flattening, except those too large.

    Parameters
    ----------
    dim, order : int
    max_work : float
        Multiplications, about, to find the rank of one.

    Returns
    -------
    flattenings : list of Flattening
    """
    found = []
    for degree in range(1, order // 2 + 1):
        n_rows, n_columns = n_monomials(dim, degree), n_monomials(dim, order - degree)
        if n_rows * n_columns * min(n_rows, n_columns) <= max_work:
            found.append(hankel_flattening(dim, order, degree))
    exterior_degree = koszul_degree(dim, order, (dim - 1) // 2)
    if exterior_degree:
        found.append(koszul_flattening(dim, order, exterior_degree))
    return [flattening for flattening in found if flattening.work <= max_work]


def rank_bound(tensor: SymmetricTensor) -> int:
    """Return the lower bound of the rank of a tensor from the numerical ranks of all its flattenings.

    Examples
    --------
    >>> import apolar
    >>> from apolar.decomposition.proofs.flattenings import rank_bound
    >>> rank_bound(apolar.SymmetricTensor.from_polynomial("x^3 + y^3 + z^3 + x*y*z"))
    4
    """
    bounds = [0]
    for flattening in flattenings(tensor.dim, tensor.order, np.inf):
        values = svd(flattening.matrix(tensor.coefficients))[1]
        bounds.append(-(-numerical_rank(values) // flattening.power_rank))
    return max(bounds)


def certified_bound(coefficients: Any, dim: int, order: int, radius: Any) -> tuple[int, str]:
    """Return a lower bound of the rank of all tensors within a distance of one, and which matrix proves it.

    A singular value moves by at most the norm of the change, so that those above
    it stay above zero. They are bounded from below with all rounding.

    Parameters
    ----------
    coefficients : ndarray of balls, shape (n_monomials,)
        The T_a.
    dim, order : int
    radius : arb
        The distance, in the apolar norm.

    Returns
    -------
    bound : int
    by : str
    """
    best, by = 0, "no matrix of the tensor is small enough, and far enough from zero"
    if order == 1:
        return int(norm(coefficients) > radius), "the linear form is not zero"
    for flattening in flattenings(dim, order, TUNING.proof_work):
        moved = flattening.norm * radius
        values = singular_values_below(flattening.matrix(coefficients), float(moved))
        above = sum(bool(value > moved) for value in values)
        bound = -(-above // flattening.power_rank)
        if bound > best:
            best, by = bound, flattening.name
    return best, by
