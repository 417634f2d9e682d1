"""Rows as first centres: at random, or by k-means++; and the hard assignment to them.

Distances are those of standardised columns: see `WhitenedData.standardised`.
"""

import numpy as np

from apolar._core.arrays import IndexArray
from apolar.em.whitened import WhitenedData
from apolar.mixture.stats import SufficientStats


def random_rows(data: WhitenedData, n_seeds: int, rng: np.random.Generator) -> IndexArray:
    """Return the numbers of different rows, drawn by their weights; all rows, if there are fewer."""
    weights, n_rows = data.row_weights(), data.n_rows
    chances = None if weights is None else weights / weights.sum()
    return rng.choice(n_rows, min(n_seeds, n_rows), replace=False, p=chances)


def spread_rows(data: WhitenedData, n_seeds: int, rng: np.random.Generator) -> IndexArray:
    """Return the numbers of rows far from each other: k-means++ [arthur2007]."""
    # Not scikit-learn's `kmeans_plusplus`: it draws from a RandomState, so that a seed gives other rows.
    x, weights = np.ascontiguousarray(data.standardised.T), data.row_weights()
    n = x.shape[1]
    squares = np.einsum("ij,ij->j", x, x)
    chances = np.ones(n) if weights is None else weights
    nearest = np.full(n, np.inf)
    seeds = np.empty(n_seeds, dtype=np.intp)
    for k in range(n_seeds):
        ladder = np.cumsum(chances)
        if not ladder[-1] > 0:
            # Fewer different rows than seeds: any row will do.
            chances = np.ones(n)
            ladder = np.cumsum(chances)
        chosen = min(int(np.searchsorted(ladder, rng.random() * ladder[-1], side="right")), n - 1)
        seeds[k] = chosen
        distances = squares - 2 * (x[:, chosen] @ x) + squares[chosen]
        np.minimum(nearest, np.maximum(distances, 0.0), out=nearest)
        nearest[chosen] = 0.0
        chances = nearest if weights is None else nearest * weights
    return seeds


def nearest_stats(data: WhitenedData, seeds: IndexArray) -> SufficientStats:
    """Return the statistics of the rows nearest to each seed; seeds without rows are left out."""
    rows = data.standardised
    centres = rows[seeds]
    scores = centres @ rows.T - 0.5 * np.einsum("ij,ij->i", centres, centres)[:, None]
    stats = data.hard_stats(scores.argmax(axis=0), len(seeds))
    return stats[stats.counts > 0]
