"""A fit with a noise component: recovery, labels of -1, files, streams, starts, and refusals."""

import numpy as np
import pytest
from scipy import sparse

from apolar import GaussianMixture
from apolar.mixture.families import family
from apolar.mixture.parameters import NoiseBox
from apolar.scores import adjusted_rand_index
from mixtures import FAMILY_NAMES, pairs


def noisy(n=400, n_noise=40, seed=0):
    """Return three clusters with rows of noise after them, and the labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    means = np.array([[0.0, 0, 0, 0], [9, 0, 1, 0], [0, 9, 0, 2]])
    X = means[labels] + rng.standard_normal((n, 4))
    noise = rng.uniform(X.min(axis=0) - 3, X.max(axis=0) + 3, (n_noise, 4))
    return np.vstack([X, noise]), np.append(labels, np.full(n_noise, -1))


def fitted(X, name="full", **kwargs):
    return GaussianMixture(3, covariance_type=name, random_state=0, **{"noise": True, **kwargs}).fit(X)


@pytest.mark.parametrize(("name", "noise"), pairs(FAMILY_NAMES[::2], [True, 0.2, np.True_]))
def test_noise_is_found_and_clusters_are_those_of_the_clean_rows(name, noise):
    X, labels = noisy()
    is_noise = labels < 0
    model = fitted(X, name, noise=noise)
    predicted = model.predict(X)
    assert predicted.dtype == np.int64
    assert set(predicted) == {-1, 0, 1, 2}
    clean = fitted(X[~is_noise], name, noise=False).predict(X[~is_noise])
    of_clean = adjusted_rand_index(labels[~is_noise], clean)
    assert adjusted_rand_index(labels[~is_noise], predicted[~is_noise]) > of_clean - 0.02
    assert np.mean(predicted[is_noise] == -1) >= 0.9
    assert np.mean(predicted[~is_noise] == -1) <= 0.02
    # The standard error of a share of 40 in 440 is 0.014.
    assert model.noise_weight_ == pytest.approx(40 / 440, abs=0.03)
    assert model.weights_.sum() + model.noise_weight_ == pytest.approx(1)
    # The weight and the volume of the noise count as parameters.
    assert model.n_parameters_ == family(name).n_parameters(3, 4) + 2
    assert model.bic(X) == pytest.approx(model.n_parameters_ * np.log(440) - 2 * 440 * model.score(X))


def test_probabilities_leave_that_of_the_noise():
    X, _ = noisy()
    model = fitted(X)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (len(X), 3)
    of_noise = 1 - probabilities.sum(axis=1)
    assert of_noise.min() > -1e-12
    predicted = model.predict(X)
    is_noise = of_noise > probabilities.max(axis=1)
    np.testing.assert_array_equal(predicted == -1, is_noise)
    np.testing.assert_array_equal(predicted[~is_noise], probabilities.argmax(axis=1)[~is_noise])
    np.testing.assert_array_equal(fitted(X).fit_predict(X), predicted)


def test_far_rows_have_the_density_of_the_noise():
    X, _ = noisy()
    model = fitted(X)
    far = np.full((1, 4), 1e6)
    expected = np.log(model.noise_weight_) - model.noise_box_.log_volume
    assert model.score_samples(far)[0] == pytest.approx(expected)
    assert model.predict(far)[0] == -1
    assert model.score_samples(X).mean() == pytest.approx(model.score(X)) == pytest.approx(model.lower_bound_)


def test_without_noise_there_is_none():
    X, _ = noisy(n_noise=0)
    model = fitted(X, noise=False)
    assert (model.noise_weight_, model.noise_box_) == (0, None)
    assert model.weights_.sum() == pytest.approx(1)
    # Of clean rows, next to none are noise.
    assert fitted(X, noise=True).noise_weight_ < 0.005


def test_samples_hold_noise_in_its_box():
    X, _ = noisy()
    model = fitted(X)
    drawn, labels = model.sample(4000)
    assert drawn.shape == (4000, 4)
    assert np.mean(labels == -1) == pytest.approx(model.noise_weight_, abs=0.02)
    np.testing.assert_array_equal(np.sort(labels[labels >= 0]), labels[labels >= 0])
    box, noise = model.noise_box_, drawn[labels == -1]
    edges = np.diag(box.edges) if box.edges.ndim == 1 else box.edges
    inside = np.linalg.solve(edges.T, (noise - box.origin).T)
    assert inside.min() > -1e-9
    assert inside.max() < 1 + 1e-9
    assert inside.std() == pytest.approx(np.sqrt(1 / 12), rel=0.1)


def test_a_turned_box_holds_its_rows_in_any_units():
    edges = np.array([[2.0, 1, 0], [0, 3, 1], [-1, 0, 4]])
    box, units = NoiseBox(np.array([5.0, -1, 2]), edges), np.array([10.0, 0.1, 3])
    rows = box.sample(500, np.random.default_rng(0))
    inside = np.linalg.solve(edges.T, (rows - box.origin).T)
    # To rounding.
    assert inside.min() > -1e-12
    assert inside.max() < 1 + 1e-12
    scaled = box.rescaled(units)
    np.testing.assert_allclose(scaled.sample(500, np.random.default_rng(0)), rows * units)
    assert scaled.log_volume == pytest.approx(box.log_volume + np.log(units).sum())


@pytest.mark.parametrize("start", ["auto", "moments", "overseed", "kmeans", "mbhc", "emem"])
def test_starts_see_the_rows_without_noise(start):
    X, labels = noisy(n_noise=25)
    # Far rows, which k-means would give clusters of their own.
    X[labels < 0] = 100 * (X[labels < 0] - X.mean(axis=0))
    model = fitted(X, "diag", init_params=start)
    predicted = model.predict(X)
    assert adjusted_rand_index(labels[labels >= 0], predicted[labels >= 0]) > 0.98
    assert np.all(predicted[labels < 0] == -1)


def test_far_rows_do_not_set_the_scale():
    X, labels = noisy(n_noise=25)
    # Covariances are shrunk towards a scale of all rows, which would be that of the far ones.
    X[labels < 0] *= 1e4
    model = fitted(X, "diag", prior="conjugate")
    clean = fitted(X[labels >= 0], "diag", prior="conjugate", noise=False)
    np.testing.assert_allclose(model.covariances_, clean.covariances_, rtol=0.2)


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_labels_of_minus_one_start_as_noise():
    X, labels = noisy()
    model = fitted(X, init_params=labels, max_iter=1)
    assert model.noise_weight_ == pytest.approx(40 / 440, abs=0.01)
    with pytest.raises(ValueError, match="4 different labels"):
        GaussianMixture(3, init_params=labels).fit(X)
    probabilities = fitted(X).predict_proba(X)
    again = fitted(X, init_params=probabilities)
    assert again.lower_bound_ == pytest.approx(fitted(X).lower_bound_, abs=1e-4)
    with pytest.raises(ValueError, match="add up at most to one"):
        GaussianMixture(3, noise=True, init_params=probabilities + 0.5).fit(X)


def test_a_stream_follows_the_noise():
    X, labels = noisy(9000, 900)
    order = np.random.default_rng(0).permutation(len(X))
    X, labels = X[order], labels[order]
    model = GaussianMixture(3, covariance_type="diag", noise=True, random_state=0)
    for part in np.array_split(X, 9):
        model.partial_fit(part)
    assert model.noise_weight_ == pytest.approx(900 / 9900, abs=0.02)
    assert model.weights_.sum() + model.noise_weight_ == pytest.approx(1)
    predicted = model.predict(X)
    assert np.mean(predicted[labels < 0] == -1) > 0.9
    continued = fitted(X[:4000], "diag").partial_fit(X[4000:])
    assert continued.noise_weight_ == pytest.approx(900 / 9900, abs=0.02)


@pytest.mark.parametrize("name", ["full", "tied_diag", "spherical", "EVE"])
def test_standard_errors_are_those_of_known_components(name):
    X, _ = noisy(seed=1)
    model = fitted(X, name, prior=None, tol=1e-9)
    errors = model.standard_errors(X)
    # If the component of each row were known; noise within clusters makes them somewhat larger.
    known = np.sqrt(model.noise_weight_ * (1 - model.noise_weight_) / len(X))
    assert known < errors.noise_weight < 1.3 * known
    known = np.sqrt(model.weights_ * (1 - model.weights_) / len(X))
    assert np.all((errors.weights > 0.99 * known) & (errors.weights < 1.3 * known))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_few_rows_with_a_weight_and_rows_whose_squares_underflow():
    X = np.random.default_rng(0).standard_normal((20, 3))
    tiny = np.arange(24.0).reshape(12, 2) * 1e-200
    cases = [(X, "full", np.arange(20) < n) for n in (1, 2, 3)]
    for rows, name, weights in (*cases, (tiny, "spherical", None), (tiny, "full", None)):
        model = GaussianMixture(
            1, covariance_type=name, noise=0.2 if weights is None else 0.4, random_state=0
        )
        model.fit(rows, sample_weight=weights)
        assert np.all(np.isfinite(model.score_samples(rows)))


def test_a_row_of_weight_two_is_two_rows():
    X, _ = noisy()
    weights = np.random.default_rng(1).integers(1, 4, len(X))
    ours = GaussianMixture(3, noise=True, random_state=0).fit(X, sample_weight=weights)
    theirs = fitted(np.repeat(X, weights, axis=0))
    # Quartiles, by which columns are scaled, are those of the rows without weights.
    assert ours.noise_weight_ == pytest.approx(theirs.noise_weight_, abs=0.02)
    assert ours.n_samples_seen_ == theirs.n_samples_seen_


def test_the_box_is_the_smaller_of_two_in_any_units():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(500, 2)) * [4.0, 0.25]
    box = GaussianMixture(1, noise=0.1).fit(X).noise_box_
    assert box.log_volume == pytest.approx(np.log(np.ptp(X, axis=0)).sum(), abs=0.05)
    turned = X @ [[0.8, 0.6], [-0.6, 0.8]]
    # As mclust's hypvol, but of standardised columns, whose axes are not quite those of the rectangle.
    box = GaussianMixture(1, noise=0.1).fit(turned).noise_box_
    assert box.log_volume < np.log(np.ptp(turned, axis=0)).sum() - 0.5
    other = GaussianMixture(1, noise=0.1).fit(turned * [1e-6, 1e5]).noise_box_
    assert other.log_volume == pytest.approx(box.log_volume + np.log(0.1), rel=1e-9)


def test_wide_sparse_rows_are_refused_with_the_remedy():
    rows = sparse.eye_array(50, 20_000, format="csr")
    with pytest.raises(ValueError, match="project them on fewer columns"):
        GaussianMixture(2, covariance_type="spherical", noise=True).fit(rows)


def test_a_warm_start_continues_with_and_without_noise():
    X, _ = noisy()
    model = fitted(X)
    model.set_params(warm_start=True, noise=False).fit(X)
    assert (model.weights_.sum(), model.noise_weight_) == (pytest.approx(1), 0)
    model.set_params(noise=True).fit(X)
    assert model.noise_weight_ == pytest.approx(40 / 440, abs=0.03)
