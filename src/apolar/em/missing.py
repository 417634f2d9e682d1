"""Blocks of rows with missing values: the E-step on what is observed, completed by what follows from it.

For each pattern of observed columns, the E-step of the marginal mixture gives the statistics of these columns
under the responsibilities. Those of the missing columns follow from them, per component, by the regression on
the observed ones [ghahramani1994]. So the statistics are those that every M-step takes, and they are the
gradient of the likelihood of what is observed. Where columns are independent in each component, no patterns
are needed: whether a value is missing is a further column.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.threads import run_in_threads
from apolar.em.blocks import Block, dense_block, posteriors
from apolar.em.whitening import Whitening
from apolar.mixture.conditional import FULL, ConditionalComponents, NaturalComponents
from apolar.mixture.families import FAMILIES, Family
from apolar.mixture.storage import LOG_2PI, square, triangle
from apolar.mixture.tails import Tails

__all__ = ["NOISE_AND_MISSING", "IncompleteBlock", "PatternRows", "incomplete_block"]

NOISE_AND_MISSING = (
    "A noise component needs complete rows, and values are missing (NaN). Fit without noise, leave "
    "those rows out, or fill them in first (MixtureImputer)."
)
FACTORS_AND_MISSING = (
    "Covariances of few factors need complete rows, and values are missing (NaN). Use 'diag' covariances, "
    "leave those rows out, or fill them in first (MixtureImputer)."
)
ALIGNED = FAMILIES["diag"]
# Patterns of at least this many rows are summed one by one; of fewer rows, many patterns together.
MANY_ROWS = 12
# The numbers of an array over patterns, components, and pairs of columns: 1 MB stays in the cache.
MAX_NUMBERS = 2**17


@dataclass(frozen=True, eq=False)
class PatternRows:
    """Rows in the order of their patterns of missing columns.

    Attributes
    ----------
    missing : ndarray of bool, shape (n_patterns, n_features)
    starts : ndarray of int, shape (n_patterns + 1,)
        The first row of each pattern, and the number of rows.
    values : ndarray, shape (n_rows, n_features)
        Zero where a value is missing.
    positions : ndarray of int, shape (n_rows,)
        Which of all rows these are.
    n_large : int
        The number of patterns of many rows, which are the first.
    """

    missing: Array
    starts: IndexArray
    values: Array
    positions: IndexArray
    n_large: int

    @classmethod
    def of(cls, x: Array) -> PatternRows:
        """Return rows, shape (n_rows, n_features), NaN where a value is missing."""
        missing = np.isnan(x)
        patterns = np.zeros(len(x), dtype=np.int64)
        for first in range(0, x.shape[1], 32):
            part = missing[:, first : first + 32]
            codes = (patterns << 32) | (part @ (1 << np.arange(part.shape[1], dtype=np.int64)))
            _, patterns, counts = np.unique(codes, return_inverse=True, return_counts=True)
        is_large = counts >= MANY_ROWS
        order = np.lexsort((patterns, ~is_large[patterns]))
        starts = np.concatenate([[0], np.cumsum(np.concatenate([counts[is_large], counts[~is_large]]))])
        values = np.where(missing, 0.0, x)[order]
        return cls(missing[order[starts[:-1]]], starts, values, order, int(np.count_nonzero(is_large)))

    def parts(self, n_components: int) -> Iterator[PatternRows]:
        """Yield parts of the patterns, few enough for arrays of their components, all large or all small."""
        n_patterns, n_features = self.missing.shape
        size = max(1, MAX_NUMBERS // (n_components * n_features**2))
        for begin, end in ((0, self.n_large), (self.n_large, n_patterns)):
            for first in range(begin, end, size):
                last = min(first + size, end)
                rows = slice(self.starts[first], self.starts[last])
                yield PatternRows(
                    self.missing[first:last],
                    self.starts[first : last + 1] - rows.start,
                    self.values[rows],
                    self.positions[rows],
                    last - first if end == self.n_large else 0,
                )

    def by_row(self, of_patterns: Array) -> Array:
        """Return what belongs to the pattern of each row."""
        return np.repeat(of_patterns, np.diff(self.starts), axis=0)

    def _slices(self) -> Iterator[slice]:
        return map(slice, self.starts[:-1], self.starts[1:])

    def expectations(self, given: ConditionalComponents) -> Array:
        """Return the expected rows under each component, shape (n, n_rows, n_features)."""
        if not self.n_large:
            expected = np.einsum("rkij,rj->kri", self.by_row(given.gains), self.values)
            return expected + np.moveaxis(self.by_row(given.offsets), 1, 0)
        parts = zip(self._slices(), given.gains, given.offsets, strict=True)
        each = [self.values[rows] @ np.swapaxes(g, -1, -2) + o[:, None] for rows, g, o in parts]
        return np.concatenate(each, axis=1)

    def logits(self, marginal: NaturalComponents) -> Array:
        """Return the logits of the marginals of each pattern at its rows, shape (n, n_rows)."""
        if self.n_large:
            parts = zip(self._slices(), marginal.natural(), strict=True)
            each = [
                dense_block(self.values[rows], None, FULL).logits(natural).copy() for rows, natural in parts
            ]
            return np.concatenate(each, axis=1)
        images = np.einsum("rkij,rj->rki", self.by_row(marginal.precisions), self.values)
        slopes = self.by_row(marginal.linear) - 0.5 * images
        logits = self.by_row(marginal.constants) + np.einsum("rki,ri->rk", slopes, self.values)
        return np.ascontiguousarray(logits.T)

    def sums(
        self, given: ConditionalComponents, n_mixtures: int, weights: Array | None, n_threads: int
    ) -> tuple[Array, Array, Array, Array]:
        """Return the sums of an E-step over the components of several mixtures.

        Returns
        -------
        counts : ndarray, shape (n,)
        first : ndarray, shape (n, n_features)
        second : ndarray, shape (n, n_features, n_features)
        log_likelihood : ndarray, shape (n_mixtures,)
        """
        if self.n_large:
            stats, log_likelihood = self._marginal_sums(given.marginal, n_mixtures, weights, n_threads)
            m = self.values.shape[1]
            second = square(stats[..., 1 + m :])
            first, second = given.completed(stats[..., 0], stats[..., 1 : 1 + m], second)
            return stats[..., 0].sum(axis=0), first.sum(axis=0), second.sum(axis=0), log_likelihood
        logits = self.logits(given.marginal).reshape(n_mixtures, -1, len(self.values))
        responsibilities, densities = posteriors(logits)
        if weights is not None:
            responsibilities *= weights
            densities *= weights
        responsibilities = responsibilities.reshape(-1, len(self.values))
        first, second = self.weighted_sums(given, responsibilities, responsibilities)
        return responsibilities.sum(axis=1), first, second, densities.sum(axis=1)

    def weighted_sums(
        self, given: ConditionalComponents, factors: Array, responsibilities: Array
    ) -> tuple[Array, Array]:
        """Return the sums of expected rows and their products by factors.

        The covariances of missing values count by the responsibilities.
        """
        expected = self.expectations(given)
        weighted = factors[..., None] * expected
        counts = np.add.reduceat(responsibilities, self.starts[:-1], axis=1)
        second = np.swapaxes(weighted, 1, 2) @ expected + np.einsum("kp,pkij->kij", counts, given.covariances)
        return weighted.sum(axis=1), second

    def _marginal_sums(
        self, marginal: NaturalComponents, n_mixtures: int, weights: Array | None, n_threads: int
    ) -> tuple[Array, Array]:
        """Return the sums over the many rows of each pattern, (n_patterns, n, n_stats), and likelihoods."""
        natural, slices = marginal.natural(), list(self._slices())
        by_mixture = natural.reshape(len(natural), n_mixtures, -1, natural.shape[-1])
        stats, likelihoods = np.empty_like(natural), np.empty((len(natural), n_mixtures))
        left = deque(range(len(natural)))

        def sum_patterns() -> None:
            while left:
                try:
                    p = left.popleft()
                except IndexError:  # another thread took the last one
                    return
                part = None if weights is None else weights[slices[p]]
                block = dense_block(self.values[slices[p]], part, FULL, n_threads=n_threads)
                stats[p], likelihoods[p] = block.e_step(by_mixture[p])

        # Threads share the patterns, and the rows of a pattern of very many.
        run_in_threads(sum_patterns, min(n_threads, len(natural)))
        return stats, likelihoods.sum(axis=0)


def incomplete_block(
    values: Array,
    weights: Any,
    family: Family,
    whitening: Whitening,
    measurement: float | Array = 0.0,
    n_threads: int = 1,
    *,
    has_noise: bool = False,
) -> IncompleteBlock:
    """Return the block of dense rows of the host, NaN where a value is missing, in the units of the data.

    Refuse them next to noise, and where covariances are those of few factors.
    """
    if has_noise or family.has_factors:
        raise ValueError(NOISE_AND_MISSING if has_noise else FACTORS_AND_MISSING)
    kind = AlignedBlock if family.is_axis_aligned else PatternBlock
    return kind(values, weights, family, whitening, measurement, n_threads)


class IncompleteBlock(Block):
    """Rows with missing values, in columns that are centred and divided by their deviations.

    Whitened coordinates may mix columns: then natural parameters are transformed first, and statistics after
    the E-step. The log-density of a row is such that adding `log_det` of the whitening gives that of the
    observed values in their units.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_features)
        In the units of the data.
    weights : ndarray, shape (n_rows,), or None
    family : Family
    whitening : Whitening
    measurement : float or ndarray, shape (n_features,)
        The variance of the measurement error of each row.
    n_threads : int
    """

    def __init__(
        self,
        values: Array,
        weights: Any,
        family: Family,
        whitening: Whitening,
        measurement: float | Array,
        n_threads: int,
    ) -> None:
        super().__init__(len(values), weights)
        self.family, self.whitening, self.n_threads = family, whitening, n_threads
        self.measurement = measurement
        self.n_features = values.shape[1]
        self.units = np.broadcast_to(whitening.deviations, self.n_features)
        self._arrange((values - whitening.centre) / self.units)

    @abstractmethod
    def _arrange(self, x: Array) -> None:
        """Store centred and divided rows as the sums need them."""

    @property
    def errors(self) -> Array:
        """The variance of the measurement error of each column, in its unit."""
        return np.asarray(self.measurement / self.units**2)

    def replace(self, family: Family, measurement: float | Array) -> Self:
        """Return the same rows for a family of the same row statistics, and a measurement error."""
        other = copy.copy(self)
        other.family, other.measurement = family, measurement
        return other

    def stats(self, responsibilities: Any) -> Any:
        """Refuse: how missing values are completed depends on the mixture."""
        raise NotImplementedError("Rows with missing values have statistics only under a mixture.")


class AlignedBlock(IncompleteBlock):
    """Rows with missing values for components whose columns are independent.

    Missing values are zero in the rows that are stored, and columns are added that are one where a value is
    missing: logits and sums are linear in these.
    """

    def _arrange(self, x: Array) -> None:
        missing = np.isnan(x)
        self.incomplete = np.flatnonzero(missing.any(axis=0))
        self.missing = missing[:, self.incomplete].astype(float)
        values = np.concatenate([np.where(missing, 0.0, x), self.missing], axis=1)
        self.inner = dense_block(values, self.weights, ALIGNED, n_threads=self.n_threads)

    def _parts(self, natural: Array) -> tuple[Array, Array]:
        """Return the natural parameters of each column, (..., n_features): linear ones, and quadratics."""
        m = self.n_features
        linear, quadratics = natural[..., 1 : 1 + m], natural[..., 1 + m :]
        return linear, np.broadcast_to(quadratics, linear.shape)

    def _expand(self, natural: Array) -> Array:
        """Return the natural parameters of the stored columns."""
        linear, quadratics = self._parts(natural)
        # The part of a column in the logit, except what is linear in the statistics of its value.
        precisions = -2 * quadratics
        of_errors = quadratics * self.errors
        constants = 0.5 * (np.log(precisions) - LOG_2PI - linear * (linear / precisions)) + of_errors
        of_all = natural[..., :1] + of_errors.sum(axis=-1, keepdims=True)
        of_missing = (np.log(self.units) - constants)[..., self.incomplete]
        return np.concatenate([of_all, linear, of_missing, quadratics, np.zeros_like(of_missing)], axis=-1)

    def e_step(self, natural: Array, tails: Tails | None = None) -> tuple[Array, Array]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods."""
        if tails is not None or self.known is not None:
            return super().e_step(natural, tails)
        stored, log_likelihood = self.inner.e_step(self._expand(natural))
        places = slice(1 + self.n_features, 1 + self.n_features + len(self.incomplete))
        return self._completed(stored, stored[:, places], natural), log_likelihood

    def weighted_stats(self, weighted: Array, responsibilities: Array, natural: Array) -> Array:
        """Return the row statistics summed under responsibilities times factors."""
        stored = self.inner.stats(weighted)
        return self._completed(stored, responsibilities @ self.missing, natural)

    def _completed(self, stored: Array, n_missing: Array, natural: Array) -> Array:
        """Return the statistics of whole rows, from those of the stored columns.

        Parameters
        ----------
        stored : ndarray, shape (n_components, n)
        n_missing : ndarray, shape (n_components, n_incomplete)
            How many values of each incomplete column are missing.
        natural : ndarray, shape (..., n_stats)
            Of the components.
        """
        m, columns = self.n_features, self.incomplete
        linear, quadratics = self._parts(natural.reshape(-1, natural.shape[-1]))
        variances = -0.5 / quadratics
        means = linear * variances
        n_stored = m + len(columns)
        counts, first = stored[:, :1], stored[:, 1 : 1 + m].copy()
        second = stored[:, 1 + n_stored : 1 + n_stored + m] + counts * self.errors
        of_missing = stored[:, 1 + m : 1 + n_stored]
        first[:, columns] += of_missing * means[:, columns]
        second[:, columns] += of_missing * (means**2 - self.errors)[:, columns]
        second[:, columns] += n_missing * variances[:, columns]
        if self.family.is_spherical:
            second = second.sum(axis=1, keepdims=True)
        return np.concatenate([counts, first, second], axis=1)

    def logits(self, natural: Array) -> Array:
        """Return the logarithms of weighted densities of what is observed."""
        return np.asarray(self.inner.logits(self._expand(natural)))

    def peaks(self, natural: Array, peaks: Array) -> tuple[Array, Array]:
        """Return the largest logits of rows with the same missing values, and how many are observed."""
        linear, quadratics = self._parts(natural)
        each = -0.25 * linear * (linear / quadratics)
        columns = slice(1 + self.n_features, 1 + self.n_features + len(self.incomplete))
        of_missing = self._expand(natural)[:, columns]
        peaks = peaks[:, None] + (of_missing - each[:, self.incomplete]) @ self.missing.T
        return peaks, self.n_features - self.missing.sum(axis=1)

    def posteriors(self, natural: Array, what: str, tails: Tails | None = None) -> Any:
        """Return what one mixture says about each row."""
        if tails is not None:
            return super().posteriors(natural, what, tails)
        return self.inner.posteriors(self._expand(natural), what)


class PatternBlock(IncompleteBlock):
    """Rows with missing values for components of full covariances, sorted by their patterns."""

    def _arrange(self, x: Array) -> None:
        self.rows = PatternRows.of(x)

    @property
    def _mixing(self) -> Array | None:
        """The matrix T with whitened coordinates x T; None if these are the columns themselves."""
        matrix = self.whitening.matrix
        return self.units[:, None] * matrix if matrix.ndim == 2 else None

    def _parts(
        self, natural: Array, peaks: Array | None = None
    ) -> Iterator[tuple[PatternRows, ConditionalComponents]]:
        """Yield parts of the rows, and the components given what is observed in them."""
        components, mixing = NaturalComponents.of(natural, self.n_features, peaks), self._mixing
        components = components if mixing is None else components.transformed(mixing)
        errors, log_units = self.errors, np.log(self.units)
        for part in self.rows.parts(len(natural)):
            given = components.given(part.missing)
            given.marginal.constants[...] += (part.missing @ log_units)[:, None]
            yield part, given.with_measurement(~part.missing * errors) if np.any(errors) else given

    def e_step(self, natural: Array, tails: Tails | None = None) -> tuple[Array, Array]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods."""
        if tails is not None or self.known is not None:
            return super().e_step(natural, tails)
        n_mixtures, n_components, n_stats = natural.shape
        n, m = n_mixtures * n_components, self.n_features
        totals = [np.zeros(shape) for shape in (n, (n, m), (n, m, m), n_mixtures)]
        for part, given in self._parts(natural.reshape(n, n_stats)):
            of_part = None if self.weights is None else self.weights[part.positions]
            for total, sums in zip(
                totals, part.sums(given, n_mixtures, of_part, self.n_threads), strict=True
            ):
                total += sums
        counts, first, second, log_likelihood = totals
        return self._joined(counts, first, second), log_likelihood

    def weighted_stats(self, weighted: Array, responsibilities: Array, natural: Array) -> Array:
        """Return the row statistics summed under responsibilities times factors."""
        n, m = len(natural), self.n_features
        first, second = np.zeros((n, m)), np.zeros((n, m, m))
        for part, given in self._parts(natural):
            factors, shares = (each[:, part.positions] for each in (weighted, responsibilities))
            of_first, of_second = part.weighted_sums(given, factors, shares)
            first, second = first + of_first, second + of_second
        return self._joined(weighted.sum(axis=1), first, second)

    def _joined(self, counts: Array, first: Array, second: Array) -> Array:
        """Return sums over rows as statistics in whitened coordinates."""
        if self._mixing is not None:
            first, second = first @ self._mixing, self._mixing.T @ second @ self._mixing
        return np.concatenate([counts[:, None], first, triangle(second)], axis=1)

    def peaks(self, natural: Array, peaks: Array) -> tuple[Array, Array]:
        """Return the largest logits of rows with the same missing values, and how many are observed."""
        of_rows, n_observed = np.empty((len(natural), self.n_rows)), np.empty(self.n_rows)
        for part, given in self._parts(natural, peaks):
            of_rows[:, part.positions] = part.by_row(given.marginal.peaks).T
            n_observed[part.positions] = part.by_row(self.n_features - part.missing.sum(axis=1))
        return of_rows, n_observed

    def logits(self, natural: Array) -> Array:
        """Return the logarithms of weighted densities of what is observed."""
        logits = np.empty((len(natural), self.n_rows))
        for part, given in self._parts(natural):
            logits[:, part.positions] = part.logits(given.marginal)
        return logits
