"""Random mixtures of every family, their population moments, and distances between mixtures."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar.mixture.families import family as family_of
from apolar.mixture.parameters import MixtureParameters
from apolar.moments import CentralMoments
from apolar.recovery.moment_fit import component_moments, of_degree
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import dense_positions


def random_mixture(family, n_features, n_components, rng, *, separation=4.0, condition=3.0):
    """Return a mixture of weights above half of their mean, with means a few deviations apart."""
    weights = 0.5 / n_components + 0.5 * rng.dirichlet(np.full(n_components, 5.0))
    while True:
        means = separation * rng.standard_normal((n_components, n_features))
        means *= 1 / np.sqrt(min(n_features, 4))
        gaps = np.linalg.norm(means[:, None] - means, axis=2) + 1e9 * np.eye(n_components)
        if n_components == 1 or gaps.min() > 0.5 * separation:
            break
    spread = np.exp(rng.uniform(-0.5, 0.5, (n_components, n_features)) * np.log(condition))
    if family == "spherical":
        spread[:] = spread[:, :1]
    if family in ("diag", "spherical"):
        return MixtureParameters(weights, means, spread[:, None] * np.eye(n_features))
    rotations = np.linalg.qr(rng.standard_normal((n_components, n_features, n_features)))[0]
    matrices = (rotations * spread[:, None]) @ rotations.swapaxes(1, 2)
    if family == "tied":
        matrices = np.repeat(matrices[:1], n_components, axis=0)
    return MixtureParameters(weights, means, matrices)


def population(mixture, order, n_rows=1e18):
    """Return the central moments of a mixture up to an order."""
    mean = mixture.weights @ mixture.means
    n_features = len(mean)
    centred = MixtureParameters(mixture.weights, mixture.means - mean, mixture.covariances)
    moments = mixture.weights @ component_moments(centred, order)
    tensors = [SymmetricTensor(d, n_features, moments[of_degree(n_features, d)]) for d in range(3, order + 1)]
    covariance = moments[of_degree(n_features, 2)][dense_positions(n_features, 2)]
    square_times = np.einsum("aab->b", tensors[0].to_dense())
    return CentralMoments(n_rows, mean, covariance, tuple(tensors), square_times)


def as_mixture(found):
    """Return a MomentMixture with the matrices of all components."""
    matrices = family_of(found.covariance_type).matrices(found.covariances, *found.means.shape)
    return MixtureParameters(found.weights, found.means, matrices)


def largest_error(truth, found):
    """Return the largest error of weights, means and covariances, components matched by their means."""
    other = as_mixture(found)
    distances = ((truth.means[:, None] - other.means) ** 2).sum(axis=2)
    _, order = linear_sum_assignment(distances)
    return max(
        np.abs(truth.weights - other.weights[order]).max(),
        np.abs(truth.means - other.means[order]).max(),
        np.abs(truth.covariances - other.covariances[order]).max(),
    )


def drawn(mixture, n_rows, rng):
    """Return rows of a mixture."""
    labels = rng.choice(len(mixture.weights), n_rows, p=mixture.weights)
    roots = np.linalg.cholesky(mixture.covariances)
    noise = rng.standard_normal((n_rows, mixture.means.shape[1]))
    return mixture.means[labels] + np.einsum("nij,nj->ni", roots[labels], noise)
