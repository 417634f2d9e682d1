"""All monomials up to an order, the constant first, and where lower ones and products are among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.tensor.monomials import exponents, n_monomials, positions_of_exponents

__all__ = ["MonomialTable", "monomial_table"]


@dataclass(frozen=True, eq=False)
class MonomialTable:
    """The monomials of some variables up to an order: those of degree 0, of degree 1, and so on.

    Within a degree they are in the order of `apolar.tensor.monomials`. Positions of monomials that do not
    exist, those with a negative exponent, are `n_monomials`: arrays of values have a zero appended there.

    Attributes
    ----------
    n_features, order : int
    """

    n_features: int
    order: int

    def __len__(self) -> int:
        return self.starts[-1]

    @cached_property
    def starts(self) -> list[int]:
        """Where each degree starts, and the number of monomials at the end."""
        sizes = [n_monomials(self.n_features, degree) for degree in range(self.order + 1)]
        return np.concatenate([[0], np.cumsum(sizes)]).tolist()

    def degree(self, degree: int) -> slice:
        """Return where the monomials of a degree are."""
        return slice(self.starts[degree], self.starts[degree + 1])

    @cached_property
    def exponents(self) -> IndexArray:
        """The exponents, shape (n_monomials, n_features)."""
        return np.concatenate([exponents(self.n_features, degree) for degree in range(self.order + 1)])

    def find(self, exponents: IndexArray) -> IndexArray:
        """Return the positions of monomials, shape (...), from exponents, shape (..., n_features)."""
        keys = exponents.reshape(-1, self.n_features)
        out = np.full(len(keys), len(self), dtype=np.intp)
        degrees = np.where((keys < 0).any(axis=1), -1, keys.sum(axis=1))
        for degree in range(self.order + 1):
            chosen = np.flatnonzero(degrees == degree)
            if len(chosen):
                out[chosen] = self.starts[degree] + positions_of_exponents(keys[chosen], degree)
        return out.reshape(exponents.shape[:-1])

    @cached_property
    def recursion(self) -> list[tuple[slice, IndexArray, IndexArray, IndexArray, IndexArray]]:
        """Of each degree from one on, how its monomials come from lower ones.

        Where they are; the first variable i of each, a = b + e_i; the position of b; b itself; and the
        positions of b - e_j for all j.
        """
        steps = np.eye(self.n_features, dtype=np.intp)
        levels = []
        for degree in range(1, self.order + 1):
            where = self.degree(degree)
            powers = self.exponents[where]
            first = (powers > 0).argmax(axis=1)
            rest = powers - steps[first]
            levels.append((where, first, self.find(rest), rest, self.find(rest[:, None] - steps)))
        return levels

    @cached_property
    def lowered(self) -> IndexArray:
        """The positions of a - e_j, shape (n_monomials, n_features)."""
        return self.find(self.exponents[:, None] - np.eye(self.n_features, dtype=np.intp))

    @cached_property
    def lowered_twice(self) -> tuple[IndexArray, Array]:
        """The positions of a - e_j - e_k for j <= k, and the derivatives of x^a that they belong to.

        These are a_j a_k, and a_j (a_j - 1) / 2 for j = k: the derivative of a Gaussian expectation by an
        entry of the covariance, with its mirror image, is that of the expectation of x^(a - e_j - e_k).
        """
        steps = np.eye(self.n_features, dtype=np.intp)
        j, k = np.triu_indices(self.n_features)
        powers = self.exponents.astype(np.float64)
        factors = np.where(j == k, powers[:, j] * (powers[:, j] - 1) / 2, powers[:, j] * powers[:, k])
        return self.find(self.exponents[:, None] - steps[j] - steps[k]), factors

    @cached_property
    def squares_lowered(self) -> tuple[IndexArray, Array]:
        """The positions of a - 2 e_j, and a_j (a_j - 1) / 2: `lowered_twice` of variances alone."""
        steps = np.eye(self.n_features, dtype=np.intp)
        powers = self.exponents.astype(np.float64)
        return self.find(self.exponents[:, None] - 2 * steps), powers * (powers - 1) / 2

    @cached_property
    def products(self) -> IndexArray:
        """The positions of products of two monomials in the table of twice the order."""
        double = monomial_table(self.n_features, 2 * self.order)
        return np.stack([double.find(self.exponents + row) for row in self.exponents])

    def values(self, X: Array) -> Array:
        """Return the monomials of rows, shape (n_samples, n_monomials)."""
        out = np.empty((len(self), len(X)))
        out[0] = 1
        columns = np.ascontiguousarray(X.T)
        for where, first, lower, _, _ in self.recursion:
            np.multiply(out[lower], columns[first], out=out[where])
        return out.T


@lru_cache(maxsize=32)
def monomial_table(n_features: int, order: int) -> MonomialTable:
    """Return the monomials up to an order, made once."""
    return MonomialTable(n_features, order)
