"""Standard errors of a fitted mixture, from the information that the rows hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.data import CHUNK_SIZE
from apolar.em.blocks import StatsBlock, posteriors
from apolar.em.coordinates import LocalCoordinates, coordinates_of_components
from apolar.em.whitened import WhitenedData
from apolar.exceptions import ComponentError
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters, Parameters, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats

__all__ = ["StandardErrors", "standard_errors"]

# The step of the differences, in deviations of a component and in logarithms: its square is what they
# leave out, and rounding over it is what they add.
DIFFERENCE = 1e-4
# Directions with less than this of the largest information are flat: differences tell no more.
FLAT = 1e-6
# Standard errors that a mixture may be away from the maximum: half a unit of log-likelihood left to gain.
MOST_AWAY = 1.0
# The count of a component with one row is a part of a sum over all rows: one, but for rounding. That grows
# with the number of rows, and stays far below what is left out here.
LEAST_ROWS = 1 - 1e-6


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """The standard errors of the parameters of a mixture, in the units of the data.

    Attributes
    ----------
    weights : ndarray, shape (n_components,)
        Zero if there is one component: its weight is known.
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray
        In the shape of the covariances of the family; every entry of a matrix has its own.
    information_condition : float or None
        The largest over the smallest eigenvalue of the information, in coordinates where it would be the
        identity if the component of each row were known: one if the components hardly overlap, large if
        the rows hardly tell some direction. None after a bootstrap, which needs no information.
    """

    weights: Array
    means: Array
    covariances: Array
    information_condition: float | None


def standard_errors(
    data: WhitenedData, parameters: MixtureParameters, prior: Prior | None = None
) -> StandardErrors:
    """Return standard errors of a fitted mixture from the observed information.

    The information is minus the Hessian of the log-likelihood, without the prior, at the mixture. It is that
    of rows whose components are known, less what the unknown components take away: the variance of the
    score of a row over its components [louis1982]. Errors in the units of the data follow by the delta
    method. Two passes over the rows.

    They hold for many rows, for a mixture that is near a maximum of the likelihood, and if the rows come
    from a mixture of this family. A fit with a prior is at the maximum of the posterior instead, where the
    gradient of the likelihood is small, but not zero; that is near enough unless a component holds only a
    few rows and lives by the prior: then the errors are too small. Use `bootstrap` where the likelihood is
    far from quadratic.

    Parameters
    ----------
    data : WhitenedData
        The rows that the mixture was fitted to, with their weights: one of weight 2 counts as two rows.
    parameters : MixtureParameters
        One mixture, in the units of the data.
    prior : Prior or None, default=None
        That of the fit. It tells only whether the mixture is at the maximum of what was fitted, and is no
        part of the information.

    Returns
    -------
    errors : StandardErrors

    Raises
    ------
    ValueError
        If the mixture is not near a maximum, or the rows do not tell its parameters; the message says
        which, and what to do.
    """
    _check_rows_held(data, parameters)
    family, whitened = data.family, data.whitening.transform_parameters(parameters)
    coordinates = LocalCoordinates(family, whitened, data.weight)
    positions = coordinates_of_components(family, whitened.n_components, whitened.n_features)
    stats = data.e_step(whitened[None])[0][0]
    known, slopes = _slopes(data, coordinates, positions, stats)
    information = known - _lost(data, whitened, positions, slopes[:, :, : data.n_stats])
    # In one direction of the coordinates nothing changes, and there is no information. With this much there,
    # that of known components is the identity; no parameter feels what it adds to the inverse.
    null_direction = coordinates.null_direction / np.linalg.norm(coordinates.null_direction)
    information += np.outer(null_direction, null_direction)
    if not np.all(np.isfinite(information)):
        raise ValueError(
            "The information is not finite: a component has collapsed. Fit with the default prior, or ask "
            "for fewer components."
        )
    values, vectors = np.linalg.eigh((information + information.T) / 2)
    _check_maximum(values, vectors[:, 0], positions)
    gradient = coordinates.gradient(coordinates.origin, whitened, stats, prior)
    _check_near(float(np.linalg.norm(vectors.T @ gradient / np.sqrt(values))))
    inverse = (vectors / values) @ vectors.T
    weights, means, covariances = _errors(inverse, whitened, data, positions, slopes[:, :, data.n_stats :])
    return StandardErrors(weights, means, covariances, float(values[-1] / values[0]))


def _check_rows_held(data: WhitenedData, parameters: Parameters) -> None:
    counts = parameters.weights * data.weight
    least = int(np.argmin(counts))
    # The coordinates count a component with less than a row as if it had one.
    if not counts[least] >= LEAST_ROWS:
        # Rounded, a count just below one would read as one row.
        shown = min(counts[least], 0.99)
        problem = f"holds {shown:.2g} rows, too few to tell its parameters. Fit with fewer components."
        raise ComponentError(least, problem)


def _check_maximum(values: Array, direction: Array, positions: IndexArray) -> None:
    """Refuse a mixture at which the likelihood curves upwards, or not at all.

    Parameters
    ----------
    values : ndarray
        The eigenvalues of the information, the smallest first.
    direction : ndarray, shape (n_coordinates,)
        The eigenvector of the smallest.
    positions : ndarray of int, shape (n_components, n_own)
        The coordinates of each component.
    """
    largest = max(float(values[-1]), 1.0)
    if values[0] > FLAT * largest:
        return
    worst = int(np.argmax(np.linalg.norm(direction[positions], axis=1)))
    if values[0] < -FLAT * largest:
        raise ValueError(
            "The mixture is not at a maximum of the likelihood of these rows: it rises from there, most of "
            f"all with component {worst}. Fit it to these rows and their weights with a larger max_iter, a "
            "smaller tol, or another start; if it stays, that component lives by the prior: ask for fewer "
            "components."
        )
    raise ValueError(
        f"The rows do not tell the parameters of component {worst}: the likelihood is flat in a direction, "
        "because components are the same or one has collapsed. Ask for fewer components or a covariance_type "
        "with fewer parameters, or fit with the default prior."
    )


def _check_near(away: float) -> None:
    if not away <= MOST_AWAY:
        raise ValueError(
            f"The mixture is {away:.2g} standard errors from the maximum on these rows. Pass the rows and "
            "the sample_weight of the fit; if they are those, fit with a larger max_iter or a smaller tol."
        )


def _slopes(
    data: WhitenedData, coordinates: LocalCoordinates, positions: IndexArray, stats: SufficientStats
) -> tuple[Array, Array]:
    """Return the information if components were known, and how components change with the coordinates.

    Both by central differences without reading rows: with the statistics of the E-step held, the gradient in
    the local coordinates is that of the expected complete log-likelihood.

    Parameters
    ----------
    data : WhitenedData
    coordinates : LocalCoordinates
        Around the mixture.
    positions : ndarray of int, shape (n_components, n_own)
        The coordinates that move each component.
    stats : SufficientStats
        Of the E-step at the mixture.

    Returns
    -------
    known : ndarray, shape (n_coordinates, n_coordinates)
    slopes : ndarray, shape (n_components, n_own, n_stats + n_parameters)
        The derivatives of the natural parameters of each component, in whitened coordinates, and of its mean
        and covariance, in the units of the data, by the coordinates that move it.
    """
    family, whitening = data.family, data.whitening
    count_roots = np.sqrt(coordinates.centre.weights * coordinates.weight)
    # Coordinates are in deviations over the roots of the counts.
    steps = np.zeros(len(coordinates.origin))
    for own, count_root in zip(positions, count_roots, strict=True):
        steps[own] = np.maximum(steps[own], DIFFERENCE * count_root)

    def at(tangent: Array) -> tuple[Array, Array]:
        parameters = coordinates.retract(tangent)
        flat_parameters = _by_component(whitening.inverse_transform_parameters(parameters), family)
        gradient = coordinates.gradient(tangent, parameters, stats, None)
        return gradient, np.concatenate([family.natural(parameters), flat_parameters], axis=1)

    known = np.empty((len(steps), len(steps)))
    slopes = np.empty((*positions.shape, at(coordinates.origin)[1].shape[1]))
    for j, step in enumerate(steps):
        tangent = coordinates.origin
        tangent[j] = step
        (gradient, values), (other_gradient, other_values) = at(tangent), at(-tangent)
        known[j] = (other_gradient - gradient) / (2 * step)
        slope = (values - other_values) / (2 * step)
        for k, own in enumerate(positions):
            slopes[k, own == j] = slope[k]
    # Less what the sum of the weights takes from all components alike: it is no part of the variance over
    # components, and without it the coordinate of a weight moves the component of that weight alone.
    slopes[:, 0] = 0.0
    slopes[:, 0, 0] = 1 / count_roots
    return known, slopes


def _by_component(parameters: MixtureParameters, family: Family) -> Array:
    """Return mean and covariance of each component, shape (n_components, n_parameters)."""
    means = parameters.means
    covariances = family.per_component(np.asarray(parameters.covariances))
    flat = covariances.reshape(len(covariances), -1)
    return np.concatenate([means, np.broadcast_to(flat, (len(means), flat.shape[1]))], axis=1)


def _lost(data: WhitenedData, whitened: WhitenedParameters, positions: IndexArray, slopes: Array) -> Array:
    """Return the information that not knowing the components takes away, by one pass over the rows.

    The sum over rows of the covariance, over the components of a row, of its score [louis1982].

    Parameters
    ----------
    data : WhitenedData
    whitened : WhitenedParameters
    positions : ndarray of int, shape (n_components, n_own)
    slopes : ndarray, shape (n_components, n_own, n_stats)
        Of the natural parameters.

    Returns
    -------
    lost : ndarray, shape (n_coordinates, n_coordinates)
    """
    natural = data.family.natural(whitened)
    n_components, n_own = positions.shape
    size = 1 + int(positions.max())

    def statistic(block: StatsBlock, weights: Any) -> Array:
        row_stats = block.row_stats
        responsibilities = posteriors((natural @ row_stats)[None], block.scratch)[0][0]
        mean = np.zeros((size, row_stats.shape[1]))
        total = np.zeros((size, size))
        for own, slope, responsibility in zip(positions, slopes, responsibilities, strict=True):
            score = slope @ row_stats
            part = responsibility * score
            mean[own] += part
            total[np.ix_(own, own)] += (part if weights is None else part * weights) @ score.T
        return total - (mean if weights is None else mean * weights) @ mean.T

    # Chunks of far fewer rows than coordinates would cost more in adding up their matrices than in these.
    depth = min(size + 3 * n_own + 2 * n_components, CHUNK_SIZE // size)
    lost = np.zeros((size, size))
    for part in data.map_blocks(statistic, depth, written=True):
        lost += part
    return lost


def _errors(
    inverse: Array, whitened: WhitenedParameters, data: WhitenedData, positions: IndexArray, slopes: Array
) -> tuple[Array, Array, Array]:
    """Return the errors in the units of the data, from the covariance of the coordinates: delta method."""
    weights = whitened.weights
    r, m = whitened.means.shape
    by_weight = (np.diag(weights) - np.outer(weights, weights)) / np.sqrt(weights * data.weight)
    errors = np.array(
        [
            _deviations(slope.T, inverse[np.ix_(own, own)])
            for own, slope in zip(positions, slopes, strict=True)
        ]
    )
    # Components that share a covariance have the same errors of it.
    n_covariances = len(data.family.per_component(whitened.covariances))
    of_covariances = errors[:n_covariances, m:].reshape(np.shape(whitened.covariances))
    return _deviations(by_weight, inverse[:r, :r]), errors[:, :m], of_covariances


def _deviations(slopes: Array, covariance: Array) -> Array:
    """Return the standard deviations of values with those slopes, shape (n_values, n_coordinates)."""
    return np.sqrt(np.maximum(np.einsum("ij,ij->i", slopes @ covariance, slopes), 0.0))
