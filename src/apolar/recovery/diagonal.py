"""Mixtures with diagonal covariances, from moments up to order three.

Entries of the moments with different indices do not see the variances: with a_k the centred means,

    C_ij = sum_k w_k a_ki a_kj,    T_ijl = sum_k w_k a_ki a_kj a_kl    (i, j, l all different).

Off its diagonal the covariance is U U^t with U of r - 1 columns, a factor analysis, which is unique up to a
rotation if (m - p)^2 >= m + p, p = r - 1 [anderson1956]. In the coordinates of U the third moments are a
small tensor, found by linear least squares over i < j < l; homogenised, it is orthogonal, and a joint
rotation of its slices gives weights and means. The variances are then a linear system for each column.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.levenberg_marquardt import LeastSquares
from apolar.recovery.equivariant import discrete_distribution
from apolar.recovery.gaussian_moments import Mixture
from apolar.tensor.monomials import dense_positions, monomial_variables, multinomials

__all__ = ["diagonal_mixture", "is_identified"]

# Added to the diagonal of correlations, which may be singular.
MIN_SHARE = 1e-6
# Steps that find the communalities.
N_AXIS_STEPS = 50
# Means further from the centre than this, in deviations of the column, are errors of the sample.
MAX_OFFSET = 4.0
# A share of 1 / r below which the weight of a solution is an error of the sample.
MIN_WEIGHT = 0.02
# The smallest variance, and where it is replaced by the pooled one, in units of the latter.
MIN_VARIANCE = 0.05


def is_identified(n_components: int, n_features: int) -> bool:
    """Return whether entries of different indices determine a mixture, for almost all mixtures."""
    n_factors = n_components - 1
    return n_components == 1 or (
        n_features >= 3 and n_features > n_factors and (n_features - n_factors) ** 2 >= n_features + n_factors
    )


def diagonal_mixture(second: Array, third: Array, n_components: int, *, is_exact: bool = False) -> Mixture:
    """Return the mixture of standardised moments, by the entries that determine it.

    Parameters
    ----------
    second : ndarray, shape (n_features, n_features)
        Correlations.
    third : ndarray, shape (n_features, n_features, n_features)
        Third moments of columns of mean zero and variance one.
    n_components : int
        For which `is_identified`.
    is_exact : bool, default=False
        Whether the moments have no sampling errors.

    Returns
    -------
    mixture : Mixture
        Valid, with the means centred.
    """
    n_features = len(second)
    if n_components == 1:
        return Mixture(np.ones(1), np.zeros((1, n_features)), np.ones((1, n_features)))
    factors = _factors(second, n_components - 1)
    weights, atoms = discrete_distribution(np.eye(n_components - 1), _core(third, factors))
    means = atoms @ factors.T
    if not is_exact:
        weights = np.maximum(weights, MIN_WEIGHT / n_components)
        weights = weights / weights.sum()
        means = np.clip(means, -MAX_OFFSET, MAX_OFFSET)
    better = _fitted_off_diagonal(second, third, weights, means)
    if better[0].min() > 1e-3 and np.abs(better[1]).max() < 2 * MAX_OFFSET:
        weights, means = better
    variances = _variances(second, third, weights, means, 1e-13 if is_exact else 1e-3)
    return Mixture(weights, means, variances)


def _factors(correlations: Array, n_factors: int) -> Array:
    """Return U, shape (n_features, n_factors), with U U^t nearest to the correlations off the diagonal."""
    n_features = len(correlations)
    # Where columns are functions of others, their squared multiple correlations are one.
    inverse = np.linalg.inv(correlations + MIN_SHARE * np.eye(n_features))
    shares = np.clip(1 - 1 / np.diag(inverse), 0.0, 1.0)
    factors = np.zeros((n_features, n_factors))
    reduced = correlations.copy()
    for _ in range(N_AXIS_STEPS):
        np.fill_diagonal(reduced, shares)
        values, vectors = np.linalg.eigh(reduced)
        factors = vectors[:, -n_factors:] * np.sqrt(np.maximum(values[-n_factors:], 1e-6))
        shares = np.minimum((factors**2).sum(axis=1), 1.0)
    return factors


def _core(third: Array, factors: Array) -> Array:
    """Return the tensor of which the third moments are the image under U, where indices are different."""
    n_factors = factors.shape[1]
    triples = _triples(len(factors))
    variables = monomial_variables(n_factors, 3)
    # Each coefficient of a symmetric tensor stands for all entries of its monomial.
    sides = [factors[triples[:, slot]] for slot in range(3)]
    products = np.zeros((len(triples), len(variables)))
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        products += (
            sides[0][:, variables[:, order[0]]]
            * sides[1][:, variables[:, order[1]]]
            * sides[2][:, variables[:, order[2]]]
        )
    products *= multinomials(n_factors, 3) / 6
    wanted = third[triples[:, 0], triples[:, 1], triples[:, 2]]
    coefficients = np.linalg.lstsq(products, wanted, rcond=1e-10)[0]
    return coefficients[dense_positions(n_factors, 3)]


@lru_cache(maxsize=16)
def _triples(n_features: int) -> IndexArray:
    """Return all i < j < l, shape (n_triples, 3)."""
    i, j, k = np.ogrid[:n_features, :n_features, :n_features]
    return np.argwhere((i < j) & (j < k))


def _fitted_off_diagonal(second: Array, third: Array, weights: Array, means: Array) -> tuple[Array, Array]:
    """Return weights and means by least squares over all entries with different indices."""
    n_components, n_features = means.shape
    i, j = np.triu_indices(n_features, 1)
    a, b, c = _triples(n_features).T
    wanted = np.concatenate([np.zeros(n_features), second[i, j], 0.5 * third[a, b, c]])
    n_first, n_pairs, n_triples = n_features, len(i), len(a)
    columns, pairs = np.arange(n_features), n_first + np.arange(n_pairs)
    triples = n_first + n_pairs + np.arange(n_triples)

    def split(flat: Array) -> tuple[Array, Array]:
        logs, x = flat[:n_components], flat[n_components:].reshape(n_components, n_features)
        shares = np.exp(logs - logs.max())
        return shares / shares.sum(), x

    def residuals(flat: Array) -> tuple[Array, Array]:
        shares, x = split(flat)
        # Third moments of standardised columns are noisier: half the weight.
        values = np.concatenate([x, x[:, i] * x[:, j], 0.5 * x[:, a] * x[:, b] * x[:, c]], axis=1)
        out = np.zeros((len(wanted), n_components, n_features))
        weighted = (shares[:, None] * x).T
        out[columns, :, columns] = shares
        out[pairs, :, i], out[pairs, :, j] = weighted[j], weighted[i]
        out[triples, :, a] = 0.5 * weighted[b] * x.T[c]
        out[triples, :, b] = 0.5 * weighted[a] * x.T[c]
        out[triples, :, c] = 0.5 * weighted[a] * x.T[b]
        by_log = (shares[:, None] * (values - shares @ values)).T
        return shares @ values - wanted, np.concatenate([by_log, out.reshape(len(wanted), -1)], axis=1)

    problem = LeastSquares(residuals, np.concatenate([np.log(weights), means.ravel()]), slice(n_components))
    return split(problem.minimise(max_iter=100, min_relative_gain=1e-9).point)


def _variances(second: Array, third: Array, weights: Array, means: Array, ridge: float) -> Array:
    """Return the variances, shape (n_components, n_features), by the entries with an index twice."""
    n_components, n_features = means.shape
    identity, variances = np.eye(n_components), np.empty_like(means)
    for column in range(n_features):
        square = means[:, column] ** 2
        factors = np.where(np.arange(n_features) == column, 3.0, 1.0)
        system = np.vstack([weights, factors[:, None] * (weights * means.T)])
        wanted = np.concatenate(
            [
                [second[column, column] - weights @ square],
                third[column, column] - (weights * square) @ means,
            ]
        )
        pooled = max(wanted[0], MIN_VARIANCE * second[column, column])
        normal = system.T @ system
        rest = system.T @ (wanted - system @ np.full(n_components, pooled))
        own = pooled + np.linalg.solve(normal + ridge * np.trace(normal) / n_components * identity, rest)
        variances[:, column] = np.where(own < MIN_VARIANCE * pooled, pooled, own)
    return variances
