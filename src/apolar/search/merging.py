"""Mixtures of fewer components: the pair that costs least is merged until as many remain as asked for."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from scipy import sparse

from apolar._core import compiled
from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.constants import MAX_LOG_RATIO, ROWS_TOGETHER
from apolar._core.settings import SETTINGS
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, append_noise

# The length of a cache line in bytes.
ALIGNMENT = 64
# Sums of ratios of densities are at least this.
MIN_RATIO = 1e-30
NO_WEIGHTS = np.empty(0)


class Densities:
    """The densities of the components of a mixture, at each of some rows relative to the largest.

    With the compiled kernels, rows are added up to a multiple of `ROWS_TOGETHER`: they have the density of
    the mixture alone, which no merger changes.

    Parameters
    ----------
    data : Problem
    compared : slice
        The rows.
    natural : ndarray, shape (n_components, n_stats)
        The natural parameters of the mixture.
    """

    def __init__(self, data: Problem, compared: slice, natural: Array) -> None:
        self.data, self.compared = data, compared
        self.row_stats, weights = _row_stats(data, compared), data.row_weights()
        n_compared = len(range(*compared.indices(data.n_rows)))
        n_more = 0 if self.row_stats is None else self.row_stats.shape[1] - n_compared
        self.is_added = slice(n_compared, n_compared + n_more)
        self.weights = NO_WEIGHTS if weights is None else np.pad(weights[compared], (0, n_more))
        # The weight of all rows, relative to that of those that are compared.
        self.scale = data.weight / float(n_compared if weights is None else self.weights.sum())
        logits = self._logits(natural)
        lines = _aligned_zeros(len(natural) + 2, n_compared + n_more)
        self.largest, self.total, self.parts = lines[0], lines[1], lines[2:]
        logits.max(axis=0, out=self.largest)
        self.parts[:] = self._relative(logits)
        self.parts.sum(axis=0, out=self.total)
        # Rows of no component, in a mixture of density one.
        self.largest[self.is_added], self.total[self.is_added] = 20 * MAX_LOG_RATIO, 1.0
        self.parts[:, self.is_added] = 0.0

    def merge(self, first: int, second: int, natural: Array) -> None:
        """Replace a component by a merger, of natural parameters (1, n_stats), and remove another."""
        self.parts[first], self.parts[second] = self._relative(self._logits(natural))[0], 0.0
        self.parts.sum(axis=0, out=self.total)
        self.total[self.is_added] = 1.0

    def costs(self, first: IndexArray, second: IndexArray, natural: Array) -> Array:
        """Return the log-likelihood that is lost by each merger of two components.

        Parameters
        ----------
        first, second : ndarray of int, shape (n_pairs,)
        natural : ndarray, shape (n_pairs, n_stats)
            The natural parameters of the mergers.
        """
        before = np.log(np.maximum(self.total, MIN_RATIO))
        if self.row_stats is not None:
            densities = self.largest, self.total, self.parts
            rows = self.row_stats, self.weights
            sums = compiled.merge_costs(rows, natural, (first, second), densities)
        else:
            merged = self.total - self.parts[first] - self.parts[second]
            # Rounding may leave a negative difference.
            np.maximum(merged, 0.0, out=merged)
            merged += self._relative(self._logits(natural))
            sums = self._sum(np.log(np.maximum(merged, MIN_RATIO)))
        return self.scale * (self._sum(before) - sums)

    def _sum(self, values: Array) -> Array:
        """Return the weighted sums of values of the rows, along the last axis."""
        return np.asarray(values @ self.weights if len(self.weights) else values.sum(axis=-1))

    def _logits(self, natural: Array) -> Array:
        return (
            self.data.row_logits(natural, self.compared)
            if self.row_stats is None
            else natural @ self.row_stats
        )

    def _relative(self, logits: Array) -> Array:
        """Return densities relative to the largest one of each row. Changes the logits."""
        logits -= self.largest
        # A merged component may be far denser than the densest one before; exp must not overflow.
        np.clip(logits, -MAX_LOG_RATIO, MAX_LOG_RATIO, out=logits)
        return np.exp(logits, out=logits)


def _row_stats(data: Problem, compared: slice) -> Array | None:
    """Return the statistics of some rows, and zeros up to a multiple of rows; None if NumPy is used."""
    if compiled.kernels is None or data.is_wide or data.n_rows * data.n_stats > SETTINGS.kept_numbers:
        return None
    whitened = data.whitened_rows()[:, compared]
    n_features, n_compared = whitened.shape
    out = _aligned_zeros(data.n_stats, -(-n_compared // ROWS_TOGETHER) * ROWS_TOGETHER)
    out[0, :n_compared] = 1.0
    out[1 : 1 + n_features, :n_compared] = whitened
    data.family.write_quadratics(out[1 : 1 + n_features], out[1 + n_features :])
    return out


def _aligned_zeros(*shape: int) -> Array:
    """Return zeros that begin at the start of a cache line: vectors of the kernels are then within lines."""
    size = math.prod(shape)
    memory = np.zeros(size + ALIGNMENT // 8)
    first = -memory.ctypes.data % ALIGNMENT // 8
    return memory[first : first + size].reshape(shape)


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

    Attributes
    ----------
    table : ndarray, shape (n_components, n_components)
        The cost of each pair; finite for first < second.
    """

    def __init__(self, data: Problem, parameters: WhitenedParameters) -> None:
        self._data, self._family = data, data.family
        self._covariances = parameters.covariances
        # A bare array, as components are merged in place.
        self._stats = untied_stats(data, parameters).array
        compared = slice(None, None, max(1, data.n_rows // SETTINGS.merge_rows))
        natural = self._family.natural(parameters)
        all_natural = append_noise(natural, parameters.weights, data.noise, data.whitening.log_det)
        self._densities = Densities(data, compared, all_natural)
        n = len(self._stats)
        self.table = np.full((n, n), np.inf)
        first, second = _pairs(n)
        n_pairs = max(1, SETTINGS.chunk_numbers // len(self._densities.total))
        for start in range(0, len(first), n_pairs):
            i, j = first[start : start + n_pairs], second[start : start + n_pairs]
            natural = self._natural_of(self._stats[i] + self._stats[j])
            self.table[i, j] = self._densities.costs(i, j, natural)

    def _natural_of(self, array: Array) -> Array:
        """Return the natural parameters of components with these statistics, shape (n, n_stats)."""
        stats = SufficientStats(array, self._data.n_features)
        merged = self._family.merged(stats, self._covariances)
        return self._family.natural(replace(merged, weights=stats.counts / self._data.weight))

    def merged_stats(self, n_components: int) -> SufficientStats:
        """Return the statistics of `n_components` components, by greedy merging. Changes the object."""

        def costs_of(i: int, j: int, others: IndexArray) -> Array:
            unions = np.concatenate([self._stats[i : i + 1], self._stats[i] + self._stats[others]])
            natural = self._natural_of(unions)
            self._densities.merge(i, j, natural[:1])
            return self._densities.costs(np.minimum(i, others), np.maximum(i, others), natural[1:])

        return SufficientStats(
            _merge_greedily(self._stats, self.table, n_components, costs_of), self._data.n_features
        )


def _merge_greedily(
    array: Array, costs: Array, n_components: int, costs_of: Callable[[int, int, IndexArray], Array]
) -> Array:
    """Return the statistics that are left when pairs of least cost are merged; changes both arrays.

    Parameters
    ----------
    array : ndarray, shape (n, n_stats)
    costs : ndarray, shape (n, n)
        Of pairs of first and second component, first < second; infinite elsewhere.
    n_components : int
        The number that remains.
    costs_of : callable
        Takes the positions of two components, the second of which has been added to the first, and those of
        others. Returns the costs of merging the first with each of these.
    """
    left = np.arange(len(array))
    while len(left) > n_components:
        i, j = divmod(int(costs.argmin()), len(costs))
        array[i] += array[j]
        costs[j] = costs[:, j] = np.inf
        left = left[left != j]
        if len(left) > n_components:
            others = left[left != i]
            costs[np.minimum(i, others), np.maximum(i, others)] = costs_of(i, j, others)
    return array[left]


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
    return data.weight < SETTINGS.merge_rows_per_parameter * data.family.n_parameters(
        n_components, data.n_features
    )


class OwnedRows:
    """The rows that some components of a mixture own.

    Parameters
    ----------
    data : Problem
        With complete rows.
    shares : csr_array, shape (n_components, n_rows)
        See `Problem.shares`.
    """

    def __init__(self, data: Problem, shares: sparse.csr_array) -> None:
        self.data, self.shares = data, shares
        self.values, self.weights = data.fetch()

    def shares_of(self, k: int) -> tuple[IndexArray, Array]:
        """Return the positions of the rows of a component, and its responsibilities for them."""
        part = slice(self.shares.indptr[k], self.shares.indptr[k + 1])
        return self.shares.indices[part], self.shares.data[part]

    def of(self, positions: IndexArray, of_rows: Array) -> Problem | None:
        """Return rows, each of which counts by its share; None of fewer than two."""
        if self.weights is not None:
            of_rows = of_rows * self.weights[positions]
        if len(positions) < 2 or not of_rows.sum() > 0:
            return None
        known = {"n_rows": len(positions), "weight": float(of_rows.sum())}
        return self.data.replace(rows=open_rows(self.values[positions], of_rows), noise=None, **known)

    def logits(self, natural: Array, positions: IndexArray) -> Array:
        """Return the logarithms of weighted densities at rows, shape (len(natural), n)."""
        if self.data.kept_columns is not None:
            return self.data.row_logits(natural, positions)
        known = {"n_rows": len(positions), "weight": float(len(positions))}
        rows = self.data.replace(rows=open_rows(self.values[positions]), noise=None, **known)
        return rows.row_logits(natural, slice(None))


def merging_costs(data: Problem, parameters: WhitenedParameters) -> tuple[Array, list[tuple[int, int]]]:
    """Return what mergers of two components cost, in log-likelihood, and the pairs; the cheapest first.

    The cost by weights and log-determinants ignores overlap, and prefers to merge two small clusters: so it
    is computed on the rows that the two own, with the densities of the others as they are, for pairs that
    may be cheap.
    """
    family, array = data.family.gaussian, untied_stats(data, parameters).array
    stats = SufficientStats(array, data.n_features)
    terms = family.untied.merging_term(stats)
    first, second = _pairs(len(array))
    if not len(first):
        return np.zeros(0), []
    unions = (
        SufficientStats(array[i] + array[j], data.n_features) for i, j in _in_chunks(first, second, array)
    )
    costs = np.concatenate([family.untied.merging_term(each) for each in unions])
    costs = costs - terms[first] - terms[second]
    if not is_crowded(data, parameters.n_components - 1):
        n_pairs = SETTINGS.pairs_per_component * len(array)
        plain = data.replace(family=family)
        shares, density = plain.shares(replace(parameters, dof=None))
        common = (shares @ shares.T).toarray()[first, second]
        by_cost, by_rows = np.argsort(costs, kind="stable"), np.argsort(-common, kind="stable")
        chosen = np.union1d(by_cost[:n_pairs], by_rows[:n_pairs])
        first, second = first[chosen], second[chosen]
        union = SufficientStats(array[first] + array[second], data.n_features)
        merged = family.merged(union, parameters.covariances)
        natural = family.natural(replace(merged, weights=union.counts / data.weight))
        costs = _costs_on_rows(OwnedRows(plain, shares), density, natural, first, second)
    order = np.argsort(costs, kind="stable")
    order = order[np.isfinite(costs[order])]
    return costs[order], list(zip(first[order].tolist(), second[order].tolist(), strict=True))


def _in_chunks(
    first: IndexArray, second: IndexArray, array: Array
) -> Iterator[tuple[IndexArray, IndexArray]]:
    """Yield pairs of components in parts: all unions of many components would take too much memory."""
    n_pairs = max(1, SETTINGS.chunk_numbers // array.shape[1])
    for start in range(0, len(first), n_pairs):
        yield first[start : start + n_pairs], second[start : start + n_pairs]


def _costs_on_rows(
    owned: OwnedRows, density: Array, natural: Array, first: IndexArray, second: IndexArray
) -> Array:
    """Return what mergers, of these natural parameters, cost on the rows that their components own."""
    costs, share = np.full(len(first), np.inf), np.zeros(len(density))
    for pair, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        (rows_i, shares_i), (rows_j, shares_j) = owned.shares_of(i), owned.shares_of(j)
        share[rows_i] = shares_i
        share[rows_j] += shares_j
        positions = np.flatnonzero(share)
        if len(positions):
            ratio = owned.logits(natural[pair : pair + 1], positions)[0] - density[positions]
            left = np.maximum(1 - share[positions], 0.0) + np.exp(np.minimum(ratio, MAX_LOG_RATIO))
            lost = -np.log(np.maximum(left, MIN_RATIO))
            costs[pair] = lost.sum() if owned.weights is None else lost @ owned.weights[positions]
        share[positions] = 0.0
    return costs


def merged_pairs(data: Problem, parameters: WhitenedParameters, n_pairs: int) -> list[SufficientStats]:
    """Return the statistics of a mixture with one pair merged, for each of the pairs that cost least."""
    array = untied_stats(data, parameters).array
    cheapest = merging_costs(data, parameters)[1][:n_pairs]
    return [SufficientStats(_with_pair_merged(array, i, j), data.n_features) for i, j in cheapest]


def merged_stats(data: Problem, parameters: WhitenedParameters, n_components: int) -> SufficientStats:
    """Return the statistics of a mixture after merging to at most `n_components` components."""
    if is_crowded(data, n_components):
        return greedily_merged_stats(data.family.untied, untied_stats(data, parameters), n_components)
    return MergeCosts(data, parameters).merged_stats(n_components)


def untied_stats(data: Problem, parameters: WhitenedParameters) -> SufficientStats:
    """Return the expected statistics of the rows under one mixture, as of the family without sharing."""
    return data.family.moments(parameters) * data.weight


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
    array, n_features, n = stats.array.copy(), stats.n_features, len(stats.array)
    if n <= n_components:
        return SufficientStats(array, n_features)

    def terms_of(part: Array) -> Array:
        return family.merging_term(SufficientStats(part, n_features))

    def costs_of(i: int, _: int, others: IndexArray) -> Array:
        new = terms_of(np.concatenate([array[i : i + 1], array[i] + array[others]]))
        terms[i] = new[0]
        return new[1:] - terms[i] - terms[others]

    terms = terms_of(array)
    costs = np.full((n, n), np.inf)
    first, second = _pairs(n)
    for ones, others in _in_chunks(first, second, array):
        costs[ones, others] = terms_of(array[ones] + array[others]) - terms[ones] - terms[others]
    return SufficientStats(_merge_greedily(array, costs, n_components, costs_of), n_features)


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
