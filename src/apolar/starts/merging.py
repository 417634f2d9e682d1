"""Mixtures of fewer components: the pair that costs least is merged until as many remain as asked for."""

import functools
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array, IndexArray, frozen
from apolar.em.problem import Problem
from apolar.mixture import compiled_steps
from apolar.mixture.families import Family
from apolar.mixture.families.full import Full
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.stats import SufficientStats
from apolar.starts.comparisons import CompiledDensities, densities

# With fewer rows per parameter than this, the likelihood does not tell which components to merge.
ROWS_PER_PARAMETER = 5
# Rows on which the likelihoods of mergers are compared.
COMPARED_ROWS = 1000
# Entries of the arrays of densities that are computed in one call.
CHUNK_SIZE = 2**18


class MergeCosts:
    """The log-likelihood that a mixture loses when two of its components are merged.

    Merging components that overlap, as parts of one cluster do, costs very little. The cost by weights
    and log-determinants, as in `greedily_merged_stats`, ignores overlap, and prefers to merge two small
    clusters.

    Parameters
    ----------
    data : Problem
        Likelihoods are compared on its rows, or on some of them.
    parameters : WhitenedParameters
        One mixture, of the family of the data.
    """

    def __init__(self, data: Problem, parameters: WhitenedParameters) -> None:
        self._data, self._family = data, data.family
        self._covariances = parameters.covariances
        # A bare array, as components are merged in place.
        self._stats = untied_stats(data, parameters).array
        compared = slice(None, None, max(1, data.n_rows // COMPARED_ROWS))
        natural = self._family.natural(parameters)
        self._densities = densities(
            data, compared, data.whitening.append_noise_component(natural, parameters.weights)
        )
        n = len(self._stats)
        self._costs = np.full((n, n), np.inf)
        first, second = _pairs(n)
        n_pairs = max(1, CHUNK_SIZE // len(self._densities.total))
        for start in range(0, len(first), n_pairs):
            i, j = first[start : start + n_pairs], second[start : start + n_pairs]
            self._set_costs(i, j, self._natural_of(self._stats[i] + self._stats[j]))

    def _natural_of(self, array: Array) -> Array:
        """Return the natural parameters of components with these statistics, shape (n, n_stats)."""
        stats = SufficientStats(array, self._data.n_features)
        merged = self._family.merged(stats, self._covariances)
        return self._family.natural(replace(merged, weights=stats.counts / self._data.weight))

    def _set_costs(self, first: IndexArray, second: IndexArray, natural: Array) -> None:
        """Set the costs of pairs of components, `first` < `second`, from their mergers."""
        self._costs[first, second] = self._densities.costs(first, second, natural)

    def cheapest_mergers(self, n_pairs: int) -> list[SufficientStats]:
        """Return the statistics with one pair merged, for each of the pairs that cost least."""
        merged = []
        for pair in np.argsort(self._costs, axis=None, kind="stable")[:n_pairs]:
            i, j = divmod(int(pair), len(self._costs))
            if np.isfinite(self._costs[i, j]):
                merged.append(SufficientStats(_with_pair_merged(self._stats, i, j), self._data.n_features))
        return merged

    def merged_stats(self, n_components: int) -> SufficientStats:
        """Return the statistics of `n_components` components, by greedy merging. Changes the object."""
        known = self._compiled_merging(n_components)
        if known is not None:
            return known
        active = np.ones(len(self._stats), dtype=bool)
        while active.sum() > n_components:
            i, j = divmod(int(self._costs.argmin()), len(self._costs))
            self._stats[i] += self._stats[j]
            active[j] = False
            self._costs[j] = self._costs[:, j] = np.inf
            if active.sum() == n_components:
                break
            others = np.flatnonzero(active & (np.arange(len(active)) != i))
            unions = np.concatenate([self._stats[i : i + 1], self._stats[i] + self._stats[others]])
            natural = self._natural_of(unions)
            self._densities.merge(i, j, natural[:1])
            self._set_costs(np.minimum(i, others), np.maximum(i, others), natural[1:])
        return SufficientStats(self._stats[active], self._data.n_features)

    def _compiled_merging(self, n_components: int) -> SufficientStats | None:
        """Return the same by one call of the compiled kernels, if there is one for the family."""
        if type(self._family) is not Full or not isinstance(self._densities, CompiledDensities):
            return None
        if self._data.whitening.has_noise_component:
            return None
        least, weight = self._family.min_variance, self._data.weight
        merged = self._densities.merged_stats(self._stats, self._costs, n_components, weight, least)
        return None if merged is None else SufficientStats(merged, self._data.n_features)


@functools.lru_cache(maxsize=8)
def _pairs(n: int) -> tuple[IndexArray, IndexArray]:
    """Return the first and the second of each pair of components."""
    first, second = np.triu_indices(n, 1)
    return frozen(first), frozen(second)


def _with_pair_merged(array: Array, i: int, j: int) -> Array:
    """Return statistics, shape (n, n_stats), with component j added to component i."""
    merged = np.delete(array, j, axis=0)
    merged[i] += array[j]
    return merged


def is_crowded(data: Problem, n_components: int) -> bool:
    """Return whether there are too few rows per parameter to choose mergers by likelihood.

    The likelihood is then high for small, thin components, and mergers by likelihood keep these. On such data
    mergers by weights and log-determinants recover known classes more often.
    """
    return data.weight < ROWS_PER_PARAMETER * data.family.n_parameters(n_components, data.n_features)


def merged_pairs(data: Problem, parameters: WhitenedParameters, n_pairs: int) -> list[SufficientStats]:
    """Return the statistics of a mixture with one pair merged, for each of the pairs that cost least."""
    if not is_crowded(data, parameters.n_components - 1):
        return MergeCosts(data, parameters).cheapest_mergers(n_pairs)
    family, stats = data.family.untied, untied_stats(data, parameters)
    terms = family.merging_term(stats)
    first, second = _pairs(len(stats))
    costs = family.merging_term(stats[first] + stats[second]) - terms[first] - terms[second]
    cheapest = [int(pair) for pair in np.argsort(costs, kind="stable")[:n_pairs]]
    return [
        SufficientStats(_with_pair_merged(stats.array, int(first[pair]), int(second[pair])), stats.n_features)
        for pair in cheapest
    ]


def merged_stats(data: Problem, parameters: WhitenedParameters, n_components: int) -> SufficientStats:
    """Return the statistics of a mixture after merging to at most `n_components` components."""
    if is_crowded(data, n_components):
        return greedily_merged_stats(data.family.untied, untied_stats(data, parameters), n_components)
    return MergeCosts(data, parameters).merged_stats(n_components)


def untied_stats(data: Problem, parameters: WhitenedParameters) -> SufficientStats:
    """Return the expected statistics of the rows under one mixture, as of the family without sharing."""
    family = data.family
    return family.untied.moments(family.without_sharing(parameters[None]))[0] * data.weight


def mixture_distances(family: Family, first: SufficientStats, second: SufficientStats) -> Array:
    """Return how far mixtures are apart, in log-likelihood: the cost of merging their like components.

    Parameters
    ----------
    family : Family
    first, second : SufficientStats
        Of one mixture or of a batch each: leading axes are broadcast.

    Returns
    -------
    distances : ndarray
        Zero where the components are the same, whatever their weights.
    """
    terms = family.merging_term(first)[..., :, None] + family.merging_term(second)[..., None, :]
    costs = family.merging_term(first[..., :, None, :] + second[..., None, :, :]) - terms
    by_first, by_second = costs.min(axis=-1).sum(axis=-1), costs.min(axis=-2).sum(axis=-1)
    return np.asarray(0.5 * np.maximum(by_first, by_second))


def greedily_merged_stats(family: Family, stats: SufficientStats, n_components: int) -> SufficientStats:
    """Return the statistics of fewer components, by greedy merging [runnalls2007].

    Components are merged by adding their statistics, which keeps their joint mean and covariance. The cost of
    a pair is the increase of the sum of weight times log-determinant.

    Parameters
    ----------
    family : Family
    stats : SufficientStats
        Of one mixture.
    n_components : int

    Returns
    -------
    stats : SufficientStats
        Of at most `n_components` components.
    """
    array, n_features = stats.array.copy(), stats.n_features
    n = len(array)
    if n <= n_components:
        return SufficientStats(array, n_features)
    if family.n_axes == 2:
        known = compiled_steps.merged_by_terms(stats, n_components, family.min_variance)
        if known is not None:
            return known

    def terms_of(part: Array) -> Array:
        return family.merging_term(SufficientStats(part, n_features))

    terms = terms_of(array)
    costs = np.full((n, n), np.inf)
    first, second = _pairs(n)
    # All unions of a large table of components would take too much memory.
    n_pairs = max(1, CHUNK_SIZE // array.shape[1])
    for start in range(0, len(first), n_pairs):
        ones, others = first[start : start + n_pairs], second[start : start + n_pairs]
        costs[ones, others] = terms_of(array[ones] + array[others]) - terms[ones] - terms[others]
    active = np.ones(n, dtype=bool)
    for n_left in range(n - 1, n_components - 1, -1):
        i, j = divmod(int(costs.argmin()), n)
        array[i] += array[j]
        active[j] = False
        costs[j] = costs[:, j] = np.inf
        if n_left == n_components:
            break
        others = np.flatnonzero(active & (np.arange(n) != i))
        new = terms_of(np.concatenate([array[i : i + 1], array[i] + array[others]]))
        terms[i] = new[0]
        costs[np.minimum(i, others), np.maximum(i, others)] = new[1:] - terms[i] - terms[others]
    return SufficientStats(array[active], n_features)


def resized_stats(data: Problem, stats: SufficientStats, n_components: int) -> SufficientStats:
    """Return statistics of exactly `n_components` components.

    Too many components are merged; of too few, the heaviest is split into equal halves, again and again.
    """
    resized = greedily_merged_stats(data.family.untied, stats, n_components).array
    while len(resized) < n_components:
        heaviest = int(resized[:, 0].argmax())
        resized[heaviest] /= 2
        resized = np.concatenate([resized, resized[heaviest : heaviest + 1]])
    return SufficientStats(resized, data.n_features)
