"""Rows as initial centres, at random or by k-means++, and the starts from the rows nearest to each of them.

Distances are those of standardised columns: see `WhitenedData.standardised`.
"""

import numpy as np

from apolar._core.arrays import IndexArray
from apolar._core.compiled import extension
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats
from apolar.starts.merging import resized_stats

kernels = extension()


def from_random_rows(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the M-step from the rows nearest to each of some random rows: a `Start`."""
    return _from_seeds(data, random_rows(data, n_components, rng), n_components, prior)


def from_spread_rows(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the M-step from the rows nearest to each k-means++ seed: a `Start`."""
    return _from_seeds(data, spread_rows(data, n_components, rng), n_components, prior)


def _from_seeds(
    data: WhitenedData, seeds: IndexArray, n_components: int, prior: Prior | None
) -> WhitenedParameters:
    return data.family.m_step(resized_stats(data, nearest_stats(data, seeds), n_components), prior)


def random_rows(data: WhitenedData, n_seeds: int, rng: np.random.Generator) -> IndexArray:
    """Return the positions of distinct rows, drawn in proportion to their weights; all rows if fewer."""
    weights, n_rows = data.row_weights(), data.n_rows
    probabilities = None if weights is None else weights / weights.sum()
    return rng.choice(n_rows, min(n_seeds, n_rows), replace=False, p=probabilities)


def spread_rows(data: WhitenedData, n_seeds: int, rng: np.random.Generator) -> IndexArray:
    """Return the positions of rows far from each other: k-means++ [arthur2007]."""
    known = _compiled_spread_rows(data, n_seeds, rng)
    if known is not None:
        return known[0]
    # Not scikit-learn's `kmeans_plusplus`: it draws from a RandomState, so that a seed gives other rows.
    x, weights = np.ascontiguousarray(data.standardised.T), data.row_weights()
    n = x.shape[1]
    squares = np.einsum("ij,ij->j", x, x)
    probabilities = np.ones(n) if weights is None else weights
    nearest = np.full(n, np.inf)
    seeds = np.empty(n_seeds, dtype=np.intp)
    for k in range(n_seeds):
        cumulated = np.cumsum(probabilities)
        if not cumulated[-1] > 0:
            # All distinct rows are seeds already: further seeds repeat any of them.
            probabilities = np.ones(n)
            cumulated = np.cumsum(probabilities)
        chosen = min(int(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right")), n - 1)
        seeds[k] = chosen
        distances = squares - 2 * (x[:, chosen] @ x) + squares[chosen]
        np.minimum(nearest, np.maximum(distances, 0.0), out=nearest)
        nearest[chosen] = 0.0
        probabilities = nearest if weights is None else nearest * weights
    return seeds


def spread_stats(data: WhitenedData, n_seeds: int, rng: np.random.Generator) -> SufficientStats:
    """Return the sufficient statistics of the rows nearest to each of some rows far from each other."""
    known = _compiled_spread_rows(data, n_seeds, rng)
    if known is None:
        return nearest_stats(data, spread_rows(data, n_seeds, rng))
    stats = data.hard_stats(known[1], n_seeds)
    return stats[stats.counts > 0]


def _compiled_spread_rows(
    data: WhitenedData, n_seeds: int, rng: np.random.Generator
) -> tuple[IndexArray, IndexArray] | None:
    """Return `spread_rows` and the nearest seed of each row, by the compiled kernels if there are any."""
    if kernels is None:
        return None
    x, weights = data.standardised, data.row_weights()
    seeds, labels = np.empty(n_seeds, np.int64), np.empty(len(x), np.int64)
    given = np.empty(0) if weights is None else np.ascontiguousarray(weights, np.float64)
    # As many draws, in the same order, as one for each seed.
    draws = rng.random(n_seeds)
    kernels.spread_rows(np.ascontiguousarray(x.T), given, draws, seeds, labels, x.shape[1])
    return seeds, labels


def nearest_stats(data: WhitenedData, seeds: IndexArray) -> SufficientStats:
    """Return the sufficient statistics of the rows nearest to each seed, without seeds that have no rows."""
    rows = data.standardised
    centres = rows[seeds]
    # Minus half the squared distance, up to a term of the row alone.
    scores = centres @ rows.T - 0.5 * np.einsum("ij,ij->i", centres, centres)[:, None]
    stats = data.hard_stats(scores.argmax(axis=0), len(seeds))
    return stats[stats.counts > 0]
