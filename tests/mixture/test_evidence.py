"""The evidence against numerical integration and closed forms."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import betaln
from scipy.stats import invgamma, invwishart, norm

from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, evidence_of, run
from apolar.mixture.families import FAMILIES, conjugate_terms
from apolar.mixture.prior import STRENGTHS, AdaptivePrior, common_covariance, log_evidence
from mixtures import FAMILY_NAMES, pairs


def log_integral(values, strength, n_columns=1):
    """Return log of the integral of the densities of some values over their variance, drawn around one."""
    dof = n_columns * strength + 2
    log_variances = np.linspace(-12, 12, 4001)
    variances = np.exp(log_variances)
    of_values = norm.logpdf(values[:, None], scale=np.sqrt(variances)).sum(axis=0)
    logs = of_values + invgamma.logpdf(variances, dof / 2, scale=(dof - 2) / 2) + log_variances
    return logs.max() + np.log(trapezoid(np.exp(logs - logs.max()), log_variances))


@pytest.mark.parametrize("strength", [1.25, 7.0, 150.0])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_the_variance_of_a_component_is_integrated_out(strength, n_columns):
    # The rows less one, as their mean is estimated too; each has so many values.
    values = np.random.default_rng(0).standard_normal((5, n_columns)) * 0.6
    expected = {
        "spherical": log_integral(values.ravel(), strength, n_columns),
        "diag": sum(log_integral(column, strength) for column in values.T),
    }
    spectra = {"spherical": np.array([[np.sum(values**2)]]), "diag": np.sum(values**2, axis=0)[None]}
    for name, spectrum in spectra.items():
        given = np.array([6.0]), spectrum, np.array([strength]), n_columns
        assert FAMILIES[name].log_marginal(*given)[0] == pytest.approx(expected[name])


@pytest.mark.parametrize("n_features", [1, 2, 4])
def test_the_covariance_of_a_component_is_integrated_out(n_features):
    # The density is that of the rows, times that of the prior, over that of the posterior, at any covariance.
    rng = np.random.default_rng(1)
    values = rng.standard_normal((6, n_features)) @ rng.standard_normal((n_features, n_features))
    scatter, strength = values.T @ values, 3.0
    dof, target = strength + n_features + 1, strength * np.eye(n_features)
    covariance = np.atleast_2d(np.cov(rng.standard_normal((n_features, 30))))
    _, log_det = np.linalg.slogdet(2 * np.pi * covariance)
    of_rows = -0.5 * (len(values) * log_det + np.trace(np.linalg.solve(covariance, scatter)))
    of_prior = invwishart.logpdf(covariance, dof, target)
    of_posterior = invwishart.logpdf(covariance, dof + len(values), target + scatter)
    given = np.array([7.0]), np.linalg.eigvalsh(scatter)[None], np.array([strength]), n_features
    assert FAMILIES["full"].log_marginal(*given)[0] == pytest.approx(of_rows + of_prior - of_posterior)


def test_two_components_have_the_evidence_of_their_integrals():
    # So far apart that responsibilities are zero or one.
    X = np.concatenate([np.linspace(-1, 1, 9), 1e3 + np.linspace(-2, 2, 7)])[:, None]
    data, labels = Problem(open_rows(X), FAMILIES["spherical"]), np.repeat([0, 1], [9, 7])
    stats = data.hard_stats(labels, 2)
    parameters = data.family.m_step(stats, AdaptivePrior())[None]
    value = log_evidence(data.family, parameters, *data.e_step(parameters))[0]
    rows = data.whitened_rows()[0]
    target = common_covariance(data.family, stats, conjugate_terms(data.family, 2, 1))
    # The weight of one component has the density of Beta(1/2, 1/2), and its rows are in any order.
    expected = betaln(9.5, 7.5) - betaln(0.5, 0.5) - 0.5 * np.log(len(rows))
    by_strength = np.zeros(len(STRENGTHS))
    for k, count in enumerate([9, 7]):
        values = rows[labels == k]
        # The mean, under its prior and at the cost of one of all rows.
        expected += norm.logpdf(values.mean()) - 0.5 * np.log(len(rows))
        # As many values of the same squares as there are without the mean, in deviations of the target.
        scatter = np.sum((values - values.mean()) ** 2) / target[k]
        values = np.full(count - 1, np.sqrt(scatter / (count - 1)))
        by_strength += [log_integral(values, strength) for strength in STRENGTHS]
        expected -= 0.5 * (count - 1) * np.log(target[k])
    assert value == pytest.approx(expected + by_strength.max(), rel=1e-6)


@pytest.mark.parametrize("names", [("full", "tied"), ("diag", "tied_diag"), ("spherical", "tied_spherical")])
def test_one_component_has_the_same_evidence_whether_covariances_are_shared_or_not(names):
    X = np.random.default_rng(2).standard_normal((3000, 3)) @ np.diag([1.0, 2, 3])
    values = []
    for name in names:
        data = Problem(open_rows(X), FAMILIES[name])
        start = Fit(data.family.m_step(data.soft_stats(np.ones((1, 3000))), None), "")
        values.append(evidence_of(data, run(data, [start], None, Stop(20, gain=1e-6))[0]))
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize(("name", "max_iter"), pairs(FAMILY_NAMES, [0, 1, 4, 100, 4]))
def test_a_result_has_the_evidence_of_its_mixture_wherever_it_ends(name, max_iter):
    rng = np.random.default_rng(3)
    data = Problem(open_rows(rng.standard_normal((90, 3)) + 2 * np.eye(3)[np.arange(90) % 3]), FAMILIES[name])
    prior = AdaptivePrior()
    start = Fit(data.family.m_step(data.soft_stats(rng.dirichlet(np.ones(3), 90).T), prior), "")
    result = run(data, [start], prior, Stop(max_iter, gain=1e-3))[0]
    parameters = result.parameters[None]
    # The same sums in another order.
    expected = log_evidence(data.family, parameters, *data.e_step(parameters))[0]
    assert evidence_of(data, result) == pytest.approx(expected, rel=1e-10)
