"""The sufficient statistics of components: what the M-step needs to know of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apolar._core.arrays import Array

__all__ = ["SufficientStats"]


@dataclass(frozen=True, eq=False)
class SufficientStats:
    """Sums over rows, weighted by their responsibilities, of the features (1, x, quadratics of x).

    Statistics of two sets of rows, or of two components that are merged, add up.

    Attributes
    ----------
    array : ndarray, shape (..., n_components, n_stats)
        The features in that order; see `Family.n_stats`. Leading axes are those of a batch of mixtures.
    n_features : int
        The number of columns of x.
    """

    array: Array
    n_features: int

    # So that a NumPy number times statistics is left to `__rmul__`.
    __array_ufunc__ = None

    @property
    def counts(self) -> Array:
        """The sums of responsibilities, shape (..., n_components): how many rows each component holds."""
        return self.array[..., 0]

    @property
    def first(self) -> Array:
        """The sums of x, shape (..., n_components, n_features)."""
        return self.array[..., 1 : 1 + self.n_features]

    @property
    def second(self) -> Array:
        """The sums of the quadratics of x, shape (..., n_components, n_quadratics)."""
        return self.array[..., 1 + self.n_features :]

    def __len__(self) -> int:
        """Return the length of the first axis: of one mixture, the number of components."""
        return len(self.array)

    def __getitem__(self, index: Any) -> SufficientStats:
        """Return some mixtures of a batch, or some components; the last axis is not indexed."""
        return SufficientStats(self.array[index], self.n_features)

    def __add__(self, other: SufficientStats) -> SufficientStats:
        """Return the statistics of both together."""
        return SufficientStats(self.array + other.array, self.n_features)

    def __mul__(self, factor: float) -> SufficientStats:
        """Return the statistics of so many times the rows."""
        return SufficientStats(self.array * factor, self.n_features)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> SufficientStats:
        """Return the statistics of that part of the rows."""
        return SufficientStats(self.array / divisor, self.n_features)
