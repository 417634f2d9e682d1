"""Rows as first centres: at random, or by k-means++; and the hard assignment to them."""

import numpy as np

from apolar._arrays import Array
from apolar.em.table import Table


def random_rows(table: Table, n_seeds: int, rng: np.random.Generator) -> Array:
    """Return different rows, drawn by their weights, shape (n_features, n_seeds), in the frame.

    Fewer, if the table has not so many.
    """
    x, weights = table.coordinates(), table.row_weights()
    chances = None if weights is None else weights / weights.sum()
    return x[:, rng.choice(x.shape[1], min(n_seeds, x.shape[1]), replace=False, p=chances)]


def spread_rows(table: Table, n_seeds: int, rng: np.random.Generator) -> Array:
    """Return rows far from each other: k-means++ [arthur2007], shape (n_features, n_seeds), in the frame."""
    x, weights = table.coordinates(), table.row_weights()
    n = x.shape[1]
    squares = np.einsum("ij,ij->j", x, x)
    chances = np.ones(n) if weights is None else weights
    nearest = np.full(n, np.inf)
    seeds = np.empty((len(x), n_seeds))
    for k in range(n_seeds):
        ladder = np.cumsum(chances)
        if not ladder[-1] > 0:  # fewer different rows than seeds: any row will do
            chances = np.ones(n)
            ladder = np.cumsum(chances)
        chosen = min(int(np.searchsorted(ladder, rng.random() * ladder[-1], side="right")), n - 1)
        seed = seeds[:, k] = x[:, chosen]
        distances = squares - 2 * (seed @ x) + squares[chosen]
        np.minimum(nearest, np.maximum(distances, 0.0), out=nearest)
        nearest[chosen] = 0.0
        chances = nearest if weights is None else nearest * weights
    return seeds


def nearest_sums(table: Table, seeds: Array) -> Array:
    """Return the sums of the rows nearest to each seed, (n_seeds, width); seeds without rows left out."""
    scores = seeds.T @ table.coordinates() - 0.5 * np.einsum("ij,ij->j", seeds, seeds)[:, None]
    sums = table.hard_sums(scores.argmax(axis=0), seeds.shape[1])
    return sums[sums[:, 0] > 0]
