"""Mixtures that were recovered from moments, and random rows from any mixture."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.checks import check_integer, numeric_array, random_generator
from apolar._core.display import SHOWN_COLUMNS, cluster_table, html_table, with_error
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import MixtureParameters, Parameters, noise_weights

__all__ = ["MixtureStatus", "MomentMixture", "SphericalMixture", "sample"]


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
        "The mixture is far from the covariance of the data, or from other moments: groups do not have the "
        "shape of this family in these columns, or not all of one scale. Divide the columns by their "
        "deviations, or fit the rows with another covariance type."
    )


@dataclass(frozen=True, eq=False)
class MomentMixture(Parameters):
    """A Gaussian mixture that was recovered from moments, or is given by its parameters.

    Attributes
    ----------
    weights : ndarray, shape (n_components,)
        Positive, largest first; they add up to one.
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray
        In the shape of `covariance_type`, as scikit-learn's `covariances_`: of spherical components their
        variances, shape (n_components,). Positive.
    covariance_type : str, default="spherical"
    status : MixtureStatus
    projected : tuple of str
        What was changed to make the mixture valid, as text.
    spectrum : ndarray
        Eigenvalues of the covariance of the rows, largest first, where they were computed.
    agreement : MomentFit or None
        How well the mixture agrees with all moments; None if that is not known.
    """

    covariance_type: str = "spherical"
    status: MixtureStatus = MixtureStatus.VALID
    projected: tuple[str, ...] = ()
    spectrum: Array = field(default_factory=lambda: np.zeros(0))
    agreement: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        arrays = {
            name: numeric_array(getattr(self, name), name) for name in ("weights", "means", "covariances")
        }
        weights, means, covariances = arrays.values()
        kind = family(self.covariance_type)
        if (
            means.ndim != 2
            or weights.shape != means.shape[:1]
            or covariances.shape != kind.covariance_shape(*means.shape)
        ):
            raise ValueError(
                "weights must have shape (n_components,), means (n_components, n_features), and covariances "
                f"those of {kind.name!r} ones; got {weights.shape}, {means.shape} and {covariances.shape}."
            )
        if any(np.iscomplexobj(array) for array in arrays.values()):
            raise ValueError("The parameters of a mixture are real.")
        positive = np.all(weights > 0) and np.all(kind.diagonals(covariances) > 0)
        if not (positive and abs(weights.sum() - 1) < 1e-6):
            raise ValueError("Weights must be positive and add up to one, and variances must be positive.")
        # The fields become read-only arrays; a frozen dataclass has no other way to normalise its arguments.
        for name, array in arrays.items():
            object.__setattr__(self, name, frozen(array))

    @property
    def stored(self) -> tuple[Family, Array]:
        """The family, and the covariances as it stores them."""
        return family(self.covariance_type), self.covariances

    @property
    def variances(self) -> Array:
        """The variances of spherical components, shape (n_components,)."""
        if self.covariance_type != "spherical":
            raise AttributeError(
                f"Components of covariance_type={self.covariance_type!r} have `covariances`."
            )
        return self.covariances

    @property
    def p_value(self) -> float:
        """The probability of moments that fit as badly, or worse, if the rows come from such a mixture.

        By the J statistic [hansen1982]: the squared residuals of the moments, in units of their sampling
        errors, are chi-squared with one degree of freedom for each moment beyond the number of parameters. A
        small value says that the family or the number of components is wrong. NaN if there are no more
        moments than parameters, or too many to compare: those of more than 17 columns.
        """
        return float("nan") if self.agreement is None else self.agreement.p_value

    @property
    def message(self) -> str:
        """What happened and what to do."""
        return self.status.value

    @property
    def deviations(self) -> Array:
        """The deviation of each component in each column, shape (n_components, n_features)."""
        kind, covariances = self.stored
        matrices = kind.matrices(covariances, *self.means.shape)
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
        kind, covariances = self.stored
        parameters = MixtureParameters(self.weights, self.means, covariances)
        return sample(kind, parameters, n_samples, random_generator(random_state))


SphericalMixture = MomentMixture
"""The name that the mixture of spherical components goes by too."""


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
    if parameters.dof is not None:
        dof = parameters.dof[of_components]
        offsets /= np.sqrt(rng.chisquare(dof) / dof)[:, None]
    X = parameters.means[of_components] + family.drawn(parameters.covariances, of_components, offsets)
    if box is not None:
        X[is_noise] = box.sample(int(is_noise.sum()), rng)
    return X, np.where(is_noise, -1, labels)
