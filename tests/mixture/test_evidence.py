"""The evidence against numerical integration and closed forms."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import betaln
from scipy.stats import invgamma, invwishart, norm

from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture.families import FAMILIES, conjugate_terms
from apolar.mixture.prior import STRENGTHS, AdaptivePrior, common_covariance, log_evidence


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
