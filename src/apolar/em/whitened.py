"""Rows in a frame: the E-step over chunks, by threads, and what it sums."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import floating, is_device_array, namespace, to_device_of, to_numpy
from apolar.data import Rows, Scratch, added_up, fetch_rows, mapped, open_rows, own_scratch
from apolar.data.checks import checked_block, checked_weights
from apolar.data.rows import DENSE_COLUMNS
from apolar.em.blocks import Chunk, Stored, Written, posteriors, squares_about, total_density
from apolar.em.kernels import triton
from apolar.em.whitening import MOST_DISTANCE, Whitening, whitening_of
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.stats import SufficientStats

# Numbers in a chunk: 8 MB a thread. Larger than for other sums: a chunk makes a dozen calls, between which
# threads wait for each other.
CHUNK_SIZE = 2**20
# The features of the rows are kept if they are no more numbers than this (16 MB); else made anew each time.
KEPT_FEATURES = 2**21
# Rows that one call of a kernel sums.
FUSED_ROWS = 2**28
# Rows whose centre is no further from zero than this many units are read as they are stored.
NEAR = 30.0


class WhitenedData:
    """Rows in the frame of a covariance family, ready for EM.

    Parameters
    ----------
    rows : Rows
        That can be read again.
    family : Family
    frame : Frame, optional
        By default that of the rows, which reads them once and checks them.
    threads : int, default=1
    for_one_pass : bool, default=False
        Whether the rows are read once, so that nothing of them is kept.
    unchecked : bool, default=False
        Whether nobody has looked at the rows yet: they are checked as they are read.
    noise : float, default=0.0
        The variance of the noise of each row, for a frame that is made here.
    """

    def __init__(
        self,
        rows: Rows,
        family: Family,
        whitening: Whitening | None = None,
        threads: int = 1,
        *,
        for_one_pass: bool = False,
        unchecked: bool = False,
        noise: float = 0.0,
    ) -> None:
        self.rows, self.family, self._unchecked = rows, family, unchecked
        self.whitening = whitening_of(rows, family, noise) if whitening is None else whitening
        self.n_features = rows.n_features
        self.n_stats = family.n_stats(rows.n_features)
        # A device has threads of its own.
        self.threads = 1 if rows.device_template is not None else threads
        self._stored = self._is_read_as_stored()
        self._kept: Written | None = None
        # The number of rows that are elsewhere may have to be counted: it is not asked for in vain.
        passing = for_one_pass or self.is_wide or rows.is_distributed
        small = not passing and rows.n_rows is not None and rows.n_rows * self.n_stats <= KEPT_FEATURES
        if small and rows.take:
            values, weights = rows.take(slice(None))
            self._kept = self._written(_as_numbers(values), weights, Scratch())
            self._stored = False
        self._squares: Array | None = None
        if self._stored and rows.in_memory and not for_one_pass:
            # The squared distance of each row from the centre: 8 bytes a row.
            parts = mapped(rows.read(self.chunk_rows(0)), self._squares_of, self.threads)
            self._squares = np.concatenate(list(parts))

    @property
    def weight(self) -> float:
        """The sum of the weights of the rows."""
        return self.whitening.weight

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.whitening.n_rows

    def is_fused(self, n_components: int) -> bool:
        """Return whether there is a kernel for the E-step of these rows under so many components."""
        by_rows = self.family.is_axis_aligned and self._kept is None
        return by_rows and triton.is_fused(self.rows.device_template, self.n_features, n_components)

    @property
    def is_wide(self) -> bool:
        """Whether the rows are sparse, and not to be made dense."""
        return self.rows.is_sparse and self.n_features > DENSE_COLUMNS

    def _is_read_as_stored(self) -> bool:
        """Return whether the E-step can take the rows as they are stored, without a copy in the frame."""
        rows = self.rows
        if not self.family.is_spherical or rows.device_template is not None or rows.is_distributed:
            return False
        if self.is_wide:
            return True
        if rows.take is None or not rows.in_memory or not rows.n_rows:
            return False
        first = rows.take(slice(0, 1))[0]
        dense = isinstance(first, np.ndarray) and first.dtype == np.float64
        # Sums about zero lose the square of this ratio in digits.
        near = float(np.max(np.abs(self.whitening.centre))) < NEAR * float(self.whitening.inverse)
        return dense and near

    def _squares_of(self, block: Any, _: Any) -> Array:
        return squares_about(block.astype(np.float64, copy=False), self.whitening)

    def _written(self, block: Any, weights: Any, scratch: Scratch) -> Written:
        """Return rows with their features in the frame."""
        features = scratch.empty_like("features", block, self.n_stats, block.shape[0])
        features[0, ...] = 1.0
        inside = features[1 : 1 + self.n_features, ...]
        self.whitening.write(block, inside)
        self.family.write_quadratics(inside, features[1 + self.n_features :, ...])
        return Written(features, _weights_to_device_of(weights, features), scratch)

    def chunk_rows(self, depth: int) -> int:
        """Return the rows of a chunk, for so many numbers of working memory a row beside the features."""
        own = 0 if self._stored else self.n_stats
        return max(64, self.rows.chunk_rows(own + depth, CHUNK_SIZE))

    def chunks(self, function: Callable[[Any], Any], depth: int, *, written: bool = False) -> Iterator[Any]:
        """Yield a function of each chunk, in order.

        Parameters
        ----------
        function : callable
            Takes a `Chunk`.
        depth : int
            How many numbers a row the function works on besides the features.
        written : bool, default=False
            Whether the function needs the features written out: a `Written`.
        """
        if self._kept is not None:
            yield from self._kept_chunks(self._kept, function, depth)
            return
        stored = self._stored and not written
        squares = self._squares

        def work(block: Any, rest: tuple[Any, int]) -> Any:
            weights, start = rest
            scratch = own_scratch()
            if self._unchecked:
                block = checked_block(block, self.n_features, start)
                weights = checked_weights(weights, block, start)
                if isinstance(block, np.ndarray):
                    block = self.whitening.within_reach(block)
            if not stored:
                return function(self._written(_as_numbers(block), weights, scratch))
            # Squares of integers of few bits would overflow.
            block = block.astype(np.float64, copy=False)
            own = (
                squares_about(block, self.whitening)
                if squares is None
                else squares[start : start + block.shape[0]]
            )
            return function(Stored(block, own, _weights_to_device_of(weights, own), scratch, self.whitening))

        # The rows have been checked when the frame was made; here they go to the threads as they are
        # stored, so that converting them is shared out as well.
        size = self.chunk_rows(depth)
        threads = 1 if self.rows.n_rows is not None and self.rows.n_rows <= size else self.threads
        yield from mapped(self._numbered(size), work, threads)

    def _numbered(self, size: int) -> Iterator[tuple[Any, tuple[Any, int]]]:
        """Yield chunks with their weights and the number of their first row."""
        start = 0
        for block, weights in self.rows.read(size):
            yield block, (weights, start)
            start += block.shape[0]

    def _kept_chunks(self, kept: Written, function: Callable[[Any], Any], depth: int) -> Iterator[Any]:
        size = max(256, CHUNK_SIZE // (self.n_stats + depth))
        starts = range(0, kept.n, size)

        def work(start: int, _: Any) -> Any:
            cut = slice(start, min(start + size, kept.n))
            weights = None if kept.weights is None else kept.weights[cut]
            return function(Written(kept.features[:, cut], weights, own_scratch()))

        threads = self.threads if len(starts) > self.threads else 1
        return mapped(((start, None) for start in starts), work, threads)

    def e_step(self, parameters: WhitenedParameters) -> tuple[SufficientStats, Array]:
        """Return the sums of the E-step, and the log-likelihoods.

        Parameters
        ----------
        parameters : WhitenedParameters
            A batch of mixtures, in the frame: one leading axis.

        Returns
        -------
        stats : SufficientStats
            Of each mixture: posterior-weighted sums of the features.
        log_likelihood : ndarray, shape (n_mixtures,)
            In the units of the frame: `frame.log_det` a row is to be added.
        """
        noise = self._noise()
        stats, log_likelihood = self.total(EStep(self.family, self.whitening, parameters, noise))
        array = _with_noise(stats.reshape(*parameters.weights.shape, self.n_stats), noise)
        return SufficientStats(array, self.n_features), log_likelihood

    def _noise(self) -> Array | None:
        """Return what noise of the rows adds to the expected quadratics of each of them, if there is any.

        The log-density is linear in the quadratics: with this, E-step, M-step and gradient are those of rows
        that are known up to that noise, and EM still raises an objective.
        """
        if not self.whitening.noise:
            return None
        one, kind, m = np.ones(1), self.family.untied, self.n_features
        covariances = kind.from_spherical(self.whitening.noise * one, self.whitening.metric(kind), one)
        return kind.moments(WhitenedParameters(one, np.zeros((1, m)), covariances)).second[0]

    def total(self, job: WhitenedStatistic) -> list[Any]:
        """Return what a job sums over the rows: here, or where they are."""
        if self.rows.is_distributed:
            return self.rows.total(job)
        found = job.on(self)
        if found is None:
            raise ValueError("X has no rows.")
        return found

    def hard_stats(self, labels: Array, n_components: int) -> SufficientStats:
        """Return the sums of the features by label, shape (n_components, width); labels in row order."""
        return self.soft_stats(labels[None] == np.arange(n_components)[:, None])

    def soft_stats(self, responsibilities: Array) -> SufficientStats:
        """Return the sums of the features under responsibilities of shape (n_components, n_rows)."""
        position, stats = 0, np.zeros((len(responsibilities), self.n_stats))
        # In order, by one thread: each chunk takes its part of the responsibilities.
        for chunk in self.under(self.family, threads=1).chunks(lambda chunk: chunk, 0):
            part = responsibilities[:, position : position + chunk.n].astype(float)
            position += chunk.n
            if chunk.weights is not None:
                part = part * to_numpy(chunk.weights)
            shares = part if isinstance(chunk, Stored) else to_device_of(part, chunk.features)
            stats += to_numpy(chunk.stats(shares))
        return SufficientStats(_with_noise(stats, self._noise()), self.n_features)

    def nearest_stats(self, means: Array) -> SufficientStats:
        """Return the sums of the rows nearest to each mean, in the frame; shape (len(means), width)."""
        stats = self.total(NearestStats(self.family, self.whitening, means))[0]
        return SufficientStats(_with_noise(stats, self._noise()), self.n_features)

    def under(self, family: Family, threads: int | None = None) -> WhitenedData:
        """Return the same rows under a family of the same features (the tied one, or the untied)."""
        other = copy.copy(self)
        other.family = family
        other.threads = self.threads if threads is None else threads
        return other

    def row_responsibilities(self, parameters: WhitenedParameters) -> tuple[Any, Any]:
        """Return posteriors, shape (n_components, n_rows), and log-densities, shape (n_rows,), in the frame.

        `components` is one mixture.
        """
        parts = list(
            self.chunks(RowResponsibilities(self.family.natural(parameters)), 2 * parameters.n_components)
        )
        xp = namespace(parts[0][0])
        return xp.concat([p for p, _ in parts], axis=1), xp.concat([d for _, d in parts])

    def row_logits(self, natural: Array, rows: slice) -> Array:
        """Return the logarithms of weighted densities at some rows, shape (len(natural), n)."""
        if self.n_rows * self.n_stats <= KEPT_FEATURES:
            return natural @ self.features()[:, rows]
        # Chunk by chunk: features of wide tables are many.
        parts = list(self.chunks(lambda chunk: chunk.logits(natural).copy(), 2 * len(natural)))
        return np.concatenate(parts, axis=1)[:, rows]

    def features(self) -> Array:
        """Return the features of all rows, shape (width, n_rows)."""
        if self._kept is not None:
            return to_numpy(self._kept.features)
        parts = self.chunks(lambda chunk: to_numpy(chunk.features).copy(), 0, written=True)
        return np.concatenate(list(parts), axis=1)

    def coordinates(self) -> Array:
        """Return the rows in the frame, shape (n_features, n_rows)."""
        if self._kept is not None:
            return to_numpy(self._kept.features[1 : 1 + self.n_features, ...])
        inside = []
        for block, _ in self.rows.read(max(64, CHUNK_SIZE // self.n_features)):
            inside.append(np.empty((self.n_features, block.shape[0])))
            self.whitening.write(to_numpy(block) if is_device_array(block) else block, inside[-1])
        return np.concatenate(inside, axis=1)

    @functools.cached_property
    def standardised(self) -> Array:
        """The rows, shape (n_rows, n_features), centred, each column divided by its deviation.

        Families of one variance divide all columns by one number. Not whitened, as rows in the frame of full
        covariances are: that makes the directions in which clusters lie apart as short as all others.
        """
        if self.whitening.matrix.ndim < 2:
            return np.ascontiguousarray(self.coordinates().T)
        parts = self.rows.read(max(64, CHUNK_SIZE // self.n_features))
        blocks = [_dense(block) - self.whitening.centre for block, _ in parts]
        return np.concatenate(blocks) / self.whitening.deviations

    def row_weights(self) -> Array | None:
        """Return the weights of all rows, or None if they are all one."""
        if self._kept is not None:
            return None if self._kept.weights is None else to_numpy(self._kept.weights)
        parts = [weights for _, weights in self.rows.read(self.chunk_rows(0))]
        if parts[0] is None:
            return None
        return np.concatenate([np.asarray(to_numpy(part), np.float64) for part in parts])

    def subsample(self, n_rows: int, rng: np.random.Generator) -> WhitenedData:
        """Return a table of rows chosen at random, on the host, in a frame of their own weight."""
        available = self.n_rows if self.rows.n_rows is None else self.rows.n_rows
        here = self.rows.device_template is None and not self.rows.is_distributed
        if n_rows >= available and here:
            return self
        # All of them are not drawn, here and elsewhere: chance is the same.
        n_rows = min(n_rows, available)
        whole = n_rows == available
        positions = np.arange(n_rows) if whole else np.sort(rng.choice(available, n_rows, replace=False))
        values, weights = fetch_rows(self.rows, positions)
        return self._of_rows(open_rows(values, weights), n_rows, weights)

    def distinct(self) -> WhitenedData:
        """Return the different rows of a table on the host, each with the weight of all its copies.

        They are sorted by their numbers, so that what is drawn from them depends neither on the order of the
        rows nor on whether a row is given twice or has twice the weight. Wide sparse rows stay as they are.
        """
        if self.is_wide or self.rows.take is None:
            return self
        values, weights = fetch_rows(self.rows, np.arange(self.n_rows))
        order = np.lexsort(values.T[::-1])
        values = values[order]
        is_new = np.concatenate([[True], np.any(values[1:] != values[:-1], axis=1)])
        if weights is not None or not np.all(is_new):
            own = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)[order]
            weights = np.add.reduceat(own, np.flatnonzero(is_new))
            weights = None if np.all(weights == 1) else weights
        rows = open_rows(values[is_new], weights)
        whitening = replace(self.whitening, n_rows=int(is_new.sum()))
        return WhitenedData(rows, self.family, whitening, self.threads)

    def refuse_rows_out_of_reach(self) -> None:
        """Refuse weighted rows so far from the others that squares of their distances are no numbers.

        Rows without weights are never so far from their own mean, in their own deviations.
        """
        if self.rows.take is None or not self.rows.in_memory or self.rows.device_template is not None:
            return
        values, weights = self.rows.take(slice(None))
        if weights is None or not isinstance(values, np.ndarray):
            return
        if self.whitening.within_reach(values) is not values:
            row = int(np.argmax(np.max(np.abs(values / np.max(np.abs(values), axis=0)), axis=1)))
            raise ValueError(
                f"A row of X (number {row} of those with weight) lies more than {MOST_DISTANCE:.0e} "
                "deviations from the mean, and its weight is next to nothing: leave it out."
            )

    def systematic_sample(self, step: int) -> WhitenedData:
        """Return a table of one of each `step` rows, where they are, in a frame of their own weight."""
        rows = self.rows.systematic_sample(step)
        n_rows, weight = (float(number) for number in rows.total(counted))
        whitening = replace(self.whitening, n_rows=int(n_rows), weight=weight)
        return WhitenedData(rows, self.family, whitening, self.threads)

    def _of_rows(self, rows: Rows, n_rows: int, weights: Array | None) -> WhitenedData:
        weight = float(n_rows if weights is None else weights.sum())
        whitening = replace(self.whitening, n_rows=n_rows, weight=weight)
        return WhitenedData(rows, self.family, whitening, self.threads)


def _dense(block: Any) -> Array:
    """Return a chunk of rows as an array on the host."""
    return block.toarray() if sparse.issparse(block) else to_numpy(block)


def _as_numbers(block: Any) -> Any:
    """Return a chunk of another library in double precision; others are converted where they are written."""
    return floating(block) if is_device_array(block) else block


def _weights_to_device_of(weights: Any, array: Any) -> Any:
    """Return weights where the features are."""
    if weights is None:
        return None
    if is_device_array(weights):
        return floating(weights) if is_device_array(array) else to_numpy(weights)
    return to_device_of(np.asarray(weights, np.float64), array)


def _with_noise(stats: Array, noise: Array | None) -> Array:
    """Return sums of features with what noise adds to the quadratics of each row."""
    if noise is not None:
        stats[..., -len(noise) :] += stats[..., :1] * noise
    return stats


# --- what is summed over the rows of a table ------------------------------------------------


@dataclass(frozen=True, eq=False)
class WhitenedStatistic:
    """Something that is summed over rows, in a frame: it can go to where the rows are."""

    family: Family
    whitening: Whitening

    def __call__(self, rows: Rows) -> list[Any] | None:
        """Return the sums over some rows."""
        return self.on(WhitenedData(rows, self.family, self.whitening, for_one_pass=True))

    def on(self, data: WhitenedData) -> list[Any] | None:
        """Return the sums over the rows of a table."""
        return added_up(data.chunks(self.of_chunk, self.depth))

    @property
    def depth(self) -> int:
        """How many numbers a row are worked on besides the features."""
        return 0

    def of_chunk(self, chunk: Chunk) -> tuple[Any, ...]:
        """Return the sums over a chunk."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class EStep(WhitenedStatistic):
    """The E-step of a batch of mixtures, in the frame: sums, all in one matrix, and log-likelihoods."""

    parameters: WhitenedParameters
    noise: Array | None = None

    @functools.cached_property
    def natural(self) -> Array:
        """The natural parameters, shape (n_mixtures, n_components, width)."""
        natural = self.family.natural(self.parameters)
        if self.noise is not None:
            natural[..., 0] += natural[..., -len(self.noise) :] @ self.noise
        return natural

    @property
    def depth(self) -> int:
        """How many numbers a row are worked on besides the features."""
        return 2 * self.natural.shape[0] * self.natural.shape[1]

    def on(self, data: WhitenedData) -> list[Any] | None:
        """Return the sums over the rows of a table: by one kernel where there is one, else by chunks."""
        n_mixtures, n_components, _ = self.natural.shape
        if n_mixtures == 1 and data.is_fused(n_components):
            # What is to be converted is converted by chunks: it takes memory.
            size = FUSED_ROWS if triton.is_taken_as_it_is(data.rows.device_template) else data.chunk_rows(0)
            return added_up(self._fused(block, weights) for block, weights in data.rows.read(size))
        return super().on(data)

    def _fused(self, block: Any, weights: Any) -> tuple[Any, Any]:
        """Return the sums over rows on a GPU, which are read once."""
        n_features, natural = self.whitening.centre.size, self.natural[0]
        scale = np.broadcast_to(self.whitening.matrix, n_features)
        linear, quadratic = natural[:, 1 : 1 + n_features], natural[:, 1 + n_features :]
        weights = _weights_to_device_of(weights, block)
        return triton.e_step(block, weights, self.whitening.centre, scale, natural[:, 0], linear, quadratic)

    def of_chunk(self, chunk: Chunk) -> tuple[Any, Any]:
        """Return the sums over a chunk."""
        n_mixtures, n_components, n_stats = self.natural.shape
        logits = chunk.logits(self.natural.reshape(-1, n_stats))
        xp = namespace(logits)
        shares, likelihood = total_density(
            xp.reshape(logits, (n_mixtures, n_components, chunk.n)), chunk.weights, chunk.scratch
        )
        return chunk.stats(xp.reshape(shares, (n_mixtures * n_components, chunk.n))), likelihood


@dataclass(frozen=True, eq=False)
class NearestStats(WhitenedStatistic):
    """The sums of the rows that are nearest to each of some means."""

    means: Array

    @property
    def depth(self) -> int:
        """How many numbers a row are worked on besides the features."""
        return 2 * len(self.means)

    def of_chunk(self, chunk: Chunk) -> tuple[Any]:
        """Return the sums over a chunk."""
        n_means, n_features = self.means.shape
        nearness = np.zeros((n_means, self.family.n_stats(n_features)))
        nearness[:, 0] = -0.5 * np.einsum("ij,ij->i", self.means, self.means)
        nearness[:, 1 : 1 + n_features] = self.means
        scores = chunk.logits(nearness)
        xp = namespace(scores)
        nearest = xp.argmax(scores, axis=0)
        own = xp.stack([xp.astype(nearest == k, scores.dtype) for k in range(n_means)])
        return (chunk.stats(own if chunk.weights is None else own * chunk.weights),)


def counted(rows: Rows) -> list[Any] | None:
    """Return the number of rows and their weight."""
    n_rows, weight = 0, 0.0
    for block, weights in rows.read(rows.chunk_rows()):
        if weights is None and rows.n_rows is not None:
            # All rows have weights, or none.
            return [rows.n_rows, float(rows.n_rows)]
        n_rows += block.shape[0]
        weight += block.shape[0] if weights is None else float(np.sum(to_numpy(weights)))
    return [n_rows, weight]


@dataclass(frozen=True, eq=False)
class RowResponsibilities:
    """Posteriors and log-densities of the rows of a chunk under one mixture, in the frame."""

    natural: Array

    def __call__(self, chunk: Chunk) -> tuple[Any, Any]:
        """Return posteriors, shape (n_components, n), and log-densities, shape (n,)."""
        logits = chunk.logits(self.natural)
        xp = namespace(logits)
        # A copy: the working memory is used again.
        shares, density = posteriors(xp.asarray(logits, copy=True)[None, ...], chunk.scratch)
        return shares[0, ...], density[0, ...]
