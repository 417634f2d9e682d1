"""Mixtures of one component more or less, proposed from a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.constants import MIN_WEIGHT
from apolar._core.settings import SETTINGS
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, has_compiled_run, run
from apolar.mixture.families import Family, PriorTerms
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, noise_weights
from apolar.mixture.prior import Prior
from apolar.mixture.storage import LOG_2PI
from apolar.search.merging import OwnedRows, added_gains, untied_stats


@dataclass(frozen=True, eq=False)
class Extension:
    """A mixture with one component more: some instead of one, or one in addition.

    Attributes
    ----------
    gain : float
        What it adds to the log-likelihood, with the other components as they are.
    replaced : int or None
        The component that is split; None if one is added.
    parts : ndarray, shape (n_parts, n_stats)
        The sufficient statistics of the new components.
    """

    gain: float
    replaced: int | None
    parts: Array


@dataclass(frozen=True, eq=False)
class _PriorOfParts(Prior):
    """The prior of one component of a mixture as that of the parts that it is split into."""

    known: PriorTerms = field(kw_only=True)

    def terms(self, family: Family, n_components: int, n_features: int) -> PriorTerms:  # noqa: ARG002
        """Return what the prior adds to the M-step."""
        return self.known


def extensions(
    data: Problem, parameters: WhitenedParameters, prior: Prior, rng: np.random.Generator
) -> list[Extension]:
    """Return mixtures with one component more, by decreasing gain.

    Each component is split, by EM on the rows that it owns with the densities of the others as they are
    [ueda2000]: all splits together take about the time of a few passes over the rows. Components are also
    added where rows are unlikely.

    Parameters
    ----------
    data : Problem
    parameters : WhitenedParameters
        One mixture.
    prior : Prior
        Of the mixture.
    rng : numpy.random.Generator
    """
    stats = untied_stats(data, parameters)
    terms = data.family.prior_terms(prior.adapted_to(data.family, stats), len(stats.counts), data.n_features)
    shares, density = data.shares(parameters)
    found = _added_components(data, parameters, terms, density, rng)
    owned = OwnedRows(data, shares)
    for k in range(parameters.n_components):
        rows = owned.of(*owned.shares_of(k))
        if rows is not None:
            found += _splits(rows, parameters, k, terms, data.weight)
    return sorted(found, key=lambda each: -each.gain)


def _splits(
    rows: Problem, parameters: WhitenedParameters, k: int, terms: PriorTerms, n_rows: float
) -> list[Extension]:
    """Return the splits of a component, by EM on the rows that it owns."""
    family = rows.family
    covariance = family.per_component(parameters.covariances)[0 if family.shares_covariance else k]
    dof = None if parameters.dof is None else parameters.dof[k : k + 1]
    means = parameters.means[k : k + 1]
    whole = WhitenedParameters(np.ones(1), means, family.repeated(covariance, 1), dof=dof)
    starts = _starts_of_splits(rows, whole)
    if not starts:
        return []
    if family.shares_covariance:
        # The rows of the other components have it too.
        others = float(family.divisor(np.ones(()), rows.n_features)) * (n_rows - rows.weight)
        terms = terms._replace(scatter=terms.scatter + others * covariance, divisor=terms.divisor + others)
    else:
        terms = _terms_of(family, terms, k)
    prior = _PriorOfParts(known=terms)
    stop = Stop(SETTINGS.short_steps, SETTINGS.relative_tolerance if has_compiled_run(rows) else None)
    ends = run(rows, [Fit(each, "split") for each in starts], prior, stop)
    before = float(rows.e_step(family.with_dof(whole)[None])[1][0])
    return [Extension(end.score - before, k, untied_stats(rows, end.parameters).array) for end in ends]


def extend_mixture(
    stats: SufficientStats, chosen: list[Extension], removed: Sequence[int] = ()
) -> SufficientStats:
    """Return the statistics of a mixture with some components instead of others, or in addition."""
    array, n_rows = stats.array, stats.counts.sum()
    for each in chosen:
        if each.replaced is None:
            array = array * max(1 - each.parts[:, 0].sum() / n_rows, MIN_WEIGHT)
    replaced = [each.replaced for each in chosen if each.replaced is not None]
    kept = np.delete(array, [*replaced, *removed], axis=0)
    return SufficientStats(np.concatenate([kept, *(each.parts for each in chosen)]), stats.n_features)


def exchanges(
    stats: SufficientStats, found: list[Extension], costs: Array, pairs: list[tuple[int, int]]
) -> Array | None:
    """Return the statistics of a mixture after all extensions that gain more than a merger elsewhere costs.

    Extensions and mergers touch different components, so that their gains add up. None if there is none.

    Parameters
    ----------
    stats : SufficientStats
        Of the mixture.
    found : list of Extension
        By decreasing gain.
    costs, pairs : ndarray and list of pairs
        Of mergers, the cheapest first.
    """
    touched, chosen, merged = set[int | None](), list[Extension](), list[tuple[int, int]]()
    for each in found:
        if each.replaced in touched or (each.replaced is None and None in [e.replaced for e in chosen]):
            continue
        while len(costs) and not touched.isdisjoint(pairs[0]):
            costs, pairs = costs[1:], pairs[1:]
        free = (i for i, pair in enumerate(pairs) if each.replaced not in pair and touched.isdisjoint(pair))
        i = next(free, None)
        if i is None or each.gain < costs[i] + SETTINGS.sample_tolerance:
            break
        chosen.append(each)
        merged.append(pairs[i])
        touched |= {*pairs[i], each.replaced}
    if not chosen:
        return None
    array = stats.array.copy()
    for i, j in merged:
        array[i] += array[j]
    removed = [j for _, j in merged]
    # Positions of what is split are still those of the mixture.
    return extend_mixture(SufficientStats(array, stats.n_features), chosen, removed).array


def _starts_of_splits(rows: Problem, whole: WhitenedParameters) -> list[WhitenedParameters]:
    """Return a component in two, in each way that has a direction."""
    weights, mean = rows.row_weights(), whole.means[0]
    shares = np.full(rows.n_rows, 1 / rows.n_rows) if weights is None else weights / weights.sum()
    values, vectors = _principal_axes(rows, shares, mean)
    if not values[-1] > 0:
        return []
    halves = _halve(rows, whole, 0, SETTINGS.half_step * np.sqrt(values[-1]) * vectors[:, -1])
    skewed = _skewed_split(rows, whole, shares, 0, values, vectors)
    return [halves] if skewed is None else [halves, skewed]


def _principal_axes(data: Problem, shares: Array, mean: Array) -> tuple[Array, Array]:
    """Return the variances of rows along their principal axes, and the axes as columns, the largest last.

    Parameters
    ----------
    data : Problem
    shares : ndarray, shape (n_rows,)
        The responsibilities for the rows, of sum one.
    mean : ndarray, shape (n_features,)

    Returns
    -------
    values : ndarray, shape (n_axes,)
    vectors : ndarray, shape (n_features, n_axes)
        Of many columns, the first axis alone.
    """
    x = data.whitened_rows()
    if len(mean) <= SETTINGS.dense_columns:
        values, vectors = np.linalg.eigh((x * shares) @ x.T - np.outer(mean, mean))
        return values, vectors
    vector = np.ones(len(mean)) / np.sqrt(len(mean))
    value = 0.0
    for _ in range(SETTINGS.power_iterations):
        image = x @ (shares * (vector @ x)) - mean * float(mean @ vector)
        value = float(np.linalg.norm(image))
        if not value > 0:
            break
        vector = image / value
    return np.array([value]), vector[:, None]


def _split(
    parameters: WhitenedParameters, k: int, weights: Array, means: Array, covariances: Array
) -> WhitenedParameters:
    """Return the mixture with component k replaced by two of the given weights and means, the second last.

    `covariances` are those of all components of the new mixture.
    """
    new_weights = np.append(parameters.weights, weights[1])
    new_weights[k] = weights[0]
    new_means = np.vstack([parameters.means, means[1]])
    new_means[k] = means[0]
    return WhitenedParameters(new_weights, new_means, covariances)


def _halve(data: Problem, parameters: WhitenedParameters, k: int, offset: Array) -> WhitenedParameters:
    """Return the mixture with component k replaced by two equal halves, at plus and minus the offset."""
    mean, weight = parameters.means[k], parameters.weights[k]
    covariances = data.family.halved(parameters.covariances, k, offset)
    means = np.stack([mean - offset, mean + offset])
    return _split(parameters, k, np.full(2, weight / 2), means, covariances)


def _two_parts(second: float, third: float) -> tuple[Array, Array]:
    """Return the offsets of two parts from their mean, and their fractions, by the moments of the offsets.

    The offsets are the roots of z^2 - (third / second) z - second.
    """
    midpoint = third / (2 * second)
    half = np.sqrt(midpoint**2 + second)
    offsets = np.array([midpoint - half, midpoint + half])
    fractions = np.maximum(np.array([offsets[1], -offsets[0]]) / (2 * half), SETTINGS.min_fraction)
    return offsets, fractions / fractions.sum()


def _variance_between(third: float, fourth: float) -> float:
    """Return the variance between two parts of the same variance, whose union has variance one.

    Parameters
    ----------
    third, fourth : float
        Cumulants of the union. For parts of fractions f and 1 - f at a variance v between them they are
        v^(3/2) (1 - 2 f) / s and v^2 (1 - 6 s^2) / s^2 with s^2 = f (1 - f), so that
        2 v^3 + fourth v = third^2.
    """
    roots = np.roots([2.0, 0.0, fourth, -(third**2)])
    largest = float(roots.real[np.abs(roots.imag) < 1e-9].max(initial=0.0))
    return min(max(largest, SETTINGS.min_between), SETTINGS.max_between)


@np.errstate(over="ignore", invalid="ignore")
def _skewed_split(
    data: Problem,
    parameters: WhitenedParameters,
    shares: Array,
    k: int,
    values: Array,
    vectors: Array,
) -> WhitenedParameters | None:
    """Return the mixture with component k split in two along the direction of its skewness.

    A small cluster next to a larger one hardly changes the covariance of their union, and the principal axis
    passes it by. The third moments do not: for two clusters of the same covariance they are those of one
    direction, that from one to the other. None of many columns, where there is no skewness, and where moments
    of rows that are far away overflow.
    """
    is_varied = values > SETTINGS.min_axis_variance * values[-1]
    if len(values) < data.n_features or not np.any(is_varied):
        return None
    mean, weight = parameters.means[k], parameters.weights[k]
    axes = vectors[:, is_varied] * np.sqrt(values[is_varied])
    whitened = (vectors[:, is_varied] / np.sqrt(values[is_varied])).T @ (data.whitened_rows() - mean[:, None])
    direction = whitened @ (shares * np.einsum("ij,ij->j", whitened, whitened))
    length = float(np.linalg.norm(direction))
    if not length > 0:
        return None
    along = direction @ whitened / length
    axis = axes @ direction / length
    third, fourth = float(shares @ along**3), float(shares @ along**4)
    if not np.isfinite(fourth):
        return None
    between = _variance_between(third, fourth - 3)
    offsets, fractions = _two_parts(between, third)
    covariances = data.family.halved(parameters.covariances, k, np.sqrt(between) * axis)
    return _split(parameters, k, weight * fractions, mean + offsets[:, None] * axis, covariances)


def _added_components(
    data: Problem, parameters: WhitenedParameters, terms: PriorTerms, density: Array, rng: np.random.Generator
) -> list[Extension]:
    """Return small components added at the rows where that raises the likelihood most.

    One is at a row of low density, and one at any: a cluster that is covered by a larger one is hardly ever
    where the density is lowest.
    """
    n_tried = min(SETTINGS.tried_rows, len(density))
    lowest = np.argpartition(density, n_tried - 1)[:n_tried]
    groups = lowest, rng.choice(len(density), n_tried, replace=False)
    added = (_component_near(data, parameters, density, tried) for tried in groups)
    return [_grown(data, each, terms, density) for each in added]


def _component_near(
    data: Problem, parameters: WhitenedParameters, density: Array, tried: IndexArray
) -> WhitenedParameters:
    """Return the component that gains most among those at some rows."""
    family, n = data.family, len(density)
    centres = data.whitened_rows()[:, tried].T
    compared = slice(None, None, max(1, n // SETTINGS.split_rows))
    options = []
    for covariance in _likely_covariances(data, parameters):
        # Each candidate as a mixture of one component.
        covariances = family.repeated(covariance, len(tried))
        natural = family.natural(WhitenedParameters(np.ones(len(tried)), centres, covariances))
        gains, weights = added_gains(data, compared, natural, density[compared], SETTINGS.weight_steps)
        best = int(np.argmax(gains))
        options.append((float(gains[best]), max(float(weights[best]), 1 / n), centres[best], covariance))
    _, weight, centre, covariance = max(options, key=lambda option: option[0])
    return WhitenedParameters(np.array([weight]), centre[None], family.repeated(covariance, 1))


def _grown(data: Problem, added: WhitenedParameters, terms: PriorTerms, density: Array) -> Extension:
    """Return an added component after steps of EM next to the mixture as it is."""
    family, n = data.family, len(density)
    prior = _PriorOfParts(known=_terms_of(family, terms, 0))
    weights = data.row_weights()
    of_rows = np.ones(n) if weights is None else weights
    for _ in range(SETTINGS.short_steps):
        weight, held = float(np.clip(added.weights[0], 1 / n, 0.5)), added.covariances
        logits = data.row_logits(data.family.natural(added), slice(None))[0]
        rest = np.log1p(-weight) + density
        total = np.logaddexp(logits, rest)
        gain = float((total - density) @ of_rows)
        stats = data.soft_stats(np.exp(logits - total)[None])
        added = family.m_step(stats, prior)
        covariances = held if family.shares_covariance else added.covariances
        added = WhitenedParameters(stats.counts / data.weight, added.means, covariances)
    return Extension(gain, None, untied_stats(data, added).array)


def _terms_of(family: Family, terms: PriorTerms, k: int) -> PriorTerms:
    """Return what the prior of a mixture adds to one of its components."""
    scatter, divisor = (
        each[min(k, len(each) - 1)][None] if each.ndim > n_axes else each
        for each, n_axes in ((np.asarray(terms.scatter), family.n_axes), (np.asarray(terms.divisor), 0))
    )
    return terms._replace(scatter=scatter, divisor=divisor)


def _likely_covariances(data: Problem, parameters: WhitenedParameters) -> list[Array]:
    """Return covariances for an added component: those of smallest and of median determinant."""
    family = data.family
    covariances = family.per_component(parameters.covariances)
    # Determinants that are shared are the same up to rounding, which must not choose.
    has_one_volume = "volume" in family.shared
    log_dets = np.zeros(len(covariances)) if has_one_volume else family.log_det(covariances, data.n_features)
    order = np.argsort(log_dets, kind="stable")
    chosen = dict.fromkeys([int(order[0]), int(order[len(order) // 2])])
    return [covariances[k] for k in chosen]


def dropped_stats(data: Problem, parameters: WhitenedParameters, n_dropped: int) -> list[SufficientStats]:
    """Return the statistics of a mixture with one component left to the noise, for those that cost least.

    Without them a component could not leave a wide cluster, or a clump of noise, for another cluster.

    Parameters
    ----------
    data : Problem
    parameters : WhitenedParameters
        One mixture of the family of the data.
    n_dropped : int
        How many components are tried.

    Returns
    -------
    stats : list of SufficientStats
        Empty without a noise component.
    """
    family, n_features = data.family, data.n_features
    if data.noise is None:
        return []
    stats = untied_stats(data, parameters)
    log_dets = family.log_det(family.per_component(parameters.covariances), n_features)
    # The mean log-density of the rows of a component, and that of the noise.
    own = np.log(np.maximum(parameters.weights, MIN_WEIGHT)) - 0.5 * (n_features * (LOG_2PI + 1) + log_dets)
    of_row = -data.noise.log_volume - data.whitening.log_det
    noise = np.log(noise_weights(parameters.weights) + parameters.weights) + of_row
    costs = parameters.weights * (own - noise)
    cheapest = np.argsort(costs, kind="stable")[:n_dropped]
    return [SufficientStats(np.delete(stats.array, int(k), axis=0), n_features) for k in cheapest]
