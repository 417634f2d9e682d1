"""Fewer components out of more: merge the pair that costs least, until as many are left as asked for."""

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.em.whitened import WhitenedData
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.stats import SufficientStats

# Rows per parameter from which on likelihood tells which components to merge.
ROWS_A_PARAMETER = 5
# Rows on which the likelihoods of mergers are compared.
JUDGES = 1000
# Numbers that are worked on at once.
MOST_AT_ONCE = 2**18
# The logarithm of the ratio of densities beyond which all are the same, and a ratio that is next to nothing:
# numbers of single precision.
LARGEST = 50.0
TINY = 1e-30


class Mergers:
    """What the log-likelihood of a mixture loses if two of its components become one.

    Components that overlap, as parts of one cluster do, are merged at hardly any cost; the cost by weight and
    log-determinant, as in `merged_down`, counts them as if they were apart, and would rather merge two small
    clusters.

    Parameters
    ----------
    data : WhitenedData
        On whose rows, or some of them, likelihoods are compared.
    parameters : WhitenedParameters
        One mixture, of the family of the data.
    """

    def __init__(self, data: WhitenedData, parameters: WhitenedParameters) -> None:
        self._data, self._family = data, data.family
        self._judges = slice(None, None, max(1, data.n_rows // JUDGES))
        weights = data.row_weights()
        judge_weights = (np.ones(data.n_rows) if weights is None else weights)[self._judges]
        self._judge_weights = (judge_weights * (data.weight / judge_weights.sum())).astype(np.float32)
        self._covariances = parameters.covariances
        # A bare array: it is changed in place, component by component.
        self._stats = untied_stats(data, parameters).array
        logits = data.row_logits(self._family.natural(parameters), self._judges)
        self._largest = logits.max(axis=0)
        self._parts = self._densities(logits)
        self._total = self._parts.sum(axis=0)
        n = len(self._stats)
        self._costs = np.full((n, n), np.inf)
        first, second = np.triu_indices(n, 1)
        together = max(1, MOST_AT_ONCE // len(judge_weights))
        for start in range(0, len(first), together):
            i, j = first[start : start + together], second[start : start + together]
            self._set_costs(i, j, self._densities_of(self._stats[i] + self._stats[j]))

    def _densities(self, logits: Array) -> Array:
        """Return densities relative to the largest at each row, in single precision: they are compared."""
        logits -= self._largest
        # Where all the others are next to nothing, more than this is no better.
        np.clip(logits, -LARGEST, LARGEST, out=logits)
        return np.exp(logits.astype(np.float32))

    def _densities_of(self, array: Array) -> Array:
        """Return the weighted densities of components with these statistics, shape (n, n_stats)."""
        stats = SufficientStats(array, self._data.n_features)
        merged = self._family.merged(stats, self._covariances)
        merged = replace(merged, weights=stats.counts / self._data.weight)
        return self._densities(self._data.row_logits(self._family.natural(merged), self._judges))

    def _set_costs(self, first: Array, second: Array, merged: Array) -> None:
        """Set the costs of merging pairs of components, the lower number first, into those densities."""
        left = self._total - self._parts[first]
        left -= self._parts[second]
        # Rounding may leave less than nothing.
        np.maximum(left, 0.0, out=left)
        left += merged
        np.maximum(left, TINY, out=left)
        np.log(left, out=left)
        left -= np.log(np.maximum(self._total, TINY))
        self._costs[first, second] = -(left @ self._judge_weights)

    def cheapest(self, n_pairs: int) -> list[SufficientStats]:
        """Return the statistics with one pair merged, for each of the pairs that cost least."""
        merged = []
        for pair in np.argsort(self._costs, axis=None, kind="stable")[:n_pairs]:
            i, j = divmod(int(pair), len(self._costs))
            if np.isfinite(self._costs[i, j]):
                merged.append(SufficientStats(_with_pair_merged(self._stats, i, j), self._data.n_features))
        return merged

    def reduced(self, n_components: int) -> SufficientStats:
        """Return the statistics of so many components, merging the pair that costs least again and again."""
        active = np.ones(len(self._stats), dtype=bool)
        while active.sum() > n_components:
            i, j = divmod(int(self._costs.argmin()), len(self._costs))
            self._stats[i] += self._stats[j]
            active[j] = False
            self._costs[j] = self._costs[:, j] = np.inf
            others = np.flatnonzero(active & (np.arange(len(active)) != i))
            merged = self._densities_of(
                np.concatenate([self._stats[i : i + 1], self._stats[i] + self._stats[others]])
            )
            self._parts[i], self._parts[j] = merged[0], 0.0
            self._total = self._parts.sum(axis=0)
            self._set_costs(np.minimum(i, others), np.maximum(i, others), merged[1:])
        return SufficientStats(self._stats[active], self._data.n_features)


def _with_pair_merged(array: Array, i: int, j: int) -> Array:
    """Return statistics, shape (n, n_stats), with component j added to component i."""
    merged = np.delete(array, j, axis=0)
    merged[i] += array[j]
    return merged


def is_crowded(data: WhitenedData, n_components: int) -> bool:
    """Return whether there are so few rows per parameter that likelihood says little.

    It then rewards small, thin components, which mergers by likelihood keep: on such tables the known classes
    are found more often by weight and log-determinant.
    """
    return data.weight < ROWS_A_PARAMETER * data.family.n_parameters(n_components, data.n_features)


def merged_pairs(data: WhitenedData, parameters: WhitenedParameters, n_pairs: int) -> list[SufficientStats]:
    """Return the statistics of a mixture with one pair merged, for each of the pairs that cost least."""
    if not is_crowded(data, parameters.n_components - 1):
        return Mergers(data, parameters).cheapest(n_pairs)
    family, stats = data.family.untied, untied_stats(data, parameters)
    terms = family.merging_term(stats)
    first, second = np.triu_indices(len(stats), 1)
    costs = family.merging_term(stats[first] + stats[second]) - terms[first] - terms[second]
    cheapest = [int(pair) for pair in np.argsort(costs, kind="stable")[:n_pairs]]
    return [
        SufficientStats(_with_pair_merged(stats.array, int(first[pair]), int(second[pair])), stats.n_features)
        for pair in cheapest
    ]


def reduced_stats(data: WhitenedData, parameters: WhitenedParameters, n_components: int) -> SufficientStats:
    """Return a mixture as the statistics of at most so many components, merged where that costs least."""
    if is_crowded(data, n_components):
        return merged_down(data.family.untied, untied_stats(data, parameters), n_components)
    return Mergers(data, parameters).reduced(n_components)


def untied_stats(data: WhitenedData, parameters: WhitenedParameters) -> SufficientStats:
    """Return one mixture as statistics of the rows, in which each component has a covariance of its own."""
    family = data.family
    return family.untied.moments(family.without_sharing(parameters[None]))[0] * data.weight


def apart(family: Family, first: SufficientStats, second: SufficientStats) -> float:
    """Return how far apart two mixtures are, in log-likelihood: what it costs to merge like with like.

    Parameters
    ----------
    family : Family
    first, second : SufficientStats
        Of one mixture each.

    Returns
    -------
    cost : float
        Zero if the components are the same, whatever their weights.
    """
    terms = family.merging_term(first)[:, None] + family.merging_term(second)
    costs = family.merging_term(first[:, None] + second) - terms
    return 0.5 * float(max(costs.min(axis=0).sum(), costs.min(axis=1).sum()))


def merged_down(family: Family, stats: SufficientStats, n_components: int) -> SufficientStats:
    """Return the statistics of fewer components, by greedy merging [runnalls2007].

    Merging is addition of statistics: mean and covariance of the merger are those of the two together. The
    cost of a pair is what its merger adds to the sum of weight times log-determinant.

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

    def terms_of(part: Array) -> Array:
        return family.merging_term(SufficientStats(part, n_features))

    terms = terms_of(array)
    costs = np.full((n, n), np.inf)
    for i in range(n - 1):
        costs[i, i + 1 :] = terms_of(array[i] + array[i + 1 :]) - terms[i] - terms[i + 1 :]
    active = np.ones(n, dtype=bool)
    for _ in range(n - n_components):
        i, j = divmod(int(costs.argmin()), n)
        array[i] += array[j]
        active[j] = False
        costs[j] = costs[:, j] = np.inf
        terms[i] = terms_of(array[i : i + 1])[0]
        others = np.flatnonzero(active & (np.arange(n) != i))
        if len(others):
            new = terms_of(array[i] + array[others]) - terms[i] - terms[others]
            costs[np.minimum(i, others), np.maximum(i, others)] = new
    return SufficientStats(array[active], n_features)
