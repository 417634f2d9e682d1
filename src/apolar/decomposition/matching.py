"""Matching the terms of two decompositions."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar._core.arrays import Array
from apolar.decomposition.waring import Waring


def component_errors(truth: Waring, found: Waring) -> Array:
    """Return how far each true component lies from the found one that matches it.

    The component of a term w (xi . x)^d is the vector w^(1/d) xi, defined up
    to d-th roots of unity. Components are matched one to one, so that the sum
    of the errors is least.

    Parameters
    ----------
    truth, found : Waring
        Of one order and dimension.

    Returns
    -------
    errors : ndarray, shape (truth.rank,)
        Relative to the norms of the true components; infinite for those that
        have no match because `found` has fewer terms.

    Examples
    --------
    >>> import apolar
    >>> from apolar.decomposition import component_errors
    >>> W = apolar.Waring([1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], 3)
    >>> component_errors(W, apolar.Waring([1.0, 8.0], [[0.0, 1.1], [0.5, 0.0]], 3)).round(6)
    array([0. , 0.1])
    """
    for waring in (truth, found):
        if not isinstance(waring, Waring):
            raise TypeError(f"component_errors takes two Waring decompositions; got {type(waring).__name__}.")
    if (truth.order, truth.dim) != (found.order, found.dim):
        raise ValueError(
            f"The decompositions differ: order {truth.order} in {truth.dim} variables "
            f"against order {found.order} in {found.dim}."
        )
    true_components, found_components = _components(truth), _components(found)
    turns = np.round(np.angle(found_components.conj() @ true_components.T) * truth.order / (2 * np.pi)).T
    turned = found_components[None] * np.exp(2j * np.pi * turns / truth.order)[:, :, None]
    distances = np.linalg.norm(true_components[:, None] - turned, axis=2)
    lengths = np.linalg.norm(true_components, axis=1)
    distances /= np.where(lengths > 0, lengths, 1)[:, None]
    errors = np.full(truth.rank, np.inf)
    rows, columns = linear_sum_assignment(distances)
    errors[rows] = distances[rows, columns]
    return errors


def _components(waring: Waring) -> Array:
    """Return the vectors w^(1/d) xi, shape (rank, dim)."""
    roots = waring.weights.astype(np.complex128) ** (1 / waring.order)
    return waring.points * roots[:, None]
