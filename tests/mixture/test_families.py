"""Covariance families against scipy's densities, and the M-step against what it maximises."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import invgamma, invwishart, multivariate_normal

from apolar._rows import Scratch, open_rows
from apolar.em.chart import Chart
from apolar.em.chunk import posteriors
from apolar.em.frame import frame_around
from apolar.em.table import Table
from apolar.mixture import Prior
from apolar.mixture.components import Components, batch
from apolar.mixture.families import FAMILIES, family

NAMES = ["full", "tied", "diag", "tied_diag", "spherical", "tied_spherical"]
each_family = pytest.mark.parametrize("kind", [family(name) for name in NAMES], ids=NAMES)
each_prior = pytest.mark.parametrize("prior", [None, Prior()], ids=["no prior", "prior"])


def rows(seed=0, n=60, m=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)) @ rng.standard_normal((m, m)) + 5 * rng.integers(0, 2, (n, 1))


def some_components(kind, table, seed=0, n_components=3):
    responsibilities = np.random.default_rng(seed).dirichlet(np.ones(n_components), table.n_rows)
    return kind.maximised(table.soft_sums(responsibilities.T), Prior())


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
    table = Table(open_rows(X), kind)
    inside = some_components(kind, table)
    logits = kind.natural(inside) @ table.features() + table.frame.log_det
    outside = table.frame.components_outward(inside)
    matrices = kind.matrices(outside.covariances, 3, 3)
    for k in range(3):
        expected = multivariate_normal(outside.means[k], matrices[k]).logpdf(X) + np.log(outside.weights[k])
        np.testing.assert_allclose(logits[k], expected, atol=1e-10)


@each_family
def test_sums_and_components_are_two_names_of_the_same(kind):
    inside = some_components(kind, Table(open_rows(rows()), kind))
    again = kind.maximised(100 * kind.moments(inside), None)
    np.testing.assert_allclose(again.weights, inside.weights, atol=1e-12)
    np.testing.assert_allclose(again.means, inside.means, atol=1e-12)
    np.testing.assert_allclose(again.covariances, inside.covariances, atol=1e-12)


@each_prior
@each_family
def test_the_m_step_is_the_maximum(kind, prior):
    # At the M-step the gradient of the complete objective is zero: the chart's gradient with fixed sums.
    table = Table(open_rows(rows()), kind)
    responsibilities = np.random.default_rng(1).dirichlet(np.ones(3), table.n_rows)
    sums = table.soft_sums(responsibilities.T)
    best = kind.maximised(sums, prior)
    chart = Chart(kind, best, table.weight)
    gradient = chart.gradient(chart.origin, best, sums, prior)
    assert np.abs(gradient).max() < 1e-9


@each_prior
@each_family
def test_the_gradient_is_that_of_the_objective(kind, prior):
    table = Table(open_rows(rows()), kind)
    chart = Chart(kind, some_components(kind, table), table.weight)
    point = 0.3 * np.random.default_rng(2).standard_normal(len(chart.origin))

    def objective(point):
        components = chart.components(point)[None]
        return float((table.expectation(components)[1] + kind.log_prior(components, prior))[0])

    components = chart.components(point)
    sums, _ = table.expectation(components[None])
    gradient = chart.gradient(point, components, sums[0], prior)
    # The error of the differences is that of the root of the rounding.
    np.testing.assert_allclose(gradient, approx_fprime(point, objective, 1e-6), atol=2e-4)
    assert abs(gradient @ chart.idle) < 1e-9 * np.linalg.norm(gradient) * np.linalg.norm(chart.idle)


def test_the_log_prior_is_that_of_conjugate_distributions():
    table = Table(open_rows(rows()), family("full"))
    one, two = some_components(family("full"), table, 0), some_components(family("full"), table, 5)
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
    table = Table(open_rows(rows()), kind)
    one, two = some_components(kind, table, 0), some_components(kind, table, 5)
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
    table = Table(open_rows(rows()), kind)
    mixtures = [some_components(kind, table, seed) for seed in range(3)]
    together, likelihoods = table.expectation(batch(mixtures))
    for i, mixture in enumerate(mixtures):
        sums, likelihood = table.expectation(mixture[None])
        np.testing.assert_allclose(together[i], sums[0], atol=1e-10)
        assert likelihoods[i] == pytest.approx(likelihood[0], abs=1e-9)


@each_family
def test_a_frame_around_a_mixture_leads_there_and_back(kind):
    table = Table(open_rows(rows()), kind)
    outside = table.frame.components_outward(some_components(kind, table))
    frame = frame_around(outside, kind)
    again = frame.components_outward(frame.components_inward(outside))
    np.testing.assert_allclose(again.means, outside.means, atol=1e-10)
    np.testing.assert_allclose(again.covariances, outside.covariances, rtol=1e-9, atol=1e-10)


@each_family
def test_precisions_and_whiteners_invert_the_covariances(kind):
    table = Table(open_rows(rows()), kind)
    covariances = some_components(kind, table).covariances
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
    good = Components(np.ones(1), np.zeros((1, 2)), np.ones(1))
    assert good.is_finite
    assert not Components(np.ones(1), np.full((1, 2), np.nan), np.ones(1)).is_finite


def test_the_default_prior_of_full_covariances_hardly_widens_thin_clusters():
    # Two clusters, thin in one direction, of 100 rows each: 1% of the spread of all rows.
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    X = rng.standard_normal((200, 2)) * [1.0, 0.1] + np.where(labels[:, None], [0.0, 1.0], [0.0, -1.0])
    kind = family("full")
    table = Table(open_rows(X), kind)
    sums = table.hard_sums(labels, 2)
    with_prior = table.frame.components_outward(kind.maximised(sums, Prior())).covariances
    without = table.frame.components_outward(kind.maximised(sums, None)).covariances
    assert np.all(with_prior[:, 1, 1] < 1.15 * without[:, 1, 1])
