"""EM: against mclust and scikit-learn, monotone, to the optimum, off plateaus and saddles."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import Stop, run
from apolar.mixture import Prior
from apolar.mixture.families import FAMILIES
from apolar.mixture.parameters import MixtureParameters
from em_steps import plain_em
from references import EM_CASES, mclust_case


def start_of(reference, data, prior):
    """Return the mixture from which mclust's iterations start, after a first M-step."""
    family, start = data.family, reference["start"]
    if "labels" in start:
        return family.m_step(data.hard_stats(np.array(start["labels"]) - 1, reference["G"]), prior)
    in_data_units = MixtureParameters(*(np.array(start[name]) for name in ("pro", "mean", "sigmasq")))
    stats, _ = data.e_step(data.whitening.transform_parameters(in_data_units)[None])
    return family.m_step(stats[0], prior)


@pytest.mark.parametrize("case", EM_CASES)
def test_iterations_are_those_of_mclust(case):
    reference, X = mclust_case(case)
    prior = Prior(shrinkage=0.01) if "prior" in reference else None
    data = Problem(open_rows(X), FAMILIES["VII"])
    offset = data.whitening.log_det * data.weight
    for name, ended in reference["runs"].items():
        start = Fit(start_of(reference, data, prior), "")
        fit = plain_em(data, start, prior, relative_tol=ended["tol"], max_iter=ended["itmax"])
        mixture = data.whitening.inverse_transform_parameters(fit.parameters)
        assert fit.log_likelihood + offset == pytest.approx(ended["loglik"], rel=1e-8)
        if name in ("it1", "it5"):
            assert fit.n_iter == ended["iterations"]
            np.testing.assert_allclose(mixture.weights, ended["pro"], rtol=1e-8)
            np.testing.assert_allclose(mixture.means, ended["mean"], rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(mixture.covariances, ended["sigmasq"], rtol=1e-8)
    # The accelerated fit ends where mclust does.
    fit = run(data, [Fit(start_of(reference, data, prior), "")], prior, Stop(1000, gain=1e-7))[0]
    assert fit.status is FitStatus.CONVERGED
    assert fit.log_likelihood + offset == pytest.approx(reference["runs"]["tight"]["loglik"], rel=1e-8)


@pytest.mark.parametrize("name", ["full", "tied", "diag", "spherical"])
def test_iterations_are_those_of_scikit_learn(name):
    X, labels = apolar.datasets.make_example(2, 400, random_state=0)
    family = FAMILIES[name]
    data = Problem(open_rows(X), family)
    first = family.m_step(data.hard_stats(labels, 3), None)
    start = data.whitening.inverse_transform_parameters(first)
    theirs = TheirMixture(
        3, covariance_type=name, tol=0, max_iter=5, reg_covar=0, weights_init=start.weights,
        means_init=start.means, precisions_init=family.precisions(start.covariances),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.fit(X)
    (fit,) = run(data, [Fit(first, "")], None, Stop(5))
    mixture = data.whitening.inverse_transform_parameters(fit.parameters)
    np.testing.assert_allclose(mixture.weights, theirs.weights_, rtol=1e-8)
    np.testing.assert_allclose(mixture.means, theirs.means_, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(mixture.covariances, theirs.covariances_, rtol=1e-8, atol=1e-8)


def test_plateaus_and_saddles_do_not_end_a_fit():
    # From this start plain EM crosses a plateau of 1500 steps, beside a saddle.
    X, _ = apolar.datasets.make_example(2, 1000, random_state=0)
    data = Problem(open_rows(X), FAMILIES["spherical"])
    labels = KMeans(3, n_init=1, random_state=0).fit_predict(X)
    start = data.family.m_step(data.hard_stats(labels, 3), Prior())
    slow = plain_em(data, Fit(start, ""), Prior(), relative_tol=0.0, max_iter=1000)
    fit = run(data, [Fit(start, "")], Prior(), Stop(300, gain=1e-3), checked_on=data)[0]
    assert fit.status is FitStatus.CONVERGED
    assert fit.objective > slow.objective + 5
