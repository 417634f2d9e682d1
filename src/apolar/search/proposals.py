"""Mixtures of one component more or less, proposed from a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import MAX_LOG_RATIO, MIN_WEIGHT
from apolar._core.settings import SETTINGS
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, has_compiled_run, run
from apolar.mixture.families import Family, PriorTerms
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, noise_weights
from apolar.mixture.prior import Prior
from apolar.mixture.storage import LOG_2PI
from apolar.search.merging import OwnedRows, untied_stats


@dataclass(frozen=True, eq=False)
class Extension:
    """A mixture with one component split in two, or with one in addition.

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


def extensions(data: Problem, parameters: WhitenedParameters, prior: Prior) -> list[Extension]:
    """Return mixtures with one component more, by decreasing gain.

    Each component is split by EM on the rows that it owns with the densities of the others as they are
    [ueda2000]: all splits together take about the time of a few passes over the rows. One component is added
    where rows are least likely: a cluster that another one, or the noise, covers.

    Parameters
    ----------
    data : Problem
    parameters : WhitenedParameters
        One mixture.
    prior : Prior
        Of the mixture.
    """
    stats = untied_stats(data, parameters)
    terms = data.family.prior_terms(prior.adapted_to(data.family, stats), len(stats.counts), data.n_features)
    shares, density = data.shares(parameters)
    owned, found = OwnedRows(data, shares), list[Extension]()
    for k in range(parameters.n_components):
        rows = owned.of(*owned.shares_of(k))
        if rows is not None:
            found += _splits(rows, parameters, k, _prior_of_part(rows, parameters, k, terms, data.weight))
    found.append(_added_component(data, parameters, terms, density))
    return sorted(found, key=lambda each: -each.gain)


def _prior_of_part(
    rows: Problem, parameters: WhitenedParameters, k: int, terms: PriorTerms, n_rows: float
) -> Prior:
    """Return the prior of a part of a mixture, by EM on its rows alone."""
    family = rows.family
    if not family.shares_covariance:
        return _PriorOfParts(known=_terms_of(family, terms, k))
    # The rows of the other components have the covariance too.
    covariance = family.per_component(parameters.covariances)[0]
    others = float(family.divisor(np.ones(()), rows.n_features)) * (n_rows - rows.weight)
    scatter, divisor = terms.scatter + others * covariance, terms.divisor + others
    return _PriorOfParts(known=terms._replace(scatter=scatter, divisor=divisor))


def _splits(rows: Problem, parameters: WhitenedParameters, k: int, prior: Prior) -> list[Extension]:
    """Return the splits of a component, by EM on the rows that it owns."""
    family = rows.family
    covariance = family.per_component(parameters.covariances)[0 if family.shares_covariance else k]
    dof = None if parameters.dof is None else parameters.dof[k : k + 1]
    means = parameters.means[k : k + 1]
    whole = WhitenedParameters(np.ones(1), means, family.repeated(covariance, 1), dof=dof)
    starts = _halves(rows, whole)
    if not starts:
        return []
    stop = Stop(SETTINGS.short_steps, SETTINGS.relative_tolerance if has_compiled_run(rows) else None)
    ends = run(rows, [Fit(each, "split") for each in starts], prior, stop)
    before = float(rows.e_step(family.with_dof(whole)[None])[1][0])
    return [Extension(end.score - before, k, untied_stats(rows, end.parameters).array) for end in ends]


def _added_component(
    data: Problem, parameters: WhitenedParameters, terms: PriorTerms, density: Array
) -> Extension:
    """Return a small component in addition, by EM next to the mixture as it is.

    It starts at one of the least likely rows, with the covariance of another component, where that gains
    most.
    """
    family, n, weights = data.family, len(density), data.row_weights()
    of_rows = np.ones(n) if weights is None else weights
    every = slice(None, None, max(1, n // (2 * SETTINGS.merge_rows)))
    counted = of_rows[every] / of_rows[every].sum()
    centres = data.whitened_rows()[:, np.argsort(density, kind="stable")[: SETTINGS.tried_rows]].T
    covariances = family.per_component(parameters.covariances)
    # Determinants that are shared are the same up to rounding, which must not choose.
    has_one_volume = "volume" in family.shared
    log_dets = np.zeros(len(covariances)) if has_one_volume else family.log_det(covariances, data.n_features)
    order = np.argsort(log_dets, kind="stable")
    highest, best = -np.inf, parameters
    for k in dict.fromkeys([int(order[0]), int(order[len(order) // 2])]):
        repeated = family.repeated(covariances[k], len(centres))
        natural = family.natural(WhitenedParameters(np.ones(len(centres)), centres, repeated))
        ratios = np.minimum(data.row_logits(natural, every) - density[every], MAX_LOG_RATIO)
        np.expm1(ratios, out=ratios)
        shares = np.full((len(centres), 1), 1 / SETTINGS.tried_rows)
        for _ in range(SETTINGS.first_steps):
            shares *= 1 + (1 - shares) * (ratios / (1 + shares * ratios) @ counted)[:, None]
        gains = np.log1p(shares * ratios) @ counted
        i = int(gains.argmax())
        if gains[i] > highest:
            highest, one = gains[i], family.repeated(covariances[k], 1)
            best = WhitenedParameters(np.maximum(shares[i], 1 / n), centres[i : i + 1], one)
    gain = 0.0
    prior = _PriorOfParts(known=_terms_of(family, terms, 0))
    for _ in range(SETTINGS.short_steps):
        share, held = float(np.clip(best.weights[0], 1 / n, 0.5)), best.covariances
        logits = data.row_logits(family.natural(best), slice(None))[0]
        total = np.logaddexp(logits, np.log1p(-share) + density)
        gain = float((total - density) @ of_rows)
        stats = data.soft_stats(np.exp(logits - total)[None])
        best = family.m_step(stats, prior)
        covariances = held if family.shares_covariance else best.covariances
        best = WhitenedParameters(stats.counts / data.weight, best.means, covariances)
    return Extension(gain, None, untied_stats(data, best).array)


def extend_mixture(
    stats: SufficientStats, chosen: list[Extension], removed: Sequence[int] = ()
) -> SufficientStats:
    """Return the statistics of a mixture with some components split or added, and others removed."""
    split = [each.replaced for each in chosen if each.replaced is not None]
    kept = np.delete(stats.array, [*split, *removed], axis=0)
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
        if each.replaced in touched:
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


def _halves(rows: Problem, whole: WhitenedParameters) -> list[WhitenedParameters]:
    """Return a component in two equal halves, in each way that its rows suggest; none if they do not vary.

    One is along the axis in which the rows vary most. Two clusters that are close to each other in units of
    all rows are not apart there: the other is along the axis to which most rows are near, from the mean, in
    units of the component.
    """
    weights, mean, x = rows.row_weights(), whole.means[0], rows.whitened_rows()
    shares = np.full(rows.n_rows, 1 / rows.n_rows) if weights is None else weights / weights.sum()
    if len(mean) > SETTINGS.dense_columns:
        axes = [_longest_axis(x, shares, mean)]
    else:
        centred = x - (x @ shares)[:, None]
        values, vectors = np.linalg.eigh((centred * shares) @ centred.T)
        is_varied = values > SETTINGS.min_axis_variance * values[-1]
        vectors = vectors[:, is_varied] * np.sqrt(values[is_varied])
        own = np.linalg.pinv(vectors) @ centred
        squares = np.maximum(np.einsum("ij,ij->j", own, own), MIN_WEIGHT)
        nearest = np.linalg.eigh((own * (shares / squares)) @ own.T)[1][:, -1:]
        axes = list((vectors @ np.hstack([np.eye(len(own))[:, -1:], nearest])).T)
    steps = [SETTINGS.half_step * axis for axis in axes if np.any(axis)]
    halved = [rows.family.halved(whole.covariances, 0, step) for step in steps]
    return [
        WhitenedParameters(np.full(2, 0.5), np.stack([mean - step, mean + step]), covariances)
        for step, covariances in zip(steps, halved, strict=True)
    ]


def _longest_axis(x: Array, shares: Array, mean: Array) -> Array:
    """Return the principal axis of rows, as long as their standard deviation, by power iterations."""
    variance, axis = 0.0, np.ones(len(mean)) / np.sqrt(len(mean))
    for _ in range(SETTINGS.power_iterations):
        image = x @ (shares * (axis @ x)) - mean * float(mean @ axis)
        variance = float(np.linalg.norm(image))
        if not variance > 0:
            break
        axis = image / variance
    return np.sqrt(variance) * axis


def _terms_of(family: Family, terms: PriorTerms, k: int) -> PriorTerms:
    """Return what the prior of a mixture adds to one of its components."""
    scatter, divisor = (
        each[min(k, len(each) - 1)][None] if each.ndim > n_axes else each
        for each, n_axes in ((np.asarray(terms.scatter), family.n_axes), (np.asarray(terms.divisor), 0))
    )
    return terms._replace(scatter=scatter, divisor=divisor)


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
