"""A chunk of rows, as the E-step sees it: logits, and sums under shares of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from apolar._arrays import Array
from apolar._namespaces import beside, namespace
from apolar._rows import Scratch
from apolar.em.frame import Frame
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

    def sums(self, shares: Any) -> Any:
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
        return self.scratch.matmul("logits", beside(natural, self.features), self.features)

    def sums(self, shares: Any) -> Any:
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
    frame: Frame

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.block.shape[0])

    def logits(self, natural: Array) -> Array:
        """Return natural parameters times features."""
        linear = np.ascontiguousarray(natural[:, 1:-1]) * float(self.frame.matrix)
        constants = (natural[:, 0] - linear @ self.frame.centre)[:, None]
        if sparse.issparse(self.block):
            logits = np.ascontiguousarray((self.block @ linear.T).T)
        else:
            logits = self.scratch.matmul("logits", linear, self.block.T)
        bent = self.scratch.multiply("bent", natural[:, -1:], self.squares[None])
        bent += constants
        logits += bent
        return logits

    def sums(self, shares: Array) -> Array:
        """Return the sums of the features under shares of the rows."""
        found = np.empty((len(shares), self.block.shape[1] + 2))
        found[:, 0] = shares.sum(axis=1)
        first = (self.block.T @ shares.T).T if sparse.issparse(self.block) else shares @ self.block
        found[:, 1:-1] = (first - found[:, :1] * self.frame.centre) * float(self.frame.matrix)
        found[:, -1] = shares @ self.squares
        return found


def squares_about(block: Any, frame: Frame) -> Array:
    """Return the squared distance of each row, dense or sparse, from the centre of a frame, in its units."""
    centre, unit = frame.centre, float(frame.matrix)
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
    logits, largest, sums = _exponentials(logits, scratch)
    if xp is not np:
        density = largest + xp.log(sums)
        share = 1 / sums
        if weights is not None:
            density, share = density * weights, share * weights
        logits *= share[:, None, :]
        return logits, xp.sum(density, axis=1)
    inverse = np.divide(1.0, sums, out=scratch("inverse", *sums.shape))
    if weights is None:
        # The logarithm of a product is cheaper than many logarithms; each is from 1 to n_components.
        together = max(1, min(64, int(600 / np.log(max(2, logits.shape[1])))))
        products = np.multiply.reduceat(sums, np.arange(0, n, together), axis=1)
        logits *= inverse[:, None]
        return logits, largest.sum(axis=1) + np.log(products).sum(axis=1)
    np.log(sums, out=sums)
    sums += largest
    inverse *= weights
    logits *= inverse[:, None]
    return logits, sums @ weights


def posteriors(logits: Any, scratch: Scratch) -> tuple[Any, Any]:
    """Turn logits, shape (n_mixtures, n_components, n), into posteriors and log-densities.

    The logits are written over.

    Returns
    -------
    posteriors : array, shape (n_mixtures, n_components, n)
    density : array, shape (n_mixtures, n)
    """
    logits, largest, sums = _exponentials(logits, scratch)
    logits /= sums[:, None, :]
    return logits, namespace(logits).log(sums) + largest


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
