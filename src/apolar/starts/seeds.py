"""Rows as initial centres, at random or by k-means++, and the starts from the rows nearest to each of them.

Distances are those of standardised columns: see `Problem.standardised`.
"""

import numpy as np

from apolar._core.arrays import IndexArray
from apolar.em.problem import Problem
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats
from apolar.starts.merging import resized_stats


def from_random_rows(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the M-step from the rows nearest to each of some random rows: a `Start`."""
    return _from_seeds(data, random_rows(data, n_components, rng), n_components, prior)


def from_spread_rows(
    data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the M-step from the rows nearest to each k-means++ seed: a `Start`."""
    return _from_seeds(data, spread_rows(data, n_components, rng)[0], n_components, prior)


def _from_seeds(
    data: Problem, seeds: IndexArray, n_components: int, prior: Prior | None
) -> WhitenedParameters:
    return data.family.m_step(resized_stats(data, nearest_stats(data, seeds), n_components), prior)


def random_rows(data: Problem, n_seeds: int, rng: np.random.Generator) -> IndexArray:
    """Return the positions of distinct rows, drawn in proportion to their weights; all rows if fewer."""
    weights, n_rows = data.row_weights(), data.n_rows
    probabilities = None if weights is None else weights / weights.sum()
    return rng.choice(n_rows, min(n_seeds, n_rows), replace=False, p=probabilities)


def spread_rows(data: Problem, n_seeds: int, rng: np.random.Generator, n_runs: int = 1) -> IndexArray:
    """Return the positions of rows far from each other, shape (n_runs, n_seeds): k-means++ [arthur2007].

    Where there are fewer distinct rows than seeds, some are repeated.
    """
    # Not scikit-learn's `kmeans_plusplus`: on some hundred rows it takes ten times as long.
    x, weights = data.standardised, data.row_weights()
    squares, ones = np.einsum("ij,ij->i", x, x)[:, None], np.ones((len(x), 1))
    # The product of a line of one and a line of the other is a squared distance.
    lines, others = np.hstack([x, squares, ones]).T, np.hstack([-2 * x, ones, squares])
    nearest = np.full((n_runs, len(x)), np.inf)
    weighted = np.broadcast_to(1.0 if weights is None else weights, nearest.shape)
    seeds, runs = np.empty((n_runs, n_seeds), dtype=np.intp), np.arange(n_runs)
    for k, draws in enumerate(rng.random((n_runs, n_seeds)).T):
        cumulated = weighted.cumsum(axis=1)
        is_before = cumulated <= draws[:, None] * cumulated[:, -1:]
        seeds[:, k] = chosen = np.minimum(is_before.sum(axis=1), len(x) - 1)
        np.minimum(nearest, others[chosen] @ lines, out=nearest)
        np.maximum(nearest, 0.0, out=nearest)
        nearest[runs, chosen] = 0.0
        weighted = nearest if weights is None else nearest * weights
    return seeds


def nearest_stats(data: Problem, seeds: IndexArray) -> SufficientStats:
    """Return the sufficient statistics of the rows nearest to each seed, without seeds that have no rows."""
    rows = data.standardised
    centres = rows[seeds]
    # Minus half the squared distance, up to a term of the row alone.
    scores = centres @ rows.T - 0.5 * np.einsum("ij,ij->i", centres, centres)[:, None]
    stats = data.hard_stats(scores.argmax(axis=0), len(seeds))
    return stats[stats.counts > 0]
