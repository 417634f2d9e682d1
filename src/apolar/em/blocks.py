"""Blocks of rows for the E-step: logits of the components, and sums under responsibilities.

The compiled extension reads dense rows of the host as they are stored, and keeps all intermediate results in
the cache. Where it was not built, row statistics are written first, and matrix products compute the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core import compiled
from apolar._core.arrays import Array
from apolar._core.compiled import RowMap
from apolar._core.constants import MIN_LOGIT
from apolar._core.namespaces import (
    Scratch,
    as_float64,
    is_device_array,
    namespace,
    thread_scratch,
    to_device_of,
    to_host,
    to_numpy,
    total,
)
from apolar.data.chunks import row_squares
from apolar.em.whitening import Whitening
from apolar.mixture.families import Family
from apolar.mixture.low_rank import FactorStats
from apolar.mixture.tails import Tails

if TYPE_CHECKING:
    from apolar.em.known import Known


# The least precision of a factor, less that of an unknown one, that counts as a signal.
MIN_FACTOR_SIGNAL = 1e-9


class Block(ABC):
    """Some rows, through linear functions of their row statistics (1, x, quadratics of x).

    All quantities are in whitened coordinates.

    Parameters
    ----------
    n_rows : int
    weights : array or None, shape (n_rows,)
        Of the rows, in double precision and where the rows are.

    Attributes
    ----------
    scratch : Scratch
        The working memory of the thread.
    known : Known or None
        What is known about the rows.
    """

    known: Known | None = None

    def __init__(self, n_rows: int, weights: Any) -> None:
        self.n_rows, self.weights, self.scratch = n_rows, weights, thread_scratch()

    @abstractmethod
    def logits(self, natural: Array) -> Any:
        """Return natural parameters times row statistics, shape (len(natural), n_rows), in working memory."""

    @abstractmethod
    def stats(self, responsibilities: Any) -> Any:
        """Return the row statistics, shape (n, n_stats), summed under responsibilities, shape (n, n_rows).

        The weights of the rows do not count.
        """

    def e_step(self, natural: Array, tails: Tails | None = None) -> tuple[Any, Any]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods.

        Parameters
        ----------
        natural : ndarray, shape (n_mixtures, n_components, n_stats)
            Natural parameters in whitened coordinates.
        tails : Tails, optional
            By default those of Gaussian components.

        Returns
        -------
        stats : array, shape (n_mixtures * n_components, n_stats)
            With long tails, rows count by their factors, and there are two more columns: the sums of
            responsibilities, and the derivatives by degrees of freedom.
        log_likelihood : array, shape (n_mixtures,)
        """
        n_mixtures, n_components, n_stats = natural.shape
        flat_natural = natural.reshape(-1, n_stats)
        flat_tails = None if tails is None else tails.flat
        logits, factors, slopes = self._logits_and_factors(flat_natural, flat_tails)
        xp = namespace(logits)
        shape = n_mixtures, n_components, self.n_rows
        logits = xp.reshape(logits, shape)
        if self.known is None:
            responsibilities, densities = posteriors(logits)
        else:
            responsibilities, densities = self.known.posteriors(logits, self.weights)
        if self.weights is not None:
            responsibilities *= self.weights
            densities *= self.weights
        flat = xp.reshape(responsibilities, (n_mixtures * n_components, self.n_rows))
        if tails is None:
            return self.weighted_stats(flat, flat, flat_natural), xp.sum(densities, axis=1)
        stats = self.weighted_stats(flat * factors, flat, flat_natural)
        of_tails = xp.stack([xp.sum(flat, axis=1), xp.sum(flat * slopes, axis=1)], axis=1)
        return xp.concat([stats, of_tails], axis=1), xp.sum(densities, axis=1)

    def _logits_and_factors(self, natural: Array, tails: Tails | None) -> tuple[Any, Any, Any]:
        """Return the logits of components, and with long tails factors and slopes: see `TailTerms`."""
        logits = self.logits(natural)
        if tails is None:
            return logits, None, None
        return tails.terms(logits, *(self.peaks(natural, tails.peaks) or ()))

    def weighted_stats(self, weighted: Any, responsibilities: Any, natural: Array) -> Any:  # noqa: ARG002
        """Return the row statistics summed under responsibilities times factors.

        Where values are missing, what is known about them does not depend on the factors: their covariances
        count by the responsibilities.
        """
        return self.stats(weighted)

    def nearest_stats(self, natural: Array) -> Any:
        """Return the sufficient statistics where each row counts for the component of its largest logit.

        The natural parameters, shape (n_components, n_stats), are those of one mixture, without quadratics.
        """
        logits = self.logits(natural)
        xp = namespace(logits)
        nearest = xp.argmax(logits, axis=0)
        hard = xp.stack([xp.astype(nearest == k, logits.dtype) for k in range(len(natural))])
        return self.stats(hard if self.weights is None else hard * self.weights)

    def signals(self, natural: Array) -> Any:
        """Return the part of each squared distance that is in the directions of factors, if there are any."""
        raise NotImplementedError

    def peaks(self, natural: Array, peaks: Array) -> Any:  # noqa: ARG002
        """Return the largest logit that each component gives a row with the same missing values.

        The number of values of each row comes second. None where no value is missing: the largest are those
        given, at the means, shape (n,).
        """
        return None

    def posteriors(self, natural: Array, what: str, tails: Tails | None = None) -> Any:
        """Return what one mixture says about each row.

        Parameters
        ----------
        natural : ndarray, shape (n_components, n_stats)
            Natural parameters in whitened coordinates.
        what : {"labels", "probabilities", "densities", "logits", "sums"}
            The most probable component of each row; the responsibilities, shape (n_rows, n_components);
            log-densities; logarithms of weighted densities, shape (n_components, n_rows); or the weighted
            sums of log-densities, of logarithms of the largest responsibilities, and of ones.
        tails : Tails, optional
            By default those of Gaussian components.

        Returns
        -------
        answer : array or tuple
        """
        logits = self._logits_and_factors(natural, tails)[0]
        xp = namespace(logits)
        # A copy, as the next block uses the same working memory.
        logits = xp.asarray(logits, copy=True)
        if what == "logits":
            return logits
        responsibilities, densities = (part[0, ...] for part in posteriors(logits[None, ...]))
        if what == "labels":
            return xp.argmax(responsibilities, axis=0)
        if what == "probabilities":
            return np.ascontiguousarray(responsibilities.T) if xp is np else responsibilities.T
        if what == "densities":
            return densities
        certainty = xp.log(xp.max(responsibilities, axis=0))
        if self.weights is None:
            return float(total(densities)), float(total(certainty)), self.n_rows
        of_weights = float(total(densities * self.weights)), float(total(certainty * self.weights))
        return *of_weights, float(total(self.weights))


class StatsBlock(Block):
    """Rows whose statistics, in whitened coordinates, are stored as an array.

    Parameters
    ----------
    row_stats : array, shape (n_stats, n_rows)
    weights : array or None, shape (n_rows,)
    """

    def __init__(self, row_stats: Any, weights: Any = None) -> None:
        super().__init__(int(row_stats.shape[1]), weights)
        self.row_stats = row_stats

    def logits(self, natural: Array) -> Any:
        """Return natural parameters times row statistics."""
        return self.scratch.compute("matmul", "logits", to_device_of(natural, self.row_stats), self.row_stats)

    def stats(self, responsibilities: Any) -> Any:
        """Return the row statistics, summed under responsibilities."""
        return to_device_of(responsibilities, self.row_stats) @ self.row_stats.T


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
        super().__init__(len(values), None if weights is None else np.require(weights, np.float64, "A"))
        self.values = values if compiled.can_read(values) else np.array(values, np.float64)
        self.row_map = RowMap.of(np.zeros(values.shape[1])) if row_map is None else row_map
        self.kind, self.n_threads = family.n_axes, n_threads

    def e_step(self, natural: Array, tails: Tails | None = None) -> tuple[Array, Array]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods."""
        if self.known is not None:
            return super().e_step(natural, tails)
        rows = self.values, self.weights, self.row_map
        if tails is None:
            stats, log_likelihood = compiled.e_step(*rows, natural, self.kind, self.n_threads)
            return stats, log_likelihood
        known = compiled.e_step(*rows, natural, self.kind, self.n_threads, tails=tails.flat.numbers)
        stats, log_likelihood, (counts, logs) = known
        slopes = tails.flat.slope_sums(counts, stats[:, 0], logs)
        return np.column_stack([stats, counts, slopes]), log_likelihood

    def nearest_stats(self, natural: Array) -> Array:
        """Return the sufficient statistics where each row counts for the component of its largest logit."""
        rows = self.values, self.weights, self.row_map
        known = natural[None], self.kind, self.n_threads
        return compiled.e_step(*rows, *known, is_hard=True, is_linear=True)[0]

    def logits(self, natural: Array) -> Array:
        """Return natural parameters times row statistics."""
        return np.asarray(self.posteriors(natural, "logits"))

    def stats(self, responsibilities: Any) -> Array:
        """Return the row statistics, summed under responsibilities."""
        given = np.asarray(responsibilities, np.float64)
        return compiled.stats_under(self.values, None, self.row_map, given, self.kind, self.n_threads)

    def posteriors(self, natural: Array, what: str, tails: Tails | None = None) -> Any:
        """Return what one mixture says about each row."""
        rows = self.values, self.weights if what == "sums" else None, self.row_map
        numbers = None if tails is None else tails.numbers
        answer = compiled.row_answers(*rows, natural, self.kind, what, self.n_threads, tails=numbers)
        return tuple(answer.tolist()) if what == "sums" else answer


class RawBlock(Block):
    """Sparse rows as the user stored them, for families whose only quadratic is |x|^2.

    The whitening is applied to the parameters instead of the rows, which are not copied.

    Parameters
    ----------
    values : CSR matrix, shape (n_rows, n_features)
    weights : ndarray or None, shape (n_rows,)
    whitening : Whitening
    squares : ndarray, shape (n_rows,), optional
        The squared length of each row in whitened coordinates.
    """

    def __init__(self, values: Any, weights: Any, whitening: Whitening, squares: Array | None = None) -> None:
        super().__init__(int(values.shape[0]), weights)
        self.values, self.whitening = values.astype(np.float64, copy=False), whitening
        self.squares = squares_about(values, whitening) if squares is None else squares

    def logits(self, natural: Array) -> Array:
        """Return natural parameters times row statistics."""
        linear = np.ascontiguousarray(natural[:, 1:-1]) * float(self.whitening.matrix)
        constants = (natural[:, 0] - linear @ self.whitening.centre)[:, None]
        logits = np.ascontiguousarray((self.values @ linear.T).T)
        logits += natural[:, -1:] * self.squares[None] + constants
        return logits

    def stats(self, responsibilities: Array) -> Array:
        """Return the row statistics, summed under responsibilities."""
        stats = np.empty((len(responsibilities), self.values.shape[1] + 2))
        stats[:, 0] = responsibilities.sum(axis=1)
        first = (self.values.T @ responsibilities.T).T
        stats[:, 1:-1] = (first - stats[:, :1] * self.whitening.centre) * float(self.whitening.matrix)
        stats[:, -1] = responsibilities @ self.squares
        return stats


def dense_block(
    values: Any, weights: Any, family: Family, whitening: Whitening | None = None, n_threads: int = 1
) -> Block:
    """Return the block of dense rows, or of sparse ones of few columns, for a family.

    By default they are in whitened coordinates.
    """
    if isinstance(values, np.ndarray) and family.has_compiled_sums:
        row_map = None if whitening is None else RowMap.of(whitening.centre, whitening.matrix)
        return CompiledBlock(values, weights, family, row_map, n_threads)
    # Blocks of whitened rows are kept.
    scratch = Scratch() if whitening is None else thread_scratch()
    row_stats = write_row_stats(values, family.row_family, whitening, scratch)
    if family.has_factors:
        return FactorBlock(row_stats, weights, values.shape[1])
    return StatsBlock(row_stats, weights)


def write_row_stats(values: Any, family: Family, whitening: Whitening | None, scratch: Scratch) -> Any:
    """Return the statistics of rows, shape (n_stats, n_rows), in working memory."""
    if is_device_array(values):
        # Arrays of NumPy are converted as the whitening writes them.
        values = as_float64(values)
    n_features = values.shape[1]
    row_stats = scratch.empty_like("row stats", values, family.n_stats(n_features), values.shape[0])
    row_stats[0, ...] = 1.0
    whitened = row_stats[1 : 1 + n_features, ...]
    if whitening is None:
        whitened[...] = values.T
    else:
        whitening.write(values, whitened)
    family.write_quadratics(whitened, row_stats[1 + n_features :, ...])
    return row_stats


class FactorBlock(StatsBlock):
    """Rows for components of few factors, whose expected values are part of the statistics.

    Parameters
    ----------
    row_stats : array, shape (n_row_stats, n_rows)
        Of the rows alone.
    weights : array or None, shape (n_rows,)
    n_features : int
    """

    def __init__(self, row_stats: Any, weights: Any, n_features: int) -> None:
        super().__init__(row_stats, weights)
        self.n_features = n_features
        # The factors, for the natural parameters that were asked for last.
        self._last: tuple[Array, Any] | None = None

    def _factors(self, natural: Array) -> tuple[FactorStats, Array, Any]:
        """Return the parts of natural parameters, and roots C of covariances C^t C of the factors of a row.

        The third are C^-t times the expected factors, shape (len(natural), n_factors, n_rows).
        """
        parts = FactorStats.of(natural, self.row_stats.shape[0], self.n_features)
        n, q = parts.factors.shape
        # Noise has no factors.
        is_noise = ~np.any(parts.squares, axis=(-2, -1), keepdims=True)
        roots = np.linalg.inv(np.linalg.cholesky(-2 * parts.squares + is_noise * np.eye(q)))
        last = self._last
        if last is None or last[0] is not natural:
            across = np.reshape(roots @ parts.cross, (-1, self.n_features))
            x = self.row_stats[1 : 1 + self.n_features, ...]
            factors = to_device_of(across, x) @ x
            factors = namespace(factors).reshape(factors, (n, q, self.n_rows))
            factors += to_device_of(np.ascontiguousarray(roots @ parts.factors[..., None]), x)
            self._last = last = natural, factors
        return parts, roots, last[1]

    def logits(self, natural: Array) -> Any:
        """Return the expected natural parameters times the statistics of rows and factors."""
        parts, roots, factors = self._factors(natural)
        logits = super().logits(np.ascontiguousarray(parts.rows))
        spread = (parts.squares * (np.swapaxes(roots, -1, -2) @ roots)).sum(axis=(-2, -1))
        logits += 0.5 * namespace(factors).sum(factors * factors, axis=1)
        logits += to_device_of(spread[:, None], logits)
        return logits

    def weighted_stats(self, weighted: Any, responsibilities: Any, natural: Array) -> Any:
        """Return the statistics of rows and factors, summed under responsibilities times factors of tails."""
        _, roots, factors = self._factors(natural)
        xp, (n, q, _) = namespace(self.row_stats), roots.shape
        weighted, responsibilities = (to_device_of(each, factors) for each in (weighted, responsibilities))
        back = to_device_of(np.ascontiguousarray(np.swapaxes(roots, -1, -2)), factors)
        shares = factors * weighted[:, None, :]
        x = self.row_stats[1 : 1 + self.n_features, ...]
        cross = xp.reshape(xp.reshape(shares, (-1, self.n_rows)) @ x.T, (n, q, -1))
        squares = shares @ xp.permute_dims(factors, (0, 2, 1))
        squares += xp.sum(responsibilities, axis=1)[:, None, None] * to_device_of(np.eye(q), x)
        parts = (
            super().stats(weighted),
            xp.reshape(back @ cross, (n, -1)),
            xp.reshape(back @ xp.sum(shares, axis=2)[..., None], (n, -1)),
            xp.reshape(back @ squares @ xp.permute_dims(back, (0, 2, 1)), (n, -1)),
        )
        return xp.concat(parts, axis=1)

    def signals(self, natural: Array) -> Any:
        """Return the part of each squared distance that is in the directions of the loadings.

        Shape (len(natural), n_rows); zero for noise.
        """
        parts, roots, factors = self._factors(natural)
        # With M = I + G the precision of the factors, and w = M z: w^t (G^-1 - M^-1) w.
        values, axes = np.linalg.eigh(-2 * parts.squares)
        values = np.maximum(values, 1.0)
        inverse = 1 / np.sqrt(np.maximum(values - 1, MIN_FACTOR_SIGNAL) * values)
        towards = np.swapaxes(axes, -1, -2) @ np.linalg.inv(roots) * inverse[..., None]
        moved = to_device_of(np.ascontiguousarray(towards), factors) @ factors
        return namespace(moved).sum(moved * moved, axis=1)


def squares_about(rows: Any, whitening: Whitening) -> Array:
    """Return the squared length of each row of a CSR matrix, in coordinates whitened by one unit."""
    # Rows may be of small integers, whose squares would overflow.
    rows, centre = rows.astype(np.float64, copy=False), whitening.centre
    squares = row_squares(rows) - 2 * (rows @ centre) + centre @ centre
    return np.maximum(squares, 0.0) * float(whitening.matrix) ** 2


def as_float64_rows(values: Any) -> Array:
    """Return dense rows on the host in double precision."""
    return np.asarray(to_host(values), np.float64)


def weights_to_device_of(weights: Any, array: Any) -> Any:
    """Return weights in double precision on the device of an array, or None."""
    if weights is None:
        return None
    if is_device_array(weights):
        return as_float64(weights) if is_device_array(array) else to_numpy(weights)
    return to_device_of(np.asarray(weights, np.float64), array)


def posteriors(logits: Any) -> tuple[Any, Any]:
    """Return responsibilities and log-densities from logits, shape (n_mixtures, n_components, n).

    The logits are overwritten.

    Returns
    -------
    responsibilities : array, shape (n_mixtures, n_components, n)
    densities : array, shape (n_mixtures, n)
    """
    xp = namespace(logits)
    largest = xp.max(logits, axis=1)
    logits -= largest[:, None, :]
    if xp is np:
        # Such small exponentials do not count, and where exp underflows it takes four times as long.
        np.maximum(logits, MIN_LOGIT, out=logits)
        np.exp(logits, out=logits)
    else:
        logits = xp.exp(logits)
    sums = xp.sum(logits, axis=1)
    logits /= sums[:, None, :]
    return logits, xp.log(sums) + largest
