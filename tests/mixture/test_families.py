"""Covariance families against scipy's densities, and the M-step against what it maximises."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import invgamma, invwishart, multivariate_normal

from apolar.data import Scratch, open_rows
from apolar.em.blocks import posteriors
from apolar.em.coordinates import LocalCoordinates
from apolar.em.whitened import WhitenedData
from apolar.em.whitening import whitening_around
from apolar.mixture import Prior
from apolar.mixture.families import FAMILIES, family
from apolar.mixture.parameters import WhitenedParameters, batch

NAMES = ["full", "tied", "diag", "tied_diag", "spherical", "tied_spherical"]
each_family = pytest.mark.parametrize("kind", [family(name) for name in NAMES], ids=NAMES)
each_prior = pytest.mark.parametrize("prior", [None, Prior()], ids=["no prior", "prior"])


def rows(seed=0, n=60, m=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)) @ rng.standard_normal((m, m)) + 5 * rng.integers(0, 2, (n, 1))


def some_components(kind, data, seed=0, n_components=3):
    responsibilities = np.random.default_rng(seed).dirichlet(np.ones(n_components), data.n_rows)
    return kind.m_step(data.soft_stats(responsibilities.T), Prior())


def test_names_and_codes_are_the_same_families():
    codes = {
        "VVV": "full",
        "EEE": "tied",
        "VVI": "diag",
        "EEI": "tied_diag",
        "VII": "spherical",
        "EII": "tied_spherical",
    }
    assert {code: FAMILIES[code].name for code in codes} == codes


@pytest.mark.parametrize("name", ["fulls", None, 3, ["full"]])
def test_an_unknown_family_is_refused_with_the_choices(name):
    with pytest.raises(ValueError, match="'tied_diag'"):
        family(name)


@each_family
def test_the_natural_parameters_give_the_weighted_log_density(kind):
    X = rows()
    data = WhitenedData(open_rows(X), kind)
    inside = some_components(kind, data)
    logits = kind.natural(inside) @ data.row_stats() + data.whitening.log_det
    outside = data.whitening.inverse_transform_parameters(inside)
    matrices = kind.matrices(outside.covariances, 3, 3)
    for k in range(3):
        expected = multivariate_normal(outside.means[k], matrices[k]).logpdf(X) + np.log(outside.weights[k])
        np.testing.assert_allclose(logits[k], expected, atol=1e-10)


@each_family
def test_sums_and_components_are_two_names_of_the_same(kind):
    inside = some_components(kind, WhitenedData(open_rows(rows()), kind))
    again = kind.m_step(100 * kind.moments(inside), None)
    np.testing.assert_allclose(again.weights, inside.weights, atol=1e-12)
    np.testing.assert_allclose(again.means, inside.means, atol=1e-12)
    np.testing.assert_allclose(again.covariances, inside.covariances, atol=1e-12)


@each_prior
@each_family
def test_the_m_step_is_the_maximum(kind, prior):
    # At the M-step the gradient of the complete objective is zero: the chart's gradient with fixed sums.
    data = WhitenedData(open_rows(rows()), kind)
    responsibilities = np.random.default_rng(1).dirichlet(np.ones(3), data.n_rows)
    stats = data.soft_stats(responsibilities.T)
    best = kind.m_step(stats, prior)
    coordinates = LocalCoordinates(kind, best, data.weight)
    gradient = coordinates.gradient(coordinates.origin, best, stats, prior)
    assert np.abs(gradient).max() < 1e-9


@each_prior
@each_family
def test_the_gradient_is_that_of_the_objective(kind, prior):
    data = WhitenedData(open_rows(rows()), kind)
    coordinates = LocalCoordinates(kind, some_components(kind, data), data.weight)
    point = 0.3 * np.random.default_rng(2).standard_normal(len(coordinates.origin))

    def objective(point):
        components = coordinates.parameters(point)[None]
        return float((data.e_step(components)[1] + kind.log_prior(components, prior))[0])

    components = coordinates.parameters(point)
    stats, _ = data.e_step(components[None])
    gradient = coordinates.gradient(point, components, stats[0], prior)
    # The error of the differences is that of the root of the rounding.
    np.testing.assert_allclose(gradient, approx_fprime(point, objective, 1e-6), atol=2e-4)
    assert abs(gradient @ coordinates.null_direction) < 1e-9 * np.linalg.norm(gradient) * np.linalg.norm(
        coordinates.null_direction
    )


def test_the_log_prior_is_that_of_conjugate_distributions():
    data = WhitenedData(open_rows(rows()), family("full"))
    one, two = some_components(family("full"), data, 0), some_components(family("full"), data, 5)
    prior = Prior(dof=5.0, scale=0.5)
    shrinkage, dof, scale = prior.scaled(3, 3)

    def expected(components):
        total = 0.0
        for mean, covariance in zip(components.means, components.covariances, strict=True):
            total += invwishart(dof, scale * np.eye(3)).logpdf(covariance)
            total += multivariate_normal(np.zeros(3), covariance / shrinkage).logpdf(mean)
        return total

    kind = family("full")
    difference = kind.log_prior(one, prior) - kind.log_prior(two, prior)
    assert difference == pytest.approx(expected(one) - expected(two), abs=1e-9)


def test_the_log_prior_of_variances_is_inverse_gamma():
    kind = family("spherical")
    data = WhitenedData(open_rows(rows()), kind)
    one, two = some_components(kind, data, 0), some_components(kind, data, 5)
    shrinkage, dof, scale = Prior().scaled(3, 3)

    def expected(components):
        spread = invgamma(dof / 2, scale=scale / 2).logpdf(components.covariances).sum()
        pairs = zip(components.means, components.covariances, strict=True)
        return spread + sum(
            multivariate_normal(np.zeros(3), variance / shrinkage * np.eye(3)).logpdf(mean)
            for mean, variance in pairs
        )

    difference = kind.log_prior(one, Prior()) - kind.log_prior(two, Prior())
    assert difference == pytest.approx(expected(one) - expected(two), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "count"),
    [("full", 3 * 10), ("tied", 10), ("diag", 12), ("tied_diag", 4), ("spherical", 3), ("tied_spherical", 1)],
)
def test_parameters_are_counted(name, count):
    assert family(name).n_parameters(3, 4) == 2 + 12 + count


@each_family
def test_batches_are_the_mixtures_in_them(kind):
    data = WhitenedData(open_rows(rows()), kind)
    mixtures = [some_components(kind, data, seed) for seed in range(3)]
    together, likelihoods = data.e_step(batch(mixtures))
    for i, mixture in enumerate(mixtures):
        stats, likelihood = data.e_step(mixture[None])
        np.testing.assert_allclose(together[i], stats[0], atol=1e-10)
        assert likelihoods[i] == pytest.approx(likelihood[0], abs=1e-9)


@each_family
def test_a_frame_around_a_mixture_leads_there_and_back(kind):
    data = WhitenedData(open_rows(rows()), kind)
    outside = data.whitening.inverse_transform_parameters(some_components(kind, data))
    whitening = whitening_around(outside, kind)
    again = whitening.inverse_transform_parameters(whitening.transform_parameters(outside))
    np.testing.assert_allclose(again.means, outside.means, atol=1e-10)
    np.testing.assert_allclose(again.covariances, outside.covariances, rtol=1e-9, atol=1e-10)


@each_family
def test_precisions_and_whiteners_invert_the_covariances(kind):
    data = WhitenedData(open_rows(rows()), kind)
    covariances = some_components(kind, data).covariances
    precisions, whiteners = kind.precisions(covariances), kind.whiteners(covariances)
    if kind.frame_kind != "matrix":
        np.testing.assert_allclose(precisions * covariances, 1)
        np.testing.assert_allclose(whiteners**2, precisions)
        return
    np.testing.assert_allclose(
        precisions @ covariances, np.broadcast_to(np.eye(3), covariances.shape), atol=1e-9
    )
    np.testing.assert_allclose(whiteners @ np.swapaxes(whiteners, -1, -2), precisions, atol=1e-9)


def test_singular_covariances_are_floored():
    floored = family("full").floored(np.diag([1.0, 0.0, -1e-9])[None])
    assert np.all(np.linalg.eigvalsh(floored) > 0)


@pytest.mark.parametrize(
    ("name", "value"), [("shrinkage", 0.0), ("dof", -1.0), ("scale", np.inf), ("scale", "1")]
)
def test_bad_priors_are_refused(name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        Prior(**{name: value})


def test_posteriors_of_far_rows_are_numbers():
    logits = np.array([[[-1e6, 0.0], [-1e6 - 5, 800.0]]])
    shares, density = posteriors(logits, Scratch())
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(density[0], [-1e6 + np.log1p(np.exp(-5)), 800.0])


def test_components_know_whether_they_are_numbers():
    good = WhitenedParameters(np.ones(1), np.zeros((1, 2)), np.ones(1))
    assert good.is_finite
    assert not WhitenedParameters(np.ones(1), np.full((1, 2), np.nan), np.ones(1)).is_finite


def test_the_default_prior_of_full_covariances_hardly_widens_thin_clusters():
    # Two clusters, thin in one direction, of 100 rows each: 1% of the spread of all rows.
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    X = rng.standard_normal((200, 2)) * [1.0, 0.1] + np.where(labels[:, None], [0.0, 1.0], [0.0, -1.0])
    kind = family("full")
    data = WhitenedData(open_rows(X), kind)
    stats = data.hard_stats(labels, 2)
    with_prior = data.whitening.inverse_transform_parameters(kind.m_step(stats, Prior())).covariances
    without = data.whitening.inverse_transform_parameters(kind.m_step(stats, None)).covariances
    assert np.all(with_prior[:, 1, 1] < 1.15 * without[:, 1, 1])
