"""How much components overlap: beside closed forms and draws."""

import numpy as np
import pytest
from scipy.stats import norm

from apolar import GaussianMixture
from apolar.mixture.families import family
from estimator.clusters import each_family, example, fitted


def close_clusters(name, n_features=3, n=600):
    """Return a mixture of three clusters that overlap, fitted from their labels."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 3
    means = np.array([[0.0, 0, 0], [2, 0, 1], [0, 2, 0]])
    spreads = np.array([[0.6, 1, 1.4], [1, 1, 1], [2, 0.5, 1]])
    X = (means[labels] + rng.standard_normal((n, 3)) * spreads[labels])[:, :n_features]
    return GaussianMixture(3, covariance_type=name, init_params=labels, random_state=0).fit(X)


@each_family
def test_misclassification_is_that_of_draws(name):
    model, rng = close_clusters(name), np.random.default_rng(1)
    found = model.overlap().misclassification
    matrices = family(name).matrices(model.covariances_, 3, 3)
    for i in range(3):
        rows = rng.multivariate_normal(model.means_[i], matrices[i], 40_000)
        densities = model.predict_proba(rows)
        shares = np.mean(densities > densities[:, [i]], axis=0)
        # Five standard errors of a share of 40,000 draws, and of the estimate.
        np.testing.assert_allclose(found[i], shares, atol=5 * np.sqrt(0.25 / 40_000 + 0.25 / 2**14))
        assert shares.max() > 0.02


@each_family
def test_the_coefficient_of_bhattacharyya_is_its_integral(name):
    model = close_clusters(name, 2)
    found = model.overlap().bhattacharyya
    # The trapezoidal rule on a grid that is fine beside the narrowest component, and wide beside the widest.
    axis = np.linspace(-16, 16, 801)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    joint = model.predict_proba(grid) * np.exp(model.score_samples(grid))[:, None] / model.weights_
    integrals = np.sqrt(joint).T @ np.sqrt(joint) * (axis[1] - axis[0]) ** 2
    np.testing.assert_allclose(found, integrals, atol=1e-6)


def test_of_equal_covariances_it_is_a_closed_form():
    model = close_clusters("tied_spherical")
    deviation = np.sqrt(model.covariances_)
    distance = np.linalg.norm(model.means_[0] - model.means_[1]) / deviation
    ratio = np.log(model.weights_[1] / model.weights_[0])
    found = model.overlap()
    # To rounding.
    assert found.misclassification[0, 1] == pytest.approx(
        norm.cdf(ratio / distance - distance / 2), rel=1e-10
    )
    assert found.bhattacharyya[0, 1] == pytest.approx(np.exp(-(distance**2) / 8), rel=1e-10)


def test_the_estimate_is_as_near_to_the_truth_as_it_says():
    # One column: the share is that between the two roots of a quadratic equation.
    model = GaussianMixture(2, covariance_type="spherical").fit(np.array([[0.0], [0.1], [9.0], [9.2]]))
    model.weights_, model.means_ = np.array([0.7, 0.3]), np.array([[0.0], [1.5]])
    model.covariances_ = np.array([4.0, 0.25])
    found = model.overlap()
    # log(w1 f1 / w0 f0) = a x^2 + b x + c, which is above zero between the roots.
    a, b = 0.5 * (1 / 4 - 1 / 0.25), 1.5 / 0.25
    c = np.log(0.3 / 0.7) + 0.5 * np.log(4.0 / 0.25) - 0.5 * 1.5**2 / 0.25
    inside = [np.diff(norm.cdf(np.sort(np.roots([a, b, c])), *each))[0] for each in ((0, 2), (1.5, 0.5))]
    exact, errors = [inside[0], 1 - inside[1]], found.standard_error[[0, 1], [1, 0]]
    assert np.all(np.abs(found.misclassification[[0, 1], [1, 0]] - exact) < 3 * errors)
    assert 0 < errors.max() < 0.004


def test_one_component_and_components_that_are_the_same():
    X, _ = example()
    alone = fitted(X, n_components=1).overlap()
    np.testing.assert_array_equal(alone.bhattacharyya, [[1.0]])
    np.testing.assert_array_equal(alone.misclassification, [[0.0]])
    assert alone.pair() is None
    assert "no overlap" in str(alone)
    model = close_clusters("full")
    model.means_, model.covariances_ = model.means_[[0, 0, 0]], model.covariances_[[0, 0, 0]]
    same = model.overlap()
    np.testing.assert_allclose(same.bhattacharyya, 1.0, rtol=1e-12)
    # All rows go to the one of the larger weight.
    model.weights_ = np.array([0.5, 0.2, 0.3])
    np.testing.assert_array_equal(model.overlap().misclassification, [[0, 0, 0], [1, 0, 1], [1, 0, 0]])


def test_the_pair_that_overlaps_most_is_named_by_numbers_from_one_in_words():
    found = close_clusters("diag").overlap()
    i, j = found.pair()
    assert found.pairwise[i, j] == found.pairwise.max()
    for text in (str(found), found._repr_html_()):
        assert f"clusters {i + 1} and {j + 1} overlap most" in text
    labels = np.arange(280) % 14
    X = labels[:, None] + np.random.default_rng(0).standard_normal((280, 2)) / 4
    many = GaussianMixture(14, covariance_type="spherical", init_params=labels).fit(X)
    assert "Bhattacharyya" in str(many.overlap())


def test_noise_is_left_out():
    X, _ = example()
    X = np.vstack([X, np.random.default_rng(0).uniform(-20, 20, (40, 4))])
    assert fitted(X, "spherical", noise=True).overlap().misclassification.shape == (3, 3)
