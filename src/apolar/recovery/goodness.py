"""How well a mixture agrees with moments, those it was fitted to and others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import chi2

from apolar._core.arrays import Array
from apolar.moments import CentralMoments
from apolar.recovery.gaussian_moments import Mixture, Parametrisation, mixture_moments, sampling_covariance
from apolar.recovery.moment_fit import whitener
from apolar.recovery.monomials import monomial_table
from apolar.tensor import n_monomials

__all__ = ["EXACT", "Goodness", "goodness_of"]

EXACT = 1e15
"""So many rows stand for moments without sampling errors."""
# The most moments that are compared: their covariance is a matrix of that size.
MAX_MOMENTS = 1100


@dataclass(frozen=True, eq=False)
class Goodness:
    """The agreement of a mixture with moments up to an order; computed when it is asked for.

    Attributes
    ----------
    mixture : Mixture
        In the units of the moments.
    family : str
    observed : ndarray, shape (n_monomials,)
        Moments up to `order`, the first of which is one.
    order : int
    n_rows : float
        The number of rows.
    """

    mixture: Mixture
    family: str
    observed: Array
    order: int
    n_rows: float

    @property
    def n_parameters(self) -> int:
        """The number of free parameters."""
        return Parametrisation(self.family, *self.mixture.means.shape).n_free

    @property
    def n_degrees(self) -> int:
        """The degrees of freedom of the J statistic."""
        return len(self.observed) - 1 - self.n_parameters

    @cached_property
    def _whitened(self) -> tuple[Array, float]:
        """The residuals in units of their sampling errors, and the log-determinant of these."""
        kept = np.arange(1, len(monomial_table(self.mixture.means.shape[1], self.order)))
        metric = whitener(sampling_covariance(self.mixture, self.order, kept), self.n_rows)
        residuals = mixture_moments(self.mixture, self.order)[kept] - self.observed[kept]
        return metric @ residuals, -2 * float(np.log(np.diag(metric)).sum())

    @property
    def squares(self) -> float:
        """The J statistic: the squared residuals of all moments, in units of their sampling errors."""
        residuals, _ = self._whitened
        return float(residuals @ residuals)

    @property
    def p_value(self) -> float:
        """The probability of such a J statistic, or a larger one, if the mixture is true."""
        return float(chi2.sf(self.squares, self.n_degrees)) if self.n_degrees > 0 else float("nan")

    @property
    def criterion(self) -> float:
        """Minus twice the log-likelihood of the moments, plus log n per parameter: lower is better.

        For mixtures of the same moments in the same units; for many rows the moments are normal.
        """
        return self.squares + self._whitened[1] + self.n_parameters * float(np.log(self.n_rows))


def goodness_of(central: CentralMoments, mixture: Mixture, family: str) -> Goodness | None:
    """Return how well a mixture in the units of the data agrees with central moments.

    Moments are compared in deviations of the columns, whatever the family, and up to the highest order at
    which they are not too many; None if there is none, or the moments are in some directions only.
    """
    n_features, order = len(central.mean), central.order
    while order >= 3 and n_monomials(n_features + 1, order) > MAX_MOMENTS:
        order -= 1
    if order < 3 or central.frame is not None:
        return None
    units = central.deviations
    scales = units**2 if mixture.is_aligned else np.outer(units, units)
    scaled = Mixture(mixture.weights, (mixture.means - central.mean) / units, mixture.covariances / scales)
    return Goodness(scaled, family, central.in_units(units, order), order, min(central.n_rows, EXACT))
