"""Moments about the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array
from apolar.tensor import SymmetricTensor


@dataclass(frozen=True, eq=False)
class CentralMoments:
    """Moments about the mean.

    Attributes
    ----------
    n_rows : float
        The number of rows, where a row of weight two counts as two rows.
    mean : ndarray, shape (n_features,)
    covariance : ndarray, shape (n_features, n_features)
    tensors : tuple of SymmetricTensor
        Of order 3 and above, as far as they are known, in the coordinates of the frame.
    square_times : ndarray, shape (n_features,)
        The mean of |x - mean|^2 (x - mean).
    frame : ndarray, shape (n_features, n_frame), or None
        None if the third moments are in all coordinates.
    """

    n_rows: float
    mean: Array
    covariance: Array
    tensors: tuple[SymmetricTensor, ...]
    square_times: Array
    frame: Array | None = None

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.mean)

    @property
    def order(self) -> int:
        """The highest order of the moments."""
        return 2 + len(self.tensors)

    @property
    def deviations(self) -> Array:
        """The deviation of each column, shape (n_features,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def third(self) -> SymmetricTensor:
        """The third moments, in the coordinates of the frame."""
        return self.tensors[0]

    def mapped(self, matrix: Array) -> CentralMoments:
        """Return the moments of the rows times a matrix, shape (n_features, n_new)."""
        if self.frame is not None:
            raise ValueError(
                "Columns cannot be changed in a sketch with a frame: it has third moments in few directions."
            )
        tensors = tuple(tensor.change_variables(matrix) for tensor in self.tensors)
        # The sum over i of the moments x_i x_i x_j.
        square_times = np.einsum("iij->j", tensors[0].to_dense())
        # One side after the other: products of the factors of both may underflow.
        covariance = matrix.T @ (self.covariance @ matrix)
        return CentralMoments(self.n_rows, self.mean @ matrix, covariance, tensors, square_times)

    def divided(self, units: Array) -> CentralMoments:
        """Return the moments of the rows with each column divided by its positive unit."""
        return self.mapped(np.diag(1 / units))

    def of_columns(self, columns: Sequence[int]) -> CentralMoments:
        """Return the moments of some columns, given by their numbers."""
        return self.mapped(np.eye(len(self.mean))[:, columns])

    def up_to(self, order: int) -> Array:
        """Return the moments of the centred columns up to an order as one array, shape (n_monomials,).

        Those of all monomials, of degree 0 first: 1, zeros, the covariance, and so on. They must be in all
        coordinates.
        """
        n_features = len(self.mean)
        covariance = self.covariance[np.triu_indices(n_features)]
        powers = [tensor.coefficients for tensor in self.tensors]
        return np.concatenate([np.ones(1), np.zeros(n_features), covariance, *powers[: order - 2]])
