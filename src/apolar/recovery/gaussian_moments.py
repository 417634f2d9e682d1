"""The moments of a Gaussian mixture, their derivatives by its parameters, and their sampling covariance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.stats import norm, qmc

from apolar._core.arrays import Array, IndexArray, frozen
from apolar.tensor.monomials import exponents, n_monomials, positions_of_exponents

__all__ = [
    "Mixture",
    "MonomialTable",
    "Parametrisation",
    "component_moments",
    "mixture_moments",
    "monomial_table",
    "normal_points",
    "sampling_covariance",
]


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


@lru_cache(maxsize=32)
def normal_points(n_features: int, n_points: int = 128) -> Array:
    """Return points of a Sobol sequence in normal coordinates, shape (n_points, n_features).

    Tails beyond a thousandth are cut: a few points cannot represent them.
    """
    uniform = qmc.Sobol(n_features, seed=0).random(n_points)
    return frozen(norm.ppf(np.clip(uniform, 1e-3, 1 - 1e-3)))


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of any family.

    Attributes
    ----------
    weights : ndarray, shape (n_components,)
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray, shape (n_components, n_features), or with one more axis
        Variances of components whose axes are those of the columns, or matrices.
    """

    weights: Array
    means: Array
    covariances: Array

    @property
    def is_aligned(self) -> bool:
        """Whether the covariances are variances of columns."""
        return self.covariances.ndim == 2

    @property
    def matrices(self) -> Array:
        """The covariances, shape (n_components, n_features, n_features)."""
        if not self.is_aligned:
            return self.covariances
        return self.covariances[:, :, None] * np.eye(self.means.shape[1])

    @property
    def variances(self) -> Array:
        """The variances of the columns, shape (n_components, n_features)."""
        return self.covariances if self.is_aligned else np.einsum("kii->ki", self.covariances)


def component_moments(mixture: Mixture, order: int) -> Array:
    """Return E[x^a] of each component, shape (n_components, n_monomials + 1), the last one zero.

    By x_i x^b: its expectation is mu_i E[x^b] plus the sum over j of Sigma_ij b_j E[x^(b - e_j)].
    """
    means, n_features = mixture.means, mixture.means.shape[1]
    table = monomial_table(n_features, order)
    out = np.zeros((len(means), len(table) + 1))
    out[:, 0] = 1
    for where, first, lower, rest, lowest in table.recursion:
        of_degree = means[:, first] * out[:, lower]
        if mixture.is_aligned:
            # Variances pair a variable with itself alone.
            each = np.arange(len(first))
            of_degree += mixture.variances[:, first] * rest[each, first] * out[:, lowest[each, first]]
        else:
            for j in range(n_features):
                has = np.flatnonzero(rest[:, j])
                of_degree[:, has] += (
                    mixture.covariances[:, first[has], j] * rest[has, j] * out[:, lowest[has, j]]
                )
        out[:, where] = of_degree
    return out


def mixture_moments(mixture: Mixture, order: int) -> Array:
    """Return E[x^a], shape (n_monomials,)."""
    return mixture.weights @ component_moments(mixture, order)[:, :-1]


def sampling_covariance(
    mixture: Mixture, order: int, kept: IndexArray, n_averaged: int | None = None
) -> Array:
    """Return the covariance of monomials of a row of the mixture, for some of them.

    Parameters
    ----------
    mixture : Mixture
    order : int
    kept : ndarray of int
        Positions of monomials in the table of this order.
    n_averaged : int, optional
        The square of the last column, of mean zero, stands for the mean of the squares of so many columns.
    """
    table = monomial_table(mixture.means.shape[1], order)
    moments = mixture_moments(mixture, 2 * order)
    second = moments[table.products[np.ix_(kept, kept)]]
    if n_averaged is not None:
        # The fourth moment is 3 s^2 of one column, and s^2 (1 + 2 / n) of the mean square of n.
        last = table.exponents[kept, -1]
        second = second * np.where(last[:, None] + last == 4, (1 + 2 / n_averaged) / 3, 1.0)
    first = moments[kept]  # the table of twice the order begins with that of the order
    return second - np.outer(first, first)


@dataclass(frozen=True, eq=False)
class Parametrisation:
    """Log weights, means, and log variances or Cholesky factors of covariances, as one vector.

    Attributes
    ----------
    family : {"spherical", "diag", "tied", "full"}
    n_components, n_features : int
    """

    family: str
    n_components: int
    n_features: int

    @property
    def is_aligned(self) -> bool:
        """Whether components have the axes of the columns."""
        return self.family in ("spherical", "diag")

    @property
    def n_before(self) -> int:
        """The number of log weights and means."""
        return self.n_components * (1 + self.n_features)

    @property
    def logs(self) -> IndexArray:
        """Which parameters are logarithms."""
        each = {"spherical": 1, "diag": self.n_features}.get(self.family, 0)
        variances = self.n_before + np.arange(self.n_components * each)
        return np.concatenate([np.arange(self.n_components), variances])

    @property
    def n_free(self) -> int:
        """The number of free parameters: the weights add up to one."""
        n_each = self.n_features * (self.n_features + 1) // 2
        n_each = {"spherical": 1, "diag": self.n_features}.get(self.family, n_each)
        return self.n_before - 1 + (1 if self.family == "tied" else self.n_components) * n_each

    def vector(self, mixture: Mixture) -> Array:
        """Return the parameters of a mixture, whose covariances are projected on the family."""
        if self.is_aligned:
            variances = mixture.variances
            covariance = np.log(variances.mean(axis=1) if self.family == "spherical" else variances)
        else:
            matrices = mixture.matrices
            if self.family == "tied":
                matrices = np.tensordot(mixture.weights, matrices, 1)[None]
            covariance = np.linalg.cholesky(matrices)[:, *np.tril_indices(self.n_features)]
        return np.concatenate([np.log(mixture.weights), mixture.means.ravel(), covariance.ravel()])

    def mixture(self, vector: Array) -> Mixture:
        """Return the mixture of parameters."""
        logs = vector[: self.n_components]
        weights = np.exp(logs - logs.max())
        means = vector[self.n_components : self.n_before].reshape(self.n_components, self.n_features)
        if self.is_aligned:
            variances = np.exp(vector[self.n_before :]).reshape(self.n_components, -1)
            covariances = np.broadcast_to(variances, means.shape)
        else:
            roots = self._roots(vector)
            shape = (self.n_components, self.n_features, self.n_features)
            covariances = np.broadcast_to(roots @ roots.transpose(0, 2, 1), shape)
        return Mixture(weights / weights.sum(), means, covariances)

    def _roots(self, vector: Array) -> Array:
        lower = np.tril_indices(self.n_features)
        entries = vector[self.n_before :].reshape(-1, len(lower[0]))
        roots = np.zeros((len(entries), self.n_features, self.n_features))
        roots[:, *lower] = entries
        return roots

    def moments(self, vector: Array, order: int, kept: IndexArray) -> tuple[Array, Array]:
        """Return some moments, and their derivatives, shape (n_kept, n_parameters)."""
        mixture, table = self.mixture(vector), monomial_table(self.n_features, order)
        weights, values = mixture.weights[:, None, None], component_moments(mixture, order)
        of_component = values[:, kept]
        total = mixture.weights @ of_component
        by_log_weight = mixture.weights[:, None] * (of_component - total)
        by_mean = weights * table.exponents[kept] * values[:, table.lowered[kept]]
        lowest, factors = table.lowered_twice
        by_entry = weights * factors[kept] * values[:, lowest[kept]]
        parts = by_log_weight[:, :, None], by_mean, self._by_covariance(mixture, vector, by_entry)
        return total, np.concatenate(
            [part.transpose(1, 0, 2).reshape(len(kept), -1) for part in parts], axis=1
        )

    def _by_covariance(self, mixture: Mixture, vector: Array, by_entry: Array) -> Array:
        """Return the derivatives by the parameters of the covariances, from those by their upper entries."""
        j, k = np.triu_indices(self.n_features)
        if self.is_aligned:
            by_log = by_entry[:, :, j == k] * mixture.variances[:, None]
            return by_log.sum(axis=2, keepdims=True) if self.family == "spherical" else by_log
        if self.family == "tied":
            by_entry = by_entry.sum(axis=0, keepdims=True)
        # The gradient by a matrix, each entry by itself: both triangles get half of what they share.
        gradient = np.zeros((*by_entry.shape[:2], self.n_features, self.n_features))
        gradient[:, :, j, k] = by_entry / 2
        gradient += gradient.swapaxes(2, 3)
        by_root = 2 * np.einsum("knab,kbc->knac", gradient, self._roots(vector))
        return by_root[:, :, *np.tril_indices(self.n_features)]
