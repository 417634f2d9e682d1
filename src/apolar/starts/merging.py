"""Fewer components out of more: merge the pair that costs least, until as many are left as asked for."""

import numpy as np

from apolar._arrays import Array
from apolar.mixture.families import Family


def merged_pairs(family: Family, sums: Array, n_pairs: int) -> list[Array]:
    """Return the sums with one pair merged, for each of the pairs that cost least."""
    n = len(sums)
    terms = family.merging_term(sums)
    first, second = np.triu_indices(n, 1)
    costs = family.merging_term(sums[first] + sums[second]) - terms[first] - terms[second]
    found = []
    for pair in np.argsort(costs, kind="stable")[:n_pairs]:
        i, j = int(first[pair]), int(second[pair])
        merged = np.delete(sums, j, axis=0)
        merged[i] += sums[j]
        found.append(merged)
    return found


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


def merged_down(family: Family, sums: Array, n_components: int) -> Array:
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
    sums = sums.copy()
    n = len(sums)
    if n <= n_components:
        return sums
    terms = family.merging_term(sums)
    costs = np.full((n, n), np.inf)
    for i in range(n - 1):
        costs[i, i + 1 :] = family.merging_term(sums[i] + sums[i + 1 :]) - terms[i] - terms[i + 1 :]
    active = np.ones(n, dtype=bool)
    for _ in range(n - n_components):
        i, j = divmod(int(costs.argmin()), n)
        sums[i] += sums[j]
        active[j] = False
        costs[j] = costs[:, j] = np.inf
        terms[i] = family.merging_term(sums[i : i + 1])[0]
        others = np.flatnonzero(active & (np.arange(n) != i))
        if len(others):
            new = family.merging_term(sums[i] + sums[others]) - terms[i] - terms[others]
            costs[np.minimum(i, others), np.maximum(i, others)] = new
    return sums[active]
