"""Groups of rows that are merged in pairs, and the increase of the criterion by each merge.

The cost of a pair must be the same to the last bit, whichever of the two groups it is computed for and in
whatever array, or rounding would break ties. So no sum or product depends on the order of the two groups, and
sums over features are taken one feature at a time. The formulas are those of mclust even where shorter ones
exist: on data of few decimals rounding decides between equal costs, and must decide as it does in mclust.
"""

from abc import ABC, abstractmethod

import numpy as np

from apolar._core.arrays import Array


class Groups(ABC):
    """The groups that are left, in positions 0 to count - 1.

    The positions are part of the rule for ties: a union takes the position of the first of the two, and the
    last group moves to that of the second.
    """

    def __init__(self, X: Array, sizes: Array | None = None) -> None:
        self.count = len(X)
        self._names = np.arange(len(X))
        self._sizes = np.ones(len(X)) if sizes is None else sizes.astype(np.float64)

    @abstractmethod
    def costs(self, position: int, stop: int) -> Array:
        """Return the increases of the criterion by merging a group with those in positions 0 to `stop` - 1.

        The entry of the group itself has no meaning. The caller may change the array.
        """

    @abstractmethod
    def _join(self, first: int, second: int) -> None:
        """Replace the first group by the union of the two, except for name and size."""

    @abstractmethod
    def _move(self, source: int, target: int) -> None:
        """Copy a group to another position, except for name and size."""

    def merge(self, first: int, second: int) -> tuple[int, int]:
        """Merge the groups in two positions, and return their names, the smaller first."""
        self._join(first, second)
        self._sizes[first] += self._sizes[second]
        names = sorted((int(self._names[first]), int(self._names[second])))
        self._names[first] = names[0]
        self.count -= 1
        self._sizes[second] = self._sizes[self.count]
        self._names[second] = self._names[self.count]
        self._move(self.count, second)
        return names[0], names[1]


class LogScatters(Groups):
    """Groups under "VII": a group of c rows has the term c log((tr W + a) / c)."""

    def __init__(self, X: Array, sizes: Array | None = None) -> None:
        super().__init__(X, sizes)
        sizes = self._sizes
        # The sums over the rows of each group, divided by the square root of its size: one column per group.
        self._sums = X.T * np.sqrt(sizes)
        self._scatters = np.zeros(len(X))
        self._spread = spread_of(X, sizes)
        self._terms = self._term(self._sizes, self._scatters)

    def costs(self, position: int, stop: int) -> Array:
        """Return the costs, from the scatters of the unions."""
        sizes, scatters = self._unions(position, slice(0, stop))
        costs = self._term(sizes, scatters)
        costs -= self._terms[:stop] + self._terms[position]
        return costs

    def _unions(self, position: int, others: slice) -> tuple[Array, Array]:
        """Return the sizes and the scatters of the unions of a group with others."""
        size, other_sizes = self._sizes[position], self._sizes[others]
        sizes = other_sizes + size
        factor, other_factor = np.sqrt(size / sizes), np.sqrt(other_sizes / sizes)
        squares = np.zeros(len(sizes))
        for column in self._sums:
            difference = column[others] * factor
            difference -= column[position] * other_factor
            difference *= difference
            squares += difference
        squares += self._scatters[others] + self._scatters[position]
        return sizes, squares

    def _term(self, sizes: Array, scatters: Array) -> Array:
        terms = scatters + self._spread
        terms /= sizes
        np.log(terms, out=terms)
        terms *= sizes
        return terms

    def _join(self, first: int, second: int) -> None:
        union = slice(first, first + 1)
        sizes, scatters = self._unions(second, union)
        self._scatters[union], self._terms[union] = scatters, self._term(sizes, scatters)
        factor, other_factor = np.sqrt(self._sizes[[first, second]] / sizes)
        self._sums[:, first] = self._sums[:, first] * factor + self._sums[:, second] * other_factor

    def _move(self, source: int, target: int) -> None:
        self._sums[:, target] = self._sums[:, source]
        self._scatters[target] = self._scatters[source]
        self._terms[target] = self._terms[source]


class Scatters(Groups):
    """Groups under "EII": a group has the term tr W.

    The costs of a union follow from those of its parts by the recurrence of Lance and Williams. The matrix of
    all costs is stored, as mclust does: computing costs from means and sizes would round differently.
    """

    def __init__(self, X: Array, sizes: Array | None = None) -> None:
        super().__init__(X, sizes)
        sizes = self._sizes
        self._costs = np.zeros((len(X), len(X)))
        columns = np.sqrt(0.5) * X.T
        for position, costs in enumerate(self._costs):
            for column in columns:
                difference = column - column[position]
                difference *= difference
                costs += difference
            # The product of the sizes over their sum: for two single rows, half their squared distance.
            costs *= 2 * sizes[position] * sizes / (sizes[position] + sizes)

    def costs(self, position: int, stop: int) -> Array:
        """Return the costs, from the stored matrix."""
        return self._costs[position, :stop].copy()

    def _join(self, first: int, second: int) -> None:
        others = self._sizes[: self.count]
        costs = (others + self._sizes[first]) * self._costs[first, : self.count]
        costs += (others + self._sizes[second]) * self._costs[second, : self.count]
        costs -= others * self._costs[first, second]
        costs /= others + (self._sizes[first] + self._sizes[second])
        self._costs[first, : self.count] = self._costs[: self.count, first] = costs

    def _move(self, source: int, target: int) -> None:
        self._costs[target, : self.count] = self._costs[source, : self.count]
        self._costs[: self.count, target] = self._costs[: self.count, source]


CRITERIA: dict[str, type[Groups]] = {"VII": LogScatters, "EII": Scatters}


def spread_of(X: Array, sizes: Array | None = None) -> float:
    """Return what is added to each scatter under "VII": the mean variance of the data."""
    # mclust raises it to at least machine epsilon, which makes costs depend on the units of the data; here
    # there is no such floor. If all rows are equal, any spread gives the same costs.
    return mean_variance(X, sizes) or 1.0


def mean_variance(X: Array, sizes: Array | None = None) -> float:
    """Return the variance of the columns (divided by n_samples), averaged."""
    if sizes is None or np.all(sizes == 1):
        return float(np.sum((X - X.mean(axis=0)) ** 2)) / max(X.size, 1)
    centred = X - np.average(X, axis=0, weights=sizes)
    return float(np.sum(sizes @ centred**2)) / max(float(sizes.sum()) * X.shape[1], 1.0)
