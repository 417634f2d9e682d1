"""Matrices that are linear in a tensor, of known rank for a power, and their lower bounds of ranks."""

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.decomposition.proofs.rounding import gamma, singular_values_below
from apolar.decomposition.ranks import numerical_rank
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, n_monomials
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
    row_weights : ndarray, shape (n_rows,)
    column_weights : ndarray, shape (n_columns,)
        They make the bases orthonormal.
    power_rank : int
        Also the square of its Frobenius norm, weighted, for tensors of norm one.
    norm : float
        At least its norm, weighted, for tensors of norm one.
    """

    name: str
    positions: IndexArray
    signs: Array
    row_weights: Array
    column_weights: Array
    power_rank: int
    norm: float

    def matrix(self, coefficients: Array) -> Array:
        """Return the matrix of a tensor, in orthonormal bases."""
        return self.weights * coefficients[self.positions]

    @property
    def weights(self) -> Array:
        """The factors of the coefficients, shape (n_rows, n_columns)."""
        return self.row_weights[:, None] * self.signs * self.column_weights

    @property
    def work(self) -> int:
        """The multiplications, about, to find its rank."""
        return self.positions.size * min(self.positions.shape)


def hankel_flattening(dim: int, order: int, row_degree: int) -> Flattening:
    """Return the Hankel matrix of a row degree, weighted to the norm of the full array."""
    rows, columns = (np.sqrt(multinomials(dim, degree)) for degree in (row_degree, order - row_degree))
    positions = product_positions(dim, row_degree, order - row_degree)
    name = f"the Hankel matrix of row degree {row_degree}"
    return Flattening(name, positions, np.ones(positions.shape), rows, columns, 1, 1.0)


def koszul_degree(dim: int, order: int) -> int:
    """Return the degree of the exterior power in the Koszul flattening to use, or 0 where there is none.

    (dim - 1) / 2 is best; less where the matrix would be too large.
    """
    if order < 3 or order % 2 == 0 or dim < 3:
        return 0
    size = n_monomials(dim, order // 2) ** 2
    degrees = range((dim - 1) // 2, 0, -1)
    return next((a for a in degrees if size * comb(dim, a) * comb(dim, a + 1) <= TUNING.koszul_entries), 0)


def koszul_flattening(dim: int, order: int, exterior_degree: int) -> Flattening:
    """Return the Koszul flattening of tensors of odd order 2k + 1 [landsberg2013].

    The map of S^k (x) Lambda^a to S^k (x) Lambda^(a + 1) that contracts the
    tensor with the first factor, and multiplies what is left of the tensor
    into the second. Of a power of a linear form it has rank binom(dim - 1, a).

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
    roots = np.sqrt(multinomials(dim, half))
    times_variable = product_positions(dim, 2 * half, 1)[product_positions(dim, half, half)]
    columns = {subset: i for i, subset in enumerate(combinations(range(dim), exterior_degree))}
    rows = list(combinations(range(dim), exterior_degree + 1))
    shape = (len(rows), len(roots), len(columns), len(roots))
    positions, signs = np.zeros(shape, dtype=np.intp), np.zeros(shape)
    for i, subset in enumerate(rows):
        for place, variable in enumerate(subset):
            rest = columns[subset[:place] + subset[place + 1 :]]
            positions[i, :, rest] = times_variable[:, :, variable]
            signs[i, :, rest] = (-1) ** place
    flat = (len(rows) * len(roots), len(columns) * len(roots))
    return Flattening(
        "the Koszul flattening",
        positions.reshape(flat),
        signs.reshape(flat),
        np.tile(roots, len(rows)),
        np.tile(roots, len(columns)),
        comb(dim - 1, exterior_degree),
        float(np.sqrt(exterior_degree + 1)) * (1 + 1e-15),
    )


def flattenings(dim: int, order: int, max_work: float) -> list[Flattening]:
    """Return the Hankel matrices of all row degrees, and the Koszul flattening, but for those too large.

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
    exterior_degree = koszul_degree(dim, order)
    if exterior_degree:
        found.append(koszul_flattening(dim, order, exterior_degree))
    return [flattening for flattening in found if flattening.work <= max_work]


def koszul_bound(tensor: SymmetricTensor) -> int:
    """Return the lower bound of the rank from the numerical rank of a Koszul flattening, 0 without one.

    Examples
    --------
    >>> import apolar
    >>> from apolar.decomposition.proofs.flattenings import koszul_bound
    >>> koszul_bound(apolar.SymmetricTensor.from_polynomial("x^3 + y^3 + z^3 + x*y*z"))
    4
    """
    degree = koszul_degree(tensor.dim, tensor.order)
    if degree == 0 or not np.any(tensor.coefficients):
        return 0
    flattening = koszul_flattening(tensor.dim, tensor.order, degree)
    values = np.linalg.svd(flattening.matrix(tensor.coefficients), compute_uv=False)
    return -(-numerical_rank(values) // flattening.power_rank)


def certified_bound(tensor: SymmetricTensor, radius: float) -> tuple[int, str]:
    """Return a lower bound of the rank of all tensors within a distance of one, and which matrix proves it.

    A singular value moves by at most the norm of the change, so that those above
    it stay above zero. They are bounded from below with all rounding.

    Parameters
    ----------
    tensor : SymmetricTensor
        Of a norm near one.
    radius : float
        The distance, in the apolar norm.

    Returns
    -------
    bound : int
    by : str
    """
    best, by = 0, "no matrix of the tensor is small enough, and far enough from zero"
    if tensor.order == 1:
        return int(np.linalg.norm(tensor.coefficients) > 2 * radius), "the linear form is not zero"
    for flattening in flattenings(tensor.dim, tensor.order, TUNING.proof_work):
        matrix = flattening.matrix(tensor.coefficients)
        values = singular_values_below(matrix, gamma(2 * tensor.order + 10, matrix))
        above = int(np.count_nonzero(values > flattening.norm * radius * (1 + 1e-14)))
        bound = -(-above // flattening.power_rank)
        if bound > best:
            best, by = bound, flattening.name
    return best, by
