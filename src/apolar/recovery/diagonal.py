"""Mixtures with diagonal covariances, from moments up to order three.

Entries of the moments with different indices do not see the variances: with a_k the centred means,

    C_ij = sum_k w_k a_ki a_kj,    T_ijl = sum_k w_k a_ki a_kj a_kl    (i, j, l all different).

Off its diagonal the covariance is U U^t with U of r - 1 columns, a factor analysis, which is unique up to a
rotation if (m - p)^2 >= m + p, p = r - 1 [anderson1956]. In the coordinates of U the third moments are a
small tensor, found by linear least squares over i < j < l; homogenised, it is orthogonal, and a joint
rotation of its slices gives weights and means.
"""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.parameters import MixtureParameters
from apolar.moments import CentralMoments
from apolar.recovery.equivariant import discrete_distribution
from apolar.tensor.monomials import dense_positions

__all__ = ["diagonal_start", "is_identified"]

# Steps that find the communalities.
N_AXIS_STEPS = 20
# The smallest weight, in units of 1 / r, the furthest mean, in deviations of the column, and the smallest
# variance, in units of its square, that are not taken for errors of the sample.
MIN_SHARE, MAX_OFFSET, MIN_REST = 0.02, 4.0, 0.05


def is_identified(n_components: int, n_features: int) -> bool:
    """Return whether entries of different indices determine a mixture, for almost all mixtures."""
    n_factors = n_components - 1
    return n_components == 1 or (
        n_features >= 3 and n_features > n_factors and (n_features - n_factors) ** 2 >= n_features + n_factors
    )


def diagonal_start(moments: CentralMoments, n_components: int) -> MixtureParameters:
    """Return about the mixture of moments, by the entries that determine its means; variances are pooled.

    Parameters
    ----------
    moments : CentralMoments
        Of columns with variance one.
    n_components : int
        At least 2, and such that the mixture `is_identified`.
    """
    factors = _factors(moments.covariance, n_components - 1)
    core = _core(moments.third.to_dense(), factors)
    weights, atoms = discrete_distribution(np.eye(n_components - 1), core)
    weights = np.maximum(weights, MIN_SHARE / n_components)
    weights = weights / weights.sum()
    means = np.clip(atoms @ factors.T, -MAX_OFFSET, MAX_OFFSET)
    rest = np.maximum(1 - weights @ means**2, MIN_REST)
    return MixtureParameters(weights, means, np.repeat(np.diag(rest)[None], n_components, axis=0))


def _factors(correlations: Array, n_factors: int) -> Array:
    """Return U, shape (n_features, n_factors), with U U^t nearest to the correlations off the diagonal."""
    # Where columns are functions of others, their squared multiple correlations are one.
    inverse = np.linalg.pinv(correlations, hermitian=True)
    shares = np.clip(1 - 1 / np.diag(inverse), 0.0, 1.0)
    factors, reduced = np.zeros((len(correlations), n_factors)), correlations.copy()
    for _ in range(N_AXIS_STEPS):
        np.fill_diagonal(reduced, shares)
        values, vectors = np.linalg.eigh(reduced)
        factors = vectors[:, -n_factors:] * np.sqrt(np.maximum(values[-n_factors:], 1e-6))
        shares = np.minimum((factors**2).sum(axis=1), 1.0)
    return factors


def _core(third: Array, factors: Array) -> Array:
    """Return the tensor of which the third moments are the image under U, where indices are different."""
    n_features, n_factors = factors.shape
    i, j, k = np.ogrid[:n_features, :n_features, :n_features]
    different = np.nonzero((i < j) & (j < k))
    # Each coefficient of a symmetric tensor stands for all entries of its monomial.
    a, b, c = (factors[indices] for indices in different)
    products = np.einsum("na,nb,nc->nabc", a, b, c).reshape(len(a), -1)
    where = dense_positions(n_factors, 3)
    system = products @ (where.reshape(-1, 1) == np.arange(where.max() + 1))
    coefficients = np.linalg.lstsq(system, third[different], rcond=1e-10)[0]
    return coefficients[where]
