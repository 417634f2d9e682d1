"""Blocks of rows for the E-step: logits of the components, and sums under responsibilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.constants import MIN_LOGIT
from apolar._core.namespaces import as_float64, is_device_array, namespace, to_device_of, to_numpy, total
from apolar.data import Scratch
from apolar.em.whitening import Whitening
from apolar.moments.sums import row_squares


class Block(ABC):
    """Some rows, through linear functions of their row statistics (1, x, quadratics of x).

    All quantities are in whitened coordinates.

    Attributes
    ----------
    scratch : Scratch
        The working memory of the thread.
    """

    scratch: Scratch

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @abstractmethod
    def logits(self, natural: Array) -> Any:
        """Return natural parameters times row statistics, shape (len(natural), n_rows), in working memory."""

    @abstractmethod
    def stats(self, responsibilities: Any) -> Any:
        """Return the row statistics, summed under responsibilities of shape (n, n_rows).

        Responsibilities are on the device of the block: see `to_device`. The sums have shape (n, n_stats).
        """

    @abstractmethod
    def to_device(self, values: Array) -> Any:
        """Return an array of the host on the device of the block."""

    def e_step(self, natural: Array, weights: Any) -> tuple[Any, Any]:
        """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods.

        Parameters
        ----------
        natural : ndarray, shape (n_mixtures, n_components, n_stats)
            Natural parameters in whitened coordinates.
        weights : array or None, shape (n_rows,)

        Returns
        -------
        stats : array, shape (n_mixtures * n_components, n_stats)
        log_likelihood : array, shape (n_mixtures,)
        """
        n_mixtures, n_components, n_stats = natural.shape
        logits = self.logits(natural.reshape(-1, n_stats))
        xp = namespace(logits)
        responsibilities, log_likelihood = weighted_posteriors(
            xp.reshape(logits, (n_mixtures, n_components, self.n_rows)), weights, self.scratch
        )
        flat = xp.reshape(responsibilities, (n_mixtures * n_components, self.n_rows))
        return self.stats(flat), log_likelihood

    def nearest_stats(self, natural: Array, weights: Any) -> Any:
        """Return the row statistics of the rows whose logit of a component is the largest.

        Parameters
        ----------
        natural : ndarray, shape (n_components, n_stats)
            Natural parameters; those of the quadratics are zero.
        weights : array or None, shape (n_rows,)

        Returns
        -------
        stats : array, shape (n_components, n_stats)
        """
        logits = self.logits(natural)
        xp = namespace(logits)
        nearest = xp.argmax(logits, axis=0)
        responsibilities = xp.stack([xp.astype(nearest == k, logits.dtype) for k in range(len(natural))])
        return self.stats(responsibilities if weights is None else responsibilities * weights)

    def responsibilities(self, natural: Array) -> tuple[Any, Any]:
        """Return the responsibilities, shape (n_components, n_rows), and log-densities, shape (n_rows,).

        `natural` are the parameters of one mixture, shape (n_components, n_stats), in whitened coordinates.
        """
        logits = self.logits(natural)
        # A copy, as the next block uses the same working memory.
        copied = namespace(logits).asarray(logits, copy=True)
        responsibilities, density = posteriors(copied[None, ...], self.scratch)
        return responsibilities[0, ...], density[0, ...]

    def labels(self, natural: Array) -> Any:
        """Return the most probable component of each row."""
        responsibilities = self.responsibilities(natural)[0]
        return namespace(responsibilities).argmax(responsibilities, axis=0)

    def probabilities(self, natural: Array) -> Any:
        """Return the responsibilities, shape (n_rows, n_components)."""
        by_row = self.responsibilities(natural)[0].T
        return np.ascontiguousarray(by_row) if isinstance(by_row, np.ndarray) else by_row

    def log_densities(self, natural: Array) -> Any:
        """Return the log-density of each row, in whitened coordinates."""
        return self.responsibilities(natural)[1]

    def density_sums(self, natural: Array, weights: Any) -> tuple[Any, Any, Any]:
        """Return the sums of log-densities, of logarithms of the largest responsibilities, and of weights."""
        responsibilities, density = self.responsibilities(natural)
        xp = namespace(responsibilities)
        certainty = xp.log(xp.max(responsibilities, axis=0))
        if weights is None:
            return total(density), total(certainty), self.n_rows
        return total(density * weights), total(certainty * weights), total(weights)


class StatsBlock(Block):
    """Rows whose statistics, in whitened coordinates, are stored as an array.

    Parameters
    ----------
    row_stats : array, shape (n_stats, n_rows)
    scratch : Scratch
    """

    def __init__(self, row_stats: Any, scratch: Scratch) -> None:
        self.row_stats, self.scratch = row_stats, scratch

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.row_stats.shape[1])

    def logits(self, natural: Array) -> Any:
        """Return natural parameters times row statistics."""
        return self.scratch.matmul("logits", to_device_of(natural, self.row_stats), self.row_stats)

    def stats(self, responsibilities: Any) -> Any:
        """Return the row statistics, summed under responsibilities."""
        return responsibilities @ self.row_stats.T

    def to_device(self, values: Array) -> Any:
        """Return an array of the host on the device of the block."""
        return to_device_of(values, self.row_stats)


class RawBlock(Block):
    """Rows as the user stored them, dense or sparse, for families whose only quadratic is |x|^2.

    The whitening is applied to the parameters in place of the rows, which are not copied.

    Parameters
    ----------
    values : ndarray or CSR matrix of float64, shape (n_rows, n_features)
    squares : ndarray, shape (n_rows,)
        The squared length of each row in whitened coordinates.
    whitening : Whitening
    scratch : Scratch
    """

    def __init__(self, values: Any, squares: Array, whitening: Whitening, scratch: Scratch) -> None:
        self.values, self.squares, self.whitening, self.scratch = values, squares, whitening, scratch

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

    def logits(self, natural: Array) -> Array:
        """Return natural parameters times row statistics."""
        linear = np.ascontiguousarray(natural[:, 1:-1]) * float(self.whitening.matrix)
        constants = (natural[:, 0] - linear @ self.whitening.centre)[:, None]
        if sparse.issparse(self.values):
            logits = np.ascontiguousarray((self.values @ linear.T).T)
        else:
            logits = self.scratch.matmul("logits", linear, self.values.T)
        other_terms = self.scratch.multiply("other terms", natural[:, -1:], self.squares[None])
        other_terms += constants
        logits += other_terms
        return logits

    def stats(self, responsibilities: Array) -> Array:
        """Return the row statistics, summed under responsibilities."""
        stats = np.empty((len(responsibilities), self.values.shape[1] + 2))
        stats[:, 0] = responsibilities.sum(axis=1)
        if sparse.issparse(self.values):
            first = (self.values.T @ responsibilities.T).T
        else:
            first = responsibilities @ self.values
        stats[:, 1:-1] = (first - stats[:, :1] * self.whitening.centre) * float(self.whitening.matrix)
        stats[:, -1] = responsibilities @ self.squares
        return stats

    def to_device(self, values: Array) -> Array:
        """Return the array: the block is on the host."""
        return values


def weights_to_device_of(weights: Any, array: Any) -> Any:
    """Return weights in double precision on the device of an array, or None."""
    if weights is None:
        return None
    if is_device_array(weights):
        return as_float64(weights) if is_device_array(array) else to_numpy(weights)
    return to_device_of(np.asarray(weights, np.float64), array)


def squares_about(block: Any, whitening: Whitening) -> Array:
    """Return the squared length of each row, dense or sparse, in coordinates whitened by one unit."""
    centre, unit = whitening.centre, float(whitening.matrix)
    if sparse.issparse(block):
        squares = row_squares(block) - 2 * (block @ centre) + centre @ centre
        return np.maximum(squares, 0.0) * unit**2
    # Scaled first: squares of the stored values may overflow.
    return row_squares((block - centre) * unit)


def weighted_posteriors(logits: Any, weights: Any, scratch: Scratch) -> tuple[Any, Any]:
    """Return responsibilities times the weights of the rows, and log-likelihoods, from logits.

    Parameters
    ----------
    logits : array, shape (n_mixtures, n_components, n_rows)
        Overwritten.
    weights : array or None, shape (n_rows,)
    scratch : Scratch

    Returns
    -------
    responsibilities : array, shape (n_mixtures, n_components, n_rows)
    log_likelihood : array, shape (n_mixtures,)
    """
    xp = namespace(logits)
    n_rows = logits.shape[2]
    exponentials, largest, sums = _exponentials(logits, scratch)
    if xp is not np:
        density = largest + xp.log(sums)
        factor = 1 / sums
        if weights is not None:
            density, factor = density * weights, factor * weights
        exponentials *= factor[:, None, :]
        return exponentials, xp.sum(density, axis=1)
    factor = np.divide(1.0, sums, out=scratch("inverse", *sums.shape))
    if weights is None:
        # One logarithm of a product is cheaper than many logarithms. Each factor is from 1 to n_components:
        # products of this many do not overflow.
        n_factors = max(1, min(64, int(600 / np.log(max(2, logits.shape[1])))))
        products = np.multiply.reduceat(sums, np.arange(0, n_rows, n_factors), axis=1)
        exponentials *= factor[:, None]
        return exponentials, largest.sum(axis=1) + np.log(products).sum(axis=1)
    np.log(sums, out=sums)
    sums += largest
    factor *= weights
    exponentials *= factor[:, None]
    return exponentials, sums @ weights


def posteriors(logits: Any, scratch: Scratch) -> tuple[Any, Any]:
    """Return responsibilities and log-densities from logits, shape (n_mixtures, n_components, n).

    The logits are overwritten.

    Returns
    -------
    responsibilities : array, shape (n_mixtures, n_components, n)
    density : array, shape (n_mixtures, n)
    """
    exponentials, largest, sums = _exponentials(logits, scratch)
    exponentials /= sums[:, None, :]
    return exponentials, namespace(sums).log(sums) + largest


def _exponentials(logits: Any, scratch: Scratch) -> tuple[Any, Any, Any]:
    """Return exponentials of logits relative to the largest of each row, the largest, and their sums."""
    largest = scratch.max("largest", logits, axis=1)
    logits -= largest[:, None, :]
    if isinstance(logits, np.ndarray):
        # Such small exponentials do not count, and where exp underflows it takes four times as long.
        np.maximum(logits, MIN_LOGIT, out=logits)
        np.exp(logits, out=logits)
    else:
        logits = namespace(logits).exp(logits)
    return logits, largest, scratch.sum("total", logits, axis=1)
