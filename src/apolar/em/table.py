"""Rows in a frame: the E-step over chunks, by threads, and what it sums."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from apolar._arrays import Array
from apolar._rows import Rows, Scratch, gathered, mapped, open_rows
from apolar.em.frame import Frame, frame_of
from apolar.mixture.components import Components
from apolar.mixture.families import Family

# Numbers in a chunk: 8 MB a thread. Larger than for other sums: a chunk makes a dozen calls, between which
# threads wait for each other.
CHUNK_SIZE = 2**20
# The features of the rows are kept if they are no more numbers than this (16 MB); else made anew each time.
KEPT_FEATURES = 2**21
# Rows whose centre is no further from zero than this many units are read as they are stored.
NEAR = 30.0
# The least difference of log-densities that counts: exp(-100) is 4e-44.
LEAST_LOGIT = -100.0


class Table:
    """Rows in the frame of a covariance family, ready for EM.

    Parameters
    ----------
    rows : Rows
        That can be read again.
    family : Family
    frame : Frame, optional
        By default that of the rows, which reads them once and checks them.
    threads : int, default=1
    """

    def __init__(self, rows: Rows, family: Family, frame: Frame | None = None, threads: int = 1) -> None:
        self.rows, self.family = rows, family
        self.frame = frame_of(rows, family) if frame is None else frame
        self.n_features = rows.n_features
        self.width = family.width(rows.n_features)
        self.threads = threads
        self._local = threading.local()
        self._kept: tuple[Array, Array | None] | None = None
        if rows.n_rows is not None and rows.n_rows * self.width <= KEPT_FEATURES:
            values, weights = gathered(rows, slice(None)) if rows.take else (None, None)
            if values is not None:
                features = np.empty((self.width, len(values)))
                self._write(values, features)
                self._kept = features, weights
        self._squares = self._kept_squares() if self._can_read_directly() else None

    @property
    def weight(self) -> float:
        """The sum of the weights of the rows."""
        return self.frame.weight

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.frame.n_rows

    def _write(self, block: Any, features: Array) -> None:
        """Write the features of rows, shape (width, n)."""
        features[0] = 1
        inside = features[1 : 1 + self.n_features]
        self.frame.write(block, inside)
        self.family.write_quadratics(inside, features[1 + self.n_features :])

    def _can_read_directly(self) -> bool:
        """Return whether the E-step can take the rows as they are stored, without a copy in the frame."""
        if self._kept is not None or self.family.frame_kind != "scalar" or self.rows.take is None:
            return False
        first = self.rows.take(slice(0, 1))[0]
        dense = isinstance(first, np.ndarray) and first.dtype == np.float64
        # Sums about zero lose the square of this ratio in digits.
        near = float(np.max(np.abs(self.frame.centre))) < NEAR * float(self.frame.inverse)
        return dense and near

    def _kept_squares(self) -> Array:
        """Return the squared distance of each row from the centre, in the frame: 8 bytes a row."""
        return np.concatenate(list(self.chunks(lambda features, *_: features[-1].copy(), 0)))

    def chunks(self, function: Callable[[Array, Array | None, Scratch], Any], depth: int) -> Iterator[Any]:
        """Yield function(features, weights, scratch) of each chunk, in order.

        `depth` is how many numbers a row the function works on besides the features.
        """
        if self._kept is not None:
            features, weights = self._kept
            size = max(256, CHUNK_SIZE // (self.width + depth))
            n = features.shape[1]
            cuts = [slice(start, start + size) for start in range(0, n, size)]
            kept = ((features[:, cut], None if weights is None else weights[cut]) for cut in cuts)
            threads = self.threads if len(cuts) > self.threads else 1
            return mapped(kept, lambda f, w: function(f, w, self._scratch()), threads)

        def work(block: Any, weights: Any) -> Any:
            scratch = self._scratch()
            features = scratch("features", self.width, block.shape[0])
            self._write(block, features)
            return function(features, None if weights is None else np.asarray(weights, np.float64), scratch)

        # The rows have been checked when the frame was made; here they go to the threads as they are
        # stored, so that converting them is shared out as well.
        size = max(64, CHUNK_SIZE // (self.width + depth))
        return mapped(self.rows.read(size), work, self.threads)

    def _scratch(self) -> Scratch:
        if not hasattr(self._local, "scratch"):
            self._local.scratch = Scratch()
        return self._local.scratch

    def expectation(self, components: Components) -> tuple[Array, Array]:
        """Return the sums of the E-step, and the log-likelihoods.

        Parameters
        ----------
        components : Components
            A batch of mixtures, in the frame: one leading axis.

        Returns
        -------
        sums : ndarray, shape (n_mixtures, n_components, width)
            Posterior-weighted sums of the features.
        log_likelihood : ndarray, shape (n_mixtures,)
            In the units of the frame: `frame.log_det` a row is to be added.
        """
        natural = self.family.natural(components)
        n_mixtures, n_components, width = natural.shape
        flat = natural.reshape(-1, width)
        shape = (n_mixtures, n_components, -1)

        def statistic(features: Array, weights: Array | None, scratch: Scratch) -> tuple[Array, Array]:
            logits = scratch("logits", len(flat), features.shape[1])
            np.matmul(flat, features, out=logits)
            total = _total_density(logits.reshape(shape), weights, scratch)
            return logits @ features.T, total

        parts = self.chunks(statistic, 2 * len(flat))
        if self._squares is not None:
            parts = self._direct(flat, shape, self._squares)
        sums, log_likelihood = next(parts)
        for part_sums, part_likelihood in parts:
            sums, log_likelihood = sums + part_sums, log_likelihood + part_likelihood
        return sums.reshape(natural.shape), log_likelihood

    def _direct(
        self, natural: Array, shape: tuple[int, int, int], squares: Array
    ) -> Iterator[tuple[Array, Array]]:
        """Yield sums and log-likelihoods of the E-step of chunks, straight from the rows as stored."""
        centre, unit = self.frame.centre, float(self.frame.matrix)
        linear = np.ascontiguousarray(natural[:, 1:-1]) * unit
        constants, curvatures = (natural[:, 0] - linear @ centre)[:, None], natural[:, -1:]

        def work(block: Array, rest: tuple[Any, int]) -> tuple[Array, Array]:
            weights, start = rest
            n, scratch = len(block), self._scratch()
            own = squares[start : start + n]
            logits = np.matmul(linear, block.T, out=scratch("logits", len(natural), n))
            bent = np.multiply(curvatures, own, out=scratch("bent", len(natural), n))
            bent += constants
            logits += bent
            total = _total_density(
                logits.reshape(shape), None if weights is None else np.asarray(weights, np.float64), scratch
            )
            sums = np.empty_like(natural)
            sums[:, 0] = logits.sum(axis=1)
            sums[:, 1:-1] = (logits @ block - sums[:, :1] * centre) * unit
            sums[:, -1] = logits @ own
            return sums, total

        size = CHUNK_SIZE // (self.n_features + 2 * len(natural))

        def chunks() -> Iterator[tuple[Any, Any]]:
            start = 0
            for block, weights in self.rows.read(max(64, size)):
                yield block, (weights, start)
                start += block.shape[0]

        return mapped(chunks(), work, self.threads)

    def hard_sums(self, labels: Array, n_components: int) -> Array:
        """Return the sums of the features by label, shape (n_components, width); labels in row order."""
        return self.soft_sums(labels[None] == np.arange(n_components)[:, None])

    def soft_sums(self, responsibilities: Array) -> Array:
        """Return the sums of the features under responsibilities of shape (n_components, n_rows)."""
        position, sums = 0, np.zeros((len(responsibilities), self.width))
        # In order, by one thread: each chunk takes its part of the responsibilities.
        for features, weights in self.under(self.family, threads=1).chunks(lambda f, w, _: (f, w), 0):
            part = responsibilities[:, position : position + features.shape[1]]
            sums += (part if weights is None else part * weights).astype(float) @ features.T
            position += features.shape[1]
        return sums

    def under(self, family: Family, threads: int | None = None) -> Table:
        """Return the same rows under a family of the same features (the tied one, or the untied)."""
        other = copy.copy(self)
        other.family = family
        other.threads = self.threads if threads is None else threads
        return other

    def row_posteriors(self, components: Components) -> tuple[Array, Array]:
        """Return posteriors, shape (n_components, n_rows), and log-densities, shape (n_rows,), in the frame.

        `components` is one mixture.
        """
        natural = self.family.natural(components)

        def each(features: Array, _: Array | None, scratch: Scratch) -> tuple[Array, Array]:
            logits = natural @ features
            return logits, posterior_in_place(logits[None], scratch)[0].copy()

        parts = list(self.chunks(each, 2 * len(natural)))
        return np.concatenate([p for p, _ in parts], axis=1), np.concatenate([d for _, d in parts])

    def features(self) -> Array:
        """Return the features of all rows, shape (width, n_rows)."""
        if self._kept is not None:
            return self._kept[0]
        return np.concatenate(list(self.chunks(lambda features, *_: features.copy(), 0)), axis=1)

    def coordinates(self) -> Array:
        """Return the rows in the frame, shape (n_features, n_rows)."""
        if self._kept is not None:
            return self._kept[0][1 : 1 + self.n_features]
        inside = []
        for block, _ in self.rows.read(max(64, CHUNK_SIZE // self.n_features)):
            inside.append(np.empty((self.n_features, block.shape[0])))
            self.frame.write(block, inside[-1])
        return np.concatenate(inside, axis=1)

    def row_weights(self) -> Array | None:
        """Return the weights of all rows, or None if they are all one."""
        if self._kept is not None:
            return self._kept[1]
        parts = list(self.chunks(lambda _, weights, __: weights, 0))
        return None if parts[0] is None else np.concatenate(parts)

    def subsample(self, n_rows: int, rng: np.random.Generator) -> Table:
        """Return a table of rows chosen at random, in a frame of their own weight but the same units."""
        available = self.n_rows if self.rows.n_rows is None else self.rows.n_rows
        if n_rows >= available:
            return self
        positions = np.sort(rng.choice(available, n_rows, replace=False))
        values, weights = gathered(self.rows, positions)
        weight = float(n_rows if weights is None else weights.sum())
        frame = replace(self.frame, n_rows=n_rows, weight=weight)
        return Table(open_rows(values, weights), self.family, frame, self.threads)


def _total_density(logits: Array, weights: Array | None, scratch: Scratch) -> Array:
    """Turn logits, (n_mixtures, n_components, n), into weighted posteriors; return the log-likelihoods."""
    n_mixtures, _, n = logits.shape
    largest, total = _exponentials(logits, scratch)
    inverse = np.divide(1.0, total, out=scratch("inverse", n_mixtures, n))
    if weights is None:
        # The logarithm of a product is cheaper than many logarithms; total is from 1 to n_components.
        together = max(1, min(64, int(600 / np.log(max(2, logits.shape[1])))))
        products = np.multiply.reduceat(total, np.arange(0, n, together), axis=1)
        logits *= inverse[:, None]
        return largest.sum(axis=1) + np.log(products).sum(axis=1)
    np.log(total, out=total)
    total += largest
    inverse *= weights
    logits *= inverse[:, None]
    return total @ weights


def posterior_in_place(logits: Array, scratch: Scratch) -> Array:
    """Turn logits, shape (n_mixtures, n_components, n), into posteriors; return the log-densities.

    Returns
    -------
    density : ndarray, shape (n_mixtures, n)
    """
    largest, total = _exponentials(logits, scratch)
    logits /= total[:, None]
    np.log(total, out=total)
    total += largest
    return total


def _exponentials(logits: Array, scratch: Scratch) -> tuple[Array, Array]:
    """Turn logits into exponentials of what they are below the largest; return the largest and the sums."""
    n_mixtures, _, n = logits.shape
    largest = np.max(logits, axis=1, out=scratch("largest", n_mixtures, n))
    logits -= largest[:, None]
    # Below that, exp is next to nothing; where it underflows, it takes four times as long.
    np.maximum(logits, LEAST_LOGIT, out=logits)
    np.exp(logits, out=logits)
    return largest, np.sum(logits, axis=1, out=scratch("total", n_mixtures, n))


@functools.cache
def _libraries() -> ThreadpoolController:
    """Return the linear algebra libraries that are loaded, looked up once."""
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Return a context in which products of matrices use one thread.

    Work is shared out by chunks of rows; for products of this size, threads of their own only wait.
    """
    return _libraries().limit(limits=1, user_api="blas")
