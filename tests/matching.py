"""Comparing decompositions: terms come in any order, points up to sign or phase."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar import SymmetricTensor


def largest_error(weights, points, found):
    """Return the largest distance of a term to its match, relative to the term, in the apolar norm."""
    order = found.order
    mine = found.weights[:, None], found.points
    truth = np.asarray(weights)[:, None], np.asarray(points)
    if len(found.weights) != len(weights):
        return np.inf

    def inner(a, b):
        return (a[0].conj() * b[0].T) * (a[1].conj() @ b[1].T) ** order

    squares = np.diag(inner(truth, truth)).real[:, None]
    distances = squares + np.diag(inner(mine, mine)).real - 2 * inner(truth, mine).real
    # Squared distances are differences: rounding of 1e-16 shows as 1e-8.
    distances = np.sqrt(np.maximum(distances, 0) / squares)
    rows, columns = linear_sum_assignment(distances)
    return distances[rows, columns].max()


def random_terms(dim, rank, seed, *, is_complex=False):
    """Return weights between 1 and 2 and points spread over the sphere."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((rank, dim))
    if is_complex:
        points = points + 1j * rng.standard_normal((rank, dim))
    return 1 + rng.random(rank), points / np.linalg.norm(points, axis=1)[:, None]


def noisy(tensor, noise, seed):
    """Return the tensor plus Gaussian noise of that relative norm."""
    rng = np.random.default_rng(seed)
    errors = rng.standard_normal(len(tensor.coefficients)) / np.sqrt(tensor.multinomials)
    error = SymmetricTensor(tensor.order, tensor.dim, errors)
    return tensor + error * (noise * tensor.norm() / error.norm())
