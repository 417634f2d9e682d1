"""A mixture of spherical Gaussians: weights, means, variances, and how it was recovered."""

from dataclasses import dataclass, field

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar._core.checks import numeric_array
from apolar.mixture.families import Family
from apolar.mixture.families.spherical import Spherical
from apolar.mixture.order import canonical_order
from apolar.mixture.recovered import MixtureStatus, RecoveredMixture


@dataclass(frozen=True, eq=False)
class SphericalMixture(RecoveredMixture):
    """A mixture sum_i w_i N(mu_i, s_i I).

    Attributes
    ----------
    weights : ndarray, shape (n_components,)
        Positive, with sum one; largest first.
    means : ndarray, shape (n_components, n_features)
    variances : ndarray, shape (n_components,)
        Positive.
    status : MixtureStatus
    projected : tuple of str
        What was changed to make the mixture valid, in words.
    spectrum : ndarray
        Eigenvalues of the covariance, largest first, where they were computed.
    p_value : float
        Of a sketch: the probability that moments fit as badly, or worse, if its rows come from such a
        mixture. NaN if it was not computed.
    """

    weights: Array
    means: Array
    variances: Array
    status: MixtureStatus = MixtureStatus.VALID
    projected: tuple[str, ...] = ()
    spectrum: Array = field(default_factory=lambda: np.zeros(0))
    p_value: float = float("nan")

    def __post_init__(self) -> None:
        weights = numeric_array(self.weights, "weights")
        means = numeric_array(self.means, "means")
        variances = numeric_array(self.variances, "variances")
        if means.ndim != 2 or weights.shape != means.shape[:1] or variances.shape != weights.shape:
            raise ValueError(
                "weights and variances must have shape (n_components,) and means (n_components, n_features); "
                f"got {weights.shape}, {variances.shape} and {means.shape}."
            )
        if any(np.iscomplexobj(array) for array in (weights, means, variances)):
            raise ValueError("The parameters of a mixture are real.")
        if not (np.all(weights > 0) and abs(weights.sum() - 1) < 1e-6 and np.all(variances > 0)):
            raise ValueError("A mixture has positive weights of sum one, and positive variances.")
        # The fields become read-only arrays; a frozen dataclass has no other way to normalise its arguments.
        for name, array in (("weights", weights), ("means", means), ("variances", variances)):
            object.__setattr__(self, name, frozen(array))

    @property
    def stored(self) -> tuple[Family, Array]:
        """The family, and the covariances as it stores them."""
        return Spherical(), self.variances


def by_weight(weights: Array, means: Array, variances: Array) -> tuple[Array, Array, Array]:
    """Return the components in canonical order: largest weight first."""
    order = canonical_order(weights, means)
    return weights[order], means[order], variances[order]
