"""Rows in whitened coordinates, with the sums over them that EM needs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from apolar._core.arrays import Array
from apolar._core.compiled import RowMap
from apolar._core.constants import MIN_WEIGHT
from apolar._core.namespaces import is_device_array, namespace, to_numpy
from apolar.data import ArrayRows, BlockFunction, Preparation, Rows, Scratch
from apolar.em.blocks import Block, weights_to_device_of
from apolar.em.completion import Completion
from apolar.em.coordinates import LocalCoordinates
from apolar.em.e_step import EStep, LogDensity, NearestStats
from apolar.em.incomplete import IncompleteRows
from apolar.em.kernels.compiled import CompiledBlock, as_weights
from apolar.em.row_samples import RowSamples, dense
from apolar.em.row_stats import (
    CHUNK_SIZE,
    MIN_ROWS,
    KeptRowStats,
    KeptWhitenedRows,
    RowStats,
    is_compiled,
    reads_as_stored,
)
from apolar.em.whitening import RowScale, Whitening, add_measurement_noise, scale_of, whitening_of
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior

# Row statistics of at most this many numbers (16 MB) are stored; larger ones are recomputed in each pass.
KEPT_ROW_STATS = 2**21


class Problem(RowSamples):
    """Rows in the whitened coordinates of a covariance family, ready for EM.

    Parameters
    ----------
    rows : Rows
        Rows that can be read more than once.
    family : Family
    whitening : Whitening, optional
        By default that of the rows, which are checked and read once for it.
    threads : int, default=1
    noise : float, default=0.0
        The variance of the noise of each row, if `whitening` is not given.

    Attributes
    ----------
    n_features : int
    n_stats : int
        The number of statistics per row.
    scale : RowScale or None
        Of the rows, if the whitening was computed from it.
    far_rows : ndarray of int
        Positions of rows that are far from all others, as far as they are known.
    """

    def __init__(
        self,
        rows: Rows,
        family: Family,
        whitening: Whitening | None = None,
        threads: int = 1,
        *,
        noise: float = 0.0,
    ) -> None:
        self.far_rows = np.zeros(0, dtype=np.intp)
        self.scale: RowScale | None = None
        if whitening is None:
            self.scale = scale_of(rows, family, threads)
            self.far_rows = self.scale.far_rows
            rows = rows.on_host() if self.scale.is_incomplete else rows
            whitening = whitening_of(rows, family, noise, scale=self.scale)
        self.rows = rows
        self.whitening, self.family = whitening, family.in_coordinates(whitening.inverse)
        self._incomplete: IncompleteRows | None = None
        # The rows that are read as such: if values are missing, completed ones, for starts.
        self._whole: Rows = rows
        if whitening.is_incomplete:
            self._incomplete = IncompleteRows.of(rows, self.family, whitening, threads)
            self._whole = rows = rows.map(Completion.by_regression(whitening))
        self.n_features = rows.n_features
        self.n_stats = family.n_stats(rows.n_features)
        # Also for rows on a device, which runs in parallel by itself: samples of them come to the host.
        self.threads = threads
        # The extension computes the statistics of rows faster than it would read them.
        self._is_compiled = is_compiled(rows, family)
        self._kept_rows = self._rows_to_keep() if self._is_compiled else None
        self._kept_stats = None if self._is_compiled else self._stats_to_keep()
        # The source of the blocks of EM, and their preparation.
        self._source: Rows = self._kept_rows or self._kept_stats or rows
        complete = replace(whitening, available_covariance=None)
        self._prepare: Preparation = RowStats(family, complete, n_threads=self.threads)
        self._kept_block: CompiledBlock | None = None
        if self._kept_rows is not None:
            self._prepare = KeptWhitenedRows(family, self.threads)
            identity = RowMap.identity(self.n_features)
            self._kept_block = CompiledBlock(self._kept_rows.values, family, identity, self.threads)
        elif self._kept_stats is not None:
            self._prepare = KeptRowStats()
        elif not self._is_compiled and rows.in_memory and reads_as_stored(rows, family, whitening):
            # Squared lengths are stored: they take only 8 bytes per row.
            squares = np.concatenate(list(self.map_blocks(lambda block, _: block.squares)))
            self._prepare = replace(self._prepare, squares=squares)

    def _can_keep(self, n_numbers: int) -> bool:
        """Return whether so many numbers of each row are stored."""
        rows = self.rows
        # `is_distributed` is tested first, as `n_rows` of distributed rows may take a pass over them.
        if self.is_wide or rows.is_distributed or not rows.can_take or rows.n_rows is None:
            return False
        return rows.n_rows * n_numbers <= KEPT_ROW_STATS

    def _rows_to_keep(self) -> ArrayRows | None:
        """Return all rows in whitened coordinates, shape (n_rows, n_features), if they are small enough."""
        if not self._can_keep(self.n_features):
            return None
        values, weights = self._whole.take(slice(None))
        whitened = np.empty((self.n_features, values.shape[0]))
        self.whitening.write(values, whitened)
        return ArrayRows(whitened.T, as_weights(weights))

    def _stats_to_keep(self) -> ArrayRows | None:
        """Return the statistics of all rows, shape (n_rows, n_stats), and their weights, if small enough."""
        rows = self._whole
        if not self._can_keep(self.n_stats):
            return None
        values, weights = rows.take(slice(None))
        row_stats = RowStats(self.family, self.whitening).written(values, Scratch())
        template = rows.device_template if is_device_array(row_stats) else None
        return ArrayRows(row_stats.T, weights_to_device_of(weights, row_stats), device_template=template)

    def under(self, family: Family) -> Problem:
        """Return the same rows for another family of the same row statistics: with or without sharing."""
        other = copy.copy(self)
        other.family = family.in_coordinates(self.whitening.inverse)
        if self._incomplete is not None:
            other._incomplete = self._incomplete.under(other.family, self.whitening)
        if isinstance(self._prepare, RowStats | KeptWhitenedRows):
            other._prepare = replace(self._prepare, family=family)
        return other

    def with_noise(self, variances: Array) -> Problem:
        """Return the same rows with noise of these variances in their columns, shape (n_features,)."""
        other = copy.copy(self)
        other.whitening = replace(self.whitening, noise=variances)
        if self._incomplete is not None:
            other._incomplete = self._incomplete.under(self.family, other.whitening)
        return other

    @property
    def is_incomplete(self) -> bool:
        """Whether values of the rows may be missing."""
        return self._incomplete is not None

    def completed(self, parameters: WhitenedParameters | None = None) -> Self:
        """Return the rows with the expected value in place of each missing one; themselves if none is.

        By default, the expected values are those of one Gaussian; else, of a mixture.
        """
        if self._incomplete is None:
            return self
        whitening = replace(self.whitening, available_covariance=None)
        if parameters is not None:
            completion = Completion.by_mixture(self.family, self.whitening, parameters)
            return type(self)(self.rows.map(completion), self.family, whitening, self.threads)
        other = copy.copy(self)
        other.rows, other.whitening, other._incomplete = self._whole, whitening, None
        return other

    def natural(self, parameters: WhitenedParameters) -> Array:
        """Return the natural parameters of the components, with what the noise of a row adds to them.

        Those of the noise component, if there is one, are last.
        """
        natural, noise = self.family.natural(parameters), self._noise_quadratics()
        if noise is not None:
            natural[..., 0] += natural[..., -len(noise) :] @ noise
        return self.whitening.append_noise_component(natural, parameters.weights)

    def m_step(
        self, stats: SufficientStats, prior: Prior | None, near: WhitenedParameters | None = None
    ) -> WhitenedParameters:
        """Return the M-step of the family; beside noise, the weights are shares of all rows."""
        parameters = self.family.m_step(stats, prior, near)
        if not self.whitening.has_noise_component:
            return parameters
        return replace(parameters, weights=np.maximum(stats.counts, MIN_WEIGHT) / self.weight)

    def coordinates(self, parameters: WhitenedParameters) -> LocalCoordinates:
        """Return local coordinates around one mixture."""
        has_noise = self.whitening.has_noise_component
        return LocalCoordinates(self.family, parameters, self.weight, has_noise)

    # --- sums over the rows ----------------------------------------------------------

    def e_step(self, parameters: WhitenedParameters) -> tuple[SufficientStats, Array]:
        """Return the sufficient statistics, and the log-likelihoods.

        Parameters
        ----------
        parameters : WhitenedParameters
            A batch of mixtures, in whitened coordinates: one leading axis.

        Returns
        -------
        stats : SufficientStats
            Per mixture: sums of the row statistics under the responsibilities.
        log_likelihood : ndarray, shape (n_mixtures,)
            In whitened coordinates: adding `whitening.log_det` per row gives that in the units of the data.
        """
        natural, noise = self.natural(parameters), self._noise_quadratics()
        if self._incomplete is not None:
            stats, log_likelihood = self._incomplete.e_step(natural)
        elif self._kept_block is None:
            stats, log_likelihood = self._source.reduce(EStep(natural), self._prepare, self.threads)
        else:
            stats, log_likelihood = self._kept_block.e_step(natural, self.row_weights())
        stats = stats.reshape(natural.shape)
        if self.whitening.has_noise_component:
            # The rows of noise are those that the components leave.
            stats = np.ascontiguousarray(stats[..., :-1, :])
        return SufficientStats(add_measurement_noise(stats, noise), self.n_features), log_likelihood

    def density_sums(self, parameters: WhitenedParameters) -> tuple[float, float]:
        """Return the sums of log-densities of one mixture, and of logarithms of largest responsibilities."""
        natural = self.whitening.append_noise_component(self.family.natural(parameters), parameters.weights)
        if self._kept_block is None:
            sums: Any = self._source.reduce(LogDensity(natural), self._prepare, self.threads)
        else:
            sums = self._kept_block.density_sums(natural, self.row_weights())
        return float(sums[0]), float(sums[1])

    def nearest_stats(self, means: Array) -> SufficientStats:
        """Return the sufficient statistics of the rows nearest to each mean, in whitened coordinates."""
        (stats,) = self._source.reduce(NearestStats(means, self.n_stats), self._prepare, self.threads)
        return SufficientStats(add_measurement_noise(stats, self._noise_quadratics()), self.n_features)

    def hard_stats(self, labels: Array, n_components: int) -> SufficientStats:
        """Return the sufficient statistics of the rows of each label; labels are in the order of rows."""
        if self._kept_block is None:
            return self.soft_stats(labels[None] == np.arange(n_components)[:, None])
        stats = self._kept_block.label_stats(labels, n_components, self.row_weights())
        return SufficientStats(add_measurement_noise(stats, self._noise_quadratics()), self.n_features)

    def soft_stats(self, responsibilities: Array) -> SufficientStats:
        """Return the sufficient statistics under responsibilities of shape (n_components, n_rows)."""
        position = 0

        def block_stats(block: Block, weights: Any) -> Any:
            nonlocal position
            part = responsibilities[:, position : position + block.n_rows].astype(float)
            position += block.n_rows
            return block.stats(block.to_device(part if weights is None else part * to_numpy(weights)))

        stats = np.zeros((len(responsibilities), self.n_stats))
        # In order and by one thread, as each block takes the next part of the responsibilities.
        for part in self._source.map_blocks(BlockFunction(block_stats), self._prepare):
            stats += to_numpy(part)
        return SufficientStats(add_measurement_noise(stats, self._noise_quadratics()), self.n_features)

    def _noise_quadratics(self) -> Array | None:
        """Return what the noise of a row adds to its expected quadratics, or None without noise."""
        # Where values are missing, their blocks add the noise of those that are not.
        return None if self.is_incomplete else self.whitening.noise_quadratics(self.family)

    # --- the rows themselves ---------------------------------------------------------

    def map_blocks(
        self, function: Callable[[Any, Any], Any], n_working: int = 0, *, written: bool = False
    ) -> Iterator[Any]:
        """Yield the results of a function for all blocks, in order.

        Parameters
        ----------
        function : callable
            Takes a `Block` and the weights of its rows, or None. Must not return working memory.
        n_working : int, default=0
            The working memory of the function per row, in numbers, besides the row statistics.
        written : bool, default=False
            Whether the function needs the statistics of each row: a `StatsBlock`.
        """
        source, prepare = self._source, self._prepare
        if written and not isinstance(prepare, KeptRowStats):
            complete = replace(self.whitening, available_covariance=None)
            source, prepare = self._whole, RowStats(self.family, complete, is_written=True)
        return source.map_blocks(BlockFunction(function, n_working), prepare, self.threads)

    def row_responsibilities(self, parameters: WhitenedParameters) -> tuple[Any, Any]:
        """Return responsibilities, shape (n_components, n_rows), and log-densities, shape (n_rows,).

        Parameters and log-densities are those of one mixture, in whitened coordinates. Beside a noise
        component, the responsibilities of a row add up to one less that of the noise.
        """
        n_components = parameters.n_components
        natural = self.whitening.append_noise_component(self.family.natural(parameters), parameters.weights)
        if self._incomplete is not None:
            return self._incomplete.responsibilities(natural)
        parts = list(self.map_blocks(lambda block, _: block.responsibilities(natural), 2 * len(natural)))
        xp = namespace(parts[0][0])
        responsibilities = xp.concat([part[0][:n_components, ...] for part in parts], axis=1)
        return responsibilities, xp.concat([part[1] for part in parts])

    def row_logits(self, natural: Array, rows: slice) -> Array:
        """Return the logarithms of weighted densities at some rows, shape (len(natural), n)."""
        if self._incomplete is not None:
            return self._incomplete.logits(natural)[:, rows]
        if self._kept_rows is not None:
            identity = RowMap.identity(self.n_features)
            return CompiledBlock(self._kept_rows.values[rows], self.family, identity).logits(natural)
        if self._kept_stats is not None:
            return natural @ self.row_stats()[:, rows]
        # Block by block: all row statistics together would take too much memory.
        parts = list(self.map_blocks(lambda block, _: block.logits(natural).copy(), 2 * len(natural)))
        return np.concatenate(parts, axis=1)[:, rows]

    def row_stats(self) -> Array:
        """Return the statistics of all rows, shape (n_stats, n_rows)."""
        if self._kept_stats is not None:
            return to_numpy(self._kept_stats.values.T)
        parts = self.map_blocks(lambda block, _: to_numpy(block.row_stats).copy(), written=True)
        return np.concatenate(list(parts), axis=1)

    @property
    def kept_columns(self) -> Array | None:
        """The whitened rows, shape (n_features, n_rows), if they are stored for the extension."""
        return None if self._kept_rows is None else self._kept_rows.values.T

    def whitened_rows(self) -> Array:
        """Return the rows in whitened coordinates, shape (n_features, n_rows)."""
        if self._kept_rows is not None:
            return self._kept_rows.values.T
        if self._kept_stats is not None:
            return to_numpy(self._kept_stats.values.T[1 : 1 + self.n_features, ...])
        parts = []
        for block, _ in self._read():
            parts.append(np.empty((self.n_features, block.shape[0])))
            self.whitening.write(to_numpy(block) if is_device_array(block) else block, parts[-1])
        return np.concatenate(parts, axis=1)

    def _read(self) -> Iterator[tuple[Any, Any]]:
        """Yield chunks of the rows as they are stored, and their weights or None."""
        return self._whole.read(max(MIN_ROWS, CHUNK_SIZE // self.n_features))

    @functools.cached_property
    def standardised(self) -> Array:
        """The rows, shape (n_rows, n_features), centred, each column divided by its deviation.

        For spherical families all columns are divided by one number. For full covariances rows are not
        whitened, which would shrink the directions in which clusters are far apart.
        """
        if self.whitening.matrix.ndim < 2:
            return np.ascontiguousarray(self.whitened_rows().T)
        blocks = [dense(block) - self.whitening.centre for block, _ in self._read()]
        return np.concatenate(blocks) / self.whitening.deviations

    def row_weights(self) -> Array | None:
        """Return the weights of all rows, or None if they are all one."""
        kept = self._kept_rows or self._kept_stats
        if kept is not None:
            return None if kept.weights is None else to_numpy(kept.weights)
        parts = [weights for _, weights in self._read()]
        if parts[0] is None:
            return None
        return np.concatenate([np.asarray(to_numpy(part), np.float64) for part in parts])

    def _with_rows(self, rows: Rows, n_rows: int, weight: float) -> Self:
        """Return other rows in the same coordinates."""
        whitening = replace(self.whitening, n_rows=n_rows, weight=weight)
        return type(self)(rows, self.family, whitening, self.threads)
