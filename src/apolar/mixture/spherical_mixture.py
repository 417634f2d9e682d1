"""A mixture of spherical Gaussians: weights, means, variances, and how it was recovered."""

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar._core.checks import check_integer, numeric_array, random_generator
from apolar._core.numbers import figures
from apolar._core.tables import html_table
from apolar.mixture.families.spherical import Spherical
from apolar.mixture.order import canonical_order
from apolar.mixture.parameters import MixtureParameters
from apolar.mixture.sampling import sample

# Columns that a notebook shows.
HTML_COLUMNS = 10


class MixtureStatus(enum.Enum):
    """How a mixture was recovered; the value says what to do."""

    VALID = "The moments gave a valid mixture as they are."
    PROJECTED = (
        "The moments gave weights, means or variances that no mixture has, and these were replaced by "
        "valid ones (see `projected`). Use the result to start EM; more rows, or fewer components, "
        "help."
    )
    WEAK_SIGNAL = (
        "The covariance shows fewer components than were asked for: some directions are no larger than the "
        "noise. Ask for fewer components, or start EM from several places."
    )
    POOR_FIT = (
        "The mixture does not have the covariance of the data: groups are not round in these columns, or not "
        "all of one scale. Divide the columns by their deviations, or fit the rows with another "
        "covariance_type."
    )


@dataclass(frozen=True, eq=False)
class SphericalMixture:
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
    def n_components(self) -> int:
        """The number of components."""
        return len(self.weights)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self.means.shape[1])

    @property
    def message(self) -> str:
        """What happened and what to do, in words."""
        return self.status.value

    def _repr_html_(self) -> str:
        """Return a table of the components for notebooks."""
        n_columns = min(self.n_features, HTML_COLUMNS)
        more = ["..."] if self.n_features > n_columns else []
        heads = ["component", "weight", "deviation", *(f"mean of x{j}" for j in range(n_columns)), *more]
        rows = [
            [str(k + 1), f"{self.weights[k]:.3f}", figures(float(np.sqrt(self.variances[k])), 3),
             *(figures(float(mean)) for mean in self.means[k, :n_columns]), *more]
            for k in range(self.n_components)
        ]  # fmt: skip
        return html_table(heads, rows, " ".join((self.message, *self.projected)))

    def sample(self, n_samples: int, random_state: Any = None) -> tuple[Array, Array]:
        """Return rows drawn from the mixture, and their components.

        Parameters
        ----------
        n_samples : int
        random_state : int, Generator or None

        Returns
        -------
        X : ndarray, shape (n_samples, n_features)
        labels : ndarray of int, shape (n_samples,)
        """
        n_samples = check_integer(n_samples, "n_samples", least=1)
        rng = random_generator(random_state)
        parameters = MixtureParameters(self.weights, self.means, self.variances)
        return sample(Spherical(), parameters, n_samples, rng)


def by_weight(weights: Array, means: Array, variances: Array) -> tuple[Array, Array, Array]:
    """Return the components in canonical order: largest weight first."""
    order = canonical_order(weights, means)
    return weights[order], means[order], variances[order]
