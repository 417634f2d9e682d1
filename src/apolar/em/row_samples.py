"""Samples of the rows of EM, in the same coordinates: at random, every few, distinct ones, and whole ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.data import Rows, fetch_rows, open_rows
from apolar.data.resolution import rounding_variances
from apolar.em.known import Known
from apolar.moments.covariance import RowMoments


class RowSamples(ABC):
    """Rows in whitened coordinates that can be sampled."""

    rows: Rows
    n_rows: int
    n_features: int
    weight: float
    far_rows: IndexArray
    scale: RowMoments | None
    available_covariance: Array | None
    known: Known | None

    @property
    def is_wide(self) -> bool:
        """Whether the rows are sparse, with too many columns to make them dense."""
        return self.rows.is_wide

    @property
    def is_incomplete(self) -> bool:
        """Whether values of the rows may be missing."""
        return self.available_covariance is not None

    @abstractmethod
    def imputed(self) -> Any:
        """Return the rows with the expected value instead of each missing one."""

    @abstractmethod
    def replace(self, **changes: Any) -> Self:
        """Return other rows in the same coordinates."""

    @property
    def n_stored(self) -> int:
        """The number of rows that can be read, also of those without weight."""
        return self.n_rows if self.rows.n_rows is None else self.rows.n_rows

    def fetch(self) -> tuple[Any, Array | None]:
        """Return all rows on the host in double precision, sparse if they are wide, and their weights."""
        return fetch_rows(self.rows, np.arange(self.n_stored))

    def subsample(self, n_rows: int, rng: np.random.Generator) -> Self:
        """Return rows chosen at random, on the host, in the same coordinates."""
        # To take all rows draws nothing: the generator is in the same state wherever the rows are.
        if n_rows >= self.n_stored:
            return self.taken(np.arange(self.n_stored))
        positions = rng.choice(self.n_stored, n_rows, replace=False)
        # Rows far from all others may be a component, which a sample without them would not show.
        positions = np.union1d(positions, self.far_rows)
        if self.known is not None:
            positions = np.union1d(positions, rng.permutation(self.known.rows)[:n_rows])
        return self.taken(positions)

    def taken(self, positions: IndexArray) -> Self:
        """Return the rows at ascending positions, on the host, in the same coordinates."""
        is_on_host = self.rows.device_template is None and not self.rows.is_distributed
        if is_on_host and len(positions) == self.n_stored:
            return self
        rows = open_rows(*fetch_rows(self.rows, positions))
        known = None if self.known is None else self.known.taken(positions)
        far_rows = np.flatnonzero(np.isin(positions, self.far_rows))
        return self.replace(rows=rows, far_rows=far_rows, known=known)

    def distinct(self) -> Self:
        """Return the distinct rows on the host, each with the total weight of its copies.

        They are sorted by their values, so that samples depend neither on the order of the rows nor on
        whether a row is given twice or has twice the weight. Wide sparse rows are returned unchanged, and so
        are those about which something is known: copies may differ in that.
        """
        if self.known is not None or self.is_wide or not self.rows.can_take:
            return self
        values, weights = self.fetch()
        order = np.argsort(values[:, 0])
        leading = values[order, 0]
        if np.any(leading[1:] == leading[:-1]) or self.is_incomplete:
            # Only if values of the first column are equal do the others have to be compared.
            order = np.lexsort(values.T[::-1])
        values = values[order]
        differs = values[1:] != values[:-1]
        differs &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
        is_new = np.concatenate([[True], np.any(differs, axis=1)])
        if weights is not None or not np.all(is_new):
            row_weights = np.ones(len(values)) if weights is None else weights[order]
            weights = np.add.reduceat(row_weights, np.flatnonzero(is_new))
            weights = None if np.all(weights == 1) else weights
        rows = open_rows(values[is_new], weights)
        return self.replace(rows=rows, n_rows=int(is_new.sum()), weight=self.weight)

    def distinct_sample(self, n_rows: int, units: Array) -> Self:
        """Return some of the distinct rows, each with the total weight of its copies; all of few rows.

        Like distinct rows, they depend neither on the order of the rows nor on whether a row is given twice
        or has twice the weight. Rows are told apart by a combination of their values in some units, so that
        those of sparse and of dense rows are the same.
        """
        if self.n_stored <= n_rows:
            return self
        if self.known is not None:
            return self.subsample(n_rows, np.random.default_rng(0))
        values, weights = self.fetch()
        factors = np.random.default_rng(0).standard_normal(self.n_features) / units
        if self.is_wide:
            keys = values @ factors
        else:
            # Column by column: the rounding of a product of matrices depends on the place of a row.
            keys = sum(
                (np.nan_to_num(column) * factor for column, factor in zip(values.T, factors, strict=True)),
                0.0,
            )
        _, first, groups = np.unique(keys, return_index=True, return_inverse=True)
        chosen = np.random.default_rng(0).permutation(len(first))[:n_rows]
        # Rows far from all others may be a component, which a sample without them would not show.
        chosen = np.union1d(chosen, groups[self.far_rows])
        totals = np.bincount(groups, weights)[chosen]
        rows = open_rows(values[first[chosen]], None if np.all(totals == 1) else totals)
        return self.replace(rows=rows, far_rows=np.flatnonzero(np.isin(chosen, groups[self.far_rows])))

    def has_distinct_rows(self, n_rows: int) -> bool:
        """Return whether at least this many of the rows are distinct.

        Usually the first rows are, and the others need not be sorted.
        """
        if not self.is_wide and self.rows.can_take:
            first, _ = fetch_rows(self.rows, np.arange(min(4 * n_rows, self.n_stored)))
            if len(set(map(tuple, first.tolist()))) >= n_rows:
                return True
        return self.distinct().n_rows >= n_rows

    def complete_cases(self) -> Self:
        """Return the rows without missing values, on the host; the rows themselves if none is missing."""
        if not self.is_incomplete:
            return self
        values, weights = self.fetch()
        is_whole = ~np.any(np.isnan(values), axis=1)
        weights = None if weights is None else weights[is_whole]
        n_rows = int(is_whole.sum())
        weight = float(n_rows if weights is None else weights.sum())
        return self.imputed().replace(rows=open_rows(values[is_whole], weights), n_rows=n_rows, weight=weight)

    def rounding_variances(self) -> Array:
        """Return the variance of the rounding errors of each column, shape (n_features,), in its units.

        All columns of wide sparse rows have none.
        """
        return np.zeros(self.n_features) if self.is_wide else rounding_variances(*self.fetch())
