"""Rows known up to rounding errors: the M-step, the objective, what counts as narrow; and distinct rows."""

import numpy as np
import pytest

from apolar import Prior
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture.families import FAMILIES
from mixtures import FAMILY_NAMES, each_family

VARIANCES = np.array([0.2, 0.0, 0.5])


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return 4 * np.eye(3)[np.arange(n) % 3] + rng.standard_normal((n, 3)) * [1.0, 0.5, 2.0]


def started(name, prior, X=None, n_components=3):
    data = Problem(open_rows(rows() if X is None else X), FAMILIES[name])
    labels = np.arange(data.n_rows) % n_components
    return data, data.family.m_step(data.hard_stats(labels, n_components), prior)


# Where a part of the covariances is shared, the sum is not one of the family: it is the nearest to it.
@pytest.mark.parametrize("name", [n for n in FAMILY_NAMES if not FAMILIES[n].shares_part])
@pytest.mark.parametrize("prior", [None, Prior()])
def test_rounding_errors_are_added_to_the_covariances(name, prior):
    # With the prior as well, which counts as rows: even a component of one row is as wide as its rounding.
    data, _ = started(name, prior)
    labels = np.r_[0, np.arange(data.n_rows - 1) % 2 + 1]
    exact = data.family.m_step(data.hard_stats(labels, 3), prior)
    rounded = data.replace(measurement=VARIANCES)
    rounded_prior = rounded.prior_for(prior)
    wider = rounded.family.m_step(rounded.hard_stats(labels, 3), rounded_prior)
    in_units = data.whitening.inverse_transform_parameters
    added = in_units(wider).covariances - in_units(exact).covariances
    expected = {0: VARIANCES.mean(), 1: VARIANCES, 2: np.diag(VARIANCES)}[data.family.n_axes]
    # Without a prior, the covariance of one row is at the floor of variances, 1e-8 in whitened coordinates.
    np.testing.assert_allclose(added, np.broadcast_to(expected, added.shape), atol=1e-6)
    assert rounded.is_rounded
    assert not data.is_rounded


@each_family
def test_the_largest_ratio_is_that_of_some_direction(name):
    data, parameters = started(name, Prior())
    family = data.family
    noise = data.error_covariance(VARIANCES)
    matrices = family.matrices(np.asarray(parameters.covariances), 3, 3)
    (one,) = family.untied.matrices(noise[None], 1, 3)
    directions = np.random.default_rng(2).standard_normal((5000, 3))
    ratios = [
        np.einsum("ni,ij,nj->n", directions, one, directions)
        / np.einsum("ni,ij,nj->n", directions, matrix, directions)
        for matrix in matrices
    ]
    largest = np.max(family.relative_variances(noise, parameters.covariances))
    # The best of random directions is within a few per cent of the best of all, and never above it.
    assert 0.9 * largest < np.max(ratios) <= largest * (1 + 1e-9)


def test_rounding_errors_are_no_larger_than_a_third_of_a_column():
    rare = np.zeros(400)
    rare[:4] = 1
    fair = np.arange(400) % 2
    data = Problem(open_rows(np.c_[rare, fair, rows(400)[:, 0]]), FAMILIES["diag"])
    np.testing.assert_allclose(data.rounding_variances(), [0.01 * 0.99 / 3, 1 / 12, 0])
