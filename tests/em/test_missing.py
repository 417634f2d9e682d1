"""Missing values: the E-step and the optimum against EM row by row, for every family."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from apolar._core import compiled
from apolar.data import open_rows
from apolar.em import missing
from apolar.em.problem import Problem
from apolar.mixture import Prior
from apolar.mixture.families import FAMILIES
from apolar.mixture.parameters import SufficientStats
from apolar.mixture.storage import triangle
from mixtures import FAMILY_NAMES, each_family

K, M = 2, 3


def incomplete_rows(n_rows, fraction, seed=0, n_features=M, spread=4.0):
    """Return rows of two correlated clusters, some values missing, and one row without any."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, n_rows)
    means, roots = spread * rng.normal(size=(K, n_features)), rng.normal(size=(K, n_features, n_features))
    roots = 0.5 * roots + np.eye(n_features)
    X = means[labels] + np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(n_rows, n_features)))
    X = 100.0 + X * np.arange(1, n_features + 1)
    X[rng.random(X.shape) < fraction] = np.nan
    X[n_rows // 2] = np.nan
    return X, labels


def start(data, labels):
    return data.family.m_step(data.imputed().hard_stats(labels, K), None)


def row_by_row(data, X, weights, parameters):
    """Return the statistics and the log-likelihood of an E-step, one row and one component at a time."""
    family, whitening = data.family, data.whitening
    mixture = whitening.inverse_transform_parameters(parameters)
    matrices = family.matrices(mixture.covariances, *mixture.means.shape)
    n_components, n_features = mixture.means.shape
    total, counts = 0.0, np.zeros(n_components)
    first, second = np.zeros((n_components, n_features)), np.zeros((n_components, n_features, n_features))
    for row, weight in zip(X, np.ones(len(X)) if weights is None else weights, strict=True):
        seen = ~np.isnan(row)
        logits = np.log(mixture.weights)
        if np.any(seen):
            logits = logits + [
                multivariate_normal.logpdf(row[seen], mean[seen], matrix[np.ix_(seen, seen)])
                for mean, matrix in zip(mixture.means, matrices, strict=True)
            ]
        density = np.logaddexp.reduce(logits)
        total += weight * density
        for k, share in enumerate(weight * np.exp(logits - density)):
            mean, matrix = mixture.means[k], matrices[k]
            gain = matrix[:, seen] @ np.linalg.inv(matrix[np.ix_(seen, seen)])
            expected = mean + gain @ (row[seen] - mean[seen])
            left = matrix - gain @ matrix[seen]
            centred = expected - whitening.centre
            counts[k] += share
            first[k] += share * centred
            second[k] += share * (np.outer(centred, centred) + left)
    # The first and second moments in whitened coordinates.
    matrix = whitening.matrix if whitening.matrix.ndim == 2 else np.eye(n_features) * whitening.matrix
    first, second = first @ matrix, matrix.T @ second @ matrix
    quadratics = triangle(second)
    if family.is_axis_aligned:
        quadratics = np.diagonal(second, axis1=1, axis2=2)
    if family.is_spherical:
        quadratics = quadratics.sum(axis=1, keepdims=True)
    stats = np.concatenate([counts[:, None], first, quadratics], axis=1)
    return SufficientStats(stats, n_features), total


def assert_same_e_step(data, X, weights, parameters):
    stats, log_likelihood = data.e_step(parameters[None])
    expected, total = row_by_row(data, X, weights, parameters)
    # Rounding times the condition numbers of the components, which are of the order of 100.
    np.testing.assert_allclose(stats.array[0], expected.array, rtol=1e-9, atol=1e-9 * len(X))
    assert log_likelihood[0] + data.whitening.log_det * data.weight == pytest.approx(total, rel=1e-11)


@pytest.mark.parametrize(
    ("name", "weighted", "has_kernels"),
    [
        *[(name, True, True) for name in FAMILY_NAMES],
        *[("full", False, True), ("EVE", True, False), ("VVI", True, False)],
    ],
)
def test_the_e_step_is_that_row_by_row(name, weighted, has_kernels, monkeypatch):
    if not has_kernels:
        monkeypatch.setattr(compiled, "kernels", None)
    # Some patterns have many rows, some have few; one row has no value at all.
    X, labels = incomplete_rows(150, 0.3)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X)) if weighted else None
    data = Problem(open_rows(X, weights), FAMILIES[name])
    assert data.is_incomplete
    assert_same_e_step(data, X, weights, start(data, labels))


@pytest.mark.parametrize(
    ("name", "n_features"), [("full", 12), ("diag", 12), ("spherical", 12), ("full", 70)]
)
def test_each_row_may_have_a_pattern_of_its_own(name, n_features, monkeypatch):
    X, labels = incomplete_rows(*((60, 0.3) if n_features < 20 else (100, 0.05)), n_features=n_features)
    assert len(np.unique(np.isnan(X), axis=0)) > 50
    data = Problem(open_rows(X), FAMILIES[name])
    parameters = data.family.m_step(data.imputed().hard_stats(labels, K), Prior())
    assert_same_e_step(data, X, None, parameters)
    # A part of one pattern at a time.
    monkeypatch.setattr(missing, "MAX_NUMBERS", 1)
    assert_same_e_step(data, X, None, parameters)


@each_family
def test_noise_of_complete_rows_is_that_without_missing_values(name):
    X, labels = incomplete_rows(100, 0.0)
    X = np.delete(X, 50, axis=0)
    labels = np.delete(labels, 50)
    complete = Problem(open_rows(X), FAMILIES[name], measurement=0.3)
    whitening = complete.whitening
    incomplete = complete.replace(available_covariance=whitening.covariance)
    parameters = start(complete, labels)
    stats, objective = complete.e_step(parameters[None])
    other_stats, other_objective = incomplete.e_step(parameters[None])
    np.testing.assert_allclose(objective, other_objective, rtol=1e-11)
    np.testing.assert_allclose(stats.array, other_stats.array, rtol=1e-9, atol=1e-9 * len(X))
