"""Fewer components out of more: merge the pair that costs least, until as many are left as asked for."""

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.em.whitened import WhitenedData
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters

# Rows for each parameter from which on likelihood tells which components to merge.
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
    table : Table
        On whose rows, or some of them, likelihoods are compared.
    parameters : WhitenedParameters
        One mixture, in the frame; of the family of the table.
    """

    def __init__(self, data: WhitenedData, parameters: WhitenedParameters) -> None:
        self._table, self._kind = data, data.family
        self._rows = slice(None, None, max(1, data.n_rows // JUDGES))
        weights = data.row_weights()
        shares = (np.ones(data.n_rows) if weights is None else weights)[self._rows]
        self._shares = (shares * (data.weight / shares.sum())).astype(np.float32)
        self._covariances = parameters.covariances
        self.stats = _stats(data, parameters)
        logits = data.row_logits(self._kind.natural(parameters), self._rows)
        self._largest = logits.max(axis=0)
        self._parts = self._densities(logits)
        self._total = self._parts.sum(axis=0)
        n = len(self.stats)
        self.costs = np.full((n, n), np.inf)
        first, second = np.triu_indices(n, 1)
        together = max(1, MOST_AT_ONCE // len(shares))
        for start in range(0, len(first), together):
            i, j = first[start : start + together], second[start : start + together]
            self._set_costs(i, j, self._densities_of(self.stats[i] + self.stats[j]))

    def _densities(self, logits: Array) -> Array:
        """Return densities relative to the largest at each row, in single precision: they are compared."""
        logits -= self._largest
        # Where all the others are next to nothing, more than this is no better.
        np.clip(logits, -LARGEST, LARGEST, out=logits)
        return np.exp(logits.astype(np.float32))

    def _densities_of(self, stats: Array) -> Array:
        """Return the weighted densities of components with these sums."""
        if self._kind.tied:
            weight, first, _ = self._kind.split(stats)
            merged = WhitenedParameters(
                weight / self._table.weight, first / weight[:, None], self._covariances
            )
        else:
            merged = self._kind.m_step(stats, None)
            merged = replace(merged, weights=stats[:, 0] / self._table.weight)
        return self._densities(self._table.row_logits(self._kind.natural(merged), self._rows))

    def _set_costs(self, first: Array, second: Array, merged: Array) -> None:
        """Set the costs of merging pairs of components, the lower number first, into those densities."""
        left = self._total - self._parts[first]
        left -= self._parts[second]
        np.maximum(left, 0.0, out=left)  # of rounding
        left += merged
        np.maximum(left, TINY, out=left)
        np.log(left, out=left)
        left -= np.log(np.maximum(self._total, TINY))
        self.costs[first, second] = -(left @ self._shares)

    def cheapest(self, n_pairs: int) -> list[Array]:
        """Return the sums with one pair merged, for each of the pairs that cost least."""
        found = []
        for pair in np.argsort(self.costs, axis=None, kind="stable")[:n_pairs]:
            i, j = divmod(int(pair), len(self.costs))
            if np.isfinite(self.costs[i, j]):
                merged = np.delete(self.stats, j, axis=0)
                merged[i] += self.stats[j]
                found.append(merged)
        return found

    def reduced(self, n_components: int) -> Array:
        """Return the sums of so many components, merging the pair that costs least again and again."""
        active = np.ones(len(self.stats), dtype=bool)
        while active.sum() > n_components:
            i, j = divmod(int(self.costs.argmin()), len(self.costs))
            self.stats[i] += self.stats[j]
            active[j] = False
            self.costs[j] = self.costs[:, j] = np.inf
            others = np.flatnonzero(active & (np.arange(len(active)) != i))
            merged = self._densities_of(
                np.concatenate([self.stats[i : i + 1], self.stats[i] + self.stats[others]])
            )
            self._parts[i], self._parts[j] = merged[0], 0.0
            self._total = self._parts.sum(axis=0)
            self._set_costs(np.minimum(i, others), np.maximum(i, others), merged[1:])
        return self.stats[active]


def untied(data: WhitenedData, parameters: WhitenedParameters) -> WhitenedParameters:
    """Return a batch of mixtures with a covariance for each component."""
    if not data.family.tied:
        return parameters
    shared = parameters.covariances[:, None]
    shape = (*parameters.weights.shape, *parameters.covariances.shape[1:])
    return WhitenedParameters(parameters.weights, parameters.means, np.broadcast_to(shared, shape))


def is_crowded(data: WhitenedData, n_components: int) -> bool:
    """Return whether there are so few rows for each parameter that likelihood says little.

    It then rewards small, thin components, which mergers by likelihood keep: on such tables the known classes
    are found more often by weight and log-determinant.
    """
    return data.weight < ROWS_A_PARAMETER * data.family.n_parameters(n_components, data.n_features)


def merged_pairs(data: WhitenedData, parameters: WhitenedParameters, n_pairs: int) -> list[Array]:
    """Return the sums of a mixture with one pair merged, for each of the pairs that cost least."""
    if not is_crowded(data, parameters.n_components - 1):
        return Mergers(data, parameters).cheapest(n_pairs)
    family, stats = data.family.untied, _stats(data, parameters)
    terms = family.merging_term(stats)
    first, second = np.triu_indices(len(stats), 1)
    costs = family.merging_term(stats[first] + stats[second]) - terms[first] - terms[second]
    merged = []
    for pair in np.argsort(costs, kind="stable")[:n_pairs]:
        i, j = int(first[pair]), int(second[pair])
        kept = np.delete(stats, j, axis=0)
        kept[i] += stats[j]
        merged.append(kept)
    return merged


def reduced_stats(data: WhitenedData, parameters: WhitenedParameters, n_components: int) -> Array:
    """Return a mixture as the sums of at most so many components, merged where that costs least."""
    if is_crowded(data, n_components):
        return merged_down(data.family.untied, _stats(data, parameters), n_components)
    return Mergers(data, parameters).reduced(n_components)


def _stats(data: WhitenedData, parameters: WhitenedParameters) -> Array:
    """Return one mixture as sums over the rows, with a covariance for each component."""
    return data.family.untied.moments(untied(data, parameters[None]))[0] * data.weight


def apart(family: Family, first: Array, second: Array) -> float:
    """Return how far apart two mixtures are, in log-likelihood: what it costs to merge like with like.

    Parameters
    ----------
    family : Family
    first, second : ndarray, shape (n_components, width)
        Sums over the rows.

    Returns
    -------
    cost : float
        Zero if the components are the same, whatever their weights.
    """
    terms = family.merging_term(first)[:, None] + family.merging_term(second)
    costs = family.merging_term(first[:, None] + second) - terms
    return 0.5 * float(max(costs.min(axis=0).sum(), costs.min(axis=1).sum()))


def merged_down(family: Family, stats: Array, n_components: int) -> Array:
    """Return the sums of fewer components, by greedy merging [runnalls2007].

    Merging is addition of sums: mean and covariance of the merger are those of the two together. The cost
    of a pair is what its merger adds to the sum of weight times log-determinant.

    Parameters
    ----------
    family : Family
    sums : ndarray, shape (n_more, width)
    n_components : int

    Returns
    -------
    sums : ndarray, shape (n_components, width)
    """
    stats = stats.copy()
    n = len(stats)
    if n <= n_components:
        return stats
    terms = family.merging_term(stats)
    costs = np.full((n, n), np.inf)
    for i in range(n - 1):
        costs[i, i + 1 :] = family.merging_term(stats[i] + stats[i + 1 :]) - terms[i] - terms[i + 1 :]
    active = np.ones(n, dtype=bool)
    for _ in range(n - n_components):
        i, j = divmod(int(costs.argmin()), n)
        stats[i] += stats[j]
        active[j] = False
        costs[j] = costs[:, j] = np.inf
        terms[i] = family.merging_term(stats[i : i + 1])[0]
        others = np.flatnonzero(active & (np.arange(n) != i))
        if len(others):
            new = family.merging_term(stats[i] + stats[others]) - terms[i] - terms[others]
            costs[np.minimum(i, others), np.maximum(i, others)] = new
    return stats[active]
