"""Kruskal's theorem for powers: a proof that no other terms have the same sum."""

from functools import cached_property
from itertools import combinations_with_replacement

from apolar._core.arrays import IndexArray
from apolar.decomposition.proofs import modular
from apolar.tensor import n_monomials

# Multiplications for the rank, and for the Kruskal rank, of the powers of one degree.
RANK_WORK = 1e8
KRUSKAL_WORK = 5e6


class PowerRanks:
    """Ranks of the powers v_i^k of some points, bounded from below.

    Parameters
    ----------
    points : ndarray of int, shape (rank, dim)
        Residues.
    """

    def __init__(self, points: IndexArray) -> None:
        self.points = points
        self._kruskal: dict[int, int] = {}

    @cached_property
    def independent_from(self) -> int | None:
        """The least degree whose powers are proved independent, as are those above; None if none is found."""
        n_points, dim = self.points.shape
        for degree in range(1, n_points + 1):
            if n_monomials(dim, degree) * n_points**2 > RANK_WORK:
                return None
            if n_monomials(dim, degree) >= n_points and self._rank(degree) == n_points:
                return degree
        return None

    def independent(self, degree: int) -> bool:
        """Return whether the powers of a degree are proved linearly independent."""
        return self.independent_from is not None and self.independent_from <= degree

    def kruskal(self, degree: int) -> int:
        """Return a lower bound of the Kruskal rank: any so many powers of the degree are independent.

        Computed from minors where these are few. Otherwise the Kruskal rank of v_i^(a + b) is at least the
        sum of those of v_i^a and v_i^b less one, up to the number of points [sidiropoulos2000].
        """
        n_points, dim = self.points.shape
        if self.independent(degree):
            return n_points
        if degree not in self._kruskal:
            best = 0
            if n_monomials(dim, degree) * n_points**2 <= RANK_WORK:
                values = modular.power_values(self.points, degree)
                best = modular.kruskal_rank(values, KRUSKAL_WORK)
            for part in range(1, degree // 2 + 1):
                both = self.kruskal(part), self.kruskal(degree - part)
                if min(both) > 0:
                    best = max(best, min(n_points, sum(both) - 1))
            self._kruskal[degree] = best
        return self._kruskal[degree]

    def _rank(self, degree: int) -> int:
        return modular.rank(modular.power_values(self.points, degree))


def kruskal_criterion(ranks: PowerRanks, order: int) -> str | None:
    """Return how Kruskal's theorem proves that terms are the only ones, or None if it does not.

    The tensor of order a + b + c, reshaped to three factors v^a, v^b, v^c, has
    no other decomposition into as many terms or fewer if the Kruskal ranks of
    these factors sum to at least twice their number plus two [kruskal1977,
    chiantini2017effective].

    Parameters
    ----------
    ranks : PowerRanks
    order : int
        At least 3.

    Returns
    -------
    words : str or None
    """
    n_points, dim = ranks.points.shape
    half = (order - 1) // 2
    if ranks.independent(half) and ranks.kruskal(order - 2 * half) >= 2:
        return f"Kruskal's theorem: the powers of the points of degree {half} are linearly independent"
    for smallest, middle in combinations_with_replacement(range(1, order - 1), 2):
        largest = order - smallest - middle
        if largest < middle:
            continue
        degrees = (smallest, middle, largest)
        if sum(min(n_points, n_monomials(dim, degree)) for degree in degrees) < 2 * n_points + 2:
            continue
        kruskal = [ranks.kruskal(degree) for degree in degrees]
        if min(kruskal) > 0 and sum(kruskal) >= 2 * n_points + 2:
            return (
                f"Kruskal's theorem: powers of the points of degree {smallest}, {middle} and {largest} have "
                f"Kruskal ranks of at least {kruskal[0]}, {kruskal[1]} and {kruskal[2]}"
            )
    return None
