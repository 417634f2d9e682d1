"""The sums of EM over rows with missing values, which are kept sorted if they are in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array
from apolar.data import BlockFunction, Rows
from apolar.em.completion import as_float64_rows
from apolar.em.e_step import EStep
from apolar.em.kernels.compiled import as_weights
from apolar.em.missing import IncompleteBlock, incomplete_block
from apolar.em.row_stats import RowStats
from apolar.em.whitening import Whitening
from apolar.mixture.families import Family

__all__ = ["IncompleteRows"]


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """The sums of EM over rows with missing values.

    Attributes
    ----------
    rows : Rows
        On the host.
    family : Family
    whitening : Whitening
    n_threads : int
    block : IncompleteBlock or None
        All rows, sorted by their patterns, if they are in memory.
    weights : ndarray or None
        Their weights.
    """

    rows: Rows
    family: Family
    whitening: Whitening
    n_threads: int
    block: IncompleteBlock | None = None
    weights: Array | None = None

    @classmethod
    def of(cls, rows: Rows, family: Family, whitening: Whitening, n_threads: int) -> IncompleteRows:
        """Return the sums over rows, which are kept sorted if they are in memory."""
        if not rows.in_memory or not rows.can_take:
            return cls(rows, family, whitening, n_threads)
        values, weights = rows.take(slice(None))
        block = incomplete_block(as_float64_rows(values), family, whitening, n_threads)
        return cls(rows, family, whitening, n_threads, block, as_weights(weights))

    def under(self, family: Family, whitening: Whitening) -> IncompleteRows:
        """Return the same rows for a family of the same row statistics, or for other noise."""
        block = None if self.block is None else self.block.with_family(family, whitening)
        return replace(self, family=family, whitening=whitening, block=block)

    def e_step(self, natural: Array) -> tuple[Array, Array]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods."""
        if self.block is not None:
            return self.block.e_step(natural, self.weights)
        stats, log_likelihood = self.rows.reduce(
            EStep(natural), RowStats(self.family, self.whitening), self.n_threads
        )
        return stats, log_likelihood

    def _without_noise(self) -> IncompleteRows:
        """Return the rows for densities at the rows as they are."""
        return self.under(self.family, replace(self.whitening, noise=0.0))

    def responsibilities(self, natural: Array) -> tuple[Array, Array]:
        """Return responsibilities, shape (n_components, n_rows), and log-densities, shape (n_rows,)."""
        exact = self._without_noise()
        if exact.block is not None:
            return exact.block.responsibilities(natural)
        function = BlockFunction(lambda block, _: block.responsibilities(natural), 2 * len(natural))
        parts = list(self.rows.map_blocks(function, RowStats(self.family, exact.whitening)))
        return np.concatenate([part[0] for part in parts], axis=1), np.concatenate(
            [part[1] for part in parts]
        )

    def logits(self, natural: Array) -> Array:
        """Return the logarithms of weighted densities of what is observed, shape (len(natural), n_rows)."""
        exact = self._without_noise()
        if exact.block is not None:
            return np.asarray(exact.block.logits(natural))
        function = BlockFunction(lambda block, _: block.logits(natural).copy(), 2 * len(natural))
        parts = self.rows.map_blocks(function, RowStats(self.family, exact.whitening))
        return np.concatenate(list(parts), axis=1)
