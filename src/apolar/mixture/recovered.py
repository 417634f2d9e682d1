"""What mixtures that were recovered from moments have in common."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, random_generator
from apolar._core.numbers import with_error
from apolar._core.tables import cluster_table, html_table
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters
from apolar.mixture.sampling import sample

__all__ = ["MixtureStatus", "RecoveredMixture"]

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
            HTML_COLUMNS,
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
