"""Answers for each row under one mixture: its label, its responsibilities, its log-density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apolar._core.arrays import Array
from apolar._core.namespaces import to_numpy
from apolar.em.blocks import Block


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
