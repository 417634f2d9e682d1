"""Rows in whitened coordinates, with the sums over them that EM needs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import MIN_WEIGHT
from apolar._core.namespaces import is_device_array, namespace, to_numpy
from apolar.data import Rows
from apolar.em.blocks import Block, squares_about
from apolar.em.completion import Completion, as_float64_rows
from apolar.em.coordinates import LocalCoordinates
from apolar.em.kernels.compiled import CompiledBlock
from apolar.em.missing import IncompleteBlock, incomplete_block
from apolar.em.row_blocks import CHUNK_SIZE, MIN_ROWS, RowBlocks, is_compiled
from apolar.em.row_samples import RowSamples, dense
from apolar.em.row_scale import RowScale, scale_of, whitening_of
from apolar.em.whitening import Whitening, add_measurement
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior

# Rows of at most this many numbers (16 MB) are stored in whitened coordinates for the extension.
KEPT_NUMBERS = 2**21


class Problem(RowSamples):
    """Rows in the whitened coordinates of a covariance family, ready for EM.

    Where values are missing, E-steps and responsibilities are those of what is observed, and all that needs
    complete rows is asked of `imputed()`.

    Parameters
    ----------
    rows : Rows
        Rows that can be read more than once.
    family : Family
    whitening : Whitening, optional
        By default that of the rows, which are checked and read once for it.
    threads : int, default=1
    measurement : float, default=0.0
        The variance of the measurement error of each row, if `whitening` is not given.

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
        measurement: float = 0.0,
    ) -> None:
        self.far_rows = np.zeros(0, dtype=np.intp)
        self.scale: RowScale | None = None
        if whitening is None:
            self.scale = scale_of(rows, family, threads)
            self.far_rows = self.scale.far_rows
            rows = rows.on_host() if self.scale.is_incomplete else rows
            whitening = whitening_of(rows, family, measurement, scale=self.scale)
        self.rows = rows
        self.whitening, self.family = whitening, family.in_coordinates(whitening.inverse)
        self.n_features = rows.n_features
        self.n_stats = family.n_stats(rows.n_features)
        # Also for rows on a device, which runs in parallel by itself: samples of them come to the host.
        self.threads = threads
        self._imputed: Problem | None = None
        # How blocks are made of the rows in each pass, if none is kept.
        self._blocks = RowBlocks(self.family, whitening, threads)
        self._kept = self._block_to_keep()
        if self._kept is None and self.is_wide and family.is_spherical and rows.in_memory:
            # Squared lengths are stored: they take only 8 bytes per row.
            squares = squares_about(rows.take(slice(None))[0], whitening)
            self._blocks = replace(self._blocks, squares=squares)

    def _block_to_keep(self) -> CompiledBlock | IncompleteBlock | None:
        """Return all rows as one block, if it is small; with missing values, if the rows are in memory."""
        rows, family, whitening = self.rows, self.family, self.whitening
        if self.is_incomplete:
            if not (rows.in_memory and rows.can_take):
                return None
            values, weights = rows.take(slice(None))
            return incomplete_block(as_float64_rows(values), weights, family, whitening, self.threads)
        # The extension computes the statistics of rows faster than it would read them.
        if not is_compiled(rows, family) or rows.is_distributed or not rows.can_take or rows.n_rows is None:
            return None
        if rows.n_rows * self.n_features > KEPT_NUMBERS:
            return None
        values, weights = rows.take(slice(None))
        whitened = np.empty((self.n_features, values.shape[0]))
        whitening.write(values, whitened)
        return CompiledBlock(whitened.T, weights, family, n_threads=self.threads)

    def under(self, family: Family) -> Problem:
        """Return the same rows for another family of the same row statistics: with or without sharing."""
        return self._with(family.in_coordinates(self.whitening.inverse), self.whitening)

    def with_measurement(self, variances: Array | float) -> Problem:
        """Return the same rows with measurement errors of these variances, shape (n_features,)."""
        return self._with(self.family, replace(self.whitening, measurement=variances))

    def _with(self, family: Family, whitening: Whitening) -> Problem:
        """Return the same rows for a family of the same row statistics, or another measurement error."""
        other = copy.copy(self)
        other.family, other.whitening, other._imputed = family, whitening, None
        other._blocks = replace(self._blocks, family=family, whitening=whitening)
        if isinstance(self._kept, IncompleteBlock):
            other._kept = self._kept.with_family(family, whitening)
        return other

    def imputed(self, parameters: WhitenedParameters | None = None) -> Problem:
        """Return the rows with the expected value in place of each missing one; themselves if none is.

        By default, the expected values are those of one Gaussian; else, of a mixture.
        """
        if not self.is_incomplete:
            return self
        if parameters is None and self._imputed is not None:
            return self._imputed
        if parameters is None:
            completion = Completion.by_regression(self.whitening)
        else:
            completion = Completion.by_mixture(self.family, self.whitening, parameters)
        whitening = replace(self.whitening, available_covariance=None)
        imputed = Problem(self.rows.transform(completion), self.family, whitening, self.threads)
        if parameters is None:
            imputed.far_rows, imputed.scale, self._imputed = self.far_rows, self.scale, imputed
        return imputed

    def _require_complete(self) -> None:
        if self.is_incomplete:
            raise ValueError("Values of the rows are missing: this needs those of Problem.imputed().")

    def natural(self, parameters: WhitenedParameters) -> Array:
        """Return the natural parameters of the components, with what measurement errors add to them.

        Those of the noise component, if there is one, are last.
        """
        natural, errors = self.family.natural(parameters), self._measurement_quadratics()
        if errors is not None:
            natural[..., 0] += natural[..., -len(errors) :] @ errors
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
        natural, errors = self.natural(parameters), self._measurement_quadratics()
        n_mixtures, n_components, _ = natural.shape
        if self._kept is not None:
            stats, log_likelihood = self._kept.e_step(natural)
        else:
            stats, log_likelihood = self._reduce(
                lambda block: block.e_step(natural),
                2 * n_mixtures * n_components,
                n_components if n_mixtures == 1 else 0,
            )
        stats = stats.reshape(natural.shape)
        if self.whitening.has_noise_component:
            # The rows of noise are those that the components leave.
            stats = np.ascontiguousarray(stats[..., :-1, :])
        return SufficientStats(add_measurement(stats, errors), self.n_features), log_likelihood

    def nearest_stats(self, means: Array) -> SufficientStats:
        """Return the sufficient statistics of the rows nearest to each mean, in whitened coordinates."""
        self._require_complete()
        # Natural parameters whose logits are minus half the squared distance, up to a term of the row alone.
        nearness = np.zeros((1, len(means), self.n_stats))
        nearness[0, :, 0] = -0.5 * np.einsum("ij,ij->i", means, means)
        nearness[0, :, 1 : 1 + self.n_features] = means
        if self._kept is not None:
            stats, _ = self._kept.e_step(nearness, is_hard=True)
        else:
            stats, _ = self._reduce(lambda block: block.e_step(nearness, is_hard=True), 2 * len(means))
        return self._with_measurement(stats)

    def hard_stats(self, labels: Array, n_components: int) -> SufficientStats:
        """Return the sufficient statistics of the rows of each label; labels are in the order of rows."""
        return self.soft_stats(labels[None] == np.arange(n_components)[:, None])

    def soft_stats(self, responsibilities: Array) -> SufficientStats:
        """Return the sufficient statistics under responsibilities of shape (n_components, n_rows)."""
        self._require_complete()
        position = 0

        def block_stats(block: Block) -> Any:
            nonlocal position
            part = responsibilities[:, position : position + block.n_rows].astype(float)
            position += block.n_rows
            return to_numpy(block.stats(part if block.weights is None else part * to_numpy(block.weights)))

        # In order and by one thread, as each block takes the next part of the responsibilities.
        parts = self.map_blocks(block_stats, n_threads=1)
        return self._with_measurement(sum(parts, np.zeros((len(responsibilities), self.n_stats))))

    def _measurement_quadratics(self) -> Array | None:
        """Return what the measurement error of a row adds to its expected quadratics, or None without."""
        # Where values are missing, their blocks add the errors of those that are not.
        return None if self.is_incomplete else self.whitening.measurement_quadratics(self.family)

    def _with_measurement(self, stats: Array) -> SufficientStats:
        return SufficientStats(add_measurement(stats, self._measurement_quadratics()), self.n_features)

    def _natural_of_rows(self, parameters: WhitenedParameters) -> Array:
        """Return the natural parameters of one mixture for densities at the rows as they are."""
        return self.whitening.append_noise_component(self.family.natural(parameters), parameters.weights)

    def _without_measurement(self) -> Problem:
        """Return the rows for densities at the rows as they are; complete ones need no change."""
        return self.with_measurement(0.0) if self.is_incomplete else self

    def _reduce(self, function: Callable[[Block], Any], n_working: int, n_fused: int = 0) -> list[Any]:
        """Return the sums of a function of blocks, computed where the rows are."""
        blocks = replace(self._blocks, n_working=n_working, n_fused=n_fused)
        return blocks.reduce(self.rows, function, self.threads)

    # --- the rows themselves ---------------------------------------------------------

    def map_blocks(
        self,
        function: Callable[[Any], Any],
        n_working: int = 0,
        *,
        n_threads: int | None = None,
        written: bool = False,
    ) -> Iterator[Any]:
        """Yield the results of a function for all blocks, in order.

        Parameters
        ----------
        function : callable
            Takes a `Block`. Must not return working memory.
        n_working : int, default=0
            The working memory of the function per row, in numbers, besides the row statistics.
        n_threads : int, optional
            By default those of the problem.
        written : bool, default=False
            Whether the function needs the statistics of each row: a `StatsBlock`.
        """
        n_threads = self.threads if n_threads is None else n_threads
        if self._kept is not None and not (written and isinstance(self._kept, CompiledBlock)):
            return iter([function(self._kept)])
        blocks = replace(self._blocks, n_working=n_working, is_written=written)
        return blocks.map(self.rows, function, n_threads)

    def row_responsibilities(self, parameters: WhitenedParameters) -> tuple[Any, Any]:
        """Return responsibilities, shape (n_components, n_rows), and log-densities, shape (n_rows,).

        Parameters and log-densities are those of one mixture, in whitened coordinates. Beside a noise
        component, the responsibilities of a row add up to one less that of the noise.
        """
        n_components, natural = parameters.n_components, self._natural_of_rows(parameters)
        blocks = self._without_measurement().map_blocks(
            lambda block: block.posteriors(natural, "both"), 2 * len(natural)
        )
        responsibilities, densities = zip(*blocks, strict=True)
        xp = namespace(densities[0])
        return xp.concat(responsibilities, axis=1)[:n_components, ...], xp.concat(densities)

    def row_logits(self, natural: Array, rows: slice) -> Array:
        """Return the logarithms of weighted densities at some rows, shape (len(natural), n)."""
        if isinstance(self._kept, CompiledBlock):
            return CompiledBlock(self._kept.values[rows], None, self.family).logits(natural)
        # Block by block: all row statistics together would take too much memory.
        parts = self._without_measurement().map_blocks(
            lambda block: to_numpy(block.posteriors(natural, "logits")), 2 * len(natural)
        )
        return np.concatenate(list(parts), axis=1)[:, rows]

    @property
    def kept_columns(self) -> Array | None:
        """The whitened rows, shape (n_features, n_rows), if they are stored for the extension."""
        return self._kept.values.T if isinstance(self._kept, CompiledBlock) else None

    def whitened_rows(self) -> Array:
        """Return the rows in whitened coordinates, shape (n_features, n_rows)."""
        self._require_complete()
        if isinstance(self._kept, CompiledBlock):
            return self._kept.values.T
        parts = []
        for block, _ in self._read():
            parts.append(np.empty((self.n_features, block.shape[0])))
            self.whitening.write(to_numpy(block) if is_device_array(block) else block, parts[-1])
        return np.concatenate(parts, axis=1)

    def _read(self) -> Iterator[tuple[Any, Any]]:
        """Yield chunks of the rows as they are stored, and their weights or None."""
        return self.rows.read(max(MIN_ROWS, CHUNK_SIZE // self.n_features))

    @functools.cached_property
    def standardised(self) -> Array:
        """The rows, shape (n_rows, n_features), centred, each column divided by its deviation.

        For spherical families all columns are divided by one number. For full covariances rows are not
        whitened, which would shrink the directions in which clusters are far apart.
        """
        self._require_complete()
        if self.whitening.matrix.ndim < 2:
            return np.ascontiguousarray(self.whitened_rows().T)
        blocks = [dense(block) - self.whitening.centre for block, _ in self._read()]
        return np.concatenate(blocks) / self.whitening.deviations

    def row_weights(self) -> Array | None:
        """Return the weights of all rows, or None if they are all one."""
        if self._kept is not None:
            return None if self._kept.weights is None else to_numpy(self._kept.weights)
        parts = [weights for _, weights in self._read()]
        if parts[0] is None:
            return None
        return np.concatenate([np.asarray(to_numpy(part), np.float64) for part in parts])

    def _with_rows(self, rows: Rows, n_rows: int, weight: float) -> Self:
        """Return other rows in the same coordinates."""
        whitening = replace(self.whitening, n_rows=n_rows, weight=weight)
        return type(self)(rows, self.family, whitening, self.threads)
