"""Moments about the mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array
from apolar.moments.sums import MomentSums, ScaleError, effective_rows
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import exponents

__all__ = ["CentralMoments", "central_moments_of_sums"]


@dataclass(frozen=True, eq=False)
class CentralMoments:
    """Moments about the mean.

    Attributes
    ----------
    n_rows : int
    n_effective : float
        The number of equally weighted rows whose moments are as noisy: (sum of weights)^2 / sum of squares.
    mean : ndarray, shape (n_features,)
    covariance : ndarray, shape (n_features, n_features)
    third : SymmetricTensor
        Of order 3, in the coordinates of the frame.
    square_times : ndarray, shape (n_features,)
        The mean of |x - mean|^2 (x - mean).
    frame : ndarray, shape (n_features, n_frame), or None
        None if the third moments are in all coordinates.
    higher : tuple of SymmetricTensor
        Of order 4 and above, in the coordinates of the frame, as far as they are known.
    """

    n_rows: int
    n_effective: float
    mean: Array
    covariance: Array
    third: SymmetricTensor
    square_times: Array
    frame: Array | None
    higher: tuple[SymmetricTensor, ...] = ()

    @property
    def order(self) -> int:
        """The highest order of the moments."""
        return 3 + len(self.higher)

    @property
    def deviations(self) -> Array:
        """The deviation of each column, shape (n_features,)."""
        return np.sqrt(np.diag(self.covariance))

    def divided(self, units: Array, order: int) -> Array:
        """Return the moments up to an order of the centred columns divided by units.

        Parameters
        ----------
        units : ndarray, shape (n_features,)
        order : int
            At most that of these moments, which must be in all coordinates.

        Returns
        -------
        moments : ndarray, shape (n_monomials,)
            Of all monomials up to the order, those of degree 0 first: 1, zeros, the covariance, and so on.
        """
        return np.concatenate(list(self._by_degree(units, order)))

    def _by_degree(self, units: Array, order: int) -> Iterator[Array]:
        n_features = len(self.mean)
        yield np.ones(1)
        yield np.zeros(n_features)
        upper = np.triu_indices(n_features)
        compact = self.covariance[upper], self.third.coefficients, *(t.coefficients for t in self.higher)
        for degree, coefficients in enumerate(compact[: order - 1], 2):
            yield coefficients / np.prod(units ** exponents(n_features, degree), axis=1)


def central_moments_of_sums(sums: MomentSums) -> CentralMoments:
    """Return the moments about the mean, from sums about any centre."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = sums.about(sums.mean)
    if not sums.is_finite:
        raise ScaleError(
            "Powers of the rows, about their mean, overflow: divide the columns by their scale first."
        )
    n_frame = len(sums.centre) if sums.frame is None else int(sums.frame.shape[1])
    third, *higher = (
        SymmetricTensor(order, n_frame, power / sums.weight)
        for order, power in enumerate((sums.third, *sums.higher), 3)
    )
    return CentralMoments(
        sums.n_rows,
        effective_rows(sums.weight, sums.weight_squares, sums.n_rows),
        sums.centre,
        sums.second / sums.weight,
        third,
        sums.square_times / sums.weight,
        sums.frame,
        tuple(higher),
    )
