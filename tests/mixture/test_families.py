"""Covariance families against densities of SciPy, and the M-step against the objective it maximises."""

import numpy as np
import pytest
from scipy.stats import invgamma, invwishart, multivariate_normal

from apolar.data import open_rows
from apolar.em.coordinates import LocalCoordinates
from apolar.em.problem import Problem
from apolar.mixture import Prior, families
from apolar.mixture.families import FAMILIES
from mixtures import FAMILY_NAMES

each_family = pytest.mark.parametrize("family", [FAMILIES[name] for name in FAMILY_NAMES], ids=FAMILY_NAMES)
each_prior = pytest.mark.parametrize("prior", [None, Prior(shrinkage=0.01)], ids=["no prior", "prior"])


def example(family, seed=0):
    """Return correlated rows in two groups, and three components of soft parts of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 3)) + 5 * rng.integers(0, 2, (60, 1))
    data = Problem(open_rows(X), family)
    shares = np.random.default_rng(seed).dirichlet(np.ones(3), 60)
    return X, data, family.m_step(data.soft_stats(shares.T), Prior())


@pytest.mark.parametrize(
    ("name", "code", "count"),
    [
        *[("full", "VVV", 3 * 10), ("tied", "EEE", 10), ("diag", "VVI", 12), ("tied_diag", "EEI", 4)],
        *[("spherical", "VII", 3), ("tied_spherical", "EII", 1)],
    ],
)
def test_codes_and_numbers_of_parameters(name, code, count):
    assert FAMILIES[code].name == name
    assert FAMILIES[name].n_parameters(3, 4) == 2 + 12 + count
    for unknown in (f"{name}s", [name], None, 3):
        with pytest.raises(ValueError, match="'tied_diag'"):
            families.family(unknown)


@each_prior
@each_family
def test_the_m_step_is_the_maximum_and_inverted_by_the_statistics_of_components(family, prior):
    # At the M-step the gradient of the complete objective is zero: that with the statistics held fixed.
    _, data, components = example(family)
    stats = data.soft_stats(np.random.default_rng(1).dirichlet(np.ones(3), 60).T)
    best = family.m_step(stats, prior)
    coordinates = LocalCoordinates(family, best, data.weight)
    assert np.abs(coordinates.gradient(coordinates.origin, best, stats, prior)).max() < 1e-9
    again = family.m_step(family.stats_of(components, 60.0, prior), prior)
    for name in ("weights", "means", "covariances"):
        np.testing.assert_allclose(getattr(again, name), getattr(components, name), atol=1e-10)


@pytest.mark.parametrize(
    ("name", "prior", "scale"),
    [("full", Prior(0.01, 5.0, 0.5), 0.5), ("spherical", Prior(0.01), 3 ** (-2 / 3))],
)
def test_the_log_prior_is_that_of_conjugate_distributions(name, prior, scale):
    family = FAMILIES[name]

    def expected(components):
        matrices = family.matrices(components.covariances, 3, 3)
        pairs = zip(components.means, matrices, strict=True)
        of_means = sum(multivariate_normal(np.zeros(3), s / 0.01).logpdf(mean) for mean, s in pairs)
        if name == "full":
            return of_means + sum(invwishart(5.0, scale * np.eye(3)).logpdf(s) for s in matrices)
        return of_means + invgamma(5.0 / 2, scale=scale / 2).logpdf(components.covariances).sum()

    first, second = example(family)[2], example(family, 5)[2]
    difference = family.log_prior(first, prior) - family.log_prior(second, prior)
    assert difference == pytest.approx(expected(first) - expected(second), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "value"), [("shrinkage", -1.0), ("shrinkage", None), ("dof", -1.0), ("scale", np.inf)]
)
def test_bad_priors_are_refused(name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        Prior(**{name: value})


def test_the_default_prior_of_full_covariances_hardly_widens_thin_clusters():
    # Two clusters, thin in one direction, of 100 rows each: 1% of the spread of all rows.
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    X = rng.standard_normal((200, 2)) * [1.0, 0.1] + np.where(labels[:, None], [0.0, 1.0], [0.0, -1.0])
    data = Problem(open_rows(X), FAMILIES["full"])
    stats = data.hard_stats(labels, 2)
    with_prior, without = (
        data.whitening.inverse_transform_parameters(data.family.m_step(stats, prior)).covariances
        for prior in (Prior(), None)
    )
    assert np.all(with_prior[:, 1, 1] < 1.15 * without[:, 1, 1])
