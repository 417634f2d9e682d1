"""Rows as first centres: at random, or by k-means++; and the hard assignment to them.

Distances are those of standardised columns: see `Table.standardised`.
"""

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.em.whitened import WhitenedData


def random_rows(data: WhitenedData, n_seeds: int, rng: np.random.Generator) -> IndexArray:
    """Return the numbers of different rows, drawn by their weights; fewer, if the table has not so many."""
    weights, n_rows = data.row_weights(), data.n_rows
    chances = None if weights is None else weights / weights.sum()
    return rng.choice(n_rows, min(n_seeds, n_rows), replace=False, p=chances)


def spread_rows(data: WhitenedData, n_seeds: int, rng: np.random.Generator) -> IndexArray:
    """Return the numbers of rows far from each other: k-means++ [arthur2007]."""
    x, weights = np.ascontiguousarray(data.standardised.T), data.row_weights()
    n = x.shape[1]
    squares = np.einsum("ij,ij->j", x, x)
    chances = np.ones(n) if weights is None else weights
    nearest = np.full(n, np.inf)
    seeds = np.empty(n_seeds, dtype=np.intp)
    for k in range(n_seeds):
        ladder = np.cumsum(chances)
        if not ladder[-1] > 0:  # fewer different rows than seeds: any row will do
            chances = np.ones(n)
            ladder = np.cumsum(chances)
        chosen = min(int(np.searchsorted(ladder, rng.random() * ladder[-1], side="right")), n - 1)
        seeds[k] = chosen
        distances = squares - 2 * (x[:, chosen] @ x) + squares[chosen]
        np.minimum(nearest, np.maximum(distances, 0.0), out=nearest)
        nearest[chosen] = 0.0
        chances = nearest if weights is None else nearest * weights
    return seeds


def nearest_stats(data: WhitenedData, seeds: IndexArray) -> Array:
    """Return the sums of the rows nearest to each seed, (n_seeds, width); seeds without rows left out."""
    rows = data.standardised
    centres = rows[seeds]
    scores = centres @ rows.T - 0.5 * np.einsum("ij,ij->i", centres, centres)[:, None]
    stats = data.hard_stats(scores.argmax(axis=0), len(seeds))
    return stats[stats[:, 0] > 0]
