"""Rows with missing values: exact sums over them, and rows that are completed where starts need whole ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import is_device_array, to_numpy
from apolar.data import BlockFunction, Rows
from apolar.em.e_step import EStep
from apolar.em.kernels.compiled import as_weights
from apolar.em.missing import IncompleteBlock, incomplete_block
from apolar.em.patterns import Patterns
from apolar.em.row_stats import RowStats
from apolar.em.whitening import Whitening
from apolar.mixture.conditioning import NaturalComponents
from apolar.mixture.families import Family
from apolar.mixture.families.base import LEAST_WEIGHT, LOG_2PI
from apolar.mixture.parameters import WhitenedParameters

__all__ = ["Completion", "IncompleteRows", "as_float64_rows", "natural_components"]


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
        if not rows.in_memory or not rows.can_take or rows.is_distributed:
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
        return np.concatenate([part[0] for part in parts], axis=1), np.concatenate([part[1] for part in parts])

    def logits(self, natural: Array) -> Array:
        """Return the logarithms of weighted densities of what is observed, shape (len(natural), n_rows)."""
        exact = self._without_noise()
        if exact.block is not None:
            return np.asarray(exact.block.logits(natural))
        function = BlockFunction(lambda block, _: block.logits(natural).copy(), 2 * len(natural))
        parts = self.rows.map_blocks(function, RowStats(self.family, exact.whitening))
        return np.concatenate(list(parts), axis=1)


def as_float64_rows(values: Any) -> Array:
    """Return dense rows on the host in double precision."""
    return np.asarray(to_numpy(values) if is_device_array(values) else values, np.float64)


def natural_components(weights: Array, means: Array, matrices: Array) -> NaturalComponents:
    """Return the components of one mixture, by their covariances as matrices."""
    precisions, log_dets = np.linalg.inv(matrices), np.linalg.slogdet(matrices)[1]
    linear = np.einsum("kij,kj->ki", precisions, means)
    squares = np.einsum("ki,ki->k", linear, means)
    log_weights = np.log(np.maximum(weights, LEAST_WEIGHT))
    constants = log_weights - 0.5 * (means.shape[1] * LOG_2PI + log_dets + squares)
    return NaturalComponents(constants, linear, precisions)


@dataclass(frozen=True, eq=False)
class Completion:
    """The transform that puts the expected value under a mixture in place of each missing one.

    Attributes
    ----------
    centre, units : ndarray, shape (n_features,)
        Of the columns in which the components are given.
    components : NaturalComponents
        Of one mixture of columns that are centred and divided by their units.
    """

    centre: Array
    units: Array
    components: NaturalComponents

    @classmethod
    def by_regression(cls, whitening: Whitening) -> Completion:
        """Return the completion by the regression on the observed columns, as if rows were one Gaussian."""
        covariance = whitening.available_covariance
        assert covariance is not None
        variances = np.diag(covariance)
        units = np.sqrt(np.where(variances > 0, variances, 1.0))
        correlation = covariance / units / units[:, None]
        # A constant column has no regression.
        np.fill_diagonal(correlation, 1.0)
        precision = np.linalg.inv(correlation)
        components = NaturalComponents(np.zeros(1), np.zeros((1, len(units))), precision[None])
        return cls(whitening.centre, units, components)

    @classmethod
    def by_mixture(
        cls, family: Family, whitening: Whitening, parameters: WhitenedParameters
    ) -> Completion:
        """Return the completion by a mixture in whitened coordinates."""
        in_units = whitening.inverse_transform_parameters(parameters)
        units = np.broadcast_to(whitening.deviations, in_units.n_features)
        matrices = family.matrices(in_units.covariances, *in_units.means.shape) / units / units[:, None]
        means = (in_units.means - whitening.centre) / units
        return cls(whitening.centre, units, natural_components(in_units.weights, means, matrices))

    def __call__(self, values: Any, weights: Any) -> tuple[Any, Any]:
        """Return the completed chunk, and its weights."""
        x = as_float64_rows(values)
        if not np.any(np.isnan(x)):
            return x, weights
        scaled = (x - self.centre) / self.units
        return self.centre + self.units * completed_rows(scaled, self.components), weights


def completed_rows(x: Array, components: NaturalComponents) -> Array:
    """Return rows with the expected value, under a mixture, in place of each that is NaN."""
    out = x.copy()
    for group, given in Patterns(x).conditioned(components):
        if not group.missing.shape[1]:
            continue
        of_row = group.patterns_of_rows()
        logits = group.logits(given.marginal)
        logits -= logits.max(axis=0)
        responsibilities = np.exp(logits)
        responsibilities /= responsibilities.sum(axis=0)
        expected = np.zeros((len(of_row), group.missing.shape[1]))
        for k, shares in enumerate(responsibilities):
            if group.is_large:
                means = np.concatenate(
                    [
                        group.values[group.starts[p] : group.starts[p + 1]] @ given.gains[p, k].T
                        + given.offsets[p, k]
                        for p in range(group.n_patterns)
                    ]
                )
            else:
                means = np.einsum("rmo,ro->rm", given.gains[of_row, k], group.values)
                means += given.offsets[of_row, k]
            expected += shares[:, None] * means
        out[group.positions[:, None], group.missing[of_row]] = expected
    return out
