"""Leading eigenvectors of the covariance of rows, by a randomised range finder that does not form it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import DeviceCopies
from apolar.data import Rows, on_checked
from apolar.moments.covariance import shift_and_offset, shifted
from apolar.moments.sums import column_sums

# Extra random directions of the range finder, its largest number of power iterations, and the relative change
# of the leading eigenvalues at which it stops.
OVERSAMPLING = 10
MAX_ROUNDS = 20
EIGENVALUE_TOL = 1e-6

NO_NOISE = (
    "The data have no noise: they lie in a subspace of as many dimensions as there are components. "
    "Remove columns that depend on others, or ask for fewer components."
)


def leading_directions(
    rows: Rows,
    mean: Array,
    variance: float,
    weight: float,
    n_signal: int,
    rng: np.random.Generator,
    *,
    or_fewer: bool = False,
) -> tuple[Array, Array]:
    """Return leading eigenvalues and eigenvectors of the covariance without forming it [halko2011].

    Parameters
    ----------
    rows : Rows
        Rereadable.
    mean : ndarray, shape (n_features,)
    variance : float
        The sum of the variances of the columns.
    weight : float
        The total weight of the rows.
    n_signal : int
        The number of eigenvectors.
    rng : numpy.random.Generator
    or_fewer : bool, default=False
        Whether a covariance of lower rank gives fewer eigenvectors; by default, it is an error.

    Returns
    -------
    eigenvalues : ndarray
        Largest first; `n_signal` of them, and some less accurate ones.
    eigenvectors : ndarray, shape (n_features, n_signal)
    """
    n_directions = min(n_signal + OVERSAMPLING, rows.n_features)
    basis = np.linalg.qr(rng.standard_normal((rows.n_features, n_directions)))[0]
    shift, offset = shift_and_offset(rows, mean, variance)
    device_shift = None if shift is None else DeviceCopies(shift)
    previous = np.zeros(n_signal)
    for _ in range(MAX_ROUNDS):
        sums_of = CovarianceProduct(device_shift, DeviceCopies(basis), DeviceCopies(offset @ basis))
        working = functools.partial(Rows.chunk_rows, n_working=n_directions)
        product, sums = rows.reduce(on_checked(sums_of), chunk_rows=working)
        image = (product - np.outer(offset, sums)) / weight
        # The Nystroem approximation image (basis^t image)^(-1) image^t is as accurate as one more iteration.
        inner = basis.T @ image
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        positive = values > 1e-12 * values[-1]
        directions, roots, _ = np.linalg.svd(
            image @ (vectors[:, positive] / np.sqrt(values[positive])), full_matrices=False
        )
        rank = int(np.count_nonzero(positive))
        if rank < n_signal:
            if not or_fewer:
                raise ValueError(NO_NOISE)
            n_signal = max(1, rank)
        leading = roots[:n_signal] ** 2
        if np.all(np.abs(leading - previous[:n_signal]) <= EIGENVALUE_TOL * leading):
            break
        previous = leading
        basis = np.linalg.qr(image)[0]
    return roots**2, directions[:, :n_signal]


@dataclass(frozen=True, eq=False)
class CovarianceProduct:
    """The sums of x (z . b) and of z . b for some directions b, which give the covariance times b.

    Here x are the rows minus the shift, and z = x - offset.

    Attributes
    ----------
    shift : DeviceCopies or None
    basis : DeviceCopies, shape (n_features, n_directions)
    centre : DeviceCopies, shape (n_directions,)
        The coordinates of the offset in these directions.
    """

    shift: DeviceCopies | None
    basis: DeviceCopies
    centre: DeviceCopies

    def __call__(self, block: Any, weights: Any) -> tuple[Any, Any]:
        """Return the weighted sums over a block."""
        x = shifted(block, self.shift)
        y = x @ self.basis.to_device_of(x) - self.centre.to_device_of(x)
        weighted = y if weights is None else weights[:, None] * y
        return x.T @ weighted, column_sums(weighted)
