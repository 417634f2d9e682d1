"""Rows in whitened coordinates, with the sums over them that EM needs, and samples of them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array, IndexArray
from apolar._core.namespaces import to_numpy
from apolar._core.settings import SETTINGS
from apolar.data import Rows
from apolar.em.blocks import (
    Block,
    CompiledBlock,
    as_float64_rows,
    dense_block,
    posteriors,
    squares_about,
)
from apolar.em.completion import Completion
from apolar.em.coordinates import LocalCoordinates
from apolar.em.known import Known, nearest_order
from apolar.em.missing import IncompleteBlock, incomplete_block
from apolar.em.result import Fit
from apolar.em.row_blocks import RowBlocks, is_compiled
from apolar.em.row_samples import RowSamples
from apolar.em.whitening import (
    Whitening,
    check_scale,
    diagonal_covariance,
    refuse_rows_out_of_reach,
    scale_of,
    whitening_of,
)
from apolar.mixture.factors import FactorFamily
from apolar.mixture.families import Family
from apolar.mixture.parameters import NoiseBox, SufficientStats, WhitenedParameters, append_noise
from apolar.mixture.prior import Prior
from apolar.mixture.tails import Tails

# Rows of at most this many numbers (16 MB) are stored in whitened coordinates for the extension.
KEPT_NUMBERS = 2**21
# What stored blocks of the rows are made of.
_STORED = {"rows", "whitening", "threads", "available_covariance", "known"}


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
    measurement : float or ndarray, shape (n_features,), default=0.0
        The variance of the Gaussian measurement error that each row is assumed to have, in the units of the
        data: one for every column, `reg_covar`, or one per column, of its rounding errors. The M-step adds
        it to the variances.
    noise : NoiseBox, optional
        Where the noise component is, in the units of the data, if there is one.
    noise_share : float, default=0.0
        The share of the rows that may be noise, which starts set aside.
    available_covariance : ndarray, shape (n_features, n_features), optional
        The covariance of the rows, in the units of the data, if a whitening is given and values are missing.
    known : Known, optional
        What is known about the rows, which are dense and in memory, and of the parameters.

    Attributes
    ----------
    n_features : int
    n_rows : int
        The number of rows with weight.
    weight : float
        The sum of the weights of the rows.
    scale : RowMoments or None
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
        measurement: float | Array = 0.0,
        noise: NoiseBox | None = None,
        noise_share: float = 0.0,
        available_covariance: Array | None = None,
        known: Known | None = None,
    ) -> None:
        self.scale, self.far_rows = None, np.zeros(0, dtype=np.intp)
        if whitening is None:
            scale, self.far_rows = scale_of(rows, family, threads)
            check_scale(scale, rows.names, float(np.max(measurement)))
            self.n_rows, self.weight, self.scale = scale.n_rows, scale.weight, scale
            whitening = whitening_of(scale, family)
            if scale.counts is not None:
                rows, available_covariance = rows.on_host(), scale.covariance
            refuse_rows_out_of_reach(rows, whitening, self.far_rows)
        else:
            self.n_rows, self.weight = rows.count()
        self.rows, self.family, self.whitening = rows, family, whitening
        # Also for rows on a device, which runs in parallel by itself: samples of them come to the host.
        self.threads = threads
        self.measurement, self.noise, self.noise_share = measurement, noise, noise_share
        self.available_covariance, self.known = available_covariance, known
        self._prepare(None)

    def replace(self, **changes: Any) -> Problem:
        """Return the problem with some of its attributes changed.

        Another family has the same row statistics: it shares more or less. Other rows are counted, unless
        `n_rows` and `weight` are given, and nothing is known about them, unless it is given.
        """
        other, is_stored = copy.copy(self), not changes.keys() & _STORED
        if not is_stored:
            vars(other).pop("standardised", None)
        for name in ("few", "compared", "targets"):
            vars(other).pop(name, None)
        if "family" in changes and self.known is not None and changes["family"] != self.family:
            # Its covariances may have another shape.
            held = replace(self.known.held, covariances=None)
            changes.setdefault("known", replace(self.known, held=held))
        if "rows" in changes:
            changes.setdefault("known", None)
            other.scale, other.far_rows = None, np.zeros(0, dtype=np.intp)
            if "weight" not in changes:
                other.n_rows, other.weight = changes["rows"].count()
        vars(other).update(changes)
        other._prepare(self._kept if is_stored else None)
        return other

    def _prepare(self, kept: Block | None) -> None:
        """Set what follows from the other attributes; rows may be stored already."""
        rows, whitening = self.rows, self.whitening
        self.family = self.family.in_coordinates(whitening.inverse)
        self.n_features = rows.n_features
        self._imputed: Problem | None = None
        # What the measurement error of a row adds to its expected statistics. The log-density is linear in
        # these, so that EM still maximises an objective. Where values are missing, blocks add the errors.
        self._errors: Array | None = None
        covariance = None if self.is_incomplete else self.error_covariance(self.measurement)
        if covariance is not None:
            error = WhitenedParameters(np.ones(1), np.zeros((1, self.n_features)), covariance[None])
            second = self.family.row_family.moments(error).second[0]
            self._errors = np.zeros(self.n_stats)
            self._errors[1 + self.n_features :][: len(second)] = second
        self._kept = self._block_of_all() if kept is None else kept
        if isinstance(self._kept, IncompleteBlock):
            self._kept = self._kept.replace(self.family, self.measurement)
        if self._kept is not None:
            self._kept.known = self.known
        squares = None
        if self.is_wide and self.family.is_spherical and rows.in_memory:
            # Squared lengths are stored: they take only 8 bytes per row.
            squares = squares_about(rows.take(slice(None))[0], whitening)
        # How blocks are made of the rows in each pass, if none is kept.
        known = self.measurement, self.is_incomplete, self.has_noise
        self._blocks = RowBlocks(self.family, whitening, *known, self.threads, squares)

    def _block_of_all(self) -> Block | None:
        """Return all rows as one block to keep, if it is small, or something is known about them.

        With missing values, if the rows are in memory.
        """
        rows, family, whitening = self.rows, self.family, self.whitening
        if self.is_incomplete:
            if not (rows.in_memory and rows.can_take):
                return None
            values, weights = rows.take(slice(None))
            known = family, whitening, self.measurement, self.threads
            return incomplete_block(as_float64_rows(values), weights, *known, has_noise=self.has_noise)
        # The extension computes the statistics of rows faster than it would read them.
        is_kept = is_compiled(rows, family) and rows.can_take and not rows.is_distributed
        if self.known is None and not (is_kept and (rows.n_rows or np.inf) * self.n_features <= KEPT_NUMBERS):
            return None
        values, weights = rows.take(slice(None))
        whitened = np.empty((self.n_features, values.shape[0]))
        whitening.write(values, whitened)
        return dense_block(whitened.T, weights, family, n_threads=self.threads)

    @property
    def n_stats(self) -> int:
        """The number of statistics per row."""
        return self.family.n_stats(self.n_features)

    @property
    def has_noise(self) -> bool:
        """Whether there is a noise component besides the Gaussian ones."""
        return self.noise is not None

    @property
    def is_rounded(self) -> bool:
        """Whether rows are taken to be known up to their rounding errors only."""
        return isinstance(self.measurement, np.ndarray)

    def error_covariance(self, variances: Array | float) -> Array | None:
        """Return the covariance of errors of these variances as one of the family; None if all are zero."""
        return diagonal_covariance(variances, self.whitening.matrix) if np.any(variances) else None

    @property
    def exact(self) -> Problem:
        """The same rows without measurement errors: for densities at the rows as they are."""
        return self.replace(measurement=0.0) if np.any(self.measurement) else self

    def imputed(self, parameters: WhitenedParameters | None = None) -> Problem:
        """Return the rows with the expected value instead of each missing one; themselves if none is.

        By default, the expected values are those of one Gaussian; else, of a mixture.
        """
        if self.available_covariance is None:
            return self
        if parameters is None and self._imputed is not None:
            return self._imputed
        if parameters is None:
            completion = Completion.by_regression(self.whitening.centre, self.available_covariance)
        else:
            completion = Completion.by_mixture(self.family, self.whitening, parameters)
        rows = self.rows.transform(completion)
        known = {"n_rows": self.n_rows, "weight": self.weight, "known": self.known}
        imputed = self.replace(rows=rows, available_covariance=None, **known)
        if parameters is None:
            imputed.far_rows, imputed.scale, self._imputed = self.far_rows, self.scale, imputed
        return imputed

    def prior_for(self, prior: Prior | None) -> Prior | None:
        """Return the prior for rows with these measurement errors: it adds those of rounding, if any."""
        if prior is None or not self.is_rounded:
            return prior
        return prior.with_errors(self.error_covariance(self.measurement))

    def is_narrower(self, parameters: WhitenedParameters, variances: Array) -> bool:
        """Return whether a component varies less, in some direction, than errors of these variances."""
        errors = self.error_covariance(variances)
        if errors is None:
            return False
        return bool(np.max(self.family.relative_variances(errors, parameters.covariances)) > 1)

    def natural(self, parameters: WhitenedParameters) -> Array:
        """Return the natural parameters of the components, with what measurement errors add to them.

        Those of the noise component, if there is one, are last.
        """
        natural = self.family.natural(parameters)
        if self._errors is not None:
            natural[..., 0] += natural @ self._errors
        return append_noise(natural, parameters.weights, self.noise, self.whitening.log_det)

    def m_step(
        self,
        stats: SufficientStats,
        prior: Prior | None,
        near: WhitenedParameters | None = None,
        weight: float | None = None,
    ) -> WhitenedParameters:
        """Return the M-step of the family; with noise, the weights are shares of all rows, of that weight."""
        held = None if self.known is None else self.known.held
        if held is None or not held.is_any:
            parameters = self.family.m_step(stats, prior, near)
        else:
            means = held.of_components(stats.counts.shape[-1]).means
            parameters = held.put_into(self.family.m_step(stats, prior, near, means))
        if not self.has_noise:
            return parameters
        share = stats.counts.sum(axis=-1, keepdims=True) / (self.weight if weight is None else weight)
        return replace(parameters, weights=parameters.weights * share)

    def coordinates(self, parameters: WhitenedParameters) -> LocalCoordinates:
        """Return local coordinates around one mixture."""
        held = None if self.known is None else self.known.held.of_components(parameters.n_components)
        return LocalCoordinates(self.family, parameters, self.weight, self.has_noise, held)

    @functools.cached_property
    def targets(self) -> Array:
        """Where components are known to be: see `Known.targets`."""
        assert self.known is not None
        labels = self.known.labels
        n_components = max(int(labels.max(initial=0)) + 1, self.known.held.n_components)
        stats = self.imputed().soft_stats(labels == np.arange(n_components)[:, None])
        return self.known.targets(stats)

    def with_what_is_known(self, start: Fit) -> Fit:
        """Return a start with the components about which something is known set to what is known."""
        if self.known is None or not self.known.names_components:
            return start
        order = nearest_order(start.parameters.means, self.targets)
        parameters = self.family.reordered(start.parameters, order)
        return start.updated(parameters=self.known.held.put_into(parameters))

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
        natural = self.natural(parameters)
        tails = self.family.tails(parameters, natural)
        if self._kept is not None:
            stats, log_likelihood = self._kept.e_step(natural, tails)
        else:
            n_mixtures, n, _ = natural.shape
            n_fused = n if n_mixtures == 1 else 0
            n_working = (2 if tails is None else 6) * n_mixtures * n
            blocks = replace(self._blocks, n_working=n_working, n_fused=n_fused)
            sums = blocks.reduce(self.rows, lambda block: block.e_step(natural, tails), self.threads)
            stats, log_likelihood = sums
        # The rows of noise are those that the components leave.
        stats = np.reshape(stats, (*natural.shape[:2], -1))[:, : parameters.n_components]
        known = self._with_errors(np.ascontiguousarray(stats[..., : self.n_stats]))
        if tails is None:
            return known, log_likelihood
        # With long tails rows count by their factors. What their number lacks is made up by rows at the mean:
        # so M-steps and gradients at the mixture are those of the likelihood.
        counts, slopes = np.moveaxis(stats[..., self.n_stats :], -1, 0)
        at_means = self.family.at_means(parameters.means, counts - known.counts)
        return SufficientStats(known.array + at_means, self.n_features, slopes), log_likelihood

    def nearest_stats(self, means: Array) -> SufficientStats:
        """Return the sufficient statistics of the rows nearest to each mean, in whitened coordinates."""
        self._require_complete()
        # Natural parameters whose logits are minus half the squared distance, up to a term of the row alone.
        nearness = np.zeros((len(means), self.n_stats))
        nearness[:, 0] = -0.5 * np.einsum("ij,ij->i", means, means)
        nearness[:, 1 : 1 + self.n_features] = means
        parts = self.map_blocks(lambda block: to_numpy(block.nearest_stats(nearness)), 2 * len(means))
        return self._with_errors(sum(parts, np.zeros(nearness.shape)))

    def hard_stats(self, labels: Array, n_components: int) -> SufficientStats:
        """Return the sufficient statistics of the rows of each label; labels are in the order of rows."""
        self._require_complete()
        if self.family.has_factors:
            return self.soft_stats(labels == np.arange(n_components)[:, None])
        position = 0

        def block_stats(block: Any) -> Array:
            nonlocal position
            part = labels[position : position + block.n_rows]
            position += block.n_rows
            weights = np.ones(block.n_rows) if block.weights is None else to_numpy(block.weights)
            known = weights, part, np.arange(block.n_rows + 1)
            belongs = sparse.csc_array(known, shape=(n_components, block.n_rows))
            return np.asarray(belongs @ to_numpy(block.row_stats).T)

        # In order and by one thread, as each block takes the next labels.
        parts = self.map_blocks(block_stats, n_threads=1, written=True)
        return self._with_errors(sum(parts, np.zeros((n_components, self.n_stats))))

    def soft_stats(
        self, responsibilities: Array, parameters: WhitenedParameters | None = None
    ) -> SufficientStats:
        """Return the sufficient statistics under responsibilities of shape (n_components, n_rows).

        The factors of the rows, if there are any, are those under a mixture.
        """
        self._require_complete()
        position = 0
        if parameters is None and isinstance(self.family, FactorFamily):
            parameters = self.family.before_fit(len(responsibilities), self.n_features)
        natural = np.zeros(0) if parameters is None else self.family.natural(parameters)

        def block_stats(block: Block) -> Any:
            nonlocal position
            part = responsibilities[:, position : position + block.n_rows].astype(float)
            position += block.n_rows
            part = part if block.weights is None else part * to_numpy(block.weights)
            return to_numpy(block.weighted_stats(part, part, natural))

        # In order and by one thread, as each block takes the next part of the responsibilities.
        parts = self.map_blocks(block_stats, n_threads=1)
        return self._with_errors(sum(parts, np.zeros((len(responsibilities), self.n_stats))))

    def mixture_of(self, responsibilities: Array, prior: Prior | None) -> WhitenedParameters:
        """Return the mixture of components that hold these shares of the rows, (n_components, n_rows).

        Loadings of factors take some steps from ones at random: each multiplies them by the covariance.
        """
        parameters = self.m_step(self.soft_stats(responsibilities), prior)
        for _ in range(SETTINGS.power_iterations if self.family.has_factors else 0):
            parameters = self.m_step(self.soft_stats(responsibilities, parameters), prior)
        return parameters

    def for_mixture(self, parameters: WhitenedParameters) -> Problem:
        """Return the problem with the number of factors of a mixture, if that is open."""
        kind = self.family.of_stored(parameters.covariances.shape)
        return self if kind is self.family else self.replace(family=kind)

    def _with_errors(self, stats: Array) -> SufficientStats:
        """Return sums of row statistics, with what the measurement error of a row adds to its quadratics."""
        if self._errors is not None:
            stats = stats + stats[..., :1] * self._errors
        return SufficientStats(stats, self.n_features)

    def _require_complete(self) -> None:
        if self.is_incomplete:
            raise ValueError("Values of the rows are missing: this needs those of Problem.imputed().")

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
        if self._kept is not None and not (written and isinstance(self._kept, CompiledBlock)):
            return iter([function(self._kept)])
        blocks = replace(self._blocks, n_working=n_working, is_written=written)
        return blocks.map(self.rows, function, self.threads if n_threads is None else n_threads)

    def row_responsibilities(self, parameters: WhitenedParameters) -> tuple[Array, Array]:
        """Return responsibilities, shape (n_components, n_rows), and log-densities, shape (n_rows,).

        Parameters and log-densities are those of one mixture, in whitened coordinates. With a noise
        component, the responsibilities of a row add up to one minus that of the noise.
        """
        exact = self.exact
        natural = exact.natural(parameters)
        logits = exact.row_logits(natural, slice(None), self.family.tails(parameters, natural))
        responsibilities, densities = posteriors(logits[None])
        return responsibilities[0, : parameters.n_components], densities[0]

    def shares(self, parameters: WhitenedParameters) -> tuple[sparse.csr_array, Array]:
        """Return the responsibilities of a mixture for the rows, without small ones, and log-densities.

        With many components, few share a row.

        Parameters
        ----------
        parameters : WhitenedParameters
            One mixture.

        Returns
        -------
        shares : csr_array, shape (n_components, n_rows)
        densities : ndarray, shape (n_rows,)
            In whitened coordinates.
        """
        exact = self.exact
        natural = exact.natural(parameters)
        tails = self.family.tails(parameters, natural)

        def of_logits(logits: Array) -> tuple[sparse.csr_array, Array]:
            responsibilities, densities = posteriors(logits[None])
            known = responsibilities[0, : parameters.n_components]
            return sparse.csr_array(np.where(known < SETTINGS.owned_share, 0.0, known)), densities[0]

        if isinstance(exact._kept, CompiledBlock):
            step = max(1, SETTINGS.chunk_numbers // len(natural))
            chunks = (slice(start, start + step) for start in range(0, len(exact._kept.values), step))
            parts = [of_logits(exact.row_logits(natural, chunk, tails)) for chunk in chunks]
        else:
            of_block = exact.map_blocks(
                lambda block: of_logits(np.array(to_numpy(block.posteriors(natural, "logits", tails)))),
                4 * len(natural),
            )
            parts = list(of_block)
        shares, densities = zip(*parts, strict=True)
        return sparse.hstack(shares, format="csr"), np.concatenate(densities)

    def row_logits(self, natural: Array, rows: slice | IndexArray, tails: Tails | None = None) -> Array:
        """Return the logarithms of weighted densities at some rows, shape (len(natural), n)."""
        if isinstance(self._kept, CompiledBlock):
            block = CompiledBlock(self._kept.values[rows], None, self.family)
            return np.asarray(block.posteriors(natural, "logits", tails))
        # Block by block: all row statistics together would take too much memory.
        parts = self.exact.map_blocks(
            lambda block: to_numpy(block.posteriors(natural, "logits", tails)), 2 * len(natural)
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
        values, _ = self.fetch()
        whitened = np.empty((self.n_features, values.shape[0]))
        self.whitening.write(values, whitened)
        return whitened

    @functools.cached_property
    def few(self) -> Problem:
        """A sample of the rows on which strengths are compared."""
        return self.compared.distinct_sample(SETTINGS.merge_rows, self.whitening.deviations)

    @functools.cached_property
    def compared(self) -> Problem:
        """The rows, or a sample of them, that are left out of a mixture to compare it with others."""
        return self.subsample(SETTINGS.sample_rows, np.random.default_rng(0))

    @functools.cached_property
    def standardised(self) -> Array:
        """The rows, shape (n_rows, n_features), centred, each column divided by its deviation.

        For spherical families all columns are divided by one number. For full covariances rows are not
        whitened, which would shrink the directions in which clusters are far apart.
        """
        if self.whitening.matrix.ndim < 2:
            return np.ascontiguousarray(self.whitened_rows().T)
        self._require_complete()
        return (self.fetch()[0] - self.whitening.centre) / self.whitening.deviations

    def row_weights(self) -> Array | None:
        """Return the weights of all rows, or None if they are all one."""
        return self.fetch()[1] if self._kept is None else self._kept.weights
