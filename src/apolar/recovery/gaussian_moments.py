"""The moments of a Gaussian mixture, their derivatives by its parameters, and their sampling covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.recovery.monomials import monomial_table

__all__ = ["Mixture", "Parametrisation", "component_moments", "mixture_moments", "sampling_covariance"]

# Families by their covariances: one for all components or one each, and how many free numbers each has.
ALIGNED = ("spherical", "diag", "tied_spherical", "tied_diag")
TIED = ("tied_spherical", "tied_diag", "tied")


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


def component_moments(means: Array, covariances: Array, order: int) -> Array:
    """Return E[x^a] of each component, shape (n_components, n_monomials + 1), the last one zero.

    By x_i x^b: its expectation is mu_i E[x^b] plus the sum over j of Sigma_ij b_j E[x^(b - e_j)].
    """
    n_components, n_features = means.shape
    table = monomial_table(n_features, order)
    out = np.zeros((n_components, len(table) + 1))
    out[:, 0] = 1
    for where, first, lower, rest, lowest in table.recursion:
        of_degree = means[:, first] * out[:, lower]
        if covariances.ndim == 2:
            each = np.arange(len(first))
            of_degree += covariances[:, first] * rest[each, first] * out[:, lowest[each, first]]
        else:
            for j in range(n_features):
                has = np.flatnonzero(rest[:, j])
                if len(has):
                    terms = covariances[:, first[has], j] * rest[has, j] * out[:, lowest[has, j]]
                    of_degree[:, has] += terms
        out[:, where] = of_degree
    return out


def mixture_moments(mixture: Mixture, order: int) -> Array:
    """Return E[x^a], shape (n_monomials,)."""
    return mixture.weights @ component_moments(mixture.means, mixture.covariances, order)[:, :-1]


def sampling_covariance(mixture: Mixture, order: int, kept: IndexArray) -> Array:
    """Return the covariance of monomials of a row of the mixture, for some of them."""
    table = monomial_table(mixture.means.shape[1], order)
    moments = mixture_moments(mixture, 2 * order)
    first = moments[kept]  # the table of twice the order begins with that of the order
    return moments[table.products[np.ix_(kept, kept)]] - np.outer(first, first)


@dataclass(frozen=True, eq=False)
class Parametrisation:
    """Log weights, means, and log variances or Cholesky factors of covariances, as one vector.

    Attributes
    ----------
    family : str
        "spherical", "diag", "full", "tied_spherical", "tied_diag" or "tied".
    n_components, n_features : int
    """

    family: str
    n_components: int
    n_features: int

    @property
    def is_aligned(self) -> bool:
        """Whether components have the axes of the columns."""
        return self.family in ALIGNED

    @property
    def n_before(self) -> int:
        """The number of log weights and means."""
        return self.n_components * (1 + self.n_features)

    @property
    def n_free(self) -> int:
        """The number of free parameters: the weights add up to one."""
        n_each = {"spherical": 1, "diag": self.n_features}.get(self.family.removeprefix("tied_"))
        if n_each is None:
            n_each = self.n_features * (self.n_features + 1) // 2
        n_covariances = 1 if self.family in TIED else self.n_components
        return self.n_before - 1 + n_covariances * n_each

    def vector(self, mixture: Mixture) -> Array:
        """Return the parameters of a mixture, whose covariances are projected on the family."""
        if self.is_aligned:
            variances = mixture.covariances
            if variances.ndim == 3:
                variances = np.einsum("kii->ki", variances)
            if self.family in TIED:
                variances = (mixture.weights @ variances)[None]
            if self.family.endswith("spherical"):
                variances = variances.mean(axis=1, keepdims=True)
            covariance = np.log(variances)
        else:
            matrices = mixture.matrices
            if self.family in TIED:
                matrices = np.tensordot(mixture.weights, matrices, 1)[None]
            lower = np.tril_indices(self.n_features)
            covariance = np.linalg.cholesky(matrices)[:, lower[0], lower[1]]
        return np.concatenate([np.log(mixture.weights), mixture.means.ravel(), covariance.ravel()])

    def mixture(self, vector: Array) -> Mixture:
        """Return the mixture of parameters."""
        n_components, n_features = self.n_components, self.n_features
        logs = vector[:n_components]
        weights = np.exp(logs - logs.max())
        means = vector[n_components : self.n_before].reshape(n_components, n_features)
        if self.is_aligned:
            n_columns = 1 if self.family.endswith("spherical") else n_features
            covariances = np.exp(vector[self.n_before :]).reshape(-1, n_columns)
            covariances = np.broadcast_to(covariances, means.shape)
        else:
            roots = self._roots(vector)
            covariances = np.broadcast_to(
                roots @ roots.transpose(0, 2, 1), (n_components, n_features, n_features)
            )
        return Mixture(weights / weights.sum(), means, covariances)

    def _roots(self, vector: Array) -> Array:
        lower = np.tril_indices(self.n_features)
        entries = vector[self.n_before :].reshape(-1, len(lower[0]))
        roots = np.zeros((len(entries), self.n_features, self.n_features))
        roots[:, lower[0], lower[1]] = entries
        return roots

    def moments(self, vector: Array, order: int, kept: IndexArray) -> tuple[Array, Array]:
        """Return some moments, and their derivatives, shape (n_kept, n_parameters)."""
        mixture, table = self.mixture(vector), monomial_table(self.n_features, order)
        weights, values = mixture.weights, component_moments(mixture.means, mixture.covariances, order)
        of_component = values[:, kept]
        total = weights @ of_component
        by_mean = weights[:, None, None] * table.exponents[kept] * values[:, table.lowered[kept]]
        derivatives = np.concatenate(
            [
                (weights[:, None] * (of_component - total)).T,
                by_mean.transpose(1, 0, 2).reshape(len(kept), -1),
                self._by_covariance(mixture, vector, values, order, kept),
            ],
            axis=1,
        )
        return total, derivatives

    def _by_covariance(
        self, mixture: Mixture, vector: Array, values: Array, order: int, kept: IndexArray
    ) -> Array:
        table, weights = monomial_table(self.n_features, order), mixture.weights[:, None, None]
        if self.is_aligned:
            lowest, factors = table.squares_lowered
            by_log = weights * factors[kept] * values[:, lowest[kept]] * mixture.covariances[:, None]
            if self.family == "diag":
                return by_log.transpose(1, 0, 2).reshape(len(kept), -1)
            if self.family == "spherical":
                return by_log.sum(axis=2).T
            return by_log.sum(axis=0) if self.family == "tied_diag" else by_log.sum(axis=(0, 2))[:, None]
        lowest, factors = table.lowered_twice
        by_entry = weights * factors[kept] * values[:, lowest[kept]]
        if self.family in TIED:
            by_entry = by_entry.sum(axis=0, keepdims=True)
        # The gradient by a matrix, each entry by itself: both triangles get half of what they share.
        upper, lower = np.triu_indices(self.n_features), np.tril_indices(self.n_features)
        gradient = np.zeros((*by_entry.shape[:2], self.n_features, self.n_features))
        gradient[:, :, upper[0], upper[1]] = by_entry / 2
        gradient += gradient.swapaxes(2, 3)
        by_root = 2 * np.einsum("knab,kbc->knac", gradient, self._roots(vector))
        return by_root[:, :, lower[0], lower[1]].transpose(1, 0, 2).reshape(len(kept), -1)
