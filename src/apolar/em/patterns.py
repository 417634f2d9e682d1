"""Rows with missing values, sorted by which of their columns are observed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.compiled import RowMap
from apolar.data import thread_scratch
from apolar.data.reduce import map_in_threads
from apolar.em.blocks import Block, StatsBlock
from apolar.em.kernels.compiled import CompiledBlock, has_kernel
from apolar.em.small_patterns import SmallPatterns
from apolar.mixture.conditioning import FULL, Conditioned, NaturalComponents, RootedComponents, square

__all__ = ["PatternGroup", "Patterns"]

# Patterns of at least this many rows are summed one by one; of fewer rows, many patterns together.
MIN_ROWS = 12
# The rows of a pattern from which on threads share them.
VAST_ROWS = 2**15
# The numbers of an array over patterns, components, and pairs of columns: 16 MB.
MAX_NUMBERS = 2**21


@dataclass(frozen=True, eq=False)
class PatternGroup:
    """Rows of several patterns, which have the same number of missing columns.

    Attributes
    ----------
    missing : ndarray of int, shape (n_patterns, n_missing)
    observed : ndarray of int, shape (n_patterns, n_observed)
    starts : ndarray of int, shape (n_patterns + 1,)
        The first row of each pattern, and the number of rows.
    values : ndarray, shape (n_rows, n_observed)
        The observed values, in the order of patterns.
    positions : ndarray of int, shape (n_rows,)
        Which of all rows these are.
    is_large : bool
        Whether each pattern has many rows.
    """

    missing: IndexArray
    observed: IndexArray
    starts: IndexArray
    values: Array
    positions: IndexArray
    is_large: bool

    @property
    def n_patterns(self) -> int:
        """The number of patterns."""
        return len(self.missing)

    def patterns_of_rows(self) -> IndexArray:
        """Return the pattern of each row."""
        return np.repeat(np.arange(self.n_patterns), np.diff(self.starts))

    def at(self, positions: IndexArray) -> PatternGroup:
        """Return the group of rows that are at these positions among more rows."""
        return replace(self, positions=positions[self.positions])

    def parts(self, n_components: int) -> Iterator[PatternGroup]:
        """Yield parts of the patterns, few enough for arrays of their conditioned components."""
        n_features = self.missing.shape[1] + self.observed.shape[1]
        rows_each = 1 if self.is_large else MIN_ROWS
        size = max(1, MAX_NUMBERS // (n_components * n_features**2 * rows_each))
        if size >= self.n_patterns:
            yield self
            return
        for first in range(0, self.n_patterns, size):
            patterns = slice(first, min(first + size, self.n_patterns))
            begin, end = self.starts[patterns.start], self.starts[patterns.stop]
            yield replace(
                self,
                missing=self.missing[patterns],
                observed=self.observed[patterns],
                starts=self.starts[patterns.start : patterns.stop + 1] - begin,
                values=self.values[begin:end],
                positions=self.positions[begin:end],
            )

    def logits(self, marginal: NaturalComponents) -> Array:
        """Return the logits of the marginals of each pattern at its rows, shape (n, n_rows)."""
        if not self.is_large:
            return self._logits_by_row(marginal).T
        natural = marginal.natural()
        parts = [self._block(p).logits(natural[p]).copy() for p in range(self.n_patterns)]
        return np.concatenate(parts, axis=1)

    def _logits_by_row(self, marginal: NaturalComponents) -> Array:
        """Return the logits, shape (n_rows, n), with the components of each row."""
        of_row = self.patterns_of_rows()
        by_row = NaturalComponents(
            marginal.constants[of_row], marginal.linear[of_row], marginal.precisions[of_row]
        )
        return by_row.logits(self.values)

    def _block(self, pattern: int, n_threads: int = 1) -> Block:
        """Return the rows of a pattern, of its observed columns only."""
        values = self.values[self.starts[pattern] : self.starts[pattern + 1]]
        n_observed = values.shape[1]
        if has_kernel(FULL, n_observed):
            return CompiledBlock(values, FULL, RowMap.identity(n_observed), n_threads)
        row_stats = np.empty((FULL.n_stats(n_observed), len(values)))
        row_stats[0], row_stats[1 : 1 + n_observed] = 1.0, values.T
        FULL.write_quadratics(row_stats[1 : 1 + n_observed], row_stats[1 + n_observed :])
        return StatsBlock(row_stats, thread_scratch())

    def sums(
        self, marginal: NaturalComponents, n_mixtures: int, weights: Array | None, n_threads: int
    ) -> tuple[Array, Array, Array, Array]:
        """Return the sums of the E-step over the many rows of each pattern, of the observed columns.

        Parameters
        ----------
        marginal : NaturalComponents
            Of the observed columns of each pattern, (n_patterns, n_mixtures * n_components).
        n_mixtures : int
        weights : ndarray, shape (n_rows,), or None
            Of the rows of this group.
        n_threads : int

        Returns
        -------
        counts : ndarray, shape (n_patterns, n)
        first : ndarray, shape (n_patterns, n, n_observed)
        second : ndarray, shape (n_patterns, n, n_observed, n_observed)
        log_likelihood : ndarray, shape (n_mixtures,)
        """
        natural = marginal.natural()
        n, n_stats = natural.shape[1:]
        stats, likelihoods = np.empty((self.n_patterns, n, n_stats)), np.empty((self.n_patterns, n_mixtures))

        def sum_patterns(patterns: IndexArray, threads: int) -> None:
            for p in patterns.tolist():
                part = None if weights is None else weights[self.starts[p] : self.starts[p + 1]]
                of_mixtures = natural[p].reshape(n_mixtures, -1, n_stats)
                stats[p], likelihoods[p] = self._block(p, threads).e_step(of_mixtures, part)

        # Threads share the rows of a pattern of very many, and else the patterns.
        is_vast = np.diff(self.starts) >= VAST_ROWS
        sum_patterns(np.flatnonzero(is_vast), n_threads)
        others = np.flatnonzero(~is_vast)
        if n_threads == 1 or len(others) < 2 * n_threads:
            sum_patterns(others, 1)
        else:
            shares = np.array_split(others, 4 * n_threads)
            deque(map_in_threads(sum_patterns, ((share, 1) for share in shares), n_threads), maxlen=0)
        n_observed = self.values.shape[1]
        second = square(stats[..., 1 + n_observed :], n_observed)
        return stats[..., 0], stats[..., 1 : 1 + n_observed], second, likelihoods.sum(axis=0)


class Patterns:
    """Rows with missing values, in groups of patterns.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_features)
        NaN where a value is missing.
    """

    def __init__(self, values: Array) -> None:
        self.n_rows, self.n_features = values.shape
        missing = np.isnan(values)
        codes = pattern_codes(missing)
        order = np.argsort(codes, kind="stable")
        sorted_codes = codes[order]
        is_first = np.concatenate([[True], sorted_codes[1:] != sorted_codes[:-1]])
        firsts = np.flatnonzero(is_first)
        lengths = np.diff(np.append(firsts, self.n_rows))
        patterns = missing[order[firsts]]
        n_missing = patterns.sum(axis=1)
        # Rows without any observed value have nothing to be read.
        is_large = (lengths >= MIN_ROWS) & (n_missing < self.n_features)
        self.small: SmallPatterns | None = None
        few = np.flatnonzero(~is_large)
        if len(few):
            rows = _rows_of(order, firsts[few], lengths[few])
            starts = np.concatenate([[0], np.cumsum(lengths[few])])
            zero_filled = np.where(missing[rows], 0.0, values[rows])
            self.small = SmallPatterns(patterns[few], starts, zero_filled, rows)
        self.groups: list[PatternGroup] = []
        for key in np.unique(2 * n_missing + is_large).tolist():
            members = np.flatnonzero(2 * n_missing + is_large == key)
            self.groups.append(
                _group(values, order, firsts[members], lengths[members], patterns[members], bool(key % 2))
            )

    def conditioned(
        self, components: NaturalComponents | RootedComponents, *, only_large: bool = False
    ) -> Iterator[tuple[PatternGroup, Conditioned]]:
        """Yield parts of the groups, and the components given what is observed in them."""
        for group in self.groups:
            if only_large and not group.is_large:
                continue
            for part in group.parts(len(components)):
                yield part, components.given(part.missing, part.observed)


def pattern_codes(missing: Array) -> IndexArray:
    """Return a number for each row, equal for rows in which the same columns are missing."""
    n_features = missing.shape[1]
    if n_features <= 62:
        return np.asarray(missing @ (1 << np.arange(n_features, dtype=np.int64)))
    packed = np.packbits(missing, axis=1)
    return np.unique(packed, axis=0, return_inverse=True)[1].reshape(-1)


def _rows_of(order: IndexArray, firsts: IndexArray, lengths: IndexArray) -> IndexArray:
    """Return the rows of some patterns, one pattern after the other."""
    begins = np.cumsum(lengths) - lengths
    within = np.arange(int(lengths.sum())) - np.repeat(begins, lengths)
    return np.asarray(order[np.repeat(firsts, lengths) + within])


def _group(
    values: Array, order: IndexArray, firsts: IndexArray, lengths: IndexArray, patterns: Array, is_large: bool
) -> PatternGroup:
    """Return the group of some patterns, given where each begins in the order of rows."""
    starts, positions = np.concatenate([[0], np.cumsum(lengths)]), _rows_of(order, firsts, lengths)
    n_features = patterns.shape[1]
    # A stable sort puts observed columns first, each part in its order.
    columns = np.argsort(patterns, axis=1, kind="stable")
    n_observed = n_features - int(patterns[0].sum())
    observed, missing = columns[:, :n_observed], columns[:, n_observed:]
    taken = values[positions[:, None], np.repeat(observed, lengths, axis=0)]
    return PatternGroup(missing, observed, starts, taken, positions, is_large)
