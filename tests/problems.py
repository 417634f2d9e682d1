"""Random decompositions, noise, and how far a decomposition is from the truth."""

from dataclasses import replace

import numpy as np

from apolar import SymmetricTensor, Waring
from apolar.decomposition import component_errors
from apolar.decomposition.tuning import TUNING
from apolar.tensor import n_monomials


def largest_error(weights, points, waring):
    """Return the largest relative error of a component; infinite if their number differs."""
    if len(waring.weights) != len(weights):
        return np.inf
    return component_errors(Waring(weights, points, waring.order), waring).max()


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


def tune(monkeypatch, module, **values):
    """Change tuned numbers as one module of the decomposition sees them."""
    monkeypatch.setattr(f"apolar.decomposition.{module}.TUNING", replace(TUNING, **values))


def generic_form(dim, order, seed=0):
    """Return a form with random coefficients."""
    return SymmetricTensor(order, dim, np.random.default_rng(seed).standard_normal(n_monomials(dim, order)))
