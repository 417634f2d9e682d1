"""Standard errors from the information and by resampling."""

import numpy as np
import pytest

from apolar import GaussianMixture
from apolar.data import open_rows
from apolar.em.coordinates import LocalCoordinates
from apolar.em.problem import Problem
from apolar.exceptions import ComponentError
from apolar.mixture.families import family
from mixtures import each_family

pytestmark = pytest.mark.filterwarnings("ignore::apolar.ApolarWarning")


def optimum(X, labels, name, *, prior=None, sample_weight=None, **settings):
    """Return the mixture that EM reaches from labels."""
    settings = {"tol": 1e-8, "random_state": 0, "prior": prior} | settings
    model = GaussianMixture(int(np.max(labels)) + 1, covariance_type=name, init_params=labels, **settings)
    return model.fit(X, sample_weight=sample_weight)


def clusters(separation, counts=(300, 200), seed=0):
    """Return two clusters of unit variance in the plane, so many deviations apart."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], counts)
    X = rng.standard_normal((len(labels), 2)) + 3.0
    X[:, 0] += separation * labels
    return X, labels


@each_family
def test_one_component_has_the_errors_of_the_textbook(name):
    rng = np.random.default_rng(1)
    n, m = 150, 3
    X = rng.standard_normal((n, m)) @ rng.standard_normal((m, m)) + [1.0, 100.0, -5.0]
    model = GaussianMixture(1, covariance_type=name, prior=None).fit(X)
    errors = model.standard_errors(X)
    S = family(name).matrices(model.covariances_, 1, m)[0]
    v = np.diag(S)
    expected = {
        "full": np.sqrt((np.outer(v, v) + S**2) / n),
        "diag": v * np.sqrt(2 / n),
        "spherical": v[0] * np.sqrt(2 / (n * m)),
    }
    assert errors.covariances.shape == np.shape(model.covariances_)
    # What is left is the square of the step of the differences.
    np.testing.assert_allclose(errors.means[0], np.sqrt(v / n), rtol=1e-7)
    found, untied = errors.covariances.ravel(), family(name).untied.name
    np.testing.assert_allclose(found, np.ravel(expected[untied]), rtol=1e-7)
    assert errors.weights == [0.0]
    assert errors.information_condition == pytest.approx(1.0, abs=1e-6)


def hessian(function, theta, step):
    steps = step * np.eye(len(theta))
    out = np.empty((len(theta), len(theta)))
    for i, a in enumerate(steps):
        for j, b in enumerate(steps[: i + 1]):
            rise = function(theta + a + b) - function(theta + a - b)
            rise -= function(theta - a + b) - function(theta - a - b)
            out[i, j] = out[j, i] = rise / (4 * step**2)
    return out


@each_family
def test_two_components_agree_with_a_plain_hessian(name):
    X, labels = clusters(3.0, (200, 120))
    X[labels == 1] = X[labels == 1] @ [[1.5, 0.3], [0.3, 0.5]]
    model = optimum(X, labels, name)
    errors = model.standard_errors(X)
    data = Problem(open_rows(X), family(name))
    centre = data.whitening.transform_parameters(model._state.parameters)
    coordinates = LocalCoordinates(data.family, centre, data.weight)

    def values(tangent):
        moved = data.whitening.inverse_transform_parameters(coordinates.retract(tangent))
        return np.concatenate([moved.weights, moved.means.ravel(), moved.covariances.ravel()])

    def likelihood(tangent):
        return float(data.e_step(coordinates.retract(tangent)[None])[1][0])

    size = len(coordinates.origin)
    # The weights do not change along the null direction: it is held.
    null = coordinates.null_direction / np.linalg.norm(coordinates.null_direction)
    information = -hessian(likelihood, coordinates.origin, step=0.02) + np.outer(null, null)
    slopes = np.stack([(values(s) - values(-s)) / 2e-3 for s in 1e-3 * np.eye(size)])
    expected = np.sqrt(np.diag(slopes.T @ np.linalg.inv(information) @ slopes))
    ours = np.concatenate([errors.weights, errors.means.ravel(), errors.covariances.ravel()])
    # The differences of the test itself.
    np.testing.assert_allclose(ours, expected, rtol=5e-3, atol=1e-6)


def test_a_weight_of_two_is_the_row_twice_and_units_are_those_of_the_data():
    X, labels = clusters(3.0)
    model = optimum(X, labels, "diag")
    once = model.standard_errors(X)
    scaled = optimum(10 * X + 7, labels, "diag").standard_errors(10 * X + 7)
    same = model.standard_errors(X, np.full(len(X), 2.0)), model.standard_errors(np.concatenate([X, X]))
    for power, name in enumerate(("weights", "means", "covariances")):
        expected = getattr(once, name)
        np.testing.assert_allclose(getattr(scaled, name), 10**power * expected, rtol=1e-5)
        for other in same:
            np.testing.assert_allclose(getattr(other, name), expected / np.sqrt(2), rtol=1e-6)


def moved(model, **parameters):
    """Return a fitted mixture with some of its parameters changed."""
    for name, value in parameters.items():
        setattr(model, f"{name}_", np.asarray(value))
    return model


def test_a_saddle_is_refused():
    X, labels = clusters(6.0)
    mean, covariance = X.mean(axis=0), np.cov(X.T, bias=True)
    # Two components in the one place: stationary, and no maximum.
    model = optimum(X, labels, "full")
    saddle = moved(model, weights=[0.5, 0.5], means=[mean] * 2, covariances=[covariance] * 2)
    with pytest.raises(ComponentError, match="not at a maximum .* more iterations, a smaller tol"):
        saddle.standard_errors(X)


def test_components_that_are_the_same_are_refused():
    X = np.random.default_rng(0).standard_normal((200, 2))
    one = GaussianMixture(1, covariance_type="tied", prior=None).fit(X)
    model = optimum(X, np.arange(200) % 2, "tied", max_iter=0)
    same = moved(model, weights=[0.5, 0.5], means=one.means_[[0, 0]], covariances=one.covariances_)
    message = r"^Cluster \d \(means_\[\d\]\) has .* not determine: .* fewer components"
    with pytest.raises(ComponentError, match=message):
        same.standard_errors(X)


def test_a_mixture_of_other_rows_or_of_less_than_a_row_is_refused():
    X, labels = clusters(6.0)
    model = optimum(X, labels, "diag")
    with pytest.raises(ValueError, match="standard errors from the maximum .* weights of the fit"):
        model.standard_errors(X + 0.3)
    # A part of a sum is one only to rounding; less than one is never shown as one.
    for count, message in ((1 - 1e-12, "maximum"), (0.9999, r"Cluster 2 .* holds 0.99 rows")):
        weight = count / len(X)
        with pytest.raises(ValueError, match=message):
            moved(model, weights=[1 - weight, weight]).standard_errors(X)


def test_a_collapsed_component_is_refused():
    X, labels = clusters(6.0)
    X = np.concatenate([X, [[50.0, 50.0]]])
    model = optimum(X, np.append(labels, 2), "full")
    with pytest.raises(ComponentError, match=r"Cluster 3 .* default prior") as refused:
        model.standard_errors(X)
    # By number, so that a report can count from one.
    assert refused.value.component == 2


@pytest.mark.parametrize(("name", "parametric"), [("spherical", False), ("full", False), ("tied", True)])
def test_resamples_agree_with_the_information(name, parametric):
    X, labels = clusters(6.0)
    model = optimum(X, labels, name, tol=1e-3)
    resamples = model.bootstrap(X, parametric=parametric)
    assert resamples.weights.shape == (200, 2)
    assert resamples.covariances.shape == (200, *np.shape(model.covariances_))
    assert resamples.converged.all()
    information, resampled = model.standard_errors(X), resamples.standard_errors()
    assert resampled.information_condition is None
    for part in ("weights", "means", "covariances"):
        # The deviation of 200 values is known to 5 per cent; the rows are one sample of theirs.
        np.testing.assert_allclose(getattr(resampled, part), getattr(information, part), rtol=0.25)
    interval = resamples.interval(0.9)
    assert interval.level == 0.9
    assert np.all(interval.means[0] < model.means_)
    assert np.all(model.means_ < interval.means[1])
    inside = (interval.weights[0] <= resamples.weights) & (resamples.weights <= interval.weights[1])
    np.testing.assert_allclose(inside.mean(axis=0), 0.9, atol=0.01)


@pytest.mark.parametrize("name", ["full", "tied", "spherical", "tied_diag", "VEE", "EVE", "EVI"])
def test_resamples_keep_their_components(name):
    # Of nearly equal weights and apart by three deviations, so that an order by weight would switch.
    X, labels = clusters(3.5, (250, 250))
    model = optimum(X, labels, name, prior="conjugate", tol=1e-3)
    resamples = model.bootstrap(X, n_resamples=20)
    assert np.all(resamples.means[:, 0, 0] < resamples.means[:, 1, 0])


def test_resamples_are_reproducible_and_see_weights():
    X, labels = clusters(5.0)
    weights = np.where(labels == 0, 2.0, 1.0)
    model = optimum(X, labels, "diag", sample_weight=weights)
    first, again, other = (
        model.set_params(random_state=seed).bootstrap(X, weights, n_resamples=10) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first.means, again.means)
    assert np.any(first.means != other.means)
    # 600 of 800 rows.
    np.testing.assert_allclose(first.weights[:, 0].mean(), 0.75, atol=0.02)


def test_what_bootstrap_refuses():
    X, labels = clusters(5.0)
    model = optimum(X, labels, "diag")
    with pytest.raises(ValueError, match="n_resamples must be at least 2"):
        model.bootstrap(X, n_resamples=1)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        model.bootstrap(X, n_resamples=2).interval(95)
