"""Array types, and operations on arrays that several packages need."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[Any]
"""A real or complex array: float64 or complex128."""

IndexArray = NDArray[np.intp]


def as_plain(array: Array) -> Array | float:
    """Return an array without axes as a float, and others as they are."""
    return array if array.ndim else float(array)


def unit_rows(vectors: Array) -> Array:
    """Return the rows divided by their norms; a row of zeros becomes the first unit vector."""
    norms = np.linalg.norm(vectors, axis=1)
    units = vectors / np.where(norms > 0, norms, 1)[:, None]
    units[norms == 0, 0] = 1
    return units


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition U, S, V^*, also where LAPACK's fast routine fails.

    Divide and conquer, as NumPy calls it, now and then does not converge on a matrix of low rank.
    """
    try:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        left, values, right = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, values, right


def svd_of_range(matrix: Array, rank_of: Callable[[Array], int]) -> tuple[Array, Array, Array]:
    """Return `svd`, with the singular vectors of the range alone.

    The triangular factor of a long matrix has the same singular values. The vectors follow from it where none
    of them belongs to a small value.

    Parameters
    ----------
    matrix : ndarray, shape (m, n)
    rank_of : callable
        Returns the number of singular values that count.

    Returns
    -------
    left : ndarray, shape (m, rank)
    values : ndarray, shape (min(m, n),)
    right : ndarray, shape (rank, n)
    """
    is_long = len(matrix) > 16 * matrix.shape[1]
    core = np.asarray(np.linalg.qr(matrix, mode="r")) if is_long else matrix
    left, values, right = svd(core)
    rank = rank_of(values)
    if is_long and values[rank - 1] > 1e-3 * values[0]:
        left = matrix @ (right[:rank].conj().T / values[:rank])
    elif is_long:
        left = svd(matrix)[0]
    return left[:, :rank], values, right[:rank]


def leading_eigenvectors(
    product: Callable[[Array], Array],
    dim: int,
    n_vectors: int,
    rng: np.random.Generator,
    *,
    max_rounds: int = 20,
    tol: float = 1e-6,
) -> tuple[Array, Array]:
    """Return leading eigenvalues and eigenvectors of a positive semidefinite matrix [halko2011].

    Parameters
    ----------
    product : callable
        Returns the matrix times a basis, shape (dim, n).
    dim, n_vectors : int
    rng : numpy.random.Generator
    max_rounds : int, default=20
        Products at most.
    tol : float, default=1e-6
        The relative change of the leading eigenvalues at which it stops.

    Returns
    -------
    eigenvalues : ndarray
        Largest first; up to ten more than asked for, which are less accurate.
    eigenvectors : ndarray, shape (dim, n)
        `n_vectors` of them, or as many as the rank of the matrix, but one at least.
    """
    # Ten more random directions than needed. One product with all directions, if they are few, is exact, and
    # takes less than several with some.
    n_basis = n_vectors + 10
    basis = np.eye(dim) if dim <= 4 * n_basis else np.linalg.qr(rng.standard_normal((dim, n_basis)))[0]
    previous = np.zeros(n_vectors)
    for _ in range(max_rounds):
        image = product(basis)
        # The Nystroem approximation image (basis^t image)^(-1) image^t is as accurate as one more iteration.
        inner = basis.conj().T @ image
        values, vectors = np.linalg.eigh((inner + inner.conj().T) / 2)
        if not values[-1] > 0:
            return np.zeros(1), basis[:, :1]
        positive = values > 1e-12 * values[-1]
        directions, roots, _ = np.linalg.svd(
            image @ (vectors[:, positive] / np.sqrt(values[positive])), full_matrices=False
        )
        n_vectors = min(n_vectors, max(1, int(np.count_nonzero(positive))))
        leading = roots[:n_vectors] ** 2
        if len(basis) == basis.shape[1] or np.all(np.abs(leading - previous[:n_vectors]) <= tol * leading):
            break
        previous = leading
        basis = np.linalg.qr(image)[0]
    return roots**2, directions[:, :n_vectors]


def binary_exponent(array: Array) -> int:
    """Return e such that the largest real or imaginary part is in [2^(e-1), 2^e) in modulus; 0 for zeros."""
    return int(np.frexp(np.abs(_parts(array)).max(initial=0.0))[1])


def binary_exponents(rows: Array) -> IndexArray:
    """Return `binary_exponent` of each row, shape (n_rows, 1)."""
    return np.frexp(np.abs(_parts(rows)).max(axis=1, keepdims=True, initial=0.0))[1].astype(np.intp)


def scaled_by_power(array: Array, exponent: Any) -> Array:
    """Return the array times 2^exponent, exact unless the result overflows or is subnormal.

    Parameters
    ----------
    array : ndarray, shape (...)
        Real or complex.
    exponent : int or ndarray of int, shape (..., 1)
        The same for all entries, or one per row.

    Returns
    -------
    scaled : ndarray, shape (...)
        Infinite where it overflows, without a warning.
    """
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(_parts(array), exponent)
    return scaled.view(np.complex128) if np.iscomplexobj(array) else scaled


def _parts(array: Array) -> Array:
    """Return real and imaginary parts interleaved along the last axis, or a real array as it is."""
    return np.ascontiguousarray(array).view(np.float64) if np.iscomplexobj(array) else np.asarray(array)


def frozen(array: Array) -> Array:
    """Return the array itself, marked as read-only."""
    array.setflags(write=False)
    return array
