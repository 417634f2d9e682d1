"""The sufficient statistics of components: all that the M-step needs from the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apolar._core.arrays import Array

__all__ = ["SufficientStats"]


@dataclass(frozen=True, eq=False)
class SufficientStats:
    """Sums over rows, weighted by responsibilities, of the row statistics (1, x, quadratics of x).

    The statistics of two sets of rows add up, and so do those of two components that are merged.

    Attributes
    ----------
    array : ndarray, shape (..., n_components, n_stats)
        The sums in the order of the row statistics; see `Family.n_stats`. Leading axes are those of a batch
        of mixtures.
    n_features : int
        The number of columns of x.
    """

    array: Array
    n_features: int

    # NumPy scalars on the left then defer to `__rmul__`.
    __array_ufunc__ = None

    @property
    def counts(self) -> Array:
        """The sums of responsibilities, shape (..., n_components): the number of rows of each component."""
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
        """Return the length of the first axis: for one mixture, the number of components."""
        return len(self.array)

    def __getitem__(self, index: Any) -> SufficientStats:
        """Return the statistics of some mixtures of a batch, or of some components."""
        return SufficientStats(self.array[index], self.n_features)

    def __add__(self, other: SufficientStats) -> SufficientStats:
        """Return the statistics of the rows of both."""
        return SufficientStats(self.array + other.array, self.n_features)

    def __mul__(self, factor: float) -> SufficientStats:
        """Return the statistics of rows whose weights are multiplied by a factor."""
        return SufficientStats(self.array * factor, self.n_features)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> SufficientStats:
        """Return the statistics of rows whose weights are divided by a divisor."""
        return SufficientStats(self.array / divisor, self.n_features)
