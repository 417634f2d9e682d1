"""Covariances of few factors, against SciPy's densities and scikit-learn's models of one component."""

import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.decomposition import FactorAnalysis

import apolar
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture import Prior
from apolar.mixture.families import family

NAMES = ["factor", "ppca", "factor_tied_noise", "ppca_tied_noise"]
each_family = pytest.mark.parametrize("name", NAMES)


def low_rank_rows(n_rows, n_features, n_components, n_factors, seed=0):
    """Return rows of components of few factors, which also differ in their means, and their components."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((n_components, n_features, n_factors))
    means, noise = 0.7 * rng.standard_normal((n_components, n_features)), rng.uniform(0.5, 1.5, n_features)
    labels = np.arange(n_rows) % n_components
    factors = rng.standard_normal((n_rows, n_factors))
    rows = means[labels] + np.einsum("nmq,nq->nm", loadings[labels], factors)
    return rows + noise * rng.standard_normal(rows.shape), labels


def soft_example(name):
    rows, _ = low_rank_rows(80, 6, 3, 2)
    problem = Problem(open_rows(rows), family(name, None, 2))
    shares = np.random.default_rng(1).dirichlet(np.ones(3), 80).T
    return problem, problem.mixture_of(shares, None)


@each_family
def test_densities_statistics_and_gradients_are_those_of_the_covariance_matrices(name):
    problem, mixture = soft_example(name)
    rows, kind = problem.whitened_rows().T, problem.family
    matrices = kind.matrices(mixture.covariances, 3, 6)
    parts = zip(mixture.weights, mixture.means, matrices, strict=True)
    each = np.stack([np.log(w) + multivariate_normal(mean, matrix).logpdf(rows) for w, mean, matrix in parts])
    natural = problem.natural(mixture)
    np.testing.assert_allclose(problem.row_logits(natural, slice(None)), each, rtol=1e-9)
    np.testing.assert_allclose(kind.log_det(mixture.covariances, 6), np.linalg.slogdet(matrices)[1])
    # The objective is linear in the expected statistics of rows and factors, up to the entropy.
    stats, likelihood = problem.e_step(mixture[None])
    shares = np.exp(each - np.logaddexp.reduce(each))
    entropy = -np.sum(shares * np.log(shares))
    assert (natural * stats.array).sum() + entropy == pytest.approx(float(likelihood[0]))
    # Central differences are accurate to the square of the step.
    coordinates = problem.coordinates(mixture)
    direction = np.random.default_rng(2).standard_normal(len(coordinates.origin))
    slope = coordinates.gradient(coordinates.origin, mixture, stats[0], None) @ direction
    ends = [problem.e_step(coordinates.retract(h * direction)[None])[1][0] for h in (1e-5, -1e-5)]
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-5, abs=1e-4)


@each_family
def test_steps_of_em_do_not_lower_the_likelihood(name):
    problem, mixture = soft_example(name)
    likelihoods = []
    for _ in range(20):
        stats, likelihood = problem.e_step(mixture[None])
        likelihoods.append(float(likelihood[0]))
        mixture = problem.m_step(stats[0], None)
    assert np.all(np.diff(likelihoods) > -1e-9 * np.abs(likelihoods[-1]))


def test_one_component_is_factor_analysis_and_principal_components():
    rows, _ = low_rank_rows(300, 12, 1, 3)
    settings = {"n_factors": 3, "tol": 1e-6, "random_state": 0}
    ours = apolar.GaussianMixture(covariance_type="factor", **settings).fit(rows)
    theirs = FactorAnalysis(3, tol=1e-12, max_iter=100_000, svd_method="lapack").fit(rows)
    assert ours.score(rows) == pytest.approx(theirs.score(rows), abs=1e-6)
    ours = apolar.GaussianMixture(covariance_type="ppca", **settings).fit(rows)
    # In closed form [tipping1999]: the leading eigenvalues of the covariance, and the mean of the others.
    values = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1]
    log_det = np.log(values[:3]).sum() + 9 * np.log(values[3:].mean())
    assert ours.score(rows) == pytest.approx(-0.5 * (12 * np.log(2 * np.pi) + log_det + 12), abs=1e-6)
    np.testing.assert_allclose(ours.noise_variances_, values[3:].mean(), rtol=1e-4)


@pytest.mark.parametrize(("shape", "n_factors"), [((300, 20, 2), 3), ((120, 200, 2), 2)])
def test_the_number_of_factors_and_the_clusters_are_found(shape, n_factors):
    rows, labels = low_rank_rows(*shape, n_factors)
    mixture = apolar.GaussianMixture(shape[2], covariance_type="factor", random_state=0).fit(rows)
    assert mixture.n_factors_ == n_factors
    assert mixture.loadings_.shape == (shape[2], shape[1], n_factors)
    assert apolar.scores.adjusted_rand_index(labels, mixture.labels_) > 0.95
    diagonal = apolar.GaussianMixture(shape[2], covariance_type="diag", random_state=0).fit(rows)
    assert mixture.loo_ > diagonal.loo_


@pytest.mark.parametrize("law", [apolar.GaussianMixture, partial(apolar.StudentMixture, dof=20.0)])
@pytest.mark.parametrize("name", ["factor", "ppca_tied_noise"])
def test_rows_left_out_are_about_as_likely_as_under_mixtures_fitted_without_them(name, law):
    rows, labels = low_rank_rows(60, 5, 2, 1)
    settings = {"covariance_type": name, "n_factors": 1, "random_state": 0, "tol": 1e-5}
    mixture = law(2, init_params=labels, **settings).fit(rows)
    some = np.arange(0, 60, 7)
    refitted = []
    for row in some:
        others = np.arange(60) != row
        shares = mixture.predict_proba(rows[others])
        left = law(2, init_params=shares, **settings).fit(rows[others])
        refitted.append(left.score_samples(rows[[row]])[0])
    seen, without = mixture.score_samples(rows)[some], mixture.loo_samples(rows)[some]
    # Of what is lost, the closed form leaves out how the responsibilities of other rows change.
    assert (seen - without).sum() == pytest.approx((seen - refitted).sum(), rel=0.25)
    assert np.corrcoef(seen - without, seen - refitted)[0, 1] > 0.9
    assert mixture.loo_samples(rows).sum() == pytest.approx(mixture.loo_)


def test_more_columns_than_rows_take_no_matrix_of_all_columns():
    rows, labels = low_rank_rows(60, 2000, 2, 2)
    mixture = apolar.GaussianMixture(2, covariance_type="ppca", n_factors=2, random_state=0)
    tracemalloc.start()
    mixture.fit(rows)
    drawn, _ = mixture.sample(5)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 2000**2 / 2
    assert apolar.scores.adjusted_rand_index(labels, mixture.labels_) == 1
    assert np.all(np.isfinite(mixture.score_samples(drawn)))


def test_a_fitted_mixture_answers_as_full_covariances_do():
    rows, _ = low_rank_rows(200, 6, 2, 2)
    mixture = apolar.GaussianMixture(2, covariance_type="factor", n_factors=2, random_state=0).fit(rows)
    full = mixture.to_sklearn()
    np.testing.assert_allclose(full.score_samples(rows), mixture.score_samples(rows))
    # The inverse of a covariance is diag(1 / P) - W W^t.
    first, others = mixture.precisions_[0, :, 0], mixture.precisions_[0, :, 1:]
    np.testing.assert_allclose(np.diag(first) - others @ others.T, full.precisions_[0], atol=1e-9)
    marginal = mixture.marginal([0, 3])
    np.testing.assert_allclose(marginal.to_sklearn().covariances_, full.covariances_[:, [0, 3]][:, :, [0, 3]])
    assert mixture.conditional([0], [1.0]).covariance_type == "full"
    assert mixture.n_parameters_ == 1 + 12 + 2 * (12 - 1 + 6)
    drawn, _ = mixture.sample(20_000)
    covariance = full.covariances_[0] * full.weights_[0] + full.covariances_[1] * full.weights_[1]
    offsets = full.means_ - full.weights_ @ full.means_
    covariance += (full.weights_[:, None] * offsets).T @ offsets
    # Variances of 20,000 rows have a relative error of about 1%.
    assert np.abs(np.cov(drawn.T) - covariance).max() < 0.06 * np.diag(covariance).max()
    assert "factor covariances" in str(mixture.summary(rows))
    assert mixture.overlap().misclassification.shape == (2, 2)


def test_weights_noise_tails_and_given_starts():
    rows, labels = low_rank_rows(200, 8, 2, 1)
    settings = {"covariance_type": "factor", "n_factors": 1, "random_state": 0}
    counts = np.arange(200) % 3
    weighted = apolar.GaussianMixture(2, init_params=labels, **settings).fit(rows, sample_weight=counts)
    repeated = apolar.GaussianMixture(2, init_params=labels.repeat(counts), **settings)
    repeated.fit(rows.repeat(counts, axis=0))
    assert weighted.score(rows) == pytest.approx(repeated.score(rows), abs=1e-3)
    far = np.concatenate([rows, np.random.default_rng(0).uniform(-12, 12, (20, 8))])
    noisy = apolar.GaussianMixture(2, noise=True, **settings).fit(far)
    assert 0.05 < noisy.noise_weight_ < 0.15
    assert np.mean(noisy.labels_[-20:] == -1) > 0.8
    heavy = rows * np.sqrt(4 / np.random.default_rng(0).chisquare(4, (200, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", apolar.LongTailsWarning)
        gaussian = apolar.GaussianMixture(2, **settings).fit(heavy)
    student = apolar.StudentMixture(2, **settings).fit(heavy)
    assert student.loo_ > gaussian.loo_
    given = apolar.GaussianMixture(2, means_init=weighted.means_, **settings).fit(rows)
    assert apolar.scores.adjusted_rand_index(given.labels_, weighted.labels_) > 0.9


@pytest.mark.parametrize(
    ("parameters", "fit", "message"),
    [
        ({"n_factors": 4}, {}, "more columns than factors"),
        ({"n_factors": 0}, {}, "n_factors"),
        ({"prior": Prior(shrinkage=0.1)}, {}, "shrinkage=0"),
        ({"precisions_init": np.ones((2, 4, 2))}, {}, "means_init"),
        ({}, {"fixed": {"covariances": np.ones((2, 4, 2))}}, "cannot be fixed"),
        ({}, {"missing": True}, "MixtureImputer"),
    ],
)
def test_what_few_factors_do_not_take_is_refused_with_a_remedy(parameters, fit, message):
    rows, _ = low_rank_rows(50, 4, 2, 1)
    rows[0, 0] = np.nan if fit.pop("missing", False) else rows[0, 0]
    settings = {"n_factors": 1, **parameters}
    with pytest.raises(ValueError, match=message):
        apolar.GaussianMixture(2, covariance_type="factor", random_state=0, **settings).fit(rows, **fit)


def test_what_needs_more_than_a_fit_is_refused_with_a_remedy():
    rows, labels = low_rank_rows(50, 4, 2, 1)
    mixture = apolar.GaussianMixture(2, covariance_type="ppca", n_factors=1, random_state=0).fit(rows)
    with pytest.raises(ValueError, match="stability"):
        mixture.standard_errors(rows)
    with pytest.raises(ValueError, match="use fit"):
        mixture.partial_fit(rows)
    with pytest.raises(ValueError, match="use GaussianMixture"):
        apolar.BayesianGaussianMixture(2, covariance_type="ppca").fit(rows)
    with pytest.raises(ValueError, match="without classes"):
        apolar.MixtureClassifier(covariance_type="ppca").fit(rows, labels)
