"""Singular value decompositions of Hankel matrices, from which the structured methods start."""

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, svd
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, weighted_hankel


@dataclass(frozen=True, eq=False)
class HankelSVD:
    """The singular value decomposition of a weighted Hankel matrix, U S R^t.

    Attributes
    ----------
    row_degree : int
    left : ndarray, shape (n_monomials(dim, row_degree), k)
        For the k largest singular values; the others vanish to rounding.
    singular_values : ndarray, shape (n,)
        All of them; zero from k on.
    right : ndarray, shape (n_monomials(dim, order - row_degree), k)
        Transposed, not conjugated.
    """

    row_degree: int
    left: Array
    singular_values: Array
    right: Array

    @classmethod
    def of(cls, tensor: SymmetricTensor, row_degree: int, *, max_dense: int = 1000) -> "HankelSVD":
        """Return that of a tensor; a matrix larger than `max_dense` is first seen through random vectors."""
        matrix = weighted_hankel(tensor, row_degree)
        basis = range_basis(matrix) if min(matrix.shape) > max_dense else None
        core = matrix if basis is None else basis.conj().T @ matrix
        if 2 * row_degree == tensor.order and not tensor.is_complex:
            # Symmetric: eigenvalues take a quarter of the time.
            values, left = np.linalg.eigh(core if basis is None else core @ basis)
            largest_first = np.argsort(-np.abs(values), kind="stable")
            values, left = values[largest_first], left[:, largest_first]
            left = left if basis is None else basis @ left
            right = left * np.where(values < 0, -1.0, 1.0)
            values = np.abs(values)
        else:
            left, values, right = svd(core)
            left, right = (left if basis is None else basis @ left), right.T
        all_values = np.zeros(min(matrix.shape))
        all_values[: len(values)] = values
        return cls(row_degree, left, all_values, right)


def middle_degree(order: int) -> int:
    """Return the row degree of the squarest flattening, ceil(order / 2)."""
    return order - order // 2


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
        if np.linalg.norm(outside) <= TUNING.vanishing * np.linalg.norm(probes):
            return basis
        n_vectors *= 2
    return None
