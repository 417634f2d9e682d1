"""Random rows from a mixture."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters

__all__ = ["sample"]


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
    """
    n_components, probabilities = parameters.n_components, parameters.weights / parameters.weights.sum()
    if grouped:
        labels = np.repeat(np.arange(n_components), rng.multinomial(n_samples, probabilities))
    else:
        labels = rng.choice(n_components, n_samples, p=probabilities)
    noise = rng.standard_normal((n_samples, parameters.n_features))
    roots = family.taken(family.root(parameters.covariances), labels)
    return parameters.means[labels] + family.mean_retraction(roots, noise), labels
