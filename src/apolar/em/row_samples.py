"""Samples of the rows of EM, in the same coordinates: at random, every few, distinct ones, and whole ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array, IndexArray
from apolar._core.namespaces import to_numpy
from apolar.data import Rows, fetch_rows, open_rows
from apolar.em.row_blocks import is_wide
from apolar.em.whitening import MAX_DISTANCE, Whitening

# The largest distance of a row that is far from all others, in deviations. Responsibilities are at least
# exp(-100), about 1e-43: times the square of a larger distance, they would count in sums.
MAX_FAR_DISTANCE = 1e20


class RowSamples(ABC):
    """Rows in whitened coordinates, of which samples can be taken."""

    rows: Rows
    whitening: Whitening
    far_rows: IndexArray

    @property
    def weight(self) -> float:
        """The sum of the weights of the rows."""
        return self.whitening.weight

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.whitening.n_rows

    @property
    def is_wide(self) -> bool:
        """Whether the rows are sparse, with too many columns to make them dense."""
        return is_wide(self.rows)

    @property
    def is_incomplete(self) -> bool:
        """Whether values of the rows may be missing."""
        return self.whitening.is_incomplete

    @abstractmethod
    def imputed(self) -> Any:
        """Return the rows with the expected value in place of each missing one."""

    @abstractmethod
    def _with_rows(self, rows: Rows, n_rows: int, weight: float) -> Self:
        """Return other rows in the same coordinates."""

    def subsample(self, n_rows: int, rng: np.random.Generator) -> Self:
        """Return rows chosen at random, on the host, in the same coordinates."""
        available = self.n_rows if self.rows.n_rows is None else self.rows.n_rows
        is_on_host = self.rows.device_template is None and not self.rows.is_distributed
        if n_rows >= available and is_on_host:
            return self
        # To take all rows draws nothing: the generator is in the same state wherever the rows are.
        n_rows = min(n_rows, available)
        is_all = n_rows == available
        positions = np.arange(n_rows) if is_all else rng.choice(available, n_rows, replace=False)
        # Rows far from all others may be a component, which a sample without them would not show.
        return self._at(np.union1d(positions, self.far_rows))

    def taken(self, positions: IndexArray) -> Self:
        """Return the rows at ascending positions, on the host, in the same coordinates."""
        is_all = len(positions) == self.n_rows and self.rows.device_template is None
        return self if is_all else self._at(positions)

    def _at(self, positions: IndexArray) -> Self:
        values, weights = fetch_rows(self.rows, positions)
        weight = float(len(positions) if weights is None else weights.sum())
        sample = self._with_rows(open_rows(values, weights), len(positions), weight)
        sample.far_rows = np.flatnonzero(np.isin(positions, self.far_rows))
        return sample

    def distinct(self) -> Self:
        """Return the distinct rows on the host, each with the total weight of its copies.

        They are sorted by their values, so that samples depend neither on the order of the rows nor on
        whether a row is given twice or has twice the weight. Wide sparse rows are returned unchanged.
        """
        if self.is_wide or not self.rows.can_take:
            return self
        values, weights = fetch_rows(self.rows, np.arange(self.n_rows))
        order = np.argsort(values[:, 0])
        leading = values[order, 0]
        if np.any(leading[1:] == leading[:-1]) or self.is_incomplete:
            # Only if values of the first column are equal do the others have to be compared.
            order = np.lexsort(values.T[::-1])
        values = values[order]
        differs = values[1:] != values[:-1]
        if self.is_incomplete:
            differs &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
        is_new = np.concatenate([[True], np.any(differs, axis=1)])
        if weights is not None or not np.all(is_new):
            row_weights = np.ones(len(values)) if weights is None else weights[order]
            weights = np.add.reduceat(row_weights, np.flatnonzero(is_new))
            weights = None if np.all(weights == 1) else weights
        return self._with_rows(open_rows(values[is_new], weights), int(is_new.sum()), self.weight)

    def has_distinct_rows(self, n_rows: int) -> bool:
        """Return whether at least this many of the rows are distinct.

        Usually the first rows are, and the others need not be sorted.
        """
        if not self.is_wide and self.rows.can_take:
            first, _ = fetch_rows(self.rows, np.arange(min(4 * n_rows, self.n_rows)))
            if len(set(map(tuple, first.tolist()))) >= n_rows:
                return True
        return self.distinct().n_rows >= n_rows

    def refuse_rows_out_of_reach(self) -> None:
        """Refuse rows so far from the others that squares of their distances are too large for sums.

        Rows without weights that count in the scale cannot be that far from the mean.
        """
        if len(self.far_rows):
            values, _ = fetch_rows(self.rows, self.far_rows)
            distances = np.abs(np.where(np.isnan(values), 0.0, values) - self.whitening.centre)
            distances = np.max(distances / self.whitening.deviations, axis=1)
            if np.max(distances) > MAX_FAR_DISTANCE:
                row = int(self.far_rows[np.argmax(distances)])
                raise ValueError(
                    f"A row of X (number {row} of those with weight) is more than {MAX_FAR_DISTANCE:.0e} "
                    "standard deviations away from the others: remove it."
                )
        if not (self.rows.can_take and self.rows.in_memory) or self.rows.device_template is not None:
            return
        values, weights = self.rows.take(slice(None))
        if weights is None or not isinstance(values, np.ndarray):
            return
        if self.is_incomplete:
            values = np.where(np.isnan(values), self.whitening.centre, values)
        if self.whitening.within_reach(values) is not values:
            row = int(np.argmax(np.max(np.abs(values / np.max(np.abs(values), axis=0)), axis=1)))
            raise ValueError(
                f"A row of X (number {row} of those with weight) lies more than {MAX_DISTANCE:.0e} "
                "deviations from the mean, and its weight is negligible: leave it out."
            )

    def complete_cases(self) -> Self:
        """Return the rows without missing values, on the host; the rows themselves if none is missing."""
        if not self.is_incomplete:
            return self
        n_rows = self.n_rows if self.rows.n_rows is None else self.rows.n_rows
        values, weights = fetch_rows(self.rows, np.arange(n_rows))
        is_whole = ~np.any(np.isnan(values), axis=1)
        weights = None if weights is None else weights[is_whole]
        n_whole = int(is_whole.sum())
        weight = float(n_whole if weights is None else weights.sum())
        return self.imputed()._with_rows(open_rows(values[is_whole], weights), n_whole, weight)

    def systematic_sample(self, step: int) -> Self:
        """Return every `step`-th row, on the same device or cluster, in the same coordinates."""
        rows = self.rows.systematic_sample(step)
        return self._with_rows(rows, *rows.count())


def dense(block: Any) -> Array:
    """Return a chunk of rows as an array on the host."""
    return block.toarray() if sparse.issparse(block) else to_numpy(block)
