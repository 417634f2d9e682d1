"""The moments of a Gaussian mixture, their derivatives by its parameters, and their sampling covariance.

Monomials in m variables up to an order are those of that order in m + 1 variables, the first of which is one:
those of degree 0, of degree 1, and so on. Those up to a lower order come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from apolar._core.arrays import Array, IndexArray, frozen
from apolar.mixture.parameters import MixtureParameters
from apolar.tensor.monomials import exponents, n_monomials, product_positions


def powers_up_to(n_features: int, order: int) -> IndexArray:
    """Return the exponents of the monomials up to an order, shape (n_monomials, n_features)."""
    return exponents(n_features + 1, order)[:, 1:]


def of_degree(n_features: int, degree: int) -> slice:
    """Return where the monomials of a degree are."""
    before = n_monomials(n_features + 1, degree - 1) if degree else 0
    return slice(before, n_monomials(n_features + 1, degree))


@lru_cache(maxsize=32)
def _lower_positions(n_features: int, order: int) -> IndexArray:
    """Return the positions of a - e_j, shape (n_monomials + 1, n_features).

    That of monomials that do not exist, with a negative exponent, is `n_monomials`, and its row is the last.
    Arrays of values have a zero appended there.
    """
    raised = product_positions(n_features + 1, order - 1, 1)[:, 1:]
    n_all = n_monomials(n_features + 1, order)
    lowered = np.full((n_all + 1, n_features), n_all)
    lowered[raised, np.arange(n_features)] = np.arange(len(raised))[:, None]
    return frozen(lowered)


def column_variances(mixture: MixtureParameters) -> Array:
    """Return the variances of the columns, shape (n_components, n_features)."""
    return np.einsum("kii->ki", mixture.covariances)


def nearest_covariances(mixture: MixtureParameters, covariance_type: str) -> Array:
    """Return matrices of covariances as a family stores them, averaged over what it has in common."""
    if covariance_type in ("spherical", "diag"):
        variances = column_variances(mixture)
        return variances.mean(axis=1) if covariance_type == "spherical" else variances
    weights = mixture.weights / mixture.weights.sum()
    return np.tensordot(weights, mixture.covariances, 1) if covariance_type == "tied" else mixture.covariances


def component_moments(mixture: MixtureParameters, order: int) -> Array:
    """Return E[x^a] of each component, shape (n_components, n_monomials + 1), the last one zero.

    By x_i x^b: its expectation is mu_i E[x^b] plus the sum over j of Sigma_ij b_j E[x^(b - e_j)].

    Parameters
    ----------
    mixture : MixtureParameters
        With matrices of covariances.
    order : int
    """
    n_features = mixture.n_features
    powers, lowered = powers_up_to(n_features, order), _lower_positions(n_features, order)
    out = np.zeros((mixture.n_components, len(powers) + 1))
    out[:, 0] = 1
    for degree in range(1, order + 1):
        where = of_degree(n_features, degree)
        first = (powers[where] > 0).argmax(axis=1)
        rest = lowered[where][np.arange(len(first)), first]
        lowest = np.einsum(
            "knj,nj,knj->kn", mixture.covariances[:, first], powers[rest], out[:, lowered[rest]]
        )
        out[:, where] = mixture.means[:, first] * out[:, rest] + lowest
    return out


def sampling_covariance(
    mixture: MixtureParameters, order: int, kept: IndexArray, n_averaged: int | None = None
) -> Array:
    """Return the covariance of monomials of a row of the mixture, for some of them.

    Parameters
    ----------
    mixture : MixtureParameters
        With matrices of covariances.
    order : int
    kept : ndarray of int
        Positions of monomials up to this order.
    n_averaged : int, optional
        The square of the last column, of mean zero, stands for the mean of the squares of this many columns.
    """
    moments = mixture.weights @ component_moments(mixture, 2 * order)
    second = moments[product_positions(mixture.n_features + 1, order, order)[np.ix_(kept, kept)]]
    if n_averaged is not None:
        # The fourth moment is 3 s^2 of one column, and s^2 (1 + 2 / n) of the mean square of n.
        last = powers_up_to(mixture.n_features, order)[kept, -1]
        second = second * np.where(last[:, None] + last == 4, (1 + 2 / n_averaged) / 3, 1.0)
    return second - np.outer(moments[kept], moments[kept])


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

    def vector(self, mixture: MixtureParameters) -> Array:
        """Return the parameters of a mixture, whose covariances are projected on the family."""
        stored = nearest_covariances(mixture, self.family)
        if self.is_aligned:
            last = np.log(stored)
        else:
            last = np.linalg.cholesky(stored)[..., *np.tril_indices(self.n_features)]
        return np.concatenate([np.log(mixture.weights), mixture.means.ravel(), last.ravel()])

    def mixture(self, vector: Array) -> MixtureParameters:
        """Return the mixture of parameters, with matrices of covariances."""
        logs = vector[: self.n_components]
        weights = np.exp(logs - logs.max())
        means = vector[self.n_components : self.n_before].reshape(self.n_components, self.n_features)
        roots = self._roots(vector)
        shape = self.n_components, self.n_features, self.n_features
        covariances = np.broadcast_to(roots @ roots.transpose(0, 2, 1), shape)
        return MixtureParameters(weights / weights.sum(), means, covariances)

    def _roots(self, vector: Array) -> Array:
        """Return the Cholesky factors of the covariances, of one if they are tied."""
        if self.is_aligned:
            deviations = np.exp(vector[self.n_before :] / 2).reshape(self.n_components, -1, 1)
            return deviations * np.eye(self.n_features)
        lower = np.tril_indices(self.n_features)
        entries = vector[self.n_before :].reshape(-1, len(lower[0]))
        roots = np.zeros((len(entries), self.n_features, self.n_features))
        roots[:, *lower] = entries
        return roots

    def moments(self, vector: Array, order: int, kept: IndexArray) -> tuple[Array, Array]:
        """Return some moments, and their derivatives, shape (n_kept, n_parameters)."""
        mixture = self.mixture(vector)
        values = component_moments(mixture, order)
        powers, lowered = powers_up_to(self.n_features, order)[kept], _lower_positions(self.n_features, order)
        of_component, weights = values[:, kept], mixture.weights[:, None]
        total = mixture.weights @ of_component
        by_log_weight = weights * (of_component - total)
        by_mean = weights[:, None] * powers * values[:, lowered[kept]]
        # The derivative of an expectation by an entry of the covariance, with its mirror image, is that of
        # the second derivative of the monomial, half of it on the diagonal.
        j, k = np.triu_indices(self.n_features)
        if self.is_aligned:
            j = k = np.arange(self.n_features)
        factors = np.where(j == k, powers[:, j] * (powers[:, j] - 1) / 2, powers[:, j] * powers[:, k])
        by_entry = weights[:, None] * factors * values[:, lowered[lowered[kept][:, j], k]]
        if self.is_aligned:
            by_last = by_entry * column_variances(mixture)[:, None]
            by_last = by_last.sum(axis=2, keepdims=True) if self.family == "spherical" else by_last
        else:
            if self.family == "tied":
                by_entry = by_entry.sum(axis=0, keepdims=True)
            # The gradient by a matrix, each entry by itself: both triangles get half of what they share.
            gradient = np.zeros((*by_entry.shape[:2], self.n_features, self.n_features))
            gradient[:, :, j, k] = by_entry / 2
            gradient += gradient.swapaxes(2, 3)
            by_root = 2 * np.einsum("knab,kbc->knac", gradient, self._roots(vector))
            by_last = by_root[:, :, *np.tril_indices(self.n_features)]
        parts = by_log_weight[:, :, None], by_mean, by_last
        return total, np.concatenate(
            [part.transpose(1, 0, 2).reshape(len(kept), -1) for part in parts], axis=1
        )
