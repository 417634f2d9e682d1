"""How sure a fitted mixture is of its parameters: by the information in the rows, and by resampling them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar._core.arrays import Array, IndexArray
from apolar._core.checks import check_integer, positive_number
from apolar.data import CHUNK_SIZE, open_rows
from apolar.data.derived import WeightedRows
from apolar.em.blocks import StatsBlock, posteriors
from apolar.em.coordinates import LocalCoordinates
from apolar.em.loop import FitStatus, converge
from apolar.em.whitened import WhitenedData
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters, Parameters, WhitenedParameters, batch
from apolar.mixture.prior import Prior

__all__ = ["Bootstrap", "Interval", "StandardErrors", "bootstrap", "standard_errors"]

# The step of the differences, in deviations of a component and in logarithms: its square is what they
# leave out, and rounding over it is what they add.
DIFFERENCE = 1e-4
# Directions with less than this of the largest information are flat: differences tell no more.
FLAT = 1e-6
# Standard errors that a mixture may be away from the maximum: half a unit of log-likelihood left to gain.
MOST_AWAY = 1.0
# The count of a component with one row is a share of a sum over all rows: one, but for rounding. That grows
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
    table : Table
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
    family, inside = data.family, data.whitening.transform_parameters(parameters)
    coordinates = LocalCoordinates(family, inside, data.weight)
    owned = _owned(coordinates)
    stats = data.e_step(inside[None])[0][0]
    known, slopes = _slopes(data, coordinates, owned, stats)
    scores = [slope[:, : data.n_stats] for slope in slopes]
    information = known - _lost(data, inside, owned, scores)
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
    _check_maximum(values, vectors[:, 0], owned)
    gradient = coordinates.gradient(coordinates.origin, inside, stats, prior)
    _check_near(float(np.linalg.norm(vectors.T @ gradient / np.sqrt(values))))
    inverse = (vectors / values) @ vectors.T
    weights, means, covariances = _outward(
        inverse, inside, data, owned, [slope[:, data.n_stats :] for slope in slopes]
    )
    return StandardErrors(weights, means, covariances, float(values[-1] / values[0]))


def _check_rows_held(data: WhitenedData, parameters: Parameters) -> None:
    counts = parameters.weights * data.weight
    least = int(np.argmin(counts))
    # The coordinates count a component with less than a row as if it had one.
    if not counts[least] >= LEAST_ROWS:
        # Rounded, a count just below one would read as one row.
        shown = min(counts[least], 0.99)
        raise ValueError(
            f"Component {least} holds {shown:.2g} rows, too few to tell its parameters. Fit with fewer "
            "components."
        )


def _check_maximum(values: Array, direction: Array, owned: list[IndexArray]) -> None:
    """Refuse a mixture at which the likelihood curves upwards, or not at all."""
    largest = max(float(values[-1]), 1.0)
    if values[0] > FLAT * largest:
        return
    worst = int(np.argmax([np.linalg.norm(direction[own]) for own in owned]))
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


def _owned(coordinates: LocalCoordinates) -> list[IndexArray]:
    """Return which coordinates move each component: its weight, its mean, its covariance.

    Tied components share those of the covariance.
    """
    r, m = coordinates.centre.means.shape
    rest = np.arange(r + r * m, len(coordinates.origin))
    spreads = np.broadcast_to(rest, (r, len(rest))) if coordinates.family.tied else rest.reshape(r, -1)
    return [np.concatenate([[k], r + k * m + np.arange(m), spreads[k]]) for k in range(r)]


def _slopes(
    data: WhitenedData, coordinates: LocalCoordinates, owned: list[IndexArray], stats: Array
) -> tuple[Array, list[Array]]:
    """Return the information if components were known, and how components change with the coordinates.

    Both by central differences without reading rows: with the sums of the E-step held, the gradient of the
    chart is that of the expected complete log-likelihood.

    Returns
    -------
    known : ndarray, shape (n_coordinates, n_coordinates)
    slopes : list of ndarray, shape (n_owned, width + n_parameters)
        For each component the derivatives of its natural parameters in the frame, and of its mean and
        covariance in the units of the data, by its own coordinates.
    """
    family, whitening = data.family, data.whitening
    counts = np.sqrt(coordinates.centre.weights * coordinates.weight)
    # Coordinates are in deviations over the roots of the counts.
    steps = np.zeros(len(coordinates.origin))
    for own, count in zip(owned, counts, strict=True):
        steps[own] = np.maximum(steps[own], DIFFERENCE * count)

    def at(point: Array) -> tuple[Array, Array]:
        moved = coordinates.retract(point)
        flat_parameters = _by_component(whitening.inverse_transform_parameters(moved), family)
        gradient = coordinates.gradient(point, moved, stats, None)
        return gradient, np.concatenate([family.natural(moved), flat_parameters], axis=1)

    known = np.empty((len(steps), len(steps)))
    slopes: list[Array] = []
    for j, step in enumerate(steps):
        point = coordinates.origin
        point[j] = step
        (gradient, values), (other_gradient, other_values) = at(point), at(-point)
        known[j] = (other_gradient - gradient) / (2 * step)
        slope = (values - other_values) / (2 * step)
        if not slopes:
            slopes = [np.empty((len(own), slope.shape[1])) for own in owned]
        for k, own in enumerate(owned):
            slopes[k][own == j] = slope[k]
    for k, count in enumerate(counts):
        # Less what the sum of the weights takes from all components alike: it is no part of the variance
        # over components, and without it each coordinate is that of its own component alone.
        slopes[k][0] = 0.0
        slopes[k][0, 0] = 1 / count
    return known, slopes


def _by_component(parameters: MixtureParameters, family: Family) -> Array:
    """Return mean and covariance of each component, shape (n_components, n_parameters)."""
    means = parameters.means
    covariances = np.asarray(parameters.covariances)
    flat = covariances.reshape(1, -1) if family.tied else covariances.reshape(len(means), -1)
    return np.concatenate([means, np.broadcast_to(flat, (len(means), flat.shape[1]))], axis=1)


def _lost(
    data: WhitenedData, inside: WhitenedParameters, owned: list[IndexArray], slopes: list[Array]
) -> Array:
    """Return the information that not knowing the components takes away, by one pass over the rows.

    The sum over rows of the covariance, over the components of a row, of its score [louis1982].
    """
    natural = data.family.natural(inside)
    size = 1 + max(int(own.max()) for own in owned)

    def statistic(block: StatsBlock, weights: Any) -> Array:
        features = block.row_stats
        posterior = posteriors((natural @ features)[None], block.scratch)[0][0]
        mean = np.zeros((size, features.shape[1]))
        total = np.zeros((size, size))
        for own, slope, share in zip(owned, slopes, posterior, strict=True):
            score = slope @ features
            part = share * score
            mean[own] += part
            total[np.ix_(own, own)] += (part if weights is None else part * weights) @ score.T
        return total - (mean if weights is None else mean * weights) @ mean.T

    # Chunks of far fewer rows than coordinates would cost more in adding up their matrices than in these.
    depth = min(size + 3 * max(len(own) for own in owned) + 2 * len(owned), CHUNK_SIZE // size)
    lost = np.zeros((size, size))
    for part in data.map_blocks(statistic, depth, written=True):
        lost += part
    return lost


def _outward(
    inverse: Array,
    inside: WhitenedParameters,
    data: WhitenedData,
    owned: list[IndexArray],
    slopes: list[Array],
) -> tuple[Array, Array, Array]:
    """Return the errors in the units of the data, from the covariance of the coordinates: delta method."""
    weights = inside.weights
    r, m = inside.means.shape
    by_weight = (np.diag(weights) - np.outer(weights, weights)) / np.sqrt(weights * data.weight)
    each = [_roots(slope.T, inverse[np.ix_(own, own)]) for own, slope in zip(owned, slopes, strict=True)]
    errors = np.array(each)
    spreads = errors[0, m:] if data.family.tied else errors[:, m:]
    shape = np.shape(inside.covariances)
    return _roots(by_weight, inverse[:r, :r]), errors[:, :m], spreads.reshape(shape)


def _roots(slopes: Array, covariance: Array) -> Array:
    """Return the deviations of values with those slopes, shape (n_values, n_coordinates)."""
    return np.sqrt(np.maximum(np.einsum("ij,ij->i", slopes @ covariance, slopes), 0.0))


# --- resampling -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Interval:
    """Intervals for the parameters of a mixture: lower ends at index 0 of each array, upper ones at 1.

    Attributes
    ----------
    level : float
        The share of the resamples between the ends of each.
    weights : ndarray, shape (2, n_components)
    means : ndarray, shape (2, n_components, n_features)
    covariances : ndarray, shape (2, ...)
    """

    level: float
    weights: Array
    means: Array
    covariances: Array


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Mixtures fitted to resamples, in the units of the data.

    Attributes
    ----------
    weights : ndarray, shape (n_resamples, n_components)
        Components in the order of the fitted mixture.
    means : ndarray, shape (n_resamples, n_components, n_features)
    covariances : ndarray, shape (n_resamples, ...)
        In the shape of the covariances of the family.
    converged : ndarray of bool, shape (n_resamples,)
        Whether the fit to each resample reached an optimum; if many did not, raise max_iter.
    """

    weights: Array
    means: Array
    covariances: Array
    converged: Array

    def standard_errors(self) -> StandardErrors:
        """Return the standard deviations over the resamples."""
        return StandardErrors(
            np.std(self.weights, axis=0, ddof=1),
            np.std(self.means, axis=0, ddof=1),
            np.asarray(np.std(self.covariances, axis=0, ddof=1)),
            None,
        )

    def interval(self, level: float = 0.95) -> Interval:
        """Return percentile intervals.

        Parameters
        ----------
        level : float, default=0.95
            The share of the resamples that each interval holds, between 0 and 1.

        Returns
        -------
        interval : Interval
        """
        level = positive_number(level, "level")
        if level >= 1:
            raise ValueError(f"level must be below 1, not {level}: 0.95 for intervals of 95 per cent.")
        ends = [(1 - level) / 2, (1 + level) / 2]
        arrays = (self.weights, self.means, self.covariances)
        return Interval(level, *(np.quantile(array, ends, axis=0) for array in arrays))


def bootstrap(
    data: WhitenedData,
    parameters: MixtureParameters,
    prior: Prior | None,
    *,
    rng: np.random.Generator,
    n_resamples: int = 200,
    parametric: bool = False,
    tol: float = 1e-3,
    max_iter: int = 500,
) -> Bootstrap:
    """Return mixtures fitted to resamples of the rows, each by EM from the fitted mixture.

    Components are matched to those of the fitted mixture one to one, by how far apart they are, as Gaussians
    in the metric of the fitted one and in the logarithm of the weight.

    Parameters
    ----------
    table : Table
        The rows that the mixture was fitted to, with their weights: a row of weight 2 is two rows.
    parameters : MixtureParameters
        The fitted mixture, in the units of the data.
    prior : Prior or None
        That of the fit. It stays relative to all rows.
    rng : numpy.random.Generator
    n_resamples : int, default=200
    parametric : bool, default=False
        Draw rows from the mixture, and not from the table: for few rows, if the mixture is believed.
    tol, max_iter : float and int
        As in the fit.

    Returns
    -------
    bootstrap : Bootstrap
    """
    n_resamples = check_integer(n_resamples, "n_resamples", least=2)
    family, whitening = data.family, data.whitening
    inside = whitening.transform_parameters(parameters)
    drawn = _drawn(data, parameters, rng) if parametric else _reweighted(data, rng)
    fits = [converge(next(drawn), inside, prior, tol=tol, max_iter=max_iter) for _ in range(n_resamples)]
    found = whitening.inverse_transform_parameters(
        batch([_aligned(fit.parameters, inside, family) for fit in fits])
    )
    converged = np.array([fit.status is FitStatus.CONVERGED for fit in fits])
    return Bootstrap(found.weights, found.means, found.covariances, converged)


def _aligned(parameters: WhitenedParameters, to: WhitenedParameters, family: Family) -> WhitenedParameters:
    """Return the components in the order that matches those of another mixture best."""
    unit = family.divisor(np.ones(()), to.n_features)
    offsets = parameters.means[None, :] - to.means[:, None]
    spread = family.between(offsets, np.ones(offsets.shape[:2])) + unit * parameters.covariances
    metric = to.covariances if family.tied else to.covariances[:, None]
    # The divergence of the Gaussians, but for terms of one of the two alone, which matching does not change.
    apart = 0.5 * family.trace_ratio(spread, metric)
    logs, to_logs = (np.log(np.maximum(c.weights, 1e-300)) for c in (parameters, to))
    order = linear_sum_assignment(apart + np.abs(logs[None, :] - to_logs[:, None]))[1]
    covariances = parameters.covariances if family.tied else parameters.covariances[order]
    return WhitenedParameters(parameters.weights[order], parameters.means[order], covariances)


def _reweighted(data: WhitenedData, rng: np.random.Generator) -> Iterator[WhitenedData]:
    """Yield resamples of the rows: the same rows, each as often as it was drawn."""
    parts = [
        np.ones(values.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
        for values, weights in data.rows.read(data.rows.chunk_rows())
    ]
    weights = np.concatenate(parts)
    n_draws = max(1, round(data.weight))
    while True:
        counts = rng.multinomial(n_draws, weights / weights.sum()) * (data.weight / n_draws)
        yield WhitenedData(WeightedRows(data.rows, counts), data.family, data.whitening, data.threads)


def _drawn(
    data: WhitenedData, parameters: MixtureParameters, rng: np.random.Generator
) -> Iterator[WhitenedData]:
    """Yield tables of as many rows, drawn from the mixture."""
    family, n_rows = data.family, max(1, round(data.weight))
    whitening = replace(data.whitening, n_rows=n_rows, weight=float(n_rows))
    root = family.root(np.asarray(parameters.covariances))
    while True:
        labels = rng.choice(len(parameters.weights), n_rows, p=parameters.weights / parameters.weights.sum())
        noise = rng.standard_normal((n_rows, data.n_features))
        rows = parameters.means[labels] + family.mean_retraction(root if family.tied else root[labels], noise)
        yield WhitenedData(open_rows(rows), family, whitening, data.threads)
