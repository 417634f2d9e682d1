"""What a fitted mixture answers: samples, criteria, regressions, outliers, overlap."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, norm
from sklearn.exceptions import NotFittedError

import apolar
from apolar import GaussianMixture
from estimator.clusters import example, fitted
from mixtures import matrices_of


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_spherical", "VVE"])
def test_samples_have_the_parameters_of_the_mixture(name):
    X, _ = example()
    model = fitted(X, name)
    rows, labels = model.sample(40_000)
    assert np.all(np.diff(labels) >= 0)
    again = GaussianMixture(3, covariance_type=name, means_init=model.means_).fit(rows)
    np.testing.assert_allclose(again.weights_, model.weights_, atol=0.02)
    np.testing.assert_allclose(again.covariances_, model.covariances_, atol=0.12)


def test_criteria_agree_with_their_definitions():
    X, _ = example()
    model = fitted(X, "spherical")
    log_likelihood, n_parameters = model.score_samples(X).sum(), 3 * 6 - 1
    assert model.n_parameters_ == n_parameters
    assert model.bic(X) == pytest.approx(n_parameters * np.log(len(X)) - 2 * log_likelihood)
    assert model.aic(X) == pytest.approx(2 * n_parameters - 2 * log_likelihood)
    assert model.icl(X) >= model.bic(X)


def test_an_unfitted_mixture_says_so():
    of_rows = [(name, example()) for name in ("predict", "predict_proba", "score_samples", "bic")]
    others = [("sample", [3]), ("overlap", []), ("marginal", [0]), ("summary", [])]
    for method, arguments in (*of_rows, ("standard_errors", example()), *others):
        with pytest.raises(NotFittedError):
            getattr(GaussianMixture(), method)(*arguments[:1])


X, _ = example()


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_spherical", "VVE"])
def test_it_is_the_mean_and_the_deviation_of_the_conditional_mixture(name):
    model = fitted(X, name)
    found = model.regress([2, 0], X[:6, [2, 0]])
    assert found.columns == (1, 3)
    for row in range(6):
        alone = model.conditional([2, 0], X[row, [2, 0]])
        mean = alone.weights_ @ alone.means_
        variances = np.diagonal(matrices_of(alone), axis1=1, axis2=2)
        second = alone.weights_ @ (alone.means_**2 + variances)
        # Rounding, of columns of a few units.
        np.testing.assert_allclose(found.mean[row], mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.deviations[row] ** 2, second - mean**2, rtol=1e-8)


def test_it_is_what_impute_puts_in_place_of_missing_values():
    model = fitted(X, "full")
    holed = X.copy()
    holed[:, [0, 3]] = np.nan
    # Known values may be missing too.
    holed[::5, 1] = np.nan
    found = model.regress([1, 2], holed[:, [1, 2]])
    np.testing.assert_allclose(found.mean, model.impute(holed)[:, [0, 3]], rtol=1e-12)
    assert np.all(found.deviations > 0)


def test_columns_by_name_chunks_and_single_columns():
    table = pd.DataFrame(X, columns=list("abcd"))
    model = fitted(table, "diag")
    found = model.regress(["d", "a"], table[["d", "a"]])
    np.testing.assert_allclose(found.mean, model.regress([3, 0], X[:, [3, 0]]).mean, rtol=1e-12)
    chunks = model.regress(["d", "a"], iter(np.array_split(X[:, [3, 0]], 4)))
    np.testing.assert_allclose(chunks.mean, found.mean, rtol=1e-12)
    one = model.regress("b", X[:, 1])
    assert one.mean.shape == (len(X), 3)
    np.testing.assert_allclose(one.mean, model.regress("b", X[:, [1]]).mean, rtol=1e-12)
    assert model.regress("b", X[:, [1]].astype(np.float32)).mean.dtype == np.float32
    with pytest.raises(ValueError, match="feature names should match"):
        model.regress(["d", "a"], table[["a", "d"]])


def test_what_makes_no_sense_is_refused():
    model = fitted(X)
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.regress([0, 1], X)
    with pytest.raises(ValueError, match="leave at least one"):
        model.regress([0, 1, 2, 3], X)
    with pytest.raises(ValueError, match="infin"):
        model.regress([0], np.array([np.inf, 1.0]))
    with pytest.raises(NotFittedError):
        GaussianMixture().regress([0], X[:, 0])


FAMILIES = ("full", "tied_diag", "spherical", "VEV")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    return np.vstack([rng.standard_normal((200, 3)) * [1, 2, 5], rng.normal([9, 0, 0], 1, (100, 3))])


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_distance_is_that_of_the_nearest_component(rows, kind):
    gm = apolar.GaussianMixture(2, covariance_type=kind, random_state=0).fit(rows)
    far = np.vstack([rows[3:], [[1e6, 1e6, 1e6], [30, 0, 0], [9, 0, 1e200]]])
    offsets = far[:, None] - gm.means_
    with np.errstate(over="ignore"):
        distances = np.einsum("nki,kij,nkj->nk", offsets, np.linalg.inv(matrices_of(gm)), offsets).min(axis=1)
    limit = chi2.isf(-np.expm1(np.log1p(-0.05) / len(rows)), 3)
    # Of the rows of the fit: one that is far takes the place of three of them.
    np.testing.assert_array_equal(gm.outliers(far)[-3:], ~(distances <= limit)[-3:])
    distances = distances[:-3]
    assert not np.any(gm.outliers(rows)[3:] != (distances > limit))
    assert gm.outliers(far)[-3:].all()


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_new_rows_have_outliers_as_often_as_the_level_says(kind):
    # By the law of known parameters 71% of new tables have an outlier, where covariances are full.
    rng, found = np.random.default_rng(0), []
    for _ in range(30):
        rows = rng.standard_normal((2, 60, 8))
        rows[:, 30:] += 20.0 * (kind == "tied")
        gm = apolar.GaussianMixture(1 + (kind == "tied"), covariance_type=kind, prior=None, random_state=0)
        found.append(gm.fit(rows[0]).outliers(rows[1]).any())
    # 30 tables, of which 5% have an outlier: a deviation of 4%.
    assert abs(np.mean(found) - 0.05) < 0.12


def test_the_rows_of_the_fit_are_known():
    X = np.random.default_rng(0).standard_normal((16, 4))
    X[0] = 30.0
    gm = apolar.GaussianMixture(1, prior=None).fit(X)
    # A new row as far as the most that a row of the fit can be is none.
    assert gm.outliers(X, level=0.5)[0]
    assert not gm.outliers(X[:1], level=0.5)[0]


@pytest.mark.parametrize("level", [0, 1, -0.1, 2])
def test_a_level_that_is_no_probability_is_refused(rows, level):
    gm = apolar.GaussianMixture(1, random_state=0).fit(rows)
    with pytest.raises(ValueError, match="between 0 and 1"):
        gm.outliers(rows, level=level)
    with pytest.raises(TypeError, match="must be a number"):
        gm.outliers(rows, level="high")


@pytest.mark.filterwarnings("ignore:Row 300 is more than 100 standard deviations")
def test_a_row_with_a_component_of_its_own_is_an_outlier(rows):
    far = np.vstack([rows, [[1e6, 1e6, 1e6]]])
    gm = apolar.GaussianMixture(3, random_state=0).fit(far)
    assert gm.predict_proba(far)[-1].max() > 0.99
    assert gm.outliers(far)[-1]
    assert gm.outliers(far).sum() < 5


def close_clusters(name, n_features=3, n=600):
    """Return a mixture of three clusters that overlap, fitted from their labels."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 3
    means = np.array([[0.0, 0, 0], [2, 0, 1], [0, 2, 0]])
    spreads = np.array([[0.6, 1, 1.4], [1, 1, 1], [2, 0.5, 1]])
    X = (means[labels] + rng.standard_normal((n, 3)) * spreads[labels])[:, :n_features]
    return GaussianMixture(3, covariance_type=name, init_params=labels, random_state=0).fit(X)


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_spherical", "VVE"])
def test_misclassification_is_that_of_draws(name):
    model, rng = close_clusters(name), np.random.default_rng(1)
    found = model.overlap().misclassification
    matrices = matrices_of(model)
    for i in range(3):
        rows = rng.multivariate_normal(model.means_[i], matrices[i], 40_000)
        densities = model.predict_proba(rows)
        shares = np.mean(densities > densities[:, [i]], axis=0)
        # Five standard errors of a share of 40,000 draws, and of the estimate.
        np.testing.assert_allclose(found[i], shares, atol=5 * np.sqrt(0.25 / 40_000 + 0.25 / 2**14))
        assert shares.max() > 0.02


@pytest.mark.parametrize("name", ["EII", "VVI", "EEE", "VVV"])
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


@pytest.mark.parametrize("cls", [GaussianMixture, apolar.StudentMixture])
def test_quantiles_and_probabilities_of_a_column_are_inverse(cls):
    X, _ = example()
    part = cls(3, random_state=0).fit(X).marginal(1)
    p = np.linspace(0.001, 0.999, 101).reshape(1, -1)
    values = part.quantile(p)
    assert values.shape == p.shape
    assert np.all(np.diff(values[0]) > 0)
    # Up to the rounding of the values.
    np.testing.assert_allclose(part.cdf(values[0]), p[0], atol=1e-12)
    x = np.linspace(*part.quantile([0.0005, 0.9995]), 20_001)
    summed = np.cumsum(np.exp(part.score_samples(x[:, None]))) * (x[1] - x[0])
    np.testing.assert_allclose(part.cdf(x) - 0.0005, summed, atol=1e-3)
    assert part.quantile([0, 1]).tolist() == [-np.inf, np.inf]


def test_quantiles_of_several_columns_are_refused():
    X, _ = example()
    model = GaussianMixture(3, random_state=0).fit(X)
    for call in (lambda: model.cdf([1.0]), lambda: model.quantile(0.5)):
        with pytest.raises(ValueError, match=r"marginal\(0\)"):
            call()
    part = model.marginal(0)
    with pytest.raises(ValueError, match="from 0 to 1; got 2"):
        part.quantile([0.5, 2])
    with pytest.raises(ValueError, match="one column"):
        part.cdf(X)
    noisy = GaussianMixture(2, noise=True, random_state=0).fit(X[:, :1])
    with pytest.raises(ValueError, match="noise=False"):
        noisy.quantile(0.5)
