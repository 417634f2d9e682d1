"""Functions of a block of rows in whitened coordinates: the sums that EM needs, and answers for each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import to_numpy
from apolar.em.blocks import Block


@dataclass(frozen=True, eq=False)
class EStep:
    """The E-step of a batch of mixtures: sufficient statistics, as one matrix, and log-likelihoods.

    Attributes
    ----------
    natural : ndarray, shape (n_mixtures, n_components, n_stats)
        Natural parameters in whitened coordinates.
    """

    natural: Array

    @property
    def n_working(self) -> int:
        """The working memory per row, in numbers."""
        return 2 * self.natural.shape[0] * self.natural.shape[1]

    def __call__(self, block: Block, weights: Any) -> tuple[Any, Any]:
        """Return the sums over a block."""
        return block.e_step(self.natural, weights)


@dataclass(frozen=True, eq=False)
class NearestStats:
    """The sufficient statistics of the rows nearest to each of some means.

    Attributes
    ----------
    means : ndarray, shape (n_means, n_features)
        In whitened coordinates.
    n_stats : int
    """

    means: Array
    n_stats: int

    @property
    def n_working(self) -> int:
        """The working memory per row, in numbers."""
        return 2 * len(self.means)

    def __call__(self, block: Block, weights: Any) -> tuple[Any]:
        """Return the sums over a block."""
        n_means, n_features = self.means.shape
        # Natural parameters whose logits are minus half the squared distance, up to a term of the row alone.
        nearness = np.zeros((n_means, self.n_stats))
        nearness[:, 0] = -0.5 * np.einsum("ij,ij->i", self.means, self.means)
        nearness[:, 1 : 1 + n_features] = self.means
        return (block.nearest_stats(nearness, weights),)


@dataclass(frozen=True, eq=False)
class LogDensity:
    """The sums of log-density, of the logarithm of the largest responsibility, and of the weights of rows.

    Attributes
    ----------
    natural : ndarray, shape (n_components, n_stats)
        Natural parameters of one mixture in whitened coordinates.
    """

    natural: Array

    @property
    def n_working(self) -> int:
        """The working memory per row, in numbers."""
        return 3 * len(self.natural)

    def __call__(self, block: Block, weights: Any) -> tuple[Any, Any, Any]:
        """Return the sums over a block."""
        return block.density_sums(self.natural, weights)


@dataclass(frozen=True, eq=False)
class RowAnswers:
    """An answer for each row of a block.

    Attributes
    ----------
    natural : ndarray, shape (n_components, n_stats)
        Natural parameters of one mixture in whitened coordinates.
    answer : callable
        Takes a block, the natural parameters, and `offset`.
    offset : float
        What is added to log-densities.
    to_host : bool, default=False
        Whether answers for rows on a device are copied to the host.
    """

    natural: Array
    answer: Callable[[Block, Array, float], Any]
    offset: float
    to_host: bool = False

    @property
    def n_working(self) -> int:
        """The working memory per row, in numbers."""
        return 2 * len(self.natural)

    def __call__(self, block: Block, _: Any) -> Any:
        """Return the answers for the rows of a block."""
        answers = self.answer(block, self.natural, self.offset)
        return to_numpy(answers) if self.to_host else answers
