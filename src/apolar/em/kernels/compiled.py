"""Blocks of dense rows in the main memory, whose sums are those of the compiled extension.

It reads rows as they are stored, block by block, and keeps all intermediate results in the cache. Where the
extension was not built, `apolar.em.blocks` computes the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core import compiled
from apolar._core.arrays import Array
from apolar._core.compiled import RowMap, RowResults
from apolar.em.blocks import Block
from apolar.mixture.families import Family


def has_kernel(family: Family, n_features: int) -> bool:
    """Return whether the extension is used, and sums the row statistics of a family."""
    n_stats = compiled.n_stats(family.n_axes, n_features)
    return compiled.kernels is not None and family.n_stats(n_features) == n_stats


class CompiledBlock(Block):
    """Dense rows of the host as they are stored.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n_features)
        Copied in double precision if the extension cannot read them.
    weights : ndarray, shape (n_rows,), or None
    family : Family
    row_map : RowMap, optional
        To whitened coordinates; by default these are the coordinates of the rows.
    n_threads : int, default=1
    """

    def __init__(
        self, values: Array, weights: Any, family: Family, row_map: RowMap | None = None, n_threads: int = 1
    ) -> None:
        # Aligned, as the extension reads weights.
        super().__init__(None if weights is None else np.require(weights, np.float64, "A"))
        self.values = values if compiled.can_read(values) else np.array(values, np.float64)
        self.row_map = RowMap.of(np.zeros(values.shape[1])) if row_map is None else row_map
        self.kind, self.n_threads = family.n_axes, n_threads

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.values)

    def e_step(self, natural: Array, *, is_hard: bool = False) -> tuple[Array, Array]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods."""
        arguments = self.values, self.weights, self.row_map, natural, self.kind, self.n_threads
        return compiled.e_step(*arguments, is_hard=is_hard, is_linear=is_hard)

    def logits(self, natural: Array) -> Array:
        """Return natural parameters times row statistics."""
        return np.asarray(self.posteriors(natural, "logits"))

    def stats(self, responsibilities: Any) -> Array:
        """Return the row statistics, summed under responsibilities."""
        given = np.asarray(responsibilities, np.float64)
        return compiled.stats_under(self.values, None, self.row_map, given, self.kind, self.n_threads)

    def posteriors(self, natural: Array, what: str) -> Any:
        """Return what one mixture says about each row."""
        n_rows, n_components = self.n_rows, len(natural)
        results = RowResults(
            np.empty((n_components, n_rows)) if what == "logits" else None,
            np.empty((n_rows, n_components)) if what in ("probabilities", "both") else None,
            np.empty(n_rows, np.int64) if what == "labels" else None,
            np.empty(n_rows) if what in ("densities", "both") else None,
        )
        weights = self.weights if what == "sums" else None
        sums = compiled.write_rows(
            self.values, weights, self.row_map, natural, self.kind, results, self.n_threads
        )
        if what == "sums":
            return tuple(sums.tolist())
        if what == "both":
            assert results.responsibilities is not None
            return results.responsibilities.T, results.density
        return next(array for array in vars(results).values() if array is not None)
