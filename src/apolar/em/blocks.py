"""A chunk of rows, as the E-step sees it: logits, and sums under shares of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, to_device_of
from apolar.data import Scratch
from apolar.em.whitening import Whitening
from apolar.moments.sums import row_squares

# The least difference of log-densities that counts: exp(-100) is 4e-44.
LEAST_LOGIT = -100.0


class Chunk(Protocol):
    """Some rows: what is linear in their features (1, x, quadratics of x), without saying how they are kept.

    Attributes
    ----------
    n : int
        The number of rows.
    weights : array or None
    scratch : Scratch
    """

    n: int
    weights: Any
    scratch: Scratch

    def logits(self, natural: Array) -> Any:
        """Return natural parameters times features, shape (len(natural), n), in working memory."""

    def stats(self, shares: Any) -> Any:
        """Return the sums of the features under shares of the rows, shape (n_shares, width)."""


@dataclass(frozen=True, eq=False)
class Written:
    """Rows whose features, in the frame, are written out: shape (width, n)."""

    features: Any
    weights: Any
    scratch: Scratch

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.features.shape[1])

    def logits(self, natural: Array) -> Any:
        """Return natural parameters times features."""
        return self.scratch.matmul("logits", to_device_of(natural, self.features), self.features)

    def stats(self, shares: Any) -> Any:
        """Return the sums of the features under shares of the rows."""
        return shares @ self.features.T


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows as they are stored, dense or sparse, for families whose only quadratic is |x|^2.

    Centre and unit of the frame go into the parameters; nothing is copied.
    """

    block: Any
    squares: Array
    weights: Any
    scratch: Scratch
    whitening: Whitening

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.block.shape[0])

    def logits(self, natural: Array) -> Array:
        """Return natural parameters times features."""
        linear = np.ascontiguousarray(natural[:, 1:-1]) * float(self.whitening.matrix)
        constants = (natural[:, 0] - linear @ self.whitening.centre)[:, None]
        if sparse.issparse(self.block):
            logits = np.ascontiguousarray((self.block @ linear.T).T)
        else:
            logits = self.scratch.matmul("logits", linear, self.block.T)
        bent = self.scratch.multiply("bent", natural[:, -1:], self.squares[None])
        bent += constants
        logits += bent
        return logits

    def stats(self, shares: Array) -> Array:
        """Return the sums of the features under shares of the rows."""
        found = np.empty((len(shares), self.block.shape[1] + 2))
        found[:, 0] = shares.sum(axis=1)
        first = (self.block.T @ shares.T).T if sparse.issparse(self.block) else shares @ self.block
        found[:, 1:-1] = (first - found[:, :1] * self.whitening.centre) * float(self.whitening.matrix)
        found[:, -1] = shares @ self.squares
        return found


def squares_about(block: Any, whitening: Whitening) -> Array:
    """Return the squared distance of each row, dense or sparse, from the centre of a frame, in its units."""
    centre, unit = whitening.centre, float(whitening.matrix)
    if sparse.issparse(block):
        squares = row_squares(block) - 2 * (block @ centre) + centre @ centre
        return np.maximum(squares, 0.0) * unit**2
    # In units first: squares of the numbers themselves may not be numbers.
    return row_squares((block - centre) * unit)


def total_density(logits: Any, weights: Any, scratch: Scratch) -> tuple[Any, Any]:
    """Turn logits, (n_mixtures, n_components, n), into weighted posteriors; return these and log-likelihoods.

    The logits are written over.
    """
    xp = namespace(logits)
    n = logits.shape[2]
    logits, largest, stats = _exponentials(logits, scratch)
    if xp is not np:
        density = largest + xp.log(stats)
        share = 1 / stats
        if weights is not None:
            density, share = density * weights, share * weights
        logits *= share[:, None, :]
        return logits, xp.sum(density, axis=1)
    inverse = np.divide(1.0, stats, out=scratch("inverse", *stats.shape))
    if weights is None:
        # The logarithm of a product is cheaper than many logarithms; each is from 1 to n_components.
        together = max(1, min(64, int(600 / np.log(max(2, logits.shape[1])))))
        products = np.multiply.reduceat(stats, np.arange(0, n, together), axis=1)
        logits *= inverse[:, None]
        return logits, largest.sum(axis=1) + np.log(products).sum(axis=1)
    np.log(stats, out=stats)
    stats += largest
    inverse *= weights
    logits *= inverse[:, None]
    return logits, stats @ weights


def posteriors(logits: Any, scratch: Scratch) -> tuple[Any, Any]:
    """Turn logits, shape (n_mixtures, n_components, n), into posteriors and log-densities.

    The logits are written over.

    Returns
    -------
    posteriors : array, shape (n_mixtures, n_components, n)
    density : array, shape (n_mixtures, n)
    """
    logits, largest, stats = _exponentials(logits, scratch)
    logits /= stats[:, None, :]
    return logits, namespace(logits).log(stats) + largest


def _exponentials(logits: Any, scratch: Scratch) -> tuple[Any, Any, Any]:
    """Return exponentials of what logits are below the largest, the largest, and the sums."""
    largest = scratch.max("largest", logits, axis=1)
    logits -= largest[:, None, :]
    if isinstance(logits, np.ndarray):
        # Below that, exp is next to nothing; where it underflows, it takes four times as long.
        np.maximum(logits, LEAST_LOGIT, out=logits)
        np.exp(logits, out=logits)
    else:
        logits = namespace(logits).exp(logits)
    return logits, largest, scratch.sum("total", logits, axis=1)
