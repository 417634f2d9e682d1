"""Moments about the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array
from apolar.data.weights import counted_rows
from apolar.moments.sums import MomentSums, ScaleError
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import monomial_variables

__all__ = ["CentralMoments", "central_moments_of_sums"]


@dataclass(frozen=True, eq=False)
class CentralMoments:
    """Moments about the mean.

    Attributes
    ----------
    n_rows : float
        The number of rows, where a row of weight two counts as two rows.
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

    n_rows: float
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

    def divided(self, units: Array) -> CentralMoments:
        """Return the moments of the rows with each column divided by its unit.

        Parameters
        ----------
        units : ndarray, shape (n_features,)
            Positive.
        """
        self._need_all_coordinates("changed")
        tensors = [_divide_moments(tensor.coefficients, units, tensor.order) for tensor in self._tensors]
        return self._with(self.mean / units, self.covariance / units / units[:, None], tensors)

    def mapped(self, matrix: Array) -> CentralMoments:
        """Return the moments of the rows times a matrix, shape (n_features, n_new)."""
        self._need_all_coordinates("combined")
        tensors = [tensor.change_variables(matrix).coefficients for tensor in self._tensors]
        return self._with(self.mean @ matrix, matrix.T @ self.covariance @ matrix, tensors)

    def of_columns(self, columns: Sequence[int]) -> CentralMoments:
        """Return the moments of some columns, given by their numbers in ascending order."""
        self._need_all_coordinates("left out")
        chosen, n_features = np.asarray(columns), len(self.mean)
        position = np.full(n_features, -1)
        position[chosen] = np.arange(len(chosen))
        # Monomials are in lexicographic order: those of ascending columns keep theirs.
        tensors = [
            tensor.coefficients[np.all(position[monomial_variables(n_features, tensor.order)] >= 0, axis=1)]
            for tensor in self._tensors
        ]
        return self._with(self.mean[chosen], self.covariance[np.ix_(chosen, chosen)], tensors)

    @property
    def _tensors(self) -> tuple[SymmetricTensor, ...]:
        return self.third, *self.higher

    def _with(self, mean: Array, covariance: Array, powers: Sequence[Array]) -> CentralMoments:
        n_features = len(mean)
        third, *higher = (SymmetricTensor(order, n_features, power) for order, power in enumerate(powers, 3))
        # The sum over i of the moments x_i x_i x_j.
        square_times = np.einsum("iij->j", third.to_dense())
        return replace(
            self,
            mean=mean,
            covariance=covariance,
            third=third,
            square_times=square_times,
            higher=tuple(higher),
        )

    def _need_all_coordinates(self, what: str) -> None:
        if self.frame is not None:
            raise ValueError(
                f"Columns cannot be {what} in a sketch with a frame: it has third moments in few directions."
            )

    def up_to(self, order: int) -> Array:
        """Return the moments of the centred columns up to an order as one array, shape (n_monomials,).

        Those of all monomials, of degree 0 first: 1, zeros, the covariance, and so on. They must be in all
        coordinates.
        """
        n_features = len(self.mean)
        covariance = self.covariance[np.triu_indices(n_features)]
        powers = [tensor.coefficients for tensor in self._tensors]
        return np.concatenate([np.ones(1), np.zeros(n_features), covariance, *powers[: order - 2]])


def _divide_moments(coefficients: Array, units: Array, degree: int) -> Array:
    """Return the moments of a degree of columns that are divided by units."""
    # One after the other: their product may underflow.
    for columns in monomial_variables(len(units), degree).T:
        coefficients = coefficients / units[columns]
    return coefficients


def central_moments_of_sums(sums: MomentSums) -> CentralMoments:
    """Return the moments about the mean, from sums about any centre."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = sums.about(sums.centre + sums.first / sums.weight)
    if not sums.is_finite:
        raise ScaleError(
            "Powers of the rows, about their mean, overflow: divide the columns by their scale first."
        )
    n_frame = len(sums.centre) if sums.frame is None else int(sums.frame.shape[1])
    third, *higher = (
        SymmetricTensor(order, n_frame, power / sums.weight) for order, power in enumerate(sums.powers, 3)
    )
    return CentralMoments(
        counted_rows(sums.weight, sums.n_rows),
        sums.centre,
        sums.second / sums.weight,
        third,
        sums.square_times / sums.weight,
        sums.frame,
        tuple(higher),
    )
