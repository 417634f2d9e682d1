"""What a start is, and what the table of starts says about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from apolar.em.low_density import with_noise_share
from apolar.em.result import FitResult
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior

__all__ = ["Start", "StartEntry", "StartSearch", "StartSearchEntry", "as_start_with_noise"]

# Starts that do not need all rows see at most this many.
MOST_ROWS = 20_000


class Start(Protocol):
    """A way to make the mixture that EM starts from."""

    def __call__(
        self, data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator, /
    ) -> WhitenedParameters:
        """Return a mixture of exactly `n_components` components, of the family of the data.

        Parameters
        ----------
        data : WhitenedData
            All rows, or a sample of distinct rows with weights, as the entry of the start asks for.
        n_components : int
        prior : Prior or None
        rng : numpy.random.Generator

        Returns
        -------
        parameters : WhitenedParameters

        Raises
        ------
        ValueError
            If the start does not apply to these data, with the reason.
        """


class StartSearch(Protocol):
    """A way to make several mixtures, of which the best are run to their optima."""

    def __call__(
        self, data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator, /
    ) -> list[FitResult]:
        """Return candidates, the best first; parameters as in `Start`."""


def as_start_with_noise(start: FitResult, share: float) -> FitResult:
    """Return a start on rows without noise as one beside noise of a share."""
    return replace(start, parameters=with_noise_share(start.parameters, share), is_from_all_rows=False)


@dataclass(frozen=True, eq=False)
class StartEntry:
    """One entry of the table of starts.

    Attributes
    ----------
    start : Start
    sees_all_rows : bool
        Whether `start` is called with all rows, and not with the distinct rows of a sample.
    fallback : str or None
        The name of the start to use where this one does not apply. None: its error is raised.
    """

    start: Start
    sees_all_rows: bool = False
    fallback: str | None = None

    def candidates(
        self, name: str, data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
    ) -> list[FitResult]:
        """Return the mixture of the start, as the only candidate of that name."""
        if self.sees_all_rows:
            # Moments describe spherical components: for other families they are only a rough start.
            is_exact = data.family.is_spherical
            return [FitResult(self.start(data, n_components, prior, rng), name, is_from_all_rows=is_exact)]
        sample = data.subsample(MOST_ROWS, rng).distinct()
        return [FitResult(self.start(sample, n_components, prior, rng), name)]


@dataclass(frozen=True, eq=False)
class StartSearchEntry:
    """An entry of the table that searches among several starts, on a sample that it draws itself.

    Attributes
    ----------
    search : StartSearch
    """

    search: StartSearch
    sees_all_rows = False
    fallback = None

    def candidates(
        self, _: str, data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
    ) -> list[FitResult]:
        """Return the candidates of the search, each under the name of the start that it came from."""
        return self.search(data, n_components, prior, rng)
