"""Blocks of rows with missing values: the E-step on what is observed, completed by what follows from it.

For each pattern of observed columns, the E-step of the marginal mixture gives the statistics of these columns
under the responsibilities. Those of the missing columns follow from them, per component, by the regression on
the observed ones [ghahramani1994]. So the statistics are those that every M-step takes, and they are the
gradient of the likelihood of what is observed. Where columns are independent in each component, no patterns
are needed: whether a value is missing is a further column.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.compiled import RowMap
from apolar.data import thread_scratch
from apolar.data.checks import checked_block, checked_weights
from apolar.em.blocks import Block, StatsBlock
from apolar.em.kernels.compiled import CompiledBlock, has_kernel
from apolar.em.patterns import Patterns
from apolar.em.small_patterns import SmallPatterns
from apolar.em.whitening import Whitening
from apolar.mixture.conditioning import NaturalComponents, triangle
from apolar.mixture.families import Family
from apolar.mixture.families.base import LOG_2PI
from apolar.mixture.families.diagonal import Diagonal

__all__ = ["IncompleteBlock", "IncompleteBlocks", "incomplete_block"]

ALIGNED = Diagonal()


@dataclass(frozen=True, eq=False)
class IncompleteBlocks:
    """The transform of chunks of rows to blocks of rows with missing values.

    Attributes
    ----------
    family : Family
    whitening : Whitening
    chunk_rows : int
    is_checked : bool
    """

    family: Family
    whitening: Whitening
    chunk_rows: int
    is_checked: bool

    def __call__(self, values: Any, weights: Any, first_row: int) -> tuple[Any, Any]:
        """Return a block and its weights."""
        n_features = len(self.whitening.centre)
        checked = checked_block(values, n_features, first_row, finite=self.is_checked, allows_missing=True)
        weights = checked_weights(weights, checked, first_row)
        if not self.is_checked:
            checked = self.whitening.within_reach(checked)
        return incomplete_block(checked, self.family, self.whitening), weights


def incomplete_block(
    values: Array, family: Family, whitening: Whitening, n_threads: int = 1
) -> IncompleteBlock:
    """Return the block of dense rows of the host, NaN where a value is missing, in the units of the data."""
    kind = AlignedBlock if family.is_axis_aligned else PatternBlock
    return kind(values, family, whitening, n_threads)


class IncompleteBlock(Block):
    """Rows with missing values, in columns that are centred and divided by their deviations.

    Whitened coordinates may mix columns: then natural parameters are transformed first, and statistics after
    the E-step. The log-density of a row is such that adding `log_det` of the whitening gives that of the
    observed values in their units.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_features)
        In the units of the data.
    family : Family
    whitening : Whitening
    n_threads : int, default=1
    """

    def __init__(self, values: Array, family: Family, whitening: Whitening, n_threads: int = 1) -> None:
        self.family, self.whitening, self.n_threads = family, whitening, n_threads
        self.scratch, self.n_features = thread_scratch(), values.shape[1]
        self.units = np.broadcast_to(whitening.deviations, self.n_features)
        self._n_rows = len(values)
        self._arrange((values - whitening.centre) / self.units)

    @abstractmethod
    def _arrange(self, x: Array) -> None:
        """Store centred and divided rows as the sums need them."""

    @property
    def noise(self) -> Array:
        """The variance of the noise of each column, in its unit."""
        return np.asarray(self.whitening.noise / self.units**2)

    def with_family(self, family: Family, whitening: Whitening) -> IncompleteBlock:
        """Return the same rows for a family of the same row statistics, or for other noise."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), family=family, whitening=whitening)
        return other

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._n_rows

    def stats(self, responsibilities: Any) -> Any:
        """Refuse: how missing values are completed depends on the mixture."""
        raise NotImplementedError("Rows with missing values have statistics only under a mixture.")

    def to_device(self, values: Array) -> Array:
        """Return the array: the block is on the host."""
        return values


class AlignedBlock(IncompleteBlock):
    """Rows with missing values for components whose columns are independent.

    Missing values are zero in the rows that are stored, and columns are added that are one where a value is
    missing: logits and sums are linear in these.
    """

    def _arrange(self, x: Array) -> None:
        missing = np.isnan(x)
        self.incomplete = np.flatnonzero(missing.any(axis=0))
        values = np.concatenate([np.where(missing, 0.0, x), missing[:, self.incomplete]], axis=1)
        n_columns = values.shape[1]
        if has_kernel(ALIGNED, n_columns):
            self.inner: Block = CompiledBlock(values, ALIGNED, RowMap.identity(n_columns), self.n_threads)
            return
        row_stats = np.empty((1 + 2 * n_columns, self.n_rows))
        row_stats[0], row_stats[1 : 1 + n_columns] = 1.0, values.T
        np.multiply(values.T, values.T, out=row_stats[1 + n_columns :])
        self.inner = StatsBlock(row_stats, self.scratch)

    def _parts(self, natural: Array) -> tuple[Array, Array]:
        """Return the natural parameters of each column, (..., n_features): linear ones, and quadratics."""
        m = self.n_features
        linear, quadratics = natural[..., 1 : 1 + m], natural[..., 1 + m :]
        return linear, np.broadcast_to(quadratics, linear.shape)

    def _expanded(self, natural: Array) -> Array:
        """Return the natural parameters of the stored columns."""
        linear, quadratics = self._parts(natural)
        # The part of a column in the logit, but for what is linear in the statistics of its value.
        precisions = -2 * quadratics
        constants = 0.5 * (np.log(precisions) - LOG_2PI - linear**2 / precisions)
        if np.any(self.noise):
            constants = constants + quadratics * self.noise
        of_all = natural[..., :1]
        if np.any(self.noise):
            of_all = of_all + (quadratics * self.noise).sum(axis=-1, keepdims=True)
        of_missing = (np.log(self.units) - constants)[..., self.incomplete]
        return np.concatenate([of_all, linear, of_missing, quadratics, np.zeros_like(of_missing)], axis=-1)

    def e_step(self, natural: Array, weights: Any) -> tuple[Array, Array]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods."""
        m, columns = self.n_features, self.incomplete
        stored, log_likelihood = self.inner.e_step(self._expanded(natural), weights)
        flat = natural.reshape(-1, natural.shape[-1])
        linear, quadratics = self._parts(flat)
        variances = -0.5 / quadratics
        means = linear * variances
        n_stored = m + len(columns)
        counts, first = stored[:, :1], stored[:, 1 : 1 + m].copy()
        second = stored[:, 1 + n_stored : 1 + n_stored + m] + counts * self.noise
        of_missing = stored[:, 1 + m : 1 + n_stored]
        first[:, columns] += of_missing * means[:, columns]
        expected = means**2 + variances - self.noise
        second[:, columns] += of_missing * expected[:, columns]
        if self.family.is_spherical:
            second = second.sum(axis=1, keepdims=True)
        return np.concatenate([counts, first, second], axis=1), log_likelihood

    def logits(self, natural: Array) -> Array:
        """Return the logarithms of weighted densities of what is observed."""
        return np.asarray(self.inner.logits(self._expanded(natural)))

    def labels(self, natural: Array) -> Array:
        """Return the most probable component of each row."""
        return np.asarray(self.inner.labels(self._expanded(natural)))

    def probabilities(self, natural: Array) -> Array:
        """Return the responsibilities, shape (n_rows, n_components)."""
        return np.asarray(self.inner.probabilities(self._expanded(natural)))

    def responsibilities(self, natural: Array) -> tuple[Array, Array]:
        """Return responsibilities, shape (n_components, n_rows), and log-densities."""
        return self.inner.responsibilities(self._expanded(natural))

    def density_sums(self, natural: Array, weights: Any) -> tuple[Any, Any, Any]:
        """Return the sums of log-densities, logarithms of the largest responsibilities, and weights."""
        return self.inner.density_sums(self._expanded(natural), weights)


class PatternBlock(IncompleteBlock):
    """Rows with missing values for components of full covariances, sorted by their patterns."""

    def _arrange(self, x: Array) -> None:
        self.patterns = Patterns(x)

    @property
    def _mixing(self) -> Array | None:
        """The matrix T with whitened coordinates x T; None if these are the columns themselves."""
        matrix = self.whitening.matrix
        return self.units[:, None] * matrix if matrix.ndim == 2 else None

    def _components(self, natural: Array) -> NaturalComponents:
        """Return the components, from natural parameters of shape (n, n_stats), in columns by their units."""
        components, mixing = NaturalComponents.of(natural, self.n_features), self._mixing
        return components if mixing is None else components.transformed(mixing)

    def _marginal(self, group: Any, given: Any) -> NaturalComponents:
        """Return the marginals of patterns, with the units of missing columns and the noise of the others."""
        marginal = given.marginal
        constants = marginal.constants + np.log(self.units)[group.missing].sum(axis=1)[:, None]
        if np.any(self.noise):
            precisions = np.diagonal(marginal.precisions, axis1=-2, axis2=-1)
            constants = constants - 0.5 * np.einsum("pko,po->pk", precisions, self.noise[group.observed])
        return NaturalComponents(constants, marginal.linear, marginal.precisions)

    def _small_parts(self, n_components: int) -> Iterator[SmallPatterns]:
        """Yield the rows of patterns of few rows, in parts."""
        small = self.patterns.small
        return iter(()) if small is None else small.parts(n_components)

    def e_step(self, natural: Array, weights: Any) -> tuple[Array, Array]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods."""
        n_mixtures, n_components, n_stats = natural.shape
        n, m = n_mixtures * n_components, self.n_features
        components = self._components(natural.reshape(n, n_stats))
        counts, log_likelihood = np.zeros(n), np.zeros(n_mixtures)
        first, second = np.zeros((n, m)), np.zeros((n, m, m))
        for small in self._small_parts(n):
            part = None if weights is None else weights[small.positions]
            given_few = small.given(components, np.log(self.units), self.noise)
            sums = small.sums(components, given_few, n_mixtures, part)
            counts += sums.counts
            first += sums.first
            second += sums.second
            log_likelihood += sums.log_likelihood
        for group, given in self.patterns.conditioned(components, only_large=True):
            part = None if weights is None else weights[group.positions]
            marginal = self._marginal(group, given)
            w, s, q, likelihood = group.sums(marginal, n_mixtures, part, self.n_threads)
            if np.any(self.noise):
                diagonal = np.arange(q.shape[-1])
                q[..., diagonal, diagonal] += w[..., None] * self.noise[group.observed][:, None]
            all_first, all_second = given.completed(w, s, q)
            # Back to the order of the columns.
            places = np.argsort(np.concatenate([group.observed, group.missing], axis=1), axis=1)
            patterns = np.arange(group.n_patterns)[:, None]
            counts += w.sum(axis=0)
            first += all_first[patterns, :, places].sum(axis=0).T
            across, down = places[:, None, :], places[:, :, None]
            second += np.moveaxis(all_second[patterns[..., None], :, down, across].sum(axis=0), -1, 0)
            log_likelihood += likelihood
        if self._mixing is not None:
            first = first @ self._mixing
            second = self._mixing.T @ second @ self._mixing
        stats = np.concatenate([counts[:, None], first, triangle(second)], axis=1)
        return stats, log_likelihood

    def logits(self, natural: Array) -> Array:
        """Return the logarithms of weighted densities of what is observed."""
        logits, components = np.empty((len(natural), self.n_rows)), self._components(natural)
        for small in self._small_parts(len(natural)):
            given_few = small.given(components, np.log(self.units), self.noise)
            logits[:, small.positions] = small.logits(components, given_few)[0]
        for group, given in self.patterns.conditioned(components, only_large=True):
            logits[:, group.positions] = group.logits(self._marginal(group, given))
        return logits
