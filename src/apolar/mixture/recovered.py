"""Mixtures that were recovered from moments, and random rows from any mixture."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.checks import check_integer, numeric_array, random_generator
from apolar._core.numbers import with_error
from apolar._core.tables import SHOWN_COLUMNS, cluster_table, html_table
from apolar.mixture.families import FAMILIES, Family
from apolar.mixture.noise import noise_weights
from apolar.mixture.parameters import MixtureParameters

__all__ = ["MixtureStatus", "RecoveredMixture", "SphericalMixture", "sample"]


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
        "covariance type."
    )


class RecoveredMixture:
    """The base of the mixtures that moments give: sizes, words, a table for notebooks, random rows."""

    weights: Array
    means: Array
    status: MixtureStatus
    projected: tuple[str, ...]

    @property
    def stored(self) -> tuple[Family, Array]:
        """The family, and the covariances as it stores them."""
        raise NotImplementedError

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

    @property
    def deviations(self) -> Array:
        """The deviation of each component in each column, shape (n_components, n_features)."""
        family, covariances = self.stored
        matrices = family.matrices(covariances, *self.means.shape)
        return np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))

    def _repr_html_(self) -> str:
        """Return a table of the components for notebooks."""
        deviations = self.deviations
        first = {
            "component": [str(k + 1) for k in range(self.n_components)],
            "weight": [f"{weight:.3f}" for weight in self.weights],
        }
        table = cluster_table(
            first,
            [f"x{j}" for j in range(self.n_features)],
            lambda k, j: with_error(float(self.means[k, j]), float(deviations[k, j])),
            SHOWN_COLUMNS,
        )
        words = " ".join((self.message, *self.projected))
        return html_table(*table, f"Means ± deviations within the component. {words}")

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
        family, covariances = self.stored
        parameters = MixtureParameters(self.weights, self.means, covariances)
        return sample(family, parameters, n_samples, random_generator(random_state))


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
        return FAMILIES["spherical"], self.variances


def sample(
    family: Family,
    parameters: MixtureParameters,
    n_samples: int,
    rng: np.random.Generator | np.random.RandomState,
    *,
    grouped: bool = False,
) -> tuple[Array, IndexArray]:
    """Return rows drawn from a mixture, and their components.

    Parameters
    ----------
    family : Family
    parameters : MixtureParameters
        One mixture.
    n_samples : int
    rng : numpy.random.Generator or RandomState
    grouped : bool, default=False
        Draw the number of rows of each component, and return the rows of a component together, as
        scikit-learn does; else draw the component of each row.

    Returns
    -------
    X : ndarray, shape (n_samples, n_features)
    labels : ndarray of int, shape (n_samples,)
        -1 for rows of noise, which are last if grouped.
    """
    weights, box = parameters.weights, parameters.noise
    if box is not None:
        weights = np.append(weights, noise_weights(weights))
    probabilities = weights / weights.sum()
    if grouped:
        labels = np.repeat(np.arange(len(weights)), rng.multinomial(n_samples, probabilities))
    else:
        labels = rng.choice(len(weights), n_samples, p=probabilities)
    is_noise = labels == parameters.n_components
    # Rows of noise are drawn as if of the first component, and replaced.
    of_components = np.where(is_noise, 0, labels)
    offsets = rng.standard_normal((n_samples, parameters.n_features))
    roots = family.taken(family.root(parameters.covariances), of_components)
    X = parameters.means[of_components] + family.times(roots, offsets)
    if box is not None:
        X[is_noise] = box.sample(int(is_noise.sum()), rng)
    return X, np.where(is_noise, -1, labels)
