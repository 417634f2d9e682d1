"""The leading eigenvectors of a matrix that is only known by its products, by a randomised range finder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apolar._core.arrays import Array

__all__ = ["leading_eigenvectors"]


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
    # Ten more random directions than needed.
    basis = np.linalg.qr(rng.standard_normal((dim, min(n_vectors + 10, dim))))[0]
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
        if np.all(np.abs(leading - previous[:n_vectors]) <= tol * leading):
            break
        previous = leading
        basis = np.linalg.qr(image)[0]
    return roots**2, directions[:, :n_vectors]
