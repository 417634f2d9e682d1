"""EM: against mclust and scikit-learn, monotone, to the optimum, off plateaus and saddles."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.em.quadratic_models import principal_curvatures
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


def test_passes_are_counted_and_bounded_and_a_callback_sees_each_and_can_stop():
    X, _ = apolar.datasets.make_example(1, 300, random_state=0)
    data = Problem(open_rows(X), FAMILIES["full"])
    labels = np.random.default_rng(0).integers(0, 4, 300)
    start = [Fit(data.family.m_step(data.hard_stats(labels, 4), Prior()), "")]
    for most in (1, 2, 5):
        fit = run(data, start, Prior(), Stop(most, gain=1e-12))[0]
        assert fit.n_iter == len(fit.history) == most
        assert fit.status is FitStatus.MAX_ITER
    seen = []

    def callback(fit):
        seen.append(fit.objective)
        return len(seen) == 4

    fit = run(data, start, Prior(), Stop(50, gain=1e-12), callback=callback)[0]
    assert fit.status is FitStatus.STOPPED
    assert len(seen) == fit.n_iter == 4


def test_the_remaining_gain_is_that_of_newtons_method():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    values = -np.array([0.0, 1e-4, 0.01, 0.2, 0.5, 0.8, 0.9, 1.0])
    hessian = (axes * values) @ axes.T
    gradient = axes[:, 1:] @ rng.standard_normal(7)

    def model(sign):
        known = gradient, axes[:, 0]
        curvatures, directions = principal_curvatures(lambda x: gradient + sign * hessian @ x, *known)
        slopes = directions @ gradient
        return curvatures, 0.5 * np.sum(slopes**2 / -curvatures), (slopes / -curvatures) @ directions

    expected = np.linalg.pinv(-hessian) @ gradient
    curvatures, gain, step = model(1)
    assert curvatures[-1] < 0
    # Gradient differences lose half the digits.
    assert gain == pytest.approx(0.5 * gradient @ expected, rel=1e-3)
    np.testing.assert_allclose(step, expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())
    # A direction in which the function rises is found by the first few products.
    assert 0.1 < model(-1)[0][-1] < 1 + 1e-6
