"""A mixture of any family that was recovered from moments, and how well it agrees with all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar.mixture import MixtureStatus
from apolar.mixture.families import Family, family
from apolar.mixture.recovered import RecoveredMixture
from apolar.recovery.gaussian_moments import Mixture
from apolar.recovery.moment_fit import Goodness

__all__ = ["MomentMixture"]


@dataclass(frozen=True, eq=False)
class MomentMixture(RecoveredMixture):
    """A Gaussian mixture with the moments of rows or of a sketch.

    Attributes
    ----------
    weights : ndarray, shape (n_components,)
        Positive, with sum one; largest first.
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray
        In the shape of `covariance_type`, as scikit-learn's `covariances_`.
    covariance_type : str
    status : MixtureStatus
    projected : tuple of str
        What was changed to make the mixture valid, in words.
    goodness : Goodness or None
        How well the mixture agrees with all moments; None if these are too many.
    """

    weights: Array
    means: Array
    covariances: Array
    covariance_type: str
    status: MixtureStatus = MixtureStatus.VALID
    projected: tuple[str, ...] = ()
    goodness: Goodness | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # The fields become read-only arrays; a frozen dataclass has no other way to normalise its arguments.
        for name in ("weights", "means", "covariances"):
            object.__setattr__(self, name, frozen(np.array(getattr(self, name), dtype=np.float64)))

    @classmethod
    def of(
        cls,
        mixture: Mixture,
        covariance_type: str,
        status: MixtureStatus,
        projected: tuple[str, ...],
        goodness: Goodness | None,
    ) -> MomentMixture:
        """Return a mixture whose covariances are of a family, stored as that family does."""
        covariances: Array = mixture.covariances
        if covariance_type == "tied":
            covariances = mixture.matrices[0]
        elif covariance_type == "full":
            covariances = mixture.matrices
        elif covariance_type == "spherical":
            covariances = covariances[:, 0]
        weights, means = mixture.weights, mixture.means
        return cls(weights, means, covariances, covariance_type, status, projected, goodness)

    @property
    def stored(self) -> tuple[Family, Array]:
        """The family, and the covariances as it stores them."""
        return family(self.covariance_type), self.covariances

    @property
    def variances(self) -> Array:
        """The variances of spherical components, shape (n_components,), as `SphericalMixture` has them."""
        if self.covariance_type != "spherical":
            raise AttributeError(
                f"Components of covariance_type={self.covariance_type!r} have `covariances`."
            )
        return self.covariances

    @cached_property
    def p_value(self) -> float:
        """The probability of moments that fit as badly, or worse, if the rows come from such a mixture.

        By the J statistic [hansen1982]: the squared residuals of the moments, in units of their sampling
        errors, are chi-squared with as many degrees of freedom as there are more moments than parameters. A
        small value says that the family or the number of components is wrong. NaN if there are no more
        moments than parameters, or too many to compare.
        """
        return float("nan") if self.goodness is None else self.goodness.p_value
