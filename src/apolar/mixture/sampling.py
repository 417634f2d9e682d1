"""Random rows from a mixture."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.mixture.families import Family
from apolar.mixture.noise import noise_weights
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
    X = parameters.means[of_components] + family.mean_retraction(roots, offsets)
    if box is not None:
        X[is_noise] = box.sample(int(is_noise.sum()), rng)
    return X, np.where(is_noise, -1, labels)
