"""Mixtures of every family from moments alone."""

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import apolar
from apolar.mixture.families import family as family_of
from apolar.mixture.parameters import MixtureParameters
from apolar.recovery.family_mixtures import needed_order
from apolar.recovery.moment_fit import (
    Parametrisation,
    component_moments,
    powers_up_to,
    sampling_covariance,
)
from recovery.moment_problems import as_mixture, drawn, largest_error, population, random_mixture

WITHIN_LIMITS = [
    ("diag", 2, 4), ("diag", 5, 10), ("diag", 7, 12), ("diag", 4, 3),
    ("tied", 2, 1), ("tied", 3, 2), ("tied", 3, 10), ("tied", 5, 5),
    ("spherical", 5, 3), ("spherical", 3, 2), ("spherical", 2, 1), ("spherical", 4, 6),
    ("full", 2, 4), ("full", 3, 3), ("full", 2, 1),
]  # fmt: skip


CASES = [(*case, case[2]) for case in WITHIN_LIMITS]
CASES += [(*case, seed) for case in (("diag", 4, 8), ("tied", 3, 5)) for seed in range(15)]


@pytest.mark.parametrize(("family", "n_components", "n_features", "seed"), CASES)
def test_population_moments_give_the_mixture_back(family, n_components, n_features, seed):
    truth = random_mixture(family, n_features, n_components, np.random.default_rng(seed))
    moments = population(truth, needed_order(family, n_components, n_features))
    found = apolar.mixture_from_moments(moments, n_components, covariance_type=family)
    assert largest_error(truth, found) < 1e-8
    assert found.status is apolar.MixtureStatus.VALID


def test_tied_mixtures_follow_affine_maps():
    rng = np.random.default_rng(5)
    X = drawn(random_mixture("tied", 4, 3, rng), 5000, rng)
    matrix, offset = rng.standard_normal((4, 4)) + 2 * np.eye(4), 100 * rng.standard_normal(4)
    found = apolar.mixture_from_moments(X, 3, covariance_type="tied")
    mapped = apolar.mixture_from_moments(X @ matrix.T + offset, 3, covariance_type="tied")
    # Both end where less than a thousandth of a squared standard error is left to gain: a per cent of it.
    np.testing.assert_allclose(mapped.weights, found.weights, atol=1e-3)
    deviations = np.sqrt(np.diag(mapped.covariances))
    np.testing.assert_allclose(mapped.means, found.means @ matrix.T + offset, atol=0.02 * deviations.max())


def test_diagonal_mixtures_follow_the_units_and_order_of_columns():
    rng = np.random.default_rng(6)
    X = drawn(random_mixture("diag", 6, 3, rng), 5000, rng)
    units, order = 10.0 ** rng.uniform(-3, 3, 6), rng.permutation(6)
    found = apolar.mixture_from_moments(X, 3, covariance_type="diag")
    scaled = apolar.mixture_from_moments(X * units, 3, covariance_type="diag")
    np.testing.assert_allclose(scaled.means, found.means * units, rtol=1e-6, atol=1e-6 * units.max())
    np.testing.assert_allclose(scaled.covariances, found.covariances * units**2, rtol=1e-5)
    extreme = apolar.mixture_from_moments(X * 1e120, 3, covariance_type="diag")
    np.testing.assert_allclose(extreme.means / 1e120, found.means, rtol=1e-6)
    permuted = apolar.mixture_from_moments(X[:, order], 3, covariance_type="diag")
    np.testing.assert_allclose(permuted.weights, found.weights, atol=2e-3)
    np.testing.assert_allclose(permuted.means, found.means[:, order], atol=0.02)


@pytest.mark.parametrize("family", ["diag", "tied"])
def test_samples_are_fitted_about_as_well_as_by_their_likelihood(family):
    rng = np.random.default_rng(11)
    X = drawn(random_mixture(family, 6, 3, rng), 20_000, rng)
    found = as_mixture(apolar.mixture_from_moments(X, 3, covariance_type=family))
    gm = apolar.GaussianMixture(3, covariance_type=family, prior=None, random_state=0).fit(X)
    components = zip(found.weights, found.means, found.covariances, strict=True)
    logs = [np.log(weight) + multivariate_normal(*normal).logpdf(X) for weight, *normal in components]
    # Maximum likelihood gains half a nat per parameter; the moments lose as much, times their efficiency.
    assert gm.score(X) * len(X) - np.logaddexp.reduce(logs).sum() < 3 * gm.n_parameters_


ROWS = np.random.default_rng(0).standard_normal((300, 12))


@pytest.mark.parametrize(
    ("rows", "n_components", "family", "message"),
    [
        (ROWS[:, :3], 5, "tied", "at most 4"),
        (ROWS[:, :10], 9, "diag", "order four or more"),
        (ROWS[:, :8], 2, "full", "6 columns or fewer"),
        (apolar.MomentSketch(3).update(ROWS[:, :3]), 2, "tied", "make the sketch with order 4"),
        (apolar.MomentSketch(3).update(ROWS[:, :3]), 5, "spherical", "make the sketch with order 4"),
        (ROWS[:, [0, 1, 2, 0]], 2, "tied", "linear function"),
        (np.insert(ROWS[:, :3], 1, 7.0, axis=1), 2, "diag", "Column 1 is constant"),
    ],
)
def test_what_moments_do_not_determine_is_refused(rows, n_components, family, message):
    with pytest.raises(ValueError, match=message):
        apolar.mixture_from_moments(rows, n_components, covariance_type=family)


def test_bad_choices_are_refused():
    wrong = (
        (ValueError, "No candidate", [2], "full"),
        (ValueError, "at least one", []),
        (TypeError, "int", 2.5),
    )
    for error, message, *arguments in wrong:
        with pytest.raises(error, match=message):
            apolar.select_from_moments(ROWS[:, :8], *arguments)
    assert apolar.select_from_moments(ROWS[:, :3], np.int64(1), "diag").best.n_components == 1


def test_too_few_rows_are_said():
    rng = np.random.default_rng(1)
    X = drawn(random_mixture("full", 2, 3, rng, separation=2.0), 60, rng)
    found = apolar.mixture_from_moments(X, 3, covariance_type="full")
    assert found.status is not apolar.MixtureStatus.VALID
    assert np.linalg.eigvalsh(as_mixture(found).covariances).min() > 0


@pytest.mark.parametrize("family", ["spherical", "diag", "tied"])
def test_family_and_number_are_chosen_from_moments_alone(family):
    rng = np.random.default_rng(9)
    X = drawn(random_mixture(family, 4, 3, rng), 20_000, rng)
    sketch = apolar.MomentSketch(4, order=4).update(X)
    chosen = apolar.select_from_moments(sketch, range(2, 5), ("spherical", "diag", "tied"))
    assert (chosen.best.covariance_type, chosen.best.n_components) == (family, 3)
    assert len(chosen.table) == 9
    other = {"diag": "tied", "tied": "spherical", "spherical": "tied"}[family]
    assert chosen.best.p_value > 1e-3
    assert apolar.mixture_from_moments(sketch, 3, covariance_type=other).p_value < 1e-6


def test_spherical_components_have_variances_however_many_there_are():
    X, _ = apolar.datasets.make_example(1, 2000, random_state=0)
    assert "The moments gave a valid mixture" in apolar.mixture_from_moments(X, 4)._repr_html_()
    few, many = (apolar.mixture_from_moments(X[:, :2], r) for r in (2, 3))
    for mixture in (few, many):
        assert mixture.variances.shape == mixture.weights.shape
        assert np.all(mixture.variances > 0)
    with pytest.raises(AttributeError, match="covariances"):
        _ = apolar.mixture_from_moments(X, 2, covariance_type="tied").variances


# --- moments of mixtures, their derivatives and sampling errors -----------------------------------


def test_moments_are_those_of_the_normal_distribution():
    mixture = random_mixture("full", 2, 3, np.random.default_rng(0))
    # Gauss's rule of five nodes is exact up to degree nine.
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    z = np.array(list(itertools.product(nodes, nodes)))
    weights = np.outer(weights, weights).ravel() / (2 * np.pi)
    powers = powers_up_to(2, 4)
    for mean, matrix, moments in zip(
        mixture.means, mixture.covariances, component_moments(mixture, 4), strict=True
    ):
        x = mean + z @ np.linalg.cholesky(matrix).T
        expected = weights @ np.prod(x[:, None] ** powers, axis=2)
        np.testing.assert_allclose(moments, [*expected, 0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", ["spherical", "diag", "full", "tied"])
def test_parameters_give_the_mixture_and_its_moments_derivatives(family):
    parametrisation = Parametrisation(family, 2, 3)
    vector = parametrisation.vector(random_mixture("full", 3, 2, np.random.default_rng(1)))
    np.testing.assert_allclose(parametrisation.vector(parametrisation.mixture(vector))[2:], vector[2:])
    assert family_of(family).n_parameters(2, 3) == len(vector) - 1
    kept, step = np.arange(1, len(powers_up_to(3, 4))), 1e-6
    _, derivatives = parametrisation.moments(vector, 4, kept)
    for column, direction in enumerate(np.eye(len(vector)) * step):
        forward, _ = parametrisation.moments(vector + direction, 4, kept)
        backward, _ = parametrisation.moments(vector - direction, 4, kept)
        difference = (forward - backward) / (2 * step)
        # Rounding of the moments, divided by the step.
        tolerance = 1e-15 * np.abs(forward).max() / step * 10 + 1e-7
        np.testing.assert_allclose(derivatives[:, column], difference, atol=tolerance)


@pytest.mark.parametrize("n_averaged", [None, 3])
def test_sampling_errors_are_those_of_rows(n_averaged):
    rng = np.random.default_rng(4)
    mixture = random_mixture("spherical", 3, 2, rng, separation=2.0)
    mixture.means[:, 2] = 0
    powers = powers_up_to(3, 3)
    kept = np.flatnonzero((powers[:, -1] % 2 == 0) & (powers.sum(axis=1) > 0))
    expected = sampling_covariance(mixture, 3, kept, n_averaged)
    # The last column, or the root mean square of three such columns.
    columns = [0, 1] + [2] * (n_averaged or 1)
    matrices = mixture.covariances[:, :1, :1] * np.eye(len(columns))
    X = drawn(MixtureParameters(mixture.weights, mixture.means[:, columns], matrices), 200_000, rng)
    seen = np.column_stack([X[:, :2], np.sqrt(np.mean(X[:, 2:] ** 2, axis=1))])
    observed = np.cov([np.prod(seen**row, axis=1) for row in powers[kept]])
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # Correlations of 200,000 rows, of products with long tails: about one per cent.
    np.testing.assert_allclose(observed / scale, expected / scale, atol=0.05)
