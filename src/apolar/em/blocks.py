"""Blocks of rows for the E-step: logits of the components, and sums under responsibilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import MIN_LOGIT
from apolar._core.namespaces import as_float64, is_device_array, namespace, to_device_of, to_numpy, total
from apolar.data import thread_scratch
from apolar.em.whitening import Whitening
from apolar.moments.sums import row_squares


class Block(ABC):
    """Some rows, through linear functions of their row statistics (1, x, quadratics of x).

    All quantities are in whitened coordinates.

    Parameters
    ----------
    weights : array or None, shape (n_rows,)
        Of the rows, in double precision and where the rows are.

    Attributes
    ----------
    scratch : Scratch
        The working memory of the thread.
    """

    def __init__(self, weights: Any) -> None:
        self.weights, self.scratch = weights, thread_scratch()

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @abstractmethod
    def logits(self, natural: Array) -> Any:
        """Return natural parameters times row statistics, shape (len(natural), n_rows), in working memory."""

    @abstractmethod
    def stats(self, responsibilities: Any) -> Any:
        """Return the row statistics, shape (n, n_stats), summed under responsibilities, shape (n, n_rows).

        The weights of the rows do not count.
        """

    def e_step(self, natural: Array, *, is_hard: bool = False) -> tuple[Any, Any]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods.

        Parameters
        ----------
        natural : ndarray, shape (n_mixtures, n_components, n_stats)
            Natural parameters in whitened coordinates.
        is_hard : bool, default=False
            Whether each row counts for the component of its largest logit alone. It is one mixture, whose
            parameters of the quadratics are zero, and the likelihood is meaningless.

        Returns
        -------
        stats : array, shape (n_mixtures * n_components, n_stats)
        log_likelihood : array, shape (n_mixtures,)
        """
        n_mixtures, n_components, n_stats = natural.shape
        logits = self.logits(natural.reshape(-1, n_stats))
        xp = namespace(logits)
        if is_hard:
            nearest = xp.argmax(logits, axis=0)
            hard = xp.stack([xp.astype(nearest == k, logits.dtype) for k in range(n_components)])
            return self.stats(hard if self.weights is None else hard * self.weights), np.zeros(1)
        shape = n_mixtures, n_components, self.n_rows
        responsibilities, densities = posteriors(xp.reshape(logits, shape))
        if self.weights is not None:
            responsibilities *= self.weights
            densities *= self.weights
        flat = xp.reshape(responsibilities, (n_mixtures * n_components, self.n_rows))
        return self.stats(flat), xp.sum(densities, axis=1)

    def posteriors(self, natural: Array, what: str) -> Any:
        """Return what one mixture says about each row.

        Parameters
        ----------
        natural : ndarray, shape (n_components, n_stats)
            Natural parameters in whitened coordinates.
        what : {"labels", "probabilities", "densities", "logits", "both", "sums"}
            The most probable component of each row; the responsibilities, shape (n_rows, n_components);
            log-densities; logarithms of weighted densities, shape (n_components, n_rows); responsibilities,
            shape (n_components, n_rows), and log-densities; or the weighted sums of log-densities, of
            logarithms of the largest responsibilities, and of ones.

        Returns
        -------
        answer : array or tuple
        """
        logits = self.logits(natural)
        xp = namespace(logits)
        # A copy, as the next block uses the same working memory.
        logits = xp.asarray(logits, copy=True)
        if what == "logits":
            return logits
        responsibilities, densities = (part[0, ...] for part in posteriors(logits[None, ...]))
        if what == "both":
            return responsibilities, densities
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
        super().__init__(weights)
        self.row_stats = row_stats

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.row_stats.shape[1])

    def logits(self, natural: Array) -> Any:
        """Return natural parameters times row statistics."""
        return self.scratch.compute("matmul", "logits", to_device_of(natural, self.row_stats), self.row_stats)

    def stats(self, responsibilities: Any) -> Any:
        """Return the row statistics, summed under responsibilities."""
        if isinstance(responsibilities, np.ndarray):
            responsibilities = to_device_of(responsibilities, self.row_stats)
        return responsibilities @ self.row_stats.T


class RawBlock(Block):
    """Sparse rows as the user stored them, for families whose only quadratic is |x|^2.

    The whitening is applied to the parameters in place of the rows, which are not copied.

    Parameters
    ----------
    values : CSR matrix, shape (n_rows, n_features)
    weights : ndarray or None, shape (n_rows,)
    whitening : Whitening
    squares : ndarray, shape (n_rows,), optional
        The squared length of each row in whitened coordinates.
    """

    def __init__(self, values: Any, weights: Any, whitening: Whitening, squares: Array | None = None) -> None:
        super().__init__(weights)
        self.values, self.whitening = values.astype(np.float64, copy=False), whitening
        self.squares = squares_about(values, whitening) if squares is None else squares

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

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


def squares_about(rows: Any, whitening: Whitening) -> Array:
    """Return the squared length of each row of a CSR matrix, in coordinates whitened by one unit."""
    # Rows may be of small integers, whose squares would overflow.
    rows, centre = rows.astype(np.float64, copy=False), whitening.centre
    squares = row_squares(rows) - 2 * (rows @ centre) + centre @ centre
    return np.maximum(squares, 0.0) * float(whitening.matrix) ** 2


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
