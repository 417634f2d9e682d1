"""The sums of the compiled kernels by plain NumPy, and the kernels that this processor can run."""

from dataclasses import dataclass

import numpy as np
import pytest

from apolar._core import compiled
from apolar._core.compiled import DIAGONAL, FULL, SPHERICAL

KINDS = (SPHERICAL, DIAGONAL, FULL)
TARGETS = compiled.kernels.targets() if compiled.kernels else []

needs_kernels = pytest.mark.skipif(compiled.kernels is None, reason="the compiled kernels are not in use")


def use_for_a_test(target):
    """Yield the extension, with the kernels of an instruction set in use."""
    extension = compiled.kernels
    before = extension.target()
    extension.use(target)
    yield extension
    extension.use(before)


def features(z, kind):
    """Return the row statistics (1, z, quadratics of z), one column per row."""
    if kind == SPHERICAL:
        quadratics = np.sum(z**2, axis=1, keepdims=True)
    elif kind == DIAGONAL:
        quadratics = z**2
    else:
        i, j = np.triu_indices(z.shape[1])
        quadratics = z[:, i] * z[:, j]
    return np.column_stack([np.ones(len(z)), z, quadratics]).T


def mapped(values, row_map):
    """Return (x - centre) scale, times the matrix if there is one."""
    z = (values.astype(np.float64) - row_map.centre) * row_map.scale
    return z if row_map.matrix is None else z @ row_map.matrix


@dataclass
class Expected:
    """What the kernels compute of rows under one mixture.

    `scale` are sums of absolute values instead of `stats`: a sum is known to rounding times that.
    """

    logits: np.ndarray
    responsibilities: np.ndarray
    density: np.ndarray
    stats: np.ndarray
    scale: np.ndarray
    sums: np.ndarray


def expected(values, weights, row_map, natural, kind, *, is_hard=False):
    """Return the results of one mixture, natural parameters of shape (n_components, n_stats)."""
    row_stats = features(mapped(values, row_map), kind)
    weights = np.ones(len(values)) if weights is None else weights
    logits = natural @ row_stats
    largest = logits.max(axis=0)
    exponentials = np.exp(np.maximum(logits - largest, -100.0))
    responsibilities = exponentials / exponentials.sum(axis=0)
    density = largest + np.log(exponentials.sum(axis=0))
    if is_hard:
        responsibilities = (np.argmax(logits, axis=0) == np.arange(len(natural))[:, None]).astype(float)
    weighted = responsibilities * weights
    sums = np.array([weights @ density, weights @ np.log(responsibilities.max(axis=0)), weights.sum()])
    stats, scale = weighted @ row_stats.T, weighted @ np.abs(row_stats.T)
    return Expected(logits, responsibilities, density, stats, scale, sums)


def assert_within(computed, wanted, scale, tolerance=1e-12):
    """Assert that sums agree to rounding, relative to the sums of the absolute values of their terms.

    Logits of some tens have errors of some 1e-14, which are relative errors of responsibilities.
    """
    error = np.abs(computed - wanted) / np.maximum(scale, np.finfo(float).tiny)
    assert error.max(initial=0.0) <= tolerance


def random_natural(rng, n_components, n_columns, kind):
    """Return natural parameters of components of different sizes, shape (n_components, n_stats)."""
    natural = 0.5 * rng.standard_normal((n_components, compiled.n_stats(kind, n_columns)))
    natural[:, 1:] /= np.sqrt(natural.shape[1])
    return natural
