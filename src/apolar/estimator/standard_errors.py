"""Standard errors of a fitted mixture, from the observed information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apolar._core.arrays import Array, IndexArray
from apolar._core.numbers import figures
from apolar._core.tables import html_table
from apolar.data import CHUNK_SIZE
from apolar.em.blocks import StatsBlock, posteriors
from apolar.em.coordinates import LocalCoordinates, coordinates_of_components
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.em.rounding import with_rounding
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import open_input
from apolar.estimator.parameters import check_parameters, n_threads_of
from apolar.exceptions import ColumnError, ComponentError
from apolar.mixture.families import Family
from apolar.mixture.noise import noise_weights
from apolar.mixture.parameters import MixtureParameters, Parameters, SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.moments.available import observed_column_moments
from apolar.moments.covariance import is_constant

__all__ = ["StandardErrors", "check_columns_vary", "fitted_problem", "standard_errors"]

# The step of central differences, in deviations of a component and in logarithms of weights: a compromise
# between their error, of the order of its square, and that of rounding, of the order of its inverse.
DIFFERENCE = 1e-4
# A direction with less than this fraction of the largest information counts as flat: central differences
# are not more accurate than that.
FLAT = 1e-6
# How far a mixture may be from the maximum, in standard errors. At 1, half a unit of log-likelihood is left
# to gain.
MAX_AWAY = 1.0
# A component of exactly one row has a count of one up to rounding, which grows with the number of rows, and
# stays far below this tolerance.
MIN_ROWS = 1 - 1e-6
# What a notebook shows.
MAX_COLUMNS, MAX_CLUSTERS = 10, 30


def fitted_problem(
    estimator: Any, X: Any, sample_weight: Any, *, is_drawn: bool = False
) -> tuple[Problem, Prior | None]:
    """Return the rows of a fit, on the host and whitened as in the fit, and its prior.

    Rows that are drawn from the mixture are not rounded: with `is_drawn`, they have no rounding errors.
    """
    check_is_fitted(estimator)
    kind, prior = check_parameters(estimator)
    state = FittedState.of(estimator)
    if prior is not None:
        # Zero if the fit had no use for a prior that adapts to the rows, or is from a file without it.
        prior = prior.of_strength(state.shrinkage)
    rows = open_input(estimator, X, sample_weight, reset=False).on_host()
    data = Problem(rows, kind, threads=n_threads_of(estimator), noise=estimator.reg_covar or 0.0)
    box = state.parameters.noise
    if box is not None:
        data = with_noise_component(data, estimator.noise or estimator.noise_weight_, box)
    if state.rounding_variances is not None and state.is_rounded and not is_drawn:
        return with_rounding(data, prior, state.rounding_variances)
    return data, prior


def check_columns_vary(data: Problem) -> None:
    """Refuse a constant column: its variance is at its floor, and has no standard error there."""
    if data.scale is None:
        _, _, mean, variances = observed_column_moments(data.rows)
    else:
        # The whitening was made of these moments: no other pass over the rows is needed.
        mean, variances = data.scale.mean, data.scale.variances
    constant = np.flatnonzero(is_constant(mean, variances))
    if len(constant):
        problem = "is constant: its variance has no standard error. Fit without it."
        raise ColumnError(int(constant[0]), problem)


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
        identity if the component of each row were known: near 1 if the components hardly overlap, large if
        the rows hardly determine some direction. None after a bootstrap, which computes no information.
    noise_weight : float
        Of the weight of the noise; zero without a noise component.
    """

    weights: Array
    means: Array
    covariances: Array
    information_condition: float | None
    noise_weight: float = 0.0

    def _repr_html_(self) -> str:
        """Return the errors of weights and means for notebooks."""
        return errors_table(self.weights, self.means, "Standard errors of the weights and means")


def errors_table(weights: Array, means: Array, title: str) -> str:
    """Return a table, as HTML, of the errors of weights and means."""
    n_columns = min(means.shape[1], MAX_COLUMNS)
    more = ["..."] if means.shape[1] > n_columns else []
    heads = ["cluster", "weight", *(f"mean of x{j}" for j in range(n_columns)), *more]
    rows = [
        [str(k + 1), *(figures(float(error), 2) for error in (weights[k], *means[k, :n_columns])), *more]
        for k in range(min(len(weights), MAX_CLUSTERS))
    ]
    rest = "" if len(weights) <= MAX_CLUSTERS else f", of the first {MAX_CLUSTERS} of {len(weights)} clusters"
    return html_table(heads, rows, f"{title}{rest}; those of the covariances are in .covariances.")


def standard_errors(
    data: Problem, parameters: MixtureParameters, prior: Prior | None = None
) -> StandardErrors:
    """Return standard errors of a fitted mixture from the observed information.

    The information is minus the Hessian of the log-likelihood, without the prior, at the mixture. It is that
    of rows whose components are known, less what the unknown components take away: the variance of the
    score of a row over its components [louis1982]. Errors in the units of the data follow by the delta
    method. Two passes over the rows.

    They are asymptotic: valid for many rows, at a maximum of the likelihood, if the rows come from a mixture
    of this family. A fit with a prior is at the maximum of the posterior instead, where the gradient of the
    likelihood is small, but not zero. The difference matters only if a component holds few rows and is
    determined mostly by the prior: then the errors are too small. Use `bootstrap` where the likelihood is far
    from quadratic.

    Parameters
    ----------
    data : Problem
        The rows that the mixture was fitted to, with their weights: one of weight 2 counts as two rows.
    parameters : MixtureParameters
        One mixture, in the units of the data.
    prior : Prior or None, default=None
        The prior of the fit. It only serves to check that the mixture is at the maximum of what was fitted,
        and is no part of the information.

    Returns
    -------
    errors : StandardErrors

    Raises
    ------
    ValueError
        If the mixture is not near a maximum, or the rows do not determine its parameters; the message says
        which, and what to do. A ComponentError if that is due to one component.
    """
    _check_rows_held(data, parameters)
    family, whitened = data.family, data.whitening.transform_parameters(parameters)
    _check_not_collapsed(family, whitened)
    coordinates = data.coordinates(whitened)
    positions = coordinates_of_components(family, whitened.n_components, whitened.n_features)
    stats = data.e_step(whitened[None])[0][0]
    known, slopes = _slopes(data, coordinates, positions, stats)
    if data.is_incomplete:
        information = _observed_information(data, coordinates, whitened.weights)
    else:
        information = known - _lost(data, whitened, positions, slopes[:, :, : data.n_stats])
    # Along the null direction the mixture does not change, and the information is zero. One is added there,
    # so that the information of known components is the identity; this changes no standard error.
    null_direction = coordinates.null_direction / np.linalg.norm(coordinates.null_direction)
    information += np.outer(null_direction, null_direction)
    if not np.all(np.isfinite(information)):
        raise ValueError(
            "The information is not finite: a component has collapsed. Fit with the default prior, or ask "
            "for fewer components."
        )
    values, vectors = np.linalg.eigh((information + information.T) / 2)
    _check_maximum(values, vectors[:, 0], positions)
    adapted = None if prior is None else prior.adapted_to(family, stats)
    gradient = coordinates.gradient(coordinates.origin, whitened, stats, adapted)
    _check_near(float(np.linalg.norm(vectors.T @ gradient / np.sqrt(values))))
    inverse = (vectors / values) @ vectors.T
    weights, means, covariances = _errors(inverse, whitened, data, positions, slopes[:, :, data.n_stats :])
    condition, r = float(values[-1] / values[0]), whitened.n_components
    return StandardErrors(
        weights[:r], means, covariances, condition, float(weights[r]) if coordinates.has_noise else 0.0
    )


def _check_rows_held(data: Problem, parameters: Parameters) -> None:
    counts = parameters.weights * data.weight
    least = int(np.argmin(counts))
    # The local coordinates take the count of a component to be at least one row.
    if not counts[least] >= MIN_ROWS:
        # A count just below one, rounded, would be shown as 1.
        shown = min(counts[least], 0.99)
        problem = f"holds {shown:.2g} rows, too few to determine its parameters. Fit with fewer components."
        raise ComponentError(least, problem)


def _check_not_collapsed(family: Family, whitened: WhitenedParameters) -> None:
    if not family.is_collapsed(whitened.covariances):
        return
    matrices = family.matrices(whitened.covariances, *whitened.means.shape)
    narrowest = int(np.argmin(np.linalg.eigvalsh(matrices)[:, 0]))
    raise ComponentError(
        narrowest,
        "has collapsed: it has no variance in some direction. Fit with the default prior, or ask for fewer "
        "components.",
    )


def _check_maximum(values: Array, direction: Array, positions: IndexArray) -> None:
    """Refuse a mixture where the likelihood has a direction of positive curvature, or of none.

    Parameters
    ----------
    values : ndarray
        The eigenvalues of the information, the smallest first.
    direction : ndarray, shape (n_coordinates,)
        The eigenvector of the smallest.
    positions : ndarray of int, shape (n_components, n_moving)
        The coordinates that move each component.
    """
    largest = max(float(values[-1]), 1.0)
    if values[0] > FLAT * largest:
        return
    worst = int(np.argmax(np.linalg.norm(direction[positions], axis=1)))
    if values[0] < -FLAT * largest:
        raise ComponentError(
            worst,
            "is not at a maximum of the likelihood of these rows: the likelihood rises if it is changed. Fit "
            "the mixture to these rows and their weights with a larger max_iter, a smaller tol, or another "
            "start; if this message stays, the component is determined by the prior and not by the rows: ask "
            "for fewer components.",
        )
    raise ComponentError(
        worst,
        "has parameters that the rows do not determine: the likelihood is flat in a direction, because "
        "components are the same or one has collapsed. Ask for fewer components or a covariance_type with "
        "fewer parameters, or fit with the default prior.",
    )


def _check_near(away: float) -> None:
    if not away <= MAX_AWAY:
        raise ValueError(
            f"The mixture is {away:.2g} standard errors from the maximum on these rows. Pass the rows and "
            "the sample_weight of the fit; if they are those, fit with a larger max_iter or a smaller tol."
        )


def _slopes(
    data: Problem, coordinates: LocalCoordinates, positions: IndexArray, stats: SufficientStats
) -> tuple[Array, Array]:
    """Return the information of known components, and the derivatives of the components by the coordinates.

    Both by central differences, without reading rows: with the statistics of the E-step held fixed, the
    gradient in the local coordinates is that of the expected complete log-likelihood.

    Parameters
    ----------
    data : Problem
    coordinates : LocalCoordinates
        Around the mixture.
    positions : ndarray of int, shape (n_components, n_moving)
        The coordinates that move each component.
    stats : SufficientStats
        Those of the E-step at the mixture.

    Returns
    -------
    known : ndarray, shape (n_coordinates, n_coordinates)
    slopes : ndarray, shape (n_components, n_moving, n_stats + n_parameters)
        The derivatives of the natural parameters of each component, in whitened coordinates, and of its mean
        and covariance, in the units of the data, by the coordinates that move it.
    """
    family, whitening = data.family, data.whitening
    count_roots = np.sqrt(coordinates.centre.weights * coordinates.weight)
    # A coordinate is in deviations of the component over the root of its count.
    steps = np.zeros(len(coordinates.origin))
    for moving, count_root in zip(positions, count_roots, strict=True):
        steps[moving] = np.maximum(steps[moving], DIFFERENCE * count_root)
    if coordinates.has_noise:
        steps[-1] = DIFFERENCE * coordinates.noise_root

    def at(tangent: Array) -> tuple[Array, Array]:
        parameters = coordinates.retract(tangent)
        flat_parameters = _by_component(whitening.inverse_transform_parameters(parameters), family)
        gradient = coordinates.gradient(tangent, parameters, stats, None)
        natural = data.natural(parameters)[: parameters.n_components]
        return gradient, np.concatenate([natural, flat_parameters], axis=1)

    known = np.empty((len(steps), len(steps)))
    slopes = np.empty((*positions.shape, at(coordinates.origin)[1].shape[1]))
    for j, step in enumerate(steps):
        tangent = coordinates.origin
        tangent[j] = step
        (gradient, values), (other_gradient, other_values) = at(tangent), at(-tangent)
        known[j] = (other_gradient - gradient) / (2 * step)
        slope = (values - other_values) / (2 * step)
        for k, moving in enumerate(positions):
            slopes[k, moving == j] = slope[k]
    # A change of one weight also changes the others, as they add up to one. That part is the same for all
    # components, does not enter their variance, and is left out: the coordinate of a weight then moves its
    # component alone.
    slopes[:, 0] = 0.0
    slopes[:, 0, 0] = 1 / count_roots
    return known, slopes


def _observed_information(data: Problem, coordinates: LocalCoordinates, weights: Array) -> Array:
    """Return the information of rows with missing values, by central differences: two passes a coordinate.

    What is lost with the missing values depends on the pattern of each row; the gradient, from an exact
    E-step, knows all of it.
    """
    # As in `_slopes`, for the coordinates of a component of average size.
    step = DIFFERENCE * float(np.sqrt(np.mean(weights) * data.weight))

    def gradient_at(tangent: Array) -> Array:
        parameters = coordinates.retract(tangent)
        stats = data.e_step(parameters[None])[0][0]
        return coordinates.gradient(tangent, parameters, stats, None)

    n_coordinates = len(coordinates.origin)
    information = np.empty((n_coordinates, n_coordinates))
    for j in range(n_coordinates):
        tangent = coordinates.origin
        tangent[j] = step
        information[j] = (gradient_at(-tangent) - gradient_at(tangent)) / (2 * step)
    return information


def _by_component(parameters: MixtureParameters, family: Family) -> Array:
    """Return mean and covariance of each component, shape (n_components, n_parameters)."""
    means = parameters.means
    covariances = family.per_component(np.asarray(parameters.covariances))
    flat = covariances.reshape(len(covariances), -1)
    return np.concatenate([means, np.broadcast_to(flat, (len(means), flat.shape[1]))], axis=1)


def _lost(data: Problem, whitened: WhitenedParameters, positions: IndexArray, slopes: Array) -> Array:
    """Return the information that is lost because the components of the rows are unknown, by one pass.

    The sum over rows of the covariance of the score over the components of a row [louis1982].

    Parameters
    ----------
    data : Problem
    whitened : WhitenedParameters
    positions : ndarray of int, shape (n_components, n_moving)
    slopes : ndarray, shape (n_components, n_moving, n_stats)
        The derivatives of the natural parameters.

    Returns
    -------
    lost : ndarray, shape (n_coordinates, n_coordinates)
    """
    natural = data.natural(whitened)
    n_components, n_moving = positions.shape
    coordinates = data.coordinates(whitened)
    size = len(coordinates.origin)

    def statistic(block: StatsBlock, weights: Any) -> Array:
        row_stats = block.row_stats
        responsibilities = posteriors((natural @ row_stats)[None], block.scratch)[0][0]
        mean = np.zeros((size, row_stats.shape[1]))
        total = np.zeros((size, size))
        if coordinates.has_noise:
            # Of the noise only the weight has a coordinate, the last.
            part = responsibilities[-1] / coordinates.noise_root
            mean[-1] = part
            total[-1, -1] = (part if weights is None else part * weights).sum() / coordinates.noise_root
        of_components = responsibilities[:n_components]
        for moving, slope, responsibility in zip(positions, slopes, of_components, strict=True):
            score = slope @ row_stats
            part = responsibility * score
            mean[moving] += part
            total[np.ix_(moving, moving)] += (part if weights is None else part * weights) @ score.T
        return total - (mean if weights is None else mean * weights) @ mean.T

    # With far fewer rows per chunk than coordinates, adding up the matrices would cost more than making them.
    depth = min(size + 3 * n_moving + 2 * n_components, CHUNK_SIZE // size)
    lost = np.zeros((size, size))
    for part in data.map_blocks(statistic, depth, written=True):
        lost += part
    return lost


def _errors(
    inverse: Array, whitened: WhitenedParameters, data: Problem, positions: IndexArray, slopes: Array
) -> tuple[Array, Array, Array]:
    """Return the errors in the units of the data, by the delta method from the covariance of coordinates."""
    weights, of_weights = whitened.weights, np.arange(whitened.n_components)
    m = whitened.n_features
    if data.whitening.has_noise_component:
        weights = np.append(weights, noise_weights(weights))
        of_weights = np.append(of_weights, len(inverse) - 1)
    by_weight = (np.diag(weights) - np.outer(weights, weights)) / np.sqrt(weights * data.weight)
    errors = np.array(
        [
            _deviations(slope.T, inverse[np.ix_(moving, moving)])
            for moving, slope in zip(positions, slopes, strict=True)
        ]
    )
    # The errors of a shared covariance are those of any component.
    n_covariances = len(data.family.per_component(whitened.covariances))
    of_covariances = errors[:n_covariances, m:].reshape(np.shape(whitened.covariances))
    weight_errors = _deviations(by_weight, inverse[np.ix_(of_weights, of_weights)])
    return weight_errors, errors[:, :m], of_covariances


def _deviations(slopes: Array, covariance: Array) -> Array:
    """Return the standard deviations of values, from their slopes, shape (n_values, n_coordinates)."""
    return np.sqrt(np.maximum(np.einsum("ij,ij->i", slopes @ covariance, slopes), 0.0))
