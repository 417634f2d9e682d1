"""Blocks of dense rows in the main memory, whose sums are those of the compiled extension.

It reads rows as they are stored, block by block, and keeps all intermediate results in the cache. Where the
extension was not built, `apolar.em.blocks` computes the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core import compiled
from apolar._core.arrays import Array
from apolar._core.compiled import RowMap, RowResults
from apolar.data import thread_scratch
from apolar.em.blocks import Block
from apolar.em.whitening import Whitening
from apolar.mixture.families import Family


def has_kernel(family: Family, n_features: int) -> bool:
    """Return whether the extension is used, and sums the row statistics of a family."""
    n_stats = compiled.n_stats(family.n_axes, n_features)
    return compiled.is_available() and family.n_stats(n_features) == n_stats


def as_readable(values: Any) -> Array:
    """Return dense rows of the host such that the extension reads them: as they are, if it can."""
    return values if compiled.can_read(values) else np.array(values, np.float64)


@dataclass(frozen=True, eq=False)
class CompiledBlocks:
    """The transform of chunks of checked rows to blocks for the extension.

    Attributes
    ----------
    family : Family
    row_map : RowMap
        To whitened coordinates.
    chunk_rows : int
    n_threads : int
        For each block: one if several blocks are summed at once.
    """

    family: Family
    row_map: RowMap
    chunk_rows: int
    n_threads: int = 1

    def __call__(self, values: Any, weights: Any, _: int) -> tuple[Any, Any]:
        """Return a block and its weights."""
        block = CompiledBlock(as_readable(values), self.family, self.row_map, self.n_threads)
        return block, as_weights(weights)


def as_weights(weights: Any) -> Array | None:
    """Return weights in double precision, aligned as the extension reads them, or None."""
    return None if weights is None else np.require(weights, np.float64, "A")


def whitening_map(whitening: Whitening) -> RowMap:
    """Return the map of rows to whitened coordinates."""
    return RowMap.of(whitening.centre, whitening.matrix)


class CompiledBlock(Block):
    """Dense rows of the host as they are stored.

    Parameters
    ----------
    values : ndarray of float32 or float64, shape (n_rows, n_features)
    family : Family
    row_map : RowMap
        To whitened coordinates.
    n_threads : int, default=1
    """

    def __init__(self, values: Array, family: Family, row_map: RowMap, n_threads: int = 1) -> None:
        self.values, self.row_map, self.n_threads = values, row_map, n_threads
        self.kind, self.scratch = family.n_axes, thread_scratch()

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.values)

    def e_step(self, natural: Array, weights: Any) -> tuple[Array, Array]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods."""
        return compiled.e_step(self.values, weights, self.row_map, natural, self.kind, self.n_threads)

    def nearest_stats(self, natural: Array, weights: Any) -> Array:
        """Return the statistics of the rows whose logit of a component is the largest."""
        return compiled.e_step(
            *(self.values, weights, self.row_map, natural[None], self.kind, self.n_threads),
            is_hard=True,
            is_linear=True,
        )[0]

    def logits(self, natural: Array) -> Array:
        """Return natural parameters times row statistics."""
        logits = np.empty((len(natural), self.n_rows))
        self._write(natural, RowResults(logits=logits))
        return logits

    def stats(self, responsibilities: Any) -> Array:
        """Return the row statistics, summed under responsibilities."""
        given = np.asarray(responsibilities, np.float64)
        return compiled.stats_under(self.values, None, self.row_map, given, self.kind, self.n_threads)

    def label_stats(self, labels: Array, n_labels: int, weights: Any) -> Array:
        """Return the row statistics, summed over the rows of each label; rows are in whitened coordinates."""
        return compiled.label_stats(self.values.T, weights, labels, n_labels, self.kind)

    def to_device(self, values: Array) -> Array:
        """Return the array: the block is on the host."""
        return values

    def labels(self, natural: Array) -> Array:
        """Return the most probable component of each row."""
        labels = np.empty(self.n_rows, np.int64)
        self._write(natural, RowResults(labels=labels))
        return labels

    def probabilities(self, natural: Array) -> Array:
        """Return the responsibilities, shape (n_rows, n_components)."""
        responsibilities = np.empty((self.n_rows, len(natural)))
        self._write(natural, RowResults(responsibilities=responsibilities))
        return responsibilities

    def log_densities(self, natural: Array) -> Array:
        """Return the log-density of each row."""
        density = np.empty(self.n_rows)
        self._write(natural, RowResults(density=density))
        return density

    def responsibilities(self, natural: Array) -> tuple[Array, Array]:
        """Return responsibilities, shape (n_components, n_rows), and log-densities."""
        responsibilities, density = np.empty((self.n_rows, len(natural))), np.empty(self.n_rows)
        self._write(natural, RowResults(responsibilities=responsibilities, density=density))
        return responsibilities.T, density

    def density_sums(self, natural: Array, weights: Any) -> tuple[float, float, float]:
        """Return the sums of log-densities, logarithms of the largest responsibilities, and weights."""
        density, certainty, weight = self._write(natural, RowResults(), weights).tolist()
        return density, certainty, weight

    def _write(self, natural: Array, results: RowResults, weights: Any = None) -> Array:
        return compiled.write_rows(
            self.values, weights, self.row_map, natural, self.kind, results, self.n_threads
        )
