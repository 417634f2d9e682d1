"""How much components overlap: beside closed forms and draws."""

import numpy as np
import pytest
from scipy.stats import ncx2, norm
from sklearn.exceptions import NotFittedError

from apolar import GaussianMixture
from apolar.estimator.quadratic_forms import upper_tails
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
        # Five standard errors of a share of 40,000 draws.
        np.testing.assert_allclose(found[i], shares, atol=5 * np.sqrt(0.25 / 40_000))
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


def test_it_does_not_depend_on_units():
    X, _ = example()
    units = np.array([1e-6, 1.0, 1e5, 3.0])
    one = fitted(X).overlap()
    two = fitted(X * units + 7 * units).overlap()
    # The fits end within their tolerance of the optimum.
    np.testing.assert_allclose(one.misclassification, two.misclassification, rtol=1e-3, atol=1e-12)


def test_one_component_and_components_that_are_the_same():
    X, _ = example()
    alone = fitted(X, n_components=1).overlap()
    np.testing.assert_array_equal(alone.bhattacharyya, [[1.0]])
    np.testing.assert_array_equal(alone.misclassification, [[0.0]])
    assert alone.pair() is None
    assert "nothing to overlap" in str(alone)
    model = close_clusters("full")
    model.means_, model.covariances_ = model.means_[[0, 0, 0]], model.covariances_[[0, 0, 0]]
    same = model.overlap()
    np.testing.assert_allclose(same.bhattacharyya, 1.0, rtol=1e-12)
    # All rows go to the one of the larger weight.
    model.weights_ = np.array([0.5, 0.2, 0.3])
    np.testing.assert_array_equal(model.overlap().misclassification, [[0, 0, 0], [1, 0, 1], [1, 0, 0]])


def test_the_pair_that_overlaps_most_is_named_by_numbers_from_one_in_words():
    model = close_clusters("diag")
    found = model.overlap()
    i, j = found.pair()
    assert found.pairwise[i, j] == found.pairwise.max()
    assert f"clusters {i + 1} and {j + 1} overlap most" in str(found)
    assert f"clusters {i + 1} and {j + 1} overlap most" in found._repr_html_()


def test_of_many_components_the_pairs_are_shown():
    labels = np.arange(280) % 14
    X = labels[:, None] + np.random.default_rng(0).standard_normal((280, 2)) / 4
    model = GaussianMixture(14, covariance_type="spherical", init_params=labels).fit(X)
    assert "Bhattacharyya" in str(model.overlap())


def test_noise_is_left_out():
    X, _ = example()
    X = np.vstack([X, np.random.default_rng(0).uniform(-20, 20, (40, 4))])
    assert fitted(X, "spherical", noise=True).overlap().misclassification.shape == (3, 3)


def test_an_unfitted_mixture_has_no_overlap():
    with pytest.raises(NotFittedError):
        GaussianMixture(2).overlap()


# --- quadratic forms -------------------------------------------------------------------------


def test_tails_of_one_square_are_those_of_the_normal():
    rng = np.random.default_rng(0)
    coefficients = rng.standard_normal((200, 3)) * 10 ** rng.uniform(-2, 2, (200, 3))
    a, b, c = coefficients.T
    # Above zero outside of the roots if a > 0, between them if not.
    roots = np.sqrt(np.maximum(b**2 - 4 * a * c, 0))
    low, high = np.sort([(-b - roots) / (2 * a), (-b + roots) / (2 * a)], axis=0)
    inside = norm.cdf(high) - norm.cdf(low)
    expected = np.where(a > 0, 1 - inside, inside)
    # To rounding, of roots too.
    np.testing.assert_allclose(upper_tails(a[:, None], b[:, None], c), expected, atol=1e-10)


@pytest.mark.parametrize("n_terms", [2, 3, 10, 100])
def test_tails_of_sums_of_squares_are_those_of_chi_squared(n_terms):
    offsets = np.linspace(0.1, 0.5, n_terms)
    centrality = np.sum(offsets**2)
    values = (n_terms + centrality) * np.array([0.2, 0.7, 1.0, 1.5, 4.0])
    squares, linear = np.ones((5, n_terms)), np.tile(2 * offsets, (5, 1))
    found = upper_tails(squares, linear, centrality - values)
    # Relative: of small probabilities too, down to 1e-50.
    np.testing.assert_allclose(found, ncx2.sf(values, n_terms, centrality), rtol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_tails_of_forms_of_both_signs_are_those_of_draws(seed):
    rng = np.random.default_rng(seed)
    for n_terms in (2, 5, 20):
        squares = rng.standard_normal(n_terms) * 10 ** rng.uniform(-2, 2, n_terms)
        linear = rng.standard_normal(n_terms) * 10 ** rng.uniform(-2, 2, n_terms)
        draws = rng.standard_normal((50_000, n_terms))
        forms = draws**2 @ squares + draws @ linear
        constants = -np.quantile(forms, [0.1, 0.5, 0.97])
        found = upper_tails(np.tile(squares, (3, 1)), np.tile(linear, (3, 1)), constants)
        # Five standard errors of a share of 50,000 draws.
        np.testing.assert_allclose(found, [0.9, 0.5, 0.03], atol=5 * 0.5 / np.sqrt(50_000))


@pytest.mark.parametrize(
    ("squares", "linear", "constant"),
    [
        # The first two have no value above zero but for rounding, the third only ten million deviations away.
        (
            [
                *(-4.2156280453103237e18, -2.380286126485208e18, -1.391094127324913e18),
                *(-2.0302052779673555e17, -1.0581323297380938e17),
            ],
            [
                *(1.0674173916412338e18, -2.496424139573499e18, 1.6101199440769744e17),
                *(1.5451849279506086e19, 1.1924748366897797e18),
            ],
            -2.980957116327276e20,
        ),
        (
            [-1.6187213861456052e16, -47695.88643215847],
            [-8.55691581322548e17, 14.366058568381575],
            -1.1308432825641622e19,
        ),
        ([-9999959901.411013], [-1.9999959908165747e17], -1.0000000005794942e24),
    ],
)
def test_a_tail_that_is_lost_in_rounding_is_zero(squares, linear, constant):
    assert upper_tails(np.array([squares]), np.array([linear]), np.array([constant]))[0] == 0
