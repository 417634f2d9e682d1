"""The pair of groups that costs least to merge, updated from one merge to the next."""

import numpy as np

from apolar._core.arrays import Array
from apolar.starts.merge_criteria import Groups


class NearestPairs:
    """For each position, the least cost of a merge with one of the positions before it.

    Stored are that cost, its position, and a lower bound on all other costs. When the partner of a position
    is merged away, only the bound remains (`_partners` is then -1); the costs of the position are recomputed
    only if the bound becomes the least of all.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._least = np.full(groups.count, np.inf)
        self._others = np.full(groups.count, np.inf)
        self._partners = np.full(groups.count, -1)
        for position in range(1, groups.count):
            self._set(position, groups.costs(position, position))

    def nearest(self) -> tuple[int, int, float]:
        """Return the positions of the pair that costs least, the smaller first, and the cost.

        Of several such pairs it is the last one in the order of (second, first).
        """
        while True:
            least = self._least[: self._groups.count]
            second = len(least) - 1 - int(least[::-1].argmin())
            if self._partners[second] >= 0:
                return int(self._partners[second]), second, float(least[second])
            self._set(second, self._groups.costs(second, second))

    def update(self, first: int, second: int) -> None:
        """Update the costs after the groups in two positions were merged."""
        count = self._groups.count
        partners = self._partners[:count]
        lost = np.flatnonzero((partners == first) | (partners == second))
        partners[lost] = -1
        self._least[lost] = self._others[lost]
        self._update_position(first)
        if second < count:
            self._update_position(second)

    def _update_position(self, position: int) -> None:
        """Update the costs for the new group in a position."""
        count = self._groups.count
        costs = self._groups.costs(position, count)
        if position > 0:
            self._set(position, costs[:position])
        costs = costs[position + 1 :]
        after = slice(position + 1, count)
        least, others, partners = self._least[after], self._others[after], self._partners[after]
        # Of the old least cost, the old bound and the new cost, the smallest becomes the least cost, and the
        # second smallest the bound.
        np.minimum(others, costs, out=others)
        np.maximum(others, least, out=others)
        # On ties the last position wins. A tie with a bound does not tell which position the bound is of.
        tied = (costs == least) & (partners >= 0)
        partners[tied] = np.maximum(partners[tied], position)
        partners[costs < least] = position
        np.minimum(least, costs, out=least)

    def _set(self, position: int, costs: Array) -> None:
        """Set the least cost of a position, from its costs with all positions before it; changes `costs`."""
        partner = int(costs.argmin())
        least = costs[partner]
        costs[partner] = np.inf
        others = costs.min()
        if others == least:
            partner = int(np.flatnonzero(costs == least)[-1])
        self._least[position], self._others[position], self._partners[position] = least, others, partner
