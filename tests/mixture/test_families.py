"""Covariance families against densities of SciPy, and the M-step against the objective it maximises."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import invgamma, invwishart, multivariate_normal

from apolar.data import open_rows
from apolar.em.blocks import posteriors
from apolar.em.coordinates import LocalCoordinates
from apolar.em.problem import Problem
from apolar.em.whitening import whitening_around
from apolar.mixture import Prior, families
from apolar.mixture.families import FAMILIES
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, batch
from mixtures import FAMILY_NAMES

NAMES = FAMILY_NAMES
each_family = pytest.mark.parametrize("family", [FAMILIES[name] for name in NAMES], ids=NAMES)
each_prior = pytest.mark.parametrize("prior", [None, Prior(shrinkage=0.01)], ids=["no prior", "prior"])


def rows(seed=0, n=60, m=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)) @ rng.standard_normal((m, m)) + 5 * rng.integers(0, 2, (n, 1))


def some_components(family, data, seed=0, n_components=3):
    responsibilities = np.random.default_rng(seed).dirichlet(np.ones(n_components), data.n_rows)
    return family.m_step(data.soft_stats(responsibilities.T), Prior())


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
        families.family(name)


@each_family
def test_the_natural_parameters_give_the_weighted_log_density(family):
    X = rows()
    data = Problem(open_rows(X), family)
    whitened = some_components(family, data)
    logits = data.row_logits(family.natural(whitened), slice(None)) + data.whitening.log_det
    in_data_units = data.whitening.inverse_transform_parameters(whitened)
    matrices = family.matrices(in_data_units.covariances, 3, 3)
    for k in range(3):
        expected = multivariate_normal(in_data_units.means[k], matrices[k]).logpdf(X) + np.log(
            in_data_units.weights[k]
        )
        np.testing.assert_allclose(logits[k], expected, atol=1e-10)


@each_family
def test_the_m_step_inverts_the_expected_statistics(family):
    whitened = some_components(family, Problem(open_rows(rows()), family))
    again = family.m_step(family.moments(whitened) * 100, None)
    np.testing.assert_allclose(again.weights, whitened.weights, atol=1e-12)
    np.testing.assert_allclose(again.means, whitened.means, atol=1e-12)
    np.testing.assert_allclose(again.covariances, whitened.covariances, atol=1e-12)


@each_prior
@each_family
def test_the_m_step_is_the_maximum(family, prior):
    # At the M-step the gradient of the complete objective is zero: that with the statistics held fixed.
    data = Problem(open_rows(rows()), family)
    responsibilities = np.random.default_rng(1).dirichlet(np.ones(3), data.n_rows)
    stats = data.soft_stats(responsibilities.T)
    best = family.m_step(stats, prior)
    coordinates = LocalCoordinates(family, best, data.weight)
    gradient = coordinates.gradient(coordinates.origin, best, stats, prior)
    assert np.abs(gradient).max() < 1e-9


@each_prior
@each_family
def test_the_gradient_is_that_of_the_objective(family, prior):
    data = Problem(open_rows(rows()), family)
    coordinates = LocalCoordinates(family, some_components(family, data), data.weight)
    tangent = 0.3 * np.random.default_rng(2).standard_normal(len(coordinates.origin))

    def objective(tangent):
        components = coordinates.retract(tangent)[None]
        return float((data.e_step(components)[1] + family.log_prior(components, prior))[0])

    components = coordinates.retract(tangent)
    stats, _ = data.e_step(components[None])
    gradient = coordinates.gradient(tangent, components, stats[0], prior)
    # Differences are accurate to about the square root of the rounding error.
    np.testing.assert_allclose(gradient, approx_fprime(tangent, objective, 1e-6), atol=2e-4)
    assert abs(gradient @ coordinates.null_direction) < 1e-9 * np.linalg.norm(gradient) * np.linalg.norm(
        coordinates.null_direction
    )


def test_the_log_prior_is_that_of_conjugate_distributions():
    data = Problem(open_rows(rows()), FAMILIES["full"])
    first, second = some_components(FAMILIES["full"], data, 0), some_components(FAMILIES["full"], data, 5)
    prior = Prior(shrinkage=0.01, dof=5.0, scale=0.5)
    shrinkage, dof, scale = 0.01, 5.0, 0.5

    def expected(components):
        total = 0.0
        for mean, covariance in zip(components.means, components.covariances, strict=True):
            total += invwishart(dof, scale * np.eye(3)).logpdf(covariance)
            total += multivariate_normal(np.zeros(3), covariance / shrinkage).logpdf(mean)
        return total

    family = FAMILIES["full"]
    difference = family.log_prior(first, prior) - family.log_prior(second, prior)
    assert difference == pytest.approx(expected(first) - expected(second), abs=1e-9)


def test_the_log_prior_of_variances_is_inverse_gamma():
    family = FAMILIES["spherical"]
    data = Problem(open_rows(rows()), family)
    first, second = some_components(family, data, 0), some_components(family, data, 5)
    shrinkage, dof, scale = 0.01, 5.0, 3 ** (-2 / 3)

    def expected(components):
        spread = invgamma(dof / 2, scale=scale / 2).logpdf(components.covariances).sum()
        pairs = zip(components.means, components.covariances, strict=True)
        return spread + sum(
            multivariate_normal(np.zeros(3), variance / shrinkage * np.eye(3)).logpdf(mean)
            for mean, variance in pairs
        )

    prior = Prior(shrinkage=0.01)
    difference = family.log_prior(first, prior) - family.log_prior(second, prior)
    assert difference == pytest.approx(expected(first) - expected(second), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "count"),
    [("full", 3 * 10), ("tied", 10), ("diag", 12), ("tied_diag", 4), ("spherical", 3), ("tied_spherical", 1)],
)
def test_parameters_are_counted(name, count):
    assert FAMILIES[name].n_parameters(3, 4) == 2 + 12 + count


@each_family
def test_batches_are_the_mixtures_in_them(family):
    data = Problem(open_rows(rows()), family)
    mixtures = [some_components(family, data, seed) for seed in range(3)]
    together, likelihoods = data.e_step(batch(mixtures))
    for i, mixture in enumerate(mixtures):
        stats, likelihood = data.e_step(mixture[None])
        np.testing.assert_allclose(together[i].array, stats[0].array, atol=1e-10)
        assert likelihoods[i] == pytest.approx(likelihood[0], abs=1e-9)


@each_family
def test_the_whitening_of_a_mixture_is_inverted(family):
    data = Problem(open_rows(rows()), family)
    in_data_units = data.whitening.inverse_transform_parameters(some_components(family, data))
    whitening = whitening_around(in_data_units, family)
    again = whitening.inverse_transform_parameters(whitening.transform_parameters(in_data_units))
    np.testing.assert_allclose(again.means, in_data_units.means, atol=1e-10)
    np.testing.assert_allclose(again.covariances, in_data_units.covariances, rtol=1e-9, atol=1e-10)


@each_family
def test_covariances_have_the_shape_of_their_family(family):
    components = some_components(family, Problem(open_rows(rows()), family))
    assert components.covariances.shape == family.covariance_shape(3, 3)
    spherical = family.from_spherical(np.ones(3), family.identity(3), np.full(3, 1 / 3))
    np.testing.assert_allclose(family.matrices(spherical, 3, 3), [np.eye(3)] * 3)


@each_family
def test_families_know_their_relatives(family):
    for relative in (family.untied, family.with_axes(1), family.with_axes(0)):
        assert relative in FAMILIES.values()
    assert family.untied.untied == family.untied
    assert family.with_axes(1).is_axis_aligned
    assert family.with_axes(0).is_spherical
    if family.shares_covariance:
        assert family.with_axes(0).shares_covariance
    assert family.with_axes(0).shares_covariance == (family.code[0] == "E")


@each_family
def test_covariances_of_components_are_taken_added_and_pooled(family):
    covariances = some_components(family, Problem(open_rows(rows()), family)).covariances
    matrices = family.matrices(covariances, 3, 3)
    order, weights = np.array([2, 0, 1]), np.array([0.2, 0.5, 0.3])
    np.testing.assert_array_equal(family.matrices(family.taken(covariances, order), 3, 3), matrices[order])
    last = family.per_component(covariances)[-1]
    appended = family.matrices(family.appended(covariances, last), 4, 3)
    np.testing.assert_array_equal(appended, np.concatenate([matrices, matrices[-1:]]))
    mean = family.matrices(family.repeated(family.average(covariances, weights), 2), 2, 3)
    np.testing.assert_allclose(mean, [np.tensordot(weights, matrices, axes=1)] * 2)
    columns = family.matrices(family.marginal(covariances, [2, 0]), 3, 2)
    np.testing.assert_array_equal(columns, matrices[:, [2, 0]][:, :, [2, 0]])
    variances = family.diagonals(family.per_component(covariances)).reshape(
        -1, 1 if family.is_spherical else 3
    )
    np.testing.assert_array_equal(variances * np.ones((3, 3)), np.diagonal(matrices, axis1=1, axis2=2))
    assert family.smallest_variance(covariances) == pytest.approx(np.linalg.eigvalsh(matrices).min())


@each_family
@each_prior
def test_statistics_of_components_lead_back_to_them(family, prior):
    data = Problem(open_rows(rows()), family)
    components = some_components(family, data)
    again = family.m_step(family.stats_of(components, 60.0, prior), prior)
    np.testing.assert_allclose(again.means, components.means, atol=1e-10)
    np.testing.assert_allclose(again.covariances, components.covariances, atol=1e-10)


def test_statistics_are_added_scaled_and_indexed():
    array = np.arange(36.0).reshape(2, 3, 6)
    stats = SufficientStats(array, 2)
    np.testing.assert_array_equal(stats.counts, array[:, :, 0])
    np.testing.assert_array_equal(stats.first, array[:, :, 1:3])
    np.testing.assert_array_equal(stats.second, array[:, :, 3:])
    assert len(stats) == 2
    np.testing.assert_array_equal(stats[1][[2, 0]].array, array[1, [2, 0]])
    np.testing.assert_array_equal((stats * 2.0 + stats).array, 3 * array)


@each_family
def test_precisions_and_whiteners_invert_the_covariances(family):
    data = Problem(open_rows(rows()), family)
    covariances = some_components(family, data).covariances
    precisions, whiteners = family.precisions(covariances), family.whiteners(covariances)
    if family.is_axis_aligned:
        np.testing.assert_allclose(precisions * covariances, 1)
        np.testing.assert_allclose(whiteners**2, precisions)
        return
    np.testing.assert_allclose(
        precisions @ covariances, np.broadcast_to(np.eye(3), covariances.shape), atol=1e-9
    )
    np.testing.assert_allclose(whiteners @ np.swapaxes(whiteners, -1, -2), precisions, atol=1e-9)


def test_singular_covariances_are_floored():
    floored = FAMILIES["full"].floored(np.diag([1.0, 0.0, -1e-9])[None])
    assert np.all(np.linalg.eigvalsh(floored) > 0)


@pytest.mark.parametrize(
    ("name", "value"), [("shrinkage", -1.0), ("dof", -1.0), ("scale", np.inf), ("scale", "1")]
)
def test_bad_priors_are_refused(name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        Prior(**{name: value})


def test_posteriors_of_far_rows_are_finite():
    logits = np.array([[[-1e6, 0.0], [-1e6 - 5, 800.0]]])
    responsibilities, density = posteriors(logits)
    np.testing.assert_allclose(responsibilities.sum(axis=1), 1)
    np.testing.assert_allclose(density[0], [-1e6 + np.log1p(np.exp(-5)), 800.0])


def test_parameters_know_whether_they_are_finite():
    good = WhitenedParameters(np.ones(1), np.zeros((1, 2)), np.ones(1))
    assert good.is_finite
    assert not WhitenedParameters(np.ones(1), np.full((1, 2), np.nan), np.ones(1)).is_finite


def test_the_default_prior_of_full_covariances_hardly_widens_thin_clusters():
    # Two clusters, thin in one direction, of 100 rows each: 1% of the spread of all rows.
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    X = rng.standard_normal((200, 2)) * [1.0, 0.1] + np.where(labels[:, None], [0.0, 1.0], [0.0, -1.0])
    family = FAMILIES["full"]
    data = Problem(open_rows(X), family)
    stats = data.hard_stats(labels, 2)
    with_prior = data.whitening.inverse_transform_parameters(family.m_step(stats, Prior())).covariances
    without = data.whitening.inverse_transform_parameters(family.m_step(stats, None)).covariances
    assert np.all(with_prior[:, 1, 1] < 1.15 * without[:, 1, 1])
